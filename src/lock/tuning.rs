//! What was chosen for a platform by measuring: the algorithms of a library's matrix products, and on what they were timed.
//!
//! In a platform node that is one line for the library and one for each product whose algorithm was chosen:
//!
//! ```text
//!     product.bf16.16384x3072x768.nt.bias "cublaslt" algorithm=66 cluster=3 custom=1 inner=0 splits=1 stages=35 swizzle=0 tile=29
//!     tuned "NVIDIA H200" library="cublaslt" multiprocessors=132 version=130100
//! ```
//!
//! Other products are made as the library and amp choose without measuring. Bits may depend on every one of these words.

use super::model::{Entry, Platform};
use std::collections::BTreeMap;

/// Name of the line that says on what products were timed.
pub const TUNED: &str = "tuned";
/// What the names of lines of products begin with.
pub const PRODUCT: &str = "product.";

/// On what products were timed: their algorithms mean nothing elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunedOn {
    /// Name of the device's model.
    pub device: String,
    /// How many multiprocessors it has.
    pub multiprocessors: u64,
    /// The library that makes the products.
    pub library: String,
    /// Its version, as it numbers itself.
    pub version: u64,
}

/// How a library makes a product, in its own numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Algorithm {
    /// Its number.
    pub id: u32,
    /// Shape of the part of the result that a block makes.
    pub tile: u32,
    /// How operands are staged in shared memory.
    pub stages: u32,
    /// Parts that the sums are cut into; 1 is none.
    pub splits: u32,
    /// Order of the blocks.
    pub swizzle: u32,
    /// What only the algorithm knows.
    pub custom: u32,
    /// Shape of the instruction.
    pub inner: u32,
    /// Shape of the groups of blocks.
    pub cluster: u32,
}

/// Names of an algorithm's numbers in a lock, in the order of [`Algorithm::numbers`].
const NUMBERS: [&str; 8] = ["algorithm", "tile", "stages", "splits", "swizzle", "custom", "inner", "cluster"];
/// Names of the numbers of a `tuned` line.
const MACHINE: [&str; 2] = ["multiprocessors", "version"];

impl Algorithm {
    fn numbers(&self) -> [u32; 8] {
        let Self { id, tile, stages, splits, swizzle, custom, inner, cluster } = *self;
        [id, tile, stages, splits, swizzle, custom, inner, cluster]
    }

    fn of([id, tile, stages, splits, swizzle, custom, inner, cluster]: [u32; 8]) -> Self {
        Self { id, tile, stages, splits, swizzle, custom, inner, cluster }
    }
}

impl std::fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers = NUMBERS.iter().zip(self.numbers());
        let texts: Vec<String> = numbers.map(|(name, number)| format!("{name} {number}")).collect();
        formatter.write_str(&texts.join(", "))
    }
}

/// What was chosen for a platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// On what products were timed.
    pub on: TunedOn,
    /// Algorithms by the names of products, without `product.`; of those alone that are faster than what is taken without a choice.
    pub products: BTreeMap<String, Algorithm>,
}

impl Tuning {
    /// What a platform node says; `None` where nothing was timed for it.
    ///
    /// # Errors
    /// What is wrong, for people: a line that lacks a number, or has a word that this amp does not know and that may change bits.
    pub fn of(platform: &Platform) -> Result<Option<Self>, String> {
        let lines = || platform.properties.iter().filter(|(name, _)| is_ours(name));
        for (name, entry) in lines() {
            fault_of(name, entry).map_or(Ok(()), Err)?;
            let known: &[&str] = if name == TUNED { &["library", MACHINE[0], MACHINE[1]] } else { &NUMBERS };
            if let Some(other) = entry.properties.keys().find(|property| !known.contains(&property.as_str()))
            {
                return Err(format!("`{name}` has the property `{other}`, which this amp does not know"));
            }
        }
        let Some(entry) = platform.properties.get(TUNED) else {
            return match lines().next() {
                Some((name, _)) => Err(format!("`{name}` stands without the line `{TUNED}`")),
                None => Ok(None),
            };
        };
        let number =
            |entry: &Entry, name: &str| entry.properties.get(name).and_then(|text| text.parse().ok());
        let on = TunedOn {
            device: entry.value.clone(),
            multiprocessors: number(entry, MACHINE[0]).unwrap_or(0),
            library: entry.properties.get("library").cloned().unwrap_or_default(),
            version: number(entry, MACHINE[1]).unwrap_or(0),
        };
        let mut products = BTreeMap::new();
        for (name, entry) in lines() {
            let Some(product) = name.strip_prefix(PRODUCT) else { continue };
            if entry.value != on.library {
                return Err(format!(
                    "`{name}` is of `{}`, and what was timed is `{}`",
                    entry.value, on.library
                ));
            }
            let small =
                |name| number(entry, name).and_then(|number: u64| u32::try_from(number).ok()).unwrap_or(0);
            products.insert(product.to_owned(), Algorithm::of(NUMBERS.map(small)));
        }
        Ok(Some(Self { on, products }))
    }

    /// Puts it into a platform node in place of what was there.
    pub fn write_to(&self, platform: &mut Platform) {
        platform.properties.retain(|name, _| !is_ours(name));
        let TunedOn { device, multiprocessors, library, version } = &self.on;
        let tuned = Entry::new(device)
            .with("library", library)
            .with(MACHINE[0], multiprocessors.to_string())
            .with(MACHINE[1], version.to_string());
        platform.properties.insert(TUNED.to_owned(), tuned);
        for (product, algorithm) in &self.products {
            let numbers = NUMBERS.iter().zip(algorithm.numbers());
            let entry = numbers
                .fold(Entry::new(library), |entry, (name, number)| entry.with(name, number.to_string()));
            platform.properties.insert(format!("{PRODUCT}{product}"), entry);
        }
    }
}

/// True for the lines of a platform node that are a tuning.
fn is_ours(name: &str) -> bool {
    name == TUNED || name.starts_with(PRODUCT)
}

/// What is wrong with a line of a platform node whose form the format fixes; other lines, and properties that a higher revision
/// added, may be what they like.
pub(super) fn fault_of(name: &str, entry: &Entry) -> Option<String> {
    let known: &[&str] = match name {
        TUNED => &MACHINE,
        _ if is_ours(name) => &NUMBERS,
        _ => return None,
    };
    if name == TUNED && !entry.properties.contains_key("library") {
        return Some(format!("found `{TUNED}` without the property `library`"));
    }
    known.iter().find_map(|number| match entry.properties.get(*number) {
        None => Some(format!("found `{name}` without the property `{number}`")),
        Some(text) if text.parse::<u32>().is_err() => {
            Some(format!("found {number} `{text}`, expected a whole number below 2³²"))
        }
        Some(_) => None,
    })
}

/// The lines of a tuning that a platform node has, as they are: two nodes in which they are equal give equal bits.
pub fn lines_of(platform: Option<&Platform>) -> BTreeMap<&str, &Entry> {
    let lines = platform.into_iter().flat_map(|platform| &platform.properties);
    lines.map(|(name, entry)| (name.as_str(), entry)).filter(|(name, _)| is_ours(name)).collect()
}
