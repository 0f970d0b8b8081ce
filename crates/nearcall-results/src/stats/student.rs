//! Student's t distribution for any degrees of freedom, also broken ones.
//!
//! Functions of their arguments, exact to about 10 digits. What the tests of two samples ask of
//! the distribution is here; which test is taken is in `two_samples.rs`.

/// How likely a value at least as far from zero as `t` is. Between 0 and 1.
pub(super) fn two_sided_p(t: f64, degrees: f64) -> f64 {
    incomplete_beta(degrees / (degrees + t * t), degrees / 2.0, 0.5)
}

/// The value that is exceeded, on both sides together, with probability `p`.
pub(super) fn two_sided_quantile(p: f64, degrees: f64) -> f64 {
    let (mut below, mut above) = (0.0_f64, 2.0_f64);
    while two_sided_p(above, degrees) > p && above < T_MAX {
        above *= 2.0;
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(below, above);
        match two_sided_p(middle, degrees) > p {
            true => below = middle,
            false => above = middle,
        }
    }
    f64::midpoint(below, above)
}

/// The regularised incomplete beta function, by its continued fraction.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges fast on this side of its middle; the other side is one minus it.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let logarithm = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln();
    (logarithm.exp() * fraction(x, a, b) / a).clamp(0.0, 1.0)
}

/// Lentz's way to evaluate the fraction from its front.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut c, mut d) = (1.0, 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0)));
    let mut value = d;
    for step in 1..=STEPS_MAX {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            change = c * d;
            value *= change;
        }
        if (change - 1.0).abs() < 1e-13 {
            break;
        }
    }
    value
}

/// The logarithm of the gamma function above zero, by the series of Lanczos.
fn ln_gamma(x: f64) -> f64 {
    let series: f64 = LANCZOS.iter().zip(1_u32..).map(|(c, i)| c / (x + f64::from(i))).sum();
    let base = x + 5.5;
    (x + 0.5) * base.ln() - base + ((1.000_000_000_190_015 + series) * ROOT_TAU / x).ln()
}

const LANCZOS: [f64; 6] = [
    76.180_091_729_471_46,
    -86.505_320_329_416_77,
    24.014_098_240_830_91,
    -1.231_739_572_450_155,
    1.208_650_973_866_179e-3,
    -5.395_239_384_953e-6,
];

/// The square root of two pi.
const ROOT_TAU: f64 = 2.506_628_274_631_000_5;

/// Stands for zero where a division would follow.
const TINY: f64 = 1e-300;

/// Enough for any launches that can be asked for; the fraction needs a dozen.
const STEPS_MAX: u32 = 500;

/// No quantile that is asked for lies beyond: one degree of freedom has 12.7.
const T_MAX: f64 = 1e12;

/// Each halves the error: this many leave less than `two_sided_p` itself has.
const HALVINGS: u32 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_probabilities_meet_the_tables() {
        let cases = [(1.0, 12.706_205), (2.0, 4.302_653), (4.0, 2.776_445), (8.0, 2.306_004)];
        for (degrees, quantile) in cases {
            assert!((two_sided_quantile(0.05, degrees) - quantile).abs() < 1e-5, "{degrees}");
            assert!((two_sided_p(quantile, degrees) - 0.05).abs() < 1e-7, "{degrees}");
            assert!((two_sided_p(-quantile, degrees) - 0.05).abs() < 1e-7, "{degrees}");
        }
        assert!((two_sided_quantile(0.05, 1e6) - 1.959_966).abs() < 1e-4);
        // One degree is Cauchy's distribution, two have a closed form.
        assert!((two_sided_p(1.0, 1.0) - 0.5).abs() < 1e-9);
        assert!((two_sided_p(2.0, 2.0) - (1.0 - 2.0 / 6.0_f64.sqrt())).abs() < 1e-9);
    }

    #[test]
    fn degrees_between_whole_ones_lie_between_them() {
        let [four, between, five] = [4.0, 4.5, 5.0].map(|d| two_sided_quantile(0.05, d));
        assert!(four > between && between > five);
    }

    #[test]
    fn the_ends_are_certain() {
        assert!((two_sided_p(0.0, 3.0) - 1.0).abs() < 1e-12);
        assert!(two_sided_p(f64::INFINITY, 3.0).abs() < 1e-12);
        assert!(two_sided_p(1e6, 3.0) < 1e-12);
    }
}
