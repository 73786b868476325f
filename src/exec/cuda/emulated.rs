//! A device for tests on machines without a GPU: the same kernels, compiled as C++, on the CPU.
//!
//! Library products and convolutions are chains in portable arithmetic. One launch runs at a time in the process, since threads of a block are
//! emulated with static memory.
#![expect(clippy::disallowed_methods, reason = "tests build and load the kernels")]

use super::convolution::{Convolution, Direction, Shape};
use super::device::Device;
use super::dispatch::Units;
use super::launch::{Arguments, Launch, Matrix, Product, ScaledProduct, Tensor};
use super::tuning::Asked;
use crate::arithmetic::eight::{e4m3_to_f32, e5m2_to_f32};
use crate::arithmetic::half::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, round_tf32};
use crate::exec::cpu::convolution::Geometry;
use crate::exec::fault::ExecFault;
use crate::graph::DType;
use crate::lock::{Algorithm, TunedOn};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

type LaunchKernel = unsafe extern "C" fn(
    *const c_char,
    *const c_uint,
    c_uint,
    *mut *mut c_void,
    *const usize,
    usize,
) -> c_int;

/// The kernels as one library; the reason why there is none on this machine.
fn library() -> Result<&'static Mutex<libloading::Library>, String> {
    static LIBRARY: OnceLock<Result<Mutex<libloading::Library>, String>> = OnceLock::new();
    LIBRARY.get_or_init(|| build().map(Mutex::new)).as_ref().map_err(Clone::clone)
}

