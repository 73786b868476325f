//! Convolutions by cuDNN: for each shape an algorithm that is settled once, from the library's own estimate and never by timing.
//!
//! **Invariant: only implicit matrix products that the library calls deterministic are taken**, and only within the workspace that was
//! planned. On one device with one library, equal arguments give equal bits. Descriptors are made before a graph is recorded.

use super::cudnn::{self, Algorithm, Functions, Object};
use crate::exec::cpu::convolution::Geometry;
use crate::exec::cuda::convolution::{Convolution, Direction, Shape};
use crate::exec::fault::ExecFault;
use crate::graph::DType;
use cudarc::driver::sys;
use std::ffi::c_int;

/// The algorithm's number in all three directions: `CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM`,
/// `CUDNN_CONVOLUTION_BWD_DATA_ALGO_1`, `CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1`. Those that transform tiles or add with atomics have others.
const IMPLICIT_PRODUCT: c_int = 1;
/// More answers than there are algorithms and ways of each.
const ANSWERS: usize = 32;

/// cuDNN, and the plans of convolutions.
pub(super) struct Convolutions {
    functions: Option<&'static Functions>,
    /// Made when the first convolution is prepared: a run without any does not start the library.
    handle: Option<Object>,
    stream: sys::CUstream,
    plans: Vec<(Shape, Option<Plan>)>,
}

/// How a convolution is made.
struct Plan {
    functions: &'static Functions,
    x: Object,
    filter: Object,
    y: Object,
    convolution: Object,
    workspace: usize,
}

impl Drop for Plan {
    fn drop(&mut self) {
        let functions = self.functions;
        // SAFETY: each was made by its function, or is null, and is destroyed once. A failure leaves it to the end of the process.
        unsafe {
            for (object, destroy) in [
                (self.x, functions.destroy_tensor),
                (self.y, functions.destroy_tensor),
                (self.filter, functions.destroy_filter),
                (self.convolution, functions.destroy_convolution),
            ] {
                if !object.is_null() {
                    let _ = destroy(object);
                }
            }
        }
    }
}

impl Drop for Convolutions {
    fn drop(&mut self) {
        self.plans.clear();
        if let (Some(functions), Some(handle)) = (self.functions, self.handle) {
            // SAFETY: it was made by `started` and is destroyed once.
            let _ = unsafe { (functions.destroy)(handle) };
        }
    }
}

impl Convolutions {
    /// The library if it is there; nothing starts yet.
    pub fn new(stream: sys::CUstream) -> Self {
        Self { functions: Functions::load(), handle: None, stream, plans: Vec::new() }
    }

    /// Whether there is the library.
    pub fn are_there(&self) -> bool {
        self.functions.is_some()
    }

    /// Settles how a convolution is made; false where the library has no algorithm that may be taken.
    ///
    /// # Errors
    /// A library that does not start, or what it says other than that it does not support something.
    pub fn prepare(&mut self, shape: &Shape) -> Result<bool, ExecFault> {
        if let Some((_, plan)) = self.plans.iter().find(|(known, _)| known == shape) {
            return Ok(plan.is_some());
        }
        let Some(functions) = self.functions else { return Ok(false) };
        let handle = self.started(functions)?;
        let plan = Plan::new(functions, handle, shape)?;
        let found = plan.is_some();
        self.plans.push((*shape, plan));
        Ok(found)
    }

    /// The workspace that a prepared convolution uses.
    #[cfg(test)]
    pub fn workspace_of(&self, shape: &Shape) -> Option<usize> {
        self.plans.iter().find(|(known, _)| known == shape)?.1.as_ref().map(|plan| plan.workspace)
    }

    /// The handle, on the device's stream.
    fn started(&mut self, functions: &'static Functions) -> Result<Object, ExecFault> {
        if let Some(handle) = self.handle {
            return Ok(handle);
        }
        let mut handle = std::ptr::null_mut();
        // SAFETY: it writes one handle; the device's context is the thread's.
        functions.check("starting cuDNN", unsafe { (functions.create)(&raw mut handle) })?;
        self.handle = Some(handle);
        // SAFETY: the handle was made just now, and the stream outlives it.
        functions.check("starting cuDNN", unsafe { (functions.set_stream)(handle, self.stream.cast()) })?;
        Ok(handle)
    }

