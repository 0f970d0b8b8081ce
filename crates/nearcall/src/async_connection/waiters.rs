//! Tasks that wait for something that a shared connection has too little of, in their order.
//!
//! A task that is granted leaves the queue, and has one attempt. What it does with that, it says:
//! it has used it, or it goes back to where it was.
//! **Invariants:** no task passes another one that waits; a grant is used, given back or passed on,
//! also if its task is dropped; wakers leave through a [`WakeList`], for they run code of users.
//! **Not here:** what is waited for (`async_connection/shared.rs`).

use std::collections::VecDeque;
use std::task::Waker;

use crate::waking;

/// The place of a task in a queue of waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueuePosition(u64);

/// Tasks that wait, the first one first.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    last: u64,
    /// By their positions, which grow.
    waiting: VecDeque<(QueuePosition, Waker)>,
    /// Tasks that were granted and have not said yet what they made of it.
    granted: usize,
}

impl Waiters {
    /// Returns whether no task waits or was granted, so that a new one need not wait.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.granted == 0
    }

    /// Returns whether a task waits that was not granted.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns how many tasks were granted and have not said yet what they made of it.
    #[inline]
    pub(crate) fn granted(&self) -> usize {
        self.granted
    }

    /// Adds a task to the end of the queue.
    pub(crate) fn join(&mut self, waker: &Waker) -> QueuePosition {
        self.last += 1;
        let position = QueuePosition(self.last);
        self.waiting.push_back((position, waker.clone()));
        position
    }

    /// Returns whether a task was granted; if it waits on, `waker` is the one to wake.
    pub(crate) fn poll(
        &mut self,
        position: QueuePosition,
        waker: &Waker,
        wakes: &mut WakeList,
    ) -> bool {
        let Ok(index) = self.index_of(position) else { return true };
        let known = &mut self.waiting[index].1;
        if !known.will_wake(waker) {
            wakes.retire(std::mem::replace(known, waker.clone()));
        }
        false
    }

    /// Grants the first task that waits. Returns whether there was one.
    pub(crate) fn grant(&mut self, wakes: &mut WakeList) -> bool {
        let Some((_, waker)) = self.waiting.pop_front() else { return false };
        self.granted += 1;
        wakes.wake(waker);
        true
    }

    /// Grants all tasks.
    pub(crate) fn grant_all(&mut self, wakes: &mut WakeList) {
        while self.grant(wakes) {}
    }

    /// Notes that a task which was granted is done with it.
    pub(crate) fn use_grant(&mut self) {
        self.granted -= 1;
    }

    /// Puts a task that was granted without success back to the front.
    pub(crate) fn give_back(&mut self, position: QueuePosition, waker: &Waker) {
        self.granted -= 1;
        // Others may have been granted without success as well, in any order.
        let index = self.waiting.partition_point(|(other, _)| *other < position);
        self.waiting.insert(index, (position, waker.clone()));
    }

    /// Removes a task. Returns whether it had a grant, which another one may have now.
    pub(crate) fn leave(&mut self, position: QueuePosition, wakes: &mut WakeList) -> bool {
        match self.index_of(position) {
            Ok(index) => {
                if let Some((_, waker)) = self.waiting.remove(index) {
                    wakes.retire(waker);
                }
                false
            }
            Err(_) => {
                self.granted -= 1;
                true
            }
        }
    }

    fn index_of(&self, position: QueuePosition) -> Result<usize, usize> {
        self.waiting.binary_search_by_key(&position, |(position, _)| *position)
    }
}

/// Wakers to be woken, or dropped, where no lock is held.
#[derive(Debug, Default)]
#[must_use = "tasks wait for their wakers"]
pub(crate) struct WakeList {
    /// Most often there is one at most, which needs no memory of its own.
    first: Option<Waker>,
    others: Vec<Other>,
}

#[derive(Debug)]
enum Other {
    Wake(Waker),
    Retire(Waker),
}

impl WakeList {
    /// Adds one that is to be woken.
    pub(crate) fn wake(&mut self, waker: Waker) {
        match self.first {
            None => self.first = Some(waker),
            Some(_) => self.others.push(Other::Wake(waker)),
        }
    }

    /// Adds one that is to be dropped.
    pub(crate) fn retire(&mut self, waker: Waker) {
        self.others.push(Other::Retire(waker));
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.first.is_none() && self.others.is_empty()
    }

