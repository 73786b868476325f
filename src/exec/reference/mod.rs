//! Plain reference implementations that read like the definition of each op.

pub mod convolution;
pub mod matrix;
