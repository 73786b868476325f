"""amp's training step beside PyTorch's on a CUDA device: step time and peak memory, in turn (A B A B), and amp's bits run to run.

usage: python3 benches/cuda_side_by_side.py OUT.json [--amp target/release/amp] [--rounds 3, or 0 for chains alone] [--chains STEPS] JOB ...
       a JOB is MODEL[@BATCH]:PRECISION:MODE; models: gpt2 bert-base vit-b16 resnet50; precisions: fp32 tf32 fp16 bf16;
       modes of PyTorch: eager deterministic compile reduce-overhead, or none for amp alone

Needs torch, torchvision and transformers. Both sides have the same model, batch, optimizer and precision, and dropout 0; amp's step
is deterministic, uploads its batch and adds the digest of all parameters, as a run does. PyTorch's data is on the device.
Memory is the device's own count of what is in use, context and libraries included.
"""
import argparse, gc, json, os, statistics, subprocess, sys, tempfile

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
LOW = {"fp16": "amp-fp16", "bf16": "amp-bf16", "fp32": "fp32", "tf32": "tf32"}
MANIFEST = """amp 1
run "{name}" seed=42 guarantee="device"
environment "std:environments/cuda"
data "computed" {{
    synthetic examples={examples} {{
        {features}
    }}
    labels {labels}
    batch {batch} shuffle=#false
}}
model {model}
precision "std:precision/{policy}"
{scaler}
optimizer {optimizer}
schedule "std:schedules/constant"
train steps={steps}
"""
TOKENS = "tokens vocabulary={} length={}"
ADAM = '"std:optimizers/adamw" lr=1e-4 weight-decay=0.01'
MODELS = {
    "gpt2": (16, TOKENS.format(50257, 1024), '"next-token"', '"std:models/gpt2" dropout=0.0', ADAM),
    "bert-base": (32, TOKENS.format(30522, 512), '"masked" mask-token=103', '"std:models/bert" dropout=0.0', ADAM),
    "vit-b16": (128, "features 3 224 224", '"classes" classes=1000', '"std:models/vit" classes=1000', ADAM),
    "resnet50": (256, "features 3 224 224", '"classes" classes=1000', '"std:models/resnet" depth=50',
                 '"std:optimizers/sgd" lr=1e-2 momentum=0.9'),
}


def manifest(folder, model, precision, batch, steps):
    default, features, labels, text, optimizer = MODELS[model]
    batch = batch or default
    scaler = 'scaler "std:scalers/dynamic"' if precision == "fp16" else ""
    path = os.path.join(folder, f"{model}-{precision}-{batch}.kdl")
    with open(path, "w") as file:
        file.write(MANIFEST.format(name=f"{model}-{precision}", examples=batch * 4, features=features, labels=labels, batch=batch,
                                   model=text, policy=LOW[precision], scaler=scaler, optimizer=optimizer, steps=steps))
    return path, batch


def amp_bench(amp, path, store):
    command = [amp, "bench", path, "--json", "--device", "cuda", "--blocks", "3", "--store", store]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"error": (done.stdout + done.stderr)[-800:]}
    answer = json.loads(done.stdout)
    return {"ms": answer["milliseconds"]["median"], "memory": answer["device_memory"], "launches": answer["launches"],
            "ops": answer["ops"]}


