//! The CUDA driver as a device, on Candle's `CudaDevice`: its context, its stream and its cuBLAS handle, so that Candle's own ops
//! can be captured beside amp's kernels.
//!
//! **Invariant: everything that computes runs on one stream, in the order of the calls**, and no address is given back before the device
//! is dropped. So nothing waits but reads, and a recorded graph stays valid. A second stream brings the next batch, and only copies.
//! What the driver says comes out as a fault, never as a panic.

mod aside;
mod choices;
#[cfg(test)]
mod choices_tests;
mod convolution;
#[cfg(test)]
mod convolution_tests;
mod cudnn;
mod images;
mod landing;
mod light;
mod product;
mod scaled;
#[cfg(test)]
mod scaled_tests;
mod staging;
#[cfg(test)]
mod tests;
mod timing;

use super::convolution::Shape;
use super::device::Device;
use super::dispatch::Units;
use super::launch::Launch;
use super::tuning::Asked;
use crate::diag::codes;
use crate::diag::number::bytes as in_units;
use crate::exec::fault::ExecFault;
use crate::lock::{Algorithm, TunedOn};
use aside::Aside;
use candle_core::CudaDevice;
use convolution::Convolutions;
use cudarc::driver::{CudaContext, CudaGraph, CudaStream, DriverError, result, sys};
use images::Kernels;
use landing::Landing;
use product::Products;
use staging::Staging;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// Variables by which NVIDIA's libraries compute otherwise than they are asked to.
const REFUSED_VARIABLES: [&str; 4] = [
    "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_EMULATE_SINGLE_PRECISION",
    "CUBLAS_EMULATE_DOUBLE_PRECISION",
    "CUBLAS_EMULATION_STRATEGY",
];

/// The first CUDA device.
pub struct Driver {
    /// Candle's device; not dropped when the driver failed, since dropping what it holds would panic then.
    candle: ManuallyDrop<CudaDevice>,
    products: ManuallyDrop<Products>,
    convolutions: ManuallyDrop<Convolutions>,
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    kernels: Kernels,
    staging: Staging,
    aside: Aside,
    /// Where what is waited for lands.
    landing: Landing,
    /// The places of [`Device::fetch`].
    landings: [Landing; 2],
    graphs: Vec<CudaGraph>,
    allocations: Vec<sys::CUdeviceptr>,
    capability: (u32, u32),
    multiprocessors: u64,
    /// Bytes that a block of threads may have.
    shared_memory: u32,
    name: String,
}

// SAFETY: the driver's objects belong to a context, not to a thread; every call here first makes the context the calling thread's,
// and `&mut self` or the lack of shared references keeps two threads from calling at once.
unsafe impl Send for Driver {}

/// What the driver said, as a fault.
fn fault(doing: &str, error: DriverError) -> ExecFault {
    let text = match error.error_string() {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => "the driver gives no text".to_owned(),
    };
    ExecFault::device(format!("{doing}: {text} ({:?})", error.0))
        .help("`amp env` says which driver and libraries were found; the messages of the system may say more")
}

/// Why there is no device, and what to do.
fn absent(error: DriverError) -> ExecFault {
    let found = match error.0 {
        sys::CUresult::CUDA_ERROR_STUB_LIBRARY => {
            "the library libcuda.so.1 that was loaded is a stub for linking, not a driver"
        }
        sys::CUresult::CUDA_ERROR_NO_DEVICE => "the driver finds no CUDA device",
        _ => return fault("the CUDA driver does not start", error),
    };
    ExecFault::device(found)
        .help("run on a machine with an NVIDIA GPU and its driver (580 or later for CUDA 13), or train with `--device cpu`")
}

/// Refuses variables that would change results.
#[expect(
    clippy::disallowed_methods,
    reason = "the libraries read these variables; here they are only refused"
)]
fn refuse_variables() -> Result<(), ExecFault> {
    match REFUSED_VARIABLES.iter().find(|name| std::env::var_os(name).is_some()) {
        None => Ok(()),
        Some(name) => Err(ExecFault::device(format!(
            "the environment variable {name} is set, which changes results of cuBLAS"
        ))
        .help(format!("unset {name}; the manifest's `precision` says which formats are computed in"))),
    }
}

