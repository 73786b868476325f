"""One training step of bert-base in PyTorch, written by amp from the manifest.
memory is that of a module written by hand. With --serve it answers `amp bench`.
DEVICE = "cuda"
GRADIENTS = 1
FEATURES, LABELS = ((32, 512), 30522), ((32, 512), 30522)
    ("tokens_weight", "tokens.weight", (30522, 768), 1, ("normal", 0.02)),
    ("segments_weight", "segments.weight", (2, 768), 1, ("normal", 0.02)),
    ("positions_weight", "positions.weight", (512, 768), 1, ("normal", 0.02)),
    ("norm_weight", "norm.weight", (768,), 0, ("constant", 1.0)),
    ("norm_bias", "norm.bias", (768,), 0, ("constant", 0.0)),
    ("encoder_0_block_attention_query_weight", "encoder.0.block.attention.query.weight", (768, 768), 1, ("normal", 0.02)),
    ("encoder_0_block_attention_query_bias", "encoder.0.block.attention.query.bias", (768,), 0, ("constant", 0.0)),
    ("encoder_0_block_attention_key_weight", "encoder.0.block.attention.key.weight", (768, 768), 1, ("normal", 0.02)),
    ("encoder_0_block_attention_key_bias", "encoder.0.block.attention.key.bias", (768,), 0, ("constant", 0.0)),
    ("encoder_0_block_attention_value_weight", "encoder.0.block.attention.value.weight", (768, 768), 1, ("normal", 0.02)),
    ("encoder_0_block_attention_value_bias", "encoder.0.block.attention.value.bias", (768,), 0, ("constant", 0.0)),
    ("encoder_0_block_out_weight", "encoder.0.block.out.weight", (768, 768), 1, ("normal", 0.02)),
    ("encoder_0_block_out_bias", "encoder.0.block.out.bias", (768,), 0, ("constant", 0.0)),
    ("encoder_0_block_norm1_weight", "encoder.0.block.norm1.weight", (768,), 0, ("constant", 1.0)),
    ("encoder_0_block_norm1_bias", "encoder.0.block.norm1.bias", (768,), 0, ("constant", 0.0)),
    ("encoder_0_block_up_weight", "encoder.0.block.up.weight", (3072, 768), 1, ("normal", 0.02)),
    ("encoder_0_block_up_bias", "encoder.0.block.up.bias", (3072,), 0, ("constant", 0.0)),
    ("encoder_0_block_down_weight", "encoder.0.block.down.weight", (768, 3072), 1, ("normal", 0.02)),
    ("encoder_0_block_down_bias", "encoder.0.block.down.bias", (768,), 0, ("constant", 0.0)),
    ("encoder_0_block_norm2_weight", "encoder.0.block.norm2.weight", (768,), 0, ("constant", 1.0)),
    ("encoder_0_block_norm2_bias", "encoder.0.block.norm2.bias", (768,), 0, ("constant", 0.0)),
    ("transform_weight", "transform.weight", (768, 768), 1, ("normal", 0.02)),
    ("transform_bias", "transform.bias", (768,), 0, ("constant", 0.0)),
    ("transform_norm_weight", "transform_norm.weight", (768,), 0, ("constant", 1.0)),
    ("transform_norm_bias", "transform_norm.bias", (768,), 0, ("constant", 0.0)),
    ("decoder_bias", "decoder.bias", (30522,), 0, ("constant", 0.0)),
    {"lr": 0.0001, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0},
    {"lr": 0.0001, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
def heads(x, count):
    """(N, T, H·D) as (N, H, T, D)."""
    return x.unflatten(-1, (count, -1)).transpose(1, 2)
class Step(torch.nn.Module):
        with torch.autocast("cuda", dtype=torch.float16):
            x = (features != 0).float()  # not-equal
            y = F.embedding(features, self.tokens_weight)  # tokens
            z = self.segments_weight.reshape((1, 2, 768))  # segments
            z = z.narrow(1, 0, 1)  # slice
            y = y + z  # parallel
            del z
            y = y + self.positions_weight  # positions
            y = F.layer_norm(y, (768,), self.norm_weight, self.norm_bias, 1e-12)  # norm
            z = F.linear(y, self.encoder_0_block_attention_query_weight, self.encoder_0_block_attention_query_bias)  # encoder.0.block.attention.query
            u = F.linear(y, self.encoder_0_block_attention_key_weight, self.encoder_0_block_attention_key_bias)  # encoder.0.block.attention.key
            v = F.linear(y, self.encoder_0_block_attention_value_weight, self.encoder_0_block_attention_value_bias)  # encoder.0.block.attention.value
            x = (x != 0)[:, None, None, :]  # encoder.0.block.attention
            x = F.scaled_dot_product_attention(heads(z, 12), heads(u, 12), heads(v, 12), attn_mask=x, scale=0.125).transpose(1, 2).flatten(2)  # encoder.0.block.attention
            del z, u, v
            x = F.linear(x, self.encoder_0_block_out_weight, self.encoder_0_block_out_bias)  # encoder.0.block.out
            x = x + y  # encoder.0.block.residual
            del y
            x = F.layer_norm(x, (768,), self.encoder_0_block_norm1_weight, self.encoder_0_block_norm1_bias, 1e-12)  # encoder.0.block.norm1
            y = F.linear(x, self.encoder_0_block_up_weight, self.encoder_0_block_up_bias)  # encoder.0.block.up
            y = F.gelu(y)  # encoder.0.block.gelu
            y = F.linear(y, self.encoder_0_block_down_weight, self.encoder_0_block_down_bias)  # encoder.0.block.down
            x = y + x  # encoder.0.block.residual-2
            del y
            x = F.layer_norm(x, (768,), self.encoder_0_block_norm2_weight, self.encoder_0_block_norm2_bias, 1e-12)  # encoder.0.block.norm2
            x = F.linear(x, self.transform_weight, self.transform_bias)  # transform
            x = F.gelu(x)  # gelu
            x = F.layer_norm(x, (768,), self.transform_norm_weight, self.transform_norm_bias, 1e-12)  # transform_norm
            x = F.linear(x, self.tokens_weight, self.decoder_bias)  # decoder
            return F.cross_entropy(x.flatten(0, -2), labels.flatten(), ignore_index=-100)
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
