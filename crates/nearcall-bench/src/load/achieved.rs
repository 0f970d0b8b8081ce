//! What a load was in the end: figures from the samples of all launches, and why it is too little.
//!
//! A function of its arguments.

use super::duty::{PERIOD_NS, Steering};
use super::{Did, Sample};
use crate::launch::Work;
use crate::run::LoadAchieved;

/// Adds up what the workers of all launches of a cell did. `None` without launches.
pub(crate) fn achieved<'a>(samples: impl Iterator<Item = &'a Sample>) -> Option<LoadAchieved> {
    let samples: Vec<&Sample> = samples.collect();
    let first = *samples.first()?;
    let observed_ns: u64 = samples.iter().map(|sample| sample.observed_ns).sum();
    let all = |is: fn(&Work) -> bool| {
        samples.iter().flat_map(|sample| &sample.all).filter(move |did| is(&did.work))
    };
    let is_memory = |work: &Work| matches!(work, Work::Memory { .. });
    let is_io = |work: &Work| matches!(work, Work::Io);
    let per_s = |sum: u64| (observed_ns > 0).then(|| sum as f64 * 1e9 / observed_ns as f64);
    let bytes = |is: fn(&Work) -> bool| all(is).map(|did| did.counts.bytes).sum();
    let syncs: u64 = all(is_io).map(|did| did.counts.syncs).sum();
    let cpus = cpus(&samples);
    let calibrated = |cpu: &usize| steering(first, *cpu).map(|one| one.found_percent);
    let mut found = LoadAchieved {
        observed_ns,
        workers: samples.iter().map(|sample| sample.all.len()).max().map_or(0, number),
        cpu_percent: cpu_percent(&samples, &cpus, observed_ns),
        cpus: cpus.iter().copied().map(number).collect(),
        calibrated_percent: cpus.iter().filter_map(calibrated).collect(),
        memory_bytes_per_s: first.load.memory.then(|| per_s(bytes(is_memory))).flatten(),
        io_bytes_per_s: first.load.io.then(|| per_s(bytes(is_io))).flatten(),
        syncs_per_s: first.load.io.then(|| per_s(syncs)).flatten(),
        not_reached: Vec::new(),
    };
    found.not_reached = not_reached(&samples, &found, &cpus);
    Some(found)
}

