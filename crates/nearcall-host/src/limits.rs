//! Every bound of a host of services, with its unit and its reason.

use std::time::Duration;

/// Longest file that names services, in bytes: thousands of services have room in it.
pub(crate) const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Most services of one host. Each has a thread while it starts, and descriptors as below.
pub(crate) const SERVICES_MAX: usize = 256;

/// Descriptors of a host beside those of its services: standard ones, its loop, its own socket with
/// file and lock, callers of `nearcall status`.
pub(crate) const DESCRIPTORS_OF_HOST: u64 = 64;

/// Descriptors of a host for each service: its socket, the file of that and the lock.
pub(crate) const DESCRIPTORS_PER_SERVICE: u64 = 3;

/// Descriptors of a host for each service of a process: the socket for questions, the handle of it,
/// and the connection of its watcher, of which the control line, the channel and the process at the
/// other end have one each.
pub(crate) const DESCRIPTORS_PER_WATCHER: u64 = 5;

/// Descriptors of a host for each process: the process and its standard error, and the copy of each
/// in the loop.
pub(crate) const DESCRIPTORS_PER_PROCESS: u64 = 4;

/// Descriptors of a host for each service of a process while that starts: copies of both its
/// sockets, with numbers above those that the process gets.
pub(crate) const DESCRIPTORS_PER_HAND_OVER: u64 = 2;

/// Descriptors of the process of a group beside those of its libraries.
pub(crate) const DESCRIPTORS_OF_WORKER: u64 = 64;

/// Descriptors of the process of a group for each library: its loop with its sockets, and some
/// clients. Beyond it a server shares out what there is.
pub(crate) const DESCRIPTORS_PER_LIBRARY: u64 = 32;

/// Questions that wait until the service is up. The host gives one up after the time of a
/// handshake, and asks again when there is room.
pub(crate) const HEALTH_BACKLOG: u16 = 8;

/// How long a service may take until it answers that it serves: as long as most programs need on a
/// busy machine.
pub(crate) const READY_WITHIN_DEFAULT: Duration = Duration::from_secs(10);

/// How long a service may take to end after SIGTERM: twice the time for which servers drain by
/// default.
pub(crate) const STOP_WITHIN_DEFAULT: Duration = Duration::from_secs(10);

/// Longest time that a configuration may grant or ask for: a day. Beyond it is a mistake.
pub(crate) const SPAN_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// First pause before a restart: short, as most services that end once come back.
pub(crate) const BACK_OFF_MIN_DEFAULT: Duration = Duration::from_millis(100);

/// Longest pause before a restart: a service that always fails costs next to nothing then.
pub(crate) const BACK_OFF_MAX_DEFAULT: Duration = Duration::from_secs(10);

/// Restarts in a row after which the host gives a service up: with the default pauses that is after
/// about 13 seconds, in which what a service needs may have come back.
pub(crate) const RESTART_LIMIT_DEFAULT: u32 = 8;

/// A service that was up for as long as this, or as its longest pause if that is longer, starts
/// with the first pause again.
pub(crate) const STEADY_AFTER: Duration = Duration::from_secs(10);

/// Lines of what a service has written to its standard error that are kept, to be shown when it
/// fails: those of a panic with its backtrace's head.
pub(crate) const STDERR_LINES_MAX: usize = 20;

/// Longest line of standard error, in bytes. A longer one is cut.
pub(crate) const STDERR_LINE_BYTES_MAX: usize = 1024;

/// Lines of standard error of one unit that the log takes in a second, by default: a service that
/// traces each of a thousand calls a second fits, and one that writes without end costs the log a
/// megabyte a second at most.
pub(crate) const LOG_RATE_DEFAULT: u32 = 1000;

/// Bytes of lines of one process that wait for the reader of the log: what it writes at the default
/// rate in some seconds. With as many processes as there may be, 80 MiB.
pub(crate) const LOG_SOURCE_BYTES_MAX: usize = 256 << 10;

/// Bytes of lines of the host itself that wait so: the last lines of half of all services, which
/// may end at once.
pub(crate) const LOG_OWN_BYTES_MAX: usize = 4 << 20;

/// Interval at which the log reports lines that were dropped: often enough to see it, and one line
/// a second for each service.
pub(crate) const LOG_DROPS_INTERVAL: Duration = Duration::from_secs(1);

/// How long the host waits at its end for the reader of its log: what a reader that lives needs for
/// some lines.
pub(crate) const LOG_DRAIN_TIME: Duration = Duration::from_millis(500);

/// How long a message to the service manager may wait for room in its socket, whose queue is full
/// only if it does not read.
pub(crate) const NOTIFY_TIMEOUT: Duration = Duration::from_millis(100);

/// Bytes of standard error in a reply to `nearcall status`, of all processes together: a quarter of
/// what a message may have, shared by them in equal parts.
pub(crate) const STATUS_LINES_BYTES_MAX: usize = 1 << 20;

/// Longest text of how a service has ended in a reply to `nearcall status`, in bytes: with as many
/// services as there may be, another quarter.
pub(crate) const STATUS_END_BYTES_MAX: usize = 4096;

/// Bytes of standard error that are read of one service before others have their turn: what a pipe
/// holds by default.
pub(crate) const STDERR_READ_BYTES: usize = 64 << 10;

/// Clients that are told that a service has stopped when its socket is closed: twice those that its
/// queue can hold. Further ones come while it is closed, and are cut off.
pub(crate) const ACCEPTS_AT_CLOSE_MAX: usize = 256;

/// Pause before a service that answers that it does not serve yet is asked again.
pub(crate) const NOT_SERVING_PAUSE: Duration = Duration::from_millis(20);

/// Processes of former configurations that drain at once, before a further restart is refused:
/// they share the memory of the machine with those that serve.
pub(crate) const RETIRING_MAX: usize = 64;
