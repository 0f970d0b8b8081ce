//! The log of a host: lines of its own and of its services, written by a thread that may be kept
//! waiting, and by none that serves.
//!
//! Whoever reads the log may stop reading, and a service may write without end. So each source of
//! lines has its own share of what waits to be written, and a service a rate beside that. What
//! exceeds either is dropped and counted, and the count is written when there is room.
//! **Invariants:** no line of one source takes the room of another's; adding a line never waits.
//! **Not here:** lines that `nearcall status` shows (`host/process.rs`), where the log is written
//! to, which the program decides.
//!
//! **Invariant:** whoever reads the log, or does not, delays no service and no question. *Checked
//! by* `a_log_that_is_not_read_holds_up_neither_questions_nor_the_end`.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nearcall_os::clock;

use crate::limits::{LOG_DRAIN_TIME, LOG_DROPS_INTERVAL, LOG_OWN_BYTES_MAX, LOG_SOURCE_BYTES_MAX};

/// Writes lines of the log.
pub(super) struct Log {
    shared: Arc<Shared>,
    own: LogSource,
    writer: Option<JoinHandle<()>>,
}

/// Where lines come from: the host, or one process.
pub(super) struct LogSource {
    shared: Arc<Shared>,
    account: Arc<Mutex<Account>>,
}

#[derive(Default)]
struct Account {
    /// What each line begins with.
    prefix: String,
    /// Bytes that wait to be written, and may.
    queued_bytes: usize,
    queued_bytes_max: usize,
    /// Lines that were dropped and not reported.
    dropped: u64,
    rate: Option<Rate>,
}

/// Lines that a source may add in a second, and has added in the current one.
struct Rate {
    lines_max: u32,
    began: Instant,
    lines: u32,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// The queue has changed.
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<(Arc<Mutex<Account>>, String)>,
    /// Sources with lines that were dropped and not reported.
    dropping: Vec<Arc<Mutex<Account>>>,
    is_closed: bool,
    /// The thread has written all, or cannot any more.
    has_ended: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    /// Has a thread give the lines to `write`, which may wait.
    pub(super) fn start(write: Box<dyn Fn(&str) + Send>) -> std::io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let there = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("nearcall-host-log".into());
        let writer = thread.spawn(move || {
            there.write_all(&*write);
            lock(&there.queue).has_ended = true;
            there.changed.notify_all();
        })?;
        let own = Account { queued_bytes_max: LOG_OWN_BYTES_MAX, ..Account::default() };
        let own = LogSource { shared: Arc::clone(&shared), account: Arc::new(Mutex::new(own)) };
        Ok(Self { shared, own, writer: Some(writer) })
    }

    /// Adds a line of the host itself.
    pub(super) fn add(&self, line: &str) {
        self.own.add(line);
    }

    /// Returns a source for the lines of a process, of which so many are written in a second.
    pub(super) fn source(&self, name: &str, lines_max: u32) -> LogSource {
        let rate = Some(Rate { lines_max, began: clock::now(), lines: 0 });
        let (prefix, queued_bytes_max) = (format!("[{name}] "), LOG_SOURCE_BYTES_MAX);
        let account = Account { prefix, queued_bytes_max, rate, ..Account::default() };
        LogSource { shared: Arc::clone(&self.shared), account: Arc::new(Mutex::new(account)) }
    }
}

