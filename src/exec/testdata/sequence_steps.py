"""Writes sequence_steps.json: five optimizer steps of the sample models `tokens` and `images` by PyTorch on a CPU in f32.

usage: python3 sequence_steps.py > sequence_steps.json   (the version of PyTorch is named in it)

Each case has the first values of all parameters, one batch a step, after every step the loss and the global gradient norm; at
the end all parameters. Numbers are printed so that they read back to the same f32.
"""

import json
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


def rotary(x, heads, base, interleaved):
    n, t, features = x.shape
    width = features // heads
    rates = 1.0 / (base ** (torch.arange(0, width, 2).float() / width))
    angles = torch.outer(torch.arange(t).float(), rates)
    x = x.reshape(n, t, heads, width)
    if interleaved:
        cos, sin = (f(angles).repeat_interleave(2, -1)[None, :, None] for f in (torch.cos, torch.sin))
        turned = torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)
    else:
        cos, sin = (torch.cat((f(angles), f(angles)), -1)[None, :, None] for f in (torch.cos, torch.sin))
        turned = torch.cat((-x[..., width // 2 :], x[..., : width // 2]), -1)
    return (x * cos + turned * sin).reshape(n, t, features)


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(9, 8), nn.Embedding(7, 8)
        self.add_module("class", nn.Embedding(1, 8))
        self.norm = nn.RMSNorm(8, eps=1e-6)
        self.delta = nn.ModuleDict(dict(linear=nn.Linear(8, 8)))
        self.head = nn.Linear(8, 3)

    def forward(self, tokens):
        x = self.words(tokens) + self.positions.weight[:6]
        first = getattr(self, "class").weight
        x = torch.cat((first[None].expand(x.shape[0], 1, 8), x), 1)
        x = rotary(rotary(x, 2, 100.0, False), 1, 100.0, True)
        x = self.norm(x)
        x = torch.gather(x, 1, tokens[:, :, None].expand(-1, -1, 8))
        x = x - torch.tanh(self.delta["linear"](x))
        x = (x * 0.5)[:, 1:5]
        return self.head(x.mean(1) + x[:, 0])


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.deep = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.plain = nn.GroupNorm(4, 4, affine=False)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = F.silu(self.norm(self.stem(x)))
        x = F.interpolate(x, scale_factor=(2, 1), mode="nearest")
        x = F.interpolate(self.deep(x), scale_factor=(2, 3), mode="bilinear", align_corners=False)
        return self.head(torch.tanh(self.plain(x)).mean((2, 3)))


def numbers(tensor):
    return [float(f"{value:.9g}") for value in tensor.detach().float().flatten().tolist()]


def state(model):
    return {name: numbers(value) for name, value in model.state_dict().items()}


def case(model, features):
    made = {"start": state(model), "steps": []}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.001)
    for _ in range(5):
        x, y = features(), torch.randint(0, 3, (4,))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        optimizer.step()
        made["steps"].append(
            {"features": numbers(x), "labels": y.tolist(), "loss": loss.item(), "norm": norm.item()}
        )
    made["end"] = state(model)
    return made


json.dump(
    {
        "torch": torch.__version__,
        "tokens": case(Tokens(), lambda: torch.randint(0, 7, (4, 6))),
        "images": case(Images(), lambda: torch.randn(4, 2, 3, 4)),
    },
    sys.stdout,
)
