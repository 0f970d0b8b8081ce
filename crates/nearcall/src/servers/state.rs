//! What all loops of a server know of it beside its connections: its health, where it listens, and
//! how it is ended.
//!
//! **Invariants:** no lock is held while the action that ends the server runs.
//! **Not here:** the connections (`reactor/census.rs`), who may ask for what (`built_in.rs`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nearcall_channel::{Address as Place, Mechanism, MechanismSet};
use nearcall_os::clock;
use nearcall_wire::InstanceId;

use super::gathering::LoopHandle;
use crate::address::{Address, At};
use crate::control::Health;
use crate::instance::new_instance;
use crate::limits::Limits;
use crate::reactor::census::Census;
use crate::recording::Recording;

/// Shared by the loops of one server and its handle.
pub(super) struct ServerState {
    pub(super) census: Arc<Census>,
    /// By it clients know the loops of this server from those of others.
    pub(super) instance: InstanceId,
    started: Instant,
    /// Its loops.
    loops: Mutex<Vec<LoopHandle>>,
    /// A lock, because all of it changes rarely; no call of a user's object takes it.
    facts: Mutex<Facts>,
}

struct Facts {
    /// By the name of the object; the server as a whole has the empty one.
    health: BTreeMap<String, Health>,
    is_draining: bool,
    /// Where clients find it, and what is offered there.
    places: Vec<(At, MechanismSet)>,
    recording: Option<Arc<Recording>>,
    stop: Option<Arc<dyn Fn() + Send + Sync>>,
    /// What to do where calls cannot end it.
    stop_remedy: Option<&'static str>,
}

/// Lets the server be stopped by a call for as long as it lives.
pub(super) struct Stoppable<'a>(&'a ServerState);

impl Drop for Stoppable<'_> {
    fn drop(&mut self) {
        let stop = self.0.lock().stop.take();
        drop(stop);
    }
}

impl ServerState {
    pub(super) fn new(loops: usize, limits: &Limits) -> Arc<Self> {
        let health = BTreeMap::from([(String::new(), Health::Serving)]);
        let places = Vec::new();
        let (recording, stop, stop_remedy) = (None, None, None);
        let facts = Facts { health, is_draining: false, places, recording, stop, stop_remedy };
        let (census, started) = (Census::new(loops, limits), clock::now());
        let (instance, loops, facts) = (new_instance(), Mutex::default(), Mutex::new(facts));
        Arc::new(Self { census, instance, started, loops, facts })
    }

    /// Notes a loop that has a part of the server.
    pub(super) fn add_loop(&self, handle: LoopHandle) {
        self.loops.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
    }

