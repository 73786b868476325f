//! Convolutions by library products: what each pixel sees becomes a row of a matrix. For one group, where no library for convolutions
//! makes them.
//!
//! Such a matrix is made for some images at a time, so that it stays below a limit. Its rows are padded with zeros to a length that tensor
//! cores take.

use super::Arithmetic;
use super::image::{int, output_pixels, sizes, taps};
use super::products::{common, element, product, row_major, transposed};
use crate::exec::cpu::convolution::Geometry;
use crate::exec::cuda::launch::{Arguments, Launches, Product, Tensor};
use crate::graph::DType;

/// Bytes that a matrix of unfolded images takes at most, unless one image alone takes more.
const GREATEST_MATRIX: usize = 256 << 20;
/// What the depth of a product should be a multiple of.
const DEPTH: usize = 8;

/// y = what each output pixel sees · weightsᵀ + bias.
pub fn forward(
    geometry: &Geometry,
    [x, weight, y]: [Tensor; 3],
    bias: Option<Tensor>,
    launches: &mut Launches,
) {
    let format = common(x.format, weight.format);
    let (depth, columns) = (seen(geometry), geometry.channels_out);
    let weights = weights(geometry, weight, format, true, launches);
    let per_image = pixels_per_image(geometry);
    let chunks = Chunks::new(geometry, per_image * depth * format.bytes());
    let matrix = chunks.matrix(per_image * depth, format, launches);
    for chunk in chunks {
        unfold(
            "unfold",
            &chunk.geometry(geometry),
            image(x, chunk.first, input_image(geometry)),
            matrix,
            depth,
            launches,
        );
        let y = image(y, chunk.first, per_image * columns);
        let op = Product {
            a: row_major(matrix, depth, 0),
            b: transposed(row_major(weights, depth, 0)),
            y: row_major(y, columns, 0),
            rows: chunk.images * per_image,
            columns,
            depth,
            batch: 1,
            alpha: 1.0,
            beta: 0.0,
        };
        product(Arithmetic::Device, &op, bias, launches);
    }
}

/// dx. With strides of 1 as the convolution that it is, of the gradients that each input pixel led to; else the gradient of the
/// unfolded images, in f32, whose taps are then added.
pub fn input(geometry: &Geometry, [dy, weight, dx]: [Tensor; 3], launches: &mut Launches) {
    let format = common(dy.format, weight.format);
    let dense = geometry.stride == [1, 1];
    let weights = weights(geometry, weight, format, !dense, launches);
    let output_image = pixels_per_image(geometry) * geometry.channels_out;
    if dense {
        let (per_image, columns) = (geometry.height * geometry.width, geometry.channels_in);
        let depth = reached(geometry);
        let chunks = Chunks::new(geometry, per_image * depth * format.bytes());
        let matrix = chunks.matrix(per_image * depth, format, launches);
        for chunk in chunks {
            let dy = image(dy, chunk.first, output_image);
            unfold("unfold_gradient", &chunk.geometry(geometry), dy, matrix, depth, launches);
            let y = row_major(image(dx, chunk.first, per_image * columns), columns, 0);
            let (a, b) = (row_major(matrix, depth, 0), row_major(weights, columns, 0));
            let rows = chunk.images * per_image;
            let op = Product { a, b, y, rows, columns, depth, batch: 1, alpha: 1.0, beta: 0.0 };
            product(Arithmetic::Device, &op, None, launches);
        }
        return;
    }
    let (per_image, depth, columns) = (pixels_per_image(geometry), geometry.channels_out, seen(geometry));
    let chunks = Chunks::new(geometry, per_image * columns * 4);
    let matrix = chunks.matrix(per_image * columns, DType::F32, launches);
    for chunk in chunks {
        let a = row_major(image(dy, chunk.first, output_image), depth, 0);
        let (b, y) = (row_major(weights, columns, 0), row_major(matrix, columns, 0));
        let rows = chunk.images * per_image;
        let op = Product { a, b, y, rows, columns, depth, batch: 1, alpha: 1.0, beta: 0.0 };
        product(Arithmetic::Device, &op, None, launches);
        let dx = image(dx, chunk.first, input_image(geometry));
        let arguments = Arguments::new().tensor(matrix).int(int(columns)).tensor(dx);
        let elements = chunk.images * input_image(geometry);
        launches.each("fold", elements, sizes(arguments, &chunk.geometry(geometry)));
    }
}

