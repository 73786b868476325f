//! The two messages that a file of events needs, in the wire form of protocol buffers.
//!
//! `Event { wall_time: double = 1, step: int64 = 2, file_version: string = 3, summary: Summary = 5 }`,
//! `Summary { value: repeated Value = 1 }`, `Value { tag: string = 1, simple_value: float = 2, metadata: SummaryMetadata = 9 }`,
//! `SummaryMetadata { plugin_data: PluginData = 1 }`, `PluginData { plugin_name: string = 1 }`.

/// How a field is written.
#[derive(Clone, Copy)]
enum Kind {
    Varint = 0,
    Eight = 1,
    Bytes = 2,
    Four = 5,
}

/// The event that begins a file.
pub fn version(time: f64, version: &str) -> Vec<u8> {
    let mut out = Vec::new();
    eight(1, time, &mut out);
    bytes(3, version.as_bytes(), &mut out);
    out
}

/// An event with scalars of a step.
pub fn scalars(time: f64, step: u64, values: &[(String, f32)]) -> Vec<u8> {
    let mut plugin = Vec::new();
    bytes(1, b"scalars", &mut plugin);
    let mut metadata = Vec::new();
    bytes(1, &plugin, &mut metadata);
    let mut summary = Vec::new();
    for (tag, value) in values {
        let mut message = Vec::new();
        bytes(1, tag.as_bytes(), &mut message);
        key(2, Kind::Four, &mut message);
        message.extend(value.to_le_bytes());
        bytes(9, &metadata, &mut message);
        bytes(1, &message, &mut summary);
    }
    let mut out = Vec::new();
    eight(1, time, &mut out);
    key(2, Kind::Varint, &mut out);
    varint(step, &mut out);
    bytes(5, &summary, &mut out);
    out
}

fn key(field: u64, kind: Kind, out: &mut Vec<u8>) {
    varint(field << 3 | kind as u64, out);
}

fn eight(field: u64, value: f64, out: &mut Vec<u8>) {
    key(field, Kind::Eight, out);
    out.extend(value.to_le_bytes());
}

fn bytes(field: u64, value: &[u8], out: &mut Vec<u8>) {
    key(field, Kind::Bytes, out);
    varint(value.len() as u64, out);
    out.extend(value);
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 127 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}
