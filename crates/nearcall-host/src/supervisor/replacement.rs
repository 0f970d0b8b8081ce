//! Restarts without losing a call: the next instances start and serve beside the ones before, which
//! are asked to end only then.
//!
//! A restart applies a whole configuration, since moving a service changes two units: the one that
//! it leaves and the one that it comes to.
//!
//! **Invariants:** until each of the next instances serves, nothing is taken from the ones before;
//! if one of them fails, all of them end, and the host goes on as before.

use std::rc::Rc;

use super::{Action, End, InstanceId, Phase, Report, Slot, SlotState, Supervisor, Time, Token};
use crate::config::{Config, Unit, UnitName};
use crate::limits::RETIRING_MAX;

/// A configuration that is about to take the place of the one before.
#[derive(Debug)]
pub(super) struct Replacement {
    config: Config,
    token: Option<Token>,
    /// The units that start, in this order.
    starts: Vec<(Rc<Unit>, Option<InstanceId>)>,
}

impl Supervisor {
    /// Applies a configuration: starts what is new or has changed, and the units of `restart`, and
    /// ends what they replace.
    pub(crate) fn handle_apply(
        &mut self,
        config: Config,
        restart: &[String],
        token: Option<Token>,
        now: Time,
    ) {
        if let Some(why) = self.why_not_now(&config, restart) {
            self.report(Report::NotApplied(why.clone()));
            return self.reply(token, Err(why));
        }
        let units_of = |config: &Config, service: &String| config.unit_of(service).cloned();
        let restarted: Vec<UnitName> = restart
            .iter()
            .filter_map(|service| units_of(&config, service))
            .map(|unit| unit.name.clone())
            .collect();
        let is_due = |unit: &&Rc<Unit>| {
            let is_unchanged = self.slots.iter().any(|slot| slot.unit == **unit);
            restarted.contains(&unit.name) || !is_unchanged
        };
        let starts: Vec<_> =
            config.units.iter().filter(is_due).map(|unit| (Rc::clone(unit), None)).collect();
        self.replacement = Some(Replacement { config, token, starts });
        // An instance that was starting gives way to the next one.
        for at in 0..self.slots.len() {
            if let SlotState::Running(id) = self.slots[at].state
                && self.is_covered(at)
                && !self.is_instance_up(id)
            {
                self.slots[at].state = SlotState::Waiting;
                self.retire(id, now);
            }
        }
        self.advance(now);
    }

    /// Returns why a configuration cannot be applied now.
    fn why_not_now(&self, config: &Config, restart: &[String]) -> Option<String> {
        if self.is_stopping {
            return Some("the host is stopping".to_owned());
        }
        if self.replacement.is_some() {
            return Some("another restart is under way: try again when it is done".to_owned());
        }
        let retiring = self.instances.keys().filter(|id| self.is_retiring(**id)).count();
        if retiring >= RETIRING_MAX {
            return Some(format!(
                "{retiring} processes of former restarts still drain, as many as there may be: try \
                 again when they have ended"
            ));
        }
        if config.listen != self.config.listen {
            return Some(format!(
                "the address of the host itself has changed from {} to {}: that takes a new host",
                self.config.listen, config.listen
            ));
        }
        let unknown = restart.iter().find(|name| config.unit_of(name).is_none());
        unknown.map(|name| {
            format!(
                "there is no service `{name}` in {}: see `nearcall status`",
                config.path.display()
            )
        })
    }

    /// Returns whether the unit of a slot is being replaced, or will be gone.
    pub(super) fn is_covered(&self, slot: usize) -> bool {
        let Some(replacement) = &self.replacement else { return false };
        let name = &self.slots[slot].unit.name;
        let stays = replacement.config.units.iter().any(|unit| unit.name == *name);
        !stays || replacement.starts.iter().any(|(unit, _)| unit.name == *name)
    }

    /// Returns whether an instance is one of the next ones.
    pub(super) fn is_replacing(&self, id: InstanceId) -> bool {
        let starts = self.replacement.iter().flat_map(|replacement| &replacement.starts);
        starts.into_iter().any(|(_, started)| *started == Some(id))
    }