/// dw = dyᵀ · what each output pixel sees, added up in f32 over the chunks of images in their order.
pub fn weight(geometry: &Geometry, [dy, x, dw]: [Tensor; 3], launches: &mut Launches) {
    let format = common(dy.format, x.format);
    let (rows, columns, per_image) = (geometry.channels_out, seen(geometry), pixels_per_image(geometry));
    let chunks = Chunks::new(geometry, per_image * columns * format.bytes());
    let matrix = chunks.matrix(per_image * columns, format, launches);
    let bytes = rows * columns * 4;
    let sums = Tensor::f32(launches.scratch(bytes));
    if output_pixels(geometry) == 0 {
        launches.clear(sums.address, bytes);
    }
    for chunk in chunks {
        unfold(
            "unfold",
            &chunk.geometry(geometry),
            image(x, chunk.first, input_image(geometry)),
            matrix,
            columns,
            launches,
        );
        let op = Product {
            a: transposed(row_major(image(dy, chunk.first, per_image * rows), rows, 0)),
            b: row_major(matrix, columns, 0),
            y: row_major(sums, columns, 0),
            rows,
            columns,
            depth: chunk.images * per_image,
            batch: 1,
            alpha: 1.0,
            beta: if chunk.first == 0 { 0.0 } else { 1.0 },
        };
        product(Arithmetic::Device, &op, None, launches);
    }
    let elements = rows * geometry.channels_in * taps(geometry);
    let arguments = Arguments::new()
        .tensor(sums)
        .tensor(dw)
        .int(int(geometry.channels_in))
        .int(int(taps(geometry)))
        .int(int(columns))
        .size(elements);
    launches.each("fold_weights", elements, arguments);
}

/// Images that are unfolded together.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    first: usize,
    images: usize,
}

impl Chunk {
    /// The convolution of these images.
    fn geometry(self, geometry: &Geometry) -> Geometry {
        Geometry { batch: self.images, ..*geometry }
    }
}

/// The chunks of a batch, ascending.
#[derive(Clone, Copy, Debug)]
struct Chunks {
    next: usize,
    batch: usize,
    most: usize,
}

impl Chunks {
    /// As many images at a time as the limit allows, when each takes so many bytes.
    fn new(geometry: &Geometry, bytes_per_image: usize) -> Self {
        let fit = GREATEST_MATRIX.checked_div(bytes_per_image).unwrap_or(geometry.batch);
        Self { next: 0, batch: geometry.batch, most: fit.clamp(1, geometry.batch.max(1)) }
    }

    /// Scratch for the matrix of the largest chunk.
    fn matrix(self, elements_per_image: usize, format: DType, launches: &mut Launches) -> Tensor {
        Tensor { address: launches.scratch(self.most * elements_per_image * format.bytes()), format }
    }
}

impl Iterator for Chunks {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        let chunk = Chunk { first: self.next, images: self.most.min(self.batch - self.next) };
        self.next += chunk.images;
        (chunk.images > 0).then_some(chunk)
    }
}

/// Columns of unfolded images: (kernel row, kernel column, channel) and zeros.
fn seen(geometry: &Geometry) -> usize {
    (taps(geometry) * geometry.channels_in).next_multiple_of(DEPTH)
}

/// Columns of unfolded gradients: (kernel row, kernel column, output channel) and zeros.
fn reached(geometry: &Geometry) -> usize {
    (taps(geometry) * geometry.channels_out).next_multiple_of(DEPTH)
}

fn pixels_per_image(geometry: &Geometry) -> usize {
    geometry.output_size().into_iter().product()
}

fn input_image(geometry: &Geometry) -> usize {
    geometry.height * geometry.width * geometry.channels_in
}

/// The tensor from an image on.
fn image(tensor: Tensor, first: usize, elements_per_image: usize) -> Tensor {
    element(tensor, first * elements_per_image)
}

/// Unfolds the images of a chunk; a thread makes four elements.
fn unfold(
    name: &'static str,
    geometry: &Geometry,
    from: Tensor,
    matrix: Tensor,
    pitch: usize,
    launches: &mut Launches,
) {
    let rows = if name == "unfold" {
        output_pixels(geometry)
    } else {
        geometry.batch * geometry.height * geometry.width
    };
    let arguments = Arguments::new().tensor(from).tensor(matrix).int(int(pitch));
    launches.each(name, rows * pitch / 4, sizes(arguments, geometry));
}

/// The weights as a matrix: output channels × `seen` or, else, `reached` × input channels.
fn weights(
    geometry: &Geometry,
    weight: Tensor,
    format: DType,
    output_first: bool,
    launches: &mut Launches,
) -> Tensor {
    let elements = if output_first {
        geometry.channels_out * seen(geometry)
    } else {
        reached(geometry) * geometry.channels_in
    };
    let matrix = Tensor { address: launches.scratch(elements * format.bytes()), format };
    let arguments = Arguments::new()
        .tensor(weight)
        .tensor(matrix)
        .int(int(geometry.channels_out))
        .int(int(geometry.channels_in))
        .int(int(taps(geometry)))
        .int(i32::from(output_first))
        .int(int(seen(geometry)))
        .size(elements);
    launches.each("unfold_weights", elements, arguments);
    matrix
}
