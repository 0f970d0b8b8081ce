//! Whether times may rise with their keys, although noise hides it in each round.
//!
//! The rank correlation of one round falls with its noise, whatever the truth is: below 0.9 it
//! refutes nothing by itself. So rounds are made up in which times do rise, as near to the measured
//! ones as rising times can be, with the noise that was measured, and it is counted how often these
//! have as low a correlation.

use crate::figure::{Figure, rank_correlation};

/// How likely rounds of times that rise with their place in `times` would have as low a mean rank
/// correlation with it as these; doubled, as for a test on both sides. 1 if that cannot be told.
pub(crate) fn p_value(times: &[Figure]) -> f64 {
    let rounds = times.iter().map(|figure| figure.values.len()).min().unwrap_or(0);
    let logs: Option<Vec<Vec<f64>>> = (0..rounds).map(|round| of_round(times, round)).collect();
    let Some(logs) = logs.filter(|logs| logs.len() > 1 && times.len() > 2) else { return 1.0 };
    let middles: Vec<f64> = (0..times.len())
        .map(|at| logs.iter().map(|round| round[at]).sum::<f64>() / rounds as f64)
        .collect();
    let degrees = ((rounds - 1) * times.len()) as f64;
    let squares: f64 = logs.iter().flat_map(|round| round.iter().zip(&middles)).map(square).sum();
    let deviation = (squares / degrees).sqrt();
    let rising = isotonic(&middles);
    let keys: Vec<f64> = (0..times.len()).map(|at| at as f64).collect();
    let mean = |rounds: &[Vec<f64>]| -> f64 {
        let all = rounds.iter().map(|round| rank_correlation(&keys, round).unwrap_or(1.0));
        all.sum::<f64>() / rounds.len() as f64
    };
    let found = mean(&logs);
    let mut rng = fastrand::Rng::with_seed(SEED);
    let as_low = (0..WORLDS).filter(|_| {
        let mut round = || rising.iter().map(|log| log + deviation * normal(&mut rng)).collect();
        let world: Vec<Vec<f64>> = (0..rounds).map(|_| round()).collect();
        mean(&world) <= found + 1e-12
    });
    (2.0 * (as_low.count() + 1) as f64 / (WORLDS + 1) as f64).min(1.0)
}

/// The logarithms of one round; `None` if a value is missing.
fn of_round(times: &[Figure], round: usize) -> Option<Vec<f64>> {
    let log = |figure: &Figure| Some(figure.values[round]).filter(|ns| *ns > 0.0).map(f64::ln);
    times.iter().map(log).collect()
}

fn square((value, middle): (&f64, &f64)) -> f64 {
    (value - middle).powi(2)
}

/// The values that never fall and are nearest to these: neighbours that fall become their mean.
fn isotonic(values: &[f64]) -> Vec<f64> {
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for &value in values {
        let mut block = (value, 1);
        while let Some(&(mean, count)) = blocks.last().filter(|(mean, _)| *mean > block.0) {
            let (sum, both) = (mean * count as f64 + block.0 * block.1 as f64, count + block.1);
            block = (sum / both as f64, both);
            blocks.pop();
        }
        blocks.push(block);
    }
    blocks.into_iter().flat_map(|(mean, count)| std::iter::repeat_n(mean, count)).collect()
}

/// A normal deviate by the method of Box and Muller.
fn normal(rng: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

/// Made up as often: a p of 5 % is then known to 2 %.
const WORLDS: usize = 200;

/// A stored run has the same verdict each time.
const SEED: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Series, Unit};

    fn times(rng: &mut fastrand::Rng, truth: impl Fn(f64) -> f64, noise: f64) -> Vec<Figure> {
        let size = |at: u32| {
            let values = (0..5).map(|_| truth(f64::from(at) / 65.0) * (noise * normal(rng)).exp());
            Figure::new("", "", Unit::Ns, &Series(values.collect()))
        };
        (0..66).map(size).collect()
    }

    #[test]
    fn rising_times_are_hardly_ever_refuted_and_falling_ones_always() {
        let mut rng = fastrand::Rng::with_seed(8);
        let refuted = |p: f64| usize::from(p <= 0.05);
        let (mut rising, mut falling) = (0, 0);
        for _ in 0..6 {
            rising += refuted(p_value(&times(&mut rng, |at| 1e4 * (1.0 + at), 0.4)));
            falling += refuted(p_value(&times(&mut rng, |at| 1e4 * (2.0 - at), 0.4)));
        }
        assert!(rising <= 1 && falling == 6, "{rising} {falling}");
    }

    #[test]
    fn values_that_fall_become_their_mean() {
        assert_eq!(isotonic(&[1.0, 3.0, 2.0, 4.0]), [1.0, 2.5, 2.5, 4.0]);
        assert_eq!(isotonic(&[3.0, 2.0, 1.0]), [2.0; 3]);
        assert_eq!(isotonic(&[]), [0.0; 0]);
    }
}
