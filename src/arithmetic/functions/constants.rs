//! Constants of the functions, made by `constants.py` beside this file; do not edit by hand.

/// 1 / ln 2.
pub const LOG2_E: f64 = f64::from_bits(0x3ff71547652b82fe);
/// ln 2.
pub const LN_2: f64 = f64::from_bits(0x3fe62e42fefa39ef);
/// ln 2 in three parts; the first two have 42 bits, so that their products with small integers are exact.
pub const LN_2_PARTS: [f64; 3] = [
    f64::from_bits(0x3fe62e42fefa3800),
    f64::from_bits(0x3d2ef35793c76000),
    f64::from_bits(0x3a8cc01f97b57a08),
];
/// 2 / π.
pub const TWO_OVER_PI: f64 = f64::from_bits(0x3fe45f306dc9c883);
/// π / 2 in three parts; the first two have 33 bits, so that their products with 20-bit integers are exact.
pub const HALF_PI_PARTS: [f64; 3] = [
    f64::from_bits(0x3ff921fb54400000),
    f64::from_bits(0x3dd0b4611a600000),
    f64::from_bits(0x3ba3198a2e037073),
];
/// π / 2 as an unevaluated sum.
pub const HALF_PI: (f64, f64) = (f64::from_bits(0x3ff921fb54442d18), f64::from_bits(0x3c91a62633145c07));
/// 2 / sqrt π as an unevaluated sum.
pub const TWO_OVER_SQRT_PI: (f64, f64) =
    (f64::from_bits(0x3ff20dd750429b6d), f64::from_bits(0x3c71ae3a914fed80));
/// 1 / n! as unevaluated sums.
pub const INVERSE_FACTORIALS: [(f64, f64); 30] = [
    (f64::from_bits(0x3ff0000000000000), f64::from_bits(0x0000000000000000)),
    (f64::from_bits(0x3ff0000000000000), f64::from_bits(0x0000000000000000)),
    (f64::from_bits(0x3fe0000000000000), f64::from_bits(0x0000000000000000)),
    (f64::from_bits(0x3fc5555555555555), f64::from_bits(0x3c65555555555555)),
    (f64::from_bits(0x3fa5555555555555), f64::from_bits(0x3c45555555555555)),
    (f64::from_bits(0x3f81111111111111), f64::from_bits(0x3c01111111111111)),
    (f64::from_bits(0x3f56c16c16c16c17), f64::from_bits(0xbbef49f49f49f49f)),
    (f64::from_bits(0x3f2a01a01a01a01a), f64::from_bits(0x3b6a01a01a01a01a)),
    (f64::from_bits(0x3efa01a01a01a01a), f64::from_bits(0x3b3a01a01a01a01a)),
    (f64::from_bits(0x3ec71de3a556c734), f64::from_bits(0xbb6c154f8ddc6c00)),
    (f64::from_bits(0x3e927e4fb7789f5c), f64::from_bits(0x3b3cbbc05b4fa99a)),
    (f64::from_bits(0x3e5ae64567f544e4), f64::from_bits(0xbafc062e06d1f209)),
    (f64::from_bits(0x3e21eed8eff8d898), f64::from_bits(0xbac2aec959e14c06)),
    (f64::from_bits(0x3de6124613a86d09), f64::from_bits(0x3a8f28e0cc748ebe)),
    (f64::from_bits(0x3da93974a8c07c9d), f64::from_bits(0x3a305d6f8a2efd1f)),
    (f64::from_bits(0x3d6ae7f3e733b81f), f64::from_bits(0x39e1d8656b0ee8cb)),
    (f64::from_bits(0x3d2ae7f3e733b81f), f64::from_bits(0x39a1d8656b0ee8cb)),
    (f64::from_bits(0x3ce952c77030ad4a), f64::from_bits(0x398ac981465ddc6c)),
    (f64::from_bits(0x3ca6827863b97d97), f64::from_bits(0x394eec01221a8b0b)),
    (f64::from_bits(0x3c62f49b46814157), f64::from_bits(0x38f2650f61dbdcb4)),
    (f64::from_bits(0x3c1e542ba4020225), f64::from_bits(0x387ea72b4afe3c2f)),
    (f64::from_bits(0x3bd71b8ef6dcf572), f64::from_bits(0xb87d043ae40c4647)),
    (f64::from_bits(0x3b90ce396db7f853), f64::from_bits(0xb83aebcdbd20331c)),
    (f64::from_bits(0x3b4761b41316381a), f64::from_bits(0xb7d3423c7d91404f)),
    (f64::from_bits(0x3aff2cf01972f578), f64::from_bits(0xb789ada5fcc1ab14)),
    (f64::from_bits(0x3ab3f3ccdd165fa9), f64::from_bits(0xb7458ddadf344487)),
    (f64::from_bits(0x3a688e85fc6a4e5a), f64::from_bits(0xb7071c37ebd16540)),
    (f64::from_bits(0x3a1d1ab1c2dccea3), f64::from_bits(0x36a054d0c78aea14)),
    (f64::from_bits(0x39d0a18a2635085d), f64::from_bits(0x366b9e2e28e1aa54)),
    (f64::from_bits(0x398259f98b4358ad), f64::from_bits(0x362eaf8c39dd9bc5)),
];
/// 64 zero bits, then the first 320 bits of 2 / π after the binary point.
pub const TWO_OVER_PI_BITS: [u64; 6] =
    [0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0];
