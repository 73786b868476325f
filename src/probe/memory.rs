//! How much memory this process may take: the machine's, or less, when a limit was set for the process or its control group.
//!
//! The parsing is pure; [`MemoryLimit::probe`] reads. Only the least of all limits is told, with who sets it, since that one
//! ends the process.

use super::linux::read;

/// The least limit on the memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Bytes that it may still take, as far as the system tells.
    pub bytes: u64,
    /// Who sets the limit, as the subject of a sentence.
    pub by: &'static str,
    /// How to raise it, if it can be.
    pub raise: Option<&'static str>,
}

impl MemoryLimit {
    /// Asks the system; `None` where it does not tell.
    pub fn probe() -> Option<Self> {
        let limits = read("/proc/self/limits");
        let status = read("/proc/self/status");
        let left = |limit: Option<u64>, used: &str| {
            limit.map(|limit| limit.saturating_sub(kibibytes(&status, used).unwrap_or(0)))
        };
        let (machine, address) = ("this machine", "the limit on addresses of this process");
        let (data, group) = ("the limit on data of this process", "the control group of this process");
        let found = [
            (super::linux::memory_bytes(&read("/proc/meminfo")), machine, None),
            (
                left(process_limit(&limits, "Max address space"), "VmSize"),
                address,
                Some("`ulimit -v unlimited`"),
            ),
            (left(process_limit(&limits, "Max data size"), "VmData"), data, Some("`ulimit -d unlimited`")),
            (group_limit(), group, Some("give the container or the service more memory")),
        ];
        let known =
            found.into_iter().filter_map(|(bytes, by, raise)| Some(Self { bytes: bytes?, by, raise }));
        known.min_by_key(|limit| limit.bytes)
    }
}

/// The most memory that this process ever held, in bytes; `None` where the system does not tell.
pub fn peak_memory() -> Option<u64> {
    peak_of(&read("/proc/self/status"))
}

/// `VmHWM` of `/proc/self/status`.
pub(super) fn peak_of(status: &str) -> Option<u64> {
    kibibytes(status, "VmHWM")
}

/// The soft limit of a line of `/proc/self/limits` in bytes; `None` when there is none or it is unlimited.
pub(super) fn process_limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A line of `/proc/self/status` that counts in KiB, in bytes.
fn kibibytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The folders of a process's control group from its own up to the root, by `/proc/self/cgroup` (version 2).
pub(super) fn groups(cgroup: &str) -> Vec<String> {
    let Some(path) = cgroup.lines().find_map(|line| line.strip_prefix("0::")) else { return Vec::new() };
    let mut path = path.trim().trim_end_matches('/');
    let mut folders = vec![format!("/sys/fs/cgroup{path}")];
    while let Some((above, _)) = path.rsplit_once('/') {
        path = above;
        folders.push(format!("/sys/fs/cgroup{path}"));
    }
    folders
}

/// The least `memory.max` of the process's control group and those above it.
fn group_limit() -> Option<u64> {
    let limit = |folder: String| read(&format!("{folder}/memory.max")).trim().parse().ok();
    groups(&read("/proc/self/cgroup")).into_iter().filter_map(limit).min()
}
