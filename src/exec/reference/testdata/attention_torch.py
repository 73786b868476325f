"""Writes attention_torch.json: what PyTorch computes, in f64 from f32 inputs, for the ops of attention.

Run as: python attention_torch.py   (torch 2.15.0 on a CPU wrote the committed file). Numbers are JSON numbers that read back
exactly. The definitions of T5 (Raffel et al. 2020) and DeBERTa (He et al. 2021) are those of Hugging Face's transformers,
modeling_t5.py and modeling_deberta_v2.py, written out here for the settings that are tested.
"""

import json
import math
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(8)
cases = {}


def numbers(*shape, spread=1.0):
    """f32 values, so that the tests begin from the same inputs; held in f64 for PyTorch to compute with."""
    return (torch.randn(*shape) * spread).float().double()


def flat(value):
    return value.detach().reshape(-1).tolist()


def case(name, **tensors):
    cases[name] = {key: flat(value) if torch.is_tensor(value) else value for key, value in tensors.items()}


def heads(x, count):
    """(N, T, H·D) to (N, H, T, D)."""
    return x.unflatten(2, (count, -1)).transpose(1, 2)


def joined(x):
    """(N, H, T, D) to (N, T, H·D)."""
    return x.transpose(1, 2).flatten(2)


def attention(name, queries, keys, causal=False, masked=False, biased=False):
    n, h, d = 2, 2, 3
    q, k, v = (numbers(n, length, h * d).requires_grad_() for length in (queries, keys, keys))
    dy = numbers(n, queries, h * d)
    extra, mask = {}, None
    if biased:
        extra["bias"] = numbers(1, h, queries, keys).requires_grad_()
        mask = extra["bias"]
    if masked:
        extra["mask"] = (torch.arange(n * keys).reshape(n, keys) % 3 != 1).double()
        hidden = torch.zeros(n, 1, 1, keys, dtype=torch.float64).masked_fill(extra["mask"][:, None, None] == 0, -math.inf)
        mask = hidden if mask is None else mask + hidden
    y = joined(F.scaled_dot_product_attention(heads(q, h), heads(k, h), heads(v, h), mask, 0.0, causal))
    y.backward(dy)
    if biased:
        extra["dbias"] = extra["bias"].grad
    case(name, query=q, key=k, value=v, dy=dy, y=y, dquery=q.grad, dkey=k.grad, dvalue=v.grad, **extra)


attention("plain", 5, 7)
attention("causal", 7, 7, causal=True)
attention("causal_longer", 5, 8, causal=True)
attention("masked", 4, 9, masked=True)
attention("biased", 6, 6, biased=True)
attention("biased_masked", 6, 9, biased=True, masked=True)


def t5_bucket(relative_position, bidirectional, num_buckets, max_distance):
    """`_relative_position_bucket` of modeling_t5.py."""
    relative_buckets = 0
    if bidirectional:
        num_buckets //= 2
        relative_buckets += (relative_position > 0).to(torch.long) * num_buckets
        relative_position = torch.abs(relative_position)
    else:
        relative_position = -torch.min(relative_position, torch.zeros_like(relative_position))
    max_exact = num_buckets // 2
    is_small = relative_position < max_exact
    large = max_exact + (
        torch.log(relative_position.float() / max_exact)
        / math.log(max_distance / max_exact)
        * (num_buckets - max_exact)
    ).to(torch.long)
    large = torch.min(large, torch.full_like(large, num_buckets - 1))
    return relative_buckets + torch.where(is_small, relative_position, large)


for name, length, both, buckets, distance in [
    ("t5_both", 300, True, 32, 128), ("t5_one", 300, False, 32, 128), ("t5_few", 60, True, 12, 40),
]:
    case(name, length=[length], buckets=t5_bucket(torch.arange(1 - length, length), both, buckets, distance))

weight = numbers(8, 2).requires_grad_()
positions = torch.arange(9)
y = weight[t5_bucket(positions[None, :] - positions[:, None], True, 8, 6)].permute(2, 0, 1)
dy = numbers(*y.shape)
y.backward(dy)
case("t5_bias", weight=weight, dy=dy, y=y, dweight=weight.grad)


