"""The rows of the `convolution` benchmark by PyTorch: best and median of many repetitions, in ms.

usage: convolution_torch.py [SECONDS_PER_ROW] [=NAME]
Both memory formats are tried; the better one is printed.
"""
import sys, time, torch, torch.nn as nn, torch.nn.functional as F

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
ONLY = sys.argv[2][1:] if len(sys.argv) > 2 else ""
torch.manual_seed(0)

def times(run):
    run()
    found, begin = [], time.perf_counter()
    while len(found) < 5 or time.perf_counter() - begin < SECONDS:
        start = time.perf_counter(); run(); found.append(time.perf_counter() - start)
    found.sort()
    return found[0], found[len(found) // 2]

def row(name, what, count, runs):
    if ONLY not in name: return
    best, median = min(times(run) for run in runs)
    print(f"{name:16} {what:3} {count} threads: {best * 1e3:8.3f} ({median * 1e3:8.3f}) ms", flush=True)

LAYERS = [("mnist conv1", 128, 28, 1, 32, 0, 1), ("mnist conv2", 128, 26, 32, 64, 0, 1), ("digits conv1", 64, 8, 1, 32, 1, 1),
          ("digits conv2", 64, 8, 32, 64, 1, 1), ("56x56 64-64", 8, 56, 64, 64, 1, 1), ("14x14 256-256", 16, 14, 256, 256, 1, 1),
          ("28x28 depthwise", 16, 28, 64, 64, 1, 64)]
for name, b, s, i, o, p, g in LAYERS:
    for count in (1, 2):
        torch.set_num_threads(count)
        passes = [[], [], []]
        for form in (torch.contiguous_format, torch.channels_last):
            x = torch.randn(b, i, s, s).to(memory_format=form)
            w = torch.randn(o, i // g, 3, 3).to(memory_format=form)
            bias = torch.randn(o)
            dy = torch.randn_like(F.conv2d(x, w, bias, 1, p, 1, g))
            def backward(mask, x=x, w=w, dy=dy):
                return lambda: torch.ops.aten.convolution_backward(dy, x, w, None, [1, 1], [p, p], [1, 1], False, [0, 0], g, mask)
            passes[0].append(lambda x=x, w=w, bias=bias: F.conv2d(x, w, bias, 1, p, 1, g))
            passes[1].append(backward([True, False, False]))
            passes[2].append(backward([False, True, False]))
        with torch.no_grad():
            for what, runs in zip(("y", "dx", "dw"), passes):
                row(name, what, count, runs)

for name, b, s, p, features in [("mnist step", 128, 28, 0, 9216), ("digits step", 64, 8, 1, 1024)]:
    for count in (1, 2):
        torch.set_num_threads(count)
        runs = []
        for form in (torch.contiguous_format, torch.channels_last):
            net = nn.Sequential(nn.Conv2d(1, 32, 3, padding=p), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=p), nn.ReLU(), nn.MaxPool2d(2),
                                nn.Flatten(), nn.Linear(features, 128), nn.ReLU(), nn.Linear(128, 10)).to(memory_format=form)
            x, y = torch.randn(b, 1, s, s).to(memory_format=form), torch.randint(0, 10, (b,))
            optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
            def step(net=net, x=x, y=y, optimizer=optimizer):
                optimizer.zero_grad(set_to_none=True)
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
            runs.append(step)
        row(name, "all", count, runs)
