//! Connections that were busy lately, and that the loop looks at before it sleeps.
//!
//! A connection whose wait is adaptive becomes hot when it is used. While there are hot ones the
//! loop spins over them, as long as its [`Spinner`] says that it pays; then it arms them all and
//! sleeps as ever. Always true: a hot connection is not armed, so its peer makes no system call for
//! us; the loop never sleeps while one is hot; a connection that is idle while others are busy
//! does not stay hot, so idle ones cost nothing. While it spins the loop looks at everything else
//! now and then.
//! Not here: rounds (`reactor.rs`), arming (`links.rs`), how long it pays (`nearcall-channel`).

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use nearcall_channel::{Deadline, SpinOptions, SpinPlan, Spinner, WaitPolicy};
use nearcall_wire::Time;

use super::Reactor;
use crate::limits::{MESSAGES_PER_TURN_MAX, SPIN_TURNS_PER_LOOK};
use crate::link::{Link, Took};
use crate::options;

/// The hot connections of a loop.
pub(super) struct Hot {
    links: RefCell<Vec<Rc<Link>>>,
    spinner: RefCell<Spinner>,
    /// The wait that goes on, if the loop has slept in it.
    slept: Cell<Option<SpinPlan>>,
    /// Turns since the last look at everything else.
    turns: Cell<u32>,
}

impl Default for Hot {
    fn default() -> Self {
        Self {
            links: RefCell::default(),
            spinner: RefCell::new(Spinner::new(SpinOptions::default())),
            slept: Cell::new(None),
            turns: Cell::new(0),
        }
    }
}

impl Hot {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.links.borrow().is_empty()
    }

    pub(super) fn forget(&self, link: &Rc<Link>) {
        self.links.borrow_mut().retain(|other| !Rc::ptr_eq(other, link));
    }
}

impl Reactor {
    /// Takes a connection that was used in, if it may be spun for. True: it need not be armed now.
    #[inline]
    pub(super) fn warm(&self, link: &Rc<Link>) -> bool {
        link.watch.is_hot.get() || (link.wait == WaitPolicy::Adaptive && self.warm_up(link))
    }

    #[cold]
    fn warm_up(&self, link: &Rc<Link>) -> bool {
        let mut links = self.hot.links.borrow_mut();
        if links.len() >= HOT_MAX || link.is_gone() {
            return false;
        }
        links.push(Rc::clone(link));
        link.watch.is_hot.set(true);
        link.watch.misses.set(0);
        true
    }

    /// Spins over the hot connections. True: something has happened, or is due; false: sleep.
    #[inline]
    pub(super) fn spin_hot(&self, until: Time) -> io::Result<bool> {
        let turns = self.hot.turns.get() + 1;
        self.hot.turns.set(turns);
        if turns >= SPIN_TURNS_PER_LOOK && self.look_at_others()? {
            return Ok(true);
        }
        let mut plan = self.hot.spinner.borrow_mut().begin();
        let mut clocks = 0;
        loop {
            if self.sweep() {
                self.hot.spinner.borrow_mut().record_hit(plan);
                return Ok(true);
            }
            if self.hot.is_empty() || !plan.should_spin(&mut self.hot.spinner.borrow_mut()) {
                self.hot.slept.set(Some(plan));
                return Ok(false);
            }
            std::hint::spin_loop();
            if plan.is_at_clock() {
                clocks += 1;
                if self.is_interrupted(clocks, until)? {
                    self.hot.spinner.borrow_mut().record_timeout(plan);
                    return Ok(true);
                }
            }
        }
    }

    /// While nothing comes: whether anything else is to be done.
    #[cold]
    fn is_interrupted(&self, clocks: u32, until: Time) -> io::Result<bool> {
        // What was looked at may be what somebody waits for, and is told once.
        if clocks.is_multiple_of(CLOCKS_PER_LOOK) && self.look_at_others()? {
            return Ok(true);
        }
        let until = until.min(self.next_due());
        let is_due = until != Time::NEVER && options::now() >= until;
        Ok(is_due || !self.ready.borrow().is_empty())
    }

    /// Whether anything was ready.
    #[cold]
    fn look_at_others(&self) -> io::Result<bool> {
        self.hot.turns.set(0);
        let has_served = self.serve_native();
        Ok(self.look(Some(Duration::ZERO))? || has_served)
    }

    /// Looks at each hot connection once. Whether there was anything.
    #[inline]
    pub(super) fn sweep(&self) -> bool {
        let mut found = false;
        let mut index = 0;
        loop {
            // Cloned, since serving may change the list.
            let link = self.hot.links.borrow().get(index).cloned();
            let Some(link) = link else { return found };
            match self.serve_hot(&link) {
                true => {
                    found = true;
                    link.watch.misses.set(0);
                }
                false => self.missed(&link),
            }
            index += 1;
        }
    }

    /// One turn of a hot connection. Whether there was anything.
    #[inline]
    fn serve_hot(&self, link: &Rc<Link>) -> bool {
        let had_room = link.wants_room() && link.flush(Deadline::NOW);
        for count in 0..MESSAGES_PER_TURN_MAX {
            // A service may have waited in rounds that armed it, and looking ends that.
            self.used(link);
            if !link.has_come(1) {
                return had_room || count > 0;
            }
            match link.take_message(Deadline::NOW) {
                Took::Message if link.is_gone() => return true,
                Took::Message => {}
                Took::Nothing => return had_room || count > 0,
                Took::Gone => return true,
            }
        }
        true
    }

    /// A look in vain: one that is idle beside busy ones is armed.
    #[inline]
    fn missed(&self, link: &Rc<Link>) {
        let misses = link.watch.misses.get().saturating_add(1);
        link.watch.misses.set(misses);
        if misses >= MISSES_MAX && self.hot.links.borrow().len() > 1 {
            self.hot.forget(link);
            self.cool(link);
        }
    }

    /// Arms all hot connections, for a sleep. Those that have something after all are ready then.
    pub(super) fn cool_all(&self) {
        loop {
            let Some(link) = self.hot.links.borrow_mut().pop() else { return };
            self.cool(&link);
        }
    }

    fn cool(&self, link: &Rc<Link>) {
        link.watch.is_hot.set(false);
        if !link.is_gone() && !self.arm(link) {
            self.make_ready(link);
        }
    }

    /// After a sleep: whether what was spun for has ended it is worth knowing.
    pub(super) fn learn_from_sleep(&self) {
        if let Some(plan) = self.hot.slept.take() {
            let ready = self.ready.borrow();
            if ready.iter().any(|link| link.wait == WaitPolicy::Adaptive) {
                self.hot.spinner.borrow_mut().record_wake(plan);
            }
        }
    }
}

/// Connections that the loop spins over at once: each makes a look at all of them longer by some
/// 20 ns.
const HOT_MAX: usize = 8;

/// Looks in vain after which a connection is armed while others are busy: about 10 us.
const MISSES_MAX: u32 = 256;

/// How often everything else is looked at while nothing comes, in readings of the spinner's clock:
/// every 10 us or so.
const CLOCKS_PER_LOOK: u32 = 8;
