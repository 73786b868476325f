//! A matrix product as its algorithms see it: all that decides which of them can make it, and nothing of where it lies.

use crate::exec::cuda::launch::{Launch, Matrix, Product, Tensor};
use crate::graph::DType;
use std::fmt;

/// What is asked of a library: y (rows × columns) = a (rows × depth) · b (depth × columns), all row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    /// Of the operands, and of the result and its bias.
    pub formats: [DType; 2],
    /// Rows, columns and depth.
    pub sizes: [usize; 3],
    /// Whether memory holds a, and b, transposed.
    pub transposed: [bool; 2],
    /// Elements between rows in memory, of a, b and y.
    pub strides: [usize; 3],
    /// Whether a bias is added.
    pub bias: bool,
}

/// The formats that a library multiplies, with sums in f32.
const FORMATS: [DType; 4] = [DType::F32, DType::F16, DType::Bf16, DType::Tf32];

impl Asked {
    /// What a launch asks for; `None` for what is no product, or several at once.
    pub fn of(launch: &Launch) -> Option<Self> {
        match launch {
            Launch::Product(product) if product.batch == 1 => Some(Self::of_product(product, false)),
            Launch::BiasedProduct(product, _) => Some(Self::of_product(product, true)),
            _ => None,
        }
    }

    /// What a product of one matrix by another asks for.
    pub fn of_product(product: &Product, bias: bool) -> Self {
        let Product { a, b, y, rows, columns, depth, .. } = product;
        Self {
            formats: [a, y].map(|matrix| matrix.tensor.format),
            sizes: [*rows, *columns, *depth],
            transposed: [a.transposed, b.transposed],
            strides: [a, b, y].map(|matrix| matrix.stride.max(1)),
            bias,
        }
    }

    /// A launch that asks for it, with operands and bias at these addresses: y = a·b + beta · y.
    pub fn launch(&self, [a, b, y, bias]: [u64; 4], beta: f32) -> Launch {
        let [format, result] = self.formats;
        let [rows, columns, depth] = self.sizes;
        let matrix = |address, format, stride, transposed| Matrix {
            tensor: Tensor { address, format },
            stride,
            transposed,
            batch_stride: 0,
        };
        let product = Product {
            a: matrix(a, format, self.strides[0], self.transposed[0]),
            b: matrix(b, format, self.strides[1], self.transposed[1]),
            y: matrix(y, result, self.strides[2], false),
            rows,
            columns,
            depth,
            batch: 1,
            alpha: 1.0,
            beta,
        };
        match self.bias {
            false => Launch::Product(product),
            true => Launch::BiasedProduct(product, Tensor { address: bias, format: result }),
        }
    }

    /// Rows in memory of a, b and y, and the elements of such a row.
    fn shapes(&self) -> [[usize; 2]; 3] {
        let [rows, columns, depth] = self.sizes;
        let turned = |[rows, columns]: [usize; 2], transposed| {
            if transposed { [columns, rows] } else { [rows, columns] }
        };
        let [a, b] = self.transposed;
        [turned([rows, depth], a), turned([depth, columns], b), [rows, columns]]
    }

    /// Elements between rows where they lie close.
    fn close(&self) -> [usize; 3] {
        self.shapes().map(|[_, columns]| columns.max(1))
    }

    /// Bytes that a, b, y and the bias reach over.
    pub fn extents(&self) -> [usize; 4] {
        let [format, result] = self.formats;
        let [a, b, y] = self.shapes();
        let reach = |[rows, columns]: [usize; 2], stride: usize, format: DType| {
            (rows.saturating_sub(1) * stride + columns) * format.bytes()
        };
        let bias = if self.bias { self.sizes[1] * result.bytes() } else { 0 };
        let [of_a, of_b, of_y] = self.strides;
        [reach(a, of_a, format), reach(b, of_b, format), reach(y, of_y, result), bias]
    }

    /// Reads a name.
    pub fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('.');
        let (of, sizes, turned) = (parts.next()?, parts.next()?, parts.next()?);
        let format = |name: &str| FORMATS.into_iter().find(|format| format.name() == name);
        let formats = match of.split_once('-') {
            Some((operands, result)) => [format(operands)?, format(result)?],
            None => [format(of)?; 2],
        };
        let transposed = match turned {
            "nn" => [false, false],
            "nt" => [false, true],
            "tn" => [true, false],
            "tt" => [true, true],
            _ => return None,
        };
        let sizes = numbers(sizes, 'x')?;
        let mut asked = Self { formats, sizes, transposed, strides: [0; 3], bias: false };
        asked.strides = asked.close();
        let mut next = parts.next();
        if let Some(strides) = next.and_then(|part| part.strip_prefix("strides-")) {
            asked.strides = numbers(strides, '-')?;
            next = parts.next();
        }
        if next == Some("bias") {
            asked.bias = true;
            next = parts.next();
        }
        // One name for one product.
        (next.is_none() && asked.to_string() == name).then_some(asked)
    }
}

fn numbers(text: &str, between: char) -> Option<[usize; 3]> {
    let numbers: Option<Vec<usize>> = text.split(between).map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
}

impl fmt::Display for Asked {
    /// `bf16.16384x3072x768.nt.bias`: formats, where they differ as `bf16-f32`; rows, columns and depth; whether a and b lie transposed
    /// (`t`) or not (`n`); distances of rows, where they do not lie close, as `strides-768-2304-768`; and whether there is a bias.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([format, result], [rows, columns, depth]) = (self.formats, self.sizes);
        formatter.write_str(format.name())?;
        if result != format {
            write!(formatter, "-{result}")?;
        }
        let [a, b] = self.transposed.map(|transposed| if transposed { 't' } else { 'n' });
        write!(formatter, ".{rows}x{columns}x{depth}.{a}{b}")?;
        if self.strides != self.close() {
            let [a, b, y] = self.strides;
            write!(formatter, ".strides-{a}-{b}-{y}")?;
        }
        if self.bias { formatter.write_str(".bias") } else { Ok(()) }
    }
}
