//! Lending over a connection: loans, and messages in which they travel by reference.
//!
//! A message that holds loans is marshalled without them, aside, and sent behind the table that
//! locates them.
//! **Invariants:** a reference that was counted is in a message that leaves, or is taken back; on a
//! connection that lends nothing, messages cost one look at a flag more.
//! **Not here:** what the other end does with it (`borrowing.rs`), the memory (`nearcall-channel`).

use std::cell::{Cell, RefCell};

use bytes::{Buf, BufMut, Bytes};
use nearcall_channel::{Lender, Loan, LoanError, Place};
use nearcall_os::sink::{Sink, SinkBuf};
use nearcall_wire::{HEADER_BYTES, REFERENCES_MAX, Reference};
use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType};

use super::{Connection, Host};
use crate::codec::{self, Message};
use crate::deadline::Deadline;
use crate::limits::{REFERENCE_BYTES_MIN, SPARE_BYTES_MAX};
use crate::status::Status;

/// The memory that this end lends over one connection.
pub(super) struct Lending {
    /// None over mechanisms that lend nothing.
    lender: RefCell<Option<Lender>>,
    /// Something was lent since nothing was out.
    has_lent: Cell<bool>,
    /// Memory to gather the next message in.
    spare: Cell<Gathered>,
}

impl Lending {
    pub(super) fn new(lender: Option<Lender>) -> Self {
        Self { lender: RefCell::new(lender), has_lent: Cell::new(false), spare: Cell::default() }
    }

    /// Lends by another channel from now on. What is out of the one before stays readable, and is
    /// copied where it is sent.
    pub(super) fn set_lender(&self, lender: Option<Lender>) {
        *self.lender.borrow_mut() = lender;
        self.has_lent.set(false);
    }

    /// Returns whether a message may hold something that is lent here.
    #[inline(always)]
    pub(super) fn may_lend(&self) -> bool {
        self.has_lent.get()
    }

    /// Returns the message without what is lent, if it holds anything of that. What it names is
    /// counted: [`take_back`](Self::take_back) if it does not leave.
    fn gather(&self, message: &impl Message) -> Option<Gathered> {
        let mut lender = self.lender.borrow_mut();
        let lender = lender.as_mut()?;
        if !lender.is_lending() {
            self.has_lent.set(false);
            return None;
        }
        let mut gathered = self.spare.take();
        let found = Cell::new(None);
        let gather = Gather { lender, gathered: &mut gathered, position: 0, found };
        let mut into = SinkBuf::new(gather);
        codec::encode_all(message, &mut into);
        into.hand_over();
        if gathered.places.is_empty() {
            self.keep(gathered);
            return None;
        }
        Some(gathered)
    }

    /// The message that this was did not leave.
    #[cold]
    fn take_back(&self, gathered: &Gathered) {
        if let Some(lender) = &mut *self.lender.borrow_mut() {
            gathered.places.iter().for_each(|place| lender.take_back(*place));
        }
    }

    fn keep(&self, mut gathered: Gathered) {
        gathered.places.clear();
        gathered.table.clear();
        gathered.rest.clear();
        gathered.rest.shrink_to(SPARE_BYTES_MAX);
        self.spare.set(gathered);
    }

    /// Returns how many slots are out: here, and only at the other end.
    pub(super) fn slots_out(&self) -> usize {
        let mut lender = self.lender.borrow_mut();
        let (here, there) = lender.as_mut().map_or((0, 0), Lender::slots_out);
        here + there
    }
}

impl<H: Host> Connection<H> {
    /// Returns memory for a message to this peer: lent where the mechanism can, else of the heap.
    /// Never waits.
    pub(crate) fn loan(&self, loan_bytes: usize) -> Result<Loan, NoLoan> {
        if self.is_closed() {
            return Err(NoLoan::Closed);
        }
        let loan_bytes_max = self.message_bytes_max.get() as usize;
        if loan_bytes > loan_bytes_max {
            return Err(NoLoan::Refused(LoanError::TooLarge { loan_bytes, loan_bytes_max }));
        }
        match &mut *self.lending.lender.borrow_mut() {
            Some(lender) => {
                let loan = lender.loan(loan_bytes).map_err(NoLoan::Refused)?;
                self.lending.has_lent.set(self.lending.may_lend() || loan.is_shared());
                Ok(loan)
            }
            None => Ok(Loan::plain(loan_bytes)),
        }
    }

