"""Writes steps.json: five optimizer steps of three small models by PyTorch on a CPU in f32.

usage: python3 steps.py > steps.json   (torch 2.x; the file in the repository was made with the version named in it)

Each case has the first values of all parameters and buffers, one batch a step, after every step the loss and the global
gradient norm; at the end all parameters and buffers. Numbers are printed so that they read back to the same f32.
"""
import json, sys, torch, torch.nn as nn, torch.nn.functional as F

torch.manual_seed(0)
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(6, 8)
        self.block = nn.ModuleDict(dict(norm=nn.LayerNorm(8), up=nn.Linear(8, 16), down=nn.Linear(16, 8)))
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.embed(x)
        x = x + self.block["down"](F.gelu(self.block["up"](self.block["norm"](x))))
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


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.ModuleList([nn.ModuleDict(dict(linear=nn.Linear(6, 8))), nn.ModuleDict(dict(linear=nn.Linear(8, 8)))])
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        for layer in self.hidden:
            x = F.relu(layer["linear"](x))
        return self.head(x)


def numbers(tensor):
    return [float(f"{value:.9g}") for value in tensor.detach().float().flatten().tolist()]


def state(model):
    return {name: numbers(value) for name, value in model.state_dict().items() if value.is_floating_point()}


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.001)


def case(model, shape, classes, optimizer, clip, smoothing):
    made = {"start": state(model), "steps": []}
    optimizer = optimizer(model.parameters())
    for _ in range(5):
        x, y = torch.randn(4, *shape), torch.randint(0, classes, (4,))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, label_smoothing=smoothing)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        made["steps"].append(
            {"features": numbers(x), "labels": y.tolist(), "loss": loss.item(), "norm": norm.item()}
        )
    made["end"] = state(model)
    return made


json.dump(
    {
        "torch": torch.__version__,
        "mlp-adamw": case(Mlp(), (6,), 3, adamw, 1.0, 0.0),
        "mlp-sgd": case(Mlp(), (6,), 3, sgd, 0.3, 0.1),
        "cnn-adamw": case(Cnn(), (1, 8, 8), 10, adamw, 1.0, 0.1),
        "residual-adamw": case(Residual(), (6,), 3, adamw, 0.1, 0.0),
    },
    sys.stdout,
)
