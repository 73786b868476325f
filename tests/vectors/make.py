"""Writes the test vectors beside it: `python3 make.py` (needs mpmath).

A file of ops has blocks: a line `op KIND NAME=VALUE …`, lines `in FORMAT SHAPE DATA` and `out FORMAT SHAPE DATA`. Numbers are bits of f32
in hexadecimal, also those of narrower formats; i32 are decimal. SHAPE is `2x3`, `-` for a scalar. DATA may be `plain S` or `wide S`: element
i is made of word i of step 0 of stream S under the seed 1, rounded to the format: with k = (word >> 8) - 2^23, plain is k · 2^-21, in
-4 … 4, and wide k · 2^((word mod 16) - 27), of many magnitudes.
"""

import itertools
import math
import random
from pathlib import Path

from arithmetic import *

HERE = Path(__file__).parent
generator = random.Random(20261)


def write(name, about, lines):
    (HERE / f"{name}.txt").write_text(f"# {about} Made by make.py.\n" + "\n".join(lines) + "\n")


def size(shape):
    return math.prod(shape)


def draw(kind, stream, shape, form):
    source, values = Stream(1, stream), []
    for element in range(size(shape)):
        word = source.word(0, element)
        k, place = (word >> 8) - 2**23, -21 if kind == "plain" else word % 16 - 27
        values.append(convert(k * 2.0**place, form))
    return values


class Ops:
    def __init__(self):
        self.lines = []

    def op(self, name, /, **attributes):
        words = [f"{key.replace('_', '-')}={value}" for key, value in attributes.items()]
        self.lines.append(" ".join(["", f"op {name}", *words]).strip())

    def data(self, way, shape, form, data):
        data = " ".join(str(x) if form == "i32" else f"{bits(x):08x}" for x in data) if isinstance(data, list) else data
        self.lines.append(f"{way} {form} {'x'.join(map(str, shape)) or '-'} {data}".rstrip())

    def draw(self, kind, stream, shape, form="f32"):
        self.data("in", shape, form, f"{kind} {stream}")
        return draw(kind, stream, shape, form)

    def give(self, shape, values, form="f32"):
        self.data("in", shape, form, values)
        return values

    def out(self, shape, values, form="f32"):
        self.data("out", shape, form, [convert(x, form) for x in values] if form != "i32" else values)


# ---- functions and formats

SPECIAL = [0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x33800000, 0x3F800000, 0xBF800000, 0x40490FDB, 0x42B17218, 0xC2CFF1B5,
           0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000]


def functions():
    lines = []
    for name, low, high in [("exp", 1e-6, 104), ("log", 1e-45, 3e38), ("tanh", 1e-6, 10), ("erf", 1e-6, 5), ("sin", 1e-6, 3e38), ("cos", 1e-6, 3e38)]:
        spread = [bits(low), bits(high)]
        patterns = [generator.randint(*spread) | generator.choice((0, 1 << 31)) for _ in range(40)]
        for pattern in SPECIAL + patterns:
            lines.append(f"{name} {pattern:08x} {bits(real(name, of_bits(pattern))):08x}")
    for base, n in [(0.9, 0), (0.9, 1), (0.999, 12345), (0.95, 700), (1.0001, 99999), (0.5, 31)]:
        lines.append(f"power {struct.pack('>d', base).hex()} {n} {struct.pack('>d', power(base, n)).hex()}")
    write("functions", "Correctly rounded functions: name, argument, result; powers in f64: base, exponent, result.", lines)


def formats():
    lines = []
    ties = {"f16": 13, "bf16": 16, "tf32": 13}
    for form, cut in ties.items():
        patterns = list(SPECIAL)
        for base in (0x3F800000, 0x3F800000 + (1 << cut), 0x477FE000, 0x7F7F0000, 0x38800000, 0x00400000):
            half = 1 << (cut - 1)
            patterns += [base + half - 1, base + half, base + half + 1, base]
        # Around the subnormal numbers of f16 and their least half.
        patterns += [0x33000000, 0x33000001, 0x32FFFFFF, 0x33C00000, 0x387FC000, 0x387FE000, 0x387FFFFF, 0x477FEFFF, 0x477FF000]
        patterns += [generator.getrandbits(32) for _ in range(20)] + [generator.randint(0x33000000, 0x47800000) for _ in range(20)]
        for pattern in patterns:
            for sign in (0, 1 << 31):
                lines.append(f"{form} {pattern | sign:08x} {bits(convert(of_bits(pattern | sign), form)):08x}")
    write("formats", "Rounding to narrower formats: format, f32, result as f32.", list(dict.fromkeys(lines)))


def pointwise():
    ops = Ops()
    values = [of_bits(x) for x in SPECIAL] + draw("plain", 1, (23,), "f32") + draw("wide", 2, (8,), "f32")
    count = (len(values),)
    for name, form in itertools.product(UNARY, ("f32", "f16", "bf16")):
        ops.op("unary", kind=name)
        x = ops.give(count, [convert(x, form) for x in values], form)
        y = [UNARY[name](x) for x in x]
        ops.out(count, y, form)
        ops.op("unary-backward", kind=name)
        dy = ops.draw("plain", 3, count, form)
        saved = ops.give(count, [convert(x, form) for x in y] if name in ("tanh", "sigmoid") else x, form)
        ops.out(count, [unary_gradient(name, dy, x) for dy, x in zip(dy, saved)], form)
    write("pointwise", "Functions of elements and their gradients.", ops.lines)


# ---- sums and products


def sums():
    ops = Ops()
    for count, stream in zip((1, 2, 15, 16, 17, 33, 4095, 4096, 4097, 9000), itertools.count(20)):
        ops.op("mean", start=0, end=1)
        x = ops.draw("wide", stream, (count,))
        ops.out((), [div(column_sums(count, 1, x)[0], float(count))])
        # Squares of which the vector sum is taken.
        ops.op("global-norm")
        ops.data("in", (count,), "f32", f"wide {stream}")
        ops.out((), [sqrt(total([total([mul(x, x) for x in x])]))])
    for rows, columns in ((1, 3), (5, 7), (256, 2), (257, 3), (600, 2)):
        ops.op("bias-backward", axis=1)
        x = ops.draw("wide", 40 + columns, (rows, columns))
        ops.out((columns,), column_sums(rows, columns, x))
    write("sums", "Vector sums and column sums of many magnitudes.", ops.lines)


