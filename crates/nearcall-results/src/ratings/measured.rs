//! The figures behind the ratings that times and rates can give.
//!
//! Always true: figures that are compared come from one run, one protocol, one pair of CPUs and
//! one size; a cell of grade D is no evidence. Colours are given in `studies/ratings.rs`.

use std::collections::{BTreeMap, HashMap};
use std::ptr;

use super::ENEA;
use super::{GROUPS, Group};
use crate::load::Load;
use crate::noise::Grade;
use crate::report::hosts::{Entry, Host};
use crate::run::{CellKey, Definition, Kind, List, Rhythm, Run};

/// What a property is judged by.
pub(super) struct Wanted {
    pub(super) kind: Kind,
    pub(super) one_cpu: bool,
    /// Sizes that count, and the one that is taken if it is there.
    pub(super) bytes: (u64, u64, u64),
    /// Whether the figure is what load does to it, instead of the idle figure itself.
    pub(super) loaded: bool,
}

/// The figure of one group, from its best member.
pub(super) struct Found<'a> {
    pub(super) idle: &'a Entry<'a>,
    /// The same under load, where that was wanted.
    pub(super) loaded: Option<&'a Entry<'a>>,
    /// Nanoseconds or bytes per second; under load the factor of time that load costs.
    pub(super) value: f64,
    /// How many times as long as the best group takes; 1 for the best.
    pub(super) times_best: f64,
}

/// What is known of a property.
pub(super) struct Evidence<'a> {
    pub(super) found: BTreeMap<Group, Found<'a>>,
    /// Groups of which only cells of grade D are there.
    pub(super) too_noisy: Vec<Group>,
}

/// What figures that are compared have in common: run, protocol, pair of CPUs and size.
type Basis<'a> = (*const Run, List, Option<[u32; 2]>, &'a str, u64);

fn basis<'a>(entry: &Entry<'a>, key: &'a CellKey) -> Basis<'a> {
    (ptr::from_ref(entry.run), key.list, key.pair, key.class.as_str(), key.message_bytes)
}

/// The usable entries by their basis, in the order in which each basis comes first.
fn by_basis<'a>(host: &'a Host<'a>, wanted: &Wanted) -> Vec<Vec<&'a Entry<'a>>> {
    let mut places: HashMap<Basis<'a>, usize> = HashMap::new();
    let mut found: Vec<Vec<&'a Entry<'a>>> = Vec::new();
    let usable = host.entries.iter().filter(|entry| {
        is_idle(&entry.key) && entry.cell.grade != Some(Grade::D) && wanted.fits(entry)
    });
    for entry in usable {
        let place = *places.entry(basis(entry, &entry.key)).or_insert(found.len());
        match found.get_mut(place) {
            Some(entries) => entries.push(entry),
            None => found.push(vec![entry]),
        }
    }
    found
}

