"""Writes grad_scaler.txt: 200 runs of PyTorch's own GradScaler (on the CPU) over random patterns of overflows.

A line: bits of the first scale (f32), of growth and backoff (f64), the interval, the steps (g good, i with a gradient that is not
finite), then the bits of the scale and the growth tracker after each step. Made with torch 2.15.0.
"""

import random
import struct

import torch

GROWTHS = [2.0, 1.1, 1.5, 4.0, 1.001, 1.0000001, 3.7]
BACKOFFS = [0.5, 0.25, 0.9, 0.1, 0.99, 0.3333333333333333]


def bits32(number):
    return format(struct.unpack("<I", struct.pack("<f", number))[0], "x")


def bits64(number):
    return format(struct.unpack("<Q", struct.pack("<d", number))[0], "x")


def run(init, growth, backoff, interval, steps):
    scaler = torch.amp.GradScaler(
        "cpu", init_scale=init, growth_factor=growth, backoff_factor=backoff, growth_interval=interval
    )
    weight = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1e-3)
    states = []
    for step in steps:
        optimizer.zero_grad()
        scaler.scale(torch.zeros(1)).sum()
        weight.grad = torch.tensor([1.0, float("inf") if step == "i" else 2.0, 3.0])
        scaler.step(optimizer)
        scaler.update()
        states.append(f"{bits32(scaler.get_scale())}:{scaler._get_growth_tracker()}")
    return states


def main():
    draw = random.Random(20)
    print("# Made by grad_scaler.py with torch " + torch.__version__.split("+")[0])
    for _ in range(200):
        init = draw.choice([65536.0, 2.0**127, 1.0, 4096.0, 2.0**-140, draw.uniform(0.001, 1e6)])
        init = struct.unpack("<f", struct.pack("<f", init))[0]
        growth, backoff = draw.choice(GROWTHS), draw.choice(BACKOFFS)
        interval = draw.choice([1, 2, 3, 5, 8])
        share = draw.choice([0.02, 0.1, 0.3, 0.6])
        steps = "".join("i" if draw.random() < share else "g" for _ in range(draw.randint(10, 40)))
        states = run(init, growth, backoff, interval, steps)
        print(" ".join([bits32(init), bits64(growth), bits64(backoff), str(interval), steps, *states]))


main()
