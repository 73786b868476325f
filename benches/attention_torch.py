"""The rows of the `attention` benchmark by PyTorch's scaled_dot_product_attention: best and median, in ms.

usage: attention_torch.py [SECONDS_PER_ROW] [=NAME]
The operands are (N, T, H·D), as they come from linear layers, and so are the results.
"""
import sys, time, torch, torch.nn.functional as F

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
ONLY = sys.argv[2][1:] if len(sys.argv) > 2 else ""
torch.manual_seed(0)


def times(run):
    run()
    found, begin = [], time.perf_counter()
    while len(found) < 5 or time.perf_counter() - begin < SECONDS:
        found.append(run())
    found.sort()
    return found[0], found[len(found) // 2]


ROWS = [("gpt2 causal", 2, 256, 12, 64, True, False), ("bert", 2, 256, 12, 64, False, False),
        ("deberta bias", 2, 256, 12, 64, False, True), ("long causal", 1, 1024, 12, 64, True, False),
        ("small", 8, 64, 4, 32, False, False)]
for name, n, t, h, d, causal, biased in ROWS:
    if ONLY not in name: continue
    q, k, v = (torch.randn(n, t, h * d, requires_grad=True) for _ in range(3))
    bias = torch.randn(n, h, t, t, requires_grad=True) if biased else None
    dy = torch.randn(n, t, h * d)

    def forward():
        heads = [x.unflatten(2, (h, d)).transpose(1, 2) for x in (q, k, v)]
        return F.scaled_dot_product_attention(*heads, bias, 0.0, causal).transpose(1, 2).flatten(2)

    def timed_forward():
        start = time.perf_counter(); forward(); return time.perf_counter() - start

    def timed_backward():
        y = forward()
        inputs = [q, k, v] + ([bias] if biased else [])
        start = time.perf_counter(); torch.autograd.grad(y, inputs, dy); return time.perf_counter() - start

    for count in (1, 2):
        torch.set_num_threads(count)
        for what, run in (("y", timed_forward), ("dx", timed_backward)):
            best, median = times(run)
            print(f"{name:16} {what:3} {count} threads: {best * 1e3:8.3f} ({median * 1e3:8.3f}) ms", flush=True)
