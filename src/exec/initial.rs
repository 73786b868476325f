//! First values of parameters from a file of tensors: names mapped, shapes compared, numbers widened exactly.
//!
//! Everything of the model is given or listed as missing, every tensor of the file is used or listed as ignored. All that
//! does not match is told at once. The digest is of what the parameters become, so that neither the file's layout, nor its
//! names, nor the spelling of the rules takes part in it.

use super::backend::Backend;
use super::fault::ExecFault;
use crate::arithmetic::half::{Format, round};
use crate::arithmetic::half::{bf16_to_f32, f16_to_f32};
use crate::diag::number::count;
use crate::diag::{Diagnostic, codes, nearest};
use crate::digest::{ContentHash as _, Digest, Hasher};
use crate::graph::infer::text;
use crate::graph::{Graph, glob, places};
use crate::plan::Plan;
use crate::plan::initial::{InitialRule, InitialWeights, begins, renamed};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use std::collections::BTreeMap;

/// First values by the name of the parameter or buffer, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct FirstValues {
    /// The values.
    pub values: BTreeMap<String, Vec<f32>>,
    /// The digest of names, shapes and values.
    pub digest: Digest,
}

/// Most names in one message.
const LISTED: usize = 20;

impl FirstValues {
    /// Puts the values into an engine that has not begun; those of a statistic into its pending copy too.
    ///
    /// # Errors
    /// The device's own.
    pub fn apply(&self, engine: &mut dyn Backend) -> Result<(), ExecFault> {
        for (name, values) in &self.values {
            let format = engine.step_graph(0).map_or(Format::F32, |step| step.stored_format(name));
            if format == Format::F32 {
                engine.set_cell(name, values)?;
            } else {
                let rounded: Vec<f32> = values.iter().map(|value| round(format, *value)).collect();
                engine.set_cell(name, &rounded)?;
            }
            engine.set_cell(&format!("{name}.pending"), values)?;
        }
        Ok(())
    }
}

/// Reads the file that a plan begins from; `None` when it begins from none.
///
/// # Errors
/// AMP0728 for a file that is damaged; AMP0790 to AMP0792 for all that does not match, together.
pub fn load(plan: &Plan, graph: &Graph, bytes: &[u8]) -> Result<Option<FirstValues>, Vec<Diagnostic>> {
    let Some(initial) = &plan.model.initial else { return Ok(None) };
    let file = SafeTensors::deserialize(bytes).map_err(|error| {
        let message =
            format!("found damaged safetensors in `{}` ({error}), expected a whole file", initial.path);
        vec![located(plan, Diagnostic::error(codes::DATA_SAFETENSORS, message), None, "read from here")]
    })?;
    let mut matching = Matching { plan, initial, targets: targets(graph), faults: Vec::new() };
    matching.run(&file).map(Some)
}

/// The digest of all that decides whether a file of these bytes fits, but for its bytes: path, rules, and what the model has.
/// `None` for a plan that begins from no file.
pub fn question(plan: &Plan, graph: &Graph) -> Option<Digest> {
    let initial = plan.model.initial.as_ref()?;
    let mut hasher = Hasher::new();
    hasher.tag("amp.known.initial.v1");
    initial.path.as_str().content_hash(&mut hasher);
    initial.rules.iter().map(InitialRule::text).collect::<Vec<_>>().content_hash(&mut hasher);
    let targets = targets(graph);
    targets.len().content_hash(&mut hasher);
    for (name, shape) in targets {
        name.content_hash(&mut hasher);
        shape.content_hash(&mut hasher);
    }
    Some(hasher.finish())
}

/// Shapes of everything in a model that has first values, by name.
fn targets(graph: &Graph) -> BTreeMap<&str, &[usize]> {
    let parameters = graph.parameters.iter().map(|parameter| parameter.value);
    let buffers = graph.buffers.iter().map(|buffer| buffer.value);
    let values = parameters.chain(buffers).map(|id| graph.value(id));
    values.map(|value| (value.name.as_str(), value.shape.as_slice())).collect()
}

fn located(plan: &Plan, fault: Diagnostic, rule: Option<usize>, label: &str) -> Diagnostic {
    let path = rule.map_or("model.initial".to_owned(), |rule| format!("model.initial.{rule}"));
    places::at(fault, &plan.origins, &path, label)
}

struct Matching<'a> {
    plan: &'a Plan,
    initial: &'a InitialWeights,
    targets: BTreeMap<&'a str, &'a [usize]>,
    faults: Vec<Diagnostic>,
}

