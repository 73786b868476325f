//! Two-dimensional convolution and its gradients by their definitions: each output is one chain of fused multiply-adds
//! from +0. Activations are channels last, weights `\[out\]\[in / groups\]\[kernel row\]\[kernel column\]`.

use super::matrix::rounded;
use crate::arithmetic::fused_multiply_add;
use crate::arithmetic::half::Format;
use crate::exec::cpu::convolution::Geometry;

/// y\[n,oh,ow,o\] = Σ over (kernel row, kernel column, channel) of x·weight (+ bias\[o\]); outside of the image x is +0.
pub fn forward(
    geometry: &Geometry,
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    format: Format,
    y: &mut [f32],
) {
    let [output_height, output_width] = geometry.output_size();
    let mut index = 0;
    for image in 0..geometry.batch {
        for row in 0..output_height {
            for column in 0..output_width {
                for out in 0..geometry.channels_out {
                    y[index] = output(geometry, x, weight, bias, format, [image, row, column, out]);
                    index += 1;
                }
            }
        }
    }
}

/// y\[n,oh,ow,o\] alone.
pub fn output(
    geometry: &Geometry,
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    format: Format,
    [image, row, column, out]: [usize; 4],
) -> f32 {
    let (group_in, group_out) = per_group(geometry);
    let first = out / group_out * group_in;
    let mut sum = 0.0;
    for tap in taps(geometry) {
        for channel in 0..group_in {
            let value = pixel(geometry, x, image, [row, column], tap, first + channel);
            sum = fused_multiply_add(value, weight[place(geometry, out, channel, tap)], sum);
        }
    }
    if let Some(bias) = bias {
        sum += bias[out];
    }
    rounded(format, sum)
}

/// dx\[n,ih,iw,i\] = Σ over (kernel row, kernel column, output channel) of dy·weight, over those taps alone through which the
/// pixel took part in an output that exists.
pub fn backward_input(geometry: &Geometry, dy: &[f32], weight: &[f32], format: Format, dx: &mut [f32]) {
    let mut index = 0;
    for image in 0..geometry.batch {
        for row in 0..geometry.height {
            for column in 0..geometry.width {
                for channel in 0..geometry.channels_in {
                    dx[index] = input_gradient(geometry, dy, weight, format, [image, row, column, channel]);
                    index += 1;
                }
            }
        }
    }
}

/// dx\[n,ih,iw,i\] alone.
pub fn input_gradient(
    geometry: &Geometry,
    dy: &[f32],
    weight: &[f32],
    format: Format,
    [image, row, column, channel]: [usize; 4],
) -> f32 {
    let [output_height, output_width] = geometry.output_size();
    let (group_in, group_out) = per_group(geometry);
    // The output position that meets an input position under a tap: position + padding = output·stride + tap·dilation.
    let output = |axis: usize, position: usize, tap: usize, size: usize| {
        let distance = (position + geometry.padding[axis]).checked_sub(tap * geometry.dilation[axis])?;
        let met = distance / geometry.stride[axis];
        (distance % geometry.stride[axis] == 0 && met < size).then_some(met)
    };
    let group = channel / group_in;
    let mut sum = 0.0;
    for tap in taps(geometry) {
        let Some(output_row) = output(0, row, tap[0], output_height) else { continue };
        let Some(output_column) = output(1, column, tap[1], output_width) else { continue };
        let position = (image * output_height + output_row) * output_width + output_column;
        for out in group * group_out..(group + 1) * group_out {
            let factor = weight[place(geometry, out, channel % group_in, tap)];
            sum = fused_multiply_add(dy[position * geometry.channels_out + out], factor, sum);
        }
    }
    rounded(format, sum)
}

/// dw\[o,i,kh,kw\] = Σ over (image, output row, output column) of dy·x; outside of the image x is +0.
pub fn backward_weight(geometry: &Geometry, dy: &[f32], x: &[f32], format: Format, dw: &mut [f32]) {
    let (group_in, _) = per_group(geometry);
    for out in 0..geometry.channels_out {
        for channel in 0..group_in {
            for tap in taps(geometry) {
                dw[place(geometry, out, channel, tap)] =
                    weight_gradient(geometry, dy, x, format, [out, channel, tap[0], tap[1]]);
            }
        }
    }
}

