//! The sizes of a convolution.

/// The sizes of a convolution; pairs are (vertical, horizontal).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Images.
    pub batch: usize,
    /// Rows of an input image.
    pub height: usize,
    /// Columns of an input image.
    pub width: usize,
    /// Channels of the input; a multiple of `groups`.
    pub channels_in: usize,
    /// Channels of the output; a multiple of `groups`.
    pub channels_out: usize,
    /// Size of the filter, at least 1.
    pub kernel: [usize; 2],
    /// Input pixels from one output position to the next, at least 1.
    pub stride: [usize; 2],
    /// Zeros on each side of the image.
    pub padding: [usize; 2],
    /// Input pixels from one filter tap to the next, at least 1.
    pub dilation: [usize; 2],
    /// Independent parts that the channels fall into, at least 1.
    pub groups: usize,
}

impl Geometry {
    /// From the sizes of its input (N, C, H, W) and of its weight (O, C/groups, KH, KW); `steps` are stride, padding and dilation.
    pub fn of(input: &[usize], weight: &[usize], steps: [[usize; 2]; 3], groups: usize) -> Self {
        let [stride, padding, dilation] = steps;
        Self {
            batch: input[0],
            height: input[2],
            width: input[3],
            channels_in: input[1],
            channels_out: weight[0],
            kernel: [weight[2], weight[3]],
            stride,
            padding,
            dilation,
            groups,
        }
    }

    /// Rows and columns of an output image; 0 where the filter is larger than the padded image.
    pub fn output_size(&self) -> [usize; 2] {
        let size = |axis: usize, input: usize| {
            let padded = input + 2 * self.padding[axis];
            padded.checked_sub(self.reach(axis)).map_or(0, |rest| rest / self.stride[axis] + 1)
        };
        [size(0, self.height), size(1, self.width)]
    }

    /// Input pixels under the filter along an axis.
    pub(super) fn reach(&self, axis: usize) -> usize {
        self.dilation[axis] * (self.kernel[axis] - 1) + 1
    }

    /// Input channels of a group.
    pub(super) fn group_in(&self) -> usize {
        self.channels_in / self.groups
    }

    /// Output channels of a group.
    pub(super) fn group_out(&self) -> usize {
        self.channels_out / self.groups
    }

    /// Whether each channel is a group of its own: the channels lie side by side in registers, and nothing mixes.
    pub(super) fn is_depthwise(&self) -> bool {
        self.groups > 1 && self.group_in() == 1 && self.group_out() == 1
    }

    /// Filter taps.
    pub(super) fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Floats of an input image.
    pub(super) fn input_image(&self) -> usize {
        self.height * self.width * self.channels_in
    }

    /// Floats of an output image.
    pub(super) fn output_image(&self) -> usize {
        let [height, width] = self.output_size();
        height * width * self.channels_out
    }

    /// Where the weight of an output channel, an input channel within its group and a tap is.
    pub(super) fn weight_index(&self, out: usize, channel: usize, tap: usize) -> usize {
        (out * self.group_in() + channel) * self.taps() + tap
    }

    /// Refuses slices of other lengths.
    pub(super) fn check(&self, input: usize, weight: usize, output: usize) {
        assert!(
            self.groups >= 1 && self.channels_in.is_multiple_of(self.groups),
            "groups divide the input channels"
        );
        assert!(self.channels_out.is_multiple_of(self.groups), "groups divide the output channels");
        for axis in 0..2 {
            assert!(self.kernel[axis] >= 1 && self.stride[axis] >= 1, "kernel and stride are at least 1");
            assert!(self.dilation[axis] >= 1, "the dilation is at least 1");
        }
        assert_eq!(input, self.batch * self.input_image(), "the input is batch × height × width × channels");
        assert_eq!(
            weight,
            self.channels_out * self.group_in() * self.taps(),
            "the weight is out × in × kernel"
        );
        assert_eq!(
            output,
            self.batch * self.output_image(),
            "the output is batch × height × width × channels"
        );
    }
}
