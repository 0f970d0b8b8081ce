//! Which cells may share a chart: those that were measured under the same circumstances.
//!
//! **Invariants:** within a [`Group`] only mechanism, wait policy, size and what
//! [`Rhythm`](crate::run::Rhythm) counts differ. Definitions, shapes, placements and loads never
//! meet. A family of mechanisms has the same colour, mark and dash in every chart: two dozen
//! mechanisms cannot have a colour each, eight families can.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use nearcall_channel::{DataPath, Mechanism};

use crate::noise::Grade;
use crate::report::chart::mark::Look;
use crate::report::chart::text;
use crate::report::hosts::{Entry, Host};
use crate::report::table::class_words;
use crate::run::{CellKey, Definition, List, Rhythm};

/// Cells of the same circumstances, in the order of their keys.
#[derive(Clone, Debug)]
pub(super) struct Group<'a> {
    /// Their keys without what may differ.
    pub(super) setting: CellKey,
    pub(super) entries: Vec<&'a Entry<'a>>,
}

/// The circumstances of a measurement.
fn circumstances(key: &CellKey) -> CellKey {
    let [mechanism, wait, to] = [const { String::new() }; 3];
    CellKey { mechanism, wait, to, message_bytes: 0, rhythm: Rhythm::Steady, ..key.clone() }
}

impl Group<'_> {
    /// What readers take for granted comes before all else: an idle machine, two CPUs. The greater
    /// the more usual.
    fn usual(&self) -> (bool, bool) {
        (self.setting.load == "idle", self.setting.class != SAME_CPU)
    }

    /// What a title must add because it is not the usual case.
    pub(super) fn unusual(&self) -> String {
        let load = match self.setting.load.as_str() {
            "idle" => String::new(),
            load => format!(", beside {}", text::clean(load)),
        };
        let place = if self.setting.class == SAME_CPU { ", both ends on one CPU" } else { "" };
        format!("{place}{load}")
    }

    /// The circumstances in words.
    pub(super) fn words(&self) -> String {
        let CellKey { shape, caller, class, load, .. } = &self.setting;
        let parts = [
            text::clean(shape),
            if caller.is_empty() {
                String::new()
            } else {
                format!("caller {}", text::clean(caller))
            },
            if self.setting.by_reference { "by reference".to_owned() } else { String::new() },
            class_words(class),
            match load.as_str() {
                "idle" => "idle machine".to_owned(),
                load => format!("beside {}", text::clean(load)),
            },
        ];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

const SAME_CPU: &str = "same_cpu";

/// The cells that `keep` keeps, by their circumstances: those of an idle machine and two CPUs
/// first, then the others; of each the largest group first. Only what was asked for, no floors and
/// nothing of a study's protocol.
pub(super) fn groups<'a>(host: &'a Host<'a>, keep: impl Fn(&Entry<'_>) -> bool) -> Vec<Group<'a>> {
    // One pair of many stands for none of the others.
    groups_by(host, |entry| entry.key.pair.is_none() && keep(entry), circumstances)
}

/// The same of cells whose keys become equal by `reduce`.
pub(super) fn groups_by<'a>(
    host: &'a Host<'a>,
    keep: impl Fn(&Entry<'_>) -> bool,
    reduce: impl Fn(&CellKey) -> CellKey,
) -> Vec<Group<'a>> {
    let mut found: BTreeMap<CellKey, Vec<&Entry<'_>>> = BTreeMap::new();
    for entry in &host.entries {
        if entry.key.list == List::Cells && entry.key.study.is_none() && keep(entry) {
            found.entry(reduce(&entry.key)).or_default().push(entry);
        }
    }
    let group = |(setting, entries)| Group { setting, entries };
    let mut groups: Vec<Group<'_>> = found.into_iter().map(group).collect();
    // Stable: among equals the order of the settings decides.
    groups.sort_by_key(|group| Reverse((group.usual(), group.entries.len())));
    groups
}

impl<'a> Group<'a> {
    /// The sizes that were measured, ascending.
    pub(super) fn sizes(&self) -> Vec<u64> {
        let sizes: BTreeSet<u64> = self.entries.iter().map(|e| e.key.message_bytes).collect();
        sizes.into_iter().collect()
    }

