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
    SHARDS = 228, "a batch cannot be cut into so many shards";
    NO_SCALER = 229, "f16 is trained without loss scaling";
    IDLE_SCALER = 230, "the loss is scaled without need";
    ANNOTATION = 231, "a type annotation is not known";
    LOSS = 232, "the loss does not fit the data";
    ELSE = 233, "`else` follows no `if`";
    SPLIT = 234, "the parts of a split are more than the whole";
    DUPLICATE_VALUE = 235, "two values of one module have one name";
    UNKNOWN_VALUE = 236, "a value is recalled that was not saved";
    SHARE = 237, "a layer shares parameters that are not there";
    INITIAL_PATTERN = 238, "a pattern for names of tensors cannot be read";
    GRAPH_SHAPE = 301, "a layer cannot take the shape of its input";
    GRAPH_AXIS = 302, "an axis is out of range";
    GRAPH_RESHAPE = 303, "a reshape changes the number of elements";
    GRAPH_KERNEL = 304, "a kernel is larger than its input";
    GRAPH_GROUPS = 305, "groups do not divide the channels";
    GRAPH_MEETING = 306, "chains end with shapes that do not meet";
    GRAPH_CLASSES = 307, "the model's output is no row of classes";
    GRAPH_TOO_LARGE = 308, "a tensor is too large";
    GRAPH_EMPTY = 309, "a model has no layers";
    GRAPH_DUPLICATE = 310, "two layers own one name";
    GRAPH_TARGET = 311, "the model's output has not the target's shape";
    GRAPH_ZERO = 312, "a size is zero";
    GRAPH_UNTRAINABLE = 313, "a model has nothing to train";
    GRAPH_ONE_VALUE = 314, "batch normalisation sees one value a channel";
    GRAPH_POOL_PADDING = 315, "a pooling window can lie in the border alone";
    GRAPH_NUMBER = 316, "a number is out of its range";
    GRAPH_SHARE = 317, "a shared parameter does not fit";
    GRAPH_UNUSED = 318, "nothing uses a layer's result";
    GRAPH_GLOB = 319, "a glob matches no parameter";
    GRAPH_FROZEN = 320, "every parameter is frozen";
    PRECISION_UNMATCHED = 401, "a precision rule matches nothing";
    PRECISION_UNKNOWN_KIND = 402, "a precision policy names an op that does not exist";
    PRECISION_LOSS_RULE = 403, "a precision rule does not apply to the loss";
    PRECISION_FP8_SIZE = 404, "a size of a product in FP8 is no multiple of 16";
    PHASE_PARAMETERS = 405, "a later policy keeps parameters in another format";
    PHASE_IDLE = 406, "a policy never comes into force";
    ALIGNMENT = 410, "a matrix dimension is no multiple of 8";
    FLUSHED = 411, "a constant is zero in its format";
    OVERFLOWS = 412, "a constant is infinite in its format";
    DECAY = 413, "weight decay acts on norms and biases";
    SCHEDULE_LENGTH = 414, "a schedule is longer than the run";
    MEMORY = 415, "a batch does not fit into the device";
    NO_TENSOR_CORES = 416, "a device cannot compute a format, or not fast";
    IDLE_ALLOW = 417, "`allow` turns off a warning that there is not";
    ALLOW = 418, "`allow` names no warning, or gives no reason";
    NOTHING_TO_EVALUATE = 419, "there is nothing to evaluate on";
    LOCK_SYNTAX = 501, "a line of the lock is not in its grammar";
    LOCK_CONFLICT = 502, "the lock has conflict markers";
    LOCK_UNKNOWN_VERSION = 503, "the lock has a version that this amp does not read";
    LOCK_TRUNCATED = 504, "the lock ends too early";
    LOCK_DUPLICATE = 505, "the lock has an entry twice";
    LOCK_VALUE = 506, "a value of the lock is not of its type";
    LOCK_STALE = 507, "the lock is stale";
    LOCK_MISSING = 508, "there is no lock";
    LOCK_UNKNOWN_NODE = 509, "no such node to update";
    LOCK_INTEGRITY = 510, "the run id is not the one of the entries";
    LOCK_NOT_CANONICAL = 511, "the lock is not in its one form";
    RECORD_BAD_LINE = 550, "a line of the record is no event";
    RECORD_UNKNOWN_SCHEMA = 551, "the record has a schema that this amp does not read";
    RECORD_TRUNCATED = 552, "the last line of the record is cut";
    RECORD_CHAIN = 553, "the chain does not match the numbers";
    RECORD_ORDER = 554, "the record's events are out of order";
    MACHINE_NOT_SATISFIED = 601, "this machine does not satisfy the environment";
    MACHINE_FLOAT_ENVIRONMENT = 602, "floating-point numbers are not IEEE 754 in this process";
    MACHINE_ALGORITHMS = 603, "the lock's algorithms are those of another machine";
    RUN_LOSS_NOT_FINITE = 701, "the loss is not finite";
    RUN_SCALE_AT_FLOOR = 702, "the loss scale fell below its floor";
    RUN_TOO_LITTLE_DATA = 703, "an epoch is shorter than one step";
    RUN_NO_TRAINING_SPLIT = 704, "there is no training split";
    RUN_INSTRUCTION_SET = 705, "this machine lacks the instruction set";
    RUN_THREADS = 706, "the worker threads could not be started";
    RUN_RECORD = 707, "the record could not be written";
    RUN_MEMORY = 708, "this machine has too little memory for the run";
    RUN_NO_KERNEL = 709, "an op has no kernel for the device";
    RUN_DEVICE = 710, "the device failed, or is not there";
    RUN_IN_USE = 711, "another process works on the run";
    RUN_CHECKPOINT = 712, "a checkpoint cannot be used";
    RUN_RESUME = 713, "a run cannot go on";
    RUN_SKIP_BUDGET = 714, "too many steps were skipped";
    RUN_WORKERS = 716, "a run cannot be shared among so many workers";
    RUN_WORKER_LOST = 717, "a worker of the run was lost";
    RUN_EXCHANGE = 718, "workers of one run do not agree";
    RUN_SKIPPED = 719, "most steps of a run were skipped";
    DATA_MISSING = 720, "a source is missing";
    DATA_UNREADABLE = 721, "a source cannot be read";
    DATA_GZIP = 722, "gzip is damaged";
    DATA_ROW = 723, "a CSV row cannot be read";
    DATA_NUMBER = 724, "a number cannot be used";
    DATA_LABEL = 725, "a label is not one of the classes";
    DATA_IDX = 726, "an IDX file is damaged";
    DATA_NPY = 727, "an NPY file cannot be read";
    DATA_SAFETENSORS = 728, "a safetensors file cannot be read";
    DATA_SHAPE = 729, "shapes or counts do not fit";
    DATA_SPLIT = 730, "a split cannot be";
    DATA_CHANGED = 731, "a source changed during the run";
    DATA_TOO_LARGE = 732, "a source is too large";
    DATA_EMPTY = 733, "a source is empty";
    DATA_LAYOUT = 734, "the files do not fit the format";
    DATA_BATCH = 735, "there would be no batch";
    DATA_NORMALISE = 736, "a normalisation cannot be";
    DATA_PREPARED = 737, "prepared data cannot be used";
    DATA_HEADER = 738, "`header` does not fit the first row";
    DATA_TOKEN = 739, "a token is outside the vocabulary";
    DATA_TEXT = 740, "a text or a file of tokens cannot be read";
    DATA_WINDOW = 741, "a split is shorter than one example";
    DATA_PICTURE = 742, "a picture cannot be read";
    DATA_FOLDER = 743, "a folder of pictures is laid out in another way";
    STORE_IO = 760, "the disk refused";
    STORE_DISK_FULL = 761, "the disk is full";
    STORE_READ_ONLY = 762, "the place is read-only";
    STORE_DENIED = 763, "permission denied";
    STORE_MISSING = 764, "the store does not hold this object";
    STORE_CORRUPT = 765, "bytes in the store are damaged";
    STORE_BROKEN_LINE = 766, "a record would be broken";
    STORE_LAYOUT = 767, "not a store that this amp can use";
    INITIAL_NAMES = 790, "tensors of a file and parameters of a model do not pair";
    INITIAL_SHAPE = 791, "a tensor of a file does not fit its parameter";
    INITIAL_RULE = 792, "a rule for initial weights reaches nothing";
    EXPORT_NAMES = 793, "a checkpoint cannot be written under these names";
    VERIFY_DIFFERS = 801, "the run differs from what was recorded";
    VERIFY_NOT_DETERMINISTIC = 802, "two runs of one lock differ on one machine";
    VERIFY_INCONCLUSIVE = 803, "there was nothing to compare, or not all of it";
    VERIFY_BISECT = 804, "two runs differ, and no op that differs was found";
    TORCH_REFUSED = 805, "a part of the step has no counterpart in PyTorch";
    TORCH_MISSING = 806, "there is no Python with PyTorch";
    TORCH_FAILED = 807, "PyTorch's step failed";
}
