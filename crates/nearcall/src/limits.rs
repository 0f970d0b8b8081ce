//! Every bound of the runtime: its default, its unit and its reason.
//!
//! What happens at a bound, and which form of a call waits there: `docs/book/src/guides/limits.md`.
//! **Not here:** bounds of one connection's protocol (`nearcall_wire::limits`), of handshakes and
//! of channels (`nearcall_channel`), of buffers that are kept (`connection/buffer_pool.rs`).

use std::time::Duration;

use nearcall_channel::Options;
use nearcall_channel::limits::{self as channel, MESSAGE_BYTES_MAX_CEILING};

/// Messages of one connection that are served before the others have their turn.
///
/// Small enough that a peer that floods holds another back by a few calls only; large enough that
/// asking the kernel what is ready (half a microsecond) does not show in a busy connection's rate.
pub(crate) const MESSAGES_PER_TURN_MAX: usize = 4;

/// Time after which a turn ends with the message that is being served, and after which the loop
/// looks who else is ready, while clients of several users share it.
///
/// Some tens of small calls; a look at the kernel after that is a percent.
pub(crate) const TURN_TIME_MAX: Duration = Duration::from_micros(50);

/// Calls between two that an automatic connection times (`?via=auto`), on average.
///
/// Three readings of the clock for as many calls are a nanosecond for each.
pub(crate) const AUTO_SAMPLE_STRIDE: u32 = 64;

/// Time between two calls that are timed, on average, where that is fewer calls than
/// [`AUTO_SAMPLE_STRIDE`]: the readings are less than a percent of it.
pub(crate) const AUTO_SAMPLE_TIME: Duration = Duration::from_micros(32);

/// A pause before a call from which both ends have slept, and the next call wakes them.
///
/// Longer than ends spin on most machines, and much longer than a caller takes between two calls.
pub(crate) const AUTO_PAUSE_MIN: Duration = Duration::from_micros(200);

/// Time between two looks at an automatic connection, at least.
///
/// A few system calls and comparisons, some tens of microseconds; a phase of a program that is
/// worth a switch is much longer.
pub(crate) const AUTO_LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Samples that a look needs, at least: with fewer, one disturbed call decides.
pub(crate) const AUTO_SAMPLES_MIN: u32 = 8;

/// Time between two readings of the machine's load, at least: it reads a file.
pub(crate) const AUTO_LOAD_INTERVAL: Duration = Duration::from_secs(1);

/// What a switch must save of the cost of calls, as a share of it, by what is stored.
///
/// Stored medians differ from what a program sees by some percent; below that it would be chance.
/// What is measured after a switch decides: one that made things worse is taken back.
pub(crate) const AUTO_GAIN_MIN: f64 = 0.1;

/// The same while more threads want to run than there are CPUs: costs were measured without.
pub(crate) const AUTO_GAIN_LOADED_MIN: f64 = 0.3;

/// Looks in a row that must advise the same switch.
pub(crate) const AUTO_LOOKS_MIN: u32 = 2;

/// How long an automatic connection stays where it is after a switch, at least.
pub(crate) const AUTO_STAY_MIN: Duration = Duration::from_secs(1);

/// Switches of an automatic connection within [`AUTO_MINUTE`], at most, those that are taken back
/// included: each costs both ends a handshake.
pub(crate) const AUTO_SWITCHES_MAX: usize = 4;

/// The span in which switches are counted, and over which costs are remembered.
pub(crate) const AUTO_MINUTE: Duration = Duration::from_secs(60);

/// The time within which a switch must have paid for itself.
pub(crate) const AUTO_PAYBACK: Duration = Duration::from_secs(10);

/// What a switch costs both ends, in nanoseconds, generously.
pub(crate) const AUTO_SWITCH_COST_NS: u64 = 1_000_000;

/// Looks by which a switch is judged.
pub(crate) const AUTO_TRIAL_LOOKS: u32 = 5;

/// How many times as long as before a switch, and as expected of it, calls must take for it to be
/// taken back: below, it may be chance.
pub(crate) const AUTO_WORSE_MIN: f64 = 1.15;

/// How long a mechanism that made things worse is not tried again in that situation. Doubled each
/// time, up to [`AUTO_AVOID_MAX`].
pub(crate) const AUTO_AVOID: Duration = Duration::from_secs(300);

/// See [`AUTO_AVOID`].
pub(crate) const AUTO_AVOID_MAX: Duration = Duration::from_secs(3_600);

/// How long a mechanism is left alone to which the connection could not move; one that was refused
/// for the rate of switches only for [`AUTO_MINUTE`].
pub(crate) const AUTO_UNAVAILABLE: Duration = Duration::from_secs(600);

/// Mechanisms and situations that are remembered, at most; the oldest is forgotten.
pub(crate) const AUTO_AVOIDED_MAX: usize = 16;

/// How long a switch that an automatic connection has begun may take.
pub(crate) const AUTO_SWITCH_TIMEOUT: Duration = Duration::from_secs(5);