/// Finds the evidence that has figures of most groups; of equal ones that of the study's own
/// protocol, then that of the size that is wanted.
pub(super) fn evidence<'a>(host: &'a Host<'a>, wanted: &Wanted) -> Evidence<'a> {
    let mut best: Option<(usize, bool, f64, BTreeMap<Group, Found<'a>>)> = None;
    for entries in by_basis(host, wanted) {
        let (found, entry) = (figures(host, wanted, &entries), entries[0]);
        let study = entry.key.list == List::StudyCells;
        let off = (entry.key.message_bytes as f64 / wanted.bytes.1 as f64).ln().abs();
        let better = best.as_ref().is_none_or(|(groups, of_study, so_far, _)| {
            let (now, before) = ((found.len(), study), (*groups, *of_study));
            now > before || (now == before && off < *so_far)
        });
        if better {
            best = Some((found.len(), study, off, found));
        }
    }
    let mut found = best.map(|(.., found)| found).unwrap_or_default();
    // One figure alone has nothing to be compared with.
    if found.len() < 2 {
        found.clear();
    }
    let least = found.values().map(|found| wanted.time(found.value)).fold(f64::INFINITY, f64::min);
    for figure in found.values_mut() {
        figure.times_best = wanted.time(figure.value) / least;
    }
    let all: Vec<&Entry<'a>> = host.entries.iter().filter(|entry| wanted.fits(entry)).collect();
    let noisy = |group: &Group| {
        !found.contains_key(group)
            && all.iter().any(|entry| {
                group_of(&entry.key) == Some(*group) && entry.cell.grade == Some(Grade::D)
            })
    };
    let too_noisy = GROUPS.into_iter().filter(noisy).collect();
    Evidence { found, too_noisy }
}

/// The figure of each group on one basis: of its member that is quickest when idle.
fn figures<'a>(
    host: &'a Host<'a>,
    wanted: &Wanted,
    idle: &[&'a Entry<'a>],
) -> BTreeMap<Group, Found<'a>> {
    let mut found: BTreeMap<Group, (f64, &Entry<'a>)> = BTreeMap::new();
    for &entry in idle {
        let (Some(group), Some(value)) = (group_of(&entry.key), value(entry)) else { continue };
        let quicker =
            |(so_far, _): &(f64, &Entry<'a>)| wanted.time_of(value) < wanted.time_of(*so_far);
        if found.get(&group).is_none_or(quicker) {
            found.insert(group, (value, entry));
        }
    }
    let figures = found.into_iter().filter_map(|(group, (value, idle))| {
        if !wanted.loaded {
            return Some((group, Found { idle, loaded: None, value, times_best: 1.0 }));
        }
        let loaded = under_load(host, idle)?;
        let factor = wanted.time_of(self::value(loaded)?) / wanted.time_of(value);
        Some((group, Found { idle, loaded: Some(loaded), value: factor, times_best: 1.0 }))
    });
    figures.collect()
}

/// The same cell of the same run, under the load of the study.
fn under_load<'a>(host: &'a Host<'a>, idle: &Entry<'a>) -> Option<&'a Entry<'a>> {
    let key = CellKey { load: Load::STRESS.to_string(), ..idle.key.clone() };
    // They are sorted by key, and no two have one.
    let place = host.entries.binary_search_by(|entry| entry.key.cmp(&key)).ok()?;
    let loaded = &host.entries[place];
    let is_fit = ptr::eq(loaded.run, idle.run) && loaded.cell.grade != Some(Grade::D);
    is_fit.then_some(loaded)
}

impl Wanted {
    /// Whether a cell may be evidence, whatever its grade and load.
    fn fits(&self, entry: &Entry<'_>) -> bool {
        let (key, (least, _, most)) = (&entry.key, self.bytes);
        let ours = match key.list {
            List::StudyCells => key.study.as_ref().is_some_and(|study| study.study == ENEA),
            List::Cells => key.study.is_none() && key.caller.is_empty(),
            List::Floors | List::Bare | List::Parts | List::Libraries => false,
        };
        let defined = match self.kind {
            Kind::Latency => key.definition == Definition::Rtt && key.shape == "echo",
            Kind::Throughput => key.definition == Definition::OneWayThroughput,
        };
        let classes: &[&str] =
            if self.one_cpu { &["same_cpu"] } else { &["same_llc", "same_node"] };
        ours && defined
            && key.kind == self.kind
            && key.rhythm == Rhythm::Steady
            && (least..=most).contains(&key.message_bytes)
            && classes.contains(&key.class.as_str())
            && (is_idle(key) || (self.loaded && key.load == Load::STRESS.to_string()))
            && group_of(key).is_some()
            && value(entry).is_some()
    }

    /// A figure so that less is better.
    fn time_of(&self, value: f64) -> f64 {
        if self.kind == Kind::Throughput { 1.0 / value } else { value }
    }

    /// The same of what was found, which is a factor of time where load is concerned.
    fn time(&self, value: f64) -> f64 {
        if self.loaded { value } else { self.time_of(value) }
    }
}

fn is_idle(key: &CellKey) -> bool {
    key.load == "idle"
}

/// Nanoseconds, or bytes per second; above zero.
fn value(entry: &Entry<'_>) -> Option<f64> {
    let value = entry.cell.headline()?.value;
    let value = match entry.key.kind {
        Kind::Latency => value,
        Kind::Throughput => value * entry.key.message_bytes as f64,
    };
    Some(value).filter(|value| value.is_finite() && *value > 0.0)
}

/// The paper's word for what a cell measured.
pub(super) fn group_of(key: &CellKey) -> Option<Group> {
    let name = key.study.as_ref().map_or(key.mechanism.as_str(), |study| &study.mechanism);
    Some(match name {
        "pipe" => Group::Pipe,
        "unix" | "unix-stream" => Group::Unix,
        "tcp" => Group::Tcp,
        "mempipe" | "mempipe_spin" | "shmem_pipe" | "mempipe_lat(shm_flag_spin)" | "shm" => {
            Group::SharedMemory
        }
        name if name.starts_with("shm-") => Group::SharedMemory,
        _ => return None,
    })
}
