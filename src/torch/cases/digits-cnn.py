"""One training step of digits-cnn in PyTorch, written by amp from the manifest.
memory is that of a module written by hand. With --serve it answers `amp bench`.
DEVICE = "cpu"
GRADIENTS = 1
FEATURES, LABELS = ((64, 1, 8, 8), None), ((64,), 10)
    ("features_0_conv_weight", "features.0.conv.weight", (32, 1, 3, 3), 0, ("uniform", 0.33333334)),
    ("features_0_norm_weight", "features.0.norm.weight", (32,), 1, ("constant", 1.0)),
    ("features_0_norm_bias", "features.0.norm.bias", (32,), 1, ("constant", 0.0)),
    ("features_1_conv_weight", "features.1.conv.weight", (64, 32, 3, 3), 0, ("uniform", 0.05892557)),
    ("features_1_norm_weight", "features.1.norm.weight", (64,), 1, ("constant", 1.0)),
    ("features_1_norm_bias", "features.1.norm.bias", (64,), 1, ("constant", 0.0)),
    ("hidden_weight", "hidden.weight", (128, 1024), 0, ("uniform", 0.03125)),
    ("hidden_bias", "hidden.bias", (128,), 1, ("uniform", 0.03125)),
    ("head_weight", "head.weight", (10, 128), 0, ("uniform", 0.088388346)),
    ("head_bias", "head.bias", (10,), 1, ("uniform", 0.088388346)),
    ("features_0_norm_running_mean", "features.0.norm.running_mean", (32,), 0.0),
    ("features_0_norm_running_var", "features.0.norm.running_var", (32,), 1.0),
    ("features_1_norm_running_mean", "features.1.norm.running_mean", (64,), 0.0),
    ("features_1_norm_running_var", "features.1.norm.running_var", (64,), 1.0),
    {"lr": 0.002, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
    {"lr": 0.002, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0},
class Step(torch.nn.Module):
        with torch.autocast("cpu", dtype=torch.float16):
            x = F.conv2d(features, self.features_0_conv_weight, None, 1, 1, 1, 1)  # features.0.conv
            x = F.batch_norm(x, self.features_0_norm_running_mean, self.features_0_norm_running_var, self.features_0_norm_weight, self.features_0_norm_bias, True, 0.1, 1e-5)  # features.0.norm
            x = F.relu(x)  # features.0.relu
            x = F.conv2d(x, self.features_1_conv_weight, None, 1, 1, 1, 1)  # features.1.conv
            x = F.batch_norm(x, self.features_1_norm_running_mean, self.features_1_norm_running_var, self.features_1_norm_weight, self.features_1_norm_bias, True, 0.1, 1e-5)  # features.1.norm
            x = F.relu(x)  # features.1.relu
            x = F.max_pool2d(x, 2, 2, 0)  # max-pool2d
            x = x.reshape((64, 1024))  # flatten
            x = F.linear(x, self.hidden_weight, self.hidden_bias)  # hidden
            x = F.relu(x)  # relu
            x = F.linear(x, self.head_weight, self.head_bias)  # head
            x = x.to(torch.float32)  # loss
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
