//! Pools against their references.

use super::{FORMATS, Numbers, assert_same, every_setting};
use crate::exec::cpu::pool::{self, Pool};
use crate::exec::reference;

fn pools() -> [Pool; 8] {
    let pool = |images, input, channels, kernel: usize, stride: usize, padding: usize| Pool {
        images,
        input,
        channels,
        kernel: [kernel; 2],
        stride: [stride; 2],
        padding: [padding; 2],
    };
    [
        pool(2, [6, 6], 3, 2, 2, 0),
        pool(2, [7, 9], 17, 3, 2, 1),
        pool(1, [5, 5], 4, 3, 1, 1),
        pool(3, [7, 7], 20, 7, 7, 0),
        pool(1, [8, 5], 2, 2, 3, 0),
        pool(2, [60, 60], 40, 3, 2, 1),
        // Padding beyond half the window, which some windows then lie in wholly, and an image below the window.
        pool(1, [3, 4], 5, 2, 1, 2),
        pool(1, [2, 2], 3, 3, 1, 0),
    ]
}

#[test]
fn max_pools_equal_the_reference() {
    let mut numbers = Numbers(30);
    for op in pools() {
        let inputs = op.images * op.input[0] * op.input[1] * op.channels;
        // Few different values, so that maxima are shared.
        let x: Vec<f32> = numbers.hostile(inputs).iter().map(|x| x.round()).collect();
        let dy = numbers.plain(op.outputs());
        let (mut y, mut indices) = (vec![0.0; op.outputs()], vec![0; op.outputs()]);
        reference::pool::max_pool(&op, &x, &mut y, &mut indices);
        for format in FORMATS {
            let mut dx = vec![0.0; inputs];
            reference::pool::max_pool_backward(&op, &indices, &dy, &mut dx, format);
            every_setting(|isa, threads| {
                let (mut found, mut places) = (vec![9.0; y.len()], vec![9; y.len()]);
                pool::max_pool(isa, threads, &op, &x, &mut found, &mut places);
                assert_same(&found, &y, "max pool");
                assert_eq!(places, indices);
                let mut found = vec![9.0; inputs];
                pool::max_pool_backward(isa, threads, &op, &indices, &dy, &mut found, format);
                assert_same(&found, &dx, "max pool backward");
            });
        }
    }
}

#[test]
fn average_pools_equal_the_reference() {
    let mut numbers = Numbers(31);
    for op in pools() {
        let inputs = op.images * op.input[0] * op.input[1] * op.channels;
        let (x, dy) = (numbers.hostile(inputs), numbers.hostile(op.outputs()));
        for (format, count) in FORMATS.into_iter().flat_map(|format| [(format, true), (format, false)]) {
            let (mut y, mut dx) = (vec![0.0; op.outputs()], vec![0.0; inputs]);
            reference::pool::average_pool(&op, count, &x, &mut y, format);
            reference::pool::average_pool_backward(&op, count, &dy, &mut dx, format);
            every_setting(|isa, threads| {
                let mut found = vec![9.0; y.len()];
                pool::average_pool(isa, threads, &op, count, &x, &mut found, format);
                assert_same(&found, &y, "average pool");
                let mut found = vec![9.0; inputs];
                pool::average_pool_backward(isa, threads, &op, count, &dy, &mut found, format);
                assert_same(&found, &dx, "average pool backward");
            });
        }
    }
}

#[test]
fn a_window_covers_what_covers_it() {
    for op in pools() {
        for axis in [0, 1] {
            for output in 0..op.output()[axis] {
                for input in 0..op.input[axis] {
                    let seen = op.window(axis, output).contains(&input);
                    assert_eq!(op.covering(axis, input).contains(&output), seen, "{op:?} {input} {output}");
                }
            }
        }
    }
}