/// How much the time of a call counts for an automatic connection, beside [`AUTO_CPU_WEIGHT`],
/// unless the program says otherwise.
pub(crate) const AUTO_LATENCY_WEIGHT: f64 = 0.7;

/// How much the CPU time of both ends counts.
pub(crate) const AUTO_CPU_WEIGHT: f64 = 0.3;

/// Looks at a spinning connection in one round of the loop, if it is the only one.
///
/// What else a round does costs some 30 ns, as much as three looks; timers and services of others
/// still wait below a microsecond.
pub(crate) const SPIN_LOOKS_PER_ROUND: u32 = 32;

/// How often one call is sent again after connections that ended without an answer to it.
///
/// More than servers die in the time of a call; a bound on one that ends each connection so.
pub(crate) const RESENDS_MAX: u32 = 16;

/// How often one call connects again at once when a server that drains has ended its attempt.
///
/// One that has taken the place of another is found by the first; a bound on one that drains
/// without end.
pub(crate) const DRAINING_TRIES_MAX: u32 = 4;

/// How long a connection that was opened again must have lived for the next one to be opened at
/// once after its end ([`ReconnectPolicy::AtOnce`](crate::client::ReconnectPolicy)): one that ends
/// sooner was probably ended by what its server does to each.
pub(crate) const REOPENED_LIFE_MIN: Duration = Duration::from_secs(1);

/// The longest pause between connections that end sooner: each costs both ends a handshake, some
/// hundreds of microseconds, though nothing is called.
pub(crate) const REOPENING_PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long the end of a process is waited for after its connection to an attachment has ended:
/// a process that ends closes its sockets some microseconds before. Longer, and the server has
/// closed the connection and lives.
///
/// Enough for a machine whose processors are all taken.
pub(crate) const EXIT_WAIT_MAX: Duration = Duration::from_secs(1);

/// How long the parent of a process may take to wait for it, where the kernel reports an end only
/// afterwards: for processes of other users.
pub(crate) const REAP_WAIT_MAX: Duration = Duration::from_secs(1);

/// How long another instance may take to answer at the address of a server that has closed, to
/// count as the one that replaces it.
///
/// One that listens answers within a millisecond; a socket that waits for its server to be started
/// does not answer.
pub(crate) const SUCCESSOR_WAIT_MAX: Duration = Duration::from_millis(100);

/// Changes of files that nothing waits for in a directory where a server is waited for, in a
/// second: whoever may write to the directory makes them, and each wakes the driver. With more the
/// server is asked for again and again, as where nothing can be watched.
///
/// Above what a thousand servers make that are started at once.
pub(crate) const OTHER_NAMES_PER_SECOND_MAX: u32 = 10_000;

/// Threads that look who answers in the place of servers that have closed, for all attachments of a
/// process. One that does not answer holds a thread up for [`SUCCESSOR_WAIT_MAX`].
pub(crate) const LOOK_THREADS_MAX: usize = 4;

/// The shortest interval between two pings of an attachment. Below it a server that is merely busy
/// counts as one that does not answer.
pub(crate) const PING_INTERVAL_MIN: Duration = Duration::from_millis(1);

/// Turns for nothing that a connection gets one after the other: its descriptor was ready, and
/// nothing had come. A correct peer causes one where both ends become active at once.
pub(crate) const EMPTY_WAKES_MAX: u32 = 64;

/// Time for which the descriptors of a connection that has had so many are not watched, and in
/// which one that has had fewer gets another one. A message that comes meanwhile is late by this at
/// most, and a peer that does nothing but wake takes less than a percent of a CPU.
pub(crate) const EMPTY_WAKE_INTERVAL: Duration = Duration::from_millis(1);

/// Intervals of that without a turn for nothing after which a connection that has had so many gets
/// others at all: more than the one or two of a pause that the loop is late to end.
pub(crate) const EMPTY_WAKES_REST: u64 = 4;

/// What a turn for nothing costs its user beside the time of the turn, in nanoseconds: the look at
/// the kernel that has found its descriptor ready, and the round.
pub(crate) const EMPTY_WAKE_COST_NS: u64 = 1_000;

/// Items that a caller sends without a look at whether their call has ended, where that look is a
/// system call, which costs a tenth of an item.
pub(crate) const UNLOOKED_ITEMS_MAX: u32 = 16;

/// Packets of the control line, each a segment of memory that the peer has made or taken back,
/// after which a turn ends: some hundreds of microseconds. A correct peer sends one or two with a
/// message.
pub(crate) const CONTROL_PACKETS_PER_TURN_MAX: usize = 16;

/// How often a client asks its server for an invitation to a meeting, by which a connection over
/// `tcp://` moves to shared memory: a program that pauses between its first calls for longer than
/// `Limits::switch_timeout` has missed the switch.
pub(crate) const UPGRADE_TRIES_MAX: u32 = 4;

/// How long the answer to that is waited for; the connection is used meanwhile. A server answers at
/// once, unless its loop is kept by something else.
pub(crate) const MEETING_WAIT: Duration = Duration::from_secs(5);

