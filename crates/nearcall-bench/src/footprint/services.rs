//! Two services as two processes, and as one: what merging them saves (the thesis's table 3).
//!
//! In each round both set-ups are measured, the order changing from round to round, so that a drift
//! of the machine's memory cancels. Before each the machine is read without our services; then
//! available memory may fall by the budget, whatever services leave of it being allocated. Always
//! true: a sum counts only if the machine has the same again afterwards, so that nobody else's
//! memory is taken for that of services.

use std::time::Duration;

use nearcall_channel::Mechanism;
use nearcall_os::clock;
use nearcall_results::findings::memory::{
    ONE_PROCESS, ProcessMemory, ServiceMemory, SetUp, SkippedMemory, TWO_PROCESSES,
};

use super::Stop;
use super::allocator::{Allocated, BLOCK_BYTES, Limit, Stopped};
use super::budget;
use super::connections::{client_address, server_address};
use super::helper::{CONNECT_TIMEOUT, Helper};
use crate::launch::{WorkerMessage, WorkerRequest};
use crate::memory;
use crate::runner::Hooks;

/// Measures some rounds of both set-ups.
pub(super) fn measure(quick: bool, hooks: &Hooks<'_>) -> Result<ServiceMemory, Stop> {
    let usable = |mechanism: &Mechanism| mechanism.supported().is_ok();
    let mechanism =
        LIKED.into_iter().find(usable).ok_or_else(|| "nothing to call over".to_owned())?;
    let budget_bytes = budget::bytes(0).filter(|&bytes| bytes >= BUDGET_BYTES_MIN);
    let set_up = |name: &str| SetUp { name: name.to_owned(), ..SetUp::default() };
    let mut found = ServiceMemory {
        mechanism: mechanism.name().to_owned(),
        limit: limit_words(budget_bytes),
        budget_bytes: budget_bytes.unwrap_or(0),
        block_bytes: BLOCK_BYTES,
        uncounted: 0,
        partial: None,
        set_ups: vec![set_up(TWO_PROCESSES), set_up(ONE_PROCESS)],
        skipped: vec![SkippedMemory {
            what: "services as libraries".to_owned(),
            reason: "measured by `nearcall bench memory --setups`".to_owned(),
        }],
    };
    let rounds = if quick { ROUNDS_QUICK } else { ROUNDS };
    for round in 0..rounds {
        // Each comes first as often as last.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        let mut readings = [None, None];
        for at in order {
            let processes = if at == 0 { 2 } else { 1 };
            // A machine that others never leave alone is not asked for ever.
            let tries = if quick || found.uncounted >= UNCOUNTED_MAX { 1 } else { TRIES };
            match measure_one(processes, mechanism, budget_bytes, tries, hooks) {
                Ok(reading) => {
                    found.uncounted += reading.uncounted;
                    readings[at] = Some(reading);
                }
                Err(stop) if round == 0 => return Err(stop),
                Err(Stop::Interrupted) => found.partial = Some(super::INTERRUPTED.to_owned()),
                Err(Stop::Failed(reason)) => found.partial = Some(reason),
            }
            if found.partial.is_some() {
                return Ok(found);
            }
        }
        keep(&mut found.set_ups, readings);
    }
    Ok(found)
}

/// A figure of a set-up, round by round.
type Field = fn(&mut SetUp) -> &mut Vec<u64>;

/// Files a round if it is whole: the n-th values of both belong together.
fn keep(set_ups: &mut [SetUp], readings: [Option<Reading>; 2]) {
    let [Some(two), Some(one)] = readings else { return };
    let both = |get: fn(&Reading) -> Option<u64>| Some([get(&two)?, get(&one)?]);
    let fields: [(Field, Option<[u64; 2]>); 4] = [
        (|set_up| &mut set_up.pss_bytes, both(|reading| reading.memory.pss_bytes)),
        (|set_up| &mut set_up.private_bytes, both(|reading| reading.memory.private_bytes)),
        (|set_up| &mut set_up.added_bytes, both(|reading| reading.added_bytes)),
        (|set_up| &mut set_up.allocated_bytes, both(|reading| reading.allocated_bytes)),
    ];
    for (field, values) in fields {
        for (set_up, value) in set_ups.iter_mut().zip(values.into_iter().flatten()) {
            field(set_up).push(value);
        }
    }
}

