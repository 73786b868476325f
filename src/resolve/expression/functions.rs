//! The functions of expressions: what a size needs beyond `+ - * /`.
//!
//! Each is exact or rounded once (`sqrt` and the conversions), so that a model is the same on every machine.

use super::super::check::suggestion;
use super::evaluator::{Evaluated, Evaluator};
use super::{Fault, Sort, Typed, real};
use crate::diag::number::counted;

/// The functions, as a person writes them, and what each gives.
pub(crate) const FUNCTIONS: &[(&str, &str)] = &[
    ("min(a, b)", "the smaller one; of two or more"),
    ("max(a, b)", "the larger one; of two or more"),
    ("floor-divide(a, b)", "the quotient of whole numbers, rounded down"),
    ("ceil-divide(a, b)", "the quotient of whole numbers, rounded up"),
    ("round-up(a, b)", "the smallest multiple of b that is at least a"),
    ("round-down(a, b)", "the largest multiple of b that is at most a"),
    ("power(a, n)", "a multiplied by itself, n times; n is a whole number"),
    ("abs(a)", "without its sign"),
    ("sqrt(a)", "the square root, a number"),
    ("floor(a)", "the largest whole number that is at most a"),
    ("ceil(a)", "the smallest whole number that is at least a"),
    ("number(a)", "a whole number as a number"),
    ("length(list)", "how many items a list or a shape has"),
    ("sum(list)", "the sum of the items, from the left"),
    ("product(list)", "the product of the items, from the left"),
];

/// Largest exponent of `power`; beyond it nothing but 0, 1 and -1 stays in 64 bits, and numbers near 1 are of no use.
const MAX_EXPONENT: i64 = 1024;

fn name_of(signature: &str) -> &str {
    signature.split('(').next().unwrap_or(signature)
}

/// Calls a function; `start..end` is its name.
pub(super) fn call(
    evaluator: &Evaluator<'_>,
    name: &str,
    arguments: Vec<Typed>,
    start: usize,
    end: usize,
) -> Evaluated {
    let Some((signature, _)) = FUNCTIONS.iter().find(|(signature, _)| name_of(signature) == name) else {
        let known: Vec<&str> = FUNCTIONS.iter().map(|(signature, _)| name_of(signature)).collect();
        let (message, help) = (format!("`{name}` is no function"), Some(suggestion(name, &known)));
        return Err(Fault { sort: Sort::Syntax, message, start, end, help });
    };
    let wanted = signature.matches(',').count() + 1;
    let many = matches!(name, "min" | "max");
    if arguments.len() != wanted && !(many && arguments.len() > wanted) {
        let found = arguments.len();
        let message = format!("`{signature}` has {}", counted(found, "value"));
        let help = Some(if many { "write two or more values".to_owned() } else { format!("write {wanted}") });
        let fault = evaluator.fault(Sort::Syntax, start, message, None);
        return Err(Fault { help, ..fault });
    }
    if arguments.contains(&Typed::Unknown) {
        return Ok(Typed::Unknown);
    }
    let call = Call { evaluator, name, start };
    match arguments.as_slice() {
        [first, rest @ ..] if many => {
            rest.iter().try_fold(first.clone(), |left, right| call.extreme(&left, right))
        }
        [Typed::List(items)] => call.list(items),
        [a] => call.one(a),
        [Typed::Integer(a), Typed::Integer(b)] if name != "power" => call.whole(*a, *b),
        [a, Typed::Integer(n)] if name == "power" => call.power(a, *n),
        [a, b] => Err(call.refused(&format!("{} and {}", a.describe(), b.describe()))),
        _ => Ok(Typed::Unknown),
    }
}

struct Call<'a, 'b> {
    evaluator: &'a Evaluator<'b>,
    name: &'a str,
    start: usize,
}

impl Call<'_, '_> {
    fn refused(&self, found: &str) -> Fault {
        let message = format!("`{}` does not take {found}", self.name);
        self.evaluator.fault(Sort::Type, self.start, message, None)
    }

    fn too_large(&self) -> Evaluated {
        self.evaluator.no_value(self.start, "the result is too large for a whole number", None)
    }