    /// Starts those of the next instances that can be, and lets them take over when all serve.
    pub(super) fn advance_replacement(&mut self, now: Time) {
        let Some(replacement) = &self.replacement else { return };
        let is_next_up = |name: &UnitName| {
            let next = replacement.starts.iter().find(|(unit, _)| unit.name == *name);
            // What is not replaced is as it was, also if that is not up.
            next.is_none_or(|(_, id)| id.is_some_and(|id| self.is_instance_up(id)))
        };
        let due: Vec<usize> = (0..replacement.starts.len())
            .filter(|at| {
                let (unit, id) = &replacement.starts[*at];
                id.is_none() && unit.after.iter().all(is_next_up)
            })
            .collect();
        let is_done = replacement.starts.iter().all(|(unit, _)| is_next_up(&unit.name));
        for at in due {
            let unit = self.replacement.as_ref().map(|it| Rc::clone(&it.starts[at].0));
            if let Some(unit) = unit {
                let id = self.start(unit, now);
                if let Some(replacement) = &mut self.replacement {
                    replacement.starts[at].1 = Some(id);
                }
            }
        }
        if is_done {
            self.take_over(now);
        }
    }

    /// Lets the next instances take the place of the ones before.
    fn take_over(&mut self, now: Time) {
        let Some(Replacement { config, token, starts }) = self.replacement.take() else { return };
        let mut before = std::mem::take(&mut self.slots);
        for unit in &config.units {
            let at = before.iter().position(|slot| slot.unit.name == unit.name);
            let old = at.map(|at| before.swap_remove(at));
            let next = starts.iter().find(|(started, _)| started.name == unit.name);
            let slot = match (next.and_then(|(_, id)| *id), old) {
                (Some(id), old) => {
                    let restarts = old.as_ref().map_or(0, |old| old.restarts + 1);
                    let last_end = old.as_ref().and_then(|old| old.last_end.clone());
                    before.extend(old);
                    let mut slot = Slot::new(Rc::clone(unit));
                    slot.state = SlotState::Running(id);
                    (slot.restarts, slot.last_end, slot.was_up) = (restarts, last_end, true);
                    slot
                }
                (None, Some(old)) => old,
                (None, None) => Slot::new(Rc::clone(unit)),
            };
            self.slots.push(slot);
        }
        let is_unused = |address: &&_| config.addresses().all(|used| used != *address);
        let gone = self.config.addresses().filter(is_unused);
        let gone: Vec<_> = gone.cloned().map(Action::Close).collect();
        self.actions.extend(gone);
        self.actions.push(Action::SetAccess);
        self.config = config;
        for slot in before {
            if let SlotState::Running(id) = slot.state {
                self.retire(id, now);
            }
        }
        let names: Vec<_> = starts.iter().map(|(unit, _)| unit.name.to_string()).collect();
        let text = match names.is_empty() {
            true => "nothing has changed".to_owned(),
            false => format!("restarted {}", names.join(", ")),
        };
        self.report(Report::Applied(text.clone()));
        self.reply(token, Ok(text));
        self.advance(now);
    }

    /// Goes on as before, because one of the next instances has failed.
    pub(super) fn abort_replacement(
        &mut self,
        unit: &UnitName,
        end: &End,
        lines: &[String],
        now: Time,
    ) {
        let mut why = format!("{unit} {end}; what ran before goes on");
        for line in lines {
            why.push_str("\n  | ");
            why.push_str(line);
        }
        self.drop_replacement(&why, now);
    }

    pub(super) fn drop_replacement(&mut self, why: &str, now: Time) {
        let Some(Replacement { config, token, starts }) = self.replacement.take() else { return };
        for id in starts.iter().filter_map(|(_, id)| *id) {
            if let Some(instance) = self.instances.get(&id)
                && !matches!(instance.phase, Phase::Retiring { .. })
            {
                self.retire(id, now);
            }
        }
        // A unit that has failed or ended is not started by itself, so its clients do not wait.
        let is_over = |slot: &&Slot| matches!(slot.state, SlotState::Failed | SlotState::Ended);
        let used = self.slots.iter().filter(|slot| !is_over(slot));
        let used: Vec<_> = used.flat_map(|slot| slot.unit.addresses()).collect();
        let unused = config.addresses().filter(|address| !used.contains(address));
        let unused: Vec<_> = unused.cloned().map(Action::Close).collect();
        self.actions.extend(unused);
        self.report(Report::NotApplied(why.to_owned()));
        self.reply(token, Err(why.to_owned()));
    }

    fn reply(&mut self, token: Option<Token>, outcome: Result<String, String>) {
        if let Some(token) = token {
            self.actions.push(Action::Reply(token, outcome));
        }
    }
}
