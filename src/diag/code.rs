//! The catalogue of permanent codes, in one table. Ranges by stage: 01xx syntax, 02xx resolve, 03xx graph, 04xx precision,
//! 05xx lock, 06xx probe, 07xx exec and data, 08xx verify. A number is never used again.

use std::fmt;

/// A permanent code, shown as `AMP0214`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub u16);

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AMP{:04}", self.0)
    }
}

impl Code {
    /// Reads `AMP0214`, `amp214` or `214`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.trim();
        let digits = match digits.get(..3) {
            Some(prefix) if prefix.eq_ignore_ascii_case("amp") => &digits[3..],
            _ => digits,
        };
        let plain = (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse().ok()).flatten().map(Self)
    }

    /// The code's page, if it is in the catalogue.
    pub fn page(self) -> Option<&'static CodePage> {
        CATALOGUE.iter().find(|page| page.code == self)
    }
}

/// A code with its title and its page (Markdown), for `amp explain`.
#[derive(Clone, Copy, Debug)]
pub struct CodePage {
    /// The code.
    pub code: Code,
    /// One line.
    pub title: &'static str,
    /// What it means, why it matters, a wrong and a right example.
    pub page: &'static str,
}

/// One line makes a code: its name in [`codes`], its entry in [`CATALOGUE`] and its page in `codes/AMP####.md`.
macro_rules! catalogue {
    ($($name:ident = $number:literal, $title:literal;)*) => {
        /// Every code by name.
        pub mod codes {
            use super::Code;
            $(#[doc = $title] pub const $name: Code = Code($number);)*
        }

        /// Every code that amp can print, in order.
        pub const CATALOGUE: &[CodePage] = &[$(CodePage {
            code: codes::$name,
            title: $title,
            page: include_str!(concat!("codes/AMP0", stringify!($number), ".md")),
        },)*];
    };
}

catalogue! {
    UNEXPECTED = 100, "something stands where it cannot stand";
    OPEN_STRING = 101, "a string is not closed";
    ESCAPE = 102, "an escape in a string is not known";
    MULTI_LINE = 103, "a multi-line string is laid out wrongly";
    NOT_A_NUMBER = 104, "something begins like a number and is none";
    KEYWORD = 105, "a keyword is misspelled";
    FORBIDDEN_CHARACTER = 106, "an invisible character is not allowed";
    BRACES = 107, "braces do not match";
    OPEN_COMMENT = 108, "a comment is not closed";
    DUPLICATE_PROPERTY = 109, "a property is given twice";
    TOO_DEEP = 110, "blocks are nested too deeply";
    TOO_LARGE = 111, "the text is too large";
    VERSION = 112, "the text is not KDL 2";
    NOT_FINITE = 113, "a number is not finite";
    SPACE = 114, "a blank is missing between two values";
    MISSING_VALUE = 115, "a property has no value";

    UNREADABLE = 200, "a manifest or module cannot be read";
    UNKNOWN_NODE = 201, "a node is not known";
    UNKNOWN_PROPERTY = 202, "a property is not known";
    MISSING_NODE = 203, "a required node is missing";
    MISSING = 204, "a required value is missing";
    WRONG_TYPE = 205, "a value has the wrong type";
    NOT_WHOLE = 206, "a whole number is expected";
    OUT_OF_RANGE = 207, "a value is outside its range";
    NOT_ONE_OF = 208, "a value is not one of the known ones";
    DUPLICATE_NODE = 209, "a node is given twice";
    EXTRA_ARGUMENT = 210, "a node has too many arguments";
    NO_BLOCK = 211, "a node takes no block";
    DOES_NOT_FIT = 212, "a number does not fit its type";
    EDITION = 213, "the edition of the language is not known";
    UNKNOWN_MODULE = 214, "a library module is not known";
    PATH = 215, "a path is not allowed";
    MODULE_KIND = 216, "a module is of another kind";
    MODULE_CYCLE = 217, "modules use each other in a circle";
    MODULE_SHAPE = 218, "a module is declared wrongly";
    EXPRESSION = 219, "an expression cannot be read";
    UNKNOWN_NAME = 220, "an expression uses an unknown name";
    EXPRESSION_TYPE = 221, "an expression mixes types";
    ARITHMETIC = 222, "an expression has no result";
    EXPANSION = 223, "a model expands to too much";
    DUPLICATE_NAME = 224, "two layers have one name";
    BAD_NAME = 225, "a name is not allowed";
    CONFLICT = 226, "two settings exclude each other";
    ACCUMULATE_LAST = 227, "gradients are accumulated over batches of unlike size";
    SHARDS = 228, "batches cannot be cut into shards yet";
    NO_SCALER = 229, "f16 is trained without loss scaling";
    IDLE_SCALER = 230, "the loss is scaled without need";
    ANNOTATION = 231, "a type annotation is not known";
    LOSS = 232, "the loss does not fit the data";
    ELSE = 233, "`else` follows no `if`";
    SPLIT = 234, "the parts of a split are more than the whole";
}
