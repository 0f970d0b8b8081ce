//! The claims of study 001 about latency, over all ordered pairs of CPUs.
//!
//! The size of the item is left open by the paper, so figures of a pair are taken at the size they
//! were measured with. A spun-on flag has no figure where both ends share a CPU.

use crate::studies::claims::truth::{Answer, Bound, Finding, Missing, Truth, all, less, within};
use crate::studies::claims::view::View;
use crate::studies::evidence::{Key, Load, Place, Quantity};
use crate::studies::figure::Figure;

/// By the flag: it shows the machine and not the kernel.
pub(crate) fn e18(view: &View<'_>) -> Answer {
    if let Some(reason) = view.evidence.facts.lacks(Place::CrossNode) {
        return Err(Missing(format!("no latency on two nodes: {reason}")));
    }
    let between = pairs(view, FLAG, Load::Idle, |class| class == Place::CrossNode)?;
    let inside = pairs(view, FLAG, Load::Idle, |class| matches!(class, Place::Cross | Place::Smt))?;
    let ratio = median("between nodes", &between).over(&median("within a node", &inside));
    Ok(Finding::new(&ratio, Bound::Above(1.2)))
}

pub(crate) fn e19(view: &View<'_>) -> Answer {
    let flags = pairs(view, FLAG, Load::Idle, different)?;
    let worst = Figure::max_of("flag on its worst pair", &figures(&flags));
    let mut kernel = Vec::new();
    for mechanism in KERNEL {
        kernel.extend(figures(&pairs(view, mechanism, Load::Idle, different)?));
    }
    let best = Figure::min_of("kernel mechanism on its best pair", &kernel);
    let note = format!("{} pairs", flags.len());
    Ok(less(&worst.at(""), &best.at("")).noted(note))
}

/// In each placement of which there are pairs.
pub(crate) fn e20(view: &View<'_>) -> Answer {
    let mut findings = Vec::new();
    for place in [Place::Same, Place::Smt, Place::Cross, Place::CrossNode] {
        let of = |mechanism: &str| pairs(view, mechanism, Load::Idle, |class| class == place);
        let Ok(tcp) = of("tcp") else { continue };
        let at = place.to_string();
        let tcp = median("tcp", &tcp).at(&at);
        for other in ["pipe", "unix"] {
            findings.push(less(&median(other, &of(other)?).at(&at), &tcp));
        }
    }
    if findings.is_empty() {
        pairs(view, "tcp", Load::Idle, |_| true)?;
    }
    Ok(all(findings))
}

/// The median over pairs of different CPUs under load, to the same median idle.
pub(crate) fn e21(view: &View<'_>) -> Answer {
    let factor = |mechanism: &str| {
        let loaded = pairs(view, mechanism, Load::Stress, different)?;
        let idle = pairs(view, mechanism, Load::Idle, different)?;
        let ratio = median("", &loaded).over(&median("", &idle));
        Ok(ratio.named(&format!("factor of {mechanism}")).at("under load"))
    };
    let flag = factor(FLAG)?;
    let mut findings = Vec::new();
    for mechanism in KERNEL {
        findings.push(less(&flag, &factor(mechanism)?));
    }
    Ok(all(findings))
}

/// Always by the mean: the claim is about pairs that are now and then held up, which a median is
/// made to hide.
pub(crate) fn e22(view: &View<'_>) -> Answer {
    let mut findings = Vec::new();
    for mechanism in KERNEL {
        let pairs = pairs_by(view, Quantity::Mean, mechanism, Load::Stress, |_| true)?;
        let name = format!("{mechanism} on its slowest pair");
        let slowest = Figure::max_of(&name, &figures(&pairs)).at("under load, by the mean");
        let bound = match mechanism {
            "tcp" => Bound::AtMost(60_000.0),
            _ => Bound::Above(60_000.0),
        };
        findings.push(Finding::new(&slowest, bound));
    }
    Ok(all(findings))
}

