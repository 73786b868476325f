//! Batch normalisation, layer normalisation and softmax against their references.

use super::{FORMATS, Numbers, assert_same, every_setting};
use crate::arithmetic::Isa;
use crate::exec::cpu::threads::Threads;
use crate::exec::cpu::{batch_norm, layer_norm, softmax};
use crate::exec::reference;
use batch_norm::{BatchNorm, Statistics};

#[test]
fn batch_norm_equals_the_reference() {
    let mut numbers = Numbers(40);
    for (rows, channels) in [(2, 1), (5, 10), (64, 37), (300, 64), (5000, 33), (1, 4)] {
        let op = BatchNorm { channels, epsilon: 1e-5, momentum: 0.1 };
        let x = if rows == 64 { numbers.hostile(rows * channels) } else { numbers.plain(rows * channels) };
        let dy = numbers.plain(rows * channels);
        let [gamma, beta, mean] = [(); 3].map(|()| numbers.plain(channels));
        let variance: Vec<f32> = numbers.plain(channels).iter().map(|v| v.abs()).collect();
        for format in FORMATS {
            let run = |fast: Option<(Isa, &Threads)>| {
                let mut results = [(); 4].map(|()| vec![9.0; channels]);
                let mut y = vec![9.0; x.len()];
                let [a, b, c, d] = &mut results;
                let mut statistics = Statistics { mean: a, rstd: b, running_mean: c, running_variance: d };
                let running = (mean.as_slice(), variance.as_slice());
                match fast {
                    None => reference::batch_norm::batch_norm_training(
                        &op,
                        &x,
                        &gamma,
                        &beta,
                        running,
                        &mut y,
                        &mut statistics,
                        format,
                    ),
                    Some((isa, threads)) => batch_norm::batch_norm_training(
                        isa,
                        threads,
                        &op,
                        &x,
                        &gamma,
                        &beta,
                        running,
                        &mut y,
                        &mut statistics,
                        format,
                    ),
                }
                let [a, b, c, d] = results;
                [y, a, b, c, d].concat()
            };
            let evaluate = |fast: Option<(Isa, &Threads)>| {
                let mut y = vec![9.0; x.len()];
                let running = (mean.as_slice(), variance.as_slice());
                match fast {
                    None => reference::batch_norm::batch_norm_evaluation(
                        &op, &x, &gamma, &beta, running, &mut y, format,
                    ),
                    Some((isa, threads)) => batch_norm::batch_norm_evaluation(
                        isa, threads, &op, &x, &gamma, &beta, running, &mut y, format,
                    ),
                }
                y
            };
            let back = |fast: Option<(Isa, &Threads)>| {
                let (mut dx, mut dgamma, mut dbeta) =
                    (vec![9.0; x.len()], vec![9.0; channels], vec![9.0; channels]);
                let rstd = &variance;
                match fast {
                    None => reference::batch_norm::batch_norm_backward(
                        &op,
                        &x,
                        &dy,
                        &gamma,
                        &mean,
                        rstd,
                        &mut dx,
                        &mut dgamma,
                        &mut dbeta,
                        format,
                    ),
                    Some((isa, threads)) => batch_norm::batch_norm_backward(
                        isa,
                        threads,
                        &op,
                        &x,
                        &dy,
                        &gamma,
                        &mean,
                        rstd,
                        &mut dx,
                        &mut dgamma,
                        &mut dbeta,
                        format,
                    ),
                }
                [dx, dgamma, dbeta].concat()
            };
            let expected = (run(None), evaluate(None), back(None));
            every_setting(|isa, threads| {
                assert_same(&run(Some((isa, threads))), &expected.0, "training");
                assert_same(&evaluate(Some((isa, threads))), &expected.1, "evaluation");
                assert_same(&back(Some((isa, threads))), &expected.2, "backward");
            });
        }
    }
}

#[test]
fn layer_norm_equals_the_reference() {
    let mut numbers = Numbers(41);
    for (rows, columns) in [(1, 1), (0, 5), (3, 7), (40, 64), (700, 300), (5, 9000)] {
        let x = if rows == 40 { numbers.hostile(rows * columns) } else { numbers.plain(rows * columns) };
        let dy = numbers.plain(rows * columns);
        let (gamma, beta) = (numbers.plain(columns), numbers.plain(columns));
        for format in FORMATS {
            let run = |fast: Option<(Isa, &Threads)>| {
                let (mut y, mut mean, mut rstd) = (vec![9.0; x.len()], vec![9.0; rows], vec![9.0; rows]);
                let (mut dx, mut dgamma, mut dbeta) =
                    (vec![9.0; x.len()], vec![9.0; columns], vec![9.0; columns]);
                match fast {
                    None => {
                        reference::layer_norm::layer_norm(
                            columns, 1e-5, &x, &gamma, &beta, &mut y, &mut mean, &mut rstd, format,
                        );
                        reference::layer_norm::layer_norm_backward(
                            columns,
                            &x,
                            &dy,
                            &gamma,
                            &mean,
                            &rstd,
                            &mut dx,
                            &mut dgamma,
                            &mut dbeta,
                            format,
                        );
                    }
                    Some((isa, threads)) => {
                        layer_norm::layer_norm(
                            isa, threads, columns, 1e-5, &x, &gamma, &beta, &mut y, &mut mean, &mut rstd,
                            format,
                        );
                        layer_norm::layer_norm_backward(
                            isa,
                            threads,
                            columns,
                            &x,
                            &dy,
                            &gamma,
                            &mean,
                            &rstd,
                            &mut dx,
                            &mut dgamma,
                            &mut dbeta,
                            format,
                        );
                    }
                }
                [y, mean, rstd, dx, dgamma, dbeta].concat()
            };
            let expected = run(None);
            every_setting(|isa, threads| {
                assert_same(&run(Some((isa, threads))), &expected, &format!("{rows}×{columns}"));
            });
        }
    }
}

#[test]
fn softmax_equals_the_reference() {
    let mut numbers = Numbers(42);
    for (outer, length, inner) in
        [(1, 1, 1), (3, 10, 1), (500, 64, 1), (2, 5001, 1), (2, 7, 5), (3, 40, 33), (0, 4, 1), (4, 300, 20)]
    {
        let size = outer * length * inner;
        let x = if length == 10 { numbers.hostile(size) } else { numbers.plain(size) };
        let dy = numbers.plain(size);
        for format in FORMATS {
            let (mut y, mut dx) = (vec![0.0; size], vec![0.0; size]);
            reference::softmax::softmax(length, inner, &x, &mut y, format);
            reference::softmax::softmax_backward(length, inner, &y, &dy, &mut dx, format);
            every_setting(|isa, threads| {
                let mut found = vec![9.0; size];
                softmax::softmax(isa, threads, length, inner, &x, &mut found, format);
                assert_same(&found, &y, &format!("softmax {outer}×{length}×{inner}"));
                softmax::softmax_backward(isa, threads, length, inner, &y, &dy, &mut found, format);
                assert_same(&found, &dx, "softmax backward");
            });
        }
    }
}
