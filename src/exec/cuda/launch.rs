//! What a node becomes: kernel launches and library calls with all their arguments, as data.
//!
//! Addresses are known before the first launch, since memory is planned; so a step is a list that is made once, printed, counted
//! and captured.

use super::convolution::Convolution;
use crate::graph::DType;

/// Where an operand is and how its elements lie there. In kernels it is the struct `Tensor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Device address of element 0.
    pub address: u64,
    /// How elements lie in memory and what a store rounds to. `Tf32` is f32 memory, rounded when read and when written.
    pub format: DType,
}

impl Tensor {
    /// No memory: an operand that is not there.
    pub const NONE: Self = Self { address: 0, format: DType::F32 };

    /// f32 memory.
    pub fn f32(address: u64) -> Self {
        Self { address, format: DType::F32 }
    }
}

/// The number that kernels know a format by; see `common.cuh`.
pub(super) fn number(format: DType) -> i32 {
    match format {
        DType::F32 => 0,
        DType::F16 => 1,
        DType::Bf16 => 2,
        DType::Tf32 => 3,
        DType::I32 => 4,
        DType::E4m3 => 5,
        DType::E5m2 => 6,
    }
}

/// The arguments of a kernel, in the order of its parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arguments {
    /// Each argument in 16 bytes, little endian, from the first byte on; and how many of them are its own.
    slots: Vec<([u8; 16], usize)>,
}

impl Arguments {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        let mut slot = [0; 16];
        slot[..bytes.len()].copy_from_slice(bytes);
        self.slots.push((slot, bytes.len()));
        self
    }

    /// A `Tensor`.
    #[must_use]
    pub fn tensor(self, tensor: Tensor) -> Self {
        self.rows(tensor, 0)
    }

    /// A `Tensor` whose rows begin `pitch` elements apart, for kernels that ask.
    #[must_use]
    pub fn rows(self, tensor: Tensor, pitch: usize) -> Self {
        let pitch = i32::try_from(pitch).unwrap_or(i32::MAX);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&tensor.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&number(tensor.format).to_le_bytes());
        bytes[12..].copy_from_slice(&pitch.to_le_bytes());
        self.bytes(&bytes)
    }

    /// A pointer or a `u64`.
    #[must_use]
    pub fn address(self, address: u64) -> Self {
        self.bytes(&address.to_le_bytes())
    }

    /// An `i64`, from a size.
    #[must_use]
    pub fn size(self, size: usize) -> Self {
        self.bytes(&(size as i64).to_le_bytes())
    }

    /// An `int`.
    #[must_use]
    pub fn int(self, value: i32) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    /// A `float`.
    #[must_use]
    pub fn float(self, value: f32) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    /// A `double`.
    #[must_use]
    pub fn double(self, value: f64) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    /// The bytes of each argument.
    pub fn sizes(&self) -> Vec<usize> {
        self.slots.iter().map(|(_, size)| *size).collect()
    }

    /// A pointer to each argument, as a launch wants them.
    pub fn pointers(&self) -> Vec<*mut std::ffi::c_void> {
        self.slots.iter().map(|(slot, _)| slot.as_ptr().cast_mut().cast()).collect()
    }
}

/// A matrix product by the vendor's library: `y = alpha · a·b + beta · y` for each of `batch` matrices, all row-major. Bits are the
/// library's; run to run they are equal on one device with one library.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product {
    /// rows × depth, or depth × rows when transposed.
    pub a: Matrix,
    /// depth × columns, or columns × depth when transposed.
    pub b: Matrix,
    /// rows × columns.
    pub y: Matrix,
    /// Rows of y.
    pub rows: usize,
    /// Columns of y.
    pub columns: usize,
    /// Length of the sums.
    pub depth: usize,
    /// Number of matrices.
    pub batch: usize,
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of what is in y; 0 does not read it.
    pub beta: f32,
}

