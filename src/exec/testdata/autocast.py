"""Writes autocast.json: four small models under PyTorch's CPU autocast (bf16) and in f32, for exec/cpu/parity_tests.rs.

usage: python3 autocast.py > autocast.json   (the version of PyTorch is named in it)

Each case has the first values of all parameters and buffers and ten batches; for each format the answer and every parameter's
gradient of the first step, the losses, all values after ten steps of SGD, and the dtype of every intermediate of the first
forward pass as a dispatch mode saw it. Numbers are printed so that they read back to the same f32.
"""

import json
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

torch.manual_seed(0)
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.ModuleList([nn.ModuleDict(dict(linear=nn.Linear(6, 8))), nn.ModuleDict(dict(linear=nn.Linear(8, 8)))])
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        for layer in self.hidden:
            x = F.relu(layer["linear"](x))
        return self.head(x)


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.ModuleDict(dict(conv=nn.Conv2d(1, 4, 3, padding=1, bias=False), norm=nn.BatchNorm2d(4)))
        self.deep = nn.ModuleDict(dict(conv=nn.Conv2d(4, 6, 3, padding=1)))
        self.head = nn.Linear(54, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.stem["norm"](self.stem["conv"](x))), 2)
        x = F.avg_pool2d(F.relu(self.deep["conv"](x)), 2, padding=1, count_include_pad=False)
        return self.head(x.flatten(1))


class Attention(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.causal = causal
        self.query, self.key, self.value = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        heads = lambda y: y.reshape(y.shape[0], y.shape[1], 2, 4).transpose(1, 2)
        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return y.transpose(1, 2).reshape(x.shape)


class Block(nn.Module):
    """A transformer block, norms first, as GPT-2's; or after the sums, as BERT's."""

    def __init__(self, first):
        super().__init__()
        self.first = first
        self.embed = nn.Linear(3, 8)
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.attention = Attention(causal=first)
        self.out, self.up, self.down = nn.Linear(8, 8), nn.Linear(8, 16), nn.Linear(16, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.embed(x)
        if self.first:
            x = x + self.out(self.attention(self.norm1(x)))
            x = x + self.down(F.gelu(self.up(self.norm2(x))))
        else:
            x = self.norm1(x + self.out(self.attention(x)))
            x = self.norm2(x + self.down(F.gelu(self.up(x))))
        return self.head(x.mean(1))


KINDS = {
    "addmm": "linear",
    "mm": "linear",
    "linear": "linear",
    "convolution": "conv2d",
    "relu": "relu",
    "gelu": "gelu",
    "add": "add",
    "native_batch_norm": "batch-norm",
    "_native_batch_norm_legit": "batch-norm",
    "native_layer_norm": "layer-norm",
    "max_pool2d_with_indices": "max-pool2d",
    "avg_pool2d": "average-pool2d",
    "mean": "mean",
    "_scaled_dot_product_flash_attention_for_cpu": "attention",
    "nll_loss_forward": "cross-entropy",
}


class Watch(TorchDispatchMode):
    """The dtype of the first result of every op that computes."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func.name().removeprefix("aten::").split(".")[0]
        first = result[0] if isinstance(result, (tuple, list)) else result
        if name in KINDS:
            self.seen.append([KINDS[name], str(first.dtype).removeprefix("torch.").replace("float32", "f32").replace("bfloat16", "bf16")])
        elif name not in OTHERS:
            print("not counted:", name, file=sys.stderr)
            OTHERS.add(name)
        return result


OTHERS = set()


def numbers(tensor):
    return [float(f"{value:.9g}") for value in tensor.detach().float().flatten().tolist()]


def state(model):
    return {name: numbers(value) for name, value in model.state_dict().items() if value.is_floating_point()}


def train(model, start, batches, low):
    model.load_state_dict(start)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    made = {"losses": []}
    for number, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        watch = Watch()
        with watch, torch.autocast("cpu", torch.bfloat16, enabled=low):
            answer = model(x)
            loss = F.cross_entropy(answer, y)
        loss.backward()
        if number == 0:
            made["dtypes"] = watch.seen
            made["answer"] = numbers(answer)
            made["gradients"] = {name: numbers(value.grad) for name, value in model.named_parameters()}
        optimizer.step()
        made["losses"].append(loss.item())
    made["end"] = state(model)
    return made


def case(model, shape, classes):
    start = {name: value.clone() for name, value in model.state_dict().items()}
    batches = [(torch.randn(4, *shape), torch.randint(0, classes, (4,))) for _ in range(10)]
    return {
        "start": state(model),
        "batches": [{"features": numbers(x), "labels": y.tolist()} for x, y in batches],
        "f32": train(model, start, batches, False),
        "bf16": train(model, start, batches, True),
    }


json.dump(
    {
        "torch": torch.__version__,
        "mlp": case(Mlp(), (6,), 3),
        "cnn": case(Cnn(), (1, 8, 8), 10),
        "block": case(Block(True), (4, 3), 3),
        "bert": case(Block(False), (4, 3), 3),
    },
    sys.stdout,
)
