"""Whether `amp bench --against torch` compares like with like: losses of the first steps, for every op, policy, update and mode.

usage: python3 benches/against_torch.py AMP [--python PYTHON] [--device cpu|cuda] [--modes eager,compile] [--precisions fp32,amp-bf16]
       [--keep FOLDER] [NAME…]

For each model below, in each precision: amp writes the PyTorch program, both begin with the same parameters and batches, nothing dropped, and
the losses of their first steps are compared. Losses have to move over these steps, so that a wrong gradient or update would show. AMP is the
binary; PYTHON has torch (this one, if it is not given). Exit 1 when losses are further apart than the bound of their format, 77 without torch.
"""
import argparse, json, pathlib, subprocess, sys, tempfile

parser = argparse.ArgumentParser()
parser.add_argument("amp")
parser.add_argument("--python", default=sys.executable)
parser.add_argument("--device", default="cpu")
parser.add_argument("--modes", default="eager")
parser.add_argument("--precisions", help="these alone")
parser.add_argument("--keep", help="folder for manifests and programs")
parser.add_argument("names", nargs="*")
arguments = parser.parse_intermixed_args()

# Largest difference of a loss, as a part of it, and the least that the last one has to differ from the first.
# A format's rounding enters each step and grows over them; in f32 only the order of sums differs.
BOUNDS = {"fp32": 2e-5, "amp-bf16": 2e-2, "amp-fp16": 5e-3, "amp-bf16-cpu": 2e-2, "apex-o2": 5e-3, "tf32": 5e-3}
MOVES = 1e-3
ALL = ["fp32", "amp-bf16", "amp-fp16", "amp-bf16-cpu", "apex-o2"]

PICTURES = '    synthetic examples=64 {\n        features 3 16 16\n    }\n    labels "classes" classes=10\n    batch 16'
TARGETS = '    synthetic examples=32 {\n        features 3 16 16\n    }\n    labels "targets" 3 16 16\n    batch 8'
ROWS = '    synthetic examples=64 {\n        features 64\n    }\n    labels "classes" classes=10\n    batch 16'
TOKENS = '    synthetic examples=64 {\n        tokens vocabulary=64 length=16\n    }\n    labels LABELS\n    batch 16'
NEXT, MASKED, CLASSES = (TOKENS.replace("LABELS", text) for text in ('"next-token"', '"masked" mask-token=3', '"classes" classes=10'))
SGD = 'optimizer "sgd" lr=0.05 momentum=0.9'
ADAM = 'optimizer "adamw" lr=1e-3 weight-decay=0.01'

SEQUENCES = """
        reshape 4 4 4
        group-norm "groups" groups=2
        group-norm "bare" groups=4 eps=1e-6 affine=#false
        upsample2d "near" scale=2
        upsample2d "smooth" mode="bilinear" { scale 1 2; }
        global-average-pool2d "pool"
        reshape 2 2
        class-token "class"
        position-embedding "positions" length=8 weight-std=0.02
        rotary-position "turn" heads=1
        rotary-position "neighbours" heads=1 base=500000 interleaved=#true
        rms-norm "norm"
        save "values"
        parallel combine="subtract" { chain; chain { scale "half" factor=0.5; }; }
        slice "part" axis=1 start=1 length=2
        slice "rest" axis=2 length=1
        mean "mean" axis=2
        save "means"
        recall "values"
        select "first" axis=1 index=0
        parallel combine="concatenate" axis=1 { chain; chain { recall "means"; }; }
        linear "wide" out=32
        silu
        linear "head" out=10
"""
POOLS = """
        conv2d "stem" out=8 kernel=3 padding=1 stride=1 bias=#false
        batch-norm "norm"
        silu
        max-pool2d { kernel 3 2; stride 2 2; padding 1 1; }
        conv2d "wide" out=8 groups=4 dilation=2 { kernel 3 3; padding 2 2; }
        tanh
        average-pool2d kernel=3 padding=1 stride=2 count-include-padding=#false
        conv2d "narrow" out=8 { kernel 1 3; padding 0 1; }
        sigmoid
        average-pool2d kernel=3 padding=1 stride=1
        flatten
        linear "head" out=10
"""
PICKED = """
        save "tokens"
        embedding "words" vocabulary=64 size=16 padding-index=1
        gather "picked" { values { linear out=16; }; index { recall "tokens"; }; }
        gelu
        mean axis=1
        linear "head" out=10
"""
PRODUCTS = """
        reshape 8 8
        save "x"
        matrix-product "scores" transpose-right=#true { left { linear out=8; }; right { recall "x"; }; }
        softmax axis=2
        matrix-product "mix" { left { scale factor=2.0; }; right { recall "x"; linear out=8; }; }
        transpose 0 2 1
        parallel combine="multiply" { chain; chain { linear out=8; sigmoid; }; }
        gelu approximate="tanh"
        flatten
        dropout p=0.5
        linear "head" out=10
"""
QUERIES = """
            query { layer-norm "norm"; linear "query" out=32; }
            key { layer-norm "norm_of_key"; linear "key" out=32; }
            value { layer-norm "norm_of_value"; linear "value" out=32; }
"""
ATTENTION = """
        save "tokens"
        not-equal value=3
        save "mask"
        recall "tokens"
        embedding "token" vocabulary=64 size=32 weight-std=0.3
        residual {
            attention "self" heads=4 SETTINGS { QUERIES BIAS MASK }
        }
        layer-norm "norm"
        linear "head" out=64
""".replace("QUERIES", QUERIES)
T5 = 'bias { relative-position-bias "distance" heads=4 buckets=8 max-distance=12 bidirectional=#BOTH weight-init="normal" weight-std=0.5; }'
BOTH, ONE = T5.replace("BOTH", "true"), T5.replace("BOTH", "false")