/// Turns of spinning connections between two looks at everything else.
///
/// A look costs a system call, some 300 ns; over 64 turns it adds a percent or two to a CPU that
/// spins anyway, and a new client waits tens of microseconds.
pub(crate) const SPIN_TURNS_PER_LOOK: u32 = 64;

/// Weight of a turn that served as many messages as a turn may, in turns: after two of them the
/// loop looks at everything else.
///
/// Such a connection may have many more messages, and a peer whose connection is armed must not
/// wait for 64 turns of four calls each.
pub(crate) const TURNS_PER_FULL_TURN: u32 = SPIN_TURNS_PER_LOOK / 2;

/// Handlers that may wait for calls of their own inside each other on one thread. A call that would
/// go deeper is answered `RESOURCE_EXHAUSTED`: every level needs its stack frames. The calls of one
/// user get half of what the others leave of it, those of one connection half of what is left of
/// that: 16 and 8 of an idle server.
///
/// Futures and posted closures of the loop wait until fewer run. So a handler at the largest depth
/// that waits for what only one of those can give waits until its deadline.
pub(crate) const NESTING_MAX: usize = 32;

/// Requests and items of a loop that found no room in the channel, kept for a connection, in bytes
/// with 48 for each. A further one waits, or is refused.
///
/// Two messages of the largest default size: one under way, one ready.
pub(crate) const OUTBOX_BYTES_MAX: usize = 8 << 20;

/// Replies that found no room in the channel, in bytes with 48 for each, at which a server reads no
/// further request from the connection until all of them have left. Those of calls that it has read
/// before are kept beyond it, as far as the share of the client's user reaches.
///
/// Four times the default room: a client that starts some hundreds of calls before it reads is not
/// held up, and one that reads nothing holds little.
pub(crate) const REPLIES_WAITING_BYTES_MAX: usize = 1 << 20;

/// Steps in which messages that are kept for a connection are charged to the account of its user,
/// in bytes: few messages need a further one.
pub(crate) const OUTBOX_STEP_BYTES: u64 = 256 << 10;

/// Memory that calls of a connection take after their turn without a charge of their own, in bytes:
/// a part of what counts for every connection. A dozen small calls of an async service.
pub(crate) const CALLS_BYTES_FREE: u64 = channel::CONNECTION_BYTES as u64 / 4;

/// Steps in which what calls take beyond that is charged to the account of their user, in bytes:
/// one takes a lock, and a step pays for tens of small calls. As much stays charged to a connection
/// whose calls have ended.
pub(crate) const CALLS_STEP_BYTES: u64 = 64 << 10;

/// Memory that a call takes after its turn beside its request, in bytes: its task or its place in
/// a queue, what it shares with its connection, its context.
pub(crate) const CALL_BYTES: usize = 1 << 10;

/// Bytes of events that a recording of a server takes in a second, unless its caller asks for
/// another rate: about 300,000 small events.
pub(crate) const RECORDED_BYTES_PER_S_DEFAULT: u64 = 64 << 20;

/// Bytes of events of a recording that wait in the server to be sent, unless its caller asks for
/// others: a quarter of a second at the usual rate.
pub(crate) const RECORDED_MEMORY_BYTES_DEFAULT: u64 = 16 << 20;

/// The most that a caller may ask for.
pub(crate) const RECORDED_MEMORY_BYTES_MAX: u64 = 256 << 20;

/// Bytes of a message that are recorded at most; the rest is cut off. An event then fits into a
/// message of each limit that servers have by default.
pub(crate) const RECORDED_BODY_BYTES_MAX: usize = 1 << 20;

/// What an event of a recording takes beside its message, in bytes.
pub(crate) const RECORDED_EVENT_BYTES: u64 = 200;

/// Bytes of messages in one part of a recording, above which the next begins: its loop sends it in
/// some microseconds.
pub(crate) const RECORDED_REPLY_BYTES: u64 = 32 << 10;

/// Time between two looks of a recording at what has happened: what waits meanwhile is bounded, and
/// a few looks more cost the processor nothing.
pub(crate) const RECORDING_PERIOD: Duration = Duration::from_millis(10);

/// Memory that one row of an answer takes that other loops contribute to, in bytes: a connection
/// with its names, its counts by size, its times and some of its switches.
pub(crate) const GATHERED_ROW_BYTES: usize = 3 << 10;

/// Steps in which a stream reserves memory for its items, in bytes: a page.
pub(crate) const ITEMS_STEP_BYTES: usize = 4 << 10;

/// Memory that ended connections have given back after which the allocator is asked to give it back
/// as well, in bytes: a dozen connections over `shm`.
pub(crate) const TRIM_BYTES: u64 = 4 << 20;

/// Time until it is asked, so that it is once for many connections: asking walks the heap, which
/// takes about a millisecond.
pub(crate) const TRIM_DELAY: Duration = Duration::from_secs(1);

/// Items of one stream that a service in another thread, or a future, has handed to its loop and
/// that wait for credit or room, in bytes; then its send waits. An eighth of what the receiver
/// takes by default, so that the loop is woken for many items at once.
pub(crate) const OUTLET_BYTES_MAX: usize = 512 << 10;