def products():
    ops = Ops()
    for rows, depth, columns, form in ((2, 3, 2, "f32"), (3, 17, 5, "f32"), (2, 100, 3, "f16"), (3, 33, 4, "bf16")):
        kind = "wide" if form == "f32" else "plain"
        ops.op("linear", bias=1)
        x, w = ops.draw(kind, 50, (rows, depth), form), ops.draw(kind, 51, (columns, depth), form)
        b = ops.draw("plain", 52, (columns,), form)
        row = lambda m, i, n: m[i * n : (i + 1) * n]
        y = [add(chain(row(x, r, depth), row(w, c, depth)), b[c]) for r in range(rows) for c in range(columns)]
        ops.out((rows, columns), y, form)
        ops.op("linear-backward-input")
        dy = ops.draw(kind, 53, (rows, columns), form)
        ops.data("in", (columns, depth), form, f"{kind} 51")
        ops.out((rows, depth), [chain(row(dy, r, columns), w[i::depth]) for r in range(rows) for i in range(depth)], form)
        ops.op("linear-backward-weight")
        ops.data("in", (rows, columns), form, f"{kind} 53")
        ops.data("in", (rows, depth), form, f"{kind} 50")
        ops.out((columns, depth), [chain(dy[o::columns], x[i::depth]) for o in range(columns) for i in range(depth)], form)
    # Images and results are (N, C, H, W) here.
    for n, c, h, w_, o, kernel, stride, padding, dilation in ((2, 3, 5, 4, 2, 3, 1, 1, 1), (1, 2, 7, 7, 3, 3, 2, 2, 2), (1, 4, 4, 4, 2, 1, 1, 0, 1)):
        ops.op("conv2d", stride=stride, padding=padding, dilation=dilation)
        x, weight = ops.draw("wide", 60, (n, c, h, w_)), ops.draw("plain", 61, (o, c, kernel, kernel))
        b = ops.draw("plain", 62, (o,))
        reach = dilation * (kernel - 1) + 1
        high, wide = (h + 2 * padding - reach) // stride + 1, (w_ + 2 * padding - reach) // stride + 1
        y = []
        for image, out, row, column in itertools.product(range(n), range(o), range(high), range(wide)):
            acc = 0.0
            for i, j, channel in itertools.product(range(kernel), range(kernel), range(c)):
                at = (row * stride + i * dilation - padding, column * stride + j * dilation - padding)
                inside = 0 <= at[0] < h and 0 <= at[1] < w_
                value = x[((image * c + channel) * h + at[0]) * w_ + at[1]] if inside else 0.0
                acc = fma(value, weight[((out * c + channel) * kernel + i) * kernel + j], acc)
            y.append(add(acc, b[out]))
        ops.out((n, o, high, wide), y)
    write("products", "Chains of fused multiply-adds: linear layers, their gradients, convolutions.", ops.lines)


# ---- norms


def rstd_of(squares, n, eps):
    return div(1.0, sqrt(add(div(squares, n), eps)))


def norms():
    ops = Ops()
    eps = const("1e-5")
    for rows, columns, form in ((2, 5, "f32"), (3, 40, "f32"), (2, 33, "f16"), (2, 20, "bf16")):
        n = float(columns)
        gamma, beta = draw("plain", 71, (columns,), "f32"), draw("plain", 72, (columns,), "f32")
        row = lambda m, r: m[r * columns : (r + 1) * columns]
        for kind in ("layer-norm", "rms-norm"):
            ops.op(kind, eps=f"{bits(eps):08x}")
            x = ops.draw("plain", 70, (rows, columns), form)
            ops.draw("plain", 71, (columns,))
            mean = [0.0] * rows
            if kind == "layer-norm":
                ops.draw("plain", 72, (columns,))
                mean = [div(total(row(x, r)), n) for r in range(rows)]
                centred = [[sub(x, mean[r]) for x in row(x, r)] for r in range(rows)]
            else:
                centred = [row(x, r) for r in range(rows)]
            rstd = [rstd_of(total([mul(c, c) for c in centred[r]]), n, eps) for r in range(rows)]
            normal = [[mul(c, rstd[r]) for c in centred[r]] for r in range(rows)]
            scaled = [mul(x, gamma[c]) for r in range(rows) for c, x in enumerate(normal[r])]
            y = [add(s, beta[at % columns]) for at, s in enumerate(scaled)] if kind == "layer-norm" else scaled
            ops.out((rows, columns), y, form)
            if kind == "layer-norm":
                ops.out((rows,), mean)
            ops.out((rows,), rstd)
            ops.op(f"{kind}-backward")
            dy = ops.draw("plain", 73, (rows, columns), form)
            ops.data("in", (rows, columns), form, "plain 70")
            ops.data("in", (columns,), "f32", "plain 71")
            if kind == "layer-norm":
                ops.give((rows,), mean)
            ops.give((rows,), rstd)
            dx, told = [], []
            for r in range(rows):
                g = [mul(d, gamma[c]) for c, d in enumerate(row(dy, r))]
                share = div(total([mul(g, x) for g, x in zip(g, normal[r])]), n)
                average = div(total(g), n)
                for c in range(columns):
                    left = sub(g[c], average) if kind == "layer-norm" else g[c]
                    dx.append(mul(rstd[r], sub(left, mul(normal[r][c], share))))
                told += [mul(d, x) for d, x in zip(row(dy, r), normal[r])]
            ops.out((rows, columns), dx, form)
            ops.out((columns,), column_sums(rows, columns, told))
            if kind == "layer-norm":
                ops.out((columns,), column_sums(rows, columns, dy))
    batch_norm(ops, eps)
    group_norm(ops, eps)
    write("norms", "Layer, RMS, batch and group normalisation and their gradients.", ops.lines)


