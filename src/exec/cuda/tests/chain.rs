//! Nodes that run one by one, or as a group: what both leave is to be compared.

use super::*;
use crate::exec::cuda::fusion::Kind;

/// A node of a chain: its op, and which of the chain's values it reads and makes.
pub type Link<'a> = (Op, &'a [usize], &'a [usize]);

/// The values of a chain, of which the first have been made.
pub struct Chain<'a> {
    /// Memory layout of the image operands.
    pub layout: Layout,
    /// All values.
    pub values: Vec<Value>,
    /// What the first of them hold.
    pub given: Vec<Buffer>,
    /// The ops.
    pub links: &'a [Link<'a>],
    /// Values that the kernel of the group needs beside the operands.
    pub beside: &'a [usize],
    /// Values that only the chain itself reads, or nobody makes.
    pub inner: &'a [usize],
}

impl<'a> Chain<'a> {
    /// A chain over images whose channels are last.
    pub fn of_images(
        values: &[Value],
        given: &[Buffer],
        links: &'a [Link<'a>],
        beside: &'a [usize],
        inner: &'a [usize],
    ) -> Self {
        let (values, given) = (values.to_vec(), given.to_vec());
        Self { layout: Layout::ChannelsLast, values, given, links, beside, inner }
    }
}

impl Chain<'_> {
    /// Runs the links one by one, or as a group in which inner values have no memory of their own; gives all values but those,
    /// by their numbers.
    pub fn run(
        &self,
        device: &mut dyn Device,
        kind: Option<Kind>,
        arithmetic: Arithmetic,
    ) -> BTreeMap<usize, Buffer> {
        let nowhere = device.allocate(16).expect("memory");
        let mut tensors = Vec::new();
        for (index, value) in self.values.iter().enumerate() {
            let is_gone = kind.is_some() && self.inner.contains(&index);
            let bytes = self.given.get(index).map_or(Vec::new(), |buffer| to_bytes(buffer, value.dtype));
            let size = (value.elements() * value.dtype.bytes()).max(16);
            let address = if is_gone { nowhere } else { device.allocate(size).expect("memory") };
            if !is_gone {
                device.upload(address, &bytes).expect("an upload");
            }
            tensors.push(Tensor { address, format: value.dtype });
        }
        let operands = |edges: &[usize]| -> Vec<Operand<'_>> {
            edges.iter().map(|edge| Operand::new(tensors[*edge], &self.values[*edge])).collect()
        };
        let edges: Vec<_> =
            self.links.iter().map(|(op, from, to)| (op, operands(from), operands(to))).collect();
        let all = Convolutions::new(false);
        let calls: Vec<Call<'_>> = edges
            .iter()
            .map(|(op, inputs, outputs)| Call {
                op,
                layout: self.layout,
                inputs,
                outputs,
                arithmetic,
                units: device.units(),
                seed: 42,
                position: nowhere,
                culprit: nowhere,
                convolutions: &all,
            })
            .collect();
        match kind {
            Some(kind) => {
                let beside = operands(self.beside);
                launch_all(device, |launches| dispatch::run_group(kind, &calls, &beside, launches))
                    .expect("a kernel");
            }
            None => calls.iter().for_each(|call| launch(device, call).expect("a kernel")),
        }
        let left = (0..tensors.len()).filter(|index| !self.inner.contains(index));
        left.map(|index| (index, from_device(device, tensors[index], &self.values[index]))).collect()
    }
}
