//! Plain reference implementations that read like the definition of each op.

pub mod matrix;
pub mod activation;
pub mod elementwise;
pub mod loss;
pub mod reduce;
pub mod rounding;
pub mod scaler;
pub mod update;