    /// Begins a convolution on the device's stream.
    ///
    /// # Errors
    /// One that the library does not make, or the library's own.
    pub fn enqueue(&mut self, convolution: &Convolution) -> Result<(), ExecFault> {
        let shape = &convolution.shape;
        self.prepare(shape)?;
        let plan = self.plans.iter().find(|(known, _)| known == shape).and_then(|(_, plan)| plan.as_ref());
        let (Some(plan), Some(handle)) = (plan, self.handle) else {
            let found = format!("{} {shape}: cuDNN has no algorithm for it", shape.name());
            return Err(ExecFault::device(found));
        };
        let beta = if convolution.accumulate { 1.0_f32 } else { 0.0 };
        let Convolution { x, filter, y, workspace, .. } = *convolution;
        let functions = plan.functions;
        let (run, [first, second, result], [first_at, second_at, result_at]) = match shape.direction {
            Direction::Forward => (functions.run_forward, [plan.x, plan.filter, plan.y], [x, filter, y]),
            Direction::Input => (functions.run_input, [plan.filter, plan.y, plan.x], [filter, y, x]),
            Direction::Weight => (functions.run_weight, [plan.x, plan.y, plan.filter], [x, y, filter]),
        };
        let alpha = 1.0_f32;
        // SAFETY: the addresses are of allocations of this device that hold what the descriptors say; the factors are read before the
        // return; no more of the workspace is used than was planned.
        let status = unsafe {
            run(
                handle,
                &raw const alpha,
                first,
                first_at as *const _,
                second,
                second_at as *const _,
                plan.convolution,
                IMPLICIT_PRODUCT,
                workspace as *mut _,
                plan.workspace,
                &raw const beta,
                result,
                result_at as *mut _,
            )
        };
        functions.check(&format!("{} {shape}", shape.name()), status)
    }
}

/// A size as the library takes it.
fn small(size: usize) -> Result<c_int, ExecFault> {
    c_int::try_from(size).map_err(|_| {
        ExecFault::device(format!("a convolution has a size of {size}, expected less than 2³¹"))
            .help("make `data batch` smaller")
    })
}

impl Plan {
    /// Describes the convolution and looks for its algorithm; `None` when there is none that may be taken.
    fn new(functions: &'static Functions, handle: Object, shape: &Shape) -> Result<Option<Self>, ExecFault> {
        let null = std::ptr::null_mut;
        let mut plan =
            Self { functions, x: null(), filter: null(), y: null(), convolution: null(), workspace: 0 };
        if !plan.describe(shape)? {
            return Ok(None);
        }
        let operands = match shape.direction {
            Direction::Forward => [plan.x, plan.filter, plan.convolution, plan.y],
            Direction::Input => [plan.filter, plan.y, plan.convolution, plan.x],
            Direction::Weight => [plan.x, plan.y, plan.convolution, plan.filter],
        };
        let (ask, measure) = match shape.direction {
            Direction::Forward => (functions.ask_forward, functions.measure_forward),
            Direction::Input => (functions.ask_input, functions.measure_input),
            Direction::Weight => (functions.ask_weight, functions.measure_weight),
        };
        let [first, second, convolution, result] = operands;
        let mut answers = [Algorithm::default(); ANSWERS];
        let (mut count, mut bytes) = (0, 0);
        // SAFETY: descriptors live; as many answers are written as were said to have room.
        let status = unsafe {
            let room = c_int::try_from(ANSWERS).unwrap_or(0);
            ask(handle, first, second, convolution, result, room, &raw mut count, answers.as_mut_ptr())
        };
        let answers = &answers[..usize::try_from(count).unwrap_or(0).min(ANSWERS)];
        if functions.refused("asking how to convolve", status)? || !answers.iter().any(may_be_taken) {
            return Ok(None);
        }
        // SAFETY: descriptors live; one number is written.
        let status =
            unsafe { measure(handle, first, second, convolution, result, IMPLICIT_PRODUCT, &raw mut bytes) };
        let refused = functions.refused("asking for the workspace of a convolution", status)?;
        plan.workspace = bytes;
        Ok((!refused && bytes <= shape.workspace).then_some(plan))
    }

