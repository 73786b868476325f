//! Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011). (Placeholder bodies; the signatures are settled.)
/// A named stream of random numbers: the number at (step, element) never depends on how many were drawn before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream { key: [u32; 2] }
impl Stream {
    /// The stream with this number under this seed. Key = seed xor a mix of `stream`.
    pub fn new(seed: u64, stream: u64) -> Self { let k = seed ^ stream; Self { key: [k as u32, (k >> 32) as u32] } }
    /// Four random words of block `block` at `step`.
    pub fn block(&self, step: u64, block: u64) -> [u32; 4] { let _ = (step, block); [self.key[0]; 4] }
    /// Word `element` at `step`: word `element % 4` of block `element / 4`.
    pub fn word(&self, step: u64, element: u64) -> u32 { self.block(step, element / 4)[(element % 4) as usize] }
    /// Uniform in [0, 1): the top 24 bits of the word times 2^-24.
    pub fn uniform(&self, step: u64, element: u64) -> f32 { (self.word(step, element) >> 8) as f32 * (1.0 / 16_777_216.0) }
    /// Standard normal, from own correctly rounded functions (Box–Muller on two words of one block).
    pub fn normal(&self, step: u64, element: u64) -> f32 { self.uniform(step, element) }
    /// A permutation of 0..length (Fisher–Yates with unbiased bounded draws) for this step.
    pub fn permutation(&self, step: u64, length: usize) -> Vec<u32> { let _ = step; (0..length as u32).collect() }
}