/// Time after which a method that streams with a caller of its own thread has received what was
/// under way: it lies in memory of this process, so that a round or two find it. Then the wait
/// fails, for the caller goes on only when the method has returned.
pub(crate) const OWN_CALLER_WAIT: Duration = Duration::from_millis(20);

/// Rounds of the loop that such a wait makes at least, however long they take: each gives every
/// connection a turn.
pub(crate) const OWN_CALLER_ROUNDS_MIN: u32 = 8;

/// Handshakes with clients that one loop has at once, each with a descriptor. One user has at most
/// half of what the others leave, 96 if it is the only one; all clients from other machines count
/// as one user.
pub(crate) const HANDSHAKES_MAX: usize = 192;

/// Clients of one loop that have not greeted at which those that have gone are first taken out of
/// their queue; afterwards whenever it has doubled.
pub(crate) const GREETINGS_BEFORE_SWEEP: usize = 64;

/// Handshakes that go on in one round of a loop: a step maps memory, some tens of microseconds.
pub(crate) const HANDSHAKE_STEPS_PER_ROUND_MAX: usize = 4;

/// Room for a received message at first, in bytes: a page. Grows to the messages that come.
pub(crate) const BUFFER_BYTES_MIN: usize = 4 << 10;

/// A received message of this length or more, in bytes, lies in a buffer that its `bytes` fields
/// become slices of: sharing the buffer costs an allocation, about as much as copying so much.
pub(crate) const SHARED_BYTES_MIN: usize = 16 << 10;

/// A received message of this length or more, in bytes, is judged by the size that it has when it
/// is decoded. A shorter one grows to some megabytes at most, and a walk over its fields would show
/// in the time of its call.
pub(crate) const JUDGED_BYTES_MIN: usize = 16 << 10;

/// One-way messages to a server of the same loop that wait for its next turn. Above it, sending is
/// refused with `RESOURCE_EXHAUSTED`, as a full channel would: as many as its default room holds if
/// each takes 256 bytes.
pub(crate) const LOCAL_ONEWAYS_MAX: usize = 1024;

/// Results of one connection that wait to be taken, beside those in the table of its calls. Above
/// it no call starts before one of them is taken or dropped.
///
/// Each holds the memory of its reply and was asked for by this process, which may start as many
/// calls and take their results afterwards; the bound ends a program that never takes any.
pub(crate) const RESULTS_KEPT_MAX: usize = 64 << 10;

/// First pause of a caller that waits for memory to lend: slots come back by a count in the memory
/// of the other end, without a doorbell, because that would cost each of them a system call.
///
/// About what a sleep and a wake-up cost, and less than the other end needs for the messages that
/// hold all the other slots.
pub(crate) const LOAN_PAUSE_MIN: Duration = Duration::from_micros(50);

/// Longest such pause. Each one is twice the last, so that a loan comes late by no more than it had
/// to wait anyway, and a caller that waits for long looks a thousand times a second: 1 % of a CPU.
pub(crate) const LOAN_PAUSE_MAX: Duration = Duration::from_millis(1);

/// Fewest bytes of a loan that a message passes by reference. Fewer are copied: a reference costs
/// some two hundred nanoseconds at both ends together, as much as copying two KiB twice.
pub(crate) const REFERENCE_BYTES_MIN: usize = 1 << 10;

/// Memory that a connection keeps to marshal the next message with loans in, in bytes: a page, as
/// such messages are short beside their loans.
pub(crate) const SPARE_BYTES_MAX: usize = 4 << 10;

/// Bytes of calls that wait while a service looks for its cancellation: two messages of the largest
/// default size.
pub(crate) const LOOK_AHEAD_BYTES_MAX: usize = 8 << 20;

/// Calls that wait while a service looks for its cancellation. A service that looks often must not
/// take more than a channel would hold.
pub(crate) const LOOK_AHEAD_MESSAGES_MAX: usize = 64;

/// Longest text of an error that is sent, in bytes: a few lines for a terminal.
pub(crate) const ERROR_TEXT_BYTES_MAX: usize = 1024;

/// Longest name of an object that is looked up by its name, in bytes: longer than packages and
/// instances get. A longer one is refused before anything is done with it.
pub(crate) const OBJECT_NAME_BYTES_MAX: usize = 256;

/// Most levels of messages within messages: what decoders of Protocol Buffers take by default. A
/// deeper one is neither sent nor taken.
pub(crate) const MESSAGE_DEPTH_MAX: usize = 100;

/// Names of objects in an error text: what fits a screen.
pub(crate) const OBJECT_NAMES_MAX: usize = 16;

/// Connections that the loop polls at once before it sleeps: each makes a round over all of them
/// longer by some 20 ns.
pub(crate) const BUSY_MAX: usize = 8;

/// Time for which a loop serves the only connection that it polls before it looks at everything
/// else, in nanoseconds, while that always has more. A look takes some 300 ns.
pub(crate) const LOOK_INTERVAL_NS: u64 = 10_000;

/// Polls without a message after which a connection is armed while others are busy: about 10 us.
pub(crate) const BUSY_MISSES_MAX: u32 = 256;

