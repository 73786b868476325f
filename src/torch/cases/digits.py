"""One training step of digits in PyTorch, written by amp from the manifest.
memory is that of a module written by hand. With --serve it answers `amp bench`.
DEVICE = "cpu"
GRADIENTS = 1
FEATURES, LABELS = ((64, 64), None), ((64,), 10)
    ("hidden_0_linear_weight", "hidden.0.linear.weight", (256, 64), 0, ("uniform", 0.125)),
    ("hidden_0_linear_bias", "hidden.0.linear.bias", (256,), 0, ("uniform", 0.125)),
    ("hidden_1_linear_weight", "hidden.1.linear.weight", (256, 256), 0, ("uniform", 0.0625)),
    ("hidden_1_linear_bias", "hidden.1.linear.bias", (256,), 0, ("uniform", 0.0625)),
    ("head_weight", "head.weight", (10, 256), 0, ("uniform", 0.0625)),
    ("head_bias", "head.bias", (10,), 0, ("uniform", 0.0625)),
    {"lr": 0.001, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
class Step(torch.nn.Module):
        with torch.autocast("cpu", dtype=torch.float16):
            x = features.reshape((64, 64))  # flatten
            x = F.linear(x, self.hidden_0_linear_weight, self.hidden_0_linear_bias)  # hidden.0.linear
            x = F.relu(x)  # hidden.0.relu
            x = F.linear(x, self.hidden_1_linear_weight, self.hidden_1_linear_bias)  # hidden.1.linear
            x = F.relu(x)  # hidden.1.relu
            x = x.to(torch.float32)  # head
            with torch.autocast("cpu", enabled=False):
                x = F.linear(x, self.head_weight, self.head_bias)  # head
                return F.cross_entropy(x, labels)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
model = model.to(DEVICE).train(not arguments.whole)
batches = [[(features.to(DEVICE), labels.to(DEVICE)) for features, labels in micro] for micro in batches]
optimizer = torch.optim.AdamW(groups, fused=True)
scaler = torch.amp.GradScaler(DEVICE, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=200)
# Gradients that are added up lie outside of the memory of CUDA graphs, which each micro-batch writes anew.
        scaler.scale(loss).backward()
        total = loss.detach()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    done += 1
    return total
