// Constants of the functions as initialisers, made by constants.py beside this file; do not edit by hand.
#pragma once

// 1 / ln 2.
#define PORTABLE_LOG2_E 0x1.71547652b82fep+0
// ln 2.
#define PORTABLE_LN_2 0x1.62e42fefa39efp-1
// ln 2 in three parts; the first two have 42 bits, so that their products with small integers are exact.
#define PORTABLE_LN_2_PARTS {0x1.62e42fefa3800p-1, 0x1.ef35793c76000p-45, 0x1.cc01f97b57a08p-87}
// 2 / π.
#define PORTABLE_TWO_OVER_PI 0x1.45f306dc9c883p-1
// π / 2 in three parts; the first two have 33 bits, so that their products with 20-bit integers are exact.
#define PORTABLE_HALF_PI_PARTS {0x1.921fb54400000p+0, 0x1.0b4611a600000p-34, 0x1.3198a2e037073p-69}
// π / 2 as an unevaluated sum.
#define PORTABLE_HALF_PI {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54}
// 2 / sqrt π as an unevaluated sum.
#define PORTABLE_TWO_OVER_SQRT_PI {0x1.20dd750429b6dp+0, 0x1.1ae3a914fed80p-56}
// 1 / n! as unevaluated sums.
#define PORTABLE_INVERSE_FACTORIALS {0x1.0000000000000p+0, 0x0.0p+0, 0x1.0000000000000p+0, 0x0.0p+0, 0x1.0000000000000p-1, 0x0.0p+0, 0x1.5555555555555p-3, 0x1.5555555555555p-57, 0x1.5555555555555p-5, 0x1.5555555555555p-59, 0x1.1111111111111p-7, 0x1.1111111111111p-63, 0x1.6c16c16c16c17p-10, -0x1.f49f49f49f49fp-65, 0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-73, 0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-76, 0x1.71de3a556c734p-19, -0x1.c154f8ddc6c00p-73, 0x1.27e4fb7789f5cp-22, 0x1.cbbc05b4fa99ap-76, 0x1.ae64567f544e4p-26, -0x1.c062e06d1f209p-80, 0x1.1eed8eff8d898p-29, -0x1.2aec959e14c06p-83, 0x1.6124613a86d09p-33, 0x1.f28e0cc748ebep-87, 0x1.93974a8c07c9dp-37, 0x1.05d6f8a2efd1fp-92, 0x1.ae7f3e733b81fp-41, 0x1.1d8656b0ee8cbp-97, 0x1.ae7f3e733b81fp-45, 0x1.1d8656b0ee8cbp-101, 0x1.952c77030ad4ap-49, 0x1.ac981465ddc6cp-103, 0x1.6827863b97d97p-53, 0x1.eec01221a8b0bp-107, 0x1.2f49b46814157p-57, 0x1.2650f61dbdcb4p-112, 0x1.e542ba4020225p-62, 0x1.ea72b4afe3c2fp-120, 0x1.71b8ef6dcf572p-66, -0x1.d043ae40c4647p-120, 0x1.0ce396db7f853p-70, -0x1.aebcdbd20331cp-124, 0x1.761b41316381ap-75, -0x1.3423c7d91404fp-130, 0x1.f2cf01972f578p-80, -0x1.9ada5fcc1ab14p-135, 0x1.3f3ccdd165fa9p-84, -0x1.58ddadf344487p-139, 0x1.88e85fc6a4e5ap-89, -0x1.71c37ebd16540p-143, 0x1.d1ab1c2dccea3p-94, 0x1.054d0c78aea14p-149, 0x1.0a18a2635085dp-98, 0x1.b9e2e28e1aa54p-153, 0x1.259f98b4358adp-103, 0x1.eaf8c39dd9bc5p-157}
// 64 zero bits, then the first 320 bits of 2 / π after the binary point.
#define PORTABLE_TWO_OVER_PI_BITS {0ull, 0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull, 0xb7246e3a424dd2e0ull}
// (e^r - 1) / r for |r| ≤ ln 2 / 2, relative; the error is below 2^-43.55.
#define PORTABLE_EXPONENTIAL {0x1.fffffffffff9dp-1, 0x1.fffffffff72bfp-2, 0x1.555555556d7b0p-3, 0x1.555555740a854p-5, 0x1.111110d935c14p-7, 0x1.6c164e316cb5ap-10, 0x1.a01a8d10c9676p-13, 0x1.a15a0933292f2p-16, 0x1.71de9daeea4e8p-19}
// (atanh(s) / s - 1) / s² as a polynomial in s², for |s| ≤ (sqrt 2 - 1) / (sqrt 2 + 1), relative to atanh(s) / s; the error is below 2^-44.94.
#define PORTABLE_LOGARITHM {0x1.555555561d516p-2, 0x1.999996ab9dd92p-3, 0x1.2494110db72e5p-3, 0x1.c62b576bf20aep-4, 0x1.91121d8ffe454p-4}
// -log(erfc(x)) / x as a polynomial in x - 2, for 0 ≤ x ≤ 4, by its relative effect on erf(x); the error is below 2^-43.29.
#define PORTABLE_ERROR_FUNCTION {0x1.575b329b1b3c3p+1, 0x1.bc5630f44bb98p-1, 0x1.c9fade4cebaf8p-6, -0x1.786e4c2412d8ap-8, 0x1.1cd5a5a3cd558p-10, -0x1.7362d6f207aa7p-13, 0x1.5e7247b3d2303p-16, -0x1.1fc8136a198aep-24, -0x1.ec45e2375b427p-21, 0x1.76cd62805abf7p-22, -0x1.ed1aeec43640ap-24, 0x1.2b79f0de19d92p-26, 0x1.6004537ffa826p-28, 0x1.add7b1efee348p-29, -0x1.a440b52e3d04fp-32, -0x1.6cdd64846ad51p-31, -0x1.5d9cf9852369cp-34}
// (sin(r) / r - 1) / r² as a polynomial in r², for |r| ≤ π / 4, relative to sin(r) / r; the error is below 2^-47.5.
#define PORTABLE_SINE {-0x1.555555555223fp-3, 0x1.1111110c876cfp-7, -0x1.a019f9397130bp-13, 0x1.71d76cfd4d4dcp-19, -0x1.a961903413384p-26}
// (cos(r) - 1 + r² / 2) / r⁴ as a polynomial in r², for |r| ≤ π / 4, relative to cos(r); the error is below 2^-42.93.
#define PORTABLE_COSINE {0x1.5555554ed8e1ep-5, -0x1.6c16b8295f7f0p-10, 0x1.a010de56e054ep-16, -0x1.241e82e6ef811p-22}
