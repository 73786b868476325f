"""Prints constants.rs: minimax polynomials (Remez exchange) and constants to two or three binary64 parts.

Run: python3 constants.py > constants.rs && rustfmt --edition 2024 constants.rs   (needs mpmath)
"""

import struct

from mpmath import (atanh, cos, erf, erfc, expm1, factorial, floor, linspace, log, lu_solve, matrix, mp, mpf, nstr, pi,
                    sin, sqrt)

mp.prec = 400


def bits(value):
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def rust(value):
    """A binary64 literal by its bits, with the value as a comment on the nearest double."""
    return f"f64::from_bits({bits(float(value)):#018x})"


def leading(value, count):
    """The leading `count` bits of a value, truncated."""
    scale = mpf(2) ** (count - 1 - int(floor(log(abs(value), 2))))
    return floor(value * scale) / scale


def parts(value, sizes):
    """The value as a sum of parts with these many bits; the last one is rounded to nearest."""
    found = []
    for size in sizes[:-1]:
        found.append(leading(value, size))
        value -= found[-1]
    return found + [mpf(float(value))]


def double_double(value):
    high = mpf(float(value))
    return f"({rust(high)}, {rust(value - high)})"


def minimax(function, weight, low, high, degree):
    """Remez exchange for the polynomial that minimises max |weight · (function - polynomial)|; coefficients, error."""
    low, high = mpf(low), mpf(high)
    count = degree + 2
    points = [(low + high) / 2 - (high - low) / 2 * cos(pi * i / (count - 1)) for i in range(count)]
    grid = [(low + high) / 2 - (high - low) / 2 * cos(pi * i / 1200) for i in range(1201)]
    table = [(x, function(x), weight(x)) for x in grid]
    for _ in range(12):
        rows = matrix(count, count)
        values = matrix(count, 1)
        for i, x in enumerate(points):
            for j in range(degree + 1):
                rows[i, j] = x**j
            rows[i, degree + 1] = (-1) ** i / weight(x)
            values[i] = function(x)
        solution = lu_solve(rows, values)
        coefficients = [solution[j] for j in range(degree + 1)]

        def error(entry):
            x, value, w = entry
            return w * (value - sum(c * x**j for j, c in enumerate(coefficients)))

        errors = [error(entry) for entry in table]
        extremes = []
        for i, e in enumerate(errors):
            if extremes and (errors[extremes[-1]] > 0) == (e > 0):
                if abs(e) > abs(errors[extremes[-1]]):
                    extremes[-1] = i
            else:
                extremes.append(i)
        while len(extremes) > count:
            extremes.pop(0 if abs(errors[extremes[0]]) < abs(errors[extremes[-1]]) else -1)
        if len(extremes) < count:
            raise RuntimeError("the error does not alternate enough")
        worst = max(abs(e) for e in errors)
        points = [grid[i] for i in extremes]
        if worst < abs(solution[degree + 1]) * mpf("1.01"):
            break
    return coefficients, worst


def polynomial(name, what, function, weight, low, high, degree):
    coefficients, worst = minimax(function, weight, low, high, degree)
    print(f"/// {what}; the error is below 2^{nstr(log(worst, 2), 4)}.")
    print(f"pub const {name}: [f64; {degree + 1}] = [")
    for coefficient in coefficients:
        print(f"    {rust(coefficient)}, // {nstr(coefficient, 17)}")
    print("];")


def series(function, at_zero):
    """The function with its limit at zero."""
    return lambda x: mpf(at_zero) if x == 0 else function(x)


print("//! Constants of the functions, made by `constants.py` beside this file; do not edit by hand.\n")
print("/// 1 / ln 2.")
print(f"pub const LOG2_E: f64 = {rust(1 / log(2))};")
print("/// ln 2.")
print(f"pub const LN_2: f64 = {rust(log(2))};")
print("/// ln 2 in three parts; the first two have 42 bits, so that their products with small integers are exact.")
print(f"pub const LN_2_PARTS: [f64; 3] = [{', '.join(map(rust, parts(log(2), [42, 42, 53])))}];")
print("/// 2 / π.")
print(f"pub const TWO_OVER_PI: f64 = {rust(2 / pi)};")
print("/// π / 2 in three parts; the first two have 33 bits, so that their products with 20-bit integers are exact.")
print(f"pub const HALF_PI_PARTS: [f64; 3] = [{', '.join(map(rust, parts(pi / 2, [33, 33, 53])))}];")
print("/// π / 2 as an unevaluated sum.")
print(f"pub const HALF_PI: (f64, f64) = {double_double(pi / 2)};")
print("/// 2 / sqrt π as an unevaluated sum.")
print(f"pub const TWO_OVER_SQRT_PI: (f64, f64) = {double_double(2 / sqrt(pi))};")
print("/// 1 / n! as unevaluated sums.")
print(f"pub const INVERSE_FACTORIALS: [(f64, f64); 30] = [{', '.join(double_double(1 / factorial(n)) for n in range(30))}];")
words = int(floor(2 / pi * mpf(2) ** 320))
print("/// 64 zero bits, then the first 320 bits of 2 / π after the binary point.")
print(f"pub const TWO_OVER_PI_BITS: [u64; 6] = [0, {', '.join(f'{words >> 64 * (4 - i) & (2**64 - 1):#018x}' for i in range(5))}];")

half_ln2 = log(2) / 2 * mpf("1.0001")
polynomial("EXPONENTIAL", "(e^r - 1) / r for |r| ≤ ln 2 / 2, relative",
           series(lambda r: expm1(r) / r, 1), lambda r: 1 / series(lambda r: expm1(r) / r, 1)(r), -half_ln2, half_ln2, 8)
greatest = ((sqrt(2) - 1) / (sqrt(2) + 1)) ** 2 * mpf("1.0001")
atanh_series = series(lambda z: atanh(sqrt(z)) / sqrt(z), 1)
polynomial("LOGARITHM", "(atanh(s) / s - 1) / s² as a polynomial in s², for |s| ≤ (sqrt 2 - 1) / (sqrt 2 + 1), relative to atanh(s) / s",
           series(lambda z: (atanh_series(z) - 1) / z, mpf(1) / 3), lambda z: z / atanh_series(z) if z else mpf(10) ** -9, 0, greatest, 4)
minus_log_erfc = series(lambda x: -log(erfc(x)) / x, 2 / sqrt(pi))
polynomial("ERROR_FUNCTION", "-log(erfc(x)) / x as a polynomial in x - 2, for 0 ≤ x ≤ 4, by its relative effect on erf(x)",
           lambda t: minus_log_erfc(t + 2),
           lambda t: (t + 2) * erfc(t + 2) / erf(t + 2) if t > -2 else sqrt(pi) / 2, -2, 2, 16)
square = (pi / 4) ** 2 * mpf("1.0001")
sine = series(lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z, -mpf(1) / 6)
polynomial("SINE", "(sin(r) / r - 1) / r² as a polynomial in r², for |r| ≤ π / 4, relative to sin(r) / r",
           sine, lambda z: z / (sin(sqrt(z)) / sqrt(z)) if z else mpf(10) ** -9, 0, square, 4)
cosine = series(lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, mpf(1) / 24)
polynomial("COSINE", "(cos(r) - 1 + r² / 2) / r⁴ as a polynomial in r², for |r| ≤ π / 4, relative to cos(r)",
           cosine, lambda z: z**2 / cos(sqrt(z)) if z else mpf(10) ** -9, 0, square, 3)