def amp_chain(amp, path, store):
    command = [amp, "run", path, "--json", "--quiet", "--device", "cuda", "--store", store, "--lockfile", path + ".lock"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"error": (done.stdout + done.stderr)[-800:]}
    answer = json.loads(done.stdout)
    losses = []
    with open(answer["record"]) as record:
        for line in record:
            event = json.loads(line)
            if event["event"] == "step":
                losses.append(event["hashed"]["loss"]["value"])
    return {"chain": answer["result"]["chain"] if "result" in answer else answer.get("chain"),
            "losses": [losses[index] for index in (0, len(losses) // 2, -1)] if losses else None}


TORCH = r'''
import json, sys, gc, torch, torch.nn as nn, torch.nn.functional as F
model, precision, mode, batch = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
dev = "cuda"
class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.ln1 = nn.LayerNorm(d); self.qkv = nn.Linear(d, 3 * d); self.proj = nn.Linear(d, d); self.h = h
        self.ln2 = nn.LayerNorm(d); self.fc = nn.Linear(d, 4 * d); self.out = nn.Linear(4 * d, d)
    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(n, t, 3, self.h, c // self.h).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(n, t, c))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))
class GPT(nn.Module):
    def __init__(self, v=50304, t=1024, d=768, h=12, l=12):
        super().__init__()
        self.wte = nn.Embedding(v, d); self.wpe = nn.Embedding(t, d)
        self.blocks = nn.ModuleList(Block(d, h) for _ in range(l)); self.lnf = nn.LayerNorm(d)
        self.head = nn.Linear(d, v, bias=False); self.head.weight = self.wte.weight
        for p in self.parameters():
            if p.dim() > 1: nn.init.normal_(p, 0, 0.02)
    def forward(self, x, y):
        h = self.wte(x) + self.wpe(torch.arange(x.shape[1], device=x.device))
        for b in self.blocks: h = b(h)
        logits = self.head(self.lnf(h))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))
g = torch.Generator(device=dev).manual_seed(1); torch.manual_seed(0)
if model == "gpt2":
    m = GPT().to(dev); draw = lambda: torch.randint(0, 50257, (batch, 1024), device=dev, generator=g)
    x, y = draw(), draw(); f = lambda m: m(x, y)
elif model == "bert-base":
    from transformers import BertConfig, BertForMaskedLM
    m = BertForMaskedLM(BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)).to(dev)
    x = torch.randint(0, 30522, (batch, 512), device=dev, generator=g); f = lambda m: m(input_ids=x, labels=x).loss
else:
    import torchvision.models as tv
    m = (tv.vit_b_16 if model == "vit-b16" else tv.resnet50)().to(dev)
    x = torch.randn(batch, 3, 224, 224, device=dev, generator=g); y = torch.randint(0, 1000, (batch,), device=dev, generator=g)
    if model == "resnet50": m, x = m.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    f = lambda m: F.cross_entropy(m(x), y)
opt = (torch.optim.SGD(m.parameters(), lr=1e-2, momentum=0.9) if model == "resnet50"
       else torch.optim.AdamW(m.parameters(), lr=1e-4, fused=True))
torch.use_deterministic_algorithms(mode == "deterministic"); torch.backends.cudnn.deterministic = mode == "deterministic"
torch.backends.cudnn.benchmark = mode != "deterministic"
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
call = torch.compile(m) if mode == "compile" else torch.compile(m, mode=mode) if mode == "reduce-overhead" else m
low = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision)
scaler = torch.amp.GradScaler("cuda", enabled=precision == "fp16")
def step():
    opt.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=low or torch.bfloat16, enabled=low is not None): loss = f(call)
    scaler.scale(loss).backward(); scaler.step(opt); scaler.update()
    return loss
for _ in range(5): step()
times = []
for _ in range(15):
    a, b = torch.cuda.Event(True), torch.cuda.Event(True)
    a.record(); loss = step(); b.record(); torch.cuda.synchronize(); times.append(a.elapsed_time(b))
free, whole = torch.cuda.mem_get_info()
times.sort()
print(json.dumps({"ms": times[len(times) // 2], "in_use": whole - free, "allocated": torch.cuda.max_memory_allocated(), "torch": torch.__version__}))
'''


def torch_bench(model, precision, mode, batch):
    done = subprocess.run([sys.executable, "-c", TORCH, model, precision, mode, str(batch)], capture_output=True, text=True)
    if done.returncode:
        return {"error": done.stderr[-400:]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--amp", default="target/release/amp")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chains", type=int, default=0)
    parser.add_argument("jobs", nargs="+")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        for job in arguments.jobs:
            name, precision, mode = job.split(":")
            model, _, batch = name.partition("@")
            path, batch = manifest(folder, model, precision, int(batch or 0), arguments.chains or 100)
            ours, theirs = [], []
            for _ in range(arguments.rounds):
                ours.append(amp_bench(arguments.amp, path, store))
                if mode != "none":
                    theirs.append(torch_bench(model, precision, mode, batch))
            row = {"model": model, "batch": batch, "precision": precision, "mode": mode, "amp": ours, "torch": theirs}
            if arguments.chains:
                row["chains"] = [amp_chain(arguments.amp, path, os.path.join(folder, f"run{index}")) for index in (0, 1)]
            rows.append(row)
            json.dump(rows, open(arguments.out, "w"), indent=1)
            median = lambda side: round(statistics.median(entry["ms"] for entry in side), 2) if side and all("ms" in e for e in side) else side
            print(job, "amp", median(ours), "torch", median(theirs), "memory", ours[-1].get("memory") if ours else "", theirs[-1].get("in_use") if theirs else "",
                  "launches", ours[-1].get("launches") if ours else "", row.get("chains", ""), flush=True)


main()
