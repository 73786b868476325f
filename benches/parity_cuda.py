"""amp's mixed precision beside PyTorch's on a CUDA device: losses of the same model, first weights and batches, step by step; and
the final accuracy of mixed precision and f32 on MNIST.

usage: python3 benches/parity_cuda.py OUT.json --amp target/release/amp --data FOLDER [--device cuda] [--steps 200] [--small] [--seeds 5]
       FOLDER has tinyshakespeare.txt and mnist/ (the four gzipped IDX files).

Losses. A GPT-2 over characters and a convolutional network on MNIST train for STEPS steps in fp16 (with the loss scaler, clipping
and AdamW) and bf16. PyTorch draws the first weights, both sides read them from one file, and both take the batches of one file in
order. PyTorch runs several times to learn its own noise: twice as it is, and with the examples of each batch in other orders, which
changes nothing but the order of sums. `noise` is the largest root mean square difference between two of those runs, over all steps;
`amp` is the smallest between amp's run and one of them; the verdict is `amp <= 2 * noise`, and `within` says of how many steps amp's
loss lies between the lowest and the highest of PyTorch's, widened by the spread of the steps until then.

Accuracy. amp trains `examples/mnist-cnn` from SEEDS seeds in amp-fp16, amp-bf16 and fp32; the verdict is a mean difference to fp32
below 0.1 points.

Needs torch alone. On an H200 all of it takes about two minutes; with `--device cpu --small --seeds 1` it is tried elsewhere.
"""
import argparse, gzip, json, math, pathlib, re, struct, subprocess, sys, tempfile, time

import torch
from torch.nn import functional as F

POLICY = {"fp16": ("amp-fp16", torch.float16), "bf16": ("amp-bf16", torch.bfloat16)}
MANIFEST = """amp 1
run "parity" seed=1 guarantee="{guarantee}"
environment "std:environments/{device}"
data "batches" {{
    source "data.safetensors"
    format "safetensors" features="x" labels="y" {format}
    {shape}
    batch {batch} shuffle=#false
}}
model {model} {{
    initial "weights.safetensors"
}}
precision "std:precision/{policy}"
{scaler}
optimizer "std:optimizers/adamw" lr={lr} weight-decay=0.01
schedule "std:schedules/constant"
train steps={steps} clip-norm=1.0
evaluate every="end"
"""
DTYPES = {torch.float32: "F32", torch.int64: "I64"}


def safetensors(path, tensors):
    """The format is a length, a JSON header and the bytes; no package is needed to write it."""
    header, offset, parts = {}, 0, []
    for name, tensor in sorted(tensors.items()):
        data = tensor.detach().cpu().contiguous()
        size = data.numel() * data.element_size()
        header[name] = {"dtype": DTYPES[data.dtype], "shape": list(data.shape), "data_offsets": [offset, offset + size]}
        parts.append(bytes(data.reshape(-1).view(torch.uint8).tolist()) if size < 4096 else data.numpy().tobytes())
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def idx(path):
    data = gzip.decompress(path.read_bytes())
    axes = data[3]
    shape = struct.unpack(f">{axes}I", data[4:4 + 4 * axes])
    return torch.frombuffer(bytearray(data[4 + 4 * axes:]), dtype=torch.uint8).reshape(shape)


class Gpt:
    """GPT-2 as `std:models/gpt2`: norms before attention and feed-forward layers, the table of tokens shared with the head."""
    lr = 1e-3

    def __init__(self, small, folder, steps):
        self.width, self.layers, self.heads, self.length, self.batch = (64, 2, 2, 32, 4) if small else (256, 4, 4, 128, 16)
        text = (folder / "tinyshakespeare.txt").read_text()
        letters = sorted(set(text))
        codes = {letter: code for code, letter in enumerate(letters)}
        count = steps * self.batch
        tokens = torch.tensor([codes[letter] for letter in text[:count * self.length + 1]])
        # Windows far from each other in one batch.
        order = torch.randperm(count, generator=torch.Generator().manual_seed(1))
        self.x = tokens[:-1].reshape(count, self.length)[order].contiguous()
        self.y = tokens[1:].reshape(count, self.length)[order].contiguous()
        self.vocabulary = len(letters)
        self.format, self.shape = f"vocabulary={self.vocabulary} classes={self.vocabulary}", ""
        self.model = (f'"std:models/gpt2" vocabulary={self.vocabulary} context={self.length} width={self.width} '
                      f"layers={self.layers} heads={self.heads} dropout=0.0")

    def weights(self):
        drawn = torch.Generator().manual_seed(2)
        normal = lambda *shape: torch.randn(*shape, generator=drawn) * 0.02
        w = self.width
        found = {"tokens.weight": normal(self.vocabulary, w), "positions.weight": normal(self.length, w),
                 "norm.weight": torch.ones(w), "norm.bias": torch.zeros(w)}
        for layer in range(self.layers):
            at = f"blocks.{layer}.block."
            for norm in ["norm1", "norm2"]:
                found |= {f"{at}{norm}.weight": torch.ones(w), f"{at}{norm}.bias": torch.zeros(w)}
            for name, out, inner in [("qkv", 3 * w, w), ("out", w, w), ("up", 4 * w, w), ("down", w, 4 * w)]:
                found |= {f"{at}{name}.weight": normal(out, inner), f"{at}{name}.bias": torch.zeros(out)}
        return found

    def loss(self, p, x, y):
        linear = lambda name, x: F.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])
        norm = lambda name, x: F.layer_norm(x, (self.width,), p[f"{name}.weight"], p[f"{name}.bias"], 1e-5)
        h = F.embedding(x, p["tokens.weight"]) + p["positions.weight"][: x.shape[1]]
        for layer in range(self.layers):
            at = f"blocks.{layer}.block."
            parts = linear(at + "qkv", norm(at + "norm1", h)).split(self.width, 2)
            q, k, v = (part.reshape(*part.shape[:2], self.heads, -1).transpose(1, 2) for part in parts)
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(h.shape)
            h = h + linear(at + "out", attended)
            h = h + linear(at + "down", F.gelu(linear(at + "up", norm(at + "norm2", h)), approximate="tanh"))
        logits = F.linear(norm("norm", h), p["tokens.weight"])
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())


