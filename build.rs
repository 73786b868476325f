//! With the feature `cuda`: compiles every `src/exec/cuda/kernels/*.cu` by nvcc, and writes a table of the results.
//!
//! An image is kept while what it was made of is the same: headers are many files', so a change of one makes all again.
//!
//! **Invariant: the images depend on the sources and the compiler alone**, not on folders, names of users or the machine's GPU: nvcc
//! is given relative names, nothing about lines, and all of the targets below. Without the feature nothing is done.
#![expect(
    clippy::disallowed_methods,
    reason = "a build script reads the variables of cargo and starts the compiler"
)]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

const KERNELS: &str = "src/exec/cuda/kernels";

/// What is compiled of each file: suffix of the image, and how nvcc is told. A cubin runs on devices of its major capability; the PTX
/// is compiled by the driver of a later one. Code for 9.0, which is the only capability of its major number, takes products of groups
/// of warps, that no other has (`sm_90a`).
const TARGETS: [(&str, &[&str]); 3] = [
    ("sm_80", &["-cubin", "-arch=sm_80"]),
    ("sm_90", &["-cubin", "-gencode=arch=compute_90a,code=sm_90a"]),
    ("compute_90", &["-ptx", "-arch=compute_90"]),
];

/// Arithmetic as written: no contraction, subnormal numbers kept, division and square root rounded correctly.
const FLAGS: [&str; 8] = [
    "-std=c++17",
    "-O3",
    "--expt-relaxed-constexpr",
    "-fmad=false",
    "-ftz=false",
    "-prec-div=true",
    "-prec-sqrt=true",
    "-Werror=all-warnings",
];

/// What names that nvcc makes for internal linkage have in them.
const INTERNAL: &[u8] = b"_INTERNAL_";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    println!("cargo::rerun-if-changed={KERNELS}");
    println!("cargo::rerun-if-env-changed=CUDA_HOME");
    if let Err(message) = build() {
        // A line of the message is a line of cargo's.
        for line in message.lines() {
            println!("cargo::error={line}");
        }
    }
}

/// Compiles all, some at a time.
fn build() -> Result<(), String> {
    let output = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo gave no OUT_DIR")?);
    let compiler = compiler()?;
    let names = sources()?;
    let common = common(&compiler)?;
    let jobs: Vec<_> = names.iter().flat_map(|name| TARGETS.map(|target| (name.as_str(), target))).collect();
    let workers = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1_usize);
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((name, target)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            compile(&compiler, name, *target, (&output, common.clone()))?;
        }
        Ok(())
    };
    let results: Vec<Result<(), String>> = thread::scope(|scope| {
        let started: Vec<_> = (0..workers.min(jobs.len())).map(|_| scope.spawn(work)).collect();
        let ended = started.into_iter().map(|worker| worker.join());
        ended.map(|end| end.unwrap_or_else(|_| Err("a thread of the build ended early".to_owned()))).collect()
    });
    let faults: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    if !faults.is_empty() {
        return Err(faults.join("\n"));
    }
    table(&names, &output)
}

/// The compiler, and its version as a check that it is one.
fn compiler() -> Result<PathBuf, String> {
    let compiler = match env::var_os("CUDA_HOME") {
        Some(home) => Path::new(&home).join("bin").join("nvcc"),
        None => PathBuf::from("nvcc"),
    };
    match Command::new(&compiler).arg("--version").output() {
        Ok(answer) if answer.status.success() => Ok(compiler),
        answer => Err(format!(
            "the feature `cuda` needs nvcc of CUDA 13, and `{}` does not run ({}).\n\
             Set CUDA_HOME to a toolkit, or make one with `tools/cuda-toolkit` and do the two exports that it prints; see docs/cuda.md",
            compiler.display(),
            answer.map_or_else(|error| error.to_string(), |answer| answer.status.to_string())
        )),
    }
}

/// The files to compile, without their ending, sorted.
fn sources() -> Result<Vec<String>, String> {
    files("cu")
}

/// The kernels' files with this ending, without it, sorted.
fn files(wanted: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(KERNELS).map_err(|error| format!("{KERNELS}: {error}"))? {
        let path = entry.map_err(|error| format!("{KERNELS}: {error}"))?.path();
        if path.extension().is_some_and(|ending| ending == wanted) {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            names.push(stem.ok_or_else(|| format!("{}: the name is not UTF-8", path.display()))?.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// What every image is made of: the compiler by its answer, the flags, the headers.
fn common(compiler: &Path) -> Result<DefaultHasher, String> {
    let mut hasher = DefaultHasher::new();
    let version =
        Command::new(compiler).arg("--version").output().map_err(|error| format!("nvcc: {error}"))?;
    (version.stdout, FLAGS).hash(&mut hasher);
    for header in files("cuh")? {
        (&header, read(&format!("{KERNELS}/{header}.cuh"))?).hash(&mut hasher);
    }
    Ok(hasher)
}

fn read(path: &str) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{path}: {error}"))
}

/// Compiles one file for one target, unless the image that is there was made of the same.
fn compile(
    compiler: &Path,
    name: &str,
    (target, arguments): (&str, &[&str]),
    (output, mut made_of): (&Path, DefaultHasher),
) -> Result<(), String> {
    let image = output.join(format!("{name}.{target}"));
    (arguments, read(&format!("{KERNELS}/{name}.cu"))?).hash(&mut made_of);
    let (stamp, made_of) = (output.join(format!("{name}.{target}.made-of")), made_of.finish().to_string());
    if image.is_file() && fs::read_to_string(&stamp).is_ok_and(|before| before == made_of) {
        return Ok(());
    }
    // A stamp says of a whole image what it was made of, so it goes before and comes after.
    let _ = fs::remove_file(&stamp);
    let answer = Command::new(compiler)
        .current_dir(KERNELS)
        .args(FLAGS)
        .args(arguments)
        .arg("-o")
        .arg(&image)
        .arg(format!("{name}.cu"))
        .output()
        .map_err(|error| format!("nvcc: {error}"))?;
    if !answer.status.success() {
        let told = [answer.stdout, answer.stderr].concat();
        return Err(format!("{KERNELS}/{name}.cu for {target}:\n{}", String::from_utf8_lossy(&told)));
    }
    let mut bytes = fs::read(&image).map_err(|error| format!("{}: {error}", image.display()))?;
    // nvcc names what has internal linkage by a hash of the file's whole path.
    if bytes.windows(INTERNAL.len()).any(|window| window == INTERNAL) {
        return Err(format!(
            "{KERNELS}/{name}.cu: the image would depend on the folder it was compiled in; \
             write no unnamed namespaces and no static variables outside functions"
        ));
    }
    if arguments.contains(&"-ptx") {
        // The driver reads PTX up to a zero.
        bytes.push(0);
        fs::write(&image, bytes).map_err(|error| format!("{}: {error}", image.display()))?;
    }
    fs::write(&stamp, made_of).map_err(|error| format!("{}: {error}", stamp.display()))
}

/// Writes the table that `src/probe/images.rs` includes.
fn table(names: &[String], output: &Path) -> Result<(), String> {
    let mut text = String::from("[\n");
    for name in names {
        for (target, _) in TARGETS {
            text += &format!(
                "    Image {{ file: {name:?}, target: {target:?}, bytes: include_bytes!(concat!(env!(\"OUT_DIR\"), {:?})) }},\n",
                format!("/{name}.{target}")
            );
        }
    }
    text += "]\n";
    let path = output.join("images.rs");
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}
