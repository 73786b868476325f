//! The standard library: KDL modules, embedded, so that the digest of the binary fixes them.
//!
//! They are read and checked by the compiler like a user's modules; `resolve::catalogue` lists them.

macro_rules! library {
    ($($path:literal)*) => {
        /// Every module by name, with its text, sorted.
        pub const SOURCES: &[(&str, &str)] =
            &[$((concat!("std:", $path), include_str!(concat!("../../stdlib/", $path, ".kdl")))),*];
    };
}

library! {
    "environments/a100-40gb"
    "environments/a100-80gb"
    "environments/cpu"
    "environments/cuda"
    "environments/gtx-1080-ti"
    "environments/h100-80gb"
    "environments/h200"
    "environments/rtx-4090"
    "environments/t4"
    "environments/v100-16gb"
    "layers/activation"
    "layers/disentangled-block"
    "layers/encoder-block"
    "layers/resnet-stage"
    "layers/transformer-block"
    "layers/unet-block"
    "models/bert"
    "models/cnn"
    "models/deberta-v3"
    "models/gpt2"
    "models/lenet"
    "models/mlp"
    "models/resnet"
    "models/unet"
    "models/vit"
    "optimizers/adamw"
    "optimizers/sgd"
    "precision/amp-bf16"
    "precision/amp-bf16-cpu"
    "precision/amp-fp16"
    "precision/apex-o2"
    "precision/bf16"
    "precision/fp32"
    "precision/fp8-hybrid"
    "precision/tf32"
    "scalers/dynamic"
    "scalers/guarded"
    "scalers/none"
    "scalers/static"
    "schedules/constant"
    "schedules/cosine"
    "schedules/linear"
    "weights/bert-huggingface"
    "weights/gpt2-huggingface"
    "weights/resnet-torchvision"
    "weights/vit-torchvision"
}

/// The text of a module such as `std:models/mlp`.
pub fn source(name: &str) -> Option<&'static str> {
    SOURCES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The short names of a folder's modules, such as `mlp` of `models`.
pub fn names(folder: &str) -> impl Iterator<Item = &'static str> {
    SOURCES
        .iter()
        .filter_map(move |(name, _)| name.strip_prefix("std:")?.strip_prefix(folder)?.strip_prefix('/'))
}

/// A manifest to begin with; `None` for another kind. `mlp`, `cnn`, `vit` and `resnet` are over `data/digits.csv.gz`, `gpt` and
/// `bert` over tokens that are computed.
pub fn template(kind: &str) -> Option<&'static str> {
    match kind {
        "mlp" => Some(include_str!("../../stdlib/templates/mlp.kdl")),
        "cnn" => Some(include_str!("../../stdlib/templates/cnn.kdl")),
        "vit" => Some(include_str!("../../stdlib/templates/vit.kdl")),
        "resnet" => Some(include_str!("../../stdlib/templates/resnet.kdl")),
        "gpt" => Some(include_str!("../../stdlib/templates/gpt.kdl")),
        "bert" => Some(include_str!("../../stdlib/templates/bert.kdl")),
        _ => None,
    }
}