class Cnn:
    """`std:models/cnn` without dropout."""
    lr = 2e-3

    def __init__(self, small, folder, steps):
        self.channels, self.batch = (8, 16) if small else (32, 128)
        count = steps * self.batch
        images, labels = (idx(folder / "mnist" / f"train-{name}.gz") for name in ["images-idx3-ubyte", "labels-idx1-ubyte"])
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(3))
        order = order.repeat(math.ceil(count / len(order)))[:count]
        self.x = (images[order].float() / 255.0).reshape(count, 1, 28, 28).contiguous()
        self.y = labels[order].long()
        self.format, self.shape = "classes=10", "shape 1 28 28"
        self.model = f'"std:models/cnn" channels={self.channels} classes=10'

    def weights(self):
        drawn, found = torch.Generator().manual_seed(4), {}
        c = self.channels
        for name, shape in [("features.0.conv", (c, 1, 3, 3)), ("features.1.conv", (2 * c, c, 3, 3)),
                            ("hidden", (128, 2 * c * 196)), ("head", (10, 128))]:
            bound = 1 / math.sqrt(math.prod(shape[1:]))
            uniform = lambda *shape: (torch.rand(*shape, generator=drawn) * 2 - 1) * bound
            found |= {f"{name}.weight": uniform(*shape), f"{name}.bias": uniform(shape[0])}
        return found

    def loss(self, p, x, y):
        for layer in ["features.0.conv", "features.1.conv"]:
            x = F.relu(F.conv2d(x, p[f"{layer}.weight"], p[f"{layer}.bias"], padding=1))
        x = F.max_pool2d(x, 2).flatten(1)
        x = F.relu(F.linear(x, p["hidden.weight"], p["hidden.bias"]))
        return F.cross_entropy(F.linear(x, p["head.weight"], p["head.bias"]), y)