    /// Makes the descriptors; false where the library knows no such tensors.
    fn describe(&mut self, shape: &Shape) -> Result<bool, ExecFault> {
        let functions = self.functions;
        for (object, make) in [
            (&raw mut self.x, functions.create_tensor),
            (&raw mut self.y, functions.create_tensor),
            (&raw mut self.filter, functions.create_filter),
            (&raw mut self.convolution, functions.create_convolution),
        ] {
            // SAFETY: it writes one descriptor.
            functions.check("describing a convolution to cuDNN", unsafe { make(object) })?;
        }
        let (kind, math) = kind_and_math(shape.format)?;
        let Geometry { batch, height, width, channels_in, channels_out, kernel, groups, .. } = shape.geometry;
        let [rows, columns] = shape.geometry.output_size();
        let sizes = |all: [usize; 4]| -> Result<[c_int; 4], ExecFault> {
            Ok([small(all[0])?, small(all[1])?, small(all[2])?, small(all[3])?])
        };
        let [n, c, h, w] = sizes([batch, channels_in, height, width])?;
        let [_, k, out_rows, out_columns] = sizes([batch, channels_out, rows, columns])?;
        let [in_group, kernel_rows, kernel_columns, groups] =
            sizes([channels_in / groups.max(1), kernel[0], kernel[1], groups])?;
        let Geometry { padding, stride, dilation, .. } = shape.geometry;
        let [top, left, down, right] = sizes([padding[0], padding[1], stride[0], stride[1]])?;
        let [apart_down, apart_right, ..] = sizes([dilation[0], dilation[1], 0, 0])?;
        let last = cudnn::CHANNELS_LAST;
        // SAFETY: each descriptor was made above and is of the kind that its function takes.
        let statuses = unsafe {
            [
                (functions.set_tensor)(self.x, last, kind, n, c, h, w),
                (functions.set_tensor)(self.y, last, kind, n, k, out_rows, out_columns),
                (functions.set_filter)(self.filter, kind, last, k, in_group, kernel_rows, kernel_columns),
                (functions.set_convolution)(
                    self.convolution,
                    top,
                    left,
                    down,
                    right,
                    apart_down,
                    apart_right,
                    cudnn::CROSS_CORRELATION,
                    cudnn::FLOAT,
                ),
                (functions.set_math)(self.convolution, math),
                (functions.set_groups)(self.convolution, groups),
            ]
        };
        for status in statuses {
            if functions.refused("describing a convolution to cuDNN", status)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether an answer is about the algorithm that is taken, and it works and repeats its bits.
fn may_be_taken(answer: &Algorithm) -> bool {
    answer.number == IMPLICIT_PRODUCT && answer.status == 0 && answer.determinism == cudnn::DETERMINISTIC
}

/// The type of elements in memory, and which units may compute. Never those that would round f32 to f16.
fn kind_and_math(format: DType) -> Result<(c_int, c_int), ExecFault> {
    match format {
        DType::F16 => Ok((cudnn::HALF, cudnn::TENSOR_OP_MATH)),
        DType::Bf16 => Ok((cudnn::BFLOAT16, cudnn::TENSOR_OP_MATH)),
        DType::Tf32 => Ok((cudnn::FLOAT, cudnn::DEFAULT_MATH)),
        DType::F32 => Ok((cudnn::FLOAT, cudnn::FMA_MATH)),
        DType::E4m3 | DType::E5m2 | DType::I32 => {
            Err(ExecFault::device(format!("a convolution of {format}, expected f32, tf32, f16 or bf16")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_deterministic_implicit_products_are_taken() {
        let answer =
            |number, status, determinism| Algorithm { number, status, determinism, ..Algorithm::default() };
        assert!(may_be_taken(&answer(1, 0, 1)));
        // Another algorithm, one that is not supported, one that adds in any order.
        assert!(!may_be_taken(&answer(0, 0, 1)));
        assert!(!may_be_taken(&answer(1, 3000, 1)));
        assert!(!may_be_taken(&answer(1, 0, 0)));
    }

    #[test]
    fn plain_f32_keeps_away_from_tensor_cores() {
        assert_eq!(kind_and_math(DType::F32).expect("a float format").1, cudnn::FMA_MATH);
        assert!(kind_and_math(DType::I32).is_err());
        // Four ints or floats, a size, and five ints more, as C lays them out with 8-byte sizes.
        assert_eq!(size_of::<Algorithm>(), 48);
    }
}