impl Driver {
    /// Opens the first device: one stream, the memory pool that keeps what it has, cuBLAS with fixed settings, amp's kernels.
    ///
    /// # Errors
    /// AMP0710: no driver, no device, one that is too old, or a variable that would change results.
    pub fn open() -> Result<Self, ExecFault> {
        refuse_variables()?;
        result::init().map_err(absent)?;
        if result::device::get_count().map_err(absent)? == 0 {
            return Err(absent(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)));
        }
        let candle = CudaDevice::new_with_stream(0)
            .map_err(|error| ExecFault::device(format!("the CUDA device could not be opened: {error}")))?;
        // SAFETY: there is one stream, so its order is all the synchronisation that memory needs. It is done before the first
        // allocation: events of allocations could not be captured.
        unsafe { candle.disable_event_tracking() };
        let stream = candle.cuda_stream();
        let context = Arc::clone(stream.context());
        context.bind_to_thread().map_err(|error| fault("the CUDA context", error))?;
        keep_memory(&context)?;
        let number = |number: i32| u32::try_from(number).unwrap_or(0);
        let (major, minor) = context
            .compute_capability()
            .map_err(|error| fault("asking for the compute capability", error))?;
        let capability = (number(major), number(minor));
        let count = sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let multiprocessors =
            context.attribute(count).map_err(|error| fault("asking for the multiprocessors", error))?;
        let multiprocessors = u64::try_from(multiprocessors).unwrap_or(0);
        let most = sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let shared_memory =
            context.attribute(most).map_err(|error| fault("asking for the shared memory", error))?;
        let shared_memory = number(shared_memory);
        let name = context.name().map_err(|error| fault("asking for the device's name", error))?;
        let kernels = Kernels::load(capability, &name)?;
        let (staging, aside) = (Staging::new()?, Aside::new()?);
        let [landing, landings @ ..] = [Landing::new()?, Landing::new()?, Landing::new()?];
        let (workspace, products) = Products::new(candle.cublas_handle(), stream.cu_stream())?;
        let convolutions = Convolutions::new(stream.cu_stream());
        Ok(Self {
            candle: ManuallyDrop::new(candle),
            products: ManuallyDrop::new(products),
            convolutions: ManuallyDrop::new(convolutions),
            context,
            stream,
            kernels,
            staging,
            aside,
            landing,
            landings,
            graphs: Vec::new(),
            allocations: vec![workspace],
            capability,
            multiprocessors,
            shared_memory,
            name,
        })
    }

    /// Candle's device, for ops of Candle on the same stream.
    pub fn candle(&self) -> &CudaDevice {
        &self.candle
    }

    fn bind(&self) -> Result<(), ExecFault> {
        self.context.bind_to_thread().map_err(|error| fault("the CUDA context", error))
    }

    /// Records launches as a graph.
    fn record(&mut self, launches: &[Launch]) -> Result<Option<CudaGraph>, ExecFault> {
        self.record_with(launches, |_, _| Ok(()))
    }

    /// Records launches as a graph, and what `mark` does on the stream before each of them and after the last.
    fn record_with(
        &mut self,
        launches: &[Launch],
        mark: impl Fn(usize, sys::CUstream) -> Result<(), ExecFault>,
    ) -> Result<Option<CudaGraph>, ExecFault> {
        self.bind()?;
        // Functions are loaded when they are first looked up, and loading may wait for the device: not while recording.
        // Asking the library how it makes convolutions may do anything, too.
        for launch in launches {
            match launch {
                Launch::Kernel { name, shared, .. } => {
                    self.kernels.function(name, *shared)?;
                }
                Launch::Convolution(convolution) => {
                    self.convolutions.prepare(&convolution.shape)?;
                }
                _ => {}
            }
        }
        // Relaxed: cuBLAS loads its kernels at their first use, which the other modes forbid.
        self.stream
            .begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
            .map_err(|error| fault("beginning a graph", error))?;
        let stream = self.stream.cu_stream();
        let mut numbered = launches.iter().enumerate();
        let begun = numbered
            .try_for_each(|(index, launch)| mark(index, stream).and_then(|()| self.enqueue(launch)))
            .and_then(|()| mark(launches.len(), stream));
        let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        let ended = self.stream.end_capture(flags);
        begun?;
        let Some(graph) = ended.map_err(|error| fault("ending a graph", error))? else { return Ok(None) };
        graph.upload().map_err(|error| fault("uploading a graph", error))?;
        Ok(Some(graph))
    }

    /// Begins a launch; the context is the thread's already.
    fn enqueue(&mut self, launch: &Launch) -> Result<(), ExecFault> {
        let stream = self.stream.cu_stream();
        match launch {
            Launch::Kernel { name, grid, block, shared, arguments } => {
                let function = self.kernels.function(name, *shared)?;
                let mut pointers = arguments.pointers();
                let [x, y, z] = *grid;
                // SAFETY: the function is of a loaded module; each pointer is to the bytes of an argument, which the driver
                // copies before it returns. That the arguments are those of the kernel is what the tests of `dispatch` check.
                unsafe {
                    result::launch_kernel(function, (x, y, z), (*block, 1, 1), *shared, stream, &mut pointers)
                }
                .map_err(|error| fault(&format!("launching {name}"), error))
            }
            Launch::Product(product) => self.products.enqueue(product),
            Launch::BiasedProduct(product, bias) => self.products.enqueue_with_bias(product, *bias),
            Launch::ScaledProduct(product) if self.capability >= scaled::FIRST => {
                self.products.enqueue_scaled(product)
            }
            Launch::ScaledProduct(_) => {
                let ((major, minor), (first, then)) = (self.capability, scaled::FIRST);
                Err(ExecFault::device(format!(
                    "{} (compute capability {major}.{minor}) has no FP8 products, expected {first}.{then} or later",
                    self.name
                ))
                .help("take `precision \"amp-bf16\"`, or `run … guarantee=\"portable\"`, whose products of FP8 run on any device"))
            }
            Launch::Convolution(convolution) => self.convolutions.enqueue(convolution),
            Launch::Clear { address, bytes } => {
                // SAFETY: the range is of an allocation of this device, which lives as long as it.
                unsafe { result::memset_d8_async(*address, 0, *bytes, stream) }
                    .map_err(|error| fault("clearing memory", error))
            }
            Launch::Copy { from, to, bytes } => {
                // SAFETY: both ranges are of allocations of this device, which live as long as it.
                unsafe { result::memcpy_dtod_async(*to, *from, *bytes, stream) }
                    .map_err(|error| fault("copying memory", error))
            }
        }
    }
}