    /// The same with the cells of one size only.
    fn of_size(&self, bytes: u64) -> Group<'a> {
        let of_it = |e: &&&Entry<'_>| e.key.message_bytes == bytes;
        let entries = self.entries.iter().filter(of_it).copied().collect();
        Group { setting: self.setting.clone(), entries }
    }

    /// The cells of the size at which most was measured, the smallest of those.
    fn smallest(&self) -> Option<Group<'a>> {
        let of_sizes: Vec<Group<'_>> =
            self.sizes().into_iter().map(|bytes| self.of_size(bytes)).collect();
        let most = of_sizes.iter().map(|group| group.entries.len()).max()?;
        of_sizes.into_iter().find(|group| group.entries.len() * 2 >= most)
    }

    /// What to call a cell's series: the mechanism, with its wait policy where it has several.
    pub(super) fn name(&self, entry: &Entry<'_>) -> String {
        let key = &entry.key;
        let other = |e: &&Entry<'_>| e.key.mechanism == key.mechanism && e.key.wait != key.wait;
        let name = text::clean(&key.mechanism);
        match self.entries.iter().any(other) {
            true => format!("{name} {}", text::clean(&key.wait)),
            false => name,
        }
    }

    /// The cells by series, each with its name.
    pub(super) fn series(&self) -> Vec<Set<'a>> {
        let mut found: BTreeMap<(&str, &str), Vec<&Entry<'_>>> = BTreeMap::new();
        for &entry in &self.entries {
            let key = &entry.key;
            found.entry((&key.mechanism, &key.wait)).or_default().push(entry);
        }
        let set = |entries: Vec<&'a Entry<'a>>| {
            let first = *entries.first()?;
            Some(Set { name: self.name(first), family: family(&first.key), entries })
        };
        found.into_values().filter_map(set).collect()
    }

    /// The floors that were measured beside these: idle, on the same placement.
    pub(super) fn floors(&self, host: &'a Host<'a>) -> Vec<&'a Entry<'a>> {
        let fits = |entry: &&Entry<'_>| {
            let key = &entry.key;
            key.list == List::Floors
                && key.load == "idle"
                && key.kind == self.setting.kind
                && key.class == self.setting.class
                && (key.pair.is_none() || key.pair == self.setting.pair)
        };
        host.entries.iter().filter(fits).collect()
    }
}

/// One mechanism with one way to wait.
#[derive(Clone, Debug)]
pub(super) struct Set<'a> {
    pub(super) name: String,
    family: u8,
    pub(super) entries: Vec<&'a Entry<'a>>,
}

/// The look of each set: the first of each family in the order of `rank` (smaller is better) has
/// its family's, the others are grey. What is disturbed throughout is first of nothing.
pub(super) fn looks(sets: &[Set<'_>], rank: impl Fn(&Set<'_>) -> Option<f64>) -> Vec<Look> {
    let mut best: BTreeMap<u8, (f64, usize)> = BTreeMap::new();
    let sound = |set: &Set<'_>| set.entries.iter().any(|entry| !is_disturbed(entry));
    for (index, set) in sets.iter().enumerate().filter(|(_, set)| sound(set)) {
        let Some(rank) = rank(set).filter(|rank| rank.is_finite()) else { continue };
        let found = best.entry(set.family).or_insert((rank, index));
        if rank < found.0 {
            *found = (rank, index);
        }
    }
    let look = |(index, set): (usize, &Set<'_>)| match best.get(&set.family) {
        Some(&(_, first)) if first == index => Look::Series(set.family),
        _ => Look::Other,
    };
    sets.iter().enumerate().map(look).collect()
}

/// How data travels, and who waits for it in which way: the place in [`FAMILIES`]. A name that no
/// mechanism of this version has belongs to the last.
pub(super) fn family(key: &CellKey) -> u8 {
    let Ok(mechanism) = Mechanism::from_str(&key.mechanism) else { return 7 };
    match mechanism {
        _ if mechanism.data_path() == DataPath::SharedMemory => match key.wait.as_str() {
            "spin" => 0,
            "adaptive" => 2,
            _ => 1,
        },
        Mechanism::UnixStream | Mechanism::UnixSeqpacket | Mechanism::UnixDgram => 3,
        Mechanism::Pipe | Mechanism::Fifo | Mechanism::Vmsplice => 4,
        Mechanism::Tcp | Mechanism::Udp => 5,
        Mechanism::PosixMq | Mechanism::SysvMq => 6,
        _ => 7,
    }
}

/// The families, in the order of the looks that they have.
const FAMILIES: [&str; 8] = [
    "shared memory, spinning",
    "shared memory, sleeping",
    "shared memory, adaptive",
    "UNIX sockets",
    "pipes",
    "TCP and UDP",
    "message queues",
    "others",
];

/// The key to the families that occur, in their order.
pub(super) fn key<'a>(found: impl IntoIterator<Item = &'a Entry<'a>>) -> Vec<(Look, bool, String)> {
    let found: BTreeSet<u8> = found.into_iter().map(|entry| family(&entry.key)).collect();
    let entry =
        |family: u8| (Look::Series(family), false, FAMILIES[usize::from(family)].to_owned());
    found.into_iter().map(entry).collect()
}

/// Round trips of calls, or of plain messages where there are no calls between two CPUs of an idle
/// machine, reduced to the smallest size.
pub(super) fn smallest_exchange<'a>(
    host: &'a Host<'a>,
    keep: impl Fn(&Entry<'_>) -> bool,
) -> Option<Group<'a>> {
    let of = |shape: &&str| {
        let fits = |entry: &Entry<'_>| {
            let key = &entry.key;
            let steady = key.definition == Definition::Rtt && key.rhythm == Rhythm::Steady;
            steady && key.shape == *shape && !key.by_reference && keep(entry)
        };
        groups(host, fits).first()?.smallest()
    };
    let mut found: Vec<Group<'_>> = ["call", "echo"].iter().filter_map(of).collect();
    // Stable: of as usual ones calls.
    found.sort_by_key(|group| Reverse(group.usual()));
    found.into_iter().next()
}

/// Whether a figure is too disturbed to be drawn as if it were sound.
pub(super) fn is_disturbed(entry: &Entry<'_>) -> bool {
    entry.cell.grade == Some(Grade::D)
}
