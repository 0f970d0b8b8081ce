//! Which floor a cell is compared with, and the cells of floors.

use nearcall_channel::limits::FRAGMENT_BYTES;
use nearcall_channel::{DataPath, Mechanism, WaitPolicy};
use nearcall_results::route::Route;

use super::{CellSpec, Conditions, Subject};
use crate::bench_plan::Shape;
use crate::calls::route::frame_bytes;
use crate::floor::Floor;
use crate::run::Kind;

impl Floor {
    /// Its cell of this kind, shape and size. A floor whose messages have one size only has that.
    #[must_use]
    pub fn cell(self, kind: Kind, shape: Shape, message_bytes: u64) -> CellSpec {
        let sized = matches!(
            self,
            Self::Unix | Self::UnixEpoll | Self::Pipe | Self::Memcpy | Self::ChunkedCopy
        );
        let message_bytes = if sized { message_bytes } else { WORD_BYTES };
        let shape = match (kind, self) {
            (Kind::Throughput, _) | (_, Self::Memcpy) => Shape::Sink,
            (Kind::Latency, _) if !sized => Shape::Echo,
            (Kind::Latency, _) => shape,
        };
        let subject = Subject::Floor(self);
        CellSpec { kind, ..CellSpec::latency(subject, shape, message_bytes, self.wait()) }
    }
}

/// The cell that a mechanism's cell is compared with. `None` for cells of floors.
#[must_use]
pub fn floor_of(cell: &CellSpec) -> Option<CellSpec> {
    let mechanism = match cell.subject {
        Subject::Mechanism(mechanism) => mechanism,
        Subject::Call(route) | Subject::Bare(route) => {
            return floor_of_call(cell, route);
        }
        Subject::Floor(_) | Subject::Custom(_) | Subject::Part(_) | Subject::AtRest(_) => {
            return None;
        }
    };
    let small = cell.message_bytes < FRAGMENT_BYTES as u64;
    let floor = match (cell.kind, mechanism.data_path()) {
        (Kind::Throughput, DataPath::KernelCopies) if spins(cell.wait) => {
            one_way_floor(cell.message_bytes)
        }
        (_, DataPath::KernelCopies) => kernel_floor(mechanism, cell.wait, small),
        (Kind::Latency, DataPath::SharedMemory) if small => wake_up_floor(mechanism, cell.wait),
        (Kind::Throughput, DataPath::SharedMemory) => one_way_floor(cell.message_bytes),
        (Kind::Latency, DataPath::SharedMemory) => Floor::ChunkedCopy,
    };
    let floor = floor.cell(cell.kind, cell.shape, cell.message_bytes);
    let conditions = Conditions {
        spot: cell.conditions.spot,
        load: cell.conditions.load,
        touch: cell.conditions.touch,
        ..Conditions::default()
    };
    Some(CellSpec { conditions, ..floor })
}

/// What a call or its bare exchange is compared with beside each other.
fn floor_of_call(cell: &CellSpec, route: Route) -> Option<CellSpec> {
    if cell.kind == Kind::Throughput {
        return None;
    }
    let Some(mechanism) = route.mechanism() else {
        let floor = if cell.message_bytes == 0 { Floor::Call } else { Floor::Memcpy };
        return Some(floor.cell(Kind::Latency, Shape::Sink, cell.message_bytes));
    };
    if route.is_alone() {
        return None;
    }
    floor_of(&CellSpec {
        subject: Subject::Mechanism(mechanism),
        shape: if cell.message_bytes == 0 { Shape::Echo } else { Shape::Sink },
        message_bytes: if cell.message_bytes == 0 { frame_bytes(0) } else { cell.message_bytes },
        wait: route.server_wait(cell.wait),
        ..*cell
    })
}

/// Whether an end spins while the other one answers at once.
fn spins(wait: WaitPolicy) -> bool {
    matches!(wait, WaitPolicy::Spin | WaitPolicy::Adaptive)
}