    /// Returns the loops that have a part of the server.
    pub(super) fn loops(&self) -> Vec<LoopHandle> {
        self.loops.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the loop of this number.
    pub(super) fn loop_of(&self, index: usize) -> Option<LoopHandle> {
        self.loops().into_iter().find(|handle| handle.index == index)
    }

    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how long ago the server was created.
    pub(super) fn uptime(&self) -> Duration {
        clock::now().saturating_duration_since(self.started)
    }

    /// Notes an object that is registered in one more loop. It serves until its program says
    /// otherwise.
    pub(super) fn add_object(&self, name: &str) {
        self.lock().health.entry(name.to_owned()).or_insert(Health::Serving);
    }

    /// Forgets an object.
    pub(super) fn remove_object(&self, name: &str) {
        self.lock().health.remove(name);
    }

    /// Sets the health of an object, or of the server as a whole: the empty name. Returns whether
    /// there is such an object.
    pub(super) fn set_health(&self, object: &str, health: Health) -> bool {
        self.lock().health.get_mut(object).map(|known| *known = health).is_some()
    }

    /// Returns the health of an object, or of the server as a whole: the empty name. `None`: there
    /// is no such object.
    pub(super) fn health(&self, object: &str) -> Option<Health> {
        let facts = self.lock();
        let own = *facts.health.get(object)?;
        Some(match own {
            _ if facts.is_draining => Health::Draining,
            Health::Serving if object.is_empty() => {
                let all_serve = facts.health.values().all(|health| *health == Health::Serving);
                if all_serve { Health::Serving } else { Health::NotServing }
            }
            health => health,
        })
    }

    /// Notes whether the server drains, which ends its health.
    pub(super) fn set_draining(&self, draining: bool) {
        self.lock().is_draining = draining;
    }

    /// Returns whether the server drains.
    pub(super) fn is_draining(&self) -> bool {
        self.lock().is_draining
    }

    /// Sets what the calls of the server are recorded to. False: there is another recording.
    pub(super) fn set_recording(&self, recording: Option<Arc<Recording>>) -> bool {
        let mut facts = self.lock();
        let is_taken = recording.is_some() && facts.recording.is_some();
        if !is_taken {
            facts.recording = recording;
        }
        !is_taken
    }

    /// Notes where clients find the server, and the mechanisms that are offered there.
    pub(super) fn add_place(&self, address: &Address, offered: MechanismSet) {
        let offered = match &address.at {
            At::Socket(Place::Tcp { .. }) => Mechanism::Tcp.into(),
            At::Socket(_) => offered,
            At::InProcess(_) | At::Remote(_) => MechanismSet::NONE,
        };
        self.lock().places.push((address.at.clone(), offered));
    }

    /// Forgets all places.
    pub(super) fn clear_places(&self) {
        self.lock().places.clear();
    }

    /// Returns where clients find the server, and the mechanisms that are offered there.
    pub(super) fn places(&self) -> Vec<(At, MechanismSet)> {
        self.lock().places.clone()
    }

    /// Has calls end the server by `stop` until what this returns is dropped.
    pub(super) fn stoppable(&self, stop: impl Fn() + Send + Sync + 'static) -> Stoppable<'_> {
        self.lock().stop = Some(Arc::new(stop));
        Stoppable(self)
    }

    /// Sets what whoever wants to end the server is told to do, where calls cannot end it.
    pub(super) fn set_stop_remedy(&self, remedy: &'static str) {
        self.lock().stop_remedy = Some(remedy);
    }

    /// Returns what [`set_stop_remedy`](Self::set_stop_remedy) has set.
    pub(super) fn stop_remedy(&self) -> Option<&'static str> {
        self.lock().stop_remedy
    }

    /// Ends the server as SIGTERM does. Returns whether its program waits for that.
    pub(super) fn stop(&self) -> bool {
        let stop = self.lock().stop.clone();
        stop.map(|stop| stop()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_serves_while_all_of_its_objects_do() {
        let state = ServerState::new(2, &Limits::default());
        state.add_object("a.B");
        state.add_object("a.B@c");
        assert_eq!(state.health(""), Some(Health::Serving));
        assert!(state.set_health("a.B@c", Health::NotServing));
        // Another loop registers the same object.
        state.add_object("a.B@c");
        assert_eq!(state.health("a.B"), Some(Health::Serving));
        assert_eq!(state.health("a.B@c"), Some(Health::NotServing));
        assert_eq!(state.health(""), Some(Health::NotServing));
        state.remove_object("a.B@c");
        assert_eq!((state.health(""), state.health("a.B@c")), (Some(Health::Serving), None));
        assert!(!state.set_health("a.B@c", Health::Serving));
        assert!(state.set_health("", Health::Unknown));
        assert_eq!(state.health(""), Some(Health::Unknown));
    }

    #[test]
    fn nothing_of_a_server_that_drains_serves() {
        let state = ServerState::new(1, &Limits::default());
        state.add_object("a.B");
        state.set_draining(true);
        assert_eq!(state.health(""), Some(Health::Draining));
        assert_eq!(state.health("a.B"), Some(Health::Draining));
        assert_eq!(state.health("a.C"), None);
        state.set_draining(false);
        assert_eq!(state.health("a.B"), Some(Health::Serving));
    }

    #[test]
    fn only_a_program_that_waits_for_it_is_stopped() {
        let state = ServerState::new(1, &Limits::default());
        assert!(!state.stop());
        let (give, stopped) = std::sync::mpsc::channel();
        let stoppable = state.stoppable(move || give.send(()).expect("the test waits"));
        assert!(state.stop());
        drop(stoppable);
        assert!(!state.stop());
        assert_eq!(stopped.into_iter().count(), 1);
    }
}
