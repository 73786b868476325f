//! What a manifest says of its data. (Body by its owner.)
#[derive(Clone, Debug, PartialEq)]
/// Placeholder.
pub struct DataSpec;