/// dw\[o,i,kh,kw\] alone.
pub fn weight_gradient(
    geometry: &Geometry,
    dy: &[f32],
    x: &[f32],
    format: Format,
    [out, channel, tap_row, tap_column]: [usize; 4],
) -> f32 {
    let [output_height, output_width] = geometry.output_size();
    let (group_in, group_out) = per_group(geometry);
    let (tap, channel) = ([tap_row, tap_column], out / group_out * group_in + channel);
    let mut sum = 0.0;
    for image in 0..geometry.batch {
        for row in 0..output_height {
            for column in 0..output_width {
                let position = (image * output_height + row) * output_width + column;
                let value = pixel(geometry, x, image, [row, column], tap, channel);
                sum = fused_multiply_add(dy[position * geometry.channels_out + out], value, sum);
            }
        }
    }
    rounded(format, sum)
}

/// Channels of a group: input, output.
fn per_group(geometry: &Geometry) -> (usize, usize) {
    (geometry.channels_in / geometry.groups, geometry.channels_out / geometry.groups)
}

/// The filter taps (kernel row, kernel column), ascending.
fn taps(geometry: &Geometry) -> impl Iterator<Item = [usize; 2]> + use<> {
    let [rows, columns] = geometry.kernel;
    (0..rows).flat_map(move |row| (0..columns).map(move |column| [row, column]))
}

/// Where a weight is; the channel counts within its group.
fn place(geometry: &Geometry, out: usize, channel: usize, tap: [usize; 2]) -> usize {
    let channels = geometry.channels_in / geometry.groups;
    ((out * channels + channel) * geometry.kernel[0] + tap[0]) * geometry.kernel[1] + tap[1]
}

/// The input that an output position sees through a tap; +0 in the padding.
fn pixel(
    geometry: &Geometry,
    x: &[f32],
    image: usize,
    output: [usize; 2],
    tap: [usize; 2],
    channel: usize,
) -> f32 {
    let position = |axis: usize| {
        let padded = output[axis] * geometry.stride[axis] + tap[axis] * geometry.dilation[axis];
        padded.checked_sub(geometry.padding[axis])
    };
    match (position(0), position(1)) {
        (Some(row), Some(column)) if row < geometry.height && column < geometry.width => {
            x[((image * geometry.height + row) * geometry.width + column) * geometry.channels_in + channel]
        }
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::matrix::tests::{cases, values};
    use super::*;

    #[test]
    fn a_convolution_and_its_gradients_are_those_of_pytorch() {
        let cases = cases(include_str!("testdata/convolution.txt"));
        assert_eq!(cases.len(), 8);
        for (sizes, results) in cases {
            let pair = |first: usize| [sizes[first], sizes[first + 1]];
            let geometry = Geometry {
                batch: sizes[0],
                height: sizes[1],
                width: sizes[2],
                channels_in: sizes[3],
                channels_out: sizes[4],
                kernel: pair(5),
                stride: pair(7),
                padding: pair(9),
                dilation: pair(11),
                groups: sizes[13],
            };
            let [height, width] = geometry.output_size();
            let x = values(1, geometry.batch * geometry.height * geometry.width * geometry.channels_in);
            let weight = values(2, results[2].len());
            let bias = values(3, geometry.channels_out);
            let dy = values(4, geometry.batch * height * width * geometry.channels_out);

            let mut y = vec![7.0; dy.len()];
            forward(&geometry, &x, &weight, Some(&bias), Format::F32, &mut y);
            assert_eq!(y, results[0], "y {geometry:?}");
            let mut dx = vec![7.0; x.len()];
            backward_input(&geometry, &dy, &weight, Format::F32, &mut dx);
            assert_eq!(dx, results[1], "dx {geometry:?}");
            let mut dw = vec![7.0; weight.len()];
            backward_weight(&geometry, &dy, &x, Format::F32, &mut dw);
            assert_eq!(dw, results[2], "dw {geometry:?}");
        }
    }
}