    /// Returns the status of a loan that there is not, or was not in time.
    #[cold]
    pub(crate) fn no_loan(&self, why: &NoLoan, deadline: Deadline) -> Status {
        let name = &self.name;
        match why {
            NoLoan::Closed => self.close_reason(),
            NoLoan::Refused(error) if why.may_pass() && deadline.has_passed() => {
                Status::deadline_exceeded(format!("no loan for {name} in time: {error}"))
            }
            NoLoan::Refused(error) => {
                Status::resource_exhausted(format!("no loan for {name}: {error}"))
            }
        }
    }

    /// Sends a message by `send` without the loans that it holds. `None`: it holds none.
    #[inline(never)]
    pub(super) fn lend_with<T, E: From<Status>>(
        &self,
        metadata: &[u8],
        message: &impl Message,
        send: impl FnOnce(&Gathered) -> Result<T, E>,
    ) -> Option<Result<T, E>> {
        if codec::is_too_deep(codec::encoded_bytes(message)) {
            return None; // Refused where it is sent.
        }
        let gathered = self.lending.gather(message)?;
        // As if it were sent whole: the other end may have to copy it together.
        let message_bytes = HEADER_BYTES + metadata.len() + gathered.whole_bytes();
        let message_bytes_max = self.message_bytes_max.get() as usize;
        let sent = match message_bytes <= message_bytes_max {
            true => send(&gathered),
            false => Err(self.too_large("message", message_bytes).into()),
        };
        if sent.is_err() {
            self.lending.take_back(&gathered);
        }
        self.lending.keep(gathered);
        Some(sent)
    }
}

/// Why there is no loan.
#[derive(Debug)]
pub(crate) enum NoLoan {
    /// The connection has ended.
    Closed,
    Refused(LoanError),
}

impl NoLoan {
    /// Returns whether there may be one when the other end has given a slot back. What lives here
    /// alone goes by this program's own doing, which a wait would only delay.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Refused(LoanError::AllOut { there: 1.., .. }))
    }
}

/// A message without what it holds of loans, and the table that locates it.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    places: Vec<Place>,
    table: Vec<u8>,
    rest: Vec<u8>,
}

impl Gathered {
    /// Length of the message with all its parts.
    fn whole_bytes(&self) -> usize {
        let lent_bytes: usize = self.places.iter().map(|place| place.bytes as usize).sum();
        self.rest.len() + lent_bytes
    }
}

/// A message that is marshalled already. Only ever sent.
impl Message for Gathered {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        // At most REFERENCES_MAX.
        buf.put_u8(u8::try_from(self.places.len()).unwrap_or(u8::MAX));
        buf.put_slice(&self.table);
        buf.put_slice(&self.rest);
    }

    fn encoded_len(&self) -> usize {
        1 + self.table.len() + self.rest.len()
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        prost::encoding::skip_field(wire_type, tag, buf, ctx)
    }

    fn clear(&mut self) {}
}

/// Gathers a message, and counts the loans that it holds instead of copying them.
struct Gather<'a> {
    lender: &'a mut Lender,
    gathered: &'a mut Gathered,
    position: usize,
    /// The loan that was asked for last, with its address.
    found: Cell<Option<(Place, usize)>>,
}

impl Sink for Gather<'_> {
    fn write(&mut self, bytes: &[u8]) {
        self.gathered.rest.extend_from_slice(bytes);
        self.position += bytes.len();
    }

    fn wants(&self, memory: &[u8]) -> bool {
        if memory.len() < REFERENCE_BYTES_MIN || self.gathered.places.len() >= REFERENCES_MAX {
            return false;
        }
        let place = self.lender.find(memory);
        self.found.set(place.map(|place| (place, memory.as_ptr().addr())));
        place.is_some()
    }

    fn pass(&mut self, bytes: Bytes) {
        // What is no `Bytes` was copied to become one.
        let found = self.found.take().filter(|(_, start)| *start == bytes.as_ptr().addr());
        let (Some((place, _)), Ok(position)) = (found, u32::try_from(self.position)) else {
            return self.write(&bytes);
        };
        self.lender.pass(place);
        let Place { slot, segment, offset, bytes: count } = place;
        let row = Reference { position, slot, segment, offset, bytes: count };
        self.gathered.places.push(place);
        let (row, row_bytes) = row.encode();
        self.gathered.table.extend_from_slice(&row[..row_bytes]);
        self.position += bytes.len();
    }
}
