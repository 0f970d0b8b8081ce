//! Each example without arguments succeeds, and ends with its documented line.

use crate::program::run;

#[track_caller]
fn check(example: &str, stdin: &str, last_line: &str) {
    let ended = run(example, &[], stdin);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(ended.last_line(), last_line, "{ended:?}");
}

#[test]
fn thermostat_sets_a_room() {
    check("thermostat", "", "the room was to have 18 °C, now 21.5 °C");
}

#[test]
fn in_process_stays_in_its_thread() {
    check("in_process", "", "3 calls did not leave the thread");
}

#[test]
fn both_ways_does_not_deadlock() {
    check("both_ways", "", "A: warm after 4 calls back");
}

#[test]
fn own_descriptors_serves_stdin_and_timer() {
    check(
        "own_descriptors",
        "warm\n19\n21\n",
        "read 3 times; stdin, timer and server had their turn",
    );
}

#[test]
fn one_way_loses_nothing() {
    check("one_way", "", "sent 10000, counted 10000");
}

#[test]
fn deadline_and_cancel_reach_the_service() {
    let last = "the kettle knows of 2 calls that were given up";
    check("deadline_and_cancel", "", last);
}

#[test]
fn tokio_host_awaits_calls() {
    check("tokio_host", "", "awaited 100 calls, the last one found 98 °C");
}

#[test]
fn threads_share_a_caller() {
    check("threads", "", "8 threads counted 8000 litres");
}

#[test]
fn tokio_client_awaits_calls() {
    check("tokio_client", "", "the last call returned 20.5");
}

#[test]
fn tokio_server_waits_in_tokio() {
    check("tokio_server", "", "20 calls that wait in tokio are done, the sum is 190");
}

#[test]
fn streams_arrive_whole() {
    check("streams", "", "stored 64 parts of 4194304 bytes together");
}

#[test]
fn blocking_handler_holds_nobody_up() {
    check("blocking_handler", "", "the meter was read meanwhile: yes");
}

#[test]
fn interceptor_refuses_and_counts() {
    check("interceptor", "", "served 1, refused 1");
}
