//! amp's kernels on a device: the images of its capability, and their functions by name.

use super::fault;
use crate::exec::fault::ExecFault;
use crate::probe::images::{IMAGES, target_for};
use cudarc::driver::{result, sys};
use std::collections::BTreeMap;
use std::ffi::CString;

/// Loaded modules.
pub(super) struct Kernels {
    modules: Vec<sys::CUmodule>,
    /// Those that were looked up, with the bytes of shared memory that a launch may ask for.
    functions: BTreeMap<&'static str, (sys::CUfunction, u32)>,
    compiled_by_driver: bool,
}

impl Kernels {
    /// Loads the images for a device into the context of this thread.
    ///
    /// # Errors
    /// A device that no image fits, or the driver's own.
    pub fn load(capability: (u32, u32), device: &str) -> Result<Self, ExecFault> {
        let (major, minor) = capability;
        let Some((target, compiled_by_driver)) = target_for(capability) else {
            let found = format!("{device} has compute capability {major}.{minor}, expected 8.0 or later");
            return Err(ExecFault::device(found).help("train on a newer GPU, or with `--device cpu`"));
        };
        let mut loaded = Self { modules: Vec::new(), functions: BTreeMap::new(), compiled_by_driver };
        for image in IMAGES.iter().filter(|image| image.target == target) {
            let aligned = aligned(image.bytes);
            // SAFETY: the bytes are an ELF file or text with a zero at its end; the driver copies what it needs.
            let module = unsafe { result::module::load_data(aligned.as_ptr().cast()) }.map_err(|error| {
                fault(&format!("loading the kernels `{}` for {target}", image.file), error)
            })?;
            loaded.modules.push(module);
        }
        Ok(loaded)
    }

    /// A kernel by name, whose launches may ask for so many bytes of shared memory.
    ///
    /// # Errors
    /// A name that no kernel of this build has, or the driver's own.
    pub fn function(&mut self, name: &'static str, shared: u32) -> Result<sys::CUfunction, ExecFault> {
        let found = match self.functions.get(name) {
            Some((function, allowed)) if *allowed >= shared => return Ok(*function),
            Some((function, _)) => *function,
            None => self.look_up(name)?,
        };
        if shared > 0 {
            let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let bytes = i32::try_from(shared).unwrap_or(i32::MAX);
            // SAFETY: the function is of a loaded module.
            unsafe { result::function::set_function_attribute(found, attribute, bytes) }
                .map_err(|error| fault(&format!("{shared} bytes of shared memory for `{name}`"), error))?;
        }
        self.functions.insert(name, (found, shared));
        Ok(found)
    }

    fn look_up(&self, name: &'static str) -> Result<sys::CUfunction, ExecFault> {
        let wanted =
            CString::new(name).map_err(|_| ExecFault::device(format!("no kernel is called {name:?}")))?;
        for module in &self.modules {
            // SAFETY: the module is loaded.
            match unsafe { result::module::get_function(*module, wanted.clone()) } {
                Ok(function) => return Ok(function),
                Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NOT_FOUND => {}
                Err(error) => return Err(fault(&format!("looking up the kernel `{name}`"), error)),
            }
        }
        Err(ExecFault::device(format!("this build has no kernel `{name}`"))
            .help("build amp anew, with all of src/exec/cuda/kernels"))
    }

    /// Whether the driver compiled them from PTX.
    pub fn compiled_by_driver(&self) -> bool {
        self.compiled_by_driver
    }

    /// Unloads everything; the context must be this thread's, and nothing may run.
    pub fn unload(&mut self) {
        self.functions.clear();
        for module in self.modules.drain(..) {
            // SAFETY: it is loaded, and unloaded once. A failure leaves it to the driver.
            let _ = unsafe { result::module::unload(module) };
        }
    }
}

/// A copy that begins at a multiple of 8, which bytes in the program need not, and that ends with zeros.
fn aligned(bytes: &[u8]) -> Vec<u64> {
    let whole = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    });
    whole.chain([0]).collect()
}
