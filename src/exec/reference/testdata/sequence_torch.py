"""Writes sequence_torch.json: what PyTorch computes, in f64 from f32 inputs, for ops on sequences, groups and larger images.

Run as: python sequence_torch.py   (torch 2.15.0 on a CPU wrote the committed file). Numbers are JSON numbers that read back
exactly.
"""

import json
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(11)
cases = {}


def numbers(*shape, spread=2.0):
    """f32 values, so that the tests begin from the same inputs; held in f64 for PyTorch to compute with."""
    return (torch.randn(*shape) * spread).float().double()


def flat(value):
    return value.detach().reshape(-1).tolist()


def last(x):
    """NCHW to NHWC."""
    return x.permute(0, 2, 3, 1)


def case(name, **tensors):
    cases[name] = {key: flat(value) for key, value in tensors.items()}


# Rows 1 and 4 are picked several times, row 0 is padding, rows 3 and 5 are never picked.
weight, index = numbers(6, 4).requires_grad_(), torch.tensor([[1, 4, 0], [4, 2, 1], [0, 1, 1]])
y = F.embedding(index, weight, padding_idx=0)
dy = numbers(*y.shape)
y.backward(dy)
case("embedding", weight=weight, index=index, y=y, dy=dy, dweight=weight.grad)

x, index = numbers(2, 5, 3).requires_grad_(), torch.tensor([[4, 0, 4, 2], [1, 1, 1, 3]])
y = torch.gather(x, 1, index[:, :, None].expand(-1, -1, 3))
dy = numbers(*y.shape)
y.backward(dy)
case("gather", x=x, index=index, y=y, dy=dy, dx=x.grad)

x, dy, gamma = numbers(5, 12).requires_grad_(), numbers(5, 12), numbers(12).requires_grad_()
y = F.rms_norm(x, (12,), gamma, 1e-6)
y.backward(dy)
case("rms_norm", x=x, dy=dy, gamma=gamma, y=y, dx=x.grad, dgamma=gamma.grad)

x, dy = numbers(3, 6, 2, 5).requires_grad_(), numbers(3, 6, 2, 5)
gamma, beta = numbers(6).requires_grad_(), numbers(6).requires_grad_()
y = F.group_norm(x, 3, gamma, beta, 1e-5)
y.backward(dy)
case("group_norm", x=x, dy=dy, gamma=gamma, beta=beta, y=y, dx=x.grad, dgamma=gamma.grad, dbeta=beta.grad)

x = numbers(2, 7, 3).requires_grad_()
y = x.mean(1)
dy = numbers(*y.shape)
y.backward(dy)
case("mean", x=x, y=y, dy=dy, dx=x.grad)

for name, scale, options in [
    ("nearest", (2, 3), dict(mode="nearest")),
    ("bilinear", (2, 3), dict(mode="bilinear", align_corners=False)),
    ("bilinear_4", (4, 1), dict(mode="bilinear", align_corners=False)),
]:
    x = numbers(2, 3, 4, 5).requires_grad_()
    y = F.interpolate(x, scale_factor=scale, **options)
    dy = numbers(*y.shape)
    y.backward(dy)
    case(name, x=last(x), dy=last(dy), y=last(y), dx=last(x.grad))


def rotary(x, heads, base, interleaved):
    """Hugging Face's `LlamaRotaryEmbedding` and `apply_rotary_pos_emb` (not interleaved), the paper's equation 34 (interleaved)."""
    n, t, features = x.shape
    width = features // heads
    rates = 1.0 / (base ** (torch.arange(0, width, 2, dtype=torch.float64) / width))
    angles = torch.outer(torch.arange(t, dtype=torch.float64), rates)
    x = x.reshape(n, t, heads, width)
    if interleaved:
        cos, sin = (f(angles).repeat_interleave(2, -1)[None, :, None] for f in (torch.cos, torch.sin))
        turned = torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)
    else:
        cos, sin = (torch.cat((f(angles), f(angles)), -1)[None, :, None] for f in (torch.cos, torch.sin))
        turned = torch.cat((-x[..., width // 2 :], x[..., : width // 2]), -1)
    return (x * cos + turned * sin).reshape(n, t, features)


for name, interleaved in [("rotary", False), ("rotary_interleaved", True)]:
    x = numbers(2, 5, 16).requires_grad_()
    y = rotary(x, 2, 10000.0, interleaved)
    dy = numbers(*y.shape)
    y.backward(dy)
    case(name, x=x, dy=dy, y=y, dx=x.grad)

path = pathlib.Path(__file__).with_name("sequence_torch.json")
path.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in cases.items()) + "\n}\n")
