//! The fake server: reads what it gets, counts, and does no work.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use nearcall::stream::ItemReceiver;
use nearcall::{Context, Server, Status};

use crate::calls::generated::{Argument, Bench, BenchDispatcher};
use crate::exchange::Failure;
use crate::exchange::count::{Counts, EndReport};
use crate::payload::{Payload, Verifier};

/// What all calls of a cell go to.
pub struct FakeService {
    payload: RefCell<Payload>,
    next: Cell<u64>,
    received: Cell<u64>,
    digest: Cell<u64>,
    /// A one-way call was damaged, which no reply reports.
    damage: RefCell<Option<String>>,
    before: RefCell<Option<(Counts, u64)>>,
    report: RefCell<Option<EndReport>>,
}

impl Default for FakeService {
    /// No cell has begun yet.
    fn default() -> Self {
        Self {
            payload: RefCell::new(Payload::new(0, 0)),
            next: Cell::new(0),
            received: Cell::new(0),
            digest: Cell::new(0),
            damage: RefCell::default(),
            before: RefCell::default(),
            report: RefCell::default(),
        }
    }
}

impl FakeService {
    /// Has `server` serve a new one at `address`.
    pub(crate) fn listen(server: &Server, address: &str) -> Result<Arc<Self>, Failure> {
        let dispatcher = BenchDispatcher::new(Self::default());
        let service = Arc::clone(dispatcher.service());
        server.register(dispatcher).map_err(Failure::other)?;
        server.listen(address).map_err(Failure::other)?;
        Ok(service)
    }

    /// Begins a cell whose arguments have `bytes` bytes.
    pub fn begin(&self, seed: u64, bytes: usize) {
        self.begin_with(Payload::new(seed, bytes));
    }

    /// Begins a cell with these arguments, of which only a part may be written and read.
    pub fn begin_with(&self, payload: Payload) {
        *self.payload.borrow_mut() = payload;
        self.next.set(0);
        self.received.set(0);
        self.before.take();
        self.report.take();
        self.damage.take();
    }

    /// Returns what was counted between the two marks.
    ///
    /// # Errors
    ///
    /// A one-way call was damaged, or there were no two marks.
    pub fn report(&self) -> Result<EndReport, Failure> {
        if let Some(damage) = self.damage.take() {
            return Err(corrupt(damage));
        }
        self.report.take().ok_or_else(|| Failure::other("the server was given no two marks"))
    }

    #[inline]
    fn count(&self) {
        self.received.set(self.received.get() + 1);
    }

    /// Judges an argument against the one that is due, and counts it.
    ///
    /// # Errors
    ///
    /// A byte of it is damaged.
    #[inline]
    pub fn read(&self, argument: &[u8]) -> Result<(), String> {
        let number = self.next.get();
        let payload = self.payload.borrow();
        let mut verifier = Verifier::new(&payload, number);
        let outcome = verifier.whole(argument);
        self.digest.set(self.digest.get().rotate_left(1) ^ verifier.digest());
        self.next.set(number + 1);
        self.count();
        outcome.map_err(|corruption| corruption.to_string())
    }

    /// Begins the measured region, or ends it.
    ///
    /// # Errors
    ///
    /// The kernel's counters cannot be read.
    pub fn take_mark(&self) -> Result<(), Failure> {
        let before = self.before.take();
        match before {
            None => *self.before.borrow_mut() = Some((Counts::before()?, self.received.get())),
            Some((before, received)) => {
                let received = self.received.get() - received;
                *self.report.borrow_mut() = Some(before.report(self.digest.get(), received)?);
            }
        }
        Ok(())
    }
}

impl Bench for FakeService {
    #[inline]
    fn nothing(&self, _context: &Context<'_>, _request: &()) -> Result<(), Status> {
        self.count();
        Ok(())
    }

    #[inline]
    fn take(&self, _context: &Context<'_>, request: &Argument) -> Result<(), Status> {
        self.read(&request.data).map_err(Status::data_loss)
    }

    #[inline]
    fn pass(&self, context: &Context<'_>, request: &Argument) -> Result<(), Status> {
        let expected = self.payload.borrow().message_bytes();
        if request.data.len() != expected || !context.is_trusted() {
            return Err(Status::data_loss("this is not what was lent to a server that trusts"));
        }
        self.count();
        Ok(())
    }

    #[inline]
    fn note(&self, _context: &Context<'_>, request: &Argument) {
        if let Err(damage) = self.read(&request.data) {
            self.damage.borrow_mut().get_or_insert(damage);
        }
    }

    fn upload(&self, _context: &Context<'_>, items: ItemReceiver<Argument>) -> Result<(), Status> {
        while let Some(item) = items.recv()? {
            self.read(&item.data).map_err(Status::data_loss)?;
        }
        Ok(())
    }

    fn mark(&self, _context: &Context<'_>, _request: &()) -> Result<(), Status> {
        self.take_mark().map_err(|failure| Status::internal(failure.text))
    }
}

fn corrupt(text: String) -> Failure {
    Failure { cause: crate::exchange::Cause::Corrupt, text }
}