/// One set-up in one round.
struct Reading {
    /// Of all its processes.
    memory: ProcessMemory,
    /// With what this process lost by sharing its program with them.
    added_bytes: Option<u64>,
    allocated_bytes: Option<u64>,
    /// Allocations that do not count.
    uncounted: u32,
}

/// Measures one set-up, again if others have disturbed the allocation.
fn measure_one(
    processes: usize,
    mechanism: Mechanism,
    budget_bytes: Option<u64>,
    mut tries: u32,
    hooks: &Hooks<'_>,
) -> Result<Reading, Stop> {
    let mut reading = try_one(processes, mechanism, budget_bytes, hooks)?;
    while budget_bytes.is_some() && reading.allocated_bytes.is_none() && tries > 1 {
        tries -= 1;
        let again = try_one(processes, mechanism, budget_bytes, hooks)?;
        reading = Reading { uncounted: reading.uncounted + again.uncounted, ..again };
    }
    Ok(reading)
}

fn try_one(
    processes: usize,
    mechanism: Mechanism,
    budget_bytes: Option<u64>,
    hooks: &Hooks<'_>,
) -> Result<Reading, Stop> {
    clock::pause(SETTLE);
    let before_bytes = budget::left_bytes();
    let own_pss_bytes = || memory::pss_bytes(std::process::id());
    let alone_bytes = own_pss_bytes();
    let addresses: Vec<String> =
        (0..SERVICES).map(|service| server_address(&format!("service-{service}"))).collect();
    let mut servers = Vec::new();
    for share in addresses.chunks(SERVICES / processes) {
        let request =
            WorkerRequest::Serve { addresses: share.to_vec(), connections_max: CONNECTIONS_MAX };
        servers.push(Helper::ready(&request, hooks)?);
    }
    let called = addresses.iter().map(|address| client_address(address, mechanism)).collect();
    Helper::ready(&WorkerRequest::Call { addresses: called }, hooks)?.end();
    clock::pause(SETTLE);
    let sum = |get: fn(ProcessMemory) -> Option<u64>| {
        servers.iter().map(|server| get(server.memory())).sum::<Option<u64>>()
    };
    let memory = ProcessMemory {
        pss_bytes: sum(|memory| memory.pss_bytes),
        private_bytes: sum(|memory| memory.private_bytes),
    };
    let added_bytes = memory.pss_bytes.zip(own_pss_bytes()).zip(alone_bytes);
    let added_bytes =
        added_bytes.map(|((servers, own), alone)| (servers + own).saturating_sub(alone));
    let allocated_bytes = match before_bytes.zip(budget_bytes) {
        Some((before_bytes, budget_bytes)) => allocate(before_bytes, budget_bytes, hooks)?,
        None => None,
    };
    servers.into_iter().for_each(Helper::end);
    let allocated_bytes = allocated_bytes.filter(|_| {
        clock::pause(SETTLE);
        is_quiet(before_bytes, budget::left_bytes())
    });
    let uncounted = u32::from(budget_bytes.is_some() && allocated_bytes.is_none());
    Ok(Reading { memory, added_bytes, allocated_bytes, uncounted })
}

/// Whether nobody else has taken or given back more than what the kernel's own counting is off by.
pub(super) fn is_quiet(before_bytes: Option<u64>, after_bytes: Option<u64>) -> bool {
    let moved = before_bytes.zip(after_bytes).map(|(before, after)| before.abs_diff(after));
    moved.is_some_and(|moved| moved <= MOVED_BYTES_MAX)
}

