//! Plain reference implementations that read like the definition of each op.

pub mod activation;
pub mod attention;
pub mod batch_norm;
pub mod convolution;
pub mod disentangled;
pub mod dropout;
pub mod elementwise;
pub mod fingerprint;
pub mod group_norm;
pub mod layer_norm;
pub mod layout;
pub mod loss;
pub mod matrix;
pub mod mean;
pub mod pool;
pub mod reduce;
pub mod relative_position;
pub mod rms_norm;
pub mod rotary;
pub mod rows;
mod run;
pub mod scaled;
pub mod scaler;
mod sequence;
pub mod softmax;
pub mod update;
pub mod upsample;

pub(in crate::exec) use run::{Which, element, run};