def attention(settings="", bias="", mask=False):
    text = ATTENTION.replace("SETTINGS", settings).replace("BIAS", bias)
    return text.replace("MASK", 'mask { recall "mask"; }' if mask else "")


# Name: data, model (a module or a body), optimizer, more of the manifest, precisions.
MODELS = {
    "mlp": (ROWS, '"std:models/mlp" hidden=64 layers=2 classes=10', SGD, "", [*ALL, "tf32"]),
    "cnn": (PICTURES, '"std:models/cnn" channels=8 classes=10 dropout=0.25 norm=#true', ADAM, "", ALL),
    "lenet": (PICTURES, '"std:models/lenet" classes=10', SGD, "", ALL),
    "resnet": (PICTURES.replace("16 16", "64 64"), '"std:models/resnet" depth=18 width=8 classes=10',
               'optimizer "sgd" lr=0.01 momentum=0.9 nesterov=#true weight-decay=1e-4', "", ["fp32", "amp-bf16"]),
    "vit": (PICTURES, '"std:models/vit" classes=10 image=16 patch=4 width=32 layers=2 heads=4', ADAM, "", ALL),
    "unet": (TARGETS, '"std:models/unet"', ADAM, 'loss "mean-squared-error"', ["fp32", "amp-bf16", "amp-bf16-cpu"]),
    "gpt": (NEXT, '"std:models/gpt2" vocabulary=64 context=16 width=32 layers=2 heads=4 dropout=0.1', ADAM, "train steps=20 clip-norm=0.5", ALL),
    "bert": (MASKED, '"std:models/bert" vocabulary=64 context=16 width=32 layers=2 heads=4 dropout=0.1',
             'optimizer "adamw" lr=5e-3', "", ALL),
    "deberta": (CLASSES, '"std:models/deberta-v3" vocabulary=64 width=32 layers=2 heads=4 buckets=8 max-distance=12 classes=10',
                'optimizer "adamw" lr=5e-3', "", ALL),
    "sequences": (ROWS, SEQUENCES, SGD, "", ALL),
    "pools": (PICTURES, POOLS, SGD, "", ALL),
    "picked": (CLASSES, PICKED, SGD, "", ALL),
    "products": (ROWS, PRODUCTS, SGD, "", ALL),
    "attention": (NEXT, attention(), SGD, "", ALL),
    "attention-causal": (NEXT, attention("causal=#true scale=0.5 dropout=0.2"), SGD, "", ALL),
    "attention-mask": (NEXT, attention(mask=True), SGD, "", ALL),
    "attention-mask-causal": (NEXT, attention("causal=#true", mask=True), SGD, "", ["fp32", "amp-bf16"]),
    "attention-bias": (NEXT, attention(bias=BOTH), SGD, "", ALL),
    "attention-bias-causal": (NEXT, attention("causal=#true", ONE), SGD, "", ALL),
    "attention-all": (NEXT, attention("causal=#true", BOTH, True), SGD, "", ALL),
    "smoothed": (ROWS, '"std:models/mlp" hidden=64 layers=2 classes=10', SGD, 'loss "cross-entropy" label-smoothing=0.1 ignore-index=3', ["fp32"]),
    "accumulated": (ROWS, '"std:models/mlp" hidden=64 layers=2 classes=10', SGD, "train steps=20 accumulate=2 shards=2 clip-norm=0.1", ["fp32", "amp-fp16"]),
    "groups": (ROWS, '"std:models/mlp" hidden=64 layers=2 classes=10',
               'optimizer "adamw" lr=1e-3 weight-decay=0.1 {\n    parameters "**.bias" weight-decay=0.0 lr=1e-2\n}', "", ["fp32"]),
    "frozen": (ROWS, '"std:models/mlp" hidden=64 layers=2 classes=10 {\n    freeze "hidden.0.**"\n}', SGD, "", ["fp32", "amp-bf16"]),
    "static": (ROWS, '"std:models/mlp" hidden=64 layers=2 classes=10', SGD, 'scaler "static" scale=128.0', ["amp-fp16"]),
    "ruled": (ROWS, '"std:models/mlp" hidden=64 layers=2 classes=10', SGD, "RULED", ["amp-bf16", "amp-fp16"]),
}
RULE = ' {\n    layer "head.**" dtype="f32"\n    op "relu" dtype="f32"\n}'


