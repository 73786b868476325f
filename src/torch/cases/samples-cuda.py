# mlp
"""One training step of sample in PyTorch, written by amp from the manifest.
memory is that of a module written by hand. With --serve it answers `amp bench`.
DEVICE = "cuda"
GRADIENTS = 1
FEATURES, LABELS = ((4, 6), None), ((4,), 3)
    ("hidden_0_linear_weight", "hidden.0.linear.weight", (8, 6), 0, ("uniform", 0.40824828)),
    ("hidden_0_linear_bias", "hidden.0.linear.bias", (8,), 0, ("uniform", 0.40824828)),
    ("hidden_1_linear_weight", "hidden.1.linear.weight", (8, 8), 0, ("uniform", 0.35355338)),
    ("hidden_1_linear_bias", "hidden.1.linear.bias", (8,), 0, ("uniform", 0.35355338)),
    ("head_weight", "head.weight", (3, 8), 0, ("uniform", 0.35355338)),
    ("head_bias", "head.bias", (3,), 0, ("uniform", 0.35355338)),
    {"lr": 0.001, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
class Step(torch.nn.Module):
        with torch.autocast("cuda", dtype=torch.float16):
            x = F.linear(features, self.hidden_0_linear_weight, self.hidden_0_linear_bias)  # hidden.0.linear
            x = F.relu(x)  # hidden.0.act
            x = F.linear(x, self.hidden_1_linear_weight, self.hidden_1_linear_bias)  # hidden.1.linear
            x = F.relu(x)  # hidden.1.act
            x = F.linear(x, self.head_weight, self.head_bias)  # head
            return F.cross_entropy(x, labels)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
model = model.to(DEVICE).train(not arguments.whole)
batches = [[(features.to(DEVICE), labels.to(DEVICE)) for features, labels in micro] for micro in batches]
optimizer = torch.optim.AdamW(groups, fused=True)
scaler = torch.amp.GradScaler(DEVICE, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000)
# Gradients that are added up lie outside of the memory of CUDA graphs, which each micro-batch writes anew.
        scaler.scale(loss).backward()
        total = loss.detach()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    done += 1
    return total
# cnn
"""One training step of sample in PyTorch, written by amp from the manifest.
memory is that of a module written by hand. With --serve it answers `amp bench`.
DEVICE = "cuda"
GRADIENTS = 1
FEATURES, LABELS = ((4, 1, 8, 8), None), ((4,), 10)
    ("stem_conv_weight", "stem.conv.weight", (4, 1, 3, 3), 0, ("normal", 0.47140452)),
    ("stem_norm_weight", "stem.norm.weight", (4,), 0, ("constant", 1.0)),
    ("stem_norm_bias", "stem.norm.bias", (4,), 0, ("constant", 0.0)),
    ("deep_conv_weight", "deep.conv.weight", (6, 4, 3, 3), 0, ("normal", 0.23570226)),
    ("deep_conv_bias", "deep.conv.bias", (6,), 0, ("constant", 0.0)),
    ("head_weight", "head.weight", (10, 54), 0, ("uniform", 0.13608277)),
    ("head_bias", "head.bias", (10,), 0, ("uniform", 0.13608277)),
    ("stem_norm_running_mean", "stem.norm.running_mean", (4,), 0.0),
    ("stem_norm_running_var", "stem.norm.running_var", (4,), 1.0),
    {"lr": 0.001, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
class Step(torch.nn.Module):
        with torch.autocast("cuda", dtype=torch.float16):
            x = F.conv2d(features, self.stem_conv_weight, None, 1, 1, 1, 1)  # stem.conv
            x = F.batch_norm(x, self.stem_norm_running_mean, self.stem_norm_running_var, self.stem_norm_weight, self.stem_norm_bias, True, 0.1, 1e-5)  # stem.norm
            x = F.relu(x)  # stem.act
            x = F.max_pool2d(x, 2, 2, 0)  # stem.pool
            x = F.conv2d(x, self.deep_conv_weight, self.deep_conv_bias, 1, 1, 1, 1)  # deep.conv
            x = F.relu(x)  # deep.act
            x = F.avg_pool2d(x, 2, 2, 1, count_include_pad=False)  # deep.pool
            x = x.reshape((4, 54))  # flatten
            x = F.dropout(x, 0.5, self.training)  # dropout
            x = F.linear(x, self.head_weight, self.head_bias)  # head
            return F.cross_entropy(x, labels)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
model = model.to(DEVICE, memory_format=torch.channels_last).train(not arguments.whole)
batches = [[(features.to(DEVICE, memory_format=torch.channels_last), labels.to(DEVICE)) for features, labels in micro] for micro in batches]
optimizer = torch.optim.AdamW(groups, fused=True)
scaler = torch.amp.GradScaler(DEVICE, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000)
# Gradients that are added up lie outside of the memory of CUDA graphs, which each micro-batch writes anew.
        scaler.scale(loss).backward()
        total = loss.detach()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    done += 1
    return total
# residual
"""One training step of sample in PyTorch, written by amp from the manifest.
memory is that of a module written by hand. With --serve it answers `amp bench`.
DEVICE = "cuda"
GRADIENTS = 1
FEATURES, LABELS = ((4, 6), None), ((4,), 3)
    ("embed_weight", "embed.weight", (8, 6), 0, ("uniform", 0.40824828)),
    ("embed_bias", "embed.bias", (8,), 0, ("uniform", 0.40824828)),
    ("block_norm_weight", "block.norm.weight", (8,), 0, ("constant", 1.0)),
    ("block_norm_bias", "block.norm.bias", (8,), 0, ("constant", 0.0)),
    ("block_up_weight", "block.up.weight", (16, 8), 0, ("uniform", 0.35355338)),
    ("block_up_bias", "block.up.bias", (16,), 0, ("uniform", 0.35355338)),
    ("block_down_weight", "block.down.weight", (8, 16), 0, ("uniform", 0.25)),
    ("block_down_bias", "block.down.bias", (8,), 0, ("uniform", 0.25)),
    ("head_weight", "head.weight", (3, 8), 0, ("uniform", 0.35355338)),
    ("head_bias", "head.bias", (3,), 0, ("uniform", 0.35355338)),
    {"lr": 0.001, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
class Step(torch.nn.Module):
        with torch.autocast("cuda", dtype=torch.float16):
            x = F.linear(features, self.embed_weight, self.embed_bias)  # embed
            y = F.layer_norm(x, (8,), self.block_norm_weight, self.block_norm_bias, 1e-5)  # block.norm
            y = F.linear(y, self.block_up_weight, self.block_up_bias)  # block.up
            y = F.gelu(y)  # block.act
            y = F.linear(y, self.block_down_weight, self.block_down_bias)  # block.down
            x = x + y  # block
            del y
            x = F.linear(x, self.head_weight, self.head_bias)  # head
            return F.cross_entropy(x, labels)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
model = model.to(DEVICE).train(not arguments.whole)
batches = [[(features.to(DEVICE), labels.to(DEVICE)) for features, labels in micro] for micro in batches]
optimizer = torch.optim.AdamW(groups, fused=True)
scaler = torch.amp.GradScaler(DEVICE, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000)
# Gradients that are added up lie outside of the memory of CUDA graphs, which each micro-batch writes anew.
        scaler.scale(loss).backward()
        total = loss.detach()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    done += 1
    return total
# joined
"""One training step of sample in PyTorch, written by amp from the manifest.
memory is that of a module written by hand. With --serve it answers `amp bench`.
DEVICE = "cuda"
GRADIENTS = 1
FEATURES, LABELS = ((4, 6), None), ((4,), 3)
    ("branch_low_weight", "branch.low.weight", (4, 6), 0, ("uniform", 0.40824828)),
    ("branch_low_bias", "branch.low.bias", (4,), 0, ("uniform", 0.40824828)),
    ("branch_wide_weight", "branch.wide.weight", (2, 6), 0, ("uniform", 0.40824828)),
    ("branch_wide_bias", "branch.wide.bias", (2,), 0, ("uniform", 0.40824828)),
    ("head_weight", "head.weight", (3, 6), 0, ("uniform", 0.40824828)),
    ("head_bias", "head.bias", (3,), 0, ("uniform", 0.40824828)),
    {"lr": 0.001, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
class Step(torch.nn.Module):
        with torch.autocast("cuda", dtype=torch.float16):
            x = F.linear(features, self.branch_low_weight, self.branch_low_bias)  # branch.low
            x = F.silu(x)  # branch.low_act
            y = F.linear(features, self.branch_wide_weight, self.branch_wide_bias)  # branch.wide
            y = F.softmax(y, 1)  # branch.wide_act
            x = torch.cat((x, y), 1)  # join
            del y
            x = F.linear(x, self.head_weight, self.head_bias)  # head
            return F.cross_entropy(x, labels)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
model = model.to(DEVICE).train(not arguments.whole)
batches = [[(features.to(DEVICE), labels.to(DEVICE)) for features, labels in micro] for micro in batches]
optimizer = torch.optim.AdamW(groups, fused=True)
scaler = torch.amp.GradScaler(DEVICE, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000)
# Gradients that are added up lie outside of the memory of CUDA graphs, which each micro-batch writes anew.
        scaler.scale(loss).backward()
        total = loss.detach()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    done += 1
    return total
# gated
"""One training step of sample in PyTorch, written by amp from the manifest.
memory is that of a module written by hand. With --serve it answers `amp bench`.
DEVICE = "cuda"
GRADIENTS = 4
FEATURES, LABELS = ((4, 2, 3), None), ((4,), None)
    ("content_linear_weight", "content.linear.weight", (5, 2), 0, ("uniform", 0.70710677)),
    ("content_linear_bias", "content.linear.bias", (5,), 0, ("uniform", 0.70710677)),
    ("gate_score_weight", "gate.score.weight", (1, 2), 0, ("uniform", 0.70710677)),
    ("gate_score_bias", "gate.score.bias", (1,), 0, ("uniform", 0.70710677)),
    ("norm_weight", "norm.weight", (3,), 0, ("constant", 1.0)),
    ("norm_bias", "norm.bias", (3,), 0, ("constant", 0.0)),
    ("head_weight", "head.weight", (1, 15), 0, ("uniform", 0.2581989)),
    ("head_bias", "head.bias", (1,), 0, ("uniform", 0.2581989)),
    ("norm_running_mean", "norm.running_mean", (3,), 0.0),
    ("norm_running_var", "norm.running_var", (3,), 1.0),
    {"lr": 0.1, "momentum": 0.9, "nesterov": False, "weight_decay": 0.0},
class Step(torch.nn.Module):
        with torch.autocast("cuda", dtype=torch.float16):
            x = features.permute((0, 2, 1))  # swap
            y = F.linear(x, self.content_linear_weight, self.content_linear_bias)  # content.linear
            y = torch.tanh(y)  # content.tanh
            x = F.linear(x, self.gate_score_weight, self.gate_score_bias)  # gate.score
            x = torch.sigmoid(x)  # gate.sigmoid
            x = y * x  # gated
            del y
            x = F.batch_norm(x, self.norm_running_mean, self.norm_running_var, self.norm_weight, self.norm_bias, True, 0.1, 1e-5)  # norm
            x = F.gelu(x, approximate="tanh")  # act
            x = x.reshape((4, 15))  # rows
            x = F.linear(x, self.head_weight, self.head_bias)  # head
            x = x.reshape((4,))  # loss
            return F.mse_loss(x, labels)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
model = model.to(DEVICE).train(not arguments.whole)
batches = [[(features.to(DEVICE), labels.to(DEVICE)) for features, labels in micro] for micro in batches]
optimizer = torch.optim.SGD(groups, fused=True)
scaler = torch.amp.GradScaler(DEVICE, init_scale=1024.0)
# Gradients that are added up lie outside of the memory of CUDA graphs, which each micro-batch writes anew.
        scaler.scale((loss / GRADIENTS)).backward()
        total = total + loss.detach()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update(1024.0)
    done += 1
    return total / GRADIENTS
# attending
"""One training step of sample in PyTorch, written by amp from the manifest.
memory is that of a module written by hand. With --serve it answers `amp bench`.
DEVICE = "cuda"
GRADIENTS = 1
FEATURES, LABELS = ((4, 5), None), ((4,), 3)
    ("embed_weight", "embed.weight", (6, 1), 0, ("uniform", 1.0)),
    ("embed_bias", "embed.bias", (6,), 0, ("uniform", 1.0)),
    ("causal_query_weight", "causal.query.weight", (6, 6), 0, ("uniform", 0.40824828)),
    ("causal_query_bias", "causal.query.bias", (6,), 0, ("uniform", 0.40824828)),
    ("causal_key_weight", "causal.key.weight", (6, 6), 0, ("uniform", 0.40824828)),
    ("causal_key_bias", "causal.key.bias", (6,), 0, ("uniform", 0.40824828)),
    ("causal_value_weight", "causal.value.weight", (6, 6), 0, ("uniform", 0.40824828)),
    ("causal_value_bias", "causal.value.bias", (6,), 0, ("uniform", 0.40824828)),
    ("causal_bias_weight", "causal.bias.weight", (8, 2), 0, ("normal", 0.5)),
    ("disentangled_query_weight", "disentangled.query.weight", (6, 6), 0, ("uniform", 0.40824828)),
    ("disentangled_query_bias", "disentangled.query.bias", (6,), 0, ("uniform", 0.40824828)),
    ("disentangled_key_weight", "disentangled.key.weight", (6, 6), 0, ("uniform", 0.40824828)),
    ("disentangled_key_bias", "disentangled.key.bias", (6,), 0, ("uniform", 0.40824828)),
    ("disentangled_value_weight", "disentangled.value.weight", (6, 6), 0, ("uniform", 0.40824828)),
    ("disentangled_value_bias", "disentangled.value.bias", (6,), 0, ("uniform", 0.40824828)),
    ("content_query_weight", "content.query.weight", (6, 6), 0, ("uniform", 0.40824828)),
    ("content_query_bias", "content.query.bias", (6,), 0, ("uniform", 0.40824828)),
    ("positions_key_table_weight", "positions.key.table.weight", (8, 3), 0, ("normal", 0.5)),
    ("positions_key_weight", "positions.key.weight", (6, 3), 0, ("uniform", 0.57735026)),
    ("positions_key_bias", "positions.key.bias", (6,), 0, ("uniform", 0.57735026)),
    ("content_key_weight", "content.key.weight", (6, 6), 0, ("uniform", 0.40824828)),
    ("content_key_bias", "content.key.bias", (6,), 0, ("uniform", 0.40824828)),
    ("positions_query_table_weight", "positions.query.table.weight", (8, 3), 0, ("normal", 0.5)),
    ("positions_query_weight", "positions.query.weight", (6, 3), 0, ("uniform", 0.57735026)),
    ("positions_query_bias", "positions.query.bias", (6,), 0, ("uniform", 0.57735026)),
    ("left_weight", "left.weight", (6, 6), 0, ("uniform", 0.40824828)),
    ("left_bias", "left.bias", (6,), 0, ("uniform", 0.40824828)),
    ("right_weight", "right.weight", (6, 6), 0, ("uniform", 0.40824828)),
    ("right_bias", "right.bias", (6,), 0, ("uniform", 0.40824828)),
    ("head_weight", "head.weight", (3, 25), 0, ("uniform", 0.2)),
    ("head_bias", "head.bias", (3,), 0, ("uniform", 0.2)),
    {"lr": 0.001, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
def heads(x, count):
    """(N, T, H·D) as (N, H, T, D)."""
    return x.unflatten(-1, (count, -1)).transpose(1, 2)
class Step(torch.nn.Module):
        self.register_buffer("rows_of_0", torch.tensor([4, 3, 2, 1, 0, 0, 0, 0, 0])[torch.arange(5)[None, :] - torch.arange(5)[:, None] + 4], persistent=False)
        self.register_buffer("earlier_of_1", torch.ones(5, 5, dtype=torch.bool).tril(), persistent=False)
        self.register_buffer("rows_of_2", torch.tensor([1, 1, 2, 3, 4, 5, 6, 7, 7])[torch.arange(5)[:, None] - torch.arange(5)[None, :] + 4], persistent=False)
        with torch.autocast("cuda", dtype=torch.float16):
            x = features.reshape((4, 5, 1))  # column
            x = F.linear(x, self.embed_weight, self.embed_bias)  # embed
            y = F.linear(x, self.causal_query_weight, self.causal_query_bias)  # causal.query
            z = F.linear(x, self.causal_key_weight, self.causal_key_bias)  # causal.key
            x = F.linear(x, self.causal_value_weight, self.causal_value_bias)  # causal.value
            u = F.embedding(self.rows_of_0, self.causal_bias_weight).permute(2, 0, 1).unsqueeze(0)  # causal.bias
            v = (features != 0).float()  # causal.mask
            x = F.scaled_dot_product_attention(heads(y, 2), heads(z, 2), heads(x, 2), attn_mask=u.masked_fill((v == 0)[:, None, None, :], -torch.inf).masked_fill(~self.earlier_of_1, -torch.inf), dropout_p=0.25 if self.training else 0.0, scale=0.57735026).transpose(1, 2).flatten(2)  # causal
            del y, z, u, v
            y = F.linear(x, self.disentangled_query_weight, self.disentangled_query_bias)  # disentangled.query
            z = F.linear(x, self.disentangled_key_weight, self.disentangled_key_bias)  # disentangled.key
            u = F.linear(x, self.disentangled_value_weight, self.disentangled_value_bias)  # disentangled.value
            v = F.linear(x, self.content_query_weight, self.content_query_bias)  # content.query
            w = self.positions_key_table_weight.reshape((1, 8, 3))  # positions.key.table
            w = F.linear(w, self.positions_key_weight, self.positions_key_bias)  # positions.key
            x = F.linear(x, self.content_key_weight, self.content_key_bias)  # content.key
            q = self.positions_query_table_weight.reshape((1, 8, 3))  # positions.query.table
            q = F.linear(q, self.positions_query_weight, self.positions_query_bias)  # positions.query
            x = (torch.matmul(heads(v, 2), heads(w, 2).transpose(-1, -2)).gather(-1, self.rows_of_2[None, None].expand(v.shape[0], 2, -1, -1)) + torch.matmul(heads(x, 2), heads(q, 2).transpose(-1, -2)).gather(-1, self.rows_of_2.t()[None, None].expand(x.shape[0], 2, -1, -1)).transpose(-1, -2)).float() * 0.33333334  # disentangled.bias
            del v, w, q
            x = F.scaled_dot_product_attention(heads(y, 2), heads(z, 2), heads(u, 2), attn_mask=x, scale=0.33333334).transpose(1, 2).flatten(2)  # disentangled
            del y, z, u
            y = F.linear(x, self.left_weight, self.left_bias)  # left
            x = F.linear(x, self.right_weight, self.right_bias)  # right
            x = torch.matmul(y, x.transpose(-1, -2))  # product
            del y
            x = x.reshape((4, 25))  # flatten
            x = F.linear(x, self.head_weight, self.head_bias)  # head
            return F.cross_entropy(x, labels)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
model = model.to(DEVICE).train(not arguments.whole)
batches = [[(features.to(DEVICE), labels.to(DEVICE)) for features, labels in micro] for micro in batches]
optimizer = torch.optim.AdamW(groups, fused=True)
scaler = torch.amp.GradScaler(DEVICE, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000)
# Gradients that are added up lie outside of the memory of CUDA graphs, which each micro-batch writes anew.
        scaler.scale(loss).backward()
        total = loss.detach()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    done += 1
    return total
# packed
"""One training step of sample in PyTorch, written by amp from the manifest.
memory is that of a module written by hand. With --serve it answers `amp bench`.
DEVICE = "cuda"
GRADIENTS = 1
FEATURES, LABELS = ((4, 5), None), ((4,), 3)
    ("embed_weight", "embed.weight", (8, 1), 0, ("uniform", 1.0)),
    ("embed_bias", "embed.bias", (8,), 0, ("uniform", 1.0)),
    ("attend_norm_weight", "attend.norm.weight", (8,), 0, ("constant", 1.0)),
    ("attend_norm_bias", "attend.norm.bias", (8,), 0, ("constant", 0.0)),
    ("attend_packed_weight", "attend.packed.weight", (24, 8), 0, ("uniform", 0.35355338)),
    ("attend_packed_bias", "attend.packed.bias", (24,), 0, ("uniform", 0.35355338)),
    ("attend_out_weight", "attend.out.weight", (8, 8), 0, ("uniform", 0.35355338)),
    ("attend_out_bias", "attend.out.bias", (8,), 0, ("uniform", 0.35355338)),
    ("change_norm_weight", "change.norm.weight", (8,), 0, ("constant", 1.0)),
    ("change_norm_bias", "change.norm.bias", (8,), 0, ("constant", 0.0)),
    ("change_up_weight", "change.up.weight", (16, 8), 0, ("uniform", 0.35355338)),
    ("change_up_bias", "change.up.bias", (16,), 0, ("uniform", 0.35355338)),
    ("change_down_weight", "change.down.weight", (8, 16), 0, ("uniform", 0.25)),
    ("change_down_bias", "change.down.bias", (8,), 0, ("uniform", 0.25)),
    ("norm_weight", "norm.weight", (8,), 0, ("constant", 1.0)),
    ("norm_bias", "norm.bias", (8,), 0, ("constant", 0.0)),
    ("head_weight", "head.weight", (3, 40), 0, ("uniform", 0.15811388)),
    ("head_bias", "head.bias", (3,), 0, ("uniform", 0.15811388)),
    {"lr": 0.001, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
def heads(x, count):
    """(N, T, H·D) as (N, H, T, D)."""
    return x.unflatten(-1, (count, -1)).transpose(1, 2)
class Step(torch.nn.Module):
        with torch.autocast("cuda", dtype=torch.float16):
            x = features.reshape((4, 5, 1))  # column
            x = F.linear(x, self.embed_weight, self.embed_bias)  # embed
            y = F.layer_norm(x, (8,), self.attend_norm_weight, self.attend_norm_bias, 1e-5)  # attend.norm
            y = F.linear(y, self.attend_packed_weight, self.attend_packed_bias)  # attend.packed
            y, z, u = y.split((8, 8, 8), 2)  # packed.query
            y = F.scaled_dot_product_attention(heads(y, 2), heads(z, 2), heads(u, 2), is_causal=True, scale=0.5).transpose(1, 2).flatten(2)  # attend.attention
            del z, u
            y = F.linear(y, self.attend_out_weight, self.attend_out_bias)  # attend.out
            x = x + y  # attended
            del y
            y = F.layer_norm(x, (8,), self.change_norm_weight, self.change_norm_bias, 1e-5)  # change.norm
            y = F.linear(y, self.change_up_weight, self.change_up_bias)  # change.up
            y = F.gelu(y, approximate="tanh")  # change.act
            y = F.linear(y, self.change_down_weight, self.change_down_bias)  # change.down
            x = x + y  # changed
            del y
            x = F.layer_norm(x, (8,), self.norm_weight, self.norm_bias, 1e-5)  # norm
            x = x.reshape((4, 40))  # flatten
            x = F.linear(x, self.head_weight, self.head_bias)  # head
            return F.cross_entropy(x, labels)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
model = model.to(DEVICE).train(not arguments.whole)
batches = [[(features.to(DEVICE), labels.to(DEVICE)) for features, labels in micro] for micro in batches]
optimizer = torch.optim.AdamW(groups, fused=True)
scaler = torch.amp.GradScaler(DEVICE, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000)
# Gradients that are added up lie outside of the memory of CUDA graphs, which each micro-batch writes anew.
        scaler.scale(loss).backward()
        total = loss.detach()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    done += 1
    return total
# tokens
"""One training step of sample in PyTorch, written by amp from the manifest.
memory is that of a module written by hand. With --serve it answers `amp bench`.
DEVICE = "cuda"
GRADIENTS = 1
FEATURES, LABELS = ((4, 6), 9), ((4,), 3)
    ("words_weight", "words.weight", (9, 8), 0, ("normal", 1.0)),
    ("positions_weight", "positions.weight", (7, 8), 0, ("normal", 1.0)),
    ("class_weight", "class.weight", (1, 8), 0, ("normal", 1.0)),
    ("norm_weight", "norm.weight", (8,), 0, ("constant", 1.0)),
    ("delta_linear_weight", "delta.linear.weight", (8, 8), 0, ("uniform", 0.35355338)),
    ("delta_linear_bias", "delta.linear.bias", (8,), 0, ("uniform", 0.35355338)),
    ("head_weight", "head.weight", (3, 8), 0, ("uniform", 0.35355338)),
    ("head_bias", "head.bias", (3,), 0, ("uniform", 0.35355338)),
    {"lr": 0.001, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
def turned(x, count, cosine, sine, interleaved):
    """Turns pairs of features of (N, T, H·D) by the angles of their positions."""
    x = x.unflatten(-1, (count, -1))
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    cosine, sine = cosine.to(x.dtype)[:, None], sine.to(x.dtype)[:, None]
    pair = a * cosine - b * sine, b * cosine + a * sine
    return (torch.stack(pair, -1) if interleaved else torch.cat(pair, -1)).flatten(2)
class Step(torch.nn.Module):
        self.register_buffer("cosine_of_0", torch.outer(torch.arange(7.0), 1.0 / 100.0 ** (torch.arange(0, 4, 2) / 4)).cos(), persistent=False)
        self.register_buffer("sine_of_1", torch.outer(torch.arange(7.0), 1.0 / 100.0 ** (torch.arange(0, 4, 2) / 4)).sin(), persistent=False)
        self.register_buffer("cosine_of_2", torch.outer(torch.arange(7.0), 1.0 / 100.0 ** (torch.arange(0, 8, 2) / 8)).cos(), persistent=False)
        self.register_buffer("sine_of_3", torch.outer(torch.arange(7.0), 1.0 / 100.0 ** (torch.arange(0, 8, 2) / 8)).sin(), persistent=False)
        with torch.autocast("cuda", dtype=torch.float16):
            x = F.embedding(features, self.words_weight)  # words
            y = self.positions_weight.narrow(0, 0, 6)  # positions
            x = x + y  # positions
            del y
            y = self.class_weight.expand((4, 1, 8))  # class
            x = torch.cat((y, x), 1)  # class
            del y
            x = turned(x, 2, self.cosine_of_0, self.sine_of_1, False)  # turn
            x = turned(x, 1, self.cosine_of_2, self.sine_of_3, True)  # neighbours
            x = F.rms_norm(x, (8,), self.norm_weight, 1e-6)  # norm
            x = x.gather(1, features.unsqueeze(-1).expand(-1, -1, 8))  # picked
            y = F.linear(x, self.delta_linear_weight, self.delta_linear_bias)  # delta.linear
            y = torch.tanh(y)  # delta.tanh
            x = x - y  # change
            del y
            x = x * 0.5  # half
            x = x.narrow(1, 1, 4)  # part
            y = x.mean((1,))  # pooled.mean
            x = x.narrow(1, 0, 1)  # pooled.first
            x = x.reshape((4, 8))  # pooled.first
            x = y + x  # pooled
            del y
            x = F.linear(x, self.head_weight, self.head_bias)  # head
            return F.cross_entropy(x, labels)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
model = model.to(DEVICE).train(not arguments.whole)
batches = [[(features.to(DEVICE), labels.to(DEVICE)) for features, labels in micro] for micro in batches]
optimizer = torch.optim.AdamW(groups, fused=True)
scaler = torch.amp.GradScaler(DEVICE, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000)
# Gradients that are added up lie outside of the memory of CUDA graphs, which each micro-batch writes anew.
        scaler.scale(loss).backward()
        total = loss.detach()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    done += 1
    return total
# images
"""One training step of sample in PyTorch, written by amp from the manifest.
memory is that of a module written by hand. With --serve it answers `amp bench`.
DEVICE = "cuda"
GRADIENTS = 1
FEATURES, LABELS = ((4, 2, 3, 4), None), ((4,), 3)
    ("stem_weight", "stem.weight", (4, 2, 3, 3), 0, ("normal", 0.33333334)),
    ("stem_bias", "stem.bias", (4,), 0, ("constant", 0.0)),
    ("norm_weight", "norm.weight", (4,), 0, ("constant", 1.0)),
    ("norm_bias", "norm.bias", (4,), 0, ("constant", 0.0)),
    ("deep_weight", "deep.weight", (4, 4, 3, 3), 0, ("normal", 0.23570226)),
    ("head_weight", "head.weight", (3, 4), 0, ("uniform", 0.5)),
    ("head_bias", "head.bias", (3,), 0, ("uniform", 0.5)),
    {"lr": 0.001, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
class Step(torch.nn.Module):
        with torch.autocast("cuda", dtype=torch.float16):
            x = F.conv2d(features, self.stem_weight, self.stem_bias, 1, 1, 1, 1)  # stem
            x = F.group_norm(x, 2, self.norm_weight, self.norm_bias, 1e-5)  # norm
            x = F.silu(x)  # act
            x = F.interpolate(x, scale_factor=(2, 1), mode="nearest")  # near
            x = F.conv2d(x, self.deep_weight, None, 1, 1, 1, 1)  # deep
            x = x.to(torch.float32)  # smooth
            x = F.interpolate(x, scale_factor=(2, 3), mode="bilinear", align_corners=False)  # smooth
            x = F.group_norm(x, 4, None, None, 1e-5)  # plain
            x = torch.tanh(x)  # late
            x = x.mean((2, 3))  # pool
            x = F.linear(x, self.head_weight, self.head_bias)  # head
            return F.cross_entropy(x, labels)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
model = model.to(DEVICE, memory_format=torch.channels_last).train(not arguments.whole)
batches = [[(features.to(DEVICE, memory_format=torch.channels_last), labels.to(DEVICE)) for features, labels in micro] for micro in batches]
optimizer = torch.optim.AdamW(groups, fused=True)
scaler = torch.amp.GradScaler(DEVICE, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000)
# Gradients that are added up lie outside of the memory of CUDA graphs, which each micro-batch writes anew.
        scaler.scale(loss).backward()
        total = loss.detach()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    done += 1
    return total
# shared
"""One training step of sample in PyTorch, written by amp from the manifest.
memory is that of a module written by hand. With --serve it answers `amp bench`.
DEVICE = "cuda"
GRADIENTS = 1
FEATURES, LABELS = ((4, 6), None), ((4,), 6)
    ("encoder_weight", "encoder.weight", (6, 6), 0, ("uniform", 0.40824828)),
    ("encoder_bias", "encoder.bias", (6,), 0, ("uniform", 0.40824828)),
    ("norm_weight", "norm.weight", (6,), 0, ("constant", 1.0)),
    ("norm_bias", "norm.bias", (6,), 0, ("constant", 0.0)),
    ("head_bias", "head.bias", (6,), 0, ("uniform", 0.40824828)),
    {"lr": 0.001, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
class Step(torch.nn.Module):
        with torch.autocast("cuda", dtype=torch.float16):
            x = F.linear(features, self.encoder_weight, self.encoder_bias)  # encoder
            x = F.layer_norm(x, (6,), self.norm_weight, self.norm_bias, 1e-5)  # norm
            x = torch.tanh(x)  # act
            x = F.linear(x, self.encoder_weight, self.encoder_bias)  # again
            x = F.layer_norm(x, (6,), self.norm_weight, self.norm_bias, 1e-5)  # norm-again
            x = F.linear(x, self.encoder_weight, self.head_bias)  # head
            return F.cross_entropy(x, labels)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
model = model.to(DEVICE).train(not arguments.whole)
batches = [[(features.to(DEVICE), labels.to(DEVICE)) for features, labels in micro] for micro in batches]
optimizer = torch.optim.AdamW(groups, fused=True)
scaler = torch.amp.GradScaler(DEVICE, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000)
# Gradients that are added up lie outside of the memory of CUDA graphs, which each micro-batch writes anew.
        scaler.scale(loss).backward()
        total = loss.detach()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    done += 1
    return total
