//! The calls of the storm: methods, the items that follow from the number of a call, and their sum.
//!
//! **Invariants:** both sides know each byte of an item from the number of its call and its
//! position; the sum depends on the order.
//! **Not here:** what both sides write down (`books.rs`).

use nearcall::Status;

pub(super) use self::generated::{
    Job, StormAsync, StormAsyncCaller, StormAsyncDispatcher, StormCaller,
};

mod generated {
    nearcall::include_proto!("storm.v1");
}

/// The key of the metadata with the number of a call.
pub(super) const ID: &str = "storm-id";

/// A method of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Once,
    Again,
    Tell,
    Upload,
    Download,
    Chat,
}

impl Method {
    pub(super) const ALL: [Self; 6] =
        [Self::Once, Self::Again, Self::Tell, Self::Upload, Self::Download, Self::Chat];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Once => "Once",
            Self::Again => "Again",
            Self::Tell => "Tell",
            Self::Upload => "Upload",
            Self::Download => "Download",
            Self::Chat => "Chat",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }
}

/// The item at a position of a call. One in sixteen is longer than a frame of HTTP/2, one in
/// sixteen longer than what is sent unread of a stream by default (64 KiB).
pub(super) fn item(id: u64, number: u32) -> Job {
    let value = value(id, number);
    let [kind, few, byte, ..] = value.to_le_bytes();
    let bytes = match kind % 16 {
        0 => 100_000,
        1 => 20_000,
        _ => few.into(),
    };
    let padding = vec![byte; bytes].into();
    Job { id, number, padding, ..Job::default() }
}

/// Multiplies by odd numbers and folds, so that neighbours differ in all bits.
fn value(id: u64, number: u32) -> u64 {
    let value = (id ^ u64::from(number) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (value ^ value >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
}

/// The number of items and their sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) items: u32,
    pub(super) sum: u64,
}

impl Tally {
    /// Adds the next item of a call.
    ///
    /// # Errors
    ///
    /// `DATA_LOSS`: it is another one than was sent.
    pub(super) fn add(&mut self, id: u64, job: &Job) -> Result<(), Status> {
        let right = item(id, self.items);
        if (job.id, job.number, &job.padding) != (id, right.number, &right.padding) {
            let text =
                format!("item {} of call {}, not {} of {id}", job.number, job.id, self.items);
            return Err(Status::data_loss(text));
        }
        self.sum = self.sum.rotate_left(7) ^ value(id, self.items);
        self.items += 1;
        Ok(())
    }
}
