"""Prints scaled.txt: the three FP8 products of a linear layer and trajectories of delayed scales, from numpy and ml_dtypes.

Run: python3 scaled.py > scaled.txt   (needs numpy and ml_dtypes)

The recipe is NVIDIA Transformer Engine's, written from its documentation: scale = largest / greatest magnitude / 2^margin, as f32;
products of the casts in f64, times both inverses. A delayed scale follows from the history before the step, and is 1 while that
is empty. Lines: `NAME numbers…`, f32 bits in hexadecimal; `history LENGTH MARGIN FORMAT magnitude:scale …`.
"""

import ml_dtypes
import numpy

f32 = numpy.float32
FORMATS = {"e4m3": (ml_dtypes.float8_e4m3fn, 448.0), "e5m2": (ml_dtypes.float8_e5m2, 57344.0)}
random = numpy.random.default_rng(8)


def show(name, values):
    words = numpy.asarray(values, f32).ravel().view(numpy.uint32)
    print(name, *(f"{word:x}" for word in words))


def scale_of(magnitude, name, margin=0):
    if magnitude == 0 or not numpy.isfinite(magnitude):
        return f32(1)
    with numpy.errstate(over="ignore"):
        scale = f32(f32(FORMATS[name][1]) / f32(magnitude)) / f32(2.0**margin)
    return f32(min(scale, numpy.finfo(f32).max))


def cast(values, name):
    dtype, largest = FORMATS[name]
    scale = scale_of(numpy.abs(values).max(), name)
    scaled = numpy.clip(values * scale, -largest, largest).astype(f32)
    return scaled.astype(dtype).astype(numpy.float64), f32(1) / scale


x = (random.standard_normal((16, 32)) * 3).astype(f32)
weight = (random.standard_normal((48, 32)) * 0.02).astype(f32)
dy = (random.standard_normal((16, 48)) * 1e-4).astype(f32)
(qx, ix), (qw, iw), (qd, id_) = cast(x, "e4m3"), cast(weight, "e4m3"), cast(dy, "e5m2")
show("x", x)
show("weight", weight)
show("dy", dy)
show("qx", qx)
show("qdy", qd)
show("inverses", [ix, iw, id_])
show("y", qx @ qw.T * float(ix) * float(iw))
show("dx", qd @ qw * float(id_) * float(iw))
show("dweight", qd.T @ qx * float(id_) * float(ix))
for length, margin, name in [(1, 0, "e4m3"), (3, 0, "e4m3"), (4, 1, "e5m2"), (16, 2, "e4m3")]:
    history, told = [0.0] * length, []
    for step in range(24):
        magnitude = f32(10.0 ** random.uniform(-4, 4)) if step % 7 else f32(0)
        if step == 11:
            magnitude = f32(numpy.inf)
        scale = scale_of(max(history), name, margin)
        told.append(f"{magnitude.view(numpy.uint32):x}:{scale.view(numpy.uint32):x}")
        history = [magnitude if numpy.isfinite(magnitude) else f32(0), *history[:-1]]
    print("history", length, margin, name, *told)
