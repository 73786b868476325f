"""Weights of Hugging Face transformers and torchvision in amp and back, compared with PyTorch's autograd in f32 on the CPU.

usage: weights.py AMP [--small] [NAME…]      AMP is the binary; names are gpt2 bert vit resnet18 resnet50 gpt2-124m resnet50-224 …
       weights.py --record FOLDER            writes the small case of tests/suite/weights.rs, which needs no Python

For each model, from random weights that PyTorch drew:
  logits     `amp predict` from the imported file against the model's forward in evaluation form: largest |difference| / largest |logit|
  loss       of the first training step, relative difference
  gradients  one step of SGD with lr = 2^20 against autograd: ‖amp − torch‖ / ‖torch‖, the worst parameter, and how far either is from
             autograd in f64; a power of two, and so large that the weight itself rounds away from (before − after) / lr
  3 steps    SGD, then `amp export`, loaded strictly by the library: its logits against `amp predict` of the same checkpoint, and its
             parameters against those that PyTorch trained
Exit 1 when a bound below is passed, 77 when torch, transformers or torchvision is not there.
"""
import copy, json, subprocess, sys, tempfile, pathlib

try:
    import torch, transformers, torchvision
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    print(f"SKIPPED, nothing was compared: {missing}", file=sys.stderr)
    sys.exit(77)

# Relative to the largest logit; norm-wise; relative.
LOGITS, GRADIENT, LOSS = 1e-5, 1e-5, 1e-6
LR = 2.0 ** 20
# Softmax does not see what is added to all scores of a row: this gradient is 0, and what both compute is rounding, which is held
# against the norm of all gradients instead.
NOTHING = "self.key.bias"


def gpt2(vocabulary, context, width, layers, heads, length, count):
    config = transformers.GPT2Config(
        vocab_size=vocabulary, n_positions=context, n_embd=width, n_layer=layers, n_head=heads, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="eager")
    return dict(
        torch=transformers.GPT2LMHeadModel(config), names="gpt2-huggingface", tied=["lm_head.weight"],
        data=lambda: (torch.randint(1, vocabulary, (count, length)), torch.randint(1, vocabulary, (count, length))),
        format=f'vocabulary={vocabulary} classes={vocabulary}', shape=None,
        model=f'"std:models/gpt2" vocabulary={vocabulary} context={context} width={width} layers={layers} heads={heads} dropout=0.0')


def bert(vocabulary, context, width, layers, heads, length, count):
    config = transformers.BertConfig(
        vocab_size=vocabulary, max_position_embeddings=context, hidden_size=width, num_hidden_layers=layers,
        num_attention_heads=heads, intermediate_size=4 * width, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, attn_implementation="eager")
    return dict(
        torch=transformers.BertForMaskedLM(config), names="bert-huggingface",
        tied=["cls.predictions.decoder.weight", "cls.predictions.decoder.bias"],
        data=lambda: (torch.randint(1, vocabulary, (count, length)), torch.randint(1, vocabulary, (count, length))),
        format=f'vocabulary={vocabulary} classes={vocabulary}', shape=None,
        model=f'"std:models/bert" vocabulary={vocabulary} context={context} width={width} layers={layers} heads={heads} dropout=0.0')


def pictures(model, names, text, size, classes, count):
    return dict(
        torch=model, names=names, tied=[], format=f"classes={classes}", shape=f"3 {size} {size}", model=text,
        data=lambda: (torch.randn(count, 3, size, size), torch.randint(0, classes, (count,))))


def vit(size, patch, layers, heads, width, classes, count):
    model = torchvision.models.VisionTransformer(size, patch, layers, heads, width, 4 * width, num_classes=classes)
    torch.nn.init.normal_(model.heads.head.weight, std=0.1)  # zeros would hide all gradients below
    torch.nn.init.normal_(model.class_token, std=0.02)
    return pictures(model, "vit-torchvision", f'"std:models/vit" classes={classes} image={size} patch={patch} width={width} '
                    f'layers={layers} heads={heads}', size, classes, count)


def resnet(depth, size, classes, count):
    model = getattr(torchvision.models, f"resnet{depth}")(num_classes=classes)
    return pictures(model, "resnet-torchvision", f'"std:models/resnet" depth={depth} classes={classes}', size, classes, count)


