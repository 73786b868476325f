"""The arithmetic of docs/numerics.md in exact numbers: fractions, and mpmath for what has no fraction.

Written from that page alone. An f32 is held in a Python float, which holds it exactly; every operation is done on fractions and
rounded once.
"""

import hashlib
import math
import struct
from fractions import Fraction

import mpmath

mpmath.mp.prec = 400

FORMATS = {"f32": (24, -126, 127), "f16": (11, -14, 15), "bf16": (8, -126, 127), "tf32": (11, -126, 127)}
NAN, INF = math.nan, math.inf


def bits(x):
    """The bits of an f32; of a NaN the canonical one."""
    return 0x7FC00000 if math.isnan(x) else struct.unpack("<I", struct.pack("<f", x))[0]


def of_bits(word):
    return struct.unpack("<f", struct.pack("<I", word))[0]


def nearest(q, form="f32"):
    """A fraction other than 0, rounded to nearest, ties to even."""
    p, low, high = FORMATS[form] if isinstance(form, str) else form
    sign, q = (-1.0, -q) if q < 0 else (1.0, q)
    e = q.numerator.bit_length() - q.denominator.bit_length()
    if q < Fraction(2) ** e:
        e -= 1
    place = max(e, low) - p + 1
    whole, rest = divmod(q / Fraction(2) ** place, 1)
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2):
        whole += 1
    return sign * (INF if whole * Fraction(2) ** place >= Fraction(2) ** (high + 1) else math.ldexp(whole, place))


def convert(x, form):
    return x if x == 0 or not math.isfinite(x) else nearest(Fraction(x), form)


def exactly(plain, exact, *operands):
    """An operation: by IEEE's rules for what is not finite and for zeros, else the fraction rounded once."""
    if not all(math.isfinite(x) for x in operands):
        return plain()
    q = exact(*map(Fraction, operands))
    return plain() if q == 0 else nearest(q)


def add(a, b):
    return exactly(lambda: a + b, lambda a, b: a + b, a, b)


def sub(a, b):
    return add(a, -b)


def mul(a, b):
    return exactly(lambda: a * b, lambda a, b: a * b, a, b)


def div(a, b):
    if b == 0 or not math.isfinite(a) or not math.isfinite(b):
        if math.isnan(a) or math.isnan(b) or (a == 0 and b == 0) or (math.isinf(a) and math.isinf(b)):
            return NAN
        sign = math.copysign(1.0, a) * math.copysign(1.0, b)
        return sign * (0.0 if math.isinf(b) else INF)
    return exactly(lambda: a / b, lambda a, b: a / b, a, b)


def fma(a, b, c):
    return exactly(lambda: a * b + c, lambda a, b, c: a * b + c, a, b, c)


