"""One training step of resnet50 in PyTorch, written by amp from the manifest.
memory is that of a module written by hand. With --serve it answers `amp bench`.
DEVICE = "cuda"
GRADIENTS = 1
FEATURES, LABELS = ((256, 3, 224, 224), None), ((256,), 1000)
    ("conv1_weight", "conv1.weight", (64, 3, 7, 7), 1, ("normal", 0.025253814)),
    ("bn1_weight", "bn1.weight", (64,), 0, ("constant", 1.0)),
    ("bn1_bias", "bn1.bias", (64,), 0, ("constant", 0.0)),
    ("layer1_0_conv1_weight", "layer1.0.conv1.weight", (64, 64, 3, 3), 1, ("normal", 0.058925565)),
    ("layer1_0_bn1_weight", "layer1.0.bn1.weight", (64,), 0, ("constant", 1.0)),
    ("layer1_0_bn1_bias", "layer1.0.bn1.bias", (64,), 0, ("constant", 0.0)),
    ("layer1_0_conv2_weight", "layer1.0.conv2.weight", (64, 64, 3, 3), 1, ("normal", 0.058925565)),
    ("layer1_0_bn2_weight", "layer1.0.bn2.weight", (64,), 0, ("constant", 1.0)),
    ("layer1_0_bn2_bias", "layer1.0.bn2.bias", (64,), 0, ("constant", 0.0)),
    ("layer1_1_conv1_weight", "layer1.1.conv1.weight", (64, 64, 3, 3), 1, ("normal", 0.058925565)),
    ("layer1_1_bn1_weight", "layer1.1.bn1.weight", (64,), 0, ("constant", 1.0)),
    ("layer1_1_bn1_bias", "layer1.1.bn1.bias", (64,), 0, ("constant", 0.0)),
    ("layer1_1_conv2_weight", "layer1.1.conv2.weight", (64, 64, 3, 3), 1, ("normal", 0.058925565)),
    ("layer1_1_bn2_weight", "layer1.1.bn2.weight", (64,), 0, ("constant", 1.0)),
    ("layer1_1_bn2_bias", "layer1.1.bn2.bias", (64,), 0, ("constant", 0.0)),
    ("layer2_0_conv1_weight", "layer2.0.conv1.weight", (128, 64, 3, 3), 1, ("normal", 0.041666668)),
    ("layer2_0_bn1_weight", "layer2.0.bn1.weight", (128,), 0, ("constant", 1.0)),
    ("layer2_0_bn1_bias", "layer2.0.bn1.bias", (128,), 0, ("constant", 0.0)),
    ("layer2_0_conv2_weight", "layer2.0.conv2.weight", (128, 128, 3, 3), 1, ("normal", 0.041666668)),
    ("layer2_0_bn2_weight", "layer2.0.bn2.weight", (128,), 0, ("constant", 1.0)),
    ("layer2_0_bn2_bias", "layer2.0.bn2.bias", (128,), 0, ("constant", 0.0)),
    ("layer2_0_downsample_conv_weight", "layer2.0.downsample.conv.weight", (128, 64, 1, 1), 1, ("normal", 0.125)),
    ("layer2_0_downsample_norm_weight", "layer2.0.downsample.norm.weight", (128,), 0, ("constant", 1.0)),
    ("layer2_0_downsample_norm_bias", "layer2.0.downsample.norm.bias", (128,), 0, ("constant", 0.0)),
    ("layer2_1_conv1_weight", "layer2.1.conv1.weight", (128, 128, 3, 3), 1, ("normal", 0.041666668)),
    ("layer2_1_bn1_weight", "layer2.1.bn1.weight", (128,), 0, ("constant", 1.0)),
    ("layer2_1_bn1_bias", "layer2.1.bn1.bias", (128,), 0, ("constant", 0.0)),
    ("layer2_1_conv2_weight", "layer2.1.conv2.weight", (128, 128, 3, 3), 1, ("normal", 0.041666668)),
    ("layer2_1_bn2_weight", "layer2.1.bn2.weight", (128,), 0, ("constant", 1.0)),
    ("layer2_1_bn2_bias", "layer2.1.bn2.bias", (128,), 0, ("constant", 0.0)),
    ("layer3_0_conv1_weight", "layer3.0.conv1.weight", (256, 128, 3, 3), 1, ("normal", 0.029462783)),
    ("layer3_0_bn1_weight", "layer3.0.bn1.weight", (256,), 0, ("constant", 1.0)),
    ("layer3_0_bn1_bias", "layer3.0.bn1.bias", (256,), 0, ("constant", 0.0)),
    ("layer3_0_conv2_weight", "layer3.0.conv2.weight", (256, 256, 3, 3), 1, ("normal", 0.029462783)),
    ("layer3_0_bn2_weight", "layer3.0.bn2.weight", (256,), 0, ("constant", 1.0)),
    ("layer3_0_bn2_bias", "layer3.0.bn2.bias", (256,), 0, ("constant", 0.0)),
    ("layer3_0_downsample_conv_weight", "layer3.0.downsample.conv.weight", (256, 128, 1, 1), 1, ("normal", 0.088388346)),
    ("layer3_0_downsample_norm_weight", "layer3.0.downsample.norm.weight", (256,), 0, ("constant", 1.0)),
    ("layer3_0_downsample_norm_bias", "layer3.0.downsample.norm.bias", (256,), 0, ("constant", 0.0)),
    ("layer3_1_conv1_weight", "layer3.1.conv1.weight", (256, 256, 3, 3), 1, ("normal", 0.029462783)),
    ("layer3_1_bn1_weight", "layer3.1.bn1.weight", (256,), 0, ("constant", 1.0)),
    ("layer3_1_bn1_bias", "layer3.1.bn1.bias", (256,), 0, ("constant", 0.0)),
    ("layer3_1_conv2_weight", "layer3.1.conv2.weight", (256, 256, 3, 3), 1, ("normal", 0.029462783)),
    ("layer3_1_bn2_weight", "layer3.1.bn2.weight", (256,), 0, ("constant", 1.0)),
    ("layer3_1_bn2_bias", "layer3.1.bn2.bias", (256,), 0, ("constant", 0.0)),
    ("layer4_0_conv1_weight", "layer4.0.conv1.weight", (512, 256, 3, 3), 1, ("normal", 0.020833334)),
    ("layer4_0_bn1_weight", "layer4.0.bn1.weight", (512,), 0, ("constant", 1.0)),
    ("layer4_0_bn1_bias", "layer4.0.bn1.bias", (512,), 0, ("constant", 0.0)),
    ("layer4_0_conv2_weight", "layer4.0.conv2.weight", (512, 512, 3, 3), 1, ("normal", 0.020833334)),
    ("layer4_0_bn2_weight", "layer4.0.bn2.weight", (512,), 0, ("constant", 1.0)),
    ("layer4_0_bn2_bias", "layer4.0.bn2.bias", (512,), 0, ("constant", 0.0)),
    ("layer4_0_downsample_conv_weight", "layer4.0.downsample.conv.weight", (512, 256, 1, 1), 1, ("normal", 0.0625)),
    ("layer4_0_downsample_norm_weight", "layer4.0.downsample.norm.weight", (512,), 0, ("constant", 1.0)),
    ("layer4_0_downsample_norm_bias", "layer4.0.downsample.norm.bias", (512,), 0, ("constant", 0.0)),
    ("layer4_1_conv1_weight", "layer4.1.conv1.weight", (512, 512, 3, 3), 1, ("normal", 0.020833334)),
    ("layer4_1_bn1_weight", "layer4.1.bn1.weight", (512,), 0, ("constant", 1.0)),
    ("layer4_1_bn1_bias", "layer4.1.bn1.bias", (512,), 0, ("constant", 0.0)),
    ("layer4_1_conv2_weight", "layer4.1.conv2.weight", (512, 512, 3, 3), 1, ("normal", 0.020833334)),
    ("layer4_1_bn2_weight", "layer4.1.bn2.weight", (512,), 0, ("constant", 1.0)),
    ("layer4_1_bn2_bias", "layer4.1.bn2.bias", (512,), 0, ("constant", 0.0)),
    ("fc_weight", "fc.weight", (1000, 512), 1, ("uniform", 0.044194173)),
    ("fc_bias", "fc.bias", (1000,), 0, ("uniform", 0.044194173)),
    ("bn1_running_mean", "bn1.running_mean", (64,), 0.0),
    ("bn1_running_var", "bn1.running_var", (64,), 1.0),
    ("layer1_0_bn1_running_mean", "layer1.0.bn1.running_mean", (64,), 0.0),
    ("layer1_0_bn1_running_var", "layer1.0.bn1.running_var", (64,), 1.0),
    ("layer1_0_bn2_running_mean", "layer1.0.bn2.running_mean", (64,), 0.0),
    ("layer1_0_bn2_running_var", "layer1.0.bn2.running_var", (64,), 1.0),
    ("layer1_1_bn1_running_mean", "layer1.1.bn1.running_mean", (64,), 0.0),
    ("layer1_1_bn1_running_var", "layer1.1.bn1.running_var", (64,), 1.0),
    ("layer1_1_bn2_running_mean", "layer1.1.bn2.running_mean", (64,), 0.0),
    ("layer1_1_bn2_running_var", "layer1.1.bn2.running_var", (64,), 1.0),
    ("layer2_0_bn1_running_mean", "layer2.0.bn1.running_mean", (128,), 0.0),
    ("layer2_0_bn1_running_var", "layer2.0.bn1.running_var", (128,), 1.0),
    ("layer2_0_bn2_running_mean", "layer2.0.bn2.running_mean", (128,), 0.0),
    ("layer2_0_bn2_running_var", "layer2.0.bn2.running_var", (128,), 1.0),
    ("layer2_0_downsample_norm_running_mean", "layer2.0.downsample.norm.running_mean", (128,), 0.0),
    ("layer2_0_downsample_norm_running_var", "layer2.0.downsample.norm.running_var", (128,), 1.0),
    ("layer2_1_bn1_running_mean", "layer2.1.bn1.running_mean", (128,), 0.0),
    ("layer2_1_bn1_running_var", "layer2.1.bn1.running_var", (128,), 1.0),
    ("layer2_1_bn2_running_mean", "layer2.1.bn2.running_mean", (128,), 0.0),
    ("layer2_1_bn2_running_var", "layer2.1.bn2.running_var", (128,), 1.0),
    ("layer3_0_bn1_running_mean", "layer3.0.bn1.running_mean", (256,), 0.0),
    ("layer3_0_bn1_running_var", "layer3.0.bn1.running_var", (256,), 1.0),
    ("layer3_0_bn2_running_mean", "layer3.0.bn2.running_mean", (256,), 0.0),
    ("layer3_0_bn2_running_var", "layer3.0.bn2.running_var", (256,), 1.0),
    ("layer3_0_downsample_norm_running_mean", "layer3.0.downsample.norm.running_mean", (256,), 0.0),
    ("layer3_0_downsample_norm_running_var", "layer3.0.downsample.norm.running_var", (256,), 1.0),
    ("layer3_1_bn1_running_mean", "layer3.1.bn1.running_mean", (256,), 0.0),
    ("layer3_1_bn1_running_var", "layer3.1.bn1.running_var", (256,), 1.0),
    ("layer3_1_bn2_running_mean", "layer3.1.bn2.running_mean", (256,), 0.0),
    ("layer3_1_bn2_running_var", "layer3.1.bn2.running_var", (256,), 1.0),
    ("layer4_0_bn1_running_mean", "layer4.0.bn1.running_mean", (512,), 0.0),
    ("layer4_0_bn1_running_var", "layer4.0.bn1.running_var", (512,), 1.0),
    ("layer4_0_bn2_running_mean", "layer4.0.bn2.running_mean", (512,), 0.0),
    ("layer4_0_bn2_running_var", "layer4.0.bn2.running_var", (512,), 1.0),
    ("layer4_0_downsample_norm_running_mean", "layer4.0.downsample.norm.running_mean", (512,), 0.0),
    ("layer4_0_downsample_norm_running_var", "layer4.0.downsample.norm.running_var", (512,), 1.0),
    ("layer4_1_bn1_running_mean", "layer4.1.bn1.running_mean", (512,), 0.0),
    ("layer4_1_bn1_running_var", "layer4.1.bn1.running_var", (512,), 1.0),
    ("layer4_1_bn2_running_mean", "layer4.1.bn2.running_mean", (512,), 0.0),
    ("layer4_1_bn2_running_var", "layer4.1.bn2.running_var", (512,), 1.0),
    {"lr": 0.1, "momentum": 0.9, "nesterov": False, "weight_decay": 0.0},
    {"lr": 0.1, "momentum": 0.9, "nesterov": False, "weight_decay": 0.0001},
class Step(torch.nn.Module):
        with torch.autocast("cuda", dtype=torch.float16):
            x = F.conv2d(features, self.conv1_weight, None, 2, 3, 1, 1)  # conv1
            x = F.batch_norm(x, self.bn1_running_mean, self.bn1_running_var, self.bn1_weight, self.bn1_bias, True, 0.1, 1e-5)  # bn1
            x = F.relu(x)  # relu
            x = F.max_pool2d(x, 3, 2, 1)  # max-pool2d
            y = F.conv2d(x, self.layer1_0_conv1_weight, None, 1, 1, 1, 1)  # layer1.0.conv1
            y = F.batch_norm(y, self.layer1_0_bn1_running_mean, self.layer1_0_bn1_running_var, self.layer1_0_bn1_weight, self.layer1_0_bn1_bias, True, 0.1, 1e-5)  # layer1.0.bn1
            y = F.relu(y)  # layer1.0.relu-2
            y = F.conv2d(y, self.layer1_0_conv2_weight, None, 1, 1, 1, 1)  # layer1.0.conv2
            y = F.batch_norm(y, self.layer1_0_bn2_running_mean, self.layer1_0_bn2_running_var, self.layer1_0_bn2_weight, self.layer1_0_bn2_bias, True, 0.1, 1e-5)  # layer1.0.bn2
            x = y + x  # layer1.0.parallel
            del y
            x = F.relu(x)  # layer1.0.relu
            y = F.conv2d(x, self.layer1_1_conv1_weight, None, 1, 1, 1, 1)  # layer1.1.conv1
            y = F.batch_norm(y, self.layer1_1_bn1_running_mean, self.layer1_1_bn1_running_var, self.layer1_1_bn1_weight, self.layer1_1_bn1_bias, True, 0.1, 1e-5)  # layer1.1.bn1
            y = F.relu(y)  # layer1.1.relu-2
            y = F.conv2d(y, self.layer1_1_conv2_weight, None, 1, 1, 1, 1)  # layer1.1.conv2
            y = F.batch_norm(y, self.layer1_1_bn2_running_mean, self.layer1_1_bn2_running_var, self.layer1_1_bn2_weight, self.layer1_1_bn2_bias, True, 0.1, 1e-5)  # layer1.1.bn2
            x = y + x  # layer1.1.parallel
            del y
            x = F.relu(x)  # layer1.1.relu
            y = F.conv2d(x, self.layer2_0_conv1_weight, None, 2, 1, 1, 1)  # layer2.0.conv1
            y = F.batch_norm(y, self.layer2_0_bn1_running_mean, self.layer2_0_bn1_running_var, self.layer2_0_bn1_weight, self.layer2_0_bn1_bias, True, 0.1, 1e-5)  # layer2.0.bn1
            y = F.relu(y)  # layer2.0.relu-2
            y = F.conv2d(y, self.layer2_0_conv2_weight, None, 1, 1, 1, 1)  # layer2.0.conv2
            y = F.batch_norm(y, self.layer2_0_bn2_running_mean, self.layer2_0_bn2_running_var, self.layer2_0_bn2_weight, self.layer2_0_bn2_bias, True, 0.1, 1e-5)  # layer2.0.bn2
            x = F.conv2d(x, self.layer2_0_downsample_conv_weight, None, 2, 0, 1, 1)  # layer2.0.downsample.conv
            x = F.batch_norm(x, self.layer2_0_downsample_norm_running_mean, self.layer2_0_downsample_norm_running_var, self.layer2_0_downsample_norm_weight, self.layer2_0_downsample_norm_bias, True, 0.1, 1e-5)  # layer2.0.downsample.norm
            x = y + x  # layer2.0.parallel
            del y
            x = F.relu(x)  # layer2.0.relu
            y = F.conv2d(x, self.layer2_1_conv1_weight, None, 1, 1, 1, 1)  # layer2.1.conv1
            y = F.batch_norm(y, self.layer2_1_bn1_running_mean, self.layer2_1_bn1_running_var, self.layer2_1_bn1_weight, self.layer2_1_bn1_bias, True, 0.1, 1e-5)  # layer2.1.bn1
            y = F.relu(y)  # layer2.1.relu-2
            y = F.conv2d(y, self.layer2_1_conv2_weight, None, 1, 1, 1, 1)  # layer2.1.conv2
            y = F.batch_norm(y, self.layer2_1_bn2_running_mean, self.layer2_1_bn2_running_var, self.layer2_1_bn2_weight, self.layer2_1_bn2_bias, True, 0.1, 1e-5)  # layer2.1.bn2
            x = y + x  # layer2.1.parallel
            del y
            x = F.relu(x)  # layer2.1.relu
            y = F.conv2d(x, self.layer3_0_conv1_weight, None, 2, 1, 1, 1)  # layer3.0.conv1
            y = F.batch_norm(y, self.layer3_0_bn1_running_mean, self.layer3_0_bn1_running_var, self.layer3_0_bn1_weight, self.layer3_0_bn1_bias, True, 0.1, 1e-5)  # layer3.0.bn1
            y = F.relu(y)  # layer3.0.relu-2
            y = F.conv2d(y, self.layer3_0_conv2_weight, None, 1, 1, 1, 1)  # layer3.0.conv2
            y = F.batch_norm(y, self.layer3_0_bn2_running_mean, self.layer3_0_bn2_running_var, self.layer3_0_bn2_weight, self.layer3_0_bn2_bias, True, 0.1, 1e-5)  # layer3.0.bn2
            x = F.conv2d(x, self.layer3_0_downsample_conv_weight, None, 2, 0, 1, 1)  # layer3.0.downsample.conv
            x = F.batch_norm(x, self.layer3_0_downsample_norm_running_mean, self.layer3_0_downsample_norm_running_var, self.layer3_0_downsample_norm_weight, self.layer3_0_downsample_norm_bias, True, 0.1, 1e-5)  # layer3.0.downsample.norm
            x = y + x  # layer3.0.parallel
            del y
            x = F.relu(x)  # layer3.0.relu
            y = F.conv2d(x, self.layer3_1_conv1_weight, None, 1, 1, 1, 1)  # layer3.1.conv1
            y = F.batch_norm(y, self.layer3_1_bn1_running_mean, self.layer3_1_bn1_running_var, self.layer3_1_bn1_weight, self.layer3_1_bn1_bias, True, 0.1, 1e-5)  # layer3.1.bn1
            y = F.relu(y)  # layer3.1.relu-2
            y = F.conv2d(y, self.layer3_1_conv2_weight, None, 1, 1, 1, 1)  # layer3.1.conv2
            y = F.batch_norm(y, self.layer3_1_bn2_running_mean, self.layer3_1_bn2_running_var, self.layer3_1_bn2_weight, self.layer3_1_bn2_bias, True, 0.1, 1e-5)  # layer3.1.bn2
            x = y + x  # layer3.1.parallel
            del y
            x = F.relu(x)  # layer3.1.relu
            y = F.conv2d(x, self.layer4_0_conv1_weight, None, 2, 1, 1, 1)  # layer4.0.conv1
            y = F.batch_norm(y, self.layer4_0_bn1_running_mean, self.layer4_0_bn1_running_var, self.layer4_0_bn1_weight, self.layer4_0_bn1_bias, True, 0.1, 1e-5)  # layer4.0.bn1
            y = F.relu(y)  # layer4.0.relu-2
            y = F.conv2d(y, self.layer4_0_conv2_weight, None, 1, 1, 1, 1)  # layer4.0.conv2
            y = F.batch_norm(y, self.layer4_0_bn2_running_mean, self.layer4_0_bn2_running_var, self.layer4_0_bn2_weight, self.layer4_0_bn2_bias, True, 0.1, 1e-5)  # layer4.0.bn2
            x = F.conv2d(x, self.layer4_0_downsample_conv_weight, None, 2, 0, 1, 1)  # layer4.0.downsample.conv
            x = F.batch_norm(x, self.layer4_0_downsample_norm_running_mean, self.layer4_0_downsample_norm_running_var, self.layer4_0_downsample_norm_weight, self.layer4_0_downsample_norm_bias, True, 0.1, 1e-5)  # layer4.0.downsample.norm
            x = y + x  # layer4.0.parallel
            del y
            x = F.relu(x)  # layer4.0.relu
            y = F.conv2d(x, self.layer4_1_conv1_weight, None, 1, 1, 1, 1)  # layer4.1.conv1
            y = F.batch_norm(y, self.layer4_1_bn1_running_mean, self.layer4_1_bn1_running_var, self.layer4_1_bn1_weight, self.layer4_1_bn1_bias, True, 0.1, 1e-5)  # layer4.1.bn1
            y = F.relu(y)  # layer4.1.relu-2
            y = F.conv2d(y, self.layer4_1_conv2_weight, None, 1, 1, 1, 1)  # layer4.1.conv2
            y = F.batch_norm(y, self.layer4_1_bn2_running_mean, self.layer4_1_bn2_running_var, self.layer4_1_bn2_weight, self.layer4_1_bn2_bias, True, 0.1, 1e-5)  # layer4.1.bn2
            x = y + x  # layer4.1.parallel
            del y
            x = F.relu(x)  # layer4.1.relu
            x = x.mean((2, 3))  # global-average-pool2d
            x = F.linear(x, self.fc_weight, self.fc_bias)  # fc
            return F.cross_entropy(x, labels)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
model = model.to(DEVICE, memory_format=torch.channels_last).train(not arguments.whole)
batches = [[(features.to(DEVICE, memory_format=torch.channels_last), labels.to(DEVICE)) for features, labels in micro] for micro in batches]
optimizer = torch.optim.SGD(groups, fused=True)
scaler = torch.amp.GradScaler(DEVICE, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=50)
# Gradients that are added up lie outside of the memory of CUDA graphs, which each micro-batch writes anew.
        scaler.scale(loss).backward()
        total = loss.detach()
    scaler.step(optimizer)
    scaler.update()
    done += 1
    return total