/// What can be allocated beside what runs. `None` if something else than the floor ended it.
pub(super) fn allocate(
    before_bytes: u64,
    budget_bytes: u64,
    hooks: &Hooks<'_>,
) -> Result<Option<u64>, Stop> {
    let floor_bytes = before_bytes.saturating_sub(budget_bytes);
    // Others may free memory meanwhile: what they give must not all be taken.
    let limit = Limit { floor_bytes, bytes_max: budget_bytes + budget_bytes / 4 };
    let mut allocator = Helper::start(&WorkerRequest::Allocate(limit), hooks)?;
    let reported = allocator.receive(CONNECT_TIMEOUT)?;
    allocator.end();
    match reported {
        WorkerMessage::Allocated(Allocated { bytes, by: Stopped::Floor }) => Ok(Some(bytes)),
        WorkerMessage::Allocated(_) => Ok(None),
        other => Err(Stop::Failed(format!("the allocator reported {other:?}"))),
    }
}

pub(super) fn limit_words(budget_bytes: Option<u64>) -> String {
    match budget_bytes {
        Some(bytes) => format!(
            "the machine's available memory may fall by {} MiB (no more than a quarter of what \
             machine and control group have left); RLIMIT_AS stands behind that. A control \
             group of our own would count more exactly and needs privileges",
            bytes >> 20
        ),
        None => "none: the machine does not say what it has, or has too little; nothing was \
                 allocated"
            .to_owned(),
    }
}

/// Services in each set-up.
const SERVICES: usize = 2;

/// One client comes.
const CONNECTIONS_MAX: u32 = 8;

/// What clients call over, the first that this machine has.
const LIKED: [Mechanism; 2] = [Mechanism::Shm, Mechanism::UnixStream];

/// Rounds of both set-ups.
const ROUNDS: usize = 8;

/// With `quick`.
const ROUNDS_QUICK: usize = 2;

/// Of each set-up in each round, until others leave the machine alone.
const TRIES: u32 = 3;

/// Allocations that may be in vain before none is tried again.
const UNCOUNTED_MAX: u32 = 12;

/// The kernel counts pages per CPU and sums up seldom; more than this was somebody else.
const MOVED_BYTES_MAX: u64 = 2 << 20;

/// Less would not hold two services and the allocator itself.
const BUDGET_BYTES_MIN: u64 = 16 << 20;

/// What processes leave to do when they begin or end is done by then.
pub(super) const SETTLE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_others_use_meanwhile_is_not_quiet() {
        assert!(is_quiet(Some(10 << 20), Some(9 << 20)));
        assert!(!is_quiet(Some(10 << 20), Some(13 << 20)));
        assert!(!is_quiet(Some(13 << 20), Some(10 << 20)));
        assert!(!is_quiet(None, Some(10 << 20)));
    }

    #[test]
    fn a_round_that_is_not_whole_does_not_count() {
        let mut set_ups = vec![SetUp::default(), SetUp::default()];
        let reading = |pss_bytes, allocated_bytes| {
            let memory = ProcessMemory { pss_bytes: Some(pss_bytes), private_bytes: None };
            Some(Reading { memory, added_bytes: None, allocated_bytes, uncounted: 0 })
        };
        keep(&mut set_ups, [reading(9, Some(1)), reading(5, Some(2))]);
        keep(&mut set_ups, [reading(8, None), reading(6, Some(2))]);
        keep(&mut set_ups, [reading(7, Some(3)), None]);
        assert_eq!(
            (&set_ups[0].pss_bytes[..], &set_ups[1].pss_bytes[..]),
            (&[9, 8][..], &[5, 6][..])
        );
        assert_eq!((set_ups[0].allocated_bytes.len(), set_ups[1].allocated_bytes.len()), (1, 1));
        assert!(set_ups[0].private_bytes.is_empty());
    }
}