def log_bucket(relative_pos, bucket_size, max_position):
    """`make_log_bucket_position` of modeling_deberta_v2.py."""
    sign = torch.sign(relative_pos)
    mid = bucket_size // 2
    abs_pos = torch.where(
        (relative_pos < mid) & (relative_pos > -mid), torch.tensor(mid - 1).type_as(relative_pos), torch.abs(relative_pos)
    )
    log_pos = torch.ceil(torch.log(abs_pos / mid) / torch.log(torch.tensor((max_position - 1) / mid)) * (mid - 1)) + mid
    return torch.where(abs_pos <= mid, relative_pos.type_as(log_pos), log_pos * sign)


def deberta_rows(length, buckets, max_position):
    relative = log_bucket(torch.arange(1 - length, length), buckets, max_position).long()
    return torch.clamp(relative + buckets, 0, 2 * buckets - 1)


for name, length, buckets, max_position in [("deberta_v3", 520, 256, 512), ("deberta_few", 40, 8, 16)]:
    case(name, length=[length], rows=deberta_rows(length, buckets, max_position))


def disentangled(name, c2p, p2c):
    """`DisentangledSelfAttention.forward` and `disentangled_attention_bias` with share_att_key, without dropout."""
    n, t, h, d, buckets, max_position = 2, 7, 2, 4, 4, 6
    q, k, v = (numbers(n, t, h * d).requires_grad_() for _ in range(3))
    tables = {}
    if c2p:
        tables["position_key"] = numbers(1, 2 * buckets, h * d).requires_grad_()
    if p2c:
        tables["position_query"] = numbers(1, 2 * buckets, h * d).requires_grad_()
    mask = torch.ones(n, t)
    mask[1, 5:] = 0
    positions = torch.arange(t)
    relative_pos = log_bucket(positions[:, None] - positions[None, :], buckets, max_position).long()[None, None]
    factor = 1 + c2p + p2c
    scale = math.sqrt(d * factor)
    query, key, value = heads(q, h), heads(k, h), heads(v, h)
    scores = query @ (key.transpose(-1, -2) / scale)
    bias = 0
    if c2p:
        att = query @ heads(tables["position_key"], h).transpose(-1, -2)
        index = torch.clamp(relative_pos + buckets, 0, 2 * buckets - 1)
        bias = bias + torch.gather(att, -1, index.expand(n, h, t, t)) / scale
    if p2c:
        att = key @ heads(tables["position_query"], h).transpose(-1, -2)
        index = torch.clamp(-relative_pos + buckets, 0, 2 * buckets - 1)
        bias = bias + torch.gather(att, -1, index.expand(n, h, t, t)).transpose(-1, -2) / scale
    scores = (scores + bias).masked_fill(mask[:, None, None] == 0, torch.finfo(torch.float64).min)
    y = joined(torch.softmax(scores, -1) @ value)
    dy = numbers(n, t, h * d)
    y.backward(dy)
    gradients = {f"d{key}": table.grad for key, table in tables.items()}
    case(
        name, query=q, key=k, value=v, mask=mask, dy=dy, bias=bias, y=y, dquery=q.grad, dkey=k.grad, dvalue=v.grad,
        **tables, **gradients,
    )


disentangled("disentangled", True, True)
disentangled("disentangled_c2p", True, False)
disentangled("disentangled_p2c", False, True)

for name, left, right in [("product", False, False), ("product_right", False, True)]:
    a, b = numbers(2, 3, 4, 5).requires_grad_(), numbers(2, 3, *((6, 5) if right else (5, 6))).requires_grad_()
    y = a @ (b.transpose(-1, -2) if right else b)
    dy = numbers(*y.shape)
    y.backward(dy)
    case(name, a=a, b=b, dy=dy, y=y, da=a.grad, db=b.grad)

path = pathlib.Path(__file__).with_name("attention_torch.json")
path.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in cases.items()) + "\n}\n")