/// Between ends that do not sleep. A floor of one word has no room for a second message.
fn one_way_floor(message_bytes: u64) -> Floor {
    if message_bytes <= RING_BYTES_MAX { Floor::Ring } else { Floor::ChunkedCopy }
}

fn kernel_floor(mechanism: Mechanism, wait: WaitPolicy, small: bool) -> Floor {
    match (mechanism, wait) {
        (_, WaitPolicy::Spin | WaitPolicy::Adaptive) if small => Floor::Spin,
        (_, WaitPolicy::Spin | WaitPolicy::Adaptive) => Floor::ChunkedCopy,
        (_, WaitPolicy::Poll) => Floor::UnixEpoll,
        (Mechanism::Pipe | Mechanism::Fifo | Mechanism::Vmsplice, WaitPolicy::Block) => Floor::Pipe,
        (_, WaitPolicy::Block) => Floor::Unix,
    }
}

fn wake_up_floor(mechanism: Mechanism, wait: WaitPolicy) -> Floor {
    match (mechanism, wait) {
        // An end that adapts spins while the other one answers at once.
        (_, WaitPolicy::Spin | WaitPolicy::Adaptive) => Floor::Spin,
        (_, WaitPolicy::Poll) => Floor::UnixEpoll,
        (Mechanism::ShmEventfd, WaitPolicy::Block) => Floor::Eventfd,
        (_, WaitPolicy::Block) => Floor::Futex,
    }
}

/// What floors without a payload of their own carry.
const WORD_BYTES: u64 = 8;

/// Up to a cache line a message costs what a word costs; above, its bytes count.
const RING_BYTES_MAX: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: Kind, name: &str, wait: WaitPolicy, bytes: u64, expected: (Floor, u64)) {
        let subject = Subject::Mechanism(name.parse().unwrap());
        let cell = CellSpec { kind, ..CellSpec::latency(subject, Shape::Sink, bytes, wait) };
        let floor = floor_of(&cell).unwrap();
        assert_eq!((floor.subject, floor.message_bytes), (Subject::Floor(expected.0), expected.1));
        assert_eq!(floor_of(&floor), None);
    }

    #[test]
    fn each_cell_has_the_floor_of_its_kind() {
        use WaitPolicy::{Block, Poll, Spin};
        check(Kind::Latency, "shm-spin", Spin, 1_024, (Floor::Spin, 8));
        check(Kind::Latency, "shm-spin", Spin, 1 << 20, (Floor::ChunkedCopy, 1 << 20));
        check(Kind::Latency, "shm-futex", Block, 8, (Floor::Futex, 8));
        check(Kind::Latency, "shm-unix", Poll, 8, (Floor::UnixEpoll, 8));
        check(Kind::Latency, "tcp", Block, 1_024, (Floor::Unix, 1_024));
        check(Kind::Latency, "vmsplice", Block, 65_536, (Floor::Pipe, 65_536));
        check(Kind::Throughput, "shm-spin", Spin, 8, (Floor::Ring, 8));
        check(Kind::Throughput, "shm-futex", Block, 65_536, (Floor::ChunkedCopy, 65_536));
        check(Kind::Throughput, "pipe", Block, 8, (Floor::Pipe, 8));
    }

    #[test]
    fn no_floor_of_one_word_is_asked_for_throughput() {
        for mechanism in Mechanism::all() {
            for (wait, message_bytes) in WaitPolicy::ALL
                .into_iter()
                .flat_map(|wait| [1, 8, 64, 65, 4_096, 65_536, 4 << 20].map(|size| (wait, size)))
            {
                let subject = Subject::Mechanism(mechanism);
                let cell = CellSpec::latency(subject, Shape::Sink, message_bytes, wait);
                let cell = CellSpec { kind: Kind::Throughput, ..cell };
                let floor = floor_of(&cell).unwrap();
                let words = [Floor::Spin, Floor::Futex, Floor::Eventfd, Floor::Call];
                assert!(words.iter().all(|&word| floor.subject != Subject::Floor(word)), "{cell}");
            }
        }
    }
}
