//! Which cells may share a chart: those that were measured under the same circumstances.
//!
//! Always true: within a [`Group`] only mechanism, wait policy, size and what [`Rhythm`] counts
//! differ. Definitions, shapes, placements and loads never meet.
//!
//! [`Rhythm`]: crate::run::Rhythm

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::noise::Grade;
use crate::report::chart::axis::drawable;
use crate::report::chart::mark::Look;
use crate::report::chart::text;
use crate::report::hosts::{Entry, Host};
use crate::report::table::class_words;
use crate::run::{Definition, Headline, Kind, List};

use super::family::Family;

/// The circumstances of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Setting {
    pub(super) kind: Kind,
    pub(super) definition: Definition,
    pub(super) shape: String,
    pub(super) caller: String,
    pub(super) by_reference: bool,
    pub(super) class: String,
    pub(super) pair: Option<[u32; 2]>,
    pub(super) load: String,
}

/// Cells of the same circumstances, in the order of their keys.
#[derive(Clone, Debug)]
pub(super) struct Group<'a> {
    pub(super) setting: Setting,
    pub(super) entries: Vec<&'a Entry<'a>>,
}

impl Setting {
    pub(super) fn of(entry: &Entry<'_>) -> Self {
        let key = &entry.key;
        Self {
            kind: key.kind,
            definition: key.definition,
            shape: key.shape.clone(),
            caller: key.caller.clone(),
            by_reference: key.by_reference,
            class: key.class.clone(),
            pair: key.pair,
            load: key.load.clone(),
        }
    }

    /// What readers take for granted comes before all else: an idle machine, two CPUs. The greater
    /// the more usual.
    pub(super) fn usual(&self) -> (bool, bool) {
        (self.load == "idle", self.class != SAME_CPU)
    }

    /// What a title must add because nobody would take it for granted.
    pub(super) fn unusual(&self) -> String {
        let load = match self.load.as_str() {
            "idle" => String::new(),
            load => format!(", beside {}", text::clean(load)),
        };
        format!("{}{load}", self.unusual_place())
    }

    /// The same of the placement alone.
    pub(super) fn unusual_place(&self) -> &'static str {
        if self.class == SAME_CPU { ", both ends on one CPU" } else { "" }
    }
}

const SAME_CPU: &str = "same_cpu";

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::clean(&self.shape))?;
        if !self.caller.is_empty() {
            write!(f, ", caller {}", text::clean(&self.caller))?;
        }
        if self.by_reference {
            f.write_str(", by reference")?;
        }
        write!(f, ", {}", class_words(&self.class))?;
        if let Some([client, server]) = self.pair {
            write!(f, " (CPU {client} to {server})")?;
        }
        match self.load.as_str() {
            "idle" => f.write_str(", idle machine"),
            load => write!(f, ", beside {}", text::clean(load)),
        }
    }
}

/// The cells that `keep` keeps, by their circumstances: those of an idle machine and two CPUs
/// first, then the others; of each the largest group first. Only what was asked for, no floors and
/// nothing of a study's protocol.
pub(super) fn groups<'a>(host: &'a Host<'a>, keep: impl Fn(&Entry<'_>) -> bool) -> Vec<Group<'a>> {
    let mut found: BTreeMap<Setting, Vec<&Entry<'_>>> = BTreeMap::new();
    for entry in &host.entries {
        if entry.key.list == List::Cells && entry.key.study.is_none() && keep(entry) {
            found.entry(Setting::of(entry)).or_default().push(entry);
        }
    }
    let group = |(setting, entries)| Group { setting, entries };
    let mut groups: Vec<Group<'_>> = found.into_iter().map(group).collect();
    // Stable: among equals the order of the settings decides.
    groups.sort_by_key(|group| Reverse((group.setting.usual(), group.entries.len())));
    groups
}

impl<'a> Group<'a> {
    /// The sizes that were measured, ascending.
    pub(super) fn sizes(&self) -> Vec<u64> {
        let sizes: BTreeSet<u64> = self.entries.iter().map(|e| e.key.message_bytes).collect();
        sizes.into_iter().collect()
    }

    /// The same with the cells of one size only.
    pub(super) fn of_size(&self, bytes: u64) -> Group<'a> {
        let of_it = |e: &&&Entry<'_>| e.key.message_bytes == bytes;
        let entries = self.entries.iter().filter(of_it).copied().collect();
        Group { setting: self.setting.clone(), entries }
    }

    /// The size at which most was measured, the smallest of those.
    pub(super) fn smallest(&self) -> Option<u64> {
        let sizes = self.sizes();
        let count = |bytes: u64| self.of_size(bytes).entries.len();
        let most = sizes.iter().map(|&bytes| count(bytes)).max()?;
        sizes.into_iter().find(|&bytes| count(bytes) * 2 >= most)
    }

    /// What to call a cell's series: the mechanism, with its wait policy where it has several.
    pub(super) fn name(&self, entry: &Entry<'_>) -> String {
        let key = &entry.key;
        let other = |e: &&&Entry<'_>| e.key.mechanism == key.mechanism && e.key.wait != key.wait;
        let name = text::clean(&key.mechanism);
        match self.entries.iter().find(other) {
            Some(_) => format!("{name} {}", text::clean(&key.wait)),
            None => name,
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
            Some(Set { name: self.name(first), family: Family::of(&first.key), entries })
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
    pub(super) family: Family,
    pub(super) entries: Vec<&'a Entry<'a>>,
}

/// The look of each set: the first of each family in the order of `rank` (smaller is better) has
/// its family's, the others are grey. What is disturbed throughout is first of nothing.
pub(super) fn looks(sets: &[Set<'_>], rank: impl Fn(&Set<'_>) -> Option<f64>) -> Vec<Look> {
    let mut best: BTreeMap<Family, (f64, usize)> = BTreeMap::new();
    let sound = |set: &Set<'_>| set.entries.iter().any(|entry| !is_disturbed(entry));
    for (index, set) in sets.iter().enumerate().filter(|(_, set)| sound(set)) {
        let Some(rank) = rank(set).filter(|rank| rank.is_finite()) else { continue };
        let found = best.entry(set.family).or_insert((rank, index));
        if rank < found.0 {
            *found = (rank, index);
        }
    }
    let look = |(index, set): (usize, &Set<'_>)| match best.get(&set.family) {
        Some(&(_, first)) if first == index => set.family.look(),
        _ => Look::Other,
    };
    sets.iter().enumerate().map(look).collect()
}

/// The time that stands for a cell, if it can be drawn.
pub(super) fn round_trip<'e>(entry: &'e Entry<'_>) -> Option<Headline<'e>> {
    entry.cell.headline().filter(|headline| headline.unit == "ns" && drawable(headline.value))
}

/// Whether a figure is too disturbed to be drawn as if it were sound.
pub(super) fn is_disturbed(entry: &Entry<'_>) -> bool {
    entry.cell.grade == Some(Grade::D)
}