    fn integer(&self, value: Option<i64>) -> Evaluated {
        value.map_or_else(|| self.too_large(), |value| Ok(Typed::Integer(value)))
    }

    fn extreme(&self, left: &Typed, right: &Typed) -> Evaluated {
        let smaller = self.name == "min";
        match (left, right) {
            (Typed::Integer(a), Typed::Integer(b)) => {
                Ok(Typed::Integer(if smaller { *a.min(b) } else { *a.max(b) }))
            }
            _ => match (real(left), real(right)) {
                (Some(a), Some(b)) => Ok(Typed::Real(if smaller { a.min(b) } else { a.max(b) })),
                _ => self.evaluator.mixed(self.start, self.name, left, right),
            },
        }
    }

    fn list(&self, items: &[Typed]) -> Evaluated {
        let operator = match self.name {
            "length" => return self.integer(i64::try_from(items.len()).ok()),
            "sum" => "+",
            "product" => "*",
            _ => return Err(self.refused("a list")),
        };
        let neutral = Typed::Integer(i64::from(operator == "*"));
        let Some((first, rest)) = items.split_first() else { return Ok(neutral) };
        rest.iter().try_fold(first.clone(), |left, right| {
            self.evaluator.arithmetic(self.start, operator, &left, right)
        })
    }

    fn one(&self, value: &Typed) -> Evaluated {
        match (self.name, value, real(value)) {
            ("abs", Typed::Integer(value), _) => self.integer(value.checked_abs()),
            ("floor" | "ceil", Typed::Integer(value), _) => Ok(Typed::Integer(*value)),
            ("abs", _, Some(value)) => Ok(Typed::Real(value.abs())),
            ("number", _, Some(value)) => Ok(Typed::Real(value)),
            ("sqrt", _, Some(value)) if value >= 0.0 => Ok(Typed::Real(value.sqrt())),
            ("sqrt", _, Some(_)) => {
                self.evaluator.no_value(self.start, "a negative number has no square root", None)
            }
            ("floor" | "ceil", _, Some(value)) => {
                let value = if self.name == "floor" { value.floor() } else { value.ceil() };
                // Every f64 in this range is a whole number that fits.
                let fits = (-9.2e18..=9.2e18).contains(&value);
                self.integer(fits.then_some(value as i64))
            }
            _ => Err(self.refused(value.describe())),
        }
    }

    fn whole(&self, a: i64, b: i64) -> Evaluated {
        if b <= 0 {
            let message = format!("`{}` divides by {b}, and needs a divisor above 0", self.name);
            return self.evaluator.no_value(self.start, message, None);
        }
        let down = a.div_euclid(b);
        let up = if a.rem_euclid(b) == 0 { Some(down) } else { down.checked_add(1) };
        self.integer(match self.name {
            "floor-divide" => Some(down),
            "ceil-divide" => up,
            "round-down" => down.checked_mul(b),
            _ => up.and_then(|up| up.checked_mul(b)),
        })
    }

    /// By repeated multiplication from the left, so that the rounding of numbers is declared.
    fn power(&self, base: &Typed, exponent: i64) -> Evaluated {
        if !(0..=MAX_EXPONENT).contains(&exponent) {
            let message = format!("the exponent {exponent} is not between 0 and {MAX_EXPONENT}");
            return self.evaluator.no_value(self.start, message, None);
        }
        let one = if matches!(base, Typed::Integer(_)) { Typed::Integer(1) } else { Typed::Real(1.0) };
        if real(base).is_none() {
            return Err(self.refused(base.describe()));
        }
        let product = (0..exponent)
            .try_fold(one, |product, _| self.evaluator.arithmetic(self.start, "*", &product, base));
        // The products on the way are nothing that the writer wrote.
        product.map_err(|fault| match (fault.sort, base) {
            (Sort::Arithmetic, Typed::Integer(whole)) => {
                let message = format!("power({whole}, {exponent}) is too large for a whole number");
                Fault { message, ..fault }
            }
            _ => fault,
        })
    }
}