/// Interval at which everything else is looked at while nothing comes, in readings of the spinner's
/// clock: every 10 us or so.
pub(crate) const CLOCKS_PER_LOOK: u32 = 8;

/// One call in so many of a method is timed, its first one included: two readings of a clock, 20 ns
/// each, then cost a call about 1 ns.
pub(crate) const TIMED_ONE_IN: u32 = 32;

/// Looks at the kernel that may fail one after the other before the loop ends: a second of them
/// with [`LOOK_FAILURE_PAUSE`] between, which a shortage may last.
pub(crate) const LOOK_FAILURES_MAX: u32 = 100;

/// Pause after a look at the kernel that has failed, so that the loop does not spin meanwhile.
pub(crate) const LOOK_FAILURE_PAUSE: Duration = Duration::from_millis(10);

/// Ready descriptors taken from the kernel at once: a buffer of a page or less. More come with the
/// next round.
pub(crate) const EVENTS_PER_ROUND_MAX: usize = 256;

/// Threads of a [`BlockingPool`](crate::service::BlockingPool) unless its builder sets another
/// number: a method that blocks needs no CPU of its own, and its stack costs a few pages.
pub(crate) const BLOCKING_THREADS_DEFAULT: usize = 8;

/// Calls that wait for a thread of a [`BlockingPool`](crate::service::BlockingPool) before it is
/// full: eight for each of its threads.
pub(crate) const BLOCKING_QUEUE_DEFAULT: usize = 64;

/// Calls that wait for a thread of a full [`BlockingPool`](crate::service::BlockingPool) until
/// their deadlines: as many as 16 clients may have in flight by default.
pub(crate) const BLOCKING_WAITING_MAX: usize = 4096;

/// Requests that wait for a thread of a [`BlockingPool`](crate::service::BlockingPool), in bytes:
/// as many as its default queue holds if each has the default limit of a message.
pub(crate) const BLOCKING_WAITING_BYTES_MAX: usize = 256 << 20;

/// One-way messages whose method has returned and goes on, as a future or in a pool, in each loop.
/// Above it further ones are dropped: their senders wait for nothing, so that nothing else bounds
/// them. As many as a pool lets wait. Another user than the server's has at most half of what the
/// others leave.
pub(crate) const ONEWAYS_DETACHED_MAX: usize = 4096;

/// Time after which a thread of a [`BlockingPool`](crate::service::BlockingPool) ends that has
/// nothing to do: longer than the pauses of a program that is busy, so that threads are started
/// rarely.
pub(crate) const BLOCKING_IDLE: Duration = Duration::from_secs(10);

/// Posts of other threads that are served in one round: replies, closures, polls of tasks. A post
/// takes a microsecond or so, so that connections wait for at most some tens of them.
pub(crate) const POSTS_PER_ROUND_MAX: usize = 64;

/// Rounds of one turn of a hosted loop. A host that has more to do gets its turn between them.
pub(crate) const ROUNDS_PER_TURN_MAX: usize = 4;

/// Time after which the file of a socket is made again that is removed once more: whoever may write
/// to its directory removes it as often as it likes, and each time costs some 100 us.
pub(crate) const SOCKET_FILE_PAUSE: Duration = Duration::from_millis(100);

/// Clients taken from a listener before others have their turn: each costs system calls, so that a
/// crowd of them must not delay the calls of those that are connected.
pub(crate) const ACCEPTS_PER_ROUND_MAX: usize = 16;

/// Clients in the queue of a listener that are refused with the reason when it is closed: twice the
/// 128 that a queue holds, since more may come meanwhile. The kernel resets those that are left.
pub(crate) const ACCEPTS_AT_CLOSE_MAX: usize = 256;

/// Event loops of one server. Far above the processors of any machine: a loop beyond them takes
/// time from the others.
pub(crate) const SERVER_THREADS_MAX: usize = 1024;

/// Longest wait of [`RunningServer::connections`](crate::server::RunningServer::connections) for
/// the loops, which answer between two methods. A tool that shows connections should not wait for
/// longer.
pub(crate) const LOOP_ANSWER_MAX: Duration = Duration::from_secs(1);

/// Longest wait for the threads of a server that was stopped. They end at once unless a method
/// runs, and a method that does not return must not keep the program from its end.
pub(crate) const STOP_WAIT_MAX: Duration = Duration::from_secs(1);

/// Time that a listener rests after the kernel refused a descriptor for a client. Asking again at
/// once would only spin.
pub(crate) const LISTENER_PAUSE: Duration = Duration::from_millis(100);

/// Longest silence of a client in its handshake while others of its user wait for its place. A
/// client takes a millisecond, on a machine with too much to do tens of them. A full queue of
/// silent clients is gone after twice this.
pub(crate) const HANDSHAKE_GRACE: Duration = Duration::from_millis(100);

/// Interval at which a loop asks a connection without a descriptor for room while something waits
/// for it: about as long as a wake-up takes, so that a stream of large messages loses little.
pub(crate) const LOOP_ROOM_INTERVAL: Duration = Duration::from_micros(50);