/// The CPUs that had a worker of their own in any launch.
fn cpus(samples: &[&Sample]) -> Vec<usize> {
    let all = samples.iter().flat_map(|sample| &sample.all);
    let mut cpus: Vec<usize> = all.filter_map(|did| did.work.cpu()).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

fn steering(sample: &Sample, cpu: usize) -> Option<&Steering> {
    sample.steerings.iter().find(|one| one.cpu == cpu)
}

/// CPU time of each worker that computes, in percent of a CPU; by CPU, if each has its own.
fn cpu_percent(samples: &[&Sample], cpus: &[usize], observed_ns: u64) -> Vec<f64> {
    let percent = |ns: u64| ns as f64 * 100.0 / observed_ns.max(1) as f64;
    if !cpus.is_empty() {
        let all = || samples.iter().flat_map(|sample| &sample.all);
        let of = |&cpu: &usize| all().filter(move |did| did.work.cpu() == Some(cpu));
        return cpus.iter().map(|cpu| percent(of(cpu).map(|did| did.cpu_ns).sum())).collect();
    }
    let computing = |sample: &Sample| -> Vec<u64> {
        sample.all.iter().filter(|did| did.computes()).map(|did| did.cpu_ns).collect()
    };
    let mut sums_ns: Vec<u64> = Vec::new();
    for sample in samples {
        let used = computing(sample);
        sums_ns.resize(sums_ns.len().max(used.len()), 0);
        sums_ns.iter_mut().zip(used).for_each(|(sum, ns)| *sum = sum.saturating_add(ns));
    }
    sums_ns.into_iter().map(percent).collect()
}

/// Why the load is less than was asked for: what the workers said, and what the figures say.
fn not_reached(samples: &[&Sample], found: &LoadAchieved, cpus: &[usize]) -> Vec<String> {
    let mut reasons: Vec<String> =
        samples.iter().flat_map(|sample| &sample.problems).cloned().collect();
    let Some(first) = samples.first() else { return reasons };
    let load = first.load;
    if load.duty_percent > 0 {
        reasons.extend(duty_not_reached(samples, found, cpus));
    }
    // Both measured ends may want a CPU too, always.
    let want = f64::from(found.workers) + 2.0;
    let fair = (100.0 * found.cpu_percent.len() as f64 / want).min(100.0);
    let mean = found.cpu_percent.iter().sum::<f64>() / found.cpu_percent.len().max(1) as f64;
    if load.cpu && mean < fair * FAIR_PART_MIN {
        reasons.push(format!(
            "the cpu workers got {mean:.0} % of a CPU each, where {fair:.0} % would be fair"
        ));
    }
    let nothing = |rate: Option<f64>| rate.is_none_or(|rate| rate == 0.0);
    if load.memory && nothing(found.memory_bytes_per_s) {
        reasons.push("the memory worker wrote nothing".to_owned());
    }
    if load.io && nothing(found.syncs_per_s) {
        reasons.push("nothing that the io worker wrote reached the disk".to_owned());
    }
    let mut distinct: Vec<String> = Vec::new();
    for reason in reasons {
        if !distinct.contains(&reason) {
            distinct.push(reason);
        }
    }
    distinct
}

fn duty_not_reached(samples: &[&Sample], found: &LoadAchieved, cpus: &[usize]) -> Vec<String> {
    let mut reasons = Vec::new();
    let Some(first) = samples.first() else { return reasons };
    let asked = f64::from(first.load.duty_percent);
    // Launches begin and end anywhere in a period, so each can be wrong by half of one.
    let periods = found.observed_ns as f64 / PERIOD_NS as f64;
    let chance = 50.0 * (samples.len() as f64).sqrt() / periods.max(1.0);
    for (&cpu, &got) in cpus.iter().zip(&found.cpu_percent) {
        let steering = steering(first, cpu);
        let wanted = steering.map_or(asked, Steering::worker_percent);
        if (got - wanted).abs() > TOLERANCE_PERCENT + chance {
            reasons
                .push(format!("the worker of CPU {cpu} used {got:.1} % where {asked} % was asked"));
        }
        let busy = steering.map(|one| one.found_percent);
        if let Some(busy) = busy.filter(|busy| (busy - asked).abs() > TOLERANCE_PERCENT) {
            reasons.push(format!(
                "CPU {cpu} was {busy:.0} % busy before the measurement, where {asked} % was asked"
            ));
        }
    }
    reasons
}

impl Did {
    fn computes(&self) -> bool {
        matches!(self.work, Work::Cpu | Work::Duty { .. })
    }
}

impl Work {
    /// The CPU that it is for alone.
    pub(super) fn cpu(self) -> Option<usize> {
        match self {
            Self::Duty { cpu, .. } => Some(cpu),
            Self::Cpu | Self::Memory { .. } | Self::Io => None,
        }
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// 33 to 37 % for study 004's 35 %.
const TOLERANCE_PERCENT: f64 = 2.0;

/// The scheduler shares a CPU only roughly, and the other workers and both ends also sleep.
const FAIR_PART_MIN: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::super::board::Counts;
    use super::*;
    use crate::conditions::Load;

    const MS: u64 = 1_000_000;

    fn did(work: Work, cpu_ms: u64, bytes: u64, syncs: u64) -> Did {
        Did { work, cpu_ns: cpu_ms * MS, counts: Counts { bytes, syncs } }
    }

    fn duty(cpu: usize, cpu_ms: u64) -> Did {
        did(Work::Duty { cpu, period_ns: PERIOD_NS, busy_ns: 1, phase_ns: 0 }, cpu_ms, 0, 0)
    }

    fn stress(cpu_ms: u64, bytes: u64, syncs: u64) -> Sample {
        let all = vec![
            did(Work::Cpu, cpu_ms, 0, 0),
            did(Work::Cpu, cpu_ms, 0, 0),
            did(Work::Memory { bytes: 1 }, 5, bytes, 0),
            did(Work::Io, 5, 1 << 20, syncs),
        ];
        Sample { load: Load::STRESS, observed_ns: 500 * MS, all, ..Sample::default() }
    }

    #[test]
    fn rates_are_those_of_all_launches_together() {
        let samples = [stress(200, 1 << 30, 10), stress(400, 1 << 30, 30)];
        let found = achieved(samples.iter()).unwrap();
        assert_eq!((found.observed_ns, found.workers), (1_000 * MS, 4));
        assert_eq!(found.cpu_percent, [60.0, 60.0]);
        assert_eq!(found.memory_bytes_per_s, Some((2_u64 << 30) as f64));
        assert_eq!(found.io_bytes_per_s, Some((2_u64 << 20) as f64));
        assert_eq!(found.syncs_per_s, Some(40.0));
        assert_eq!((found.not_reached, found.cpus), (Vec::new(), Vec::new()));
        assert_eq!(achieved([].iter()), None);
    }

    #[test]
    fn workers_that_got_too_little_are_told() {
        let found = achieved([stress(50, 0, 0)].iter()).unwrap();
        let reasons = found.not_reached.join("; ");
        assert!(reasons.contains("the cpu workers got 10 % of a CPU each"), "{reasons}");
        assert!(reasons.contains("memory worker wrote nothing"), "{reasons}");
        assert!(reasons.contains("io worker wrote reached the disk"), "{reasons}");
    }

    fn duty_sample(cpu_ms: [u64; 2], found: f64) -> Sample {
        let steering = |cpu| {
            let mut steering = Steering::new(cpu, 35);
            steering.correct(found);
            steering
        };
        Sample {
            load: Load::duty(35),
            observed_ns: 1_000 * MS,
            all: vec![duty(0, cpu_ms[0]), duty(1, cpu_ms[1])],
            problems: Vec::new(),
            steerings: vec![steering(0), steering(1)],
        }
    }

    #[test]
    fn a_duty_cycle_is_judged_by_its_workers_and_by_the_calibration() {
        let found = achieved([duty_sample([351, 345], 35.4)].iter()).unwrap();
        assert_eq!((found.cpu_percent, found.cpus), (vec![35.1, 34.5], vec![0, 1]));
        assert_eq!(found.calibrated_percent, [35.4, 35.4]);
        assert_eq!(found.not_reached, [""; 0]);
        let found = achieved([duty_sample([350, 290], 35.0)].iter()).unwrap();
        assert_eq!(found.not_reached, ["the worker of CPU 1 used 29.0 % where 35 % was asked"]);
        let found = achieved([duty_sample([350, 350], 98.0)].iter()).unwrap();
        assert!(found.not_reached[0].contains("CPU 0 was 98 % busy"), "{:?}", found.not_reached);
    }

    #[test]
    fn a_worker_that_did_not_start_leaves_the_others_their_figures() {
        let mut first = duty_sample([350, 340], 35.0);
        first.steerings[0].correct(30.0);
        first.all.remove(0);
        let found = achieved([first.clone()].iter()).unwrap();
        assert_eq!((found.cpus, found.cpu_percent), (vec![1], vec![34.0]));
        assert_eq!((found.calibrated_percent, found.not_reached), (vec![35.0], Vec::new()));
        // It did in the second launch.
        let found = achieved([first, duty_sample([340, 350], 35.0)].iter()).unwrap();
        assert_eq!((found.cpus, found.cpu_percent), (vec![0, 1], vec![17.0, 34.5]));
    }

    #[test]
    fn a_worker_that_could_not_work_is_told_once() {
        let mut sample = stress(400, 1 << 30, 10);
        sample.all.pop();
        sample.problems.push("the io worker: cannot write in /x: read-only".to_owned());
        let found = achieved([sample.clone(), sample].iter()).unwrap();
        assert_eq!(found.syncs_per_s, Some(0.0));
        assert_eq!(found.not_reached.len(), 2);
        assert!(found.not_reached[0].contains("read-only"));
    }
}
