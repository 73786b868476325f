"""One training step of vit-b16 in PyTorch, written by amp from the manifest.
memory is that of a module written by hand. With --serve it answers `amp bench`.
DEVICE = "cuda"
GRADIENTS = 1
FEATURES, LABELS = ((128, 3, 224, 224), None), ((128,), 1000)
    ("patches_weight", "patches.weight", (768, 3, 16, 16), 0, ("normal", 0.02)),
    ("patches_bias", "patches.bias", (768,), 1, ("constant", 0.0)),
    ("class_token_weight", "class_token.weight", (1, 768), 0, ("constant", 0.0)),
    ("positions_weight", "positions.weight", (197, 768), 0, ("normal", 0.02)),
    ("encoder_0_block_norm1_weight", "encoder.0.block.norm1.weight", (768,), 1, ("constant", 1.0)),
    ("encoder_0_block_norm1_bias", "encoder.0.block.norm1.bias", (768,), 1, ("constant", 0.0)),
    ("encoder_0_block_qkv_weight", "encoder.0.block.qkv.weight", (2304, 768), 0, ("normal", 0.02)),
    ("encoder_0_block_qkv_bias", "encoder.0.block.qkv.bias", (2304,), 1, ("constant", 0.0)),
    ("encoder_0_block_out_weight", "encoder.0.block.out.weight", (768, 768), 0, ("normal", 0.02)),
    ("encoder_0_block_out_bias", "encoder.0.block.out.bias", (768,), 1, ("constant", 0.0)),
    ("encoder_0_block_norm2_weight", "encoder.0.block.norm2.weight", (768,), 1, ("constant", 1.0)),
    ("encoder_0_block_norm2_bias", "encoder.0.block.norm2.bias", (768,), 1, ("constant", 0.0)),
    ("encoder_0_block_up_weight", "encoder.0.block.up.weight", (3072, 768), 0, ("normal", 0.02)),
    ("encoder_0_block_up_bias", "encoder.0.block.up.bias", (3072,), 1, ("constant", 0.0)),
    ("encoder_0_block_down_weight", "encoder.0.block.down.weight", (768, 3072), 0, ("normal", 0.02)),
    ("encoder_0_block_down_bias", "encoder.0.block.down.bias", (768,), 1, ("constant", 0.0)),
    ("norm_weight", "norm.weight", (768,), 1, ("constant", 1.0)),
    ("norm_bias", "norm.bias", (768,), 1, ("constant", 0.0)),
    ("head_weight", "head.weight", (1000, 768), 0, ("constant", 0.0)),
    ("head_bias", "head.bias", (1000,), 1, ("constant", 0.0)),
    {"lr": 0.0001, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.1},
    {"lr": 0.0001, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0},
def heads(x, count):
    """(N, T, H·D) as (N, H, T, D)."""
    return x.unflatten(-1, (count, -1)).transpose(1, 2)
class Step(torch.nn.Module):
        with torch.autocast("cuda", dtype=torch.float16):
            x = F.conv2d(features, self.patches_weight, self.patches_bias, 16, 0, 1, 1)  # patches
            x = x.reshape((128, 768, 196))  # flatten
            x = x.permute((0, 2, 1))  # transpose
            y = self.class_token_weight.expand((128, 1, 768))  # class_token
            x = torch.cat((y, x), 1)  # class_token
            del y
            x = x + self.positions_weight  # positions
            y = F.layer_norm(x, (768,), self.encoder_0_block_norm1_weight, self.encoder_0_block_norm1_bias, 1e-6)  # encoder.0.block.norm1
            y = F.linear(y, self.encoder_0_block_qkv_weight, self.encoder_0_block_qkv_bias)  # encoder.0.block.qkv
            y, z, u = y.split((768, 768, 768), 2)  # encoder.0.block.attention.query
            y = F.scaled_dot_product_attention(heads(y, 12), heads(z, 12), heads(u, 12), scale=0.125).transpose(1, 2).flatten(2)  # encoder.0.block.attention
            del z, u
            y = F.linear(y, self.encoder_0_block_out_weight, self.encoder_0_block_out_bias)  # encoder.0.block.out
            x = y + x  # encoder.0.block.residual
            del y
            y = F.layer_norm(x, (768,), self.encoder_0_block_norm2_weight, self.encoder_0_block_norm2_bias, 1e-6)  # encoder.0.block.norm2
            y = F.linear(y, self.encoder_0_block_up_weight, self.encoder_0_block_up_bias)  # encoder.0.block.up
            y = F.gelu(y)  # encoder.0.block.activation.gelu
            y = F.linear(y, self.encoder_0_block_down_weight, self.encoder_0_block_down_bias)  # encoder.0.block.down
            x = y + x  # encoder.0.block.residual-2
            del y
            x = F.layer_norm(x, (768,), self.norm_weight, self.norm_bias, 1e-6)  # norm
            x = x.narrow(1, 0, 1)  # select
            x = x.reshape((128, 768))  # select
            x = F.linear(x, self.head_weight, self.head_bias)  # head
            return F.cross_entropy(x, labels)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
model = model.to(DEVICE, memory_format=torch.channels_last).train(not arguments.whole)
batches = [[(features.to(DEVICE, memory_format=torch.channels_last), labels.to(DEVICE)) for features, labels in micro] for micro in batches]
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
