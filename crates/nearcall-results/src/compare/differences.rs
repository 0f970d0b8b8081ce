//! What else differs between two runs: machines, settings, and what must be said of both.
//!
//! Texts are as the runs have them; the renderer makes them harmless.

use serde_json::Value;

use super::Difference;
use crate::report::number;
use crate::run::{Cell, CellKey, Machine, Run};

/// Facts of the machine that differ, by name; none for one machine.
pub(super) fn machines(before: &Machine, after: &Machine) -> Vec<Difference> {
    let [Ok(Value::Object(first)), Ok(Value::Object(second))] =
        [before, after].map(serde_json::to_value)
    else {
        return Vec::new();
    };
    if before.id == after.id {
        return Vec::new();
    }
    let facts = first.iter().filter(|(name, _)| !["id", "state"].contains(&name.as_str()));
    let pairs = facts.filter_map(|(name, value)| Some((name, value, second.get(name)?)));
    let differing = pairs.filter(|(_, value, other)| value != other);
    differing
        .map(|(name, value, other)| Difference {
            what: name.clone(),
            before: words(value, other),
            after: words(other, value),
        })
        .collect()
}

/// A value in words; of a list only what the other list lacks.
fn words(value: &Value, other: &Value) -> String {
    match (value, other) {
        (Value::Array(items), Value::Array(others)) => {
            let own: Vec<String> = items
                .iter()
                .filter(|item| !others.contains(item))
                .map(|item| words(item, &Value::Null))
                .collect();
            if own.is_empty() { NOTHING.to_owned() } else { own.join(", ") }
        }
        (Value::String(text), _) => text.clone(),
        (Value::Null, _) => crate::run::UNKNOWN.to_owned(),
        (value, _) => value.to_string(),
    }
}

/// What was asked for differently, or came out differently, and can move figures.
pub(super) fn settings(runs: [&Run; 2], pairs: &[(CellKey, [&Cell; 2])]) -> Vec<Difference> {
    let asked = runs.map(|run| &run.settings);
    let state = runs.map(|run| run.machine.state.idle_held);
    let of_cells = |what: &str, count: usize| Difference {
        what: format!("{what} of {count} of {} cells", pairs.len()),
        before: "one".to_owned(),
        after: "another".to_owned(),
    };
    let sides = |what: &str, values: [String; 2]| {
        let [before, after] = values;
        Difference { what: what.to_owned(), before, after }
    };
    let mut found = vec![
        sides("version", runs.map(|run| run.tool.version.clone())),
        sides("compiler", runs.map(|run| run.tool.compiler.clone())),
        sides("launches", asked.map(|settings| settings.launches.to_string())),
        sides("placement", asked.map(|settings| settings.placement.clone())),
        sides("quick", asked.map(|settings| settings.quick.to_string())),
        sides("time allowed", asked.map(|settings| format!("{} s", settings.budget_s))),
        sides("sleep states", asked.map(|settings| settings.sleep_states.clone())),
        sides("memory", asked.map(|settings| settings.memory.clone())),
        sides("CPUs held awake", state.map(|held| held.map_or("unknown", yes_no).to_owned())),
    ];
    found.retain(|difference| difference.before != difference.after);
    for difference in &mut found {
        for text in [&mut difference.before, &mut difference.after] {
            if text.is_empty() {
                NOTHING.clone_into(text);
            }
        }
    }
    let count = |differs: fn(&Cell, &Cell) -> bool| {
        pairs.iter().filter(|(_, [first, second])| differs(first, second)).count()
    };
    let cpus = count(|first, second| first.placement != second.placement);
    let rooms = count(|first, second| first.sizes != second.sizes);
    for (what, count) in [("CPUs", cpus), ("buffer sizes", rooms)] {
        if count > 0 {
            found.push(of_cells(what, count));
        }
    }
    found
}

fn yes_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

/// What the reader must know before any figure, the worst first.
pub(super) fn warnings(
    runs: [&Run; 2],
    pairs: &[(CellKey, [&Cell; 2])],
    repeated: usize,
    same_run: bool,
) -> Vec<String> {
    let mut found = Vec::new();
    let mut say = |text: String| found.push(text);
    let [first, second] = runs;
    let profiles = runs.map(|run| run.tool.profile.as_str());
    if profiles[0] != profiles[1] {
        let [a, b] = profiles.map(|word| if word.is_empty() { "unknown" } else { word });
        say(format!("a {a} build is compared with a {b} build: that alone explains differences"));
    } else if profiles[0] == "debug" {
        say("both are debug builds: their figures say little about release builds".to_owned());
    }
    if same_run {
        say("both files hold the same run: every ratio is 1, and that says nothing".to_owned());
    }
    if first.machine.id != second.machine.id {
        say(
            "the runs are of two machines: what differs is told of the machines, and says nothing \
             about the software"
                .to_owned(),
        );
    }
    if first.started_unix_s > second.started_unix_s {
        say(format!(
            "the first run is the later one ({} and {}): before and after may be swapped",
            number::date(first.started_unix_s),
            number::date(second.started_unix_s)
        ));
    }
    for (run, which) in [(first, "first"), (second, "second")] {
        if run.partial {
            say(format!("the {which} run was cut short: cells are missing or have fewer launches"));
        }
    }
    let launches = pairs.iter().flat_map(|(_, cells)| cells).map(|cell| cell.launches);
    if !same_run && launches.min().is_some_and(|least| (2..LAUNCHES_FEW).contains(&least)) {
        say(format!(
            "some cells have fewer than {LAUNCHES_FEW} launches: their intervals are very wide; \
             use --launches"
        ));
    }
    if repeated > 0 {
        say(format!("{repeated} cells stand twice in their run; the first of each counts"));
    }
    found
}

const NOTHING: &str = "-";

/// With two launches Student's factor is 4 and more; with four it is 2.4.
const LAUNCHES_FEW: u32 = 4;