def root(q, form):
    """The square root of a fraction: exact integers decide the last place."""
    shift = 2 * max(0, 200 - q.numerator.bit_length() + q.denominator.bit_length())
    scaled = q * Fraction(2) ** shift
    whole = math.isqrt(int(scaled))
    found = Fraction(whole)
    if Fraction(whole) ** 2 != scaled:
        found += Fraction(1, 4)  # Between two whole numbers of 100 bits and more, so on the right side of every tie.
    return nearest(found / Fraction(2) ** (shift // 2), form)


def sqrt(x):
    if math.isnan(x) or x < 0:
        return NAN
    return x if x == 0 or math.isinf(x) else root(Fraction(x), "f32")


def of_mpmath(x, form="f32"):
    man, exp = x.man_exp
    q = Fraction(int(man)) * Fraction(2) ** int(exp)
    # The mantissa of mpmath has no sign.
    return nearest(-q if x < 0 else q, form)


def real(name, x):
    """exp, log, tanh, erf, sin and cos, rounded once."""
    if math.isnan(x):
        return NAN
    if math.isinf(x):
        return {"exp": INF if x > 0 else 0.0, "log": x if x > 0 else NAN}.get(
            name, math.copysign(1.0, x) if name in ("tanh", "erf") else NAN
        )
    if name == "log" and x <= 0:
        return -INF if x == 0 else NAN
    if name in ("tanh", "erf", "sin") and x == 0:
        return x
    if name == "exp" and abs(x) > 200:
        return INF if x > 0 else 0.0  # The largest f32 is below e^89, and half of the least above e^-104.
    if name in ("tanh", "erf") and abs(x) > 20:
        return math.copysign(1.0, x)  # Within 2^-50 of 1.
    value = getattr(mpmath, name)(mpmath.mpf(x))
    return of_mpmath(value) if value != 0 else 0.0


def exp(x):
    return real("exp", x)


def log(x):
    return real("log", x)


def const(text):
    """The f32 nearest to a decimal."""
    return nearest(Fraction(text))


# ---- functions


def sigmoid(x):
    return div(1.0, add(1.0, exp(-x)))


def cubic(x):
    return mul(const("0.79788456"), add(x, mul(const("0.044715"), mul(mul(x, x), x))))


UNARY = {
    "relu": lambda x: x if x > 0 or math.isnan(x) else 0.0,
    "sigmoid": sigmoid,
    "silu": lambda x: mul(x, sigmoid(x)),
    "tanh": lambda x: real("tanh", x),
    "gelu": lambda x: mul(mul(0.5, x), add(1.0, real("erf", mul(x, const("0.70710678"))))),
    "gelu-tanh": lambda x: mul(mul(0.5, x), add(1.0, real("tanh", cubic(x)))),
}


def unary_gradient(name, dy, saved):
    x = y = saved
    if name == "relu":
        return 0.0 if x <= 0 else dy
    if name == "tanh":
        return mul(dy, sub(1.0, mul(y, y)))
    if name == "sigmoid":
        return mul(mul(dy, sub(1.0, y)), y)
    if name == "silu":
        s = sigmoid(x)
        return mul(mul(dy, s), add(1.0, mul(x, sub(1.0, s))))
    if name == "gelu":
        share = mul(0.5, add(1.0, real("erf", mul(x, const("0.70710678")))))
        density = mul(exp(mul(mul(x, x), -0.5)), const("0.3989423"))
        return mul(dy, add(share, mul(x, density)))
    t = real("tanh", cubic(x))
    slope = mul(const("0.79788456"), add(1.0, mul(const("0.134145"), mul(x, x))))
    inner = mul(mul(mul(0.5, x), sub(1.0, mul(t, t))), slope)
    return mul(dy, add(mul(0.5, add(1.0, t)), inner))


# ---- sums


def total(values):
    """The sum of a vector."""
    if len(values) > 4096:
        return total([total(values[at : at + 4096]) for at in range(0, len(values), 4096)])
    lanes = [0.0] * 16
    for index, value in enumerate(values):
        lanes[index % 16] = add(lanes[index % 16], value)
    for distance in (8, 4, 2, 1):
        for lane in range(distance):
            lanes[lane] = add(lanes[lane], lanes[lane + distance])
    return lanes[0]


def column_sums(rows, columns, x):
    sums = []
    for column in range(columns):
        whole = 0.0
        for block in range(0, rows, 256):
            part = 0.0
            for row in range(block, min(rows, block + 256)):
                part = add(part, x[row * columns + column])
            whole = add(whole, part)
        sums.append(whole)
    return sums


def chain(left, right):
    acc = 0.0
    for a, b in zip(left, right):
        acc = fma(a, b, acc)
    return acc


def largest(values):
    if any(map(math.isnan, values)):
        return NAN
    return max(values, default=-INF)


# ---- random numbers


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return z ^ (z >> 31)


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [
            (second >> 32) ^ c[1] ^ k[0],
            second & 0xFFFFFFFF,
            (first >> 32) ^ c[3] ^ k[1],
            first & 0xFFFFFFFF,
        ]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


class Stream:
    def __init__(self, seed, number):
        key = mix(mix((seed + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF) ^ number)
        self.key = (key & 0xFFFFFFFF, key >> 32)

    def word(self, step, element):
        block = element // 4
        counter = [block & 0xFFFFFFFF, block >> 32, step & 0xFFFFFFFF, step >> 32]
        return philox(counter, self.key)[element % 4]

    def uniform(self, step, element):
        return (self.word(step, element) >> 8) / 2**24

    def normal(self, step, element):
        first, second = (self.word(step, element & ~1) >> 8, self.word(step, element | 1) >> 8)
        radius = sqrt(mul(-2.0, log((first + 1) / 2**24)))
        quarter = (second + 2**21) // 2**22
        angle = mul((second - quarter * 2**22) / 2**24, of_mpmath(2 * mpmath.pi))
        cosine, sine = real("cos", angle), real("sin", angle)
        for _ in range(quarter % 4):
            cosine, sine = -sine, cosine
        return mul(radius, sine if element & 1 else cosine)

    def permutation(self, step, length):
        entries, next_word = list(range(length)), 0
        for i in range(length - 1, 0, -1):
            while True:
                product = self.word(step, next_word) * (i + 1)
                next_word += 1
                if product % 2**32 >= 2**32 % (i + 1):
                    break
            j = product >> 32
            entries[i], entries[j] = entries[j], entries[i]
        return entries


def stream_number(text):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def pow_(x, y):
    """x to the power of y, rounded once; x above 0."""
    return of_mpmath(mpmath.mpf(x) ** mpmath.mpf(y))


# ---- f64


def power(base, n):
    result, square = 1.0, base
    while n:
        if n & 1:
            result *= square
        n >>= 1
        if n:
            square *= square
    return result


def shortest(x):
    """The f64 nearest to the shortest decimal of an f32."""
    for digits in range(1, 17):
        text = f"{x:.{digits}g}"
        if struct.pack("<f", float(text)) == struct.pack("<f", x):
            return float(text)
    return x


def narrowed(x):
    """An f64, rounded to f32."""
    return nearest(Fraction(x)) if x else x


# ---- digests


def fingerprint(tensors):
    keys = [[Stream(0x616D70, number).word(0, word) for word in range(1024)] for number in (1, 2)]
    told = b""
    for values in tensors:
        for at in range(0, len(values), 1024):
            words = [bits(x) for x in values[at : at + 1024]]
            words += [0] * (1024 - len(words))
            for key in keys:
                summed = 0
                for j in range(512):
                    left = (words[j] + key[j]) & 0xFFFFFFFF
                    summed += left * ((words[j + 512] + key[j + 512]) & 0xFFFFFFFF)
                told += (summed & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little")
    return told


def whole(number):
    return number.to_bytes(8, "little")


def text(string):
    return whole(len(string.encode())) + string.encode()


def number(x):
    return bits(x).to_bytes(4, "little")


def link(before, event=b""):
    return hashlib.sha256(text("amp.chain.v1") + before + event).digest()
