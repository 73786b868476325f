//! Lowering: from the nodes of a step graph to instructions over buffers, decided once before the run.
//!
//! Two decisions are made here, and neither can change a bit. *Layout*: convolutions, pools and batch norm of images want
//! channels last, everything else row-major; a relayout instruction is put where they meet. *Memory*: results that are
//! dead give their slot to later ones; reshapes of row-major values are views.

use crate::graph::{DType, Node, Op, Role, Value, ValueId};
use std::collections::BTreeMap;

/// How the elements of a value lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// Last axis fastest.
    RowMajor,
    /// (N, C, H, W) stored as N, H, W, C.
    ChannelsLast,
}

/// Names a buffer of one program.
pub type BufferId = usize;

/// Where a buffer lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A persistent cell of the engine, by name.
    Cell(String),
    /// A slot that several dead-before-born buffers share.
    Slot(usize),
    /// The same memory as another buffer.
    View(BufferId),
}

/// A value in one layout.
#[derive(Clone, Debug)]
pub struct BufferInfo {
    /// The value it holds.
    pub value: ValueId,
    /// Its layout.
    pub layout: Layout,
    /// Number of elements.
    pub elements: usize,
    /// Whether the elements are 32-bit integers.
    pub integer: bool,
    /// Where it lives.
    pub place: Place,
}

/// One thing to do.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// What.
    pub action: Action,
    /// Operands.
    pub inputs: Vec<BufferId>,
    /// Results; in-place results are operands too.
    pub outputs: Vec<BufferId>,
}

/// What an instruction does.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Runs the node with this index.
    Run(usize),
    /// Copies a (N, C, H, W) value into the other layout.
    Relayout,
}

/// The instructions of a sequence of nodes.
#[derive(Clone, Debug)]
pub struct Program {
    /// In order; views need none.
    pub instructions: Vec<Instruction>,
    /// All buffers.
    pub buffers: Vec<BufferInfo>,
    /// How many instructions come from the first part (micro-batch); the rest is the update.
    pub first_part: usize,
    /// Elements of each slot, and whether it holds integers.
    pub slots: Vec<(usize, bool)>,
    by_value: BTreeMap<(ValueId, Layout), BufferId>,
}

impl Program {
    /// Lowers `nodes`, of which the first `first_part` are repeated for each micro-batch. `keep` are values that are read
    /// after the last instruction.
    pub fn lower(nodes: &[Node], values: &[Value], first_part: usize, keep: &[ValueId]) -> Self {
        let mut program = Self::lay_out(nodes, values, first_part);
        program.assign_slots(keep);
        program
    }

    /// The same before memory is shared out: every result has a slot that is not yet numbered.
    pub fn lay_out(nodes: &[Node], values: &[Value], first_part: usize) -> Self {
        let mut lowering = Lowering { values, program: Self::empty() };
        for (index, node) in nodes.iter().enumerate() {
            if index == first_part {
                lowering.program.first_part = lowering.program.instructions.len();
            }
            lowering.node(index, node);
        }
        if first_part >= nodes.len() {
            lowering.program.first_part = lowering.program.instructions.len();
        }
        lowering.program
    }

    fn empty() -> Self {
        Self {
            instructions: Vec::new(),
            buffers: Vec::new(),
            first_part: 0,
            slots: Vec::new(),
            by_value: BTreeMap::new(),
        }
    }

    /// The buffer that holds a value in row-major order (or, for what only exists channels last, in that).
    pub fn buffer_of(&self, value: ValueId) -> Option<BufferId> {
        self.by_value
            .get(&(value, Layout::RowMajor))
            .or_else(|| self.by_value.get(&(value, Layout::ChannelsLast)))
            .copied()
    }

    /// The memory layout of an instruction's image operands.
    pub fn layout_of(&self, instruction: &Instruction) -> Layout {
        let edges = instruction.inputs.iter().chain(&instruction.outputs);
        edges.map(|buffer| self.buffers[*buffer].layout).max().unwrap_or(Layout::RowMajor)
    }

    /// Follows views to the buffer that owns the memory.
    pub fn owner(&self, mut buffer: BufferId) -> BufferId {
        while let Place::View(of) = self.buffers[buffer].place {
            buffer = of;
        }
        buffer
    }