impl Drop for Log {
    /// Waits until the lines are written, if that does not take long.
    fn drop(&mut self) {
        lock(&self.shared.queue).is_closed = true;
        self.shared.changed.notify_all();
        let end = clock::now() + LOG_DRAIN_TIME;
        let mut queue = lock(&self.shared.queue);
        while !queue.has_ended {
            let left = end.saturating_duration_since(clock::now());
            if left.is_zero() {
                // Whoever reads the log does not, and the thread ends with the process.
                return;
            }
            let waited = self.shared.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(queue);
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl LogSource {
    /// Adds a line, or drops it.
    pub(super) fn add(&self, line: &str) {
        let mut account = lock(&self.account);
        let bytes = account.prefix.len() + line.len();
        let has_room = account.queued_bytes + bytes <= account.queued_bytes_max;
        if has_room && account.rate.as_mut().is_none_or(Rate::admit) {
            account.queued_bytes += bytes;
            let line = format!("{}{line}", account.prefix);
            drop(account);
            let mut queue = lock(&self.shared.queue);
            queue.lines.push_back((Arc::clone(&self.account), line));
            drop(queue);
            self.shared.changed.notify_all();
            return;
        }
        account.dropped += 1;
        let is_first = account.dropped == 1;
        drop(account);
        if is_first {
            lock(&self.shared.queue).dropping.push(Arc::clone(&self.account));
            self.shared.changed.notify_all();
        }
    }
}

impl Rate {
    fn admit(&mut self) -> bool {
        if self.lines_max == 0 {
            return false;
        }
        if self.lines >= self.lines_max {
            // Only here, so that few lines cost no clock.
            let now = clock::now();
            if now.saturating_duration_since(self.began) < Duration::from_secs(1) {
                return false;
            }
            (self.began, self.lines) = (now, 0);
        }
        self.lines += 1;
        true
    }
}

impl Account {
    /// Returns the line about those that were dropped.
    fn take_report(&mut self) -> String {
        let (dropped, prefix) = (mem::take(&mut self.dropped), &self.prefix);
        let lines = if dropped == 1 { "line" } else { "lines" };
        let limit = self.rate.as_ref().map_or(String::new(), |rate| {
            format!("it wrote more than {} a second (`log-rate`), or ", rate.lines_max)
        });
        format!("{prefix}{dropped} {lines} dropped: {limit}the log was not read fast enough")
    }
}

impl Shared {
    /// Gives lines to `write` until the log is closed and all are written.
    fn write_all(&self, write: &dyn Fn(&str)) {
        let mut report_at = None;
        let mut queue = lock(&self.queue);
        loop {
            if let Some((account, line)) = queue.lines.pop_front() {
                drop(queue);
                write(&line);
                lock(&account).queued_bytes -= line.len();
            } else if queue.dropping.is_empty() && queue.is_closed {
                return;
            } else if queue.dropping.is_empty() {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            } else {
                drop(queue);
            }
            queue = self.report_drops(write, &mut report_at);
        }
    }

    /// Writes how many lines were dropped, if that is due; waits for that if there is nothing else
    /// to write.
    fn report_drops<'a>(
        &'a self,
        write: &dyn Fn(&str),
        report_at: &mut Option<Instant>,
    ) -> MutexGuard<'a, Queue> {
        let mut queue = lock(&self.queue);
        if queue.dropping.is_empty() {
            return queue;
        }
        let now = clock::now();
        let due = *report_at.get_or_insert(now + LOG_DROPS_INTERVAL);
        let is_due = if queue.is_closed { queue.lines.is_empty() } else { now >= due };
        if !is_due {
            if queue.lines.is_empty() {
                let waited = self.changed.wait_timeout(queue, due - now);
                queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            return queue;
        }
        *report_at = None;
        let dropping = mem::take(&mut queue.dropping);
        drop(queue);
        for account in dropping {
            let report = lock(&account).take_report();
            write(&report);
        }
        lock(&self.queue)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// A log of which a reader takes one line for each that is sent to it.
    fn stuck() -> (Log, std::sync::mpsc::Sender<()>, Receiver<String>) {
        let (go_on, wait) = channel::<()>();
        let (give, take) = channel();
        let write = move |line: &str| {
            let _ = wait.recv();
            let _ = give.send(line.to_owned());
        };
        (Log::start(Box::new(write)).unwrap(), go_on, take)
    }

    #[test]
    fn a_source_that_writes_without_end_takes_no_room_of_others_and_is_reported() {
        let (log, go_on, lines) = stuck();
        let loud = log.source("loud", u32::MAX);
        let quiet = log.source("quiet", 10);
        let count = 3 * LOG_SOURCE_BYTES_MAX / 100;
        for _ in 0..count {
            loud.add(&"x".repeat(100));
        }
        quiet.add("hello");
        log.add("the host");
        drop(go_on);
        drop(log);
        let lines: Vec<_> = lines.iter().collect();
        assert!(lines.contains(&"[quiet] hello".to_owned()));
        assert!(lines.contains(&"the host".to_owned()));
        let written = lines.iter().filter(|line| line.starts_with("[loud] x")).count();
        assert!(written * 100 <= LOG_SOURCE_BYTES_MAX, "{written}");
        let reported = format!("[loud] {} lines dropped: ", count - written);
        assert!(lines.iter().any(|line| line.starts_with(&reported)), "{reported}: {lines:?}");
    }

    #[test]
    fn lines_above_the_rate_are_dropped_and_counted() {
        let (log, go_on, lines) = stuck();
        let source = log.source("room", 3);
        drop(go_on);
        for number in 0..10 {
            source.add(&number.to_string());
        }
        drop(log);
        let lines: Vec<_> = lines.iter().collect();
        let written = lines.iter().filter(|line| !line.contains("dropped")).count();
        // A busy machine may take seconds for ten lines.
        assert!((3..=10).contains(&written), "{lines:?}");
        let reports = lines.iter().filter(|line| line.contains("`log-rate`"));
        let count = |report: &String| report.split(' ').nth(1).unwrap().parse::<usize>().unwrap();
        assert_eq!(written + reports.map(count).sum::<usize>(), 10, "{lines:?}");
    }

    #[test]
    fn a_log_that_is_not_read_holds_nothing_up() {
        let (log, _go_on, _lines) = stuck();
        let line = "x".repeat(1000);
        for _ in 0..2 * LOG_OWN_BYTES_MAX / line.len() {
            log.add(&line);
        }
        drop(log);
    }
}
