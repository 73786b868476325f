//! Pools and larger images. Activations are channels last; shapes in the graph stay (N, C, H, W).

use super::norm::int;
use super::{Call, Operand};
use crate::exec::cuda::launch::{Arguments, Launches};
use crate::exec::reference::pool::Pool;
use crate::graph::{Interpolation, Op};

/// Threads of a block.
const THREADS: u32 = 256;
/// Most blocks along y and z; kernels go on from there.
const MOST: usize = 65_535;

/// The launches of a node of this family; false where there is no kernel yet.
pub fn run(call: &Call<'_>, launches: &mut Launches) -> bool {
    let done = match call.op {
        Op::MaxPool2d { kernel, stride, padding } => {
            let window = [*kernel, *stride, *padding];
            let arguments = Arguments::new().tensor(call.input(0)).tensor(call.output(0));
            let arguments = arguments.address(call.output(1).address);
            pool(call, "max_pool", &call.inputs[0], window, arguments, launches)
        }
        Op::MaxPool2dBackward { kernel, stride, padding } => {
            let window = [*kernel, *stride, *padding];
            let arguments = Arguments::new().tensor(call.input(0)).address(call.input(1).address);
            let arguments = arguments.tensor(call.output(0));
            pool(call, "max_pool_gradient", &call.outputs[0], window, arguments, launches)
        }
        Op::AveragePool2d { kernel, stride, padding, count_include_padding } => {
            let window = [*kernel, *stride, *padding];
            let arguments = Arguments::new().tensor(call.input(0)).tensor(call.output(0));
            let arguments = arguments.int(i32::from(*count_include_padding));
            pool(call, "average_pool", &call.inputs[0], window, arguments, launches)
        }
        Op::AveragePool2dBackward { kernel, stride, padding, count_include_padding } => {
            let window = [*kernel, *stride, *padding];
            let arguments = Arguments::new().tensor(call.input(0)).tensor(call.output(0));
            let arguments = arguments.int(i32::from(*count_include_padding));
            pool(call, "average_pool_gradient", &call.outputs[0], window, arguments, launches)
        }
        Op::Upsample2d { scale, mode } => {
            let name = if *mode == Interpolation::Nearest { "nearest" } else { "bilinear" };
            enlarge(call, name, &call.inputs[0], *scale, launches)
        }
        Op::Upsample2dBackward { scale, mode } => {
            let name = if *mode == Interpolation::Nearest { "nearest_gradient" } else { "bilinear_gradient" };
            enlarge(call, name, &call.outputs[0], *scale, launches)
        }
        _ => None,
    };
    done.is_some()
}

/// The kernel for channels in eights, where there is one.
fn of_eights(name: &'static str) -> Option<&'static str> {
    match name {
        "max_pool" => Some("max_pool_wide"),
        "max_pool_gradient" => Some("max_pool_gradient_wide"),
        _ => None,
    }
}

/// A thread for each element of the result, which is (N, C, H, W), or for eight.
fn each_pixel(
    name: &'static str,
    call: &Call<'_>,
    arguments: Arguments,
    launches: &mut Launches,
) -> Option<()> {
    let result = &call.outputs[0];
    let [images, channels, rows, columns] = [0, 1, 2, 3].map(|axis| result.size(axis));
    int(columns.checked_mul(channels)?)?;
    let (name, together) = match of_eights(name).filter(|_| channels.is_multiple_of(8)) {
        Some(name) => (name, 8),
        None => (name, 1),
    };
    let threads = columns * (channels / together);
    let grid = [threads.div_ceil(THREADS as usize), rows.min(MOST), images.min(MOST)];
    launches.kernel(name, grid, THREADS, arguments);
    Some(())
}

/// A pool over the windows (kernel, stride, padding) of an input; nothing where a size is beyond what kernels count.
fn pool(
    call: &Call<'_>,
    name: &'static str,
    input: &Operand<'_>,
    [kernel, stride, padding]: [[usize; 2]; 3],
    arguments: Arguments,
    launches: &mut Launches,
) -> Option<()> {
    let [images, channels, rows, columns] = [0, 1, 2, 3].map(|axis| input.size(axis));
    let op = Pool { images, input: [rows, columns], channels, kernel, stride, padding };
    // The positions of an image, and of the padded one along each axis, are counted in `int`.
    int(rows.checked_mul(columns)?)?;
    for axis in [0, 1] {
        int(op.input[axis].checked_add(padding[axis].checked_mul(2)?)?.checked_add(kernel[axis])?)?;
    }
    let sizes = [[images, rows], [columns, channels], op.output(), kernel, stride, padding];
    let arguments = sizes
        .iter()
        .flatten()
        .try_fold(arguments, |arguments, size| int(*size).map(|size| arguments.int(size)))?;
    each_pixel(name, call, arguments, launches)
}

/// An enlargement of an input of (N, C, H, W).
fn enlarge(
    call: &Call<'_>,
    name: &'static str,
    input: &Operand<'_>,
    scale: [usize; 2],
    launches: &mut Launches,
) -> Option<()> {
    let [images, channels, rows, columns] = [0, 1, 2, 3].map(|axis| input.size(axis));
    // Places are counted in halves of an output pixel.
    int(rows.checked_mul(scale[0])?.checked_mul(2)?)?;
    int(columns.checked_mul(scale[1])?.checked_mul(2)?)?;
    let arguments = Arguments::new().tensor(call.input(0)).tensor(call.output(0));
    let arguments = [images, rows, columns, channels, scale[0], scale[1]]
        .into_iter()
        .try_fold(arguments, |arguments, size| int(size).map(|size| arguments.int(size)))?;
    each_pixel(name, call, arguments, launches)
}
