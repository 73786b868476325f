"""One training step of gpt2-shakespeare in PyTorch, written by amp from the manifest.
memory is that of a module written by hand. With --serve it answers `amp bench`.
DEVICE = "cuda"
GRADIENTS = 1
FEATURES, LABELS = ((32, 64), 65), ((32, 64), 65)
    ("tokens_weight", "tokens.weight", (65, 96), 1, ("normal", 0.02)),
    ("positions_weight", "positions.weight", (64, 96), 1, ("normal", 0.01)),
    ("blocks_0_block_norm1_weight", "blocks.0.block.norm1.weight", (96,), 0, ("constant", 1.0)),
    ("blocks_0_block_norm1_bias", "blocks.0.block.norm1.bias", (96,), 0, ("constant", 0.0)),
    ("blocks_0_block_qkv_weight", "blocks.0.block.qkv.weight", (288, 96), 1, ("normal", 0.02)),
    ("blocks_0_block_qkv_bias", "blocks.0.block.qkv.bias", (288,), 0, ("constant", 0.0)),
    ("blocks_0_block_out_weight", "blocks.0.block.out.weight", (96, 96), 1, ("normal", 0.014142135)),
    ("blocks_0_block_out_bias", "blocks.0.block.out.bias", (96,), 0, ("constant", 0.0)),
    ("blocks_0_block_norm2_weight", "blocks.0.block.norm2.weight", (96,), 0, ("constant", 1.0)),
    ("blocks_0_block_norm2_bias", "blocks.0.block.norm2.bias", (96,), 0, ("constant", 0.0)),
    ("blocks_0_block_up_weight", "blocks.0.block.up.weight", (384, 96), 1, ("normal", 0.02)),
    ("blocks_0_block_up_bias", "blocks.0.block.up.bias", (384,), 0, ("constant", 0.0)),
    ("blocks_0_block_down_weight", "blocks.0.block.down.weight", (96, 384), 1, ("normal", 0.014142135)),
    ("blocks_0_block_down_bias", "blocks.0.block.down.bias", (96,), 0, ("constant", 0.0)),
    ("norm_weight", "norm.weight", (96,), 0, ("constant", 1.0)),
    ("norm_bias", "norm.bias", (96,), 0, ("constant", 0.0)),
    {"lr": 0.002, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0},
    {"lr": 0.002, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.1},
def heads(x, count):
    """(N, T, H·D) as (N, H, T, D)."""
    return x.unflatten(-1, (count, -1)).transpose(1, 2)
class Step(torch.nn.Module):
        with torch.autocast("cuda", dtype=torch.float16):
            x = F.embedding(features, self.tokens_weight)  # tokens
            x = x + self.positions_weight  # positions
            x = F.dropout(x, 0.1, self.training)  # dropout
            y = F.layer_norm(x, (96,), self.blocks_0_block_norm1_weight, self.blocks_0_block_norm1_bias, 1e-5)  # blocks.0.block.norm1
            y = F.linear(y, self.blocks_0_block_qkv_weight, self.blocks_0_block_qkv_bias)  # blocks.0.block.qkv
            y, z, u = y.split((96, 96, 96), 2)  # blocks.0.block.attention.query
            y = F.scaled_dot_product_attention(heads(y, 3), heads(z, 3), heads(u, 3), is_causal=True, dropout_p=0.1 if self.training else 0.0, scale=0.17677669).transpose(1, 2).flatten(2)  # blocks.0.block.attention
            del z, u
            y = F.linear(y, self.blocks_0_block_out_weight, self.blocks_0_block_out_bias)  # blocks.0.block.out
            y = F.dropout(y, 0.1, self.training)  # blocks.0.block.dropout1
            x = y + x  # blocks.0.block.residual
            del y
            y = F.layer_norm(x, (96,), self.blocks_0_block_norm2_weight, self.blocks_0_block_norm2_bias, 1e-5)  # blocks.0.block.norm2
            y = F.linear(y, self.blocks_0_block_up_weight, self.blocks_0_block_up_bias)  # blocks.0.block.up
            y = F.gelu(y, approximate="tanh")  # blocks.0.block.activation.gelu
            y = F.linear(y, self.blocks_0_block_down_weight, self.blocks_0_block_down_bias)  # blocks.0.block.down
            y = F.dropout(y, 0.1, self.training)  # blocks.0.block.dropout2
            x = y + x  # blocks.0.block.residual-2
            del y
            x = F.layer_norm(x, (96,), self.norm_weight, self.norm_bias, 1e-5)  # norm
            x = F.linear(x, self.tokens_weight)  # head
            return F.cross_entropy(x.flatten(0, -2), labels.flatten())
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
model = model.to(DEVICE).train(not arguments.whole)
batches = [[(features.to(DEVICE), labels.to(DEVICE)) for features, labels in micro] for micro in batches]
optimizer = torch.optim.AdamW(groups, fused=True)
scaler = torch.amp.GradScaler(DEVICE, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=50)
# Gradients that are added up lie outside of the memory of CUDA graphs, which each micro-batch writes anew.
        scaler.scale(loss).backward()
        total = loss.detach()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    done += 1
    return total
