//! Calls over a connection beside a recording of others, and of itself.

use nearcall::control::{RecordRequest, ServerCaller};

use super::{compare, count, time_calls};
use crate::stage::in_time_of;
use crate::stage::prelude::*;

/// Time of one measurement, in milliseconds: `NEARCALL_RECORDING_MS`, 200 by default, 5,000 for the
/// figures.
fn measured() -> Duration {
    Duration::from_millis(count("NEARCALL_RECORDING_MS", 200) as u64)
}

/// Ends the other client.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A call every millisecond while another client calls every 100 µs, with and without a recording
/// of all connections, in rounds whose order alternates.
#[test]
fn calls_beside_a_recording() {
    let compared = in_time_of(Duration::from_secs(600), || {
        let served = Served::start();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            // Also when something fails: the scope waits for all threads.
            let _end = Ending(&is_over);
            scope.spawn(|| {
                let (busy, words) =
                    (served.echo(""), Words { data: vec![7; 200].into(), number: 1 });
                while !is_over.load(Ordering::Relaxed) {
                    busy.say(&words).unwrap();
                    clock::pause(Duration::from_micros(100));
                }
            });
            let echo = served.echo("");
            let calls = || {
                let end = clock::now() + measured();
                let is_done = || {
                    clock::pause(Duration::from_millis(1));
                    clock::now() >= end
                };
                time_calls(is_done, || drop(echo.say(&words(1)).unwrap()))
            };
            let beside = || {
                let (is_read, address) = (AtomicBool::new(false), served.address.as_str());
                thread::scope(|scope| {
                    let (begun, begins) = mpsc::channel();
                    let is_read = &is_read;
                    scope.spawn(move || {
                        let server = ServerCaller::new(&Client::new(), address).unwrap();
                        // Until the recording of the round before has ended.
                        let mut parts = loop {
                            let mut parts = server.record(&RecordRequest::default()).unwrap();
                            match parts.recv() {
                                Ok(_) => break parts,
                                Err(status) => assert_eq!(status.code(), Code::FailedPrecondition),
                            }
                        };
                        begun.send(()).unwrap();
                        while !is_read.load(Ordering::Relaxed) {
                            parts.recv().unwrap().unwrap();
                        }
                    });
                    begins.recv().unwrap();
                    let times = calls();
                    is_read.store(true, Ordering::Relaxed);
                    times
                })
            };
            compare(calls, beside)
        })
    });
    eprintln!("a call beside a recording: {compared}");
}
