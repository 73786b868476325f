//! The functions of cuDNN that convolutions need, found by name when the program runs: a build knows nothing of the library, and a
//! machine without it is no fault.
//!
//! Types and numbers are those of `cudnn_graph.h`, `cudnn_ops.h` and `cudnn_cnn.h` of cuDNN 9.

use crate::exec::fault::ExecFault;
use crate::probe::libraries;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// What every function but one answers; 0 is success.
pub(super) type Status = c_int;
/// A handle or a descriptor.
pub(super) type Object = *mut c_void;

/// `CUDNN_TENSOR_NHWC`.
pub(super) const CHANNELS_LAST: c_int = 1;
/// `CUDNN_CROSS_CORRELATION`: a filter that is not turned round.
pub(super) const CROSS_CORRELATION: c_int = 1;
/// `CUDNN_DETERMINISTIC`.
pub(super) const DETERMINISTIC: c_int = 1;
/// Numbers of `cudnnDataType_t`.
pub(super) const FLOAT: c_int = 0;
pub(super) const HALF: c_int = 2;
pub(super) const BFLOAT16: c_int = 9;
/// Numbers of `cudnnMathType_t`: tensor cores where the type is f32 (by tf32), where it is half precision, and never.
pub(super) const DEFAULT_MATH: c_int = 0;
pub(super) const TENSOR_OP_MATH: c_int = 1;
pub(super) const FMA_MATH: c_int = 3;

/// An answer about an algorithm: `cudnnConvolutionFwdAlgoPerf_t` and its two likes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Algorithm {
    pub number: c_int,
    pub status: Status,
    pub time: f32,
    pub workspace: usize,
    pub determinism: c_int,
    pub math: c_int,
    pub reserved: [c_int; 3],
}

/// Asks which algorithms there are, fastest first by the library's own estimate: two operands, the convolution, the result.
type Ask =
    unsafe extern "C" fn(Object, Object, Object, Object, Object, c_int, *mut c_int, *mut Algorithm) -> Status;
/// Asks how much workspace an algorithm needs.
type Measure = unsafe extern "C" fn(Object, Object, Object, Object, Object, c_int, *mut usize) -> Status;
/// Convolves: alpha, two operands with their memory, the convolution, algorithm, workspace, beta, the result with its memory.
type Run = unsafe extern "C" fn(
    Object,
    *const f32,
    Object,
    *const c_void,
    Object,
    *const c_void,
    Object,
    c_int,
    *mut c_void,
    usize,
    *const f32,
    Object,
    *mut c_void,
) -> Status;
type Make = unsafe extern "C" fn(*mut Object) -> Status;
type Destroy = unsafe extern "C" fn(Object) -> Status;
type Text = unsafe extern "C" fn(Status) -> *const c_char;

macro_rules! functions {
    ($($(#[$comment:meta])* $field:ident: $kind:ty = $name:literal;)*) => {
        /// cuDNN's functions.
        #[derive(Clone, Copy)]
        pub(super) struct Functions {
            $($(#[$comment])* pub $field: $kind,)*
        }

        impl Functions {
            /// Looks them up; `None` when one is not there.
            fn of(library: &libloading::Library) -> Option<Self> {
                Some(Self {
                    $(
                        // SAFETY: the type is that of the function in the library's headers; the library is never closed.
                        $field: *unsafe { library.get::<$kind>(concat!($name, "\0").as_bytes()) }.ok()?,
                    )*
                })
            }
        }
    };
}

functions! {
    text: Text = "cudnnGetErrorString";
    create: Make = "cudnnCreate";
    destroy: Destroy = "cudnnDestroy";
    set_stream: unsafe extern "C" fn(Object, *mut c_void) -> Status = "cudnnSetStream";
    create_tensor: Make = "cudnnCreateTensorDescriptor";
    destroy_tensor: Destroy = "cudnnDestroyTensorDescriptor";
    /// Layout, type, N, C, H, W.
    set_tensor: unsafe extern "C" fn(Object, c_int, c_int, c_int, c_int, c_int, c_int) -> Status
        = "cudnnSetTensor4dDescriptor";
    create_filter: Make = "cudnnCreateFilterDescriptor";
    destroy_filter: Destroy = "cudnnDestroyFilterDescriptor";
    /// Type, layout, K, C, H, W.
    set_filter: unsafe extern "C" fn(Object, c_int, c_int, c_int, c_int, c_int, c_int) -> Status
        = "cudnnSetFilter4dDescriptor";
    create_convolution: Make = "cudnnCreateConvolutionDescriptor";
    destroy_convolution: Destroy = "cudnnDestroyConvolutionDescriptor";
    /// Paddings, strides, dilations, mode, type of the sums.
    set_convolution:
        unsafe extern "C" fn(Object, c_int, c_int, c_int, c_int, c_int, c_int, c_int, c_int) -> Status
        = "cudnnSetConvolution2dDescriptor";
    set_math: unsafe extern "C" fn(Object, c_int) -> Status = "cudnnSetConvolutionMathType";
    set_groups: unsafe extern "C" fn(Object, c_int) -> Status = "cudnnSetConvolutionGroupCount";
    ask_forward: Ask = "cudnnGetConvolutionForwardAlgorithm_v7";
    ask_input: Ask = "cudnnGetConvolutionBackwardDataAlgorithm_v7";
    ask_weight: Ask = "cudnnGetConvolutionBackwardFilterAlgorithm_v7";
    measure_forward: Measure = "cudnnGetConvolutionForwardWorkspaceSize";
    measure_input: Measure = "cudnnGetConvolutionBackwardDataWorkspaceSize";
    measure_weight: Measure = "cudnnGetConvolutionBackwardFilterWorkspaceSize";
    run_forward: Run = "cudnnConvolutionForward";
    run_input: Run = "cudnnConvolutionBackwardData";
    run_weight: Run = "cudnnConvolutionBackwardFilter";
}

impl Functions {
    /// Those of the library that this process loads, the one that `amp env` shows; `None` where there is none.
    pub fn load() -> Option<&'static Self> {
        static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
        FUNCTIONS.get_or_init(|| Self::of(libraries::open(libraries::CUDNN)?)).as_ref()
    }

    /// Whether the library refuses what it was asked: it is no parameter that it takes, or not supported.
    ///
    /// # Errors
    /// What the library says other than that and success, so that no broken library is taken for one that can do little.
    pub fn refused(&self, doing: &str, status: Status) -> Result<bool, ExecFault> {
        // The thousands are the kind of a status: 2 for parameters, 3 for what is not supported.
        if matches!(status / 1000, 2 | 3) {
            return Ok(true);
        }
        self.check(doing, status).map(|()| false)
    }

    /// A fault unless the status is success.
    ///
    /// # Errors
    /// What the library says.
    pub fn check(&self, doing: &str, status: Status) -> Result<(), ExecFault> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: it takes any number, and answers with a text that lives as long as the library.
        let text = unsafe { (self.text)(status) };
        let text = if text.is_null() {
            "no text".to_owned()
        } else {
            // SAFETY: as above.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        Err(ExecFault::device(format!("{doing}: cuDNN says {text} ({status})"))
            .help("`amp env` says which cuDNN was found; it has to be one for CUDA 13, with all its parts in one folder"))
    }
}
