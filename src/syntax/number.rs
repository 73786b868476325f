//! Numbers from their lexeme to the declared type, rounded once.

use super::tree::Number;

/// Why a number is not of the declared type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberFault {
    /// It has a fraction or an exponent where a whole number is expected; the whole number it equals, if there is one.
    NotWhole(Option<i128>),
    /// Too large for the type.
    TooLarge,
    /// Not zero, and nearest to zero in the type.
    TooSmall,
}

impl Number {
    /// A number spelled as its shortest decimal.
    pub fn from_integer(value: i128) -> Self {
        Self { lexeme: value.to_string() }
    }

    /// A number spelled as the shortest decimal that reads back the same; `value` is finite.
    pub fn from_f64(value: f64) -> Self {
        Self { lexeme: format!("{value:?}") }
    }

    /// True when the spelling has neither fraction nor exponent.
    pub fn is_whole(&self) -> bool {
        self.radix().is_some() || !self.lexeme.contains(['.', 'e', 'E'])
    }

    /// The value as an integer.
    ///
    /// # Errors
    /// [`NumberFault::NotWhole`] for a fraction or an exponent, [`NumberFault::TooLarge`] beyond 128 bits.
    pub fn integer(&self) -> Result<i128, NumberFault> {
        if !self.is_whole() {
            let value = self.f64().ok();
            // 2^53: below it every f64 integer is the only integer that its spelling can mean.
            let whole = value.filter(|value| value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0);
            return Err(NumberFault::NotWhole(whole.map(|value| value as i128)));
        }
        let digits = self.plain();
        match self.radix() {
            None => digits.parse().map_err(|_| NumberFault::TooLarge),
            Some(radix) => {
                let (sign, digits) = match digits.strip_prefix('-') {
                    Some(rest) => ("-", rest),
                    None => ("", digits.strip_prefix('+').unwrap_or(&digits)),
                };
                let digits = digits.get(2..).unwrap_or_default();
                i128::from_str_radix(&format!("{sign}{digits}"), radix).map_err(|_| NumberFault::TooLarge)
            }
        }
    }

    /// The nearest f32, ties to even, in one rounding.
    ///
    /// # Errors
    /// When the nearest f32 is infinite, or zero for a number that is not.
    pub fn f32(&self) -> Result<f32, NumberFault> {
        let value = match self.radix() {
            Some(_) => self.integer()? as f32,
            None => self.plain().parse().map_err(|_| NumberFault::TooLarge)?,
        };
        self.fits(f64::from(value)).map(|()| value)
    }

    /// The nearest f64, ties to even, in one rounding.
    ///
    /// # Errors
    /// As [`Number::f32`].
    pub fn f64(&self) -> Result<f64, NumberFault> {
        let value = match self.radix() {
            Some(_) => self.integer()? as f64,
            None => self.plain().parse().map_err(|_| NumberFault::TooLarge)?,
        };
        self.fits(value).map(|()| value)
    }

    fn fits(&self, value: f64) -> Result<(), NumberFault> {
        if value.is_infinite() {
            return Err(NumberFault::TooLarge);
        }
        let mantissa = self.lexeme.split(['e', 'E']).next().unwrap_or_default();
        if value == 0.0
            && self.radix().is_none()
            && mantissa.contains(|digit: char| ('1'..='9').contains(&digit))
        {
            return Err(NumberFault::TooSmall);
        }
        Ok(())
    }

    fn plain(&self) -> String {
        self.lexeme.replace('_', "")
    }

    fn radix(&self) -> Option<u32> {
        let unsigned = self.lexeme.strip_prefix(['+', '-']).unwrap_or(&self.lexeme);
        match unsigned.as_bytes() {
            [b'0', b'x' | b'X', ..] => Some(16),
            [b'0', b'o' | b'O', ..] => Some(8),
            [b'0', b'b' | b'B', ..] => Some(2),
            _ => None,
        }
    }
}

/// True for a well-formed spelling: `sign? digits ('.' digits)? ([eE] sign? digits)?` or a radix prefix and its digits,
/// with `_` after the first digit of each group of digits.
pub(super) fn is_number(lexeme: &str) -> bool {
    let unsigned = lexeme.strip_prefix(['+', '-']).unwrap_or(lexeme);
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        let head = unsigned.get(..2).map(str::to_ascii_lowercase);
        if head.as_deref() == Some(prefix) {
            return is_digits(&unsigned[2..], radix);
        }
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    is_digits(whole, 10)
        && fraction.is_none_or(|part| is_digits(part, 10))
        && exponent.is_none_or(|part| is_digits(part, 10))
}

fn is_digits(text: &str, radix: u32) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| first.is_digit(radix))
        && characters.all(|character| character == '_' || character.is_digit(radix))
}