def batch_norm(ops, eps):
    momentum = const("0.1")
    for rows, channels, form in ((4, 3, "f32"), (300, 2, "f32"), (6, 8, "f16")):
        n = float(rows)
        ops.op("batch-norm", eps=f"{bits(eps):08x}", momentum=f"{bits(momentum):08x}")
        x = ops.draw("plain", 80, (rows, channels), form)
        gamma, beta = ops.draw("plain", 81, (channels,)), ops.draw("plain", 82, (channels,))
        old = ops.draw("plain", 83, (channels,)), ops.draw("plain", 84, (channels,))
        mean = [div(s, n) for s in column_sums(rows, channels, x)]
        centred = [sub(x, mean[at % channels]) for at, x in enumerate(x)]
        squares = column_sums(rows, channels, [mul(c, c) for c in centred])
        rstd = [rstd_of(s, n, eps) for s in squares]
        normal = [mul(c, rstd[at % channels]) for at, c in enumerate(centred)]
        y = [add(mul(x, gamma[at % channels]), beta[at % channels]) for at, x in enumerate(normal)]
        blend = lambda old, new: add(mul(sub(1.0, momentum), old), mul(momentum, new))
        ops.out((rows, channels), y, form)
        ops.out((channels,), mean)
        ops.out((channels,), rstd)
        ops.out((channels,), [blend(old, new) for old, new in zip(old[0], mean)])
        ops.out((channels,), [blend(old, div(s, n - 1)) for old, s in zip(old[1], squares)])
        ops.op("batch-norm-backward")
        dy = ops.draw("plain", 85, (rows, channels), form)
        ops.data("in", (rows, channels), form, "plain 80")
        ops.data("in", (channels,), "f32", "plain 81")
        ops.give((channels,), mean)
        ops.give((channels,), rstd)
        dbeta = column_sums(rows, channels, dy)
        dgamma = column_sums(rows, channels, [mul(d, x) for d, x in zip(dy, normal)])
        dx = []
        for at, d in enumerate(dy):
            c = at % channels
            centre = sub(d, div(dbeta[c], n))
            dx.append(mul(mul(gamma[c], rstd[c]), sub(centre, mul(normal[at], div(dgamma[c], n)))))
        ops.out((rows, channels), dx, form)
        ops.out((channels,), dgamma)
        ops.out((channels,), dbeta)


