//! A checkpoint under the names and layouts of another library: the inverse of the rules that `exec::initial` reads by.
//!
//! Invariant: reading what is written here by the same rules gives the checkpoint's names, shapes and bits. A tensor for which
//! no rule has such an inverse is told, and nothing is written.

use super::initial::{Layout, fits, turned};
use crate::graph::infer::text;
use crate::plan::initial::{InitialRule, renamed, with_other_beginning};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use std::collections::BTreeMap;

/// Why a checkpoint was not written under other names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportFault {
    /// The bytes are no safetensors file; the reader's reason.
    Damaged(String),
    /// Tensors that the rules cannot give another name or layout, a phrase each.
    Names(Vec<String>),
}

/// The file, and how many tensors are in it.
pub struct Exported {
    /// A safetensors file, its tensors sorted by name, without metadata but `format`, which Hugging Face's loader asks for.
    pub bytes: Vec<u8>,
    /// How many tensors it has.
    pub tensors: usize,
}

/// The tensors of a checkpoint with the names and layouts that `rules` read. Of several rules that give a name back the last
/// counts, so that a module lists the spellings of older files first.
///
/// # Errors
/// [`ExportFault`]: the checkpoint is damaged, or has tensors that no rule leads to.
pub fn export(rules: &[InitialRule], checkpoint: &[u8]) -> Result<Exported, ExportFault> {
    let file =
        SafeTensors::deserialize(checkpoint).map_err(|error| ExportFault::Damaged(error.to_string()))?;
    let mut found: BTreeMap<String, (String, Vec<usize>, Vec<u8>)> = BTreeMap::new();
    let mut faults = Vec::new();
    let mut tensors = file.tensors();
    tensors.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, tensor) in &tensors {
        let Some(wanted) = name_in_file(rules, name) else {
            faults.push(format!("`{name}` is reached by no `map`"));
            continue;
        };
        match laid_out(tensor, Layout::of(rules, &wanted)) {
            Ok((shape, bytes)) => {
                if let Some((other, ..)) = found.insert(wanted.clone(), (name.clone(), shape, bytes)) {
                    faults.push(format!("`{name}` and `{other}` would both be called `{wanted}`"));
                }
            }
            Err(text) => faults.push(format!("`{name}` {text}")),
        }
    }
    if !faults.is_empty() {
        return Err(ExportFault::Names(faults));
    }
    let damaged = |error: safetensors::SafeTensorError| ExportFault::Damaged(error.to_string());
    let mut views = BTreeMap::new();
    for (name, (_, shape, bytes)) in &found {
        views.insert(name, TensorView::new(Dtype::F32, shape.clone(), bytes).map_err(damaged)?);
    }
    let metadata = [("format".to_owned(), "pt".to_owned())].into_iter().collect();
    let bytes = safetensors::serialize(&views, Some(metadata)).map_err(damaged)?;
    Ok(Exported { bytes, tensors: found.len() })
}

/// The name that the rules read as the name of a parameter.
fn name_in_file(rules: &[InitialRule], name: &str) -> Option<String> {
    let ignored =
        |file: &str| rules.iter().any(|rule| matches!(rule, InitialRule::Ignore(_)) && fits(rule, file));
    rules.iter().rev().find_map(|rule| {
        let InitialRule::Map { from, to } = rule else { return None };
        let file = with_other_beginning(to, from, name)?;
        (renamed(rules, &file) == name && !ignored(&file)).then_some(file)
    })
}

