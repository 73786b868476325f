"""Prints eight.txt: the values of all FP8 codes, and f32 numbers with the codes that they round to, from ml_dtypes.

Run: python3 eight.py > eight.txt   (needs numpy and ml_dtypes)

Lines: `FORMAT code CODE F32BITS` for each of the 256 codes, and `FORMAT round F32BITS CODE` for each tie between two neighbours,
the f32 numbers beside it, what lies beyond the largest number, and random numbers. Finite numbers are clamped to the largest of
the format first, which is what saturation is; infinities of E4M3 become NaN, which is what it has for them. Negative numbers
mirror the positive ones, so only some are here.
"""

import random

import ml_dtypes
import numpy

generator = random.Random(448)
FORMATS = [("e4m3", ml_dtypes.float8_e4m3fn, 448.0), ("e5m2", ml_dtypes.float8_e5m2, 57344.0)]


def bits(value):
    return f"{numpy.array([value], numpy.float32).view(numpy.uint32)[0]:08x}"


for name, dtype, largest in FORMATS:
    codes = numpy.arange(256, dtype=numpy.uint8)
    values = codes.view(dtype).astype(numpy.float32)
    for code, value in zip(codes, values):
        print(f"{name} code {code:02x} {'nan' if numpy.isnan(value) else bits(value)}")
    positive = sorted(float(value) for value in values[:128] if numpy.isfinite(value))
    asked = []
    for low, high in zip(positive, positive[1:]):
        tie = numpy.float32((low + high) / 2)
        asked += [tie, numpy.nextafter(tie, numpy.float32(0)), numpy.nextafter(tie, numpy.float32(numpy.inf))]
    step = positive[-1] - positive[-2]
    for more in [step / 4, step / 2, step * 3 / 4, step, 10 * step]:
        asked.append(numpy.float32(largest + more))
    asked += [numpy.float32(number) for number in [3.4e38, 1e-38, 1e-45, numpy.inf]]
    asked += [numpy.float32(generator.choice([-1, 1]) * 2.0 ** generator.uniform(-20, 18)) for _ in range(300)]
    asked += [-number for number in asked[: len(asked) // 8]]
    for number in asked:
        clamped = number if numpy.isinf(number) else numpy.clip(number, -largest, largest)
        code = numpy.array([clamped], numpy.float32).astype(dtype).view(numpy.uint8)[0]
        print(f"{name} round {bits(number)} {code:02x}")
