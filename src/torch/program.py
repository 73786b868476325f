"""One training step of «NAME» in PyTorch, written by amp from the manifest.

usage: python3 THIS_FILE [--mode eager|deterministic|compile|reduce-overhead] [--threads N] [--blocks N] [--from FILE.safetensors]

Needs torch alone. Model, loss, batch, precision, clipping and update are those of the manifest; the learning rate is that of its optimizer
node throughout. Without --from, parameters and batches are random ones of the same shapes. `del` lets go what no later line reads, so that
memory is that of a module written by hand. «SERVE»
"""
import argparse, json, math, os, statistics, struct, sys, time

parser = argparse.ArgumentParser()
parser.add_argument("--mode", default="eager", choices=["eager", "deterministic", "compile", "reduce-overhead"])
parser.add_argument("--threads", type=int)
parser.add_argument("--blocks", type=int, default=7)
parser.add_argument("--from", dest="start", help="parameters and batches as safetensors")
parser.add_argument("--whole", action="store_true", help="drop nothing, so that losses can be held against another program's")
parser.add_argument("--serve", action="store_true", help="read what to do from standard input, a JSON object a line")
arguments = parser.parse_args()
# Whoever serves hears of nothing but answers, whatever a library prints.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
if arguments.threads:
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
if arguments.mode == "deterministic":
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
try:
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print(f"this Python has no torch: {missing}", file=sys.stderr)
    sys.exit(77)

DEVICE = "«DEVICE»"
# Gradients that are added up in a step.
GRADIENTS = «GRADIENTS»
# Features and labels of a micro-batch: their shape, and for whole numbers how many there are.
FEATURES, LABELS = «FEATURES», «LABELS»
# Attribute, name, shape, the group of its update (None: never updated), and how it begins where no file says it.
PARAMETERS = [
«PARAMETERS»]
# Running statistics: attribute, name, shape, first value.
BUFFERS = [
«BUFFERS»]
# Settings of the update.
GROUPS = [
«GROUPS»]


«HELPERS»class Step(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for attribute, _, shape, group, _ in PARAMETERS:
            self.register_parameter(attribute, torch.nn.Parameter(torch.empty(shape), requires_grad=group is not None))
        for attribute, _, shape, value in BUFFERS:
            self.register_buffer(attribute, torch.full(shape, value))
«CONSTANTS»
    def forward(self, features, labels):
«FORWARD»

def begin(tensor, rule, value):
    with torch.no_grad():
        if rule == "constant":
            tensor.fill_(value)
        elif rule == "uniform":
            tensor.uniform_(-value, value)
        else:
            tensor.normal_(0, value)


def read(path):
    """The tensors of a safetensors file, whole numbers widened to PyTorch's."""
    kinds = {"F32": torch.float32, "I32": torch.int32}
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
        for name, entry in header.items():
            if name != "__metadata__":
                first, last = entry["data_offsets"]
                file.seek(8 + length + first)
                tensor = torch.frombuffer(bytearray(file.read(last - first)), dtype=kinds[entry["dtype"]])
                tensor = tensor.reshape(entry["shape"])
                yield name, tensor.long() if entry["dtype"] == "I32" else tensor


def drawn(shape, count):
    return torch.randn(shape) if count is None else torch.randint(0, count, shape)


torch.manual_seed(0)
if arguments.threads:
    torch.set_num_threads(arguments.threads)
torch.use_deterministic_algorithms(arguments.mode == "deterministic")
# Nothing here reads what nobody wrote: filling new memory would only cost time.
torch.utils.deterministic.fill_uninitialized_memory = False
torch.backends.cudnn.deterministic = arguments.mode == "deterministic"
torch.backends.cudnn.benchmark = arguments.mode != "deterministic"
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = «TF32»
model, batches = Step(), {}
if arguments.start:
    own = {name: getattr(model, attribute) for attribute, name, *_ in PARAMETERS + BUFFERS}
    with torch.no_grad():
        for name, tensor in read(arguments.start):
            kind, _, rest = name.partition(".")
            if kind == "start":
                own[rest].copy_(tensor)
            else:
                batches[name] = tensor
    steps = len({name.split(".")[1] for name in batches})
    batches = [[(batches[f"features.{step}.{micro}"], batches[f"labels.{step}.{micro}"]) for micro in range(GRADIENTS)]
               for step in range(steps)]
else:
    for attribute, _, _, _, (rule, value) in PARAMETERS:
        begin(getattr(model, attribute), rule, value)
    batches = [[(drawn(*FEATURES), drawn(*LABELS)) for _ in range(GRADIENTS)] for _ in range(16)]
model = model.to(DEVICE«LAYOUT»).train(not arguments.whole)
batches = [[(features.to(DEVICE«BATCH_LAYOUT»), labels.to(DEVICE)) for features, labels in micro] for micro in batches]
call = {"compile": lambda: torch.compile(model), "reduce-overhead": lambda: torch.compile(model, mode="reduce-overhead")}.get(
    arguments.mode, lambda: model)()
groups = [{"params": [getattr(model, attribute) for attribute, _, _, group, _ in PARAMETERS if group == index], **settings}
          for index, settings in enumerate(GROUPS)]
optimizer = torch.optim.«OPTIMIZER»(groups, fused=True)
«SCALER»# Gradients that are added up lie outside of the memory of CUDA graphs, which each micro-batch writes anew.
kept = arguments.mode == "reduce-overhead" and GRADIENTS > 1
for parameter in model.parameters():
    if kept and parameter.requires_grad:
        parameter.grad = torch.zeros_like(parameter)
done = 0


def step():
    """One optimizer step over the next batch; its mean loss, which nobody waits for."""
    global done
    optimizer.zero_grad(set_to_none=not kept)
    total = 0.0
    for features, labels in batches[done % len(batches)]:
        if arguments.mode == "reduce-overhead":
            torch.compiler.cudagraph_mark_step_begin()
        loss = call(features, labels)
        «BACKWARD»
        total = «LOSS»
«UPDATE»    done += 1
    return «GIVES»


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def timed(count):
    """Seconds of so many steps."""
    wait()
    began = time.perf_counter()
    for _ in range(count):
        step()
    wait()
    return time.perf_counter() - began


def peak():
    """The most bytes that this process held: of the device, as its allocator counts them, or of the host, program included."""
    if DEVICE == "cuda":
        return torch.cuda.max_memory_reserved()
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def answer(**found):
    print(json.dumps(found), file=answers, flush=True)


def check(count):
    """The losses of so many steps."""
    losses = [float(step()) for _ in range(count)]
    return [loss if math.isfinite(loss) else None for loss in losses]


if arguments.serve:
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else torch.backends.cpu.get_cpu_capability()
    answer(torch=torch.__version__, device=name, threads=torch.get_num_threads())
    for line in sys.stdin:
        task, count = json.loads(line).popitem()
        if task == "check":
            answer(losses=check(count))
        else:
            answer(seconds=timed(count), peak=peak())
else:
    timed(5)
    count = max(3, int(0.5 / max(timed(5) / 5, 1e-9)))
    times = sorted(timed(count) / count * 1e3 for _ in range(arguments.blocks))
    print(f"torch {torch.__version__}, {arguments.mode}: {statistics.median(times):.3f} ms a step (median of {len(times)}; "
          f"{times[0]:.3f} to {times[-1]:.3f})", file=answers)
