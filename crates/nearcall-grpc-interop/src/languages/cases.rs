//! What every client must get of every server: the one table of cases for all languages.
//!
//! A client is a program that reads a line, makes the calls that it names by the interface of its
//! language, and prints one line: `OK` and the results, or the name of the code and the text of the
//! status in hexadecimal, of the first call that has failed. Sizes are those of payloads, which
//! consist of zeros; each client checks that. It may print `SKIPPED` where its language cannot do
//! something yet, and answers an empty line and any other that it does not know with
//! `INVALID_ARGUMENT`. The lines:
//!
//! - `empty`: `EmptyCall`.
//! - `unary REQUEST REPLY`: `UnaryCall` with these sizes; results in that of the reply.
//! - `unary-metadata TEXT HEX`, `duplex-metadata TEXT HEX`: `UnaryCall` and `FullDuplexCall` with
//!   the two keys that are echoed; result in what came in the headers, and in the trailers.
//! - `unary-status CODE HEX`, `duplex-status CODE HEX`: the same, to end with this code and text.
//! - `cacheable SIZE`: `CacheableUnaryCall`; results in the size, and `cache-control` of the
//!   trailers in hexadecimal.
//! - `input SIZE..`: `StreamingInputCall`; results in the sum.
//! - `output MICROSECONDS SIZE..`: `StreamingOutputCall` with this interval; results in the sizes.
//! - `ping-pong REQUEST:REPLY..`: `FullDuplexCall`, an item after the reply to the one before;
//!   results in the sizes, as the next one does.
//! - `half-duplex REQUEST:REPLY..`: `HalfDuplexCall`.
//! - `duplex-deadline MILLISECONDS`: `FullDuplexCall` with this deadline, and an item that asks for
//!   no reply.
//! - `unimplemented-method`, `unimplemented-service`: what no server implements.
//! - `cancel-after-begin`, `cancel-after-first`: `StreamingInputCall`, and `FullDuplexCall` after
//!   its first reply, are cancelled.
//! - `soak CALLS REQUEST REPLY`, `reconnect-soak CALLS REQUEST REPLY`: `unary` by one client, and
//!   by a new one for each call; result in the number.
//! - `note TEXT`: `Leave`, one-way. `keep TEXT`: `Keep`. `notes`: `Count`. The last two result in
//!   the number of notes.
//! - `time CALLS SIZE`: `EmptyCall`, or, if the size is not 0, `UnaryCall` with it both ways;
//!   results in nanoseconds of a call.
//! - `sleep MILLISECONDS DEADLINE`: `Sleep` with a deadline in milliseconds.
//! - `hunt MILLISECONDS`: waits for a server. `attach`: watches over it.
//! - `notice MILLISECONDS`: waits for the end of that server; results in the cause: `exited`,
//!   `killed`, `closed`, `replaced`, `unresponsive` or `lost`.
//! - `switch MECHANISM`: moves the connection.
//! - `switching MECHANISM..`: `FullDuplexCall` that moves the connection after each reply; results
//!   in the sizes.
//!
//! **Not here:** how the steps are run (`cell.rs`).

use self::Answer::{Fails, Is};
use self::Step::{
    Ask, Await, Begin, KillClient, KillServer, Pause, StartClient, StartServer, StopServer, Until,
};
use super::hex;

/// What a client has to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// This line.
    Is(String),
    /// A status with this code, and any text.
    Fails(&'static str),
}

/// What happens next. In a line, `{via}` stands for the mechanism of the column, and `{killed}` for
/// the cause that a client can know of a server that was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The client gets a line, and answers.
    Ask(String, Answer),
    /// As `Ask`, again and again until it answers so.
    Until(String, Answer),
    /// The client gets a line. It answers later.
    Begin(String),
    /// It answers.
    Await(Answer),
    /// What was begun arrives.
    Pause,
    /// By SIGKILL.
    KillServer,
    /// Its input ends: it lets calls under way end, and exits with 0.
    StopServer,
    /// At the same address as before.
    StartServer,
    /// By SIGKILL.
    KillClient,
    StartClient,
}

/// A case, which begins and ends with a client and a server that run.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    /// Whether it needs a mechanism of this machine.
    pub(super) is_local: bool,
    pub(super) steps: Vec<Step>,
}