/// CPU by CPU, as the predicate says. The paper's own figures hold by their medians only.
pub(crate) fn e23(view: &View<'_>) -> Answer {
    let mut findings = Vec::new();
    for mechanism in KERNEL {
        let same = |class| class == Place::Same;
        for (idle, loaded) in both_loads(view, mechanism, same)? {
            let factor = loaded.over(&idle).named(&format!("{mechanism} under load / idle"));
            findings.push(within(&factor.at(&idle.at), 0.6, 1.6));
        }
    }
    Ok(all(findings))
}

/// What fails here puts the idle run in doubt, so it says to look at the clock frequency.
pub(crate) fn e25(view: &View<'_>) -> Answer {
    let mut findings = Vec::new();
    for mechanism in [FLAG, "pipe", "tcp", "unix"] {
        for (idle, loaded) in both_loads(view, mechanism, |_| true)? {
            let factor = idle.over(&loaded).named(&format!("{mechanism} idle / under load"));
            findings.push(Finding::new(&factor.at(&idle.at), Bound::AtMost(1.1)));
        }
    }
    let finding = all(findings);
    Ok(match finding.truth {
        Truth::False => {
            finding.noted("the idle run was slowed down: see clock frequency and idle states")
        }
        _ => finding,
    })
}

type Pair = ((u16, u16), Figure);

/// The latencies of a mechanism on those pairs of CPUs whose class is wanted.
fn pairs(
    view: &View<'_>,
    mechanism: &str,
    load: Load,
    wanted: impl Fn(Place) -> bool,
) -> Result<Vec<Pair>, Missing> {
    pairs_by(view, view.latency_quantity(), mechanism, load, wanted)
}

fn pairs_by(
    view: &View<'_>,
    quantity: Quantity,
    mechanism: &str,
    load: Load,
    wanted: impl Fn(Place) -> bool,
) -> Result<Vec<Pair>, Missing> {
    let mut found = Vec::new();
    for (key, _) in view.evidence.iter() {
        let Place::Pair(client, server) = key.place else { continue };
        let of = (key.study, key.mechanism.as_str(), key.quantity, key.load);
        if of == (view.study, mechanism, quantity, load)
            && wanted(view.evidence.facts.class(client, server))
            && let Ok(figure) = view.get(key)
        {
            let on = key.place.to_string();
            found.push(((client, server), figure.at(&on)));
        }
    }
    if found.is_empty() {
        let key = view.key(mechanism, 0, quantity).under(load);
        let anywhere = Key { place: Place::None, ..key.clone() };
        return Err(view.missing(&key, &format!("{anywhere} on pairs of CPUs")));
    }
    Ok(found)
}

/// Idle and loaded figures of the same pairs.
fn both_loads(
    view: &View<'_>,
    mechanism: &str,
    wanted: impl Fn(Place) -> bool + Copy,
) -> Result<Vec<(Figure, Figure)>, Missing> {
    let idle = pairs(view, mechanism, Load::Idle, wanted)?;
    let loaded = pairs(view, mechanism, Load::Stress, wanted)?;
    let both: Vec<(Figure, Figure)> = idle
        .into_iter()
        .filter_map(|(cpus, idle)| {
            let (_, loaded) = loaded.iter().find(|(other, _)| *other == cpus)?;
            Some((idle, loaded.clone()))
        })
        .collect();
    if both.is_empty() {
        let what = format!("no pair of CPUs with {mechanism} both idle and under load");
        return Err(Missing(what));
    }
    Ok(both)
}

fn figures(pairs: &[Pair]) -> Vec<Figure> {
    pairs.iter().map(|(_, figure)| figure.clone()).collect()
}

fn median(name: &str, pairs: &[Pair]) -> Figure {
    Figure::median_of(name, &figures(pairs)).at("")
}

fn different(class: Place) -> bool {
    class != Place::Same
}

/// Two words in shared memory that both ends spin on.
const FLAG: &str = "mempipe_lat(shm_flag_spin)";
const KERNEL: [&str; 3] = ["pipe", "tcp", "unix"];
