"""One training step of mnist-cnn in PyTorch, written by amp from the manifest.
memory is that of a module written by hand. With --serve it answers `amp bench`.
DEVICE = "cuda"
GRADIENTS = 1
FEATURES, LABELS = ((128, 1, 28, 28), None), ((128,), 10)
    ("features_0_conv_weight", "features.0.conv.weight", (32, 1, 3, 3), 0, ("uniform", 0.33333334)),
    ("features_0_conv_bias", "features.0.conv.bias", (32,), 0, ("uniform", 0.33333334)),
    ("features_1_conv_weight", "features.1.conv.weight", (64, 32, 3, 3), 0, ("uniform", 0.05892557)),
    ("features_1_conv_bias", "features.1.conv.bias", (64,), 0, ("uniform", 0.05892557)),
    ("hidden_weight", "hidden.weight", (128, 12544), 0, ("uniform", 0.008928572)),
    ("hidden_bias", "hidden.bias", (128,), 0, ("uniform", 0.008928572)),
    ("head_weight", "head.weight", (10, 128), 0, ("uniform", 0.088388346)),
    ("head_bias", "head.bias", (10,), 0, ("uniform", 0.088388346)),
    {"lr": 0.002, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
class Step(torch.nn.Module):
        x = F.conv2d(features, self.features_0_conv_weight, self.features_0_conv_bias, 1, 1, 1, 1)  # features.0.conv
        x = F.relu(x)  # features.0.relu
        x = F.conv2d(x, self.features_1_conv_weight, self.features_1_conv_bias, 1, 1, 1, 1)  # features.1.conv
        x = F.relu(x)  # features.1.relu
        x = F.max_pool2d(x, 2, 2, 0)  # max-pool2d
        x = x.reshape((128, 12544))  # flatten
        x = F.dropout(x, 0.25, self.training)  # dropout
        x = F.linear(x, self.hidden_weight, self.hidden_bias)  # hidden
        x = F.relu(x)  # relu
        x = F.dropout(x, 0.25, self.training)  # dropout-2
        x = F.linear(x, self.head_weight, self.head_bias)  # head
        return F.cross_entropy(x, labels)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
model = model.to(DEVICE, memory_format=torch.channels_last).train(not arguments.whole)
batches = [[(features.to(DEVICE, memory_format=torch.channels_last), labels.to(DEVICE)) for features, labels in micro] for micro in batches]
optimizer = torch.optim.AdamW(groups, fused=True)
# Gradients that are added up lie outside of the memory of CUDA graphs, which each micro-batch writes anew.
        loss.backward()
        total = loss.detach()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    done += 1
    return total
