//! What `amp run --probe` says: the exponents of values and gradients, whole in a file beside the record, and the ends of the
//! range in a line.

use crate::exec::exponents::{Exponents, LOWEST};
use serde_json::{Value, json};

/// The file's content: for each value its zeros, what is not finite, and a count for each exponent.
pub fn document(step: u64, scale: f32, found: &[Exponents]) -> Value {
    let values: Vec<Value> = found
        .iter()
        .map(|value| {
            let counts: serde_json::Map<String, Value> = value
                .counts
                .iter()
                .zip(LOWEST..)
                .filter(|(count, _)| **count > 0)
                .map(|(count, exponent)| (exponent.to_string(), json!(count)))
                .collect();
            json!({
                "name": value.name,
                "op": value.op,
                "layer": value.layer,
                "pass": if value.backward { "backward" } else { "forward" },
                "format": value.format.name(),
                "zeros": value.zeros,
                "not_finite": value.not_finite,
                "exponents": counts,
            })
        })
        .collect();
    json!({ "step": step, "scale": scale, "values": values })
}

/// Lines for a person: the largest value, the range of the gradients, and the scale that would fit them into f16.
pub fn lines(scale: f32, found: &[Exponents]) -> Vec<String> {
    let mut lines = Vec::new();
    let largest = |backward: bool| {
        let of_pass = found.iter().filter(move |value| value.backward == backward);
        of_pass
            .filter_map(|value| value.largest().map(|exponent| (exponent, value)))
            .max_by_key(|(exponent, _)| *exponent)
    };
    if let Some((exponent, value)) = largest(false) {
        let end = if exponent >= 15 { ", which f16 does not hold: give its layer f32" } else { "" };
        lines.push(format!("values up to 2^{exponent} (`{}`, {}){end}", value.name, value.format));
    }
    if let Some((exponent, value)) = largest(true) {
        let scale_exponent = crate::exec::exponents::exponent(scale).unwrap_or(0);
        lines.push(format!(
            "gradients up to 2^{exponent} at scale 2^{scale_exponent} (`{}`); a scale of 2^{} leaves a factor of 2 in f16",
            value.name,
            scale_exponent + 13 - exponent
        ));
        let shift = 13 - exponent;
        let lost = found.iter().filter(|value| value.backward && value.counted() > 0);
        let worst = lost.max_by(|left, right| left.lost_in_f16(shift).total_cmp(&right.lost_in_f16(shift)));
        if let Some(worst) = worst.filter(|worst| worst.lost_in_f16(shift) >= 0.01) {
            lines.push(format!(
                "at that scale f16 rounds {:.0} % of `{}` to 0",
                100.0 * worst.lost_in_f16(shift),
                worst.name
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{document, lines};
    use crate::exec::exponents::Exponents;
    use crate::graph::DType;

    fn of(name: &str, backward: bool, values: &[f32]) -> Exponents {
        let mut exponents = Exponents::new(name, "linear", "head", backward, DType::F16);
        exponents.add(values);
        exponents
    }

    #[test]
    fn the_ends_of_the_range_are_told() {
        let found = [of("y", false, &[3.0, 0.0]), of("g", true, &[8.0, 1e-7, 1e-7, 1e-7])];
        assert_eq!(
            lines(1024.0, &found),
            [
                "values up to 2^1 (`y`, f16)",
                "gradients up to 2^3 at scale 2^10 (`g`); a scale of 2^20 leaves a factor of 2 in f16",
            ]
        );
        let found = [of("y", false, &[65536.0]), of("g", true, &[4096.0, 1e-9])];
        let told = lines(1.0, &found);
        assert!(told[0].contains("does not hold"), "{told:?}");
        assert_eq!(told[2], "at that scale f16 rounds 50 % of `g` to 0");
    }

    #[test]
    fn the_file_has_a_count_for_each_exponent() {
        let document = document(3, 8.0, &[of("y", false, &[3.0, 2.0, 0.0, -0.5])]);
        assert_eq!(document["values"][0]["exponents"], serde_json::json!({ "1": 2, "-1": 1 }));
        assert_eq!(document["values"][0]["zeros"], 1);
    }
}
