//! Asks the driver and the libraries of CUDA what they are, through the functions that they export.
//!
//! They are opened by name, as a run opens them, so the answers are those of the files that a run computes with. A missing one is a
//! finding. What was opened stays open until the process ends: some libraries do not bear being closed.

use super::cuda::{Device, Kernels, Library, Parts};
use super::images::IMAGES;
use super::linux;
use crate::digest::{Digest, Hasher};
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::io::Read;

/// Success of the driver's functions.
const SUCCESS: c_int = 0;
/// Attributes of `cuDeviceGetAttribute`: `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`, `…_COMPUTE_CAPABILITY_MAJOR`, `…_MINOR`.
const MULTIPROCESSORS: c_int = 16;
const CAPABILITY_MAJOR: c_int = 75;
const CAPABILITY_MINOR: c_int = 76;

/// How a library tells its version.
#[derive(Clone, Copy)]
enum Asked {
    /// `status function(int*)`: thousands are the major version, tens the minor one.
    Runtime(&'static CStr),
    /// `status function(property, int*)`: properties 0, 1 and 2 are major, minor and patch.
    Property(&'static CStr),
    /// `size_t function()`: the factors of major and minor; the rest is the patch.
    Number(&'static CStr, [usize; 2]),
    /// `status function(int*)`: the number is major · 10000 + minor · 100 + patch.
    Filled(&'static CStr),
}

/// The file of cuDNN, which runs open too.
pub const CUDNN: &str = "libcudnn.so.9";

/// The libraries: the name of pins, the file of CUDA 13, and the question.
const LIBRARIES: [(&str, &str, Asked); 5] = [
    ("cuda", "libcudart.so.13", Asked::Runtime(c"cudaRuntimeGetVersion")),
    ("cublas", "libcublas.so.13", Asked::Property(c"cublasGetProperty")),
    ("cublaslt", "libcublasLt.so.13", Asked::Property(c"cublasLtGetProperty")),
    ("cudnn", CUDNN, Asked::Number(c"cudnnGetVersion", [10_000, 100])),
    ("nccl", "libnccl.so.2", Asked::Filled(c"ncclGetVersion")),
];

/// Everything but the digests.
pub fn probe() -> Parts {
    let driver = open("libcuda.so.1");
    let device = match &driver {
        Some(driver) => device(driver),
        None => Err("the driver's library libcuda.so.1 is not there".to_owned()),
    };
    let found: Vec<(&'static str, &str, Option<String>)> = LIBRARIES
        .iter()
        .map(|(name, file, asked)| (*name, *file, open(file).and_then(|library| version(library, *asked))))
        .collect();
    // Read after all is loaded.
    let maps = linux::read("/proc/self/maps");
    let libraries = found
        .into_iter()
        .map(|(name, file, version)| {
            let path = version.as_ref().and_then(|_| loaded_path(&maps, file));
            Library { name, version, path, digest: None }
        })
        .collect();
    let told = driver_version(&linux::read("/proc/driver/nvidia/version"));
    Parts { device, driver: told, libraries, kernels: Vec::new() }
}

/// Adds the digests of the libraries' files and of amp's kernels: a second or so of reading.
pub fn add_digests(parts: &mut Parts) {
    for library in &mut parts.libraries {
        library.digest = library.path.as_deref().and_then(file_digest);
    }
    parts.kernels = IMAGES
        .iter()
        .map(|image| Kernels {
            file: image.file,
            target: image.target,
            digest: Digest::of_bytes(image.bytes),
        })
        .collect();
}

/// Opens a library by the loader's rules and keeps it open.
pub fn open(file: &str) -> Option<&'static libloading::Library> {
    // SAFETY: the initialisers of these libraries are those that every CUDA program runs at its start.
    let library = unsafe { libloading::Library::new(file) }.ok()?;
    Some(Box::leak(Box::new(library)))
}

/// The version that a library tells.
fn version(library: &libloading::Library, asked: Asked) -> Option<String> {
    let three = |number: usize, [major, minor]: [usize; 2]| {
        format!("{}.{}.{}", number / major, number % major / minor, number % minor)
    };
    match asked {
        Asked::Runtime(function) => {
            let number = filled(library, function)?;
            Some(format!("{}.{}", number / 1000, number % 1000 / 10))
        }
        Asked::Filled(function) => {
            Some(three(usize::try_from(filled(library, function)?).ok()?, [10_000, 100]))
        }
        Asked::Number(function, factors) => {
            // SAFETY: the type is that of the function in the library's header.
            let ask = unsafe { library.get::<unsafe extern "C" fn() -> usize>(function.to_bytes_with_nul()) };
            // SAFETY: it takes nothing and changes nothing.
            Some(three(unsafe { ask.ok()?() }, factors))
        }
        Asked::Property(function) => {
            type Ask = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
            // SAFETY: the type is that of the function in the library's header.
            let ask = unsafe { library.get::<Ask>(function.to_bytes_with_nul()) }.ok()?;
            let numbers: Option<Vec<String>> = (0..3)
                .map(|property| {
                    let mut number = 0;
                    // SAFETY: it writes one int.
                    (unsafe { ask(property, &raw mut number) } == SUCCESS).then(|| number.to_string())
                })
                .collect();
            numbers.map(|numbers| numbers.join("."))
        }
    }
}

/// The number that a function writes where it is told to.
fn filled(library: &libloading::Library, function: &CStr) -> Option<c_int> {
    type Ask = unsafe extern "C" fn(*mut c_int) -> c_int;
    // SAFETY: the type is that of the function in the library's header.
    let ask = unsafe { library.get::<Ask>(function.to_bytes_with_nul()) }.ok()?;
    let mut number = 0;
    // SAFETY: it writes one int.
    (unsafe { ask(&raw mut number) } == SUCCESS).then_some(number)
}

/// The first device that the driver shows.
fn device(driver: &libloading::Library) -> Result<Device, String> {
    let call = |answer: Option<c_int>, function: &str| match answer {
        Some(SUCCESS) => Ok(()),
        Some(code) => Err(format!("{function}: {}", told(driver, code))),
        None => Err(format!("the driver's library has no function {function}")),
    };
    macro_rules! ask {
        ($function:literal, fn($($type:ty),*), $($argument:expr),*) => {{
            // SAFETY: the type is that of the function in cuda.h; the pointers are to values of this function.
            let answer = unsafe {
                driver
                    .get::<unsafe extern "C" fn($($type),*) -> c_int>(concat!($function, "\0").as_bytes())
                    .ok()
                    .map(|function| function($($argument),*))
            };
            call(answer, $function)?;
        }};
    }
    ask!("cuInit", fn(c_uint), 0);
    let mut ordinal: c_int = 0;
    ask!("cuDeviceGet", fn(*mut c_int, c_int), &raw mut ordinal, 0);
    let mut name: [c_char; 256] = [0; 256];
    ask!("cuDeviceGetName", fn(*mut c_char, c_int, c_int), name.as_mut_ptr(), 255, ordinal);
    let mut memory: usize = 0;
    ask!("cuDeviceTotalMem_v2", fn(*mut usize, c_int), &raw mut memory, ordinal);
    let mut numbers: [c_int; 3] = [0; 3];
    for (number, attribute) in numbers.iter_mut().zip([MULTIPROCESSORS, CAPABILITY_MAJOR, CAPABILITY_MINOR]) {
        ask!("cuDeviceGetAttribute", fn(*mut c_int, c_int, c_int), &raw mut *number, attribute, ordinal);
    }
    let [multiprocessors, major, minor] = numbers.map(|number| u32::try_from(number).unwrap_or(0));
    let name: Vec<u8> = name.iter().map(|byte| byte.cast_unsigned()).take_while(|byte| *byte != 0).collect();
    Ok(Device {
        name: String::from_utf8_lossy(&name).into_owned(),
        capability: (major, minor),
        multiprocessors,
        memory_bytes: memory as u64,
    })
}

/// What an error of the driver means, in the driver's words where it has some.
fn told(driver: &libloading::Library, code: c_int) -> String {
    type Ask = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
    // CUDA_ERROR_STUB_LIBRARY: its own functions answer nothing either.
    if code == 34 {
        return "the library libcuda.so.1 that was loaded is a stub for linking, not a driver".to_owned();
    }
    let mut text = std::ptr::null();
    // SAFETY: the type is that of the function in cuda.h; it writes one pointer.
    let answer = unsafe {
        driver.get::<Ask>(b"cuGetErrorString\0").ok().map(|function| function(code, &raw mut text))
    };
    if answer == Some(SUCCESS) && !text.is_null() {
        // SAFETY: the driver wrote the address of a text that lives as long as the library.
        return format!("{} (error {code})", unsafe { CStr::from_ptr(text) }.to_string_lossy());
    }
    format!("error {code}")
}

/// The file of a loaded library in `/proc/self/maps`: the library's own name, or that name with more of its version.
pub(super) fn loaded_path(maps: &str, file: &str) -> Option<String> {
    maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..])).find_map(|path| {
        let name = path.rsplit('/').next()?;
        let rest = name.strip_prefix(file)?;
        (rest.is_empty() || rest.starts_with('.')).then(|| path.to_owned())
    })
}

/// The version in `/proc/driver/nvidia/version`: the first word of numbers and points after `Kernel Module`.
pub(super) fn driver_version(text: &str) -> Option<String> {
    let (_, after) = text.lines().next()?.split_once("Kernel Module")?;
    after
        .split_whitespace()
        .find(|word| word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
        .map(str::to_owned)
}

/// The digest of a file, read piece by piece.
fn file_digest(path: &str) -> Option<Digest> {
    let mut file = fs_err::File::open(path).ok()?;
    let mut hasher = Hasher::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece).ok()? {
            0 => return Some(hasher.finish()),
            read => hasher.raw(&piece[..read]),
        }
    }
}