impl Matching<'_> {
    fn run(&mut self, file: &SafeTensors<'_>) -> Result<FirstValues, Vec<Diagnostic>> {
        let mut tensors = file.tensors();
        tensors.sort_by(|(left, _), (right, _)| left.cmp(right));
        self.idle_rules(&tensors);
        let mut found: BTreeMap<&str, (String, Vec<f32>)> = BTreeMap::new();
        let (mut strange, mut twice, mut unlike) = (Vec::new(), Vec::new(), Vec::new());
        for (name, tensor) in &tensors {
            if self.any(name, |rule| matches!(rule, InitialRule::Ignore(_))) {
                continue;
            }
            let wanted = renamed(&self.initial.rules, name);
            let Some((target, shape)) = self.targets.get_key_value(wanted.as_str()) else {
                strange.push(self.strange(name, &wanted));
                continue;
            };
            let layout = Layout::of(&self.initial.rules, name);
            match values(tensor, shape, layout) {
                Ok(values) => {
                    if let Some((other, _)) = found.insert(target, (name.clone(), values)) {
                        twice.push(format!("`{target}` is given by `{other}` and by `{name}`"));
                    }
                }
                Err(text) => {
                    unlike.push(format!("`{target}` {text}"));
                    found.insert(target, (name.clone(), Vec::new()));
                }
            }
        }
        let absent = self.absent(&found, &tensors);
        let path = &self.initial.path;
        let texts = [
            (
                codes::INITIAL_NAMES,
                strange,
                [
                    format!("tensor of `{path}` belongs to no parameter"),
                    format!("tensors of `{path}` belong to no parameter"),
                ],
                IGNORE,
            ),
            (
                codes::INITIAL_NAMES,
                absent,
                [format!("parameter is not in `{path}`"), format!("parameters are not in `{path}`")],
                MISSING,
            ),
            (
                codes::INITIAL_NAMES,
                twice,
                ["parameter is given twice", "parameters are given twice"].map(str::to_owned),
                "name one with `ignore`",
            ),
            (
                codes::INITIAL_SHAPE,
                unlike,
                [format!("tensor of `{path}` does not fit"), format!("tensors of `{path}` do not fit")],
                FIT,
            ),
        ];
        for (code, list, [one, several], help) in texts {
            let what = if list.len() == 1 { one } else { several };
            self.report(code, &list, &what, help);
        }
        if !self.faults.is_empty() {
            return Err(std::mem::take(&mut self.faults));
        }
        let values = found.into_iter().map(|(target, (_, values))| (target.to_owned(), values)).collect();
        Ok(FirstValues { digest: self.digest(&values), values })
    }

    fn digest(&self, values: &BTreeMap<String, Vec<f32>>) -> Digest {
        let mut hasher = Hasher::new();
        hasher.tag("amp.initial.v1");
        values.len().content_hash(&mut hasher);
        for (name, values) in values {
            name.content_hash(&mut hasher);
            self.targets.get(name.as_str()).copied().unwrap_or_default().content_hash(&mut hasher);
            values.iter().for_each(|value| hasher.raw(&value.to_bits().to_le_bytes()));
        }
        hasher.finish()
    }

    /// Whether a rule of a sort has a glob that matches a name.
    fn any(&self, name: &str, sort: impl Fn(&InitialRule) -> bool) -> bool {
        self.initial.rules.iter().any(|rule| sort(rule) && fits(rule, name))
    }

    /// Reports rules that reach nothing.
    fn idle_rules(&mut self, tensors: &[(String, TensorView<'_>)]) {
        for (index, rule) in self.initial.rules.iter().take(self.initial.own).enumerate() {
            let used = match rule {
                InitialRule::Missing(_) => self.targets.keys().any(|name| fits(rule, name)),
                InitialRule::Map { from, .. } => tensors.iter().any(|(name, _)| begins(from, name)),
                _ => tensors.iter().any(|(name, _)| fits(rule, name)),
            };
            if !used {
                let message = format!("the rule `{}` reaches nothing", rule.text());
                let fault = Diagnostic::error(codes::INITIAL_RULE, message);
                let fault = located(self.plan, fault, Some(index), "reaches nothing");
                self.faults.push(fault.help("delete it, or mend its spelling"));
            }
        }
    }

    fn strange(&self, name: &str, wanted: &str) -> String {
        let called = if name == wanted { String::new() } else { format!(" (mapped to `{wanted}`)") };
        match nearest(wanted, self.targets.keys().copied()) {
            Some(near) => format!("`{name}`{called}; the nearest is `{near}`"),
            None => format!("`{name}`{called}"),
        }
    }

    /// Parameters that the file does not give and that no `missing` names; a `missing` one that it gives is told too.
    fn absent(
        &mut self,
        found: &BTreeMap<&str, (String, Vec<f32>)>,
        tensors: &[(String, TensorView<'_>)],
    ) -> Vec<String> {
        let names: Vec<String> = tensors.iter().map(|(name, _)| renamed(&self.initial.rules, name)).collect();
        let mut absent = Vec::new();
        for target in self.targets.keys() {
            let excused = self.any(target, |rule| matches!(rule, InitialRule::Missing(_)));
            match (found.contains_key(target), excused) {
                (false, false) => absent.push(match nearest(target, names.iter().map(String::as_str)) {
                    Some(near) => format!("`{target}`; the nearest is `{near}`"),
                    None => format!("`{target}`"),
                }),
                (true, true) => absent.push(format!("`{target}` is listed as missing, and the file has it")),
                _ => {}
            }
        }
        absent
    }

    fn report(&mut self, code: crate::diag::Code, list: &[String], what: &str, help: &str) {
        if list.is_empty() {
            return;
        }
        let more = list.len().saturating_sub(LISTED);
        let mut message = format!("{} {what}:", count(list.len() as u64));
        for line in list.iter().take(LISTED) {
            message.push_str(&format!("\n  {line}"));
        }
        if more > 0 {
            message.push_str(&format!("\n  and {more} more"));
        }
        let fault = located(self.plan, Diagnostic::error(code, message), None, "read from here");
        self.faults.push(fault.help(help));
    }
}

const IGNORE: &str = "write `map \"from\" \"to\"` for another name, or `ignore \"…\"` for what is not used";
const MISSING: &str =
    "write `map \"from\" \"to\"` for another name, or `missing \"…\"` for what begins as its layer says";
const FIT: &str = "`transpose \"…\"` turns matrices; numbers are f32, f16 or bf16, and finite";

pub(super) fn fits(rule: &InitialRule, name: &str) -> bool {
    match rule {
        InitialRule::Ignore(pattern)
        | InitialRule::Transpose(pattern)
        | InitialRule::LeadingAxis(pattern)
        | InitialRule::Missing(pattern) => glob::matches(pattern, name),
        InitialRule::Map { .. } => false,
    }
}

/// How a tensor lies in a file, as far as the rules say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Its two axes stand in the other order.
    pub transposed: bool,
    /// It has an axis of length 1 before those of the model.
    pub leading_axis: bool,
}

impl Layout {
    /// The layout of a tensor that a file calls so.
    pub fn of(rules: &[InitialRule], name: &str) -> Self {
        let any = |sort: fn(&InitialRule) -> bool| rules.iter().any(|rule| sort(rule) && fits(rule, name));
        Self {
            transposed: any(|rule| matches!(rule, InitialRule::Transpose(_))),
            leading_axis: any(|rule| matches!(rule, InitialRule::LeadingAxis(_))),
        }
    }
}

/// The numbers of a tensor in the shape that is wanted; what is wrong as a phrase otherwise.
fn values(tensor: &TensorView<'_>, wanted: &[usize], layout: Layout) -> Result<Vec<f32>, String> {
    let mut shape = tensor.shape().to_vec();
    if layout.leading_axis {
        match shape.split_first() {
            Some((1, rest)) => shape = rest.to_vec(),
            _ => return Err(format!("is {}, and has no first axis of length 1", text(&shape))),
        }
    }
    let transpose = layout.transposed;
    if transpose {
        if shape.len() != 2 {
            return Err(format!("is {}, and only matrices can be transposed", text(&shape)));
        }
        shape.reverse();
    }
    if shape != wanted {
        return Err(format!("is {} in the file, and {} in the model", text(&shape), text(wanted)));
    }
    let bytes = tensor.data();
    let half = |widen: fn(u16) -> f32| {
        bytes.chunks_exact(2).map(|pair| widen(u16::from_le_bytes([pair[0], pair[1]]))).collect::<Vec<f32>>()
    };
    let numbers = match tensor.dtype() {
        Dtype::F16 => half(f16_to_f32),
        Dtype::BF16 => half(bf16_to_f32),
        Dtype::F32 => bytes
            .chunks_exact(4)
            .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
            .collect(),
        other => return Err(format!("has numbers of kind {other}, and f32, f16 or bf16 are expected")),
    };
    if let Some(index) = numbers.iter().position(|number| !number.is_finite()) {
        return Err(format!("is not finite at element {index}"));
    }
    match (transpose, wanted) {
        (true, [rows, columns]) => Ok(turned(&numbers, *columns, *rows)),
        _ => Ok(numbers),
    }
}

/// A matrix of so many rows and columns with its axes in the other order.
pub(super) fn turned(numbers: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..rows * columns).map(|at| numbers[at % rows * columns + at / rows]).collect()
}

#[cfg(test)]
mod tests;
