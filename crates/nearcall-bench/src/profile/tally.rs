//! System calls of a process, counted by name, and the bytes that they copied.
//!
//! Pure: events in, numbers out. Not here: where events come from (`profile/watching.rs`).

use std::collections::BTreeMap;

use nearcall_os::syscall_names::syscall_name;
use nearcall_os::trace::Event;

/// What one process did from its start to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// By name.
    pub(crate) calls: BTreeMap<String, u64>,
    /// What the kernel copied out of its memory, and into it.
    pub(crate) bytes: Moved,
}

/// Bytes copied by system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// On their way to the other end.
    pub(crate) out: u64,
    /// From the other end.
    pub(crate) into: u64,
}

impl Tally {
    /// Counts a call that has ended. One that will be begun again counts only then.
    pub(crate) fn note(&mut self, event: &Event) {
        let Event::Ended { number, arguments, outcome, .. } = *event else { return };
        if RESTARTS.contains(&outcome) {
            return;
        }
        let name = syscall_name(number);
        if let (Some(name), 0..) = (name, outcome) {
            let (out, into) = moved(name, &arguments, outcome.unsigned_abs());
            self.bytes.out += out;
            self.bytes.into += into;
        }
        let name = name.map_or_else(|| format!("number {number}"), str::to_owned);
        *self.calls.entry(name).or_default() += 1;
    }

    /// What one of `exchanges` costs, if `self` had so many more than `fewer`: what both had to do
    /// to begin and to end cancels. Names that cancel are left out.
    pub(crate) fn per_exchange(&self, fewer: &Self, exchanges: u32) -> PerExchange {
        let each = |more: u64, less: u64| (more as f64 - less as f64) / f64::from(exchanges);
        let names = self.calls.keys().chain(fewer.calls.keys());
        let mut calls: BTreeMap<String, f64> = BTreeMap::new();
        for name in names {
            let of = |tally: &Self| tally.calls.get(name).copied().unwrap_or(0);
            let count = each(of(self), of(fewer));
            if count.abs() >= WORTH_TELLING {
                calls.insert(name.clone(), count);
            }
        }
        PerExchange {
            calls,
            bytes_out: each(self.bytes.out, fewer.bytes.out),
            bytes_into: each(self.bytes.into, fewer.bytes.into),
        }
    }
}

/// What one end does for one exchange.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PerExchange {
    pub(crate) calls: BTreeMap<String, f64>,
    pub(crate) bytes_out: f64,
    pub(crate) bytes_into: f64,
}

/// The bytes that a call which succeeded has copied out of the process and into it. What only
/// refers to pages copies nothing; what io_uring does is not seen.
fn moved(name: &str, arguments: &[u64; 6], outcome: u64) -> (u64, u64) {
    match name {
        "write" | "writev" | "pwrite64" | "pwritev2" | "sendto" | "sendmsg" => (outcome, 0),
        "read" | "readv" | "pread64" | "preadv2" | "recvfrom" | "recvmsg" | "mq_timedreceive"
        | "msgrcv" | "process_vm_readv" => (0, outcome),
        "process_vm_writev" => (outcome, 0),
        // They give zero, and have the length as the third argument.
        "mq_timedsend" | "msgsnd" => (arguments[2], 0),
        _ => (0, 0),
    }
}

/// What the kernel gives inside when a signal interrupts a call that it will begin again: -ERESTART
/// of include/linux/errno.h, never seen by the program.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

/// Less often than once in a hundred exchanges is the noise of beginning and ending.
const WORTH_TELLING: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(calls: &[(u64, [u64; 6], i64)]) -> Tally {
        let mut tally = Tally::default();
        for &(number, arguments, outcome) in calls {
            tally.note(&Event::Ended { tid: 1, number, arguments, outcome });
        }
        tally
    }

    fn number(name: &str) -> u64 {
        (0..1_000).find(|&number| syscall_name(number) == Some(name)).unwrap()
    }

    #[test]
    fn bytes_are_counted_on_the_side_where_they_were_copied() {
        let (read, write, send) = (number("read"), number("write"), number("msgsnd"));
        let splice = number("vmsplice");
        let found = tally(&[
            (read, [0; 6], 100),
            (read, [0; 6], -11),
            (read, [0; 6], -512),
            (write, [0; 6], 30),
            (send, [0, 0, 7, 0, 0, 0], 0),
            (send, [0, 0, 7, 0, 0, 0], -11),
            (splice, [0; 6], 1_000),
            (9_999, [0; 6], 5),
        ]);
        assert_eq!(found.bytes, Moved { out: 37, into: 100 });
        assert_eq!(found.calls["read"], 2, "the one that is begun again counts then");
        assert_eq!(found.calls["number 9999"], 1);
    }

    #[test]
    fn what_beginning_and_ending_cost_cancels() {
        let (read, open) = (number("read"), number("openat"));
        let run = |exchanges: usize| {
            let mut calls = vec![(open, [0; 6], 3); 50];
            calls.extend(vec![(read, [0; 6], 10); 2 * exchanges]);
            tally(&calls)
        };
        let each = run(200).per_exchange(&run(100), 100);
        assert_eq!(each.calls, BTreeMap::from([("read".to_owned(), 2.0)]));
        assert!((each.bytes_into - 20.0).abs() < 1e-9);
    }
}