/// An operand of a library product. Formats of a and b are equal: f32, tf32, f16 or bf16; y has f32 or theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Memory of the first matrix.
    pub tensor: Tensor,
    /// Elements between rows in memory.
    pub stride: usize,
    /// Whether memory holds the transposed matrix; never for y.
    pub transposed: bool,
    /// Elements between matrices of the batch.
    pub batch_stride: usize,
}

/// A product of FP8 by the vendor's library: y\[r, c\] = (Σ a\[r, k\] · b\[c, k\]) · both inverses + bias\[c\]. All matrices lie close and
/// row-major.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaledProduct {
    /// rows × depth, E4M3 or E5M2.
    pub a: Tensor,
    /// columns × depth, E4M3.
    pub b: Tensor,
    /// rows × columns, bf16 or f32.
    pub y: Tensor,
    /// Rows of y; a multiple of 16, as the others.
    pub rows: usize,
    /// Columns of y.
    pub columns: usize,
    /// Length of the sums.
    pub depth: usize,
    /// Addresses of the f32 inverses of the scales of a and of b.
    pub scales: [u64; 2],
    /// In bf16 beside a y in bf16.
    pub bias: Option<Tensor>,
}

/// One thing for the device to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Launch {
    /// One of amp's kernels.
    Kernel {
        /// Its name in `kernels/`.
        name: &'static str,
        /// Blocks along x, y, z.
        grid: [u32; 3],
        /// Threads of a block.
        block: u32,
        /// Bytes of shared memory of a block, beside what the kernel declares.
        shared: u32,
        /// Arguments.
        arguments: Arguments,
    },
    /// A library product.
    Product(Product),
    /// A library product to which a bias, an element for each column in the result's format, is added before it is rounded.
    BiasedProduct(Product, Tensor),
    /// A library product of FP8.
    ScaledProduct(ScaledProduct),
    /// A library convolution.
    Convolution(Convolution),
    /// Sets bytes to zero.
    Clear {
        /// First byte.
        address: u64,
        /// How many.
        bytes: usize,
    },
    /// Copies bytes within the device.
    Copy {
        /// First byte that is read.
        from: u64,
        /// First byte that is written.
        to: u64,
        /// How many.
        bytes: usize,
    },
}

impl Launch {
    /// As [`Launch::name`], with the sizes of products and convolutions, whose time depends on them most.
    pub fn described(&self) -> String {
        match self {
            Self::Product(product) | Self::BiasedProduct(product, _) => {
                let Product { a, y, rows, columns, depth, batch, .. } = product;
                let batch = if *batch > 1 { format!("{batch} × ") } else { String::new() };
                let (from, to) = (a.tensor.format, y.tensor.format);
                format!("{} {batch}{rows}×{columns}×{depth} {from} to {to}", self.name())
            }
            Self::ScaledProduct(ScaledProduct { a, y, rows, columns, depth, .. }) => {
                format!("{} {rows}×{columns}×{depth} {} to {}", self.name(), a.format, y.format)
            }
            Self::Convolution(convolution) => format!("{} {}", self.name(), convolution.shape),
            _ => self.name().to_owned(),
        }
    }

    /// The kernel's name, or what is done in its place.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kernel { name, .. } => name,
            Self::Product(_) => "library product",
            Self::BiasedProduct(..) => "library product with bias",
            Self::ScaledProduct(_) => "library product of fp8",
            Self::Convolution(convolution) => convolution.shape.name(),
            Self::Clear { .. } => "clear",
            Self::Copy { .. } => "copy",
        }
    }
}

/// Largest number of blocks along y and z.
const GREATEST_GRID: usize = 65_535;

/// Collects the launches of nodes, and the memory beside values that they need.
///
/// It is used twice: without addresses, to learn how much scratch and constants take, and again with them.
#[derive(Debug)]
pub struct Launches {
    /// In order.
    pub list: Vec<Launch>,
    scratch: Area,
    constants: Area,
    /// What the constants hold, to be uploaded once.
    pub constant_bytes: Vec<u8>,
}