const TEXT: &str = "test status message";
const SPECIAL_TEXT: &str = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n";
const CODES: [&str; 16] = [
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// All cases, in the order in which they are run.
pub(super) fn all() -> Vec<Case> {
    let mut cases = of_grpc();
    cases.extend(of_nearcall());
    cases.extend(of_ends());
    cases
}

/// Those that the descriptions of gRPC's interoperability tests have.
fn of_grpc() -> Vec<Case> {
    let replies = "OK 31415 9 2653 58979";
    vec![
        case("empty_unary", [ask("empty", "OK")]),
        case("large_unary", [ask("unary 271828 314159", "OK 314159")]),
        case(
            "cacheable_unary",
            [ask("cacheable 27", &format!("OK 27 {}", hex(b"max-age=60, public")))],
        ),
        case("client_streaming", [ask("input 27182 8 1828 45904", "OK 74922")]),
        case("server_streaming", [ask("output 0 31415 9 2653 58979", replies)]),
        case("slow_server_streaming", [ask("output 2000 1 2 3 4", "OK 1 2 3 4")]),
        case("ping_pong", [ask("ping-pong 27182:31415 8:9 1828:2653 45904:58979", replies)]),
        case("half_duplex", [ask("half-duplex 27182:31415 8:9 1828:2653 45904:58979", replies)]),
        case("empty_stream", [ask("ping-pong", "OK"), ask("output 0", "OK"), ask("input", "OK 0")]),
        case(
            "custom_metadata",
            ["unary-metadata", "duplex-metadata"].map(|call| {
                let values = "test_initial_metadata_value 0a0b0a0b0a0b";
                ask(&format!("{call} {values}"), &format!("OK {values}"))
            }),
        ),
        case(
            "status_code_and_message",
            [status("unary", 2, TEXT), status("duplex", 2, TEXT), ask("empty", "OK")],
        ),
        case(
            "special_status_message",
            [status("unary", 2, SPECIAL_TEXT), status("duplex", 2, SPECIAL_TEXT)],
        ),
        case("every_code", (1..=CODES.len()).map(|code| status("unary", code, TEXT))),
        case("unimplemented_method", [fails("unimplemented-method", "UNIMPLEMENTED")]),
        case("unimplemented_service", [fails("unimplemented-service", "UNIMPLEMENTED")]),
        case("cancel_after_begin", [ask("cancel-after-begin", "OK"), ask("empty", "OK")]),
        case("cancel_after_first_response", [ask("cancel-after-first", "OK"), ask("empty", "OK")]),
        case(
            "timeout_on_sleeping_server",
            [ask("empty", "OK"), fails("duplex-deadline 1", "DEADLINE_EXCEEDED")],
        ),
        case("rpc_soak", [ask("soak 10 271828 314159", "OK 10")]),
        case("channel_soak", [ask("reconnect-soak 10 271828 314159", "OK 10")]),
    ]
}

/// What nearcall has beside calls, while both ends live.
fn of_nearcall() -> Vec<Case> {
    let notes = ["note first", "note second", "note third"].map(|line| ask(line, "OK"));
    vec![
        case(
            "one_way",
            notes
                .into_iter()
                .chain([Until("notes".into(), Is("OK 3".into())), ask("keep fourth", "OK 4")]),
        ),
        case(
            "no_such_command",
            [
                fails("", "INVALID_ARGUMENT"),
                fails("unary 1", "INVALID_ARGUMENT"),
                fails("nothing", "INVALID_ARGUMENT"),
                ask("empty", "OK"),
            ],
        ),
        case(
            "deadline",
            [ask("sleep 1 60000", "OK"), fails("sleep 60000 20", "DEADLINE_EXCEEDED")],
        ),
        case("hunt", [ask("hunt 60000", "OK"), ask("empty", "OK")]),
        case("attach", [ask("attach", "OK"), fails("notice 20", "DEADLINE_EXCEEDED")]),
        case(
            "message_limit",
            ["unary 5000000 1", "unary 1 5000000", "input 1 5000000", "output 0 1 5000000"]
                .map(|line| fails(line, "RESOURCE_EXHAUSTED"))
                .into_iter()
                .chain([ask("empty", "OK")]),
        ),
        local("switch", {
            let mechanisms = ["unix-seqpacket", "unix-stream", "shm", "{via}"];
            mechanisms.into_iter().flat_map(|mechanism| {
                [ask(&format!("switch {mechanism}"), "OK"), ask("unary 271828 9", "OK 9")]
            })
        }),
        local(
            "switch_during_a_stream",
            [
                ask("switching unix-stream shm unix-seqpacket {via}", "OK 9 9 9 9 9"),
                ask("empty", "OK"),
            ],
        ),
        local(
            "switch_to_nothing",
            [fails("switch carrier-pigeon", "INVALID_ARGUMENT"), ask("empty", "OK")],
        ),
    ]
}

/// How one end goes, and what the other one sees.
fn of_ends() -> Vec<Case> {
    let comes_back =
        || [Begin("hunt 60000".into()), StartServer, Await(Is("OK".into())), ask("empty", "OK")];
    let long_call = Begin("sleep 600000 600000".into());
    let long_stream = Begin(format!("output 100000{}", " 1".repeat(1000)));
    let unavailable = || Await(Fails("UNAVAILABLE"));
    vec![
        case(
            "client_killed",
            [long_call.clone(), Pause, KillClient, StartClient, ask("empty", "OK")],
        ),
        case(
            "server_drains",
            [
                ask("attach", "OK"),
                Begin("sleep 600 60000".into()),
                Pause,
                StopServer,
                Await(Is("OK".into())),
                ask("notice 60000", "OK closed"),
                fails("empty", "UNAVAILABLE"),
            ]
            .into_iter()
            .chain(comes_back()),
        ),
        case(
            "server_killed_in_a_call",
            [
                ask("attach", "OK"),
                long_call,
                Pause,
                KillServer,
                unavailable(),
                ask("notice 60000", "OK {killed}"),
                fails("empty", "UNAVAILABLE"),
            ]
            .into_iter()
            .chain(comes_back()),
        ),
        case(
            "server_killed_in_a_stream",
            [long_stream, Pause, KillServer, unavailable()].into_iter().chain(comes_back()),
        ),
    ]
}

fn case(name: &'static str, steps: impl IntoIterator<Item = Step>) -> Case {
    Case { name, is_local: false, steps: steps.into_iter().collect() }
}

fn local(name: &'static str, steps: impl IntoIterator<Item = Step>) -> Case {
    Case { is_local: true, ..case(name, steps) }
}

fn ask(line: &str, answer: &str) -> Step {
    Ask(line.to_owned(), Is(answer.to_owned()))
}

fn fails(line: &str, code: &'static str) -> Step {
    Ask(line.to_owned(), Fails(code))
}

/// The service ends a call with a code and a text, which the client gets as they are.
fn status(call: &str, code: usize, text: &str) -> Step {
    let text = hex(text.as_bytes());
    let line = format!("{call}-status {code} {text}");
    Ask(line, Is(format!("{} {text}", CODES[code - 1])))
}