/// Shape and bytes of a tensor in the layout of the file; what is wrong as a phrase otherwise.
fn laid_out(tensor: &TensorView<'_>, layout: Layout) -> Result<(Vec<usize>, Vec<u8>), String> {
    let mut shape = tensor.shape().to_vec();
    if tensor.dtype() != Dtype::F32 {
        return Err(format!("has numbers of kind {}, and checkpoints have f32", tensor.dtype()));
    }
    let mut bytes = tensor.data().to_vec();
    if layout.transposed {
        let [rows, columns] = *shape.as_slice() else {
            return Err(format!("is {}, and only matrices can be transposed", text(&shape)));
        };
        let number = |four: &[u8]| f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        let numbers: Vec<f32> = bytes.chunks_exact(4).map(number).collect();
        bytes = turned(&numbers, rows, columns).into_iter().flat_map(f32::to_le_bytes).collect();
        shape.reverse();
    }
    if layout.leading_axis {
        shape.insert(0, 1);
    }
    Ok((shape, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::SourceMap;
    use crate::resolve::weight_names;
    use crate::world::Memory;
    use camino::Utf8Path;

    /// The rules of a module of the library.
    fn rules(name: &str) -> Vec<InitialRule> {
        let mut sources = SourceMap::default();
        weight_names(name, Utf8Path::new(""), &Memory::default(), &mut sources).expect("a module")
    }

    fn file(tensors: &[(&str, Vec<usize>, Vec<f32>)]) -> Vec<u8> {
        let bytes: Vec<Vec<u8>> = tensors
            .iter()
            .map(|tensor| tensor.2.iter().flat_map(|value| value.to_le_bytes()).collect())
            .collect();
        let views: BTreeMap<&str, TensorView<'_>> = tensors
            .iter()
            .zip(&bytes)
            .map(|((name, shape, _), bytes)| {
                (*name, TensorView::new(Dtype::F32, shape.clone(), bytes).expect("a tensor"))
            })
            .collect();
        safetensors::serialize(&views, None).expect("a file")
    }

    #[test]
    fn names_and_layouts_of_the_library_are_those_of_hugging_face_and_torchvision() {
        let called = |module: &str, name: &str| name_in_file(&rules(module), name);
        let cases = [
            ("gpt2-huggingface", "blocks.11.block.qkv.weight", "transformer.h.11.attn.c_attn.weight"),
            ("gpt2-huggingface", "blocks.0.block.down.bias", "transformer.h.0.mlp.c_proj.bias"),
            ("gpt2-huggingface", "tokens.weight", "transformer.wte.weight"),
            (
                "bert-huggingface",
                "encoder.3.block.norm1.weight",
                "bert.encoder.layer.3.attention.output.LayerNorm.weight",
            ),
            (
                "bert-huggingface",
                "encoder.3.block.attention.key.bias",
                "bert.encoder.layer.3.attention.self.key.bias",
            ),
            ("bert-huggingface", "decoder.bias", "cls.predictions.bias"),
            ("vit-torchvision", "class_token.weight", "class_token"),
            (
                "vit-torchvision",
                "encoder.7.block.qkv.weight",
                "encoder.layers.encoder_layer_7.self_attention.in_proj_weight",
            ),
            ("vit-torchvision", "encoder.7.block.up.bias", "encoder.layers.encoder_layer_7.mlp.0.bias"),
            (
                "resnet-torchvision",
                "layer2.0.downsample.norm.running_var",
                "layer2.0.downsample.1.running_var",
            ),
            ("resnet-torchvision", "layer4.2.conv3.weight", "layer4.2.conv3.weight"),
        ];
        for (module, name, expected) in cases {
            assert_eq!(called(module, name).as_deref(), Some(expected), "{module}");
        }
        assert_eq!(called("gpt2-huggingface", "layer4.2.conv3.weight"), None);
    }

    #[test]
    fn matrices_are_turned_and_leading_axes_put_back() {
        let turning = [
            InitialRule::Map { from: "w".to_owned(), to: "up.weight".to_owned() },
            InitialRule::Map { from: "c".to_owned(), to: "token".to_owned() },
            InitialRule::Transpose("w".to_owned()),
            InitialRule::LeadingAxis("c".to_owned()),
        ];
        let numbers = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let checkpoint = file(&[("up.weight", vec![2, 3], numbers), ("token", vec![2], vec![7.0, 8.0])]);
        let exported = export(&turning, &checkpoint).unwrap_or_else(|fault| panic!("{fault:?}"));
        assert_eq!(exported.tensors, 2);
        let read = SafeTensors::deserialize(&exported.bytes).expect("a file");
        let (w, c) = (read.tensor("w").expect("w"), read.tensor("c").expect("c"));
        assert_eq!((w.shape(), c.shape()), (&[3, 2][..], &[1, 2][..]));
        let expected: Vec<u8> =
            [1.0_f32, 4.0, 2.0, 5.0, 3.0, 6.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(w.data(), expected);
    }

    #[test]
    fn what_has_no_inverse_is_refused_and_named() {
        let map = |from: &str, to: &str| InitialRule::Map { from: from.to_owned(), to: to.to_owned() };
        let refused = |rules: &[InitialRule]| match export(rules, &file(&[("a.0.w", vec![1], vec![1.0])])) {
            Err(ExportFault::Names(names)) => names.join("; "),
            Err(fault) => panic!("{fault:?}"),
            Ok(_) => "nothing".to_owned(),
        };
        assert_eq!(refused(&[map("b", "a")]), "nothing");
        assert_eq!(refused(&[]), "`a.0.w` is reached by no `map`");
        // Which name stood in the brace cannot be told any more.
        assert_eq!(refused(&[map("{which}.x", "a")]), "`a.0.w` is reached by no `map`");
        // Reading would take the first rule, and give another name.
        assert_eq!(refused(&[map("b", "c"), map("b", "a")]), "`a.0.w` is reached by no `map`");
        assert_eq!(
            refused(&[map("b", "a"), InitialRule::Ignore("b.**".to_owned())]),
            "`a.0.w` is reached by no `map`"
        );
        let turned = [map("b", "a"), InitialRule::Transpose("b.0.w".to_owned())];
        assert_eq!(refused(&turned), "`a.0.w` is [1], and only matrices can be transposed");
        assert!(matches!(export(&[], b"no file"), Err(ExportFault::Damaged(_))));
    }
}