    /// Gives each result a slot: best fit among the slots that are free when it is born.
    fn assign_slots(&mut self, keep: &[ValueId]) {
        let count = self.instructions.len();
        let mut last_use = vec![0usize; self.buffers.len()];
        for (time, instruction) in self.instructions.iter().enumerate() {
            for buffer in instruction.inputs.iter().chain(&instruction.outputs) {
                last_use[self.owner(*buffer)] = time;
            }
        }
        for value in keep {
            if let Some(buffer) = self.buffer_of(*value) {
                last_use[self.owner(buffer)] = count;
            }
        }
        // The first part may run several times before the second: what the second reads, and host inputs, stay.
        let fed_by_host = self.fed_by_host();
        for (buffer, &fed) in fed_by_host.iter().enumerate() {
            if matches!(self.buffers[buffer].place, Place::Slot(usize::MAX)) && fed {
                let slot = self.new_slot(buffer);
                self.buffers[buffer].place = Place::Slot(slot);
            }
        }
        let mut free: Vec<usize> = Vec::new();
        for time in 0..count {
            let (inputs, outputs) =
                (self.instructions[time].inputs.clone(), self.instructions[time].outputs.clone());
            for buffer in &outputs {
                if matches!(self.buffers[*buffer].place, Place::Slot(usize::MAX)) {
                    let slot = self.take_slot(*buffer, &mut free);
                    self.buffers[*buffer].place = Place::Slot(slot);
                }
            }
            let mut ended: Vec<usize> = inputs
                .iter()
                .chain(&outputs)
                .map(|buffer| self.owner(*buffer))
                .filter(|owner| last_use[*owner] == time && !fed_by_host[*owner])
                .filter_map(|owner| match self.buffers[owner].place {
                    Place::Slot(slot) => Some(slot),
                    _ => None,
                })
                .collect();
            ended.sort_unstable();
            ended.dedup();
            free.extend(ended);
        }
    }

    /// For each buffer, whether no instruction makes it: features and labels, which the host writes before the first one.
    pub fn fed_by_host(&self) -> Vec<bool> {
        let mut fed = vec![true; self.buffers.len()];
        for output in self.instructions.iter().flat_map(|instruction| &instruction.outputs) {
            fed[self.owner(*output)] = false;
        }
        fed
    }

    fn new_slot(&mut self, buffer: BufferId) -> usize {
        self.slots.push((self.buffers[buffer].elements, self.buffers[buffer].integer));
        self.slots.len() - 1
    }

    fn take_slot(&mut self, buffer: BufferId, free: &mut Vec<usize>) -> usize {
        let (elements, integer) = (self.buffers[buffer].elements, self.buffers[buffer].integer);
        let fits = |slot: &usize| self.slots[*slot].1 == integer;
        let best = free.iter().copied().filter(fits).min_by_key(|slot| {
            let size = self.slots[*slot].0;
            // Smallest that is large enough; else the largest, which grows.
            if size >= elements { (0, size - elements) } else { (1, elements - size) }
        });
        match best {
            Some(slot) => {
                free.retain(|other| *other != slot);
                self.slots[slot].0 = self.slots[slot].0.max(elements);
                slot
            }
            None => self.new_slot(buffer),
        }
    }
}

struct Lowering<'a> {
    values: &'a [Value],
    program: Program,
}

