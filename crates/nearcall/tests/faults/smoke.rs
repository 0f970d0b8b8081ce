//! What the other tests rest on: the oracle sees a leak, the server answers and dies with its test,
//! and the good client counts.

use crate::support::Holdings;
use crate::support::hostile::{greeted, raw_line};
use crate::support::prelude::*;

#[timed]
fn the_oracle_sees_what_is_left_behind() {
    let mut server = ServerProcess::start();
    server.warm_up(&["", "?via=unix-stream"]);
    let oracle = server.leak_oracle();
    let endpoint = greeted(&server.address, Mechanism::Shm);
    server.wait_for_connections(1);
    let now = Holdings::of(server.pid()).unwrap();
    assert!(now.descriptor_count() > oracle.holdings().descriptor_count(), "{now:?}");
    assert!(now.mapping_count() > oracle.holdings().mapping_count(), "{now:?}");
    drop(endpoint);
    oracle.check(&[]);
    server.finish();
}

#[timed]
fn a_silent_connection_is_no_connected_client() {
    let mut server = ServerProcess::start();
    let line = raw_line(&server.address, Mechanism::Shm);
    assert_eq!(server.state().connections, 0);
    drop(line);
    server.finish();
}

#[timed]
fn the_good_client_of_either_user_measures() {
    let server = ServerProcess::start();
    for user in [Some(User::Same), User::another()] {
        let Some(user) = user else {
            skip("the good client of another user", "only root can become another user");
            continue;
        };
        let mut good = GoodClient::start(&server.address, user);
        let latencies = good.measure(Duration::from_millis(50));
        assert!(latencies.calls > 0 && latencies.p50 <= latencies.p99, "{latencies:?}");
        assert!(latencies.p99 <= latencies.max, "{latencies:?}");
        good.finish();
    }
    server.finish();
}