SMALL = {
    "gpt2": lambda: gpt2(61, 12, 24, 2, 3, 12, 4),
    "bert": lambda: bert(61, 12, 24, 2, 3, 12, 4),
    "vit": lambda: vit(32, 8, 2, 3, 24, 10, 4),
    "resnet18": lambda: resnet(18, 64, 10, 8),
    "resnet50": lambda: resnet(50, 64, 10, 4),
}
PUBLISHED = {
    "gpt2-124m": lambda: gpt2(50257, 1024, 768, 12, 12, 64, 2),
    "bert-base": lambda: bert(30522, 512, 768, 12, 12, 64, 2),
    "vit-b16": lambda: vit(224, 16, 12, 12, 768, 1000, 2),
    "resnet50-224": lambda: resnet(50, 224, 1000, 4),
}

MANIFEST = """amp 1
run "weights" seed=1
data "batch" {{
    source "data.safetensors"
    format "safetensors" features="x" labels="y" {format}
    {shape}
    batch {count}
}}
model {model} {{
    initial "weights.safetensors" names="{names}"
}}
optimizer "sgd" lr={lr}
train steps={steps}
"""


def amp(binary, folder, *arguments):
    answer = subprocess.run([binary, *arguments], cwd=folder, capture_output=True, text=True)
    if answer.returncode:
        raise SystemExit(f"amp {' '.join(arguments)}: exit code {answer.returncode}\n{answer.stderr}")
    return json.loads(answer.stdout) if "--json" in arguments else answer.stdout


def state(case):
    """The model's tensors as its library would save them: tied ones once."""
    return {name: value.detach().clone().contiguous() for name, value in case["torch"].state_dict().items()
            if name not in case["tied"] and not name.endswith("num_batches_tracked")}


def logits(model, x):
    found = model(x)
    return getattr(found, "logits", found)


def loss_of(model, x, y):
    found = logits(model, x)
    return torch.nn.functional.cross_entropy(found.flatten(0, -2), y.flatten())


def distance(a, b):
    return float((a.double() - b.double()).norm() / b.double().norm().clamp_min(1e-300))


def largest(a, b):
    return float((a.double() - b.double()).abs().max() / b.double().abs().max())


def manifest(folder, case, count, lr, steps):
    shape = f"shape {case['shape']}" if case["shape"] else ""
    values = dict(case, shape=shape, count=count, lr=repr(lr), steps=steps)
    (folder / "manifest.kdl").write_text(MANIFEST.format(**values))


def trained(binary, folder, case, count, lr, steps, out):
    """Trains; the last checkpoint under the library's names, the losses, and the run's folder."""
    manifest(folder, case, count, lr, steps)
    answer = amp(binary, folder, "run", "--json")
    record = pathlib.Path(folder, answer["record"])
    events = [json.loads(line) for line in record.read_text().splitlines()]
    losses = [event["hashed"]["loss"]["value"] for event in events if event["event"] == "step"]
    amp(binary, folder, "export", str(record.parent), "--names", case["names"], "--out", out)
    return load_file(folder / out), losses, record.parent


