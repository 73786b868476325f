"""Prints values.txt: arguments and correctly rounded results, from mpmath with 400 bits.

Run: python3 values.py > values.txt   (needs mpmath)

Lines: `NAME ARGUMENT RESULT` for the f32 functions, `pow X Y RESULT`, all as f32 bits, and
`power BASE EXPONENT RESULT` with base and result as f64 bits and a decimal exponent.
"""

import random
import struct

from mpmath import cos, erf, exp, log, mp, mpf, sin, tanh

mp.prec = 400
generator = random.Random(20170)


def value(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def round_to_f32(exact):
    """Nearest f32, ties to even, as bits; by exact arithmetic on the leading bits."""
    sign = 0x80000000 if exact < 0 else 0
    exact = abs(exact)
    if exact == 0:
        return sign
    exponent = max(int(mp.floor(mp.log(exact, 2))), -126)
    if exact < mpf(2) ** exponent and exponent > -126:
        exponent -= 1
    scaled = exact / mpf(2) ** (exponent - 23)
    whole = int(mp.floor(scaled))
    rest = scaled - whole
    if rest > 0.5 or (rest == 0.5 and whole % 2):
        whole += 1
    bits = whole + ((exponent + 126) << 23) if exponent > -126 else whole
    return sign | min(bits, 0x7F800000)


def arguments(low, high, count):
    """Random bit patterns between two positive values, of both signs."""
    low, high = (struct.unpack("<I", struct.pack("<f", x))[0] for x in (low, high))
    return [generator.randint(low, high) | generator.choice((0, 0x80000000)) for _ in range(count)]


FUNCTIONS = {
    "exp": (exp, arguments(1e-9, 105.0, 60) + arguments(0.1, 100.0, 60)),
    "log": (log, [bits & 0x7FFFFFFF for bits in arguments(1e-45, 3.4e38, 60) + arguments(0.9, 1.1, 60)]),
    "tanh": (tanh, arguments(1e-44, 10.0, 40) + arguments(0.01, 9.2, 80)),
    "erf": (erf, arguments(1e-44, 4.0, 40) + arguments(0.01, 4.0, 80)),
    "sin": (sin, arguments(1e-44, 3.4e38, 80) + arguments(0.1, 1e6, 80)),
    "cos": (cos, arguments(1e-5, 3.4e38, 80) + arguments(0.1, 1e6, 80)),
}

for name, (function, inputs) in FUNCTIONS.items():
    for bits in inputs:
        print(f"{name} {bits:08x} {round_to_f32(function(mpf(value(bits)))):08x}")

for _ in range(150):
    x = arguments(1e-3, 1e3, 1)[0] & 0x7FFFFFFF
    y = arguments(1e-2, 30.0, 1)[0]
    print(f"pow {x:08x} {y:08x} {round_to_f32(mpf(value(x)) ** mpf(value(y))):08x}")

for _ in range(60):
    base = generator.choice((0.9, 0.99, 0.999, generator.uniform(0.5, 2.0), 1 + generator.uniform(-1e-4, 1e-4)))
    exponent = generator.choice((generator.randint(0, 40), generator.randint(0, 600), generator.randint(0, 700)))
    bits = [struct.unpack("<Q", struct.pack("<d", x))[0] for x in (base, float(mpf(base) ** exponent))]
    print(f"power {bits[0]:016x} {exponent} {bits[1]:016x}")

for _ in range(20):
    base = 1 + generator.uniform(-1e-6, 1e-6)
    exponent = generator.randint(10**5, 10**7)
    bits = [struct.unpack("<Q", struct.pack("<d", x))[0] for x in (base, float(mpf(base) ** exponent))]
    print(f"power {bits[0]:016x} {exponent} {bits[1]:016x}")

# The inputs closest to a rounding border, found by the proof over all inputs (`cargo bench --bench prove`).
HARDEST = {
    "exp": [0xC16912CD, 0xBAE0E25C, 0xC2B2E798, 0x38E69CC1],
    "log": [0x65D890D3, 0x4C5D65A5, 0x4D604EBE, 0x41178FEB],
    "sin": [0x73243F06, 0x46199998, 0x67A9242B, 0x55CAFB2A],
    "tanh": [0x40C5E8CA, 0x3AC37DE2, 0x3F97FBC7, 0x3EEE0566],
}

for name, inputs in HARDEST.items():
    for bits in inputs:
        print(f"{name} {bits:08x} {round_to_f32(FUNCTIONS[name][0](mpf(value(bits)))):08x}")
