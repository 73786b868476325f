//! The texts that Linux gives about a machine, and what they say. The parsing is pure; reading is one function.

use std::io::Read as _;

/// Reads a file of `/proc` or `/etc`; nothing on systems that have none.
pub fn read(path: &str) -> String {
    // Files of the system tell no length: without room they are read in ten pieces.
    let mut bytes = Vec::with_capacity(1 << 13);
    match fs_err::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)) {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    }
}

/// The model name in `/proc/cpuinfo`: `model name` on x86, `Model` or `Hardware` on small ARM boards.
pub fn cpu_model(cpuinfo: &str) -> Option<String> {
    ["model name", "Model", "Hardware"].iter().find_map(|key| value(cpuinfo, key, ':')).map(|name| {
        // Vendors pad their names.
        name.split_whitespace().collect::<Vec<_>>().join(" ")
    })
}

/// `MemTotal` of `/proc/meminfo` in bytes; the file counts in KiB.
pub fn memory_bytes(meminfo: &str) -> Option<u64> {
    let kibibytes: u64 = value(meminfo, "MemTotal", ':')?.strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// `PRETTY_NAME` of `/etc/os-release`.
pub fn system_name(os_release: &str) -> Option<String> {
    value(os_release, "PRETTY_NAME", '=').map(|name| name.trim_matches(['"', '\'']).to_owned())
}

/// The trimmed text after `key` and the separator, in the first line that has it and is not empty.
fn value(text: &str, key: &str, separator: char) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(separator))
        .find(|(name, value)| name.trim() == key && !value.trim().is_empty())
        .map(|(_, value)| value.trim().to_owned())
}
