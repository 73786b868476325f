//! The portable functions of the kernels against those of the host, bit for bit.

use super::devices;
use crate::arithmetic::functions::{self, cos, erf, exp, log, sin, tanh};
use crate::arithmetic::philox::Stream;
use crate::exec::cuda::device::Device;
use crate::exec::cuda::launch::{Arguments, Launches, Tensor};
use crate::exec::reference::activation::Activation;

/// A function's name, and the function on the host.
pub(in crate::exec::cuda) type Named = (&'static str, fn(f32) -> f32);

/// The functions by the numbers that the kernel `test_function` knows them by.
pub(in crate::exec::cuda) const FUNCTIONS: [Named; 10] = [
    ("exp", exp),
    ("log", log),
    ("tanh", tanh),
    ("erf", erf),
    ("sin", sin),
    ("cos", cos),
    ("sigmoid", |x| Activation::Sigmoid.apply(x)),
    ("silu", |x| Activation::Silu.apply(x)),
    ("gelu", |x| Activation::GeluErf.apply(x)),
    ("gelu of tanh", |x| Activation::GeluTanh.apply(x)),
];

pub(super) fn launch(device: &mut dyn Device, name: &'static str, threads: usize, arguments: Arguments) {
    let mut launches = Launches::new(0, 0);
    launches.each(name, threads, arguments);
    launches.list.iter().for_each(|launch| device.launch(launch).expect("it runs"));
}

/// Every bit pattern at a stride, those around zero, one, the largest and infinity, and many of usual size.
fn inputs() -> Vec<f32> {
    let patterns = (0..1_u32 << 17).map(|index| f32::from_bits(index.wrapping_mul(32_749)));
    let centres = [0_u32, 0x0080_0000, 0x3f80_0000, 0x3f40_0000, 0x42dc_0000, 0x7f80_0000, 0x7fc0_0000];
    let near = centres.into_iter().flat_map(|centre| {
        (0..64_u32).flat_map(move |step| [centre.wrapping_add(step), centre.wrapping_sub(step)])
    });
    let near = near.flat_map(|bits| [f32::from_bits(bits), -f32::from_bits(bits)]);
    let usual = (0..1_u32 << 16).map(|index| (index as f32 - 32_768.0) * (1.0 / 2048.0));
    patterns.chain(near).chain(usual).collect()
}

#[test]
fn functions_have_the_bits_of_the_host() {
    for mut device in devices() {
        let inputs = inputs();
        let bytes: Vec<u8> = inputs.iter().flat_map(|x| x.to_le_bytes()).collect();
        let [x, y] = [0; 2].map(|_| device.allocate(bytes.len()).expect("there is memory"));
        device.upload(x, &bytes).expect("it fits");
        for (number, (name, function)) in (0..).zip(FUNCTIONS) {
            let arguments = Arguments::new().int(number).tensor(Tensor::f32(x)).tensor(Tensor::f32(y));
            launch(&mut *device, "test_function", inputs.len(), arguments.size(inputs.len()));
            let mut found = vec![0; bytes.len()];
            device.download(y, &mut found).expect("it is there");
            for (x, found) in inputs.iter().zip(found.as_chunks::<4>().0) {
                let (found, expected) = (f32::from_le_bytes(*found), function(*x));
                assert!(
                    found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
                    "{name}({x:e}) is {expected:e}, the kernel has {found:e}"
                );
            }
        }
    }
}

#[test]
fn random_words_are_those_of_the_host() {
    for mut device in devices() {
        let words = device.allocate(4 * 1000).expect("there is memory");
        for (seed, step, first) in [(0, 0, 0), (17, 5, 3), (u64::MAX, 1 << 40, 4 << 33)] {
            let stream = Stream::new(seed, 9);
            let arguments =
                Arguments::new().address(stream.key()).address(step).address(first).address(words);
            launch(&mut *device, "test_philox", 1000, arguments.size(1000));
            let mut found = vec![0; 4000];
            device.download(words, &mut found).expect("it is there");
            for (word, element) in found.as_chunks::<4>().0.iter().zip(first..) {
                assert_eq!(u32::from_le_bytes(*word), stream.word(step, element));
            }
        }
    }
}

#[test]
fn powers_are_those_of_the_host() {
    for mut device in devices() {
        let place = device.allocate(8).expect("there is memory");
        for (base, exponent) in [(0.9, 0), (0.9, 1), (0.999, 12_345), (0.95, 1 << 40), (-1.5, 77)] {
            let arguments = Arguments::new().double(base).address(exponent).address(place);
            launch(&mut *device, "test_power", 1, arguments);
            let mut found = [0; 8];
            device.download(place, &mut found).expect("it is there");
            assert_eq!(f64::from_le_bytes(found).to_bits(), functions::power(base, exponent).to_bits());
        }
    }
}

/// The bits of a hexadecimal literal as C++ and Python write them: a sign, one digit, 13 digits, a power of two.
fn bits_of_literal(literal: &str) -> u64 {
    if let Some(word) = literal.strip_suffix("ull") {
        let hexadecimal = word.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
        return hexadecimal.unwrap_or_else(|| word.parse()).expect("a whole number");
    }
    let (sign, rest) = literal.strip_prefix('-').map_or((0, literal), |rest| (1 << 63, rest));
    if rest == "0x0.0p+0" {
        return sign;
    }
    let (digits, power) =
        rest.strip_prefix("0x1.").and_then(|rest| rest.split_once('p')).expect("a normal number");
    assert_eq!(digits.len(), 13, "{literal}");
    let power: i64 = power.parse().expect("a power");
    let exponent = u64::try_from(power + 1023).expect("a normal number");
    sign | exponent << 52 | u64::from_str_radix(digits, 16).expect("digits")
}

#[test]
fn constants_have_the_bits_of_the_host() {
    let device = include_str!("../kernels/constants.cuh");
    let host = include_str!("../../../arithmetic/functions/constants.rs");
    let mut compared = 0;
    for definition in host.split("pub const ").skip(1) {
        let (name, value) = definition.split_once(':').expect("a type follows the name");
        let value: String = value.lines().map(|line| line.split("//").next().unwrap_or(line)).collect();
        let value = value.split_once('=').expect("a value").1.split(';').next().expect("its end");
        let words = value.split(|c: char| !c.is_alphanumeric()).filter(|word| word.starts_with("0x"));
        let words =
            words.map(|word| u64::from_str_radix(&word[2..], 16).expect("a word")).collect::<Vec<_>>();
        let line = device.lines().find_map(|line| line.strip_prefix(&format!("#define PORTABLE_{name} ")));
        let line = line.unwrap_or_else(|| panic!("{name} is missing: run constants.py"));
        let literals = line.trim_matches(['{', '}']).split(", ").map(bits_of_literal);
        let literals: Vec<u64> = literals.collect();
        let plain_zero = usize::from(name == "TWO_OVER_PI_BITS");
        assert_eq!(literals[plain_zero..], words, "{name}: run constants.py");
        compared += words.len();
    }
    assert_eq!(compared, 118);
}