def manifest(folder, precision, data, model, optimizer, more):
    module = model.startswith('"')
    if not module:
        (folder / "net.kdl").write_text('module "net" kind="model" doc="Under test." {\n    body {' + model + "    }\n}\n")
    rule = RULE if more == "RULED" else ""
    more = "" if more == "RULED" else more
    if "train " not in more:
        more += "\ntrain steps=20"
    if precision in ("amp-fp16", "apex-o2") and "scaler" not in more:
        more += '\nscaler "dynamic" init=256.0'
    environment = "" if arguments.device == "cpu" else 'environment "std:environments/cuda"\n'
    text = f"""amp 1
run "{folder.name}" seed=1 guarantee="{'portable' if arguments.device == 'cpu' else 'device'}"
{environment}data "d" {{
{data} shuffle=#false
}}
model {model if module else '"./net.kdl"'}
precision "std:precision/{precision}"{rule}
{optimizer}
{more}
"""
    (folder / "manifest.kdl").write_text(text)


def compare(folder, name, precision):
    data, model, optimizer, more, _ = MODELS[name]
    manifest(folder, precision, data, model, optimizer, more)
    command = [str(pathlib.Path(arguments.amp).resolve()), "bench", "--against", "torch", "--python", arguments.python, "--torch-mode",
               arguments.modes, "--keep-script", f"{precision}.py", "--blocks", "1", "--json"]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if answer.returncode:
        print(f"{name} {precision}: exit code {answer.returncode}\n{answer.stderr[-1500:]}", flush=True)
        return False
    against = json.loads(answer.stdout)["against"]
    passed = True
    for row in against["modes"]:
        apart, losses = row["largest_difference"], against["losses"]
        moved = abs(losses[-1] - losses[0]) / abs(losses[0])
        fine = apart is not None and apart <= BOUNDS[precision] and moved > MOVES
        passed &= fine
        first = abs(losses[0] - (row["losses"][0] or 0)) / abs(losses[0])
        print(f"{name:<22} {precision:<13} {row['mode']:<16} first {first:.1e}  all {apart if apart is None else format(apart, '.1e')}  "
              f"{losses[0]:.5f} to {losses[-1]:.5f}{'' if fine else '   NOT AS EXPECTED'}", flush=True)
    return passed


def main():
    if subprocess.run([arguments.python, "-c", "import torch"], capture_output=True).returncode:
        print(f"SKIPPED, nothing was compared: {arguments.python} has no torch", file=sys.stderr)
        return 77
    unknown = set(arguments.names) - set(MODELS)
    if unknown:
        raise SystemExit(f"none of these is known: {sorted(unknown)}; there are {', '.join(MODELS)}")
    passed, precisions = [], arguments.precisions.split(",") if arguments.precisions else [*ALL, "tf32"]
    with tempfile.TemporaryDirectory() as temporary:
        for name in arguments.names or MODELS:
            folder = pathlib.Path(arguments.keep or temporary).resolve() / name
            folder.mkdir(parents=True, exist_ok=True)
            passed += [compare(folder, name, precision) for precision in MODELS[name][4] if precision in precisions]
    print(f"{sum(passed)} of {len(passed)} as expected")
    return 0 if all(passed) else 1


sys.exit(main())