fn build() -> Result<libloading::Library, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/exec/cuda/kernels");
    let mut sources: Vec<PathBuf> = std::fs::read_dir(&folder)
        .map_err(|error| error.to_string())?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "cu"))
        .collect();
    sources.sort();
    let place = std::env::temp_dir().join(format!("amp-emulated-{}.so", std::process::id()));
    // Another machine's compiler, where the tests run under emulation (`tools/neon`).
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let mut command = Command::new(compiler);
    command.args(["-std=c++17", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-Wno-unknown-pragmas"]);
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("fma") {
        command.arg("-mfma");
    }
    command.arg("-o").arg(&place).arg(folder.join("emulate.cpp")).args(["-x", "c++"]).args(sources);
    let output = command.output().map_err(|error| format!("no C++ compiler: {error}"))?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // SAFETY: the library was built just now from this repository's kernels, whose initialisers only fill a map.
    let loaded = unsafe { libloading::Library::new(&place) }.map_err(|error| error.to_string());
    let _ = std::fs::remove_file(&place);
    loaded
}

/// Runs kernels on the CPU.
pub struct Emulated {
    blocks: Vec<Box<[Block]>>,
    /// What `fetch` brought.
    landed: [Vec<u8>; 2],
    /// What was chosen.
    pub choices: BTreeMap<Asked, Algorithm>,
    /// The algorithms that its library has for any product.
    pub algorithms: Vec<Algorithm>,
}

/// An algorithm whose tile is this one is refused; one whose custom option is this one leaves out biases.
pub const REFUSED: u32 = 404;
pub const FORGETFUL: u32 = 13;

/// Algorithms: how long each takes is its number of stages.
pub const ALGORITHMS: [Algorithm; 4] = [
    Algorithm { id: 66, tile: 20, stages: 99, splits: 1, swizzle: 0, custom: 1, inner: 0, cluster: 3 },
    Algorithm { id: 66, tile: 29, stages: 80, splits: 1, swizzle: 0, custom: 1, inner: 0, cluster: 3 },
    Algorithm {
        id: 66,
        tile: 24,
        stages: 70,
        splits: 1,
        swizzle: 0,
        custom: FORGETFUL,
        inner: 0,
        cluster: 5,
    },
    Algorithm { id: 67, tile: REFUSED, stages: 10, splits: 1, swizzle: 0, custom: 0, inner: 0, cluster: 0 },
];
/// What is taken without a choice takes so long.
pub const USUAL: f64 = 100.0;

/// As aligned as device memory.
#[derive(Clone)]
#[repr(align(256))]
struct Block(#[expect(dead_code, reason = "only its address is used")] [u8; 256]);

impl Emulated {
    /// The device, or nothing where no C++ compiler is found; that is said.
    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    pub fn open() -> Option<Self> {
        match library() {
            Ok(_) => Some(Self {
                blocks: Vec::new(),
                landed: [Vec::new(), Vec::new()],
                choices: BTreeMap::new(),
                algorithms: ALGORITHMS.to_vec(),
            }),
            Err(reason) => {
                eprintln!("SKIPPED: the kernels cannot be emulated here ({reason})");
                None
            }
        }
    }

    fn kernel(name: &str, grid: [u32; 3], block: u32, arguments: &Arguments) -> Result<(), ExecFault> {
        let library = library().expect("it was opened").lock().expect("no launch panics");
        let name = CString::new(name).expect("names are plain");
        let (mut pointers, sizes) = (arguments.pointers(), arguments.sizes());
        // SAFETY: the symbol has this type in `emulate.cpp`; arguments are those that the dispatch declares, and their addresses
        // lie in blocks of this device.
        let status = unsafe {
            let launch: libloading::Symbol<'_, LaunchKernel> =
                library.get(b"amp_emulated_launch").expect("emulate.cpp has it");
            let (sizes, count) = (sizes.as_ptr(), sizes.len());
            launch(name.as_ptr(), grid.as_ptr(), block, pointers.as_mut_ptr(), sizes, count)
        };
        match status {
            0 => Ok(()),
            1 => Err(ExecFault::device(format!("there is no kernel {name:?}"))),
            _ => Err(ExecFault::device(format!(
                "the kernel {name:?} has other parameters than {sizes:?} bytes"
            ))),
        }
    }
}

impl Device for Emulated {
    fn allocate(&mut self, bytes: usize) -> Result<u64, ExecFault> {
        // Poison: what reads memory that nothing wrote shows.
        let block = vec![Block([0xa7; 256]); bytes.div_ceil(256).max(1)].into_boxed_slice();
        let address = block.as_ptr() as u64;
        self.blocks.push(block);
        Ok(address)
    }

    fn upload(&mut self, address: u64, bytes: &[u8]) -> Result<(), ExecFault> {
        // SAFETY: the address lies in a block of this device with room for the bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        Ok(())
    }

    fn download(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), ExecFault> {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    fn fetch(&mut self, address: u64, bytes: usize, place: usize) -> Result<(), ExecFault> {
        let mut landed = vec![0; bytes];
        self.download(address, &mut landed)?;
        self.landed[place] = landed;
        Ok(())
    }

    fn fetched(&mut self, place: usize) -> Result<&[u8], ExecFault> {
        Ok(&self.landed[place])
    }

    fn launch(&mut self, launch: &Launch) -> Result<(), ExecFault> {
        match launch {
            Launch::Kernel { name, grid, block, arguments, .. } => {
                Self::kernel(name, *grid, *block, arguments)?
            }
            Launch::Product(op) => product(op, None),
            Launch::BiasedProduct(op, bias) => {
                let chosen = self.choices.get(&Asked::of_product(op, true));
                product(op, chosen.is_none_or(|chosen| chosen.custom != FORGETFUL).then_some(*bias));
            }
            Launch::ScaledProduct(op) => scaled_product(op),
            Launch::Convolution(op) => convolution(op),
            // SAFETY: as above.
            Launch::Clear { address, bytes } => unsafe {
                std::ptr::write_bytes(*address as *mut u8, 0, *bytes)
            },
            // SAFETY: as above.
            Launch::Copy { from, to, bytes } => unsafe {
                std::ptr::copy(*from as *const u8, *to as *mut u8, *bytes)
            },
        }
        Ok(())
    }

    fn capture(&mut self, _launches: &[Launch]) -> Result<Option<usize>, ExecFault> {
        Ok(None)
    }

    fn replay(&mut self, _graph: usize) -> Result<(), ExecFault> {
        Ok(())
    }

    fn synchronise(&mut self) -> Result<(), ExecFault> {
        Ok(())
    }

    fn memory_in_use(&self) -> Option<(u64, u64)> {
        None
    }

    fn units(&self) -> Units {
        // `kernels/tensor_cores.cuh` does by hand what they do.
        Units::HOPPER
    }

    fn has_convolutions(&self) -> bool {
        true
    }

    fn prepares(&mut self, _shape: &Shape) -> Result<bool, ExecFault> {
        Ok(true)
    }

    fn library(&self) -> Option<TunedOn> {
        let (device, library) = ("emulated".to_owned(), "cublaslt".to_owned());
        Some(TunedOn { device, multiprocessors: 132, library, version: 130_100 })
    }

    fn algorithms(&mut self, _asked: &Asked) -> Result<Vec<Algorithm>, ExecFault> {
        Ok(self.algorithms.clone())
    }

    fn choose(&mut self, asked: &Asked, algorithm: Option<&Algorithm>) -> Result<bool, ExecFault> {
        match algorithm {
            Some(algorithm) if algorithm.tile == REFUSED => return Ok(false),
            Some(algorithm) => self.choices.insert(*asked, *algorithm),
            None => self.choices.remove(asked),
        };
        Ok(true)
    }

    fn seconds(&mut self, launches: &[Launch]) -> Result<f64, ExecFault> {
        let one = |launch: &Launch| {
            let chosen = Asked::of(launch).and_then(|asked| self.choices.get(&asked));
            chosen.map_or(USUAL, |chosen| f64::from(chosen.stages))
        };
        Ok(launches.iter().map(one).sum())
    }

    fn platform(&self) -> String {
        "emulated".to_owned()
    }

    fn name(&self) -> String {
        "emulated".to_owned()
    }
}

/// Element `index` of a tensor.
fn read(tensor: Tensor, index: usize) -> f32 {
    // SAFETY: the address lies in a block of the device that has the element.
    unsafe {
        match tensor.format {
            DType::F16 => f16_to_f32(*(tensor.address as *const u16).add(index)),
            DType::Bf16 => bf16_to_f32(*(tensor.address as *const u16).add(index)),
            DType::Tf32 => round_tf32(*(tensor.address as *const f32).add(index)),
            DType::E4m3 => e4m3_to_f32(*(tensor.address as *const u8).add(index)),
            DType::E5m2 => e5m2_to_f32(*(tensor.address as *const u8).add(index)),
            _ => *(tensor.address as *const f32).add(index),
        }
    }
}

/// Rounds and writes element `index`.
fn write(tensor: Tensor, index: usize, value: f32) {
    // SAFETY: as above.
    unsafe {
        match tensor.format {
            DType::F16 => *(tensor.address as *mut u16).add(index) = f32_to_f16(value),
            DType::Bf16 => *(tensor.address as *mut u16).add(index) = f32_to_bf16(value),
            _ => *(tensor.address as *mut f32).add(index) = value,
        }
    }
}

/// What tensor cores do, with their sums in the order of k.
fn scaled_product(op: &ScaledProduct) {
    let [first, second] = op.scales.map(|address| read(Tensor::f32(address), 0));
    for row in 0..op.rows {
        for column in 0..op.columns {
            let chain = (0..op.depth).fold(0.0_f32, |sum, k| {
                read(op.a, row * op.depth + k).mul_add(read(op.b, column * op.depth + k), sum)
            });
            let bias = op.bias.map_or(0.0, |bias| read(bias, column));
            write(op.y, row * op.columns + column, chain * (first * second) + bias);
        }
    }
}

fn product(op: &Product, bias: Option<Tensor>) {
    let at = |matrix: &Matrix, batch: usize, row: usize, column: usize| {
        let (row, column) = if matrix.transposed { (column, row) } else { (row, column) };
        batch * matrix.batch_stride + row * matrix.stride + column
    };
    for batch in 0..op.batch {
        for row in 0..op.rows {
            for column in 0..op.columns {
                let chain = (0..op.depth).fold(0.0_f32, |sum, k| {
                    let a = read(op.a.tensor, at(&op.a, batch, row, k));
                    a.mul_add(read(op.b.tensor, at(&op.b, batch, k, column)), sum)
                });
                let place = at(&op.y, batch, row, column);
                let before = if op.beta == 0.0 { 0.0 } else { op.beta * read(op.y.tensor, place) };
                let bias = bias.map_or(0.0, |bias| read(bias, column));
                write(op.y.tensor, place, op.alpha * chain + before + bias);
            }
        }
    }
}

/// Adds up the products of each place of the result, in the order of output pixels and then of the filter's elements.
fn convolution(op: &Convolution) {
    let Shape { direction, geometry, format, workspace } = op.shape;
    // What a library may do with its workspace.
    // SAFETY: the range lies in a block of the device.
    unsafe { std::ptr::write_bytes(op.workspace as *mut u8, 0x5c, workspace.min(4096)) };
    let tensor =
        |address, written: bool| Tensor { address, format: if written { format.gradient() } else { format } };
    let (x, filter, y) = (
        tensor(op.x, direction == Direction::Input),
        tensor(op.filter, direction == Direction::Weight),
        tensor(op.y, direction == Direction::Forward),
    );
    let [x_elements, filter_elements, y_elements] = op.shape.elements();
    let (result, elements) = match direction {
        Direction::Forward => (y, y_elements),
        Direction::Input => (x, x_elements),
        Direction::Weight => (filter, filter_elements),
    };
    let mut sums = vec![0.0_f32; elements];
    each_product(&geometry, |x_at, filter_at, y_at| {
        let (sum, a, b) = match direction {
            Direction::Forward => (y_at, read(x, x_at), read(filter, filter_at)),
            Direction::Input => (x_at, read(y, y_at), read(filter, filter_at)),
            Direction::Weight => (filter_at, read(y, y_at), read(x, x_at)),
        };
        sums[sum] = a.mul_add(b, sums[sum]);
    });
    for (index, sum) in sums.into_iter().enumerate() {
        let before = if op.accumulate { read(result, index) } else { 0.0 };
        write(result, index, sum + before);
    }
}

/// Visits every product of an input element and a filter element, with the places of both and of the output element that it belongs to.
pub(super) fn each_product(geometry: &Geometry, mut visit: impl FnMut(usize, usize, usize)) {
    let Geometry { batch, height, width, channels_in, channels_out, kernel, groups, .. } = *geometry;
    let Geometry { stride, padding, dilation, .. } = *geometry;
    let [rows, columns] = geometry.output_size();
    let (group_in, group_out) = (channels_in / groups, channels_out / groups);
    let place = |out: usize, tap: usize, axis: usize, size: usize| {
        (out * stride[axis] + tap * dilation[axis]).checked_sub(padding[axis]).filter(|at| *at < size)
    };
    for pixel in 0..batch * rows * columns {
        let (image, row, column) = (pixel / (rows * columns), pixel / columns % rows, pixel % columns);
        for tap in 0..kernel[0] * kernel[1] {
            let from = (place(row, tap / kernel[1], 0, height), place(column, tap % kernel[1], 1, width));
            let (Some(from_row), Some(from_column)) = from else { continue };
            let x_pixel = (image * height + from_row) * width + from_column;
            for out in 0..channels_out {
                for channel in 0..group_in {
                    let x_at = x_pixel * channels_in + out / group_out * group_in + channel;
                    let filter_at = (out * kernel[0] * kernel[1] + tap) * group_in + channel;
                    visit(x_at, filter_at, pixel * channels_out + out);
                }
            }
        }
    }
}
