"""amp's training step beside PyTorch's on a CPU, in f32, in turn: A B A B.

usage: python3 benches/side_by_side.py [--amp target/release/amp] [--threads 2] [--rounds 5] [--mnist FOLDER]

Needs torch. Models, batch, optimizer (AdamW, fused in PyTorch) and threads are the same on both sides; a step is forward,
backward, update, over 16 batches in turn. amp adds the digest of all parameters to every step, as a run does.
"""
import argparse, gzip, json, os, statistics, struct, subprocess, sys, tempfile, time

arguments = argparse.ArgumentParser()
arguments.add_argument("--amp", default="target/release/amp")
arguments.add_argument("--threads", type=int, default=2)
arguments.add_argument("--rounds", type=int, default=5)
arguments.add_argument("--mnist", help="folder with MNIST's four .gz files")
arguments = arguments.parse_args()

# oneDNN and OpenMP read these when torch is imported.
os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
import torch, torch.nn as nn, torch.nn.functional as F

torch.set_num_threads(arguments.threads)
torch.manual_seed(0)

DIGITS = """    source "{folder}/digits.csv.gz"
    columns label="last" header=#false classes=10
    normalise "scale" divide=16.0
    split train=0.8 test=0.2
"""
MNIST = """    sources {{
        train features="{folder}/train-images-idx3-ubyte.gz" labels="{folder}/train-labels-idx1-ubyte.gz"
    }}
    format "idx" classes=10
    normalise "scale" divide=255.0
"""
MANIFEST = """amp 1
run "{name}" seed=42 guarantee="portable"
environment "std:environments/cpu"
data "data" {{
{source}{shape}    batch {batch} shuffle=#true
}}
model {model}
precision "std:precision/fp32"
scaler "std:scalers/none"
optimizer "std:optimizers/adamw" lr=1e-3 weight-decay=0.01
schedule "std:schedules/constant"
train epochs=1
evaluate every="end" metrics="accuracy"
"""


def cnn(channels, side, padding, hidden=128):
    end = (side + 4 * padding - 4) // 2
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=padding), nn.ReLU(), nn.Conv2d(channels, 2 * channels, 3, padding=padding), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2 * channels * end * end, hidden), nn.ReLU(), nn.Linear(hidden, 10))


def mlp():
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def jobs():
    digits = os.path.abspath("examples/digits/data")
    yield "digits mlp", '"std:models/mlp" hidden=256 layers=2 classes=10', DIGITS, digits, "", 64, mlp(), (64,)
    yield "digits cnn", '"std:models/cnn" channels=32 classes=10', DIGITS, digits, "    shape 1 8 8\n", 64, cnn(32, 8, 1), (1, 8, 8)
    if arguments.mnist:
        yield "mnist cnn", '"std:models/cnn" channels=32 classes=10', MNIST, os.path.abspath(arguments.mnist), "    shape 1 28 28\n", 128, cnn(32, 28, 1), (1, 28, 28)


def amp_milliseconds(manifest, store):
    command = [arguments.amp, "bench", manifest, "--json", "--blocks", "3", "--threads", str(arguments.threads), "--store", store]
    return json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)["milliseconds"]["median"]


def torch_milliseconds(model, batches, optimizer):
    done = 0

    def step():
        nonlocal done
        x, y = batches[done % len(batches)]
        done += 1
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    for _ in range(5):
        step()
    began = time.perf_counter(); step(); once = time.perf_counter() - began
    count, blocks = max(3, int(0.5 / once)), []
    for _ in range(3):
        began = time.perf_counter()
        for _ in range(count):
            step()
        blocks.append((time.perf_counter() - began) / count * 1e3)
    return statistics.median(blocks)


print(f"torch {torch.__version__}, {arguments.threads} threads, medians of {arguments.rounds} rounds")
for name, model, source, folder, shape, batch, opponent, features in jobs():
    with tempfile.TemporaryDirectory() as place:
        manifest = os.path.join(place, "manifest.kdl")
        relative = os.path.relpath(folder, place)
        with open(manifest, "w") as file:
            file.write(MANIFEST.format(name=name, source=source.format(folder=relative), shape=shape, batch=batch, model=model))
        batches = [(torch.randn(batch, *features), torch.randint(0, 10, (batch,))) for _ in range(16)]
        optimizer = torch.optim.AdamW(opponent.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
        ours, theirs = [], []
        for _ in range(arguments.rounds):
            ours.append(amp_milliseconds(manifest, os.path.join(place, "store")))
            theirs.append(torch_milliseconds(opponent, batches, optimizer))
        a, b = statistics.median(ours), statistics.median(theirs)
        print(f"{name:12s} batch {batch:4d}  amp {a:8.3f} ms ({min(ours):.3f}-{max(ours):.3f})  torch {b:8.3f} ms ({min(theirs):.3f}-{max(theirs):.3f})  amp is {b / a:.2f}x", flush=True)