/// Bytes from the device that are waited for and copied by way of page-locked memory; more than these go straight to where they belong.
const LANDING: usize = 4 << 20;

/// Lets the device's memory pool keep what Candle's tensors give back: by default a synchronisation returns it to the system.
fn keep_memory(context: &CudaContext) -> Result<(), ExecFault> {
    let mut threshold = u64::MAX;
    let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the device is the context's; the attribute is a 64-bit number.
    let done = unsafe {
        result::device::get_default_mem_pool(context.cu_device())
            .and_then(|pool| result::mem_pool::set_attribute(pool, attribute, (&raw mut threshold).cast()))
    };
    done.map_err(|error| fault("setting up the memory pool", error))
}

impl Device for Driver {
    fn allocate(&mut self, bytes: usize) -> Result<u64, ExecFault> {
        self.bind()?;
        // SAFETY: the memory is freed once, when the device is dropped. The driver refuses an allocation of nothing.
        match unsafe { result::malloc_sync(bytes.max(1)) } {
            Ok(address) => {
                self.allocations.push(address);
                Ok(address)
            }
            Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                let free = match self.memory_in_use() {
                    Some((used, total)) => {
                        format!("{} of its {} free", in_units(total.saturating_sub(used)), in_units(total))
                    }
                    None => "less".to_owned(),
                };
                let message =
                    format!("{} are needed on {}, which has {free}", in_units(bytes as u64), self.name);
                Err(ExecFault::new(codes::RUN_MEMORY, message)
                    .help("make the model or `data batch` smaller, compute in half precision, or stop what else uses the device"))
            }
            Err(error) => Err(fault("allocating memory", error)),
        }
    }

    fn upload(&mut self, address: u64, bytes: &[u8]) -> Result<(), ExecFault> {
        self.bind()?;
        self.staging.upload(address, bytes, self.stream.cu_stream())
    }

    fn upload_aside(&mut self, address: u64, bytes: &[u8]) -> Result<(), ExecFault> {
        self.bind()?;
        self.staging.upload(address, bytes, self.aside.stream())
    }

    fn join_aside(&mut self) -> Result<(), ExecFault> {
        self.bind()?;
        self.aside.join(self.stream.cu_stream())
    }

    fn free_aside(&mut self) -> Result<(), ExecFault> {
        self.bind()?;
        self.aside.free(self.stream.cu_stream())
    }

    fn download(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), ExecFault> {
        self.bind()?;
        if bytes.is_empty() {
            return self.synchronise();
        }
        if bytes.len() > LANDING {
            let (failed, stream) = (|error| fault("copying from the device", error), self.stream.cu_stream());
            // SAFETY: the range is of an allocation of this device; `bytes` stays borrowed until the copy is waited for.
            unsafe { result::memcpy_dtoh_async(bytes, address, stream) }.map_err(failed)?;
            return self.synchronise();
        }
        self.landing.fetch(address, bytes.len(), self.stream.cu_stream())?;
        bytes.copy_from_slice(self.landing.bytes()?);
        Ok(())
    }

    fn fetch(&mut self, address: u64, bytes: usize, place: usize) -> Result<(), ExecFault> {
        self.bind()?;
        self.landings[place].fetch(address, bytes, self.stream.cu_stream())
    }

    fn fetched(&mut self, place: usize) -> Result<&[u8], ExecFault> {
        self.bind()?;
        self.landings[place].bytes()
    }

    fn launch(&mut self, launch: &Launch) -> Result<(), ExecFault> {
        self.bind()?;
        self.enqueue(launch)
    }

    fn capture(&mut self, launches: &[Launch]) -> Result<Option<usize>, ExecFault> {
        let Some(graph) = self.record(launches)? else { return Ok(None) };
        self.graphs.push(graph);
        Ok(Some(self.graphs.len() - 1))
    }

    fn replay(&mut self, graph: usize) -> Result<(), ExecFault> {
        let graph =
            self.graphs.get(graph).ok_or_else(|| ExecFault::device("a graph that was not recorded"))?;
        graph.launch().map_err(|error| fault("launching a graph", error))
    }

    fn synchronise(&mut self) -> Result<(), ExecFault> {
        self.stream.synchronize().map_err(|error| fault("waiting for the device", error))
    }

    fn memory_in_use(&self) -> Option<(u64, u64)> {
        let (free, total) = self.context.mem_get_info().ok()?;
        Some((total.saturating_sub(free) as u64, total as u64))
    }

    fn units(&self) -> Units {
        // Those of 8.0 and later have tensor cores for f16, bf16 and tf32; amp's kernels run on no other.
        Units { tensor_cores: self.capability.0 >= 8, shared_memory: self.shared_memory }
    }

    fn has_convolutions(&self) -> bool {
        self.convolutions.are_there()
    }

    fn prepares(&mut self, shape: &Shape) -> Result<bool, ExecFault> {
        self.bind()?;
        self.convolutions.prepare(shape)
    }

    fn library(&self) -> Option<TunedOn> {
        Some(self.tuned_on())
    }

    fn algorithms(&mut self, asked: &Asked) -> Result<Vec<Algorithm>, ExecFault> {
        self.bind()?;
        self.products.algorithms(asked)
    }

    fn choose(&mut self, asked: &Asked, algorithm: Option<&Algorithm>) -> Result<bool, ExecFault> {
        self.bind()?;
        self.products.choose(asked, algorithm)
    }

    fn seconds_each(&mut self, launches: &[Launch]) -> Result<Option<Vec<f64>>, ExecFault> {
        self.time_each(launches)
    }

    fn seconds(&mut self, launches: &[Launch]) -> Result<f64, ExecFault> {
        self.time(launches)
    }

    fn platform(&self) -> String {
        let (major, minor) = self.capability;
        // Code that the driver compiled may change with the driver, so its results are another platform's.
        let compiled = if self.kernels.compiled_by_driver() { "-jit" } else { "" };
        format!("cuda-sm{major}{minor}{compiled}")
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let works = self.context.bind_to_thread().is_ok() && self.stream.synchronize().is_ok();
        self.graphs.clear();
        if !works {
            // After a failed launch every call fails, and Candle's handles panic when they cannot be destroyed. The process
            // is about to end, and the driver frees everything then.
            return;
        }
        // SAFETY: none is used again, and the handles go before the workspace and the context.
        unsafe {
            ManuallyDrop::drop(&mut self.convolutions);
            ManuallyDrop::drop(&mut self.products);
            ManuallyDrop::drop(&mut self.candle);
        }
        self.kernels.unload();
        self.staging.free();
        self.aside.close();
        self.landings.iter_mut().chain([&mut self.landing]).for_each(Landing::free);
        for address in self.allocations.drain(..) {
            // SAFETY: it came from `malloc_sync`, nothing runs any more, and it is freed once. A failure leaves it to the driver.
            let _ = unsafe { result::free_sync(address) };
        }
    }
}