    /// Takes them all, if there are any.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Self> {
        (!self.is_empty()).then(|| std::mem::take(self))
    }

    /// Wakes and drops them all, also if one of them panics.
    pub(crate) fn run(self) {
        let Self { first, others } = self;
        if let Some(waker) = first {
            waking::wake(waker);
        }
        for other in others {
            match other {
                Other::Wake(waker) => waking::wake(waker),
                Other::Retire(waker) => waking::retire(Some(waker)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};
    use std::task::Wake;

    use crate::waking::tests::counted;

    #[test]
    fn tasks_are_granted_in_their_order() {
        let mut waiters = Waiters::default();
        let mut wakes = WakeList::default();
        let tasks: Vec<_> = (0..3).map(|_| counted()).collect();
        let positions: Vec<_> = tasks.iter().map(|(_, waker)| waiters.join(waker)).collect();
        for (index, position) in positions.iter().enumerate() {
            assert!(!waiters.is_idle());
            assert!(!waiters.poll(*position, &tasks[index].1, &mut wakes));
            assert!(waiters.grant(&mut wakes));
            assert!(waiters.poll(*position, &tasks[index].1, &mut wakes));
            std::mem::take(&mut wakes).run();
            let woken: Vec<_> = tasks.iter().map(|(count, _)| count.get()).collect();
            assert_eq!(woken.iter().sum::<usize>(), index + 1);
            assert_eq!(woken[index], 1);
            waiters.use_grant();
        }
        assert!(waiters.is_idle() && !waiters.grant(&mut wakes));
    }

    #[test]
    fn a_grant_in_vain_leads_back_to_the_front() {
        let mut waiters = Waiters::default();
        let mut wakes = WakeList::default();
        let waker = Waker::noop();
        let [first, second, third] = [(); 3].map(|()| waiters.join(waker));
        assert!(waiters.grant(&mut wakes) && waiters.grant(&mut wakes));
        waiters.give_back(second, waker);
        waiters.give_back(first, waker);
        assert!(waiters.grant(&mut wakes));
        assert!(waiters.poll(first, waker, &mut wakes));
        assert!(!waiters.poll(second, waker, &mut wakes));
        assert!(waiters.leave(first, &mut wakes), "it had the grant");
        assert!(!waiters.leave(third, &mut wakes), "it had none");
        assert!(waiters.grant(&mut wakes) && !waiters.grant(&mut wakes));
        assert!(waiters.poll(second, waker, &mut wakes));
        assert_eq!(waiters.granted(), 1);
        wakes.run();
    }

    #[test]
    fn the_last_waker_of_a_task_is_woken_and_the_earlier_one_dropped() {
        let mut waiters = Waiters::default();
        let mut wakes = WakeList::default();
        let ((before, old), (after, new)) = (counted(), counted());
        let position = waiters.join(&old);
        drop(old);
        assert!(!waiters.poll(position, &new, &mut wakes));
        assert_eq!(Arc::strong_count(&before), 2, "it is dropped where no lock is held");
        std::mem::take(&mut wakes).run();
        assert_eq!(Arc::strong_count(&before), 1);
        waiters.grant_all(&mut wakes);
        std::mem::take(&mut wakes).run();
        assert_eq!(before.get(), 0);
        assert_eq!(after.get(), 1);
    }

    /// A waker that does something with the queue when it is woken, as a task that is polled at
    /// once does.
    struct Nested(Mutex<Waiters>, AtomicUsize);

    impl Wake for Nested {
        fn wake(self: Arc<Self>) {
            self.0.lock().unwrap().use_grant();
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn wakers_run_where_the_queue_may_be_used() {
        let nested = Arc::new(Nested(Mutex::default(), AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&nested));
        for _ in 0..5 {
            nested.0.lock().unwrap().join(&waker);
        }
        let mut wakes = WakeList::default();
        nested.0.lock().unwrap().grant_all(&mut wakes);
        wakes.run();
        assert_eq!(nested.1.load(Ordering::Relaxed), 5);
        assert!(nested.0.lock().unwrap().is_idle());
    }

    /// Random tasks join, are granted, fail, end and are dropped. As many as there is of what they
    /// want have it at most, none is passed by one that came later, and none is forgotten.
    #[test]
    fn no_task_is_lost_or_passed() {
        for seed in 0..if cfg!(miri) { 1 } else { 200 } {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut waiters = Waiters::default();
            let mut wakes = WakeList::default();
            let (mut free, mut holding) = (3_usize, 0_usize);
            let mut tasks: BTreeSet<QueuePosition> = BTreeSet::new();
            let mut last_started = None;
            for _ in 0..500 {
                let known: Vec<_> = tasks.iter().copied().collect();
                match random.u8(0..6) {
                    0..=1 => {
                        tasks.insert(waiters.join(Waker::noop()));
                    }
                    2 if !known.is_empty() => {
                        let position = known[random.usize(..known.len())];
                        tasks.remove(&position);
                        waiters.leave(position, &mut wakes);
                    }
                    3 if holding > 0 => {
                        holding -= 1;
                        free += 1;
                    }
                    4 => {
                        let granted =
                            known.iter().find(|it| waiters.poll(**it, Waker::noop(), &mut wakes));
                        if let Some(position) = granted {
                            waiters.give_back(*position, Waker::noop());
                        }
                    }
                    _ => {
                        let granted =
                            known.iter().find(|it| waiters.poll(**it, Waker::noop(), &mut wakes));
                        if let Some(position) = granted {
                            waiters.use_grant();
                            tasks.remove(position);
                            assert!(last_started < Some(*position), "seed {seed}");
                            last_started = Some(*position);
                            free -= 1;
                            holding += 1;
                        }
                    }
                }
                while waiters.granted() < free && waiters.grant(&mut wakes) {}
                assert!(waiters.granted() <= free, "seed {seed}");
                assert!(waiters.granted() == free || !waiters.has_waiting(), "seed {seed}");
            }
            while let Some(position) = tasks.first().copied() {
                assert!(waiters.poll(position, Waker::noop(), &mut wakes) || holding > 0);
                waiters.leave(position, &mut wakes);
                tasks.remove(&position);
                while waiters.granted() < free && waiters.grant(&mut wakes) {}
            }
            assert!(waiters.is_idle(), "seed {seed}");
            wakes.run();
        }
    }
}