/// Interval at which a loop asks the channel before a switch for room, where that has no
/// descriptor: rare, since the client reads it until it has moved. A peer that does not read it
/// costs the loop a look each time.
pub(crate) const OLD_ROOM_INTERVAL: Duration = Duration::from_millis(1);

/// First pause of a client without a loop that waits for room in the channel, and after each
/// message that has come meanwhile: it receives between two of them, since its server may wait for
/// that. About what a sleep and a wake-up cost.
pub(crate) const ROOM_PAUSE_MIN: Duration = Duration::from_micros(50);

/// Interval at which a client without a loop asks a connection for room while it waits for a reply
/// as well, and the longest pause between two looks for messages while it waits for room. Only what
/// is rare finds no room then, such as a cancellation, so it may wait longer than a loop's
/// messages.
pub(crate) const CLIENT_ROOM_INTERVAL: Duration = Duration::from_millis(1);

/// Interval at which the loop of a library that sleeps in a connection without a descriptor has the
/// loop of its host look, for which nothing calls it out of its sleep. Such mechanisms are asked
/// for by name, and rare in a service that others call meanwhile.
pub(crate) const GUEST_LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// Interval at which a loop that sleeps in one connection looks at those whose bell is a signal,
/// for which nothing calls it out of its sleep. Two such clients of one loop are rare, and slow
/// then.
pub(crate) const SIGNAL_LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// Connections that the threads of a client have before it opens a shared one beside them, for
/// threads that find no place, no descriptor or no share of the server left: at that time it could
/// not be opened any more. A sixteenth more connections for programs with so many threads.
pub(crate) const OWN_CONNECTIONS_ALONE_MAX: usize = 16;

/// Interval at which a thread that shares a connection asks for one of its own: thousands of such
/// threads ask a server that has no more some hundred times a second.
pub(crate) const OWN_CONNECTION_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Looks for a reply of a task that calls while its shared connection is locked: about a
/// microsecond, so that another task that calls meanwhile waits no longer than for a call that is
/// marshalled.
pub(crate) const ASYNC_LOOKS_PER_LOCK: u32 = 16;

/// Operations of tasks that a thread begins before one of them yields to the others of its
/// executor, as a call whose reply is found by looking never waits. Some 10 us of calls; a yield
/// costs a few hundredths of that.
pub(crate) const ASYNC_OPERATIONS_PER_YIELD: u32 = 32;

/// Messages that are received while a shared connection is locked: some 20 us, after which tasks
/// that call have their turn.
pub(crate) const ASYNC_MESSAGES_PER_TURN_MAX: usize = 64;

/// Looks at the lock of a shared connection before the driver sleeps for it, and before a task that
/// looks for its reply goes on although the driver wants the lock: some microseconds, longer than a
/// turn of the driver.
pub(crate) const ASYNC_LOCK_SPINS_MAX: u32 = 512;

/// Bytes of long messages that are received while a shared connection is locked: some 30 us, as for
/// its messages. One that is longer is received whole.
pub(crate) const ASYNC_BYTES_PER_TURN_MAX: usize = 256 * 1024;

/// First pause between two attempts of [`Client::hunt`](crate::Client::hunt) where no change of a
/// directory reports a server: one that starts takes milliseconds.
pub(crate) const HUNT_PAUSE_MIN: Duration = Duration::from_millis(1);

/// Longest pause between two attempts of [`Client::hunt`](crate::Client::hunt): twenty attempts a
/// second cost nothing.
pub(crate) const HUNT_PAUSE_MAX: Duration = Duration::from_millis(50);

/// Changes of a socket's file that end pauses between attempts early, before there is no change for
/// a [`HUNT_RETRY_TIME`]: a server that starts causes three, and others may cause any number.
pub(crate) const HUNT_CHANGES_MAX: u32 = 8;

/// The time after a change of a socket's file in which a client tries again by itself: a program
/// that does not touch its socket once it listens does so soon after it has made it.
pub(crate) const HUNT_RETRY_TIME: Duration = Duration::from_secs(1);

/// Longest wait of [`names`](crate::names) for the answer of one server, which takes a millisecond
/// or less unless a method blocks its loop.
pub(crate) const NAME_ANSWER_MAX: Duration = Duration::from_secs(1);

/// Servers that [`names`](crate::names) asks at once, each in a thread: one that does not answer
/// holds up a sixteenth of the others.
pub(crate) const NAMES_ASKED_AT_ONCE_MAX: usize = 16;

/// Lines of the log about refusals of one kind to one user in a [`REFUSAL_LINES_PERIOD`]: enough to
/// see what is attempted, and too few to fill a disk.
pub(crate) const REFUSAL_LINES_MAX: u32 = 5;

/// The time in which so many lines may be written.
pub(crate) const REFUSAL_LINES_PERIOD: Duration = Duration::from_secs(1);

/// Users whose refusals are counted apart, those of other machines as one: with all kinds they take
/// some 100 KiB.
pub(crate) const REFUSAL_USERS_MAX: usize = 64;