impl Lowering<'_> {
    fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    fn is_image(&self, id: ValueId) -> bool {
        self.value(id).shape.len() == 4
    }

    /// The layout that a node computes in, for its image operands.
    fn layout_of(&self, node: &Node) -> Layout {
        let image = node.inputs.iter().chain(&node.outputs).any(|id| self.is_image(*id));
        if !image {
            return Layout::RowMajor;
        }
        match &node.op {
            Op::Conv2d { .. }
            | Op::Conv2dBackwardInput { .. }
            | Op::Conv2dBackwardWeight { .. }
            | Op::MaxPool2d { .. }
            | Op::MaxPool2dBackward { .. }
            | Op::AveragePool2d { .. }
            | Op::AveragePool2dBackward { .. }
            | Op::Upsample2d { .. }
            | Op::Upsample2dBackward { .. }
            | Op::Mean { start: 2, end: 4 }
            | Op::MeanBackward { start: 2, end: 4 } => Layout::ChannelsLast,
            Op::BatchNorm { .. } | Op::BatchNormInference { .. } | Op::BatchNormBackward => {
                Layout::ChannelsLast
            }
            Op::BiasBackward { axis: 1 } => Layout::ChannelsLast,
            Op::Unary(_)
            | Op::UnaryBackward(_)
            | Op::Cast
            | Op::Dropout { .. }
            | Op::Add
            | Op::Subtract
            | Op::Multiply
            | Op::Scale { .. } => {
                let first = &self.value(node.inputs[0]).shape;
                let alike = node.inputs.iter().all(|id| self.value(*id).shape == *first);
                let somewhere_last = node.inputs.iter().any(|id| self.only_channels_last(*id));
                if alike && first.len() == 4 && somewhere_last {
                    Layout::ChannelsLast
                } else {
                    Layout::RowMajor
                }
            }
            _ => Layout::RowMajor,
        }
    }

    fn only_channels_last(&self, id: ValueId) -> bool {
        self.program.by_value.contains_key(&(id, Layout::ChannelsLast))
            && !self.program.by_value.contains_key(&(id, Layout::RowMajor))
    }

    /// Weights of convolutions are (O, C, KH, KW) but no images; they stay row-major.
    fn operand_layout(&self, node: &Node, position: usize, layout: Layout) -> Layout {
        let weight = match node.op {
            Op::Conv2d { .. } | Op::Conv2dBackwardInput { .. } => position == 1,
            _ => false,
        };
        if weight || !self.is_image(node.inputs[position]) { Layout::RowMajor } else { layout }
    }

    fn node(&mut self, index: usize, node: &Node) {
        let layout = self.layout_of(node);
        let inputs: Vec<BufferId> = (0..node.inputs.len())
            .map(|position| {
                let wanted = self.operand_layout(node, position, layout);
                self.buffer(node.inputs[position], wanted)
            })
            .collect();
        if matches!(node.op, Op::Reshape) {
            let result = node.outputs[0];
            let view = self.declare(result, Layout::RowMajor, Place::View(inputs[0]));
            self.program.by_value.insert((result, Layout::RowMajor), view);
            return;
        }
        let weight_gradient = matches!(node.op, Op::Conv2dBackwardWeight { .. });
        let outputs = node
            .outputs
            .iter()
            .map(|id| {
                let image = self.is_image(*id) && !weight_gradient;
                let wanted = if image { layout } else { Layout::RowMajor };
                match self.program.by_value.get(&(*id, wanted)) {
                    Some(buffer) => *buffer,
                    None => self.own(*id, wanted),
                }
            })
            .collect();
        self.program.instructions.push(Instruction { action: Action::Run(index), inputs, outputs });
    }

    /// The buffer of a value in a layout, with a relayout instruction when it only exists in the other one.
    fn buffer(&mut self, id: ValueId, wanted: Layout) -> BufferId {
        if let Some(buffer) = self.program.by_value.get(&(id, wanted)) {
            return *buffer;
        }
        let other = if wanted == Layout::RowMajor { Layout::ChannelsLast } else { Layout::RowMajor };
        let persistent = !matches!(self.value(id).role, Role::Result);
        let source = match self.program.by_value.get(&(id, other)) {
            Some(buffer) => *buffer,
            // What no node produced: persistent values and the batch, row-major.
            None if persistent && wanted == Layout::RowMajor => return self.own(id, wanted),
            None => self.own(id, Layout::RowMajor),
        };
        let shape = self.value(id).shape.clone();
        let trivial = shape.len() == 4 && (shape[1] == 1 || shape[2] * shape[3] == 1);
        if trivial {
            let view = self.declare(id, wanted, Place::View(source));
            self.program.by_value.insert((id, wanted), view);
            return view;
        }
        let target = self.own(id, wanted);
        self.program.instructions.push(Instruction {
            action: Action::Relayout,
            inputs: vec![source],
            outputs: vec![target],
        });
        target
    }

    fn own(&mut self, id: ValueId, layout: Layout) -> BufferId {
        let place = match self.value(id).role {
            Role::Parameter | Role::Buffer | Role::State | Role::Host => {
                Place::Cell(self.value(id).name.clone())
            }
            Role::Features | Role::Labels | Role::Result => Place::Slot(usize::MAX),
        };
        let buffer = self.declare(id, layout, place);
        self.program.by_value.insert((id, layout), buffer);
        buffer
    }

    fn declare(&mut self, id: ValueId, layout: Layout, place: Place) -> BufferId {
        let value = self.value(id);
        self.program.buffers.push(BufferInfo {
            value: id,
            layout,
            elements: value.elements(),
            integer: value.dtype == DType::I32,
            place,
        });
        self.program.buffers.len() - 1
    }
}