def torch_run(case, precision, device, steps, order):
    """Losses of PyTorch's autocast; `order` gives the places of a batch's examples."""
    low = POLICY[precision][1]
    parameters = {name: value.clone().to(device).requires_grad_() for name, value in case.weights().items()}
    x, y = case.x.to(device), case.y.to(device)
    optimizer = torch.optim.AdamW(parameters.values(), lr=case.lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    scaler = torch.amp.GradScaler(device, enabled=precision == "fp16")
    places = order(case.batch).to(device)
    losses = []
    for step in range(steps):
        rows = step * case.batch + places
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=low):
            loss = case.loss(parameters, x[rows], y[rows])
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(parameters.values(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
    return torch.stack(losses).double().cpu()


def amp(arguments, *command, folder):
    done = subprocess.run([arguments.amp, *command], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"amp {' '.join(command)}: exit code {done.returncode}\n{done.stdout[-800:]}{done.stderr[-1600:]}")
    return done.stdout


def events(folder, store):
    record = next((folder / store).rglob("record.ndjson"))
    return [json.loads(line) for line in record.read_text().splitlines()]


def amp_run(arguments, case, precision, steps):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        safetensors(folder / "weights.safetensors", case.weights())
        safetensors(folder / "data.safetensors", {"x": case.x, "y": case.y})
        scaler = 'scaler "std:scalers/dynamic"' if precision == "fp16" else ""
        device = arguments.device
        (folder / "manifest.kdl").write_text(MANIFEST.format(
            guarantee="device" if device == "cuda" else "portable", device=device, format=case.format, shape=case.shape,
            batch=case.batch, model=case.model, policy=POLICY[precision][0], scaler=scaler, lr=case.lr, steps=steps))
        amp(arguments, "run", "-q", "--device", device, folder=folder)
        found = [line["hashed"] for line in events(folder, ".amp") if line["event"] == "step"]
        return torch.tensor([step["loss"] for step in found], dtype=torch.float64), sum(step["skipped"] for step in found)


def rms(a, b):
    return float((a - b).square().mean().sqrt())


def losses(arguments, make, name, precision):
    steps = arguments.steps
    case = make(arguments.small, pathlib.Path(arguments.data), steps)
    orders = [lambda n: torch.arange(n), lambda n: torch.arange(n), lambda n: torch.arange(n - 1, -1, -1),
              lambda n: torch.arange(n).roll(n // 2), lambda n: torch.randperm(n, generator=torch.Generator().manual_seed(5))]
    begun = time.time()
    runs = [torch_run(case, precision, arguments.device, steps, order) for order in orders]
    theirs = time.time() - begun
    begun = time.time()
    ours, skipped = amp_run(arguments, case, precision, steps)
    every = torch.stack(runs)
    low, high = every.min(0).values, every.max(0).values
    spread = torch.cummax(high - low, 0).values
    within = int(((ours >= low - spread) & (ours <= high + spread)).sum())
    pairs = [rms(a, b) for index, a in enumerate(runs) for b in runs[:index]]
    noise, distance = max(pairs), min(rms(ours, run) for run in runs)
    return {"model": name, "precision": precision, "steps": steps, "skipped": skipped, "noise": noise, "again": rms(runs[0], runs[1]),
            "amp": distance, "ratio": distance / noise if noise else None, "within": within, "equal": distance <= 2 * noise,
            "first": [float(runs[0][0]), float(ours[0])], "last": [float(runs[0][-1]), float(ours[-1])],
            "seconds": {"torch": theirs, "amp": time.time() - begun},
            "losses": {"amp": ours.tolist(), "torch": runs[0].tolist()}}


def accuracy(arguments):
    text = (pathlib.Path(__file__).parents[1] / "examples/mnist-cnn/manifest.kdl").read_text()
    found = {}
    for policy in ["amp-fp16", "amp-bf16", "fp32"]:
        found[policy] = []
        for seed in range(1, arguments.seeds + 1):
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                (folder / "data").symlink_to((pathlib.Path(arguments.data) / "mnist").resolve())
                manifest = text.replace("seed=42", f"seed={seed}").replace("std:precision/amp-fp16", f"std:precision/{policy}")
                manifest = manifest.replace('every="epoch"', 'every="end"')
                if policy != "amp-fp16":
                    manifest = re.sub(r"^scaler .*$", "", manifest, flags=re.M)
                if arguments.device == "cuda":
                    manifest = manifest.replace("environments/cpu", "environments/cuda").replace('"portable"', '"device"')
                if arguments.small:
                    manifest = manifest.replace("epochs=3", "steps=120").replace("channels=32", "channels=8").replace("warmup=50", "warmup=10")
                (folder / "manifest.kdl").write_text(manifest)
                store = pathlib.Path(tempfile.gettempdir()) / "amp-parity-store"
                amp(arguments, "run", "-q", "--device", arguments.device, "--store", str(store), folder=folder)
                records = sorted(store.rglob("record.ndjson"), key=lambda path: path.stat().st_mtime)
                lines = [json.loads(line) for line in records[-1].read_text().splitlines()]
                ends = [line["hashed"] for line in lines if line["event"] == "evaluation" and line["hashed"]["split"] == "test"]
                found[policy].append(100 * ends[-1]["metrics"]["accuracy"])
    mean = {policy: sum(values) / len(values) for policy, values in found.items()}
    points = {policy: mean[policy] - mean["fp32"] for policy in ["amp-fp16", "amp-bf16"]}
    return {"accuracy": found, "mean": mean, "points": points, "equal": all(abs(value) < 0.1 for value in points.values())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--amp", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    arguments.amp = str(pathlib.Path(arguments.amp).resolve())
    answer = {"torch": torch.__version__, "device": torch.cuda.get_device_name() if arguments.device == "cuda" else "cpu", "losses": []}
    # PyTorch's default since 1.12: products in f32 stay f32.
    torch.backends.cuda.matmul.allow_tf32 = False
    for make, name in [(Gpt, "gpt2"), (Cnn, "cnn")]:
        for precision in POLICY:
            if arguments.device == "cpu" and precision == "fp16":
                continue
            found = losses(arguments, make, name, precision)
            answer["losses"].append(found)
            shown = {key: value for key, value in found.items() if key != "losses"}
            print(json.dumps(shown), flush=True)
    if arguments.seeds:
        answer["accuracy"] = accuracy(arguments)
        print(json.dumps(answer["accuracy"]), flush=True)
    pathlib.Path(arguments.out).write_text(json.dumps(answer, indent=1) + "\n")
    verdicts = [found["equal"] for found in answer["losses"]] + [answer.get("accuracy", {}).get("equal", True)]
    sys.exit(0 if all(verdicts) else 1)


if __name__ == "__main__":
    main()
