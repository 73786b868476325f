//! The `fp16` block of a DeepSpeed configuration (DeepSpeed 0.19.8, `DynamicLossScaler` of ZeRO and its configuration).

use super::{Imported, below_init, count, positive};
use crate::plan::{AtFloor, Refill, ScaleKnobs, Scaler, SkipRules};
use serde_json::{Map, Value};

/// The settings that say something else than how to scale; they are told and not taken.
const ELSEWHERE: [&str; 2] = ["auto_cast", "fp16_master_weights_and_grads"];

/// Reads a configuration or its `fp16` block alone.
pub(super) fn scaler(text: &str) -> Result<Imported, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("found no JSON: {error}"))?;
    let Value::Object(all) = value else { return Err("found no JSON object".to_owned()) };
    let mut notes = Vec::new();
    let block = match all.get("fp16") {
        Some(Value::Object(block)) => block,
        Some(other) => return Err(format!("found `fp16` to be {other}, expected an object")),
        None if all.contains_key("enabled") || all.contains_key("loss_scale") => &all,
        None => return Err("found no `fp16` block".to_owned()),
    };
    if let Some(norm) = all.get("gradient_clipping").and_then(Value::as_f64).filter(|norm| *norm > 0.0) {
        notes.push(format!("the clipping is no part of the scaler: write `train clip-norm={norm:?}`"));
    }
    let imported = |scaler, notes| Imported { library: "deepspeed", scaler, notes };
    if !flag(block, "enabled", false)? {
        notes.push("`fp16` is not enabled, so that nothing is scaled".to_owned());
        return Ok(imported(Scaler::None, notes));
    }
    unknown(block, &mut notes);
    let skips = SkipRules { hold_rate: true, ..SkipRules::default() };
    notes.push("a skipped step holds the learning rate, as DeepSpeed's engine does".to_owned());
    let scale = number(block, "loss_scale", 0.0)?;
    if scale != 0.0 {
        return Ok(imported(Scaler::Static { scale: positive("`loss_scale`", scale)?, skips }, notes));
    }
    let power = number(block, "initial_scale_power", 16.0)?;
    if power.fract() != 0.0 || !(0.0..=127.0).contains(&power) {
        return Err(format!("found `initial_scale_power` {power}, expected a whole number from 0 to 127"));
    }
    // 2^power, exactly.
    let init = f32::from_bits((power as u32 + 127) << 23);
    let floor = positive("`min_loss_scale`", number(block, "min_loss_scale", 1.0)?)?;
    below_init(floor, init, ["`min_loss_scale`", "`initial_scale_power`"])?;
    let in_row = flag(block, "consecutive_hysteresis", false)?;
    let knobs = ScaleKnobs {
        hysteresis: count("`hysteresis`", number(block, "hysteresis", 2.0)?)?,
        refill: if in_row { Refill::GoodStep } else { Refill::Growth },
        late_growth: true,
        at_floor: AtFloor::HoldOnce,
        ceiling: f32::INFINITY,
    };
    let interval = count("`loss_scale_window`", number(block, "loss_scale_window", 1000.0)?)?;
    notes.push(
        "the scale grows first after one step more than the window, as DeepSpeed counts (`late-growth`)"
            .to_owned(),
    );
    Ok(imported(Scaler::Dynamic { init, growth: 2.0, backoff: 0.5, interval, floor, knobs, skips }, notes))
}

fn number(block: &Map<String, Value>, name: &str, default: f64) -> Result<f64, String> {
    match block.get(name) {
        None => Ok(default),
        Some(value) => {
            value.as_f64().ok_or_else(|| format!("found `{name}` to be {value}, expected a number"))
        }
    }
}

fn flag(block: &Map<String, Value>, name: &str, default: bool) -> Result<bool, String> {
    match block.get(name) {
        None => Ok(default),
        Some(value) => {
            value.as_bool().ok_or_else(|| format!("found `{name}` to be {value}, expected true or false"))
        }
    }
}

fn unknown(block: &Map<String, Value>, notes: &mut Vec<String>) {
    const KNOWN: [&str; 7] = [
        "enabled",
        "loss_scale",
        "initial_scale_power",
        "loss_scale_window",
        "hysteresis",
        "consecutive_hysteresis",
        "min_loss_scale",
    ];
    for name in block.keys().filter(|name| !KNOWN.contains(&name.as_str())) {
        notes.push(match ELSEWHERE.contains(&name.as_str()) {
            true => format!("`{name}` is for `precision`, and was not taken"),
            false => format!("`{name}` is not known, and was not taken"),
        });
    }
}