/// (e^r - 1) / r for |r| ≤ ln 2 / 2, relative; the error is below 2^-43.55.
pub const EXPONENTIAL: [f64; 9] = [
    f64::from_bits(0x3fefffffffffff9d), // 0.99999999999998902
    f64::from_bits(0x3fdfffffffff72bf), // 0.49999999999799268
    f64::from_bits(0x3fc555555556d7b0), // 0.16666666666941189
    f64::from_bits(0x3fa555555740a854), // 0.041666666890095046
    f64::from_bits(0x3f8111110d935c14), // 0.0083333332317306124
    f64::from_bits(0x3f56c164e316cb5a), // 0.0013888821816691794
    f64::from_bits(0x3f2a01a8d10c9676), // 0.00019841371297351127
    f64::from_bits(0x3efa15a0933292f2), // 2.4876099996478997e-5
    f64::from_bits(0x3ec71de9daeea4e8), // 2.7557432171377895e-6
];
/// (atanh(s) / s - 1) / s² as a polynomial in s², for |s| ≤ (sqrt 2 - 1) / (sqrt 2 + 1), relative to atanh(s) / s; the error is below 2^-44.94.
pub const LOGARITHM: [f64; 5] = [
    f64::from_bits(0x3fd555555561d516), // 0.33333333337880453
    f64::from_bits(0x3fc999996ab9dd92), // 0.19999997817261012
    f64::from_bits(0x3fc2494110db72e5), // 0.14286053965670145
    f64::from_bits(0x3fbc62b576bf20ae), // 0.11088117741667489
    f64::from_bits(0x3fb91121d8ffe454), // 0.097917666891491455
];
/// -log(erfc(x)) / x as a polynomial in x - 2, for 0 ≤ x ≤ 4, by its relative effect on erf(x); the error is below 2^-43.29.
pub const ERROR_FUNCTION: [f64; 17] = [
    f64::from_bits(0x400575b329b1b3c3), // 2.6824706323008926
    f64::from_bits(0x3febc5630f44bb98), // 0.86784508688093619
    f64::from_bits(0x3f9c9fade4cebaf8), // 0.027952878084472637
    f64::from_bits(0xbf7786e4c2412d8a), // -0.0057438789263629755
    f64::from_bits(0x3f51cd5a5a3cd558), // 0.0010865576122801225
    f64::from_bits(0xbf27362d6f207aa7), // -0.00017709068885181818
    f64::from_bits(0x3ef5e7247b3d2303), // 2.0888233577739783e-5
    f64::from_bits(0xbe71fc8136a198ae), // -6.7004362643005234e-8
    f64::from_bits(0xbeaec45e2375b427), // -9.169298839491449e-7
    f64::from_bits(0x3e976cd62805abf7), // 3.4906182835051001e-7
    f64::from_bits(0xbe7ed1aeec43640a), // -1.1481000245244682e-7
    f64::from_bits(0x3e52b79f0de19d92), // 1.7431816761243646e-8
    f64::from_bits(0x3e36004537ffa826), // 5.1225200747664831e-9
    f64::from_bits(0x3e2add7b1efee348), // 3.1275162390130253e-9
    f64::from_bits(0xbdfa440b52e3d04f), // -3.8221766280625265e-10
    f64::from_bits(0xbe06cdd64846ad51), // -6.6368523225099706e-10
    f64::from_bits(0xbdd5d9cf9852369c), // -7.9492834259813109e-11
];
/// (sin(r) / r - 1) / r² as a polynomial in r², for |r| ≤ π / 4, relative to sin(r) / r; the error is below 2^-47.5.
pub const SINE: [f64; 5] = [
    f64::from_bits(0xbfc555555555223f), // -0.16666666666630368
    f64::from_bits(0x3f81111110c876cf), // 0.0083333333250793763
    f64::from_bits(0xbf2a019f9397130b), // -0.00019841263728728077
    f64::from_bits(0x3ec71d76cfd4d4dc), // 2.7555339544802349e-6
    f64::from_bits(0xbe5a961903413384), // -2.4760439213105796e-8
];
/// (cos(r) - 1 + r² / 2) / r⁴ as a polynomial in r², for |r| ≤ π / 4, relative to cos(r); the error is below 2^-42.93.
pub const COSINE: [f64; 4] = [
    f64::from_bits(0x3fa5555554ed8e1e), // 0.041666666619473808
    f64::from_bits(0xbf56c16b8295f7f0), // -0.0013888883498505109
    f64::from_bits(0x3efa010de56e054e), // 2.4799459733331359e-5
    f64::from_bits(0xbe9241e82e6ef811), // -2.7205719138254444e-7
];
