//! The flags of Megatron-LM that say how the loss is scaled (megatron_core 0.16.1, `DynamicGradScaler`).

use super::{Imported, below_init, count, positive};
use crate::plan::{AtFloor, ScaleKnobs, Scaler, SkipRules};

/// Reads flags, of a command line or a script.
pub(super) fn scaler(text: &str) -> Result<Imported, String> {
    let flags = Flags::of(text);
    let mut notes = Vec::new();
    let imported = |scaler, notes| Imported { library: "megatron", scaler, notes };
    let skips = SkipRules { hold_rate: true, ..SkipRules::default() };
    if let Some(norm) = flags.number("--clip-grad")?.filter(|norm| *norm > 0.0) {
        notes.push(format!("the clipping is no part of the scaler: write `train clip-norm={norm:?}`"));
    }
    if let Some(scale) = flags.number("--loss-scale")? {
        notes.push("a skipped step holds the learning rate, as Megatron's training loop does".to_owned());
        return Ok(imported(Scaler::Static { scale: positive("`--loss-scale`", scale)?, skips }, notes));
    }
    if !flags.has("--fp16") {
        notes.push("`--fp16` is not there, so that nothing is scaled".to_owned());
        return Ok(imported(Scaler::None, notes));
    }
    notes.push("a skipped step holds the learning rate, as Megatron's training loop does".to_owned());
    let init =
        positive("`--initial-loss-scale`", flags.number("--initial-loss-scale")?.unwrap_or(4_294_967_296.0))?;
    let floor = positive("`--min-loss-scale`", flags.number("--min-loss-scale")?.unwrap_or(1.0))?;
    below_init(floor, init, ["`--min-loss-scale`", "`--initial-loss-scale`"])?;
    let window = count("`--loss-scale-window`", flags.number("--loss-scale-window")?.unwrap_or(1000.0))?;
    let hysteresis = count("`--hysteresis`", flags.number("--hysteresis")?.unwrap_or(2.0))?;
    let knobs = ScaleKnobs { hysteresis, at_floor: AtFloor::Hold, ..ScaleKnobs::default() };
    notes.push("at the floor the run goes on, as Megatron does; `at-floor=\"stop\"` ends it".to_owned());
    let scaler = Scaler::Dynamic { init, growth: 2.0, backoff: 0.5, interval: window, floor, knobs, skips };
    Ok(imported(scaler, notes))
}

/// Words of a command line.
struct Flags<'a>(Vec<&'a str>);

impl<'a> Flags<'a> {
    fn of(text: &'a str) -> Self {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or(""));
        let words = lines
            .flat_map(|line| line.split(|letter: char| letter.is_whitespace() || "\\\"'()".contains(letter)));
        Self(words.flat_map(|word| word.split('=')).filter(|word| !word.is_empty()).collect())
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }

    /// The number after a flag; the last one counts, as in argparse.
    fn number(&self, name: &str) -> Result<Option<f64>, String> {
        let Some(at) = self.0.iter().rposition(|word| *word == name) else { return Ok(None) };
        let text = self.0.get(at + 1).copied().unwrap_or("nothing");
        let number = text.parse::<f64>().map_err(|_| format!("found `{name} {text}`, expected a number"))?;
        Ok(Some(number))
    }
}