/// Asks of a server to move to another mechanism that a client follows within a minute: each costs
/// it a handshake, some hundreds of microseconds, so that a server cannot take more than a fraction
/// of its time so.
pub(crate) const ASKS_PER_MINUTE_MAX: u32 = 600;

/// Longest time that a call of a client without a loop takes on to follow an ask of its server,
/// which takes a millisecond: well below what people notice, if the server has other things to do.
pub(crate) const FOLLOWING_WAIT_MAX: Duration = Duration::from_millis(100);

/// Longest wait of a server for the clients that it has asked to move: they answer at once, or when
/// they next call.
pub(crate) const ASK_WAIT_MAX: Duration = Duration::from_secs(60);

/// The wait for these clients if the call gives none.
pub(crate) const ASK_WAIT_DEFAULT: Duration = Duration::from_secs(5);

/// Clients that are asked to move before the loop serves others again: some tens of microseconds.
pub(crate) const ASKS_PER_TURN_MAX: usize = 16;

/// Switches to another mechanism that one connection remembers, with the reasons: the last few, as
/// one asks why it is where it is. They take some 10 KiB at most.
pub(crate) const SWITCH_HISTORY_MAX: usize = 8;

/// Longest text about one switch, in bytes: some sentences.
pub(crate) const SWITCH_NOTE_BYTES_MAX: usize = 512;

/// Longest descriptor set that an interface is made of, in bytes: that of a large package with all
/// of its imports has some 100 KiB.
pub(crate) const DESCRIPTOR_SET_BYTES_MAX: usize = 1 << 20;

/// Most interfaces that a process makes of descriptor sets: they are never released, and a server
/// may have another one after each restart.
pub(crate) const DYNAMIC_INTERFACES_MAX: usize = 1024;

/// Most bytes of all of them.
pub(crate) const DYNAMIC_INTERFACES_BYTES_MAX: usize = 64 << 20;

