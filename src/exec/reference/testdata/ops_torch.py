"""Writes ops_torch.json: what PyTorch computes, in f64 from f32 inputs, for the ops that the tests compare.

Run as: python ops_torch.py   (torch 2.15.0 on a CPU wrote the committed file). Numbers are JSON numbers that read back exactly.
"""

import json
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(7)
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
    cases[name] = {key: flat(value) if torch.is_tensor(value) else value for key, value in tensors.items()}


def activation(name, function):
    x, dy = numbers(64).requires_grad_(), numbers(64)
    y = function(x)
    y.backward(dy)
    case(name, x=x, dy=dy, y=y, dx=x.grad)


activation("relu", F.relu)
activation("gelu_erf", F.gelu)
activation("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"))
activation("silu", F.silu)
activation("tanh", torch.tanh)
activation("sigmoid", torch.sigmoid)

x, dy = numbers(3, 10, 4).requires_grad_(), numbers(3, 10, 4)
y = torch.softmax(x, 1)
y.backward(dy)
case("softmax", x=x, dy=dy, y=y, dx=x.grad)

for name, smoothing in [("cross_entropy", 0.0), ("cross_entropy_smooth", 0.1)]:
    x = numbers(6, 8).requires_grad_()
    labels = torch.tensor([1, 7, -100, 0, 0, 5])
    loss = F.cross_entropy(x, labels, label_smoothing=smoothing)
    loss.backward()
    case(name, x=x, labels=labels, loss=loss, lse=torch.logsumexp(x, 1), dx=x.grad)

a, b = numbers(30).requires_grad_(), numbers(30)
loss = F.mse_loss(a, b)
loss.backward()
case("mse", a=a, b=b, loss=loss, da=a.grad)

x, dy = numbers(5, 12).requires_grad_(), numbers(5, 12)
gamma, beta = numbers(12).requires_grad_(), numbers(12).requires_grad_()
y = F.layer_norm(x, (12,), gamma, beta, 1e-5)
y.backward(dy)
case("layer_norm", x=x, dy=dy, gamma=gamma, beta=beta, y=y, dx=x.grad, dgamma=gamma.grad, dbeta=beta.grad)

x, dy = numbers(3, 4, 2, 5).requires_grad_(), numbers(3, 4, 2, 5)
gamma, beta = numbers(4).requires_grad_(), numbers(4).requires_grad_()
mean, variance = numbers(4), numbers(4).abs()
before = (mean.clone(), variance.clone())
evaluated = F.batch_norm(x, mean, variance, gamma, beta, False, 0.1, 1e-5)
y = F.batch_norm(x, mean, variance, gamma, beta, True, 0.1, 1e-5)
y.backward(dy)
case(
    "batch_norm", x=last(x), dy=last(dy), gamma=gamma, beta=beta, running_mean=before[0], running_variance=before[1],
    y=last(y), evaluated=last(evaluated), new_mean=mean, new_variance=variance,
    dx=last(x.grad), dgamma=gamma.grad, dbeta=beta.grad,
)

# Few values, so that windows have several maxima; one NaN in its own image; windows with padding.
x = torch.randint(-2, 3, (2, 3, 7, 6)).double()
x[1, 1, 2, 3] = float("nan")
x.requires_grad_()
y, indices = F.max_pool2d(x, 3, 2, 1, return_indices=True)
dy = numbers(*y.shape)
y.backward(dy)
case(
    "max_pool", x=last(torch.nan_to_num(x, nan=1e30)), dy=last(dy), y=last(torch.nan_to_num(y, nan=1e30)),
    indices=last(indices), dx=last(x.grad),
)
for name, count in [("average_pool", False), ("average_pool_padded", True)]:
    x = numbers(2, 3, 7, 6).requires_grad_()
    y = F.avg_pool2d(x, (3, 2), (2, 1), (1, 1), count_include_pad=count)
    dy = numbers(*y.shape)
    y.backward(dy)
    case(name, x=last(x), dy=last(dy), y=last(y), dx=last(x.grad))


def optimizer(name, make, steps=4):
    """Four steps with given gradients from given parameters."""
    start = numbers(20)
    gradients = [numbers(20) for _ in range(steps)]
    p = torch.nn.Parameter(start.clone())
    o = make([p])
    for gradient in gradients:
        p.grad = gradient.clone()
        o.step()
    case(name, start=start, gradients=torch.stack(gradients), end=p)


optimizer("sgd", lambda p: torch.optim.SGD(p, lr=0.1))
optimizer("sgd_momentum", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01))
optimizer("sgd_nesterov", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True))
optimizer("adam", lambda p: torch.optim.Adam(p, lr=1e-2, weight_decay=0.1))
optimizer("adamw", lambda p: torch.optim.AdamW(p, lr=1e-2, betas=(0.8, 0.95), weight_decay=0.1))

p = torch.nn.Parameter(numbers(40))
gradient = numbers(40)
p.grad = gradient.clone()
norm = torch.nn.utils.clip_grad_norm_([p], 1.5)
case("clip", gradient=gradient, norm=norm, clipped=p.grad)

x = torch.tensor([[1.0, 3.0, 3.0], [float("inf"), float("inf"), 0.0], [0.0, float("nan"), float("nan")]])
assert torch.argmax(x, 1).tolist() == [1, 0, 1]

path = pathlib.Path(__file__).with_name("ops_torch.json")
path.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in cases.items()) + "\n}\n")
