"""Makes convolution.txt and linear.txt: outputs and gradients of conv2d and linear by PyTorch.

usage: python3 convolution.py   (beside the files)
Inputs are small multiples of 1/8, so that every product and sum is exact in float32 in whatever order; the files hold
the results times 64 as integers. Element i of input number s is
((i * 7 + i // 5 * 3 + s * 13) % 11 - 5) / 8, with channels last for activations.
"""
import torch, torch.nn.functional as F

def values(seed, *shape):
    i = torch.arange(torch.Size(shape).numel())
    return (((i * 7 + i // 5 * 3 + seed * 13) % 11 - 5) / 8).double().reshape(shape)

def line(name, tensor):
    scaled = (tensor * 64).flatten()
    assert (scaled == scaled.round()).all() and scaled.abs().max() < 2**24
    return name + " " + " ".join(str(int(v)) for v in scaled.tolist()) + "\n"

def nhwc(t): return t.permute(0, 2, 3, 1)
def nchw(t): return t.permute(0, 3, 1, 2)

# batch height width in out, kernel, stride, padding, dilation, groups
CASES = [
    (2, 5, 6, 3, 4, (3, 3), (1, 1), (0, 0), (1, 1), 1),
    (1, 7, 5, 2, 3, (3, 2), (2, 1), (1, 1), (1, 1), 1),
    (2, 6, 7, 4, 6, (3, 3), (2, 2), (1, 1), (1, 1), 2),
    (1, 8, 9, 2, 2, (3, 3), (1, 2), (2, 3), (2, 2), 1),
    (2, 5, 5, 6, 6, (3, 3), (1, 1), (1, 1), (1, 1), 6),
    (1, 4, 4, 3, 17, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (1, 9, 4, 1, 2, (4, 3), (3, 2), (3, 2), (1, 1), 1),
    (3, 1, 6, 2, 2, (1, 5), (1, 1), (0, 4), (1, 1), 1),
]
with open("convolution.txt", "w") as f:
    for n, h, w, i, o, k, s, p, d, g in CASES:
        x = nchw(values(1, n, h, w, i)).clone().requires_grad_()
        weight = values(2, o, i // g, *k).requires_grad_()
        y = F.conv2d(x, weight, values(3, o), s, p, d, g)
        dy = nchw(values(4, *nhwc(y).shape))
        y.backward(dy)
        f.write("case " + " ".join(map(str, (n, h, w, i, o, *k, *s, *p, *d, g))) + "\n")
        f.write(line("y", nhwc(y)) + line("dx", nhwc(x.grad)) + line("dw", weight.grad))

with open("linear.txt", "w") as f:
    for rows, i, o in [(3, 5, 4), (1, 17, 10), (7, 1, 3), (4, 33, 2)]:
        x, weight = values(1, rows, i).requires_grad_(), values(2, o, i).requires_grad_()
        y = F.linear(x, weight, values(3, o))
        y.backward(values(4, *y.shape))
        f.write(f"case {rows} {i} {o}\n" + line("y", y) + line("dx", x.grad) + line("dw", weight.grad))