/// The limits of one end of each connection. The smaller value of both ends applies.
///
/// A client takes them from [`ClientBuilder::limits`](crate::client::ClientBuilder::limits), a
/// server from [`Server::with_limits`](crate::Server::with_limits) or
/// [`ServerBuilder::limits`](crate::server::ServerBuilder::limits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest message with header and metadata, in bytes: 4 MiB, as gRPC has it. A longer one is
    /// refused with `RESOURCE_EXHAUSTED` before anything is allocated or copied.
    pub message_bytes_max: u32,
    /// Memory that decoding a message may take beyond the bytes of the message, in bytes: 32 MiB.
    /// A message that would take more is refused with `RESOURCE_EXHAUSTED` before it is decoded.
    ///
    /// A list of numbers of one byte each becomes eight times as long, so that every message of 4
    /// MiB with numbers fits; only very many empty or tiny messages and strings grow by more.
    /// Decoding so much takes some tens of milliseconds, in which the loop serves no other client.
    /// The allocator may reserve as much again for lists that grow: leave so much memory to the
    /// process, since one that gets none ends. Messages below 16 KiB are not judged, unless their
    /// calls go on after their turn: those are charged to the account of their user.
    pub decoded_bytes_max: u32,
    /// Longest metadata of a message, in bytes: 8 KiB, what servers take as headers by default.
    pub metadata_bytes_max: u16,
    /// Calls in flight in each direction of a connection: 256. Each costs about 120 bytes. The next
    /// one waits until one of them has ended, or fails with `RESOURCE_EXHAUSTED`
    /// ([`CallOptions::no_wait`](crate::CallOptions::no_wait)). A call that has ended does not
    /// count, though its result is not taken yet.
    pub calls_max: u16,
    /// Items that one direction of one stream may have sent and not consumed, in bytes with their
    /// headers: 4 MiB, the longest message by default and three items of 1 MiB. A longer item costs
    /// three quarters of this, so a receiver keeps at most this, or one message and a quarter of
    /// this; the sender waits until there is credit for its item. 0: no streams.
    pub stream_window_bytes: u32,
    /// Longest deadline that a server grants: 5 minutes, as long as proxies keep a request on which
    /// nothing moves. A call that asks for more gets this one.
    ///
    /// A call that asks for none has none, but for the waits of its method while they keep the
    /// method of another call waiting: on one loop a method that waits has others run inside its
    /// wait, and goes on when those have returned. These may wait no longer than this, and no
    /// longer than the deadline of any call that they keep waiting. So a call that waits in a loop
    /// for its method ends at its own deadline at the latest, whatever other clients ask for; one
    /// that must not be kept waiting until then is served by an async service or in a
    /// [`BlockingPool`](crate::service::BlockingPool), as gateways should be.
    pub deadline_max: Duration,
    /// Switches to another mechanism that one client may begin within a minute, each of which costs
    /// a handshake and new buffers: 600, ten a second, as often as any advice can change sensibly,
    /// and too few to keep a loop busy. More are refused; the connection goes on as it is. 0: a
    /// server says to its clients that its connections do not switch. Otherwise connections over
    /// `tcp://` within this machine move to `shm` by themselves, if the listener offers that.
    pub switches_per_minute_max: u32,
    /// Longest time that one part of a switch may take a client: until the new channel is open,
    /// until the client moves, and until it needs the channel before no more. 5 s, as a step of a
    /// handshake has. Then the server refuses the switch; once it cannot any more it drops what it
    /// holds for it, and ends a connection that still needs that. A client gives a server as long
    /// to open the new channel, where no program waits for it: a switch that the server has asked
    /// for, or a move from `tcp://` to `shm`.
    pub switch_timeout: Duration,
    /// Longest time in which a client may read nothing of the replies that it asked for while so
    /// much of them waits for room, 1 MiB, that the server reads no further request from it: 30 s,
    /// longer than a program that works is kept from running. Then it is cut off, with the reason.
    /// [`Duration::MAX`]: never.
    ///
    /// What waits is charged to the user of the client, so this bounds how long that memory is held
    /// for a client that has stopped. One that reads now and then is not cut off, however slow it
    /// is. Items of a stream that is not read do not count: their bound is
    /// [`stream_window_bytes`](Self::stream_window_bytes).
    pub unread_timeout: Duration,
    /// Room of a channel in each direction, in bytes: 256 KiB, half of a usual second-level cache.
    pub room_bytes: u32,
    /// Connections of one server: 4096, so that an idle one needs well below a gigabyte for them.
    /// More clients are refused.
    pub connections_max: usize,
    /// Connections of one user id to one server: 2048, half of all, so that one user cannot keep
    /// the others out.
    pub connections_per_uid_max: usize,
    /// Connections of one client that belong to threads, all of them together: 256. Each thread
    /// that calls has one to each address. With three descriptors each, as over `shm`, they leave a
    /// quarter of the usual limit of a process, 1024, to the rest of it. Further threads share one
    /// connection to each address, with the tasks of async callers. Of those there may be as many
    /// again, for as many addresses; the next one fails with `RESOURCE_EXHAUSTED`.
    pub client_connections_max: usize,
    /// Longest wait of `run_until_signal` for the calls under way, before it closes their
    /// connections: 5 s, half of the time after which container managers kill what does not end.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let (wire, channel) = (nearcall_wire::Limits::default(), Options::default());
        Self {
            message_bytes_max: wire.message_bytes_max,
            decoded_bytes_max: 32 << 20,
            metadata_bytes_max: wire.metadata_bytes_max,
            calls_max: wire.calls_in_max,
            stream_window_bytes: wire.stream_window_bytes,
            deadline_max: Duration::from_secs(300),
            switches_per_minute_max: wire.switches_per_minute_max,
            switch_timeout: Duration::from_secs(5),
            unread_timeout: Duration::from_secs(30),
            room_bytes: channel.buffer_bytes,
            connections_max: 4096,
            connections_per_uid_max: 2048,
            client_connections_max: 256,
            drain_timeout: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// Checks the limits of a server: those that have a largest value, and those without which no
    /// client could call.
    ///
    /// # Errors
    ///
    /// The text for people.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (own, max) = (self.message_bytes_max, MESSAGE_BYTES_MAX_CEILING);
        if own > max {
            return Err(format!(
                "the limit `message_bytes_max` is {own} bytes, above the largest that is \
                 supported, {max} bytes"
            ));
        }
        for (name, is_zero) in [
            ("message_bytes_max", own == 0),
            ("calls_max", self.calls_max == 0),
            ("deadline_max", self.deadline_max.is_zero()),
            ("connections_max", self.connections_max == 0),
            ("connections_per_uid_max", self.connections_per_uid_max == 0),
        ] {
            if is_zero {
                return Err(format!("the limit `{name}` is 0, so that no client could call"));
            }
        }
        if self.unread_timeout.is_zero() {
            return Err(
                "the limit `unread_timeout` is 0, so that each client would be cut off whose \
                        replies wait for room"
                    .to_owned(),
            );
        }
        let room = self.room_bytes;
        let (least, most) = (channel::BUFFER_BYTES_MIN, channel::BUFFER_BYTES_MAX);
        if !(least..=most).contains(&room) {
            return Err(format!(
                "the limit `room_bytes` is {room} bytes, and not between {least} and {most} bytes"
            ));
        }
        Ok(())
    }

    pub(crate) fn wire(&self) -> nearcall_wire::Limits {
        nearcall_wire::Limits {
            message_bytes_max: self.message_bytes_max,
            metadata_bytes_max: self.metadata_bytes_max,
            calls_in_max: self.calls_max,
            calls_out_max: self.calls_max,
            stream_window_bytes: self.stream_window_bytes,
            timeout_ns_max: u64::try_from(self.deadline_max.as_nanos()).unwrap_or(u64::MAX).max(1),
            references: false,
            switching: nearcall_wire::Switching::Never,
            switches_per_minute_max: self.switches_per_minute_max,
        }
    }

    pub(crate) fn channel(&self) -> Options {
        Options {
            message_bytes_max: self.message_bytes_max,
            buffer_bytes: self.room_bytes,
            ..Options::default()
        }
    }
}