def compare(binary, name, build, folder):
    torch.manual_seed(0)
    case = build()
    model, (x, y) = case["torch"], case["data"]()
    count, before = len(x), state(case)
    save_file(case["torch"].state_dict() if not case["tied"] else before, folder / "weights.safetensors")
    save_file({"x": x, "y": y}, folder / "data.safetensors")

    manifest(folder, case, count, LR, 1)
    amp(binary, folder, "predict", "--out", "begin.safetensors")
    model.eval()
    with torch.no_grad():
        begin = largest(load_file(folder / "begin.safetensors")["predictions"], logits(model, x))

    model.train()
    exact = copy.deepcopy(model).double()
    exact_loss = loss_of(exact, x.double() if x.is_floating_point() else x, y)
    exact_loss.backward()
    exact = {parameter: value.grad for parameter, value in exact.named_parameters()}
    loss = loss_of(model, x, y)
    loss.backward()
    after, losses, _ = trained(binary, folder, case, count, LR, 1, "after.safetensors")
    off = abs(losses[0] - float(loss.detach())) / float(loss.detach())
    loss_off = abs(float(exact_loss.detach()) - float(loss.detach())) / float(loss.detach())
    found = []
    for parameter, value in model.named_parameters():
        if parameter not in case["tied"]:
            ours = (before[parameter].double() - after[parameter].double()) / LR
            gradient = value.grad.double()
            found.append((parameter, ours, gradient, exact[parameter]))
    whole = sum(float(true.norm()) ** 2 for *_, true in found) ** 0.5
    def worst(pairs):
        return max((float((a - b).norm() / (whole if name.endswith(NOTHING) else b.norm())), name) for name, a, b in pairs)

    apart = worst((name, ours, gradient) for name, ours, gradient, _ in found)
    amp_off = worst((name, ours, true) for name, ours, _, true in found)
    torch_off = worst((name, gradient, true) for name, _, gradient, true in found)

    with torch.no_grad():
        case["torch"].load_state_dict({**model.state_dict(), **before}, strict=False)
    model.zero_grad()
    sgd = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        sgd.zero_grad()
        loss_of(model, x, y).backward()
        sgd.step()
    ours = {key: value for key, value in state(case).items()}
    exported, _, run = trained(binary, folder, case, count, 0.01, 3, "trained.safetensors")
    steps = max((distance(exported[key], value), key) for key, value in ours.items() if not key.endswith(NOTHING))
    amp(binary, folder, "predict", "--checkpoint", str(run), "--out", "end.safetensors")
    if case["tied"]:
        # As a user would: the configuration beside the file, then the library's own loader.
        saved = folder / "saved"
        saved.mkdir(exist_ok=True)
        model.config.save_pretrained(saved)
        (folder / "trained.safetensors").rename(saved / "model.safetensors")
        loaded, info = type(model).from_pretrained(saved, output_loading_info=True, attn_implementation="eager")
        left = [key for key in info["missing_keys"] if key not in case["tied"]] + list(info["unexpected_keys"])
        if left:
            raise SystemExit(f"{name}: {left} were not loaded")
    else:
        loaded = model
        loaded.load_state_dict(exported, strict=True)
    loaded.eval()
    with torch.no_grad():
        end = largest(load_file(folder / "end.safetensors")["predictions"], logits(loaded, x))
    count = sum(value.numel() for value in model.parameters())
    print(f"{name:<13} {count:>11,} parameters  logits {begin:.1e}  loss {off:.1e}  gradients: apart {apart[0]:.1e} ({apart[1]}), "
          f"from f64 amp {amp_off[0]:.1e} torch {torch_off[0]:.1e}  "
          f"3 steps: parameters {steps[0]:.1e} ({steps[1]}), exported logits {end:.1e}", flush=True)
    # Where PyTorch itself is further from f64 than that, as with batch norm over a few pixels, amp may be as far on the other side.
    passed = (begin < LOGITS and end < LOGITS and off < max(LOSS, 2 * loss_off) and apart[0] < max(GRADIENT, 2 * torch_off[0]))
    if not passed:
        print(f"{name}: a bound is passed ({LOGITS}, {LOSS}, {GRADIENT})", file=sys.stderr)
    return passed


def record(folder):
    """A GPT-2 of 1,024 parameters: its file as transformers saves it, and a batch with logits, loss and gradients by PyTorch."""
    torch.manual_seed(0)
    case = gpt2(11, 6, 8, 1, 2, 6, 2)
    model, (x, y) = case["torch"], case["data"]()
    # First values of a model are so small that a wrong layout hides in the logits.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    loss = loss_of(model, x, y)
    loss.backward()
    found = {"x": x, "y": y, "loss": loss.detach().reshape(1), "logits": logits(model.eval(), x).detach().contiguous()}
    found |= {f"gradient.{name}": value.grad for name, value in model.named_parameters()}
    save_file(state(case), folder / "gpt2.safetensors", metadata={"format": "pt"})
    save_file(found, folder / "expected.safetensors")


def main(arguments):
    if arguments[0] == "--record":
        return record(pathlib.Path(arguments[1]))
    small = "--small" in arguments
    names = [argument for argument in arguments[1:] if not argument.startswith("--")]
    binary = str(pathlib.Path(arguments[0]).resolve())
    cases = {**SMALL, **({} if small else PUBLISHED)}
    passed = []
    for name, build in cases.items():
        if not names or name in names:
            with tempfile.TemporaryDirectory() as folder:
                passed.append(compare(binary, name, build, pathlib.Path(folder)))
    if not passed:
        raise SystemExit(f"none of {names} is known: {', '.join(cases)}")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