/// Memory that is handed out piece by piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Area {
    start: u64,
    used: usize,
    most: usize,
}

/// Bytes that every piece of memory is a multiple of: what wide accesses and libraries want.
pub const ALIGNMENT: usize = 256;

impl Area {
    fn take(&mut self, bytes: usize) -> u64 {
        let address = self.start + self.used as u64;
        self.used += bytes.next_multiple_of(ALIGNMENT);
        self.most = self.most.max(self.used);
        address
    }
}

impl Launches {
    /// None yet; scratch and constants begin at these addresses.
    pub fn new(scratch: u64, constants: u64) -> Self {
        Self {
            list: Vec::new(),
            scratch: Area { start: scratch, ..Area::default() },
            constants: Area { start: constants, ..Area::default() },
            constant_bytes: Vec::new(),
        }
    }

    /// Begins a node: scratch of the one before is free again, since launches run one after another.
    pub fn begin_node(&mut self) {
        self.scratch.used = 0;
    }

    /// Bytes of scratch that the hungriest node takes.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch.most
    }

    /// Memory for this node alone, not cleared. Ask for it in the same order whatever the addresses are.
    pub fn scratch(&mut self, bytes: usize) -> u64 {
        self.scratch.take(bytes)
    }

    /// Memory that holds these bytes during the whole run: tables of addresses and sizes.
    pub fn constant(&mut self, bytes: &[u8]) -> u64 {
        let address = self.constants.take(bytes.len());
        self.constant_bytes.resize((address - self.constants.start) as usize, 0);
        self.constant_bytes.extend_from_slice(bytes);
        address
    }

    /// A kernel with blocks along x, y and z; nothing when there are none. y and z may have 65,535 at most.
    pub fn kernel(&mut self, name: &'static str, grid: [usize; 3], block: u32, arguments: Arguments) {
        self.kernel_with_memory(name, grid, block, 0, arguments);
    }

    /// As [`Launches::kernel`], with so many bytes of shared memory for each block beside what the kernel declares.
    pub fn kernel_with_memory(
        &mut self,
        name: &'static str,
        grid: [usize; 3],
        block: u32,
        shared: u32,
        arguments: Arguments,
    ) {
        debug_assert!(grid[1] <= GREATEST_GRID && grid[2] <= GREATEST_GRID, "{name}: {grid:?}");
        if grid.contains(&0) {
            return;
        }
        let grid = grid.map(|blocks| u32::try_from(blocks).unwrap_or(u32::MAX));
        self.list.push(Launch::Kernel { name, grid, block, shared, arguments });
    }

    /// A kernel with one thread for each of `threads`, in blocks of 256.
    pub fn each(&mut self, name: &'static str, threads: usize, arguments: Arguments) {
        self.kernel(name, [threads.div_ceil(256), 1, 1], 256, arguments);
    }

    /// A library product; nothing when y is empty.
    pub fn product(&mut self, product: Product) {
        if product.rows * product.columns * product.batch > 0 {
            self.list.push(Launch::Product(product));
        }
    }

    /// A library product with a bias; nothing when y is empty.
    pub fn biased_product(&mut self, product: Product, bias: Tensor) {
        if product.rows * product.columns * product.batch > 0 {
            self.list.push(Launch::BiasedProduct(product, bias));
        }
    }

    /// A library product of FP8, none of whose sizes is 0.
    pub fn scaled_product(&mut self, product: ScaledProduct) {
        self.list.push(Launch::ScaledProduct(product));
    }

    /// A library convolution, none of whose sizes is 0.
    pub fn convolution(&mut self, convolution: Convolution) {
        debug_assert!(!convolution.shape.elements().contains(&0), "{}", convolution.shape);
        self.list.push(Launch::Convolution(convolution));
    }

    /// Sets bytes to zero.
    pub fn clear(&mut self, address: u64, bytes: usize) {
        if bytes > 0 {
            self.list.push(Launch::Clear { address, bytes });
        }
    }
}
