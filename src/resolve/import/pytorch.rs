//! A call of PyTorch's `GradScaler` (torch 2.15.0), as it stands in a program: `torch.amp.GradScaler("cuda", init_scale=2**12)`.

use super::{Imported, positive};
use crate::plan::{AtFloor, ScaleKnobs, Scaler, SkipRules};

/// The smallest f32 above 0: PyTorch has no floor, and at 0 its parameters are lost.
const LEAST: f32 = f32::from_bits(1);

/// Reads the first call in a text.
pub(super) fn scaler(text: &str) -> Result<Imported, String> {
    let at = text.find("GradScaler(").ok_or("found no call `GradScaler(…)`")?;
    let sharded = text[..at].ends_with("Sharded");
    let arguments = arguments(&text[at + "GradScaler(".len()..])?;
    let mut values = Values { sharded, ..Values::default() };
    let mut position = 0;
    for argument in &arguments {
        match argument.split_once('=') {
            Some((name, value)) => values.take(name.trim(), value.trim())?,
            None => {
                let is_device = argument.starts_with(['"', '\'']);
                // The older class of torch.cuda.amp begins with the scale.
                if position == 0 && !is_device {
                    position = 1;
                }
                let names = if sharded { SHARDED } else { NAMES };
                let name =
                    names.get(position).ok_or_else(|| format!("found one argument too many: {argument}"))?;
                values.take(name, argument)?;
                position += 1;
            }
        }
    }
    values.scaler()
}

const NAMES: [&str; 6] =
    ["device", "init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled"];
const SHARDED: [&str; 6] =
    ["device", "init_scale", "backoff_factor", "growth_factor", "growth_interval", "enabled"];

struct Values {
    init: f64,
    growth: f64,
    backoff: f64,
    interval: f64,
    enabled: bool,
    sharded: bool,
}

impl Default for Values {
    fn default() -> Self {
        Self { init: 65536.0, growth: 2.0, backoff: 0.5, interval: 2000.0, enabled: true, sharded: false }
    }
}

impl Values {
    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        let target = match name {
            "device" | "process_group" => return Ok(()),
            "enabled" => {
                self.enabled = match value {
                    "True" => true,
                    "False" => false,
                    _ => return Err(format!("found `enabled={value}`, expected True or False")),
                };
                return Ok(());
            }
            "init_scale" => &mut self.init,
            "growth_factor" => &mut self.growth,
            "backoff_factor" => &mut self.backoff,
            "growth_interval" => &mut self.interval,
            _ => return Err(format!("found the argument `{name}`, which GradScaler does not take")),
        };
        *target = number(value).ok_or_else(|| format!("found `{name}={value}`, expected a number"))?;
        Ok(())
    }

    fn scaler(self) -> Result<Imported, String> {
        let Self { init, growth, backoff, interval, enabled, sharded } = self;
        let mut notes = Vec::new();
        let imported = |scaler, notes| Ok(Imported { library: "pytorch", scaler, notes });
        if !enabled {
            notes.push("`enabled=False`, so that nothing is scaled".to_owned());
            return imported(Scaler::None, notes);
        }
        if growth <= 1.0 || !growth.is_finite() {
            return Err(format!("found growth_factor {growth}, expected a number above 1"));
        }
        if backoff <= 0.0 || backoff >= 1.0 {
            return Err(format!("found backoff_factor {backoff}, expected a number between 0 and 1"));
        }
        let interval = if interval < 1.0 {
            notes.push(format!("with growth_interval {interval} the scale never grows"));
            u32::MAX
        } else {
            super::count("growth_interval", interval)?
        };
        if sharded {
            notes.push("all-reducing the check over ranks has no place in a run on one device".to_owned());
        }
        notes.push("PyTorch has no floor, so the run stops only where the scale would be 0; `floor=1.0` stops it earlier".to_owned());
        let init = positive("init_scale", init)?;
        let knobs = ScaleKnobs { at_floor: AtFloor::Stop, ..ScaleKnobs::default() };
        let skips = SkipRules::default();
        imported(Scaler::Dynamic { init, growth, backoff, interval, floor: LEAST, knobs, skips }, notes)
    }
}

/// The arguments up to the closing bracket, cut at their commas.
fn arguments(text: &str) -> Result<Vec<String>, String> {
    let (mut depth, mut quote, mut found, mut current) = (0_u32, None, Vec::new(), String::new());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) => {
                quote = (letter != open).then_some(open);
                current.push(letter);
            }
            (None, '"' | '\'') => {
                quote = Some(letter);
                current.push(letter);
            }
            (None, '#') => {
                let _ = letters.find(|letter| *letter == '\n');
            }
            (None, ')') if depth == 0 => {
                found.push(current);
                let trimmed = found.iter().map(|argument| argument.trim().to_owned());
                return Ok(trimmed.filter(|argument| !argument.is_empty()).collect());
            }
            (None, ',') if depth == 0 => found.push(std::mem::take(&mut current)),
            (None, _) => {
                depth += u32::from("([{".contains(letter));
                depth = depth.saturating_sub(u32::from(")]}".contains(letter)));
                current.push(letter);
            }
        }
    }
    Err("found no `)` at the end of `GradScaler(`".to_owned())
}

/// A number of Python: `65536`, `2.0**16`, `2 ** 16`, `1e4`, `-1`, `4_096`.
fn number(text: &str) -> Option<f64> {
    let text = text.replace('_', "");
    let plain = |text: &str| text.trim().trim_matches(['(', ')']).trim().parse::<f64>().ok();
    match text.split_once("**") {
        None => plain(&text),
        Some((base, power)) => {
            let (base, power) = (plain(base)?, plain(power)?);
            let count =
                (power.fract() == 0.0 && (-200.0..=200.0).contains(&power)).then_some(power as i32)?;
            // By repeated products, exact for powers of two.
            let product = (0..count.unsigned_abs()).fold(1.0, |product, _| product * base);
            Some(if count < 0 { 1.0 / product } else { product })
        }
    }
}