def group_norm(ops, eps):
    for examples, channels, pixels, groups, form in ((2, 4, 3, 2, "f32"), (1, 6, 20, 3, "f32"), (2, 4, 5, 1, "bf16")):
        shape, each = (examples, channels, pixels), channels // groups * pixels
        n, count = float(each), examples * groups
        ops.op("group-norm", groups=groups, eps=f"{bits(eps):08x}")
        x = ops.draw("plain", 86, shape, form)
        gamma, beta = ops.draw("plain", 87, (channels,)), ops.draw("plain", 88, (channels,))
        channel = lambda at: at // pixels % channels
        row = lambda m, r: m[r * each : (r + 1) * each]
        mean = [div(total(row(x, r)), n) for r in range(count)]
        centred = [sub(x, mean[at // each]) for at, x in enumerate(x)]
        rstd = [rstd_of(total([mul(c, c) for c in row(centred, r)]), n, eps) for r in range(count)]
        normal = [mul(c, rstd[at // each]) for at, c in enumerate(centred)]
        ops.out(shape, [add(mul(x, gamma[channel(at)]), beta[channel(at)]) for at, x in enumerate(normal)], form)
        ops.out((examples, groups), mean)
        ops.out((examples, groups), rstd)
        ops.op("group-norm-backward", groups=groups)
        dy = ops.draw("plain", 89, shape, form)
        ops.data("in", shape, form, "plain 86")
        ops.data("in", (channels,), "f32", "plain 87")
        ops.give((examples, groups), mean)
        ops.give((examples, groups), rstd)
        g = [mul(d, gamma[channel(at)]) for at, d in enumerate(dy)]
        average = [div(total(row(g, r)), n) for r in range(count)]
        share = [div(total([mul(g, x) for g, x in zip(row(g, r), row(normal, r))]), n) for r in range(count)]
        dx = [mul(rstd[at // each], sub(sub(g[at], average[at // each]), mul(normal[at], share[at // each]))) for at in range(len(x))]
        ops.out(shape, dx, form)
        for told in ([mul(d, x) for d, x in zip(dy, normal)], dy):
            sums = [total(told[at * pixels : (at + 1) * pixels]) for at in range(examples * channels)]
            ops.out((channels,), column_sums(examples, channels, sums))


# ---- softmax, losses, attention


def log_sum_exp(x):
    m = largest(x)
    return add(m, log(total([exp(sub(x, m)) for x in x])))


def losses():
    ops = Ops()
    for rows, classes, form in ((2, 3, "f32"), (3, 37, "f32"), (2, 20, "f16"), (2, 20, "bf16")):
        row = lambda m, r: m[r * classes : (r + 1) * classes]
        ops.op("softmax", axis=1)
        x = ops.draw("plain", 90, (rows, classes), form)
        y = []
        for r in range(rows):
            m = largest(row(x, r))
            e = [exp(sub(x, m)) for x in row(x, r)]
            y += [div(e_, total(e)) for e_ in e]
        ops.out((rows, classes), y, form)
        ops.op("softmax-backward", axis=1)
        dy = ops.draw("plain", 91, (rows, classes), form)
        y = ops.give((rows, classes), [convert(y, form) for y in y], form)
        dx = []
        for r in range(rows):
            products = total([mul(d, y) for d, y in zip(row(dy, r), row(y, r))])
            dx += [mul(sub(d, products), y) for d, y in zip(row(dy, r), row(y, r))]
        ops.out((rows, classes), dx, form)
    for rows, classes, smoothing in ((3, 5, 0.0), (4, 11, const("0.1")), (20, 3, 0.0)):
        ops.op("cross-entropy", smoothing=f"{bits(smoothing):08x}", ignore=2)
        x = ops.draw("plain", 92, (rows, classes))
        labels = ops.give((rows,), [Stream(1, 93).word(0, r) % classes for r in range(rows)], "i32")
        row = lambda r: x[r * classes : (r + 1) * classes]
        lse = [log_sum_exp(row(r)) for r in range(rows)]
        kept, spread = sub(1.0, smoothing), div(smoothing, float(classes))
        lost = []
        for r, label in enumerate(labels):
            if label == 2:
                lost.append(0.0)
                continue
            own = mul(kept, sub(lse[r], row(r)[label]))
            others = total([sub(lse[r], x) for x in row(r)])
            lost.append(add(own, mul(spread, others)) if smoothing else own)
        count = sum(label != 2 for label in labels)
        ops.out((), [div(total(lost), float(count)) if count else NAN])
        ops.out((rows,), lse)
        ops.out((), [float(count)])
        ops.op("cross-entropy-backward", smoothing=f"{bits(smoothing):08x}", ignore=2)
        scale = ops.give((), [const("3.7")])[0]
        ops.data("in", (rows, classes), "f32", "plain 92")
        ops.give((rows,), labels, "i32")
        ops.give((rows,), lse)
        ops.give((), [float(count)])
        factor, dx = div(scale, float(count)) if count else NAN, []
        for r, c in itertools.product(range(rows), range(classes)):
            p = exp(sub(row(r)[c], lse[r]))
            p = sub(p, kept) if labels[r] == c else p
            dx.append(0.0 if labels[r] == 2 else mul(factor, sub(p, spread)))
        ops.out((rows, classes), dx)
    ops.op("mean-squared-error")
    a, b = ops.draw("wide", 94, (40,)), ops.draw("wide", 95, (40,))
    ops.out((), [div(total([mul(sub(a, b), sub(a, b)) for a, b in zip(a, b)]), 40.0)])
    write("losses", "Softmax and losses and their gradients; label 2 is ignored.", ops.lines)


def attention():
    ops = Ops()
    plain = ((2, 3, 4, 4, 0, "f32"), (1, 8, 5, 5, 1, "f32"), (1, 4, 3, 20, 0, "f16"), (2, 4, 50, 50, 1, "bf16"))
    # The axes of a bias are those of the scores or 1; the last query of the second case attends to nothing.
    biased = (
        (2, 3, 4, 5, 0, "f32", (2, 2, 4, 5), [1, 1, 1, 0, 1, 0, 0, 1, 1, 1]),
        (2, 4, 6, 6, 1, "f16", (1, 2, 6, 6), [0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 1, 1]),
        (1, 4, 5, 18, 0, "bf16", (1, 1, 5, 18), None),
        (2, 2, 3, 7, 0, "f32", (2, 1, 1, 7), None),
    )
    for heads, d, t, s, causal, form in plain:
        attended(ops, 1, heads, d, t, s, causal, form, None, None)
    for heads, d, t, s, causal, form, shape, mask in biased:
        attended(ops, 2 if mask or shape[0] == 2 else 1, heads, d, t, s, causal, form, shape, mask)
    write("attention", "Attention, its log-sum-exp, and its gradients; some have a bias of the scores and a mask of the keys.", ops.lines)


def attended(ops, n, heads, d, t, s, causal, form, shape, mask):
    """One attention of n examples and its gradients; `shape` is that of the bias, `mask` has 1 where keys are attended to."""
    scale, width = div(1.0, sqrt(float(d))), heads * d
    rule = dict(heads=heads, causal=causal, scale=f"{bits(scale):08x}")
    rule |= dict(bias=int(shape is not None), mask=int(mask is not None)) if shape else {}
    operands = ((96, t), (97, s), (98, s))
    around = lambda: (shape and ops.draw("plain", 88, shape), mask and ops.give((n, s), [float(m) for m in mask]))
    ops.op("attention", **rule)
    q, k, v = (ops.draw("plain", stream, (n, count, width), form) for stream, count in operands)
    bias, _ = around()
    at = lambda m, count, e, place, h: m[(e * count + place) * width + h * d :][:d]
    biased = lambda *place: flat(shape, place) if shape else None
    shown = lambda e, i, j: not (causal and j > i) and not (mask and not mask[e * s + j])
    reach = lambda i: range(min(s, (i // 48 + 1) * 48) if causal else s)
    x, y, lse = {}, {}, {}
    for e, h, i in itertools.product(range(n), range(heads), range(t)):
        for j in range(s):
            score = mul(chain(at(q, t, e, i, h), at(k, s, e, j, h)), scale)
            x[e, h, i, j] = (add(score, bias[biased(e, h, i, j)]) if shape else score) if shown(e, i, j) else -INF
        m = largest([x[e, h, i, j] for j in range(s)])
        weights = [exp(sub(x[e, h, i, j], m)) if m > -INF else 0.0 for j in range(s)]
        l = total(weights)
        lse[e, h, i] = add(m, log(l)) if m > -INF else -INF
        for c in range(d):
            y[e, i, h, c] = div(chain([weights[j] for j in reach(i)], [at(v, s, e, j, h)[c] for j in reach(i)]), l) if m > -INF else 0.0
    places = lambda count: itertools.product(range(n), range(count), range(heads), range(d))
    y = [convert(y[place], form) for place in places(t)]
    ops.out((n, t, width), y, form)
    ops.out((n, heads, t), list(lse.values()))
    ops.op("attention-backward", **rule)
    dy = ops.draw("plain", 99, (n, t, width), form)
    for stream, count in operands:
        ops.data("in", (n, count, width), form, f"plain {stream}")
    around()
    ops.give((n, t, width), y, form)
    ops.give((n, heads, t), list(lse.values()))
    p, z = {}, {}
    for e, h, i, j in x:
        p[e, h, i, j] = exp(sub(x[e, h, i, j], lse[e, h, i])) if lse[e, h, i] > -INF else 0.0
        delta = total([mul(a, b) for a, b in zip(at(dy, t, e, i, h), at(y, t, e, i, h))])
        slope = mul(p[e, h, i, j], sub(chain(at(dy, t, e, i, h), at(v, s, e, j, h)), delta))
        z[e, h, i, j] = 0.0 if causal and j > i else slope
    queries = lambda j: range(j // 48 * 48 if causal else 0, t)
    dq = [mul(chain([z[e, h, i, j] for j in reach(i)], [at(k, s, e, j, h)[c] for j in reach(i)]), scale) for e, i, h, c in places(t)]
    dk = [mul(chain([z[e, h, i, j] for i in queries(j)], [at(q, t, e, i, h)[c] for i in queries(j)]), scale) for e, j, h, c in places(s)]
    dv = [chain([p[e, h, i, j] for i in queries(j)], [at(dy, t, e, i, h)[c] for i in queries(j)]) for e, j, h, c in places(s)]
    for count, gradient in ((t, dq), (s, dk), (s, dv)):
        ops.out((n, count, width), gradient, form)
    if shape:
        sums = [0.0] * size(shape)
        for place, slope in z.items():
            sums[biased(*place)] = add(sums[biased(*place)], slope)
        ops.out(shape, sums)


def flat(shape, place):
    """Where an element of a larger tensor finds its number in one whose axes are as long or 1."""
    at = 0
    for length, index in zip(shape, place):
        at = at * length + (index if length > 1 else 0)
    return at


# ---- biases of positions


def steps(a, m, e, n, up):
    """log(a/e) / log(m/e) · n, rounded down or up: (m/e)^c against (a/e)^n in whole numbers."""
    c = 0
    while m ** (c + 1) * e**n <= a**n * e ** (c + 1):
        c += 1
    return c + 1 if up and m**c * e**n < a**n * e**c else c


def t5_bucket(distance, buckets, furthest, both):
    """The bucket of key - query."""
    count = buckets // 2 if both else buckets
    first = count if both and distance > 0 else 0
    distance = abs(distance) if both else max(-distance, 0)
    exact = count // 2
    if distance < exact:
        return first + distance
    return first + min(exact + steps(distance, furthest, exact, count - exact, False), count - 1)


def deberta_row(distance, buckets, furthest):
    """The row of query - key."""
    middle, sign, far = buckets // 2, 1 if distance > 0 else -1, abs(distance)
    if far > middle:
        far = middle + steps(far, furthest - 1, middle, middle - 1, True)
    return min(max(buckets + sign * far, 0), 2 * buckets - 1)


def relative_positions(ops):
    sizes = [(2, 1, 8, 20, 1, "f32"), (1, 24, 8, 20, 0, "f32"), (3, 21, 7, 16, 1, "f16"), (1, 26, 5, 11, 0, "bf16")]
    sizes += [(2, 9, 8, 8, 1, form) for form in ("f32", "f16", "bf16")]
    for heads, t, buckets, furthest, both, form in sizes:
        rule = dict(buckets=buckets, max_distance=furthest, both=both)
        bucket = lambda i, j: t5_bucket(j - i, buckets, furthest, both)
        scores = list(itertools.product(range(heads), range(t), range(t)))
        ops.op("relative-position-bias", **rule)
        weight = ops.draw("wide", 89, (buckets, heads), form)
        ops.out((1, heads, t, t), [weight[bucket(i, j) * heads + h] for h, i, j in scores], form)
        ops.op("relative-position-bias-backward", **rule)
        dy, sums = ops.draw("plain", 90, (1, heads, t, t), form), [0.0] * (buckets * heads)
        for slope, (h, i, j) in zip(dy, scores):
            sums[bucket(i, j) * heads + h] = add(sums[bucket(i, j) * heads + h], slope)
        ops.out((buckets, heads), sums, form)


def disentangled(ops, n, t, heads, d, buckets, furthest, terms, form):
    """Two passes; `terms` says of each pair of content and table whether the content is that of the key."""
    width, rows = heads * d, 2 * buckets
    scale = div(1.0, sqrt(mul(float(d), 3.0)))
    told = {"to-position": int(False in terms), "to-content": int(True in terms)}
    rule = dict(heads=heads, buckets=buckets, max_position=furthest, scale=f"{bits(scale):08x}") | told
    row = {(i, j): deberta_row(i - j, buckets, furthest) for i, j in itertools.product(range(t), range(t))}
    used = sorted(set(row.values()))
    operands = lambda: [
        (ops.draw("plain", 91 + 2 * index, (n, t, width), form), ops.draw("plain", 92 + 2 * index, (1, rows, width), form))
        for index in range(len(terms))
    ]
    ops.op("disentangled-bias", **rule)
    pairs = operands()
    head = lambda m, at, h: m[at * width + h * d :][:d]
    scores, y = list(itertools.product(range(n), range(heads), range(t), range(t))), []
    for e, h, i, j in scores:
        chains = [chain(head(x, e * t + (j if key else i), h), head(z, row[i, j], h)) for (x, z), key in zip(pairs, terms)]
        y.append(mul(add(*chains) if len(chains) == 2 else chains[0], scale))
    ops.out((n, heads, t, t), y)
    ops.op("disentangled-bias-backward", **rule)
    dy = dict(zip(scores, ops.draw("plain", 95, (n, heads, t, t))))
    for (x, z), key in zip(operands(), terms):
        sums = {}
        for e, h, own in itertools.product(range(n), range(heads), range(t)):
            for other in range(t):
                i, j = (other, own) if key else (own, other)
                place = e, h, own, row[i, j]
                sums[place] = add(sums.get(place, 0.0), mul(dy[e, h, i, j], scale))
        g = lambda *place: sums.get(place, 0.0)
        dx = [
            chain([g(e, h, own, at) for at in used], [head(z, at, h)[c] for at in used])
            for e, own, h, c in itertools.product(range(n), range(t), range(heads), range(d))
        ]
        everywhere = list(itertools.product(range(n), range(t)))
        dz = [
            chain([g(e, h, own, at) for e, own in everywhere], [head(x, e * t + own, h)[c] for e, own in everywhere]) if at in used else 0.0
            for at, h, c in itertools.product(range(rows), range(heads), range(d))
        ]
        ops.out((n, t, width), dx, form)
        ops.out((1, rows, width), dz, form)


def positions():
    ops = Ops()
    relative_positions(ops)
    for terms, form in itertools.product(((False, True), (False,), (True,)), ("f32", "f16", "bf16")):
        disentangled(ops, 2, 5, 2, 3, 8, 16, terms, form)
    disentangled(ops, 1, 1, 1, 1, 4, 5, (False, True), "f32")
    disentangled(ops, 1, 22, 1, 5, 8, 16, (False, True), "f32")
    disentangled(ops, 1, 26, 2, 2, 6, 9, (True,), "f16")
    disentangled(ops, 1, 26, 1, 4, 6, 9, (False,), "bf16")
    write("positions", "Biases of relative positions (T5) and of disentangled attention (DeBERTa), and their gradients.", ops.lines)


# ---- images and sequences; images are (N, C, H, W) here


def window(o, kernel, stride, padding, extent):
    return [at for at in range(o * stride - padding, o * stride - padding + kernel) if 0 <= at < extent]


def counted(o, kernel, stride, padding, extent):
    """Positions of the padded image in a window."""
    return len([at for at in range(o * stride, o * stride + kernel) if at < extent + 2 * padding])


def folded(values):
    acc = 0.0
    for value in values:
        acc = add(acc, value)
    return acc


def pools(ops):
    sizes = ((2, 3, 5, 4, 2, 2, 0), (1, 2, 7, 6, 3, 2, 1), (1, 1, 4, 4, 3, 1, 1), (1, 2, 5, 5, 2, 3, 1))
    for (n, c, h, w, kernel, stride, padding), form in itertools.product(sizes, ("f32", "f16", "bf16")):
        rule = dict(kernel=kernel, stride=stride, padding=padding)
        high, wide = ((extent + 2 * padding - kernel) // stride + 1 for extent in (h, w))
        outputs = list(itertools.product(range(n), range(c), range(high), range(wide)))
        place = {output: index for index, output in enumerate(outputs)}
        inputs = list(itertools.product(range(n), range(c), range(h), range(w)))
        at = lambda image, channel, row, column: ((image * c + channel) * h + row) * w + column
        rows = [window(o, kernel, stride, padding, h) for o in range(high)]
        columns = [window(o, kernel, stride, padding, w) for o in range(wide)]
        ops.op("max-pool2d", **rule)
        x = [convert(value, form) for value in draw("plain", 120, (n, c, h, w), form)]
        # Equal numbers, zeros of both signs, infinities and a NaN.
        x[1], x[3], x[6], x[-1], x[-3] = x[0], -0.0, 0.0, NAN, -INF
        x = ops.give((n, c, h, w), x, form)
        largest_, index = [], []
        for image, channel, i, j in outputs:
            best, where = -INF, -1
            for row, column in itertools.product(rows[i], columns[j]):
                value = x[at(image, channel, row, column)]
                if value > best or math.isnan(value) or where < 0:
                    best, where = value, row * w + column
            largest_.append(best)
            index.append(where)
        ops.out((n, c, high, wide), largest_, form)
        ops.out((n, c, high, wide), index, "i32")
        ops.op("max-pool2d-backward", **rule)
        dy = ops.draw("plain", 121, (n, c, high, wide), form)
        ops.give((n, c, high, wide), index, "i32")
        covers = lambda i, j, row, column: row in rows[i] and column in columns[j]
        reached = lambda image, channel: ((i, j, place[image, channel, i, j]) for i in range(high) for j in range(wide))
        dx = [
            folded(dy[o] for i, j, o in reached(image, channel) if covers(i, j, row, column) and index[o] == row * w + column)
            for image, channel, row, column in inputs
        ]
        ops.out((n, c, h, w), dx, form)
        for include in (0, 1):
            ops.op("average-pool2d", **rule, include=include)
            x = ops.draw("plain", 122, (n, c, h, w), form)
            size_of = counted if include else lambda *window_: len(window(*window_))
            divisor = lambda i, j: float(size_of(i, kernel, stride, padding, h) * size_of(j, kernel, stride, padding, w))
            y = []
            for image, channel, i, j in outputs:
                inside = [x[at(image, channel, row, column)] for row, column in itertools.product(rows[i], columns[j])]
                y.append(div(folded(inside), divisor(i, j)) if inside else 0.0)
            ops.out((n, c, high, wide), y, form)
            ops.op("average-pool2d-backward", **rule, include=include)
            dy = ops.draw("plain", 121, (n, c, high, wide), form)
            dx = [
                folded(div(dy[o], divisor(i, j)) for i, j, o in reached(image, channel) if covers(i, j, row, column))
                for image, channel, row, column in inputs
            ]
            ops.out((n, c, h, w), dx, form)


def around(o, scale, extent):
    """The two positions around output o, and the share of the second."""
    place = max(Fraction(2 * o + 1, 2 * scale) - Fraction(1, 2), 0)
    first = int(place)
    if first >= extent - 1:
        return extent - 1, extent - 1, 0.0
    return first, first + 1, nearest(place - first) if place > first else 0.0


def upsampling(ops):
    for (n, c, h, w, high, wide), form in itertools.product(((1, 2, 3, 2, 2, 2), (2, 1, 2, 3, 3, 1), (1, 1, 1, 4, 2, 3)), ("f32", "f16", "bf16")):
        large = list(itertools.product(range(n), range(c), range(h * high), range(w * wide)))
        place = {output: index for index, output in enumerate(large)}
        small = list(itertools.product(range(n), range(c), range(h), range(w)))
        at = lambda image, channel, row, column: ((image * c + channel) * h + row) * w + column
        rows = [around(o, high, h) for o in range(h * high)]
        columns = [around(o, wide, w) for o in range(w * wide)]
        for mode in ("nearest", "bilinear"):
            ops.op("upsample2d", mode=mode, high=high, wide=wide)
            x = ops.draw("plain", 123, (n, c, h, w), form)
            y = []
            for image, channel, i, j in large:
                pixel = lambda row, column: x[at(image, channel, row, column)]
                if mode == "nearest":
                    y.append(pixel(i // high, j // wide))
                    continue
                (above, below, v), (left, right, u) = rows[i], columns[j]
                mixed = lambda row: add(mul(sub(1.0, u), pixel(row, left)), mul(u, pixel(row, right)))
                y.append(add(mul(sub(1.0, v), mixed(above)), mul(v, mixed(below))))
            ops.out((n, c, h * high, w * wide), y, form)
            ops.op("upsample2d-backward", mode=mode, high=high, wide=wide)
            dy = ops.draw("plain", 124, (n, c, h * high, w * wide), form)
            share = lambda parts, at_: sub(1.0, parts[2]) if parts[0] == at_ else parts[2] if parts[1] == at_ else 0.0
            dx = []
            for image, channel, row, column in small:
                terms = []
                for i, j in itertools.product(range(h * high), range(w * wide)):
                    value = dy[place[image, channel, i, j]]
                    if mode == "nearest":
                        terms += [value] if (i // high, j // wide) == (row, column) else []
                        continue
                    both = mul(share(rows[i], row), share(columns[j], column))
                    terms += [mul(both, value)] if both != 0 else []
                dx.append(folded(terms))
            ops.out((n, c, h, w), dx, form)


def images():
    ops = Ops()
    pools(ops)
    upsampling(ops)
    write("images", "Pools, enlargement, and their gradients.", ops.lines)


def sequences():
    ops = Ops()
    index = [4, 0, 4, 1, 2, 4, 0, 4, 1, 4]
    for (rows, columns), form in itertools.product(((5, 3), (6, 8)), ("f32", "f16", "bf16")):
        ops.op("embedding", padding="-")
        table = ops.draw("wide", 130, (rows, columns), form)
        outside = index[:-2] + [-1, rows]
        ops.give((2, 5), outside, "i32")
        row = lambda at: table[at * columns : (at + 1) * columns] if 0 <= at < rows else [NAN] * columns
        ops.out((2, 5, columns), [value for at in outside for value in row(at)], form)
        for padding in ("-", 4):
            ops.op("embedding-backward", padding=padding)
            dy = ops.draw("plain", 131, (2, 5, columns), form)
            ops.give((2, 5), index, "i32")
            picked = lambda at: [place for place, one in enumerate(index) if one == at and at != padding]
            sums = [folded(dy[place * columns + j] for place in picked(at)) for at in range(rows) for j in range(columns)]
            ops.out((rows, columns), sums, form)
    for heads, positions, width, base in ((2, 3, 4, 10000.0), (1, 5, 6, const("500000"))):
        for form, interleaved, inverse in itertools.product(("f32", "f16", "bf16"), (0, 1), (0, 1)):
            ops.op("rotary-position", heads=heads, base=f"{bits(base):08x}", interleaved=interleaved, inverse=inverse)
            shape = (1, positions, heads * width)
            x, y = ops.draw("plain", 132, shape, form), [0.0] * size(shape)
            for t, head, pair in itertools.product(range(positions), range(heads), range(width // 2)):
                angle = mul(float(t), div(1.0, pow_(base, div(float(2 * pair), float(width)))))
                cosine, sine = real("cos", angle), real("sin", angle)
                sine = -sine if inverse else sine
                first = (t * heads + head) * width
                a, b = (first + at for at in ((2 * pair, 2 * pair + 1) if interleaved else (pair, pair + width // 2)))
                y[a] = sub(mul(x[a], cosine), mul(x[b], sine))
                y[b] = add(mul(x[b], cosine), mul(x[a], sine))
            ops.out(shape, y, form)
    write("sequences", "Rows picked by index, their gradients, rotary positions.", ops.lines)


# ---- updates


def scaler():
    """Rows of steps, each from the state that the one before left."""
    ops = Ops()
    guards = [None, (1, 0, 0, 0.0, INF), (2, 0, 0, 0.75, 70000.0), (3, 1, 1, 0.0, INF)]
    rows = ["11101111", "000111"]
    starts = [float(2**127), const("1.7")]
    for guard, row, scale in itertools.product(guards, rows, starts):
        growth, backoff, interval = 1.1, 0.5, 2
        tracker, tolerated, skips = 0, 0, 0
        hysteresis, refill, late, floor, ceiling = guard or (1, 0, 0, 0.0, INF)
        for good in row:
            told = {} if guard is None else dict(
                hysteresis=hysteresis, refill=refill, late=late, floor=f"{bits(floor):08x}", ceiling=f"{bits(ceiling):08x}"
            )
            ops.op("scaler-update", growth=growth, backoff=backoff, interval=interval, **told)
            found = 0.0 if good == "1" else 1.0
            ops.give((), [scale])
            ops.give((), [tracker], "i32")
            ops.give((), [found])
            if guard:
                ops.give((), [tolerated], "i32")
                ops.give((), [skips], "i32")
            if found:
                tracker, skips = 0, skips + 1
                if tolerated < hysteresis - 1:
                    tolerated += 1
                else:
                    scale = max(narrowed(scale * backoff), floor)
            else:
                tracker, skips = tracker + 1, 0
                tolerated = 0 if refill else tolerated
                if tracker == interval + late:
                    grown = min(narrowed(scale * growth), ceiling)
                    scale = scale if math.isinf(grown) else grown
                    tracker, tolerated = late, 0
            ops.out((), [scale])
            ops.out((), [tracker], "i32")
            if guard:
                ops.out((), [tolerated], "i32")
                ops.out((), [skips], "i32")
    write("scaler", "Steps of loss scalers; the operands are scale, good steps, found, tolerated steps, skipped steps in a row.", ops.lines)


def updates():
    ops = Ops()
    count = (9,)
    for clip in (1.0, const("0.37")):
        for momentum, nesterov, decay in ((0.0, 0, 0.0), (const("0.9"), 0, const("0.01")), (const("0.9"), 1, const("0.01"))):
            ops.op("sgd", momentum=f"{bits(momentum):08x}", nesterov=nesterov, decay=f"{bits(decay):08x}")
            rate = const("0.05")
            p, g = ops.draw("plain", 100, count), ops.draw("wide", 101, count)
            ops.give((), [rate])
            ops.give((), [4], "i32")
            ops.give((), [clip])
            b = ops.draw("plain", 102, count) if momentum else [0.0] * 9
            new, moved = [], []
            for p, b, g in zip(p, b, g):
                g = mul(g, clip)
                g = add(g, mul(decay, p)) if decay else g
                step = g
                if momentum:
                    b = add(mul(b, momentum), g)
                    step = add(g, mul(momentum, b)) if nesterov else b
                new.append(sub(p, mul(rate, step)))
                moved.append(b)
            ops.out(count, new)
            if momentum:
                ops.out(count, moved)
        for t in (1, 2, 1000):
            names = {"beta1": "0.9", "beta2": "0.999", "eps": "1e-8", "decay": "0.01"}
            ops.op("adamw", **{name: f"{bits(const(value)):08x}" for name, value in names.items()})
            beta1, beta2, eps, decay = (shortest(const(value)) for value in names.values())
            p, g = ops.draw("plain", 103, count), ops.draw("wide", 104, count)
            rate = shortest(ops.give((), [const("0.001")])[0])
            ops.give((), [t - 1], "i32")
            ops.give((), [clip])
            first = ops.draw("plain", 105, count)
            second = [abs(x) for x in draw("plain", 106, count, "f32")]
            ops.give(count, second)
            shrink, w1, w2 = narrowed(1 - rate * decay), narrowed(1 - beta1), narrowed(1 - beta2)
            step, root_ = narrowed(rate / (1 - power(beta1, t))), narrowed(math.sqrt(1 - power(beta2, t)))
            b2, e = narrowed(beta2), narrowed(eps)
            results = []
            for p, m, v, g in zip(p, first, second, g):
                g, p = mul(g, clip), mul(p, shrink)
                m = add(m, mul(w1, sub(g, m)))
                v = add(mul(v, b2), mul(mul(w2, g), g))
                results.append((sub(p, div(mul(step, m), add(div(sqrt(v), root_), e))), m, v))
            for part in zip(*results):
                ops.out(count, list(part))
    for norm in (0.0, 0.5, 3.0, INF, NAN):
        ops.op("clip-coefficient", max=f"{bits(1.0):08x}")
        ops.give((), [norm])
        c = div(1.0, add(norm, const("1e-6")))
        ops.out((), [1.0 if c > 1 else c])
    write("updates", "Updates of parameters; the operands are parameter, gradient, rate, updates before, clip, moments.", ops.lines)


# ---- random numbers, digests


def numbers():
    lines = []
    # Known answers of Random123 (Salmon et al.), file kat_vectors.
    known = ["0 0 0 0 0 0 6627e8d5 e169c58d bc57ac4c 9b00dbd8", " ".join(["ffffffff"] * 6) + " 408f276d 41c83b0e a20bc7c6 6d5451fd",
             "243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0 d16cfe09 94fdcceb 5001e420 24126ea1"]
    for line in known:
        words = [int(word, 16) for word in line.split()]
        assert philox(words[:4], words[4:6]) == words[6:], line
        lines.append("philox " + " ".join(f"{word:08x}" for word in words))
    for seed, stream, step, element in [(0, 0, 0, 0), (42, 7, 3, 1), (2**64 - 1, 5, 2**33, 2**35 + 6), (7, stream_number("init:head.weight"), 0, 2)]:
        source = Stream(seed, stream)
        told = [source.word(step, element), bits(source.uniform(step, element)), bits(source.normal(step, element))]
        lines.append(f"draw {seed} {stream} {step} {element} " + " ".join(f"{word:08x}" for word in told))
    for element in range(24):
        source = Stream(1, 2)
        told = [source.word(0, element), bits(source.uniform(0, element)), bits(source.normal(0, element))]
        lines.append(f"draw 1 2 0 {element} " + " ".join(f"{word:08x}" for word in told))
    for name in ("init:head.weight", "dropout:block.0.dropout", "round:stem.bias"):
        lines.append(f"name {name} {stream_number(name)}")
    for name in ("batches", "split", "masking", "features", "labels"):
        lines.append(f"named {name} {int.from_bytes(name.encode().ljust(8, bytes(1)), 'little')}")
    for seed, stream, step, length in ((3, 4, 5, 10), (1, 2, 0, 33)):
        lines.append(f"permutation {seed} {stream} {step} " + " ".join(map(str, Stream(seed, stream).permutation(step, length))))
    write("random", "Philox: counter, key, words; draws: seed, stream, step, element, word, uniform, normal; names of streams.", lines)


def digests():
    lines = []
    for stream, count in ((110, 1), (111, 1024), (112, 1025), (113, 3000)):
        lines.append(f"fingerprint {stream} {count} {fingerprint([draw('wide', stream, (count,), 'f32')]).hex()}")
    run_id = hashlib.sha256(b"a run").digest()
    c = link(run_id)
    lines += [f"start {run_id.hex()} {c.hex()}"]
    for at, (loss, skipped) in enumerate([(2.5, 0), (NAN, 1), (-0.0, 0)]):
        seal = hashlib.sha256(bytes([at])).digest()
        told = [loss, 1.5 * at, 65536.0, const("0.001")]
        event = text("amp.event.step.v1") + whole(at + 1) + whole(at // 2) + b"".join(map(number, told)) + bytes([skipped]) + seal
        c = link(c, event)
        lines.append(f"step {at + 1} {at // 2} {' '.join(f'{bits(x):08x}' for x in told)} {skipped} {seal.hex()} {c.hex()}")
    metrics = [("accuracy", 0.75), ("loss", const("0.3"))]
    event = text("amp.event.evaluation.v1") + whole(3) + text("test") + whole(40) + whole(2)
    event += b"".join(text(name) + number(x) for name, x in metrics)
    c = link(c, event)
    lines.append(f"evaluation 3 test 40 {' '.join(f'{name}={bits(x):08x}' for name, x in metrics)} {c.hex()}")
    write("digests", "Fingerprints: stream (wide), numbers, sums; a chain: run id, steps, an evaluation, each with the digest after it.", lines)


for make in (functions, formats, pointwise, sums, products, norms, losses, attention, positions, images, sequences, scaler, updates, numbers, digests):
    make()
