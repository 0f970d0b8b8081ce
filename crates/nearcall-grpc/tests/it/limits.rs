//! Bounds, and the end of a gateway.

use std::sync::atomic::Ordering;
use std::time::Duration;

use nearcall_grpc::GatewayLimits;
use nearcall_testkit::echo::{Span, Words};
use nearcall_testkit::streams::Plan;
use tonic::transport::Endpoint;
use tonic::{Code, Request};

use crate::stage::*;

/// Memory of this process, in bytes.
fn memory() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() << 12
}

#[timed]
fn streams_that_nobody_reads_keep_little() {
    let stage = Stage::with(|gateway| {
        let limits =
            GatewayLimits { streams_per_connection_max: 1_000, ..GatewayLimits::default() };
        gateway.limits(limits)
    });
    let before = memory();
    let open: Vec<_> = (0..1_000)
        .map(|_| {
            let mut client = stage.client();
            stage.runtime.spawn(async move {
                let plan = Plan { items: u64::MAX, bytes: 1_000, code: 0 };
                let path = "/streams.v1.Streams/Count";
                let replies = reply_stream::<_, Item>(&mut client, path, Request::new(plan)).await;
                std::future::pending::<()>().await;
                drop(replies);
            })
        })
        .collect();
    let sent = || stage.seen.sent.load(Ordering::Relaxed);
    stage.wait_until("the streams to stand still", || {
        let before = sent();
        nearcall_os::clock::pause(Duration::from_millis(500));
        sent() == before && before > 0
    });
    let grown = memory().saturating_sub(before);
    // Both ends of each are in this process.
    assert!(grown < 512 << 20, "{} items: {grown} bytes", sent());
    open.iter().for_each(|task| task.abort());
    stage.wait_until("the ends", || stage.gateway.counters().calls == 0);
}

#[timed]
fn calls_and_connections_have_limits() {
    let limits = GatewayLimits { calls_max: 2, connections_max: 1, ..GatewayLimits::default() };
    let stage = Stage::with(|gateway| gateway.limits(limits));
    let work = |client: &mut tonic::client::Grpc<tonic::transport::Channel>| {
        let mut client = client.clone();
        stage.runtime.spawn(async move {
            unary::<_, Words>(&mut client, "/echo.v1.Echo/Work", Request::new(Span { ms: 0 })).await
        })
    };
    let mut client = stage.client();
    let working = [work(&mut client), work(&mut client)];
    stage.wait_until("both", || stage.seen.begun.load(Ordering::Relaxed) == 2);
    let status = stage.runtime.block_on(work(&mut client)).unwrap().unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let place = format!("http://{}", stage.place());
    let second = stage.runtime.block_on(async {
        let channel = Endpoint::from_shared(place).unwrap().connect().await?;
        let mut client = tonic::client::Grpc::new(channel);
        client.ready().await.map(|()| client)
    });
    let refused = second.map(|mut client| {
        let request = Request::new(item(1, 1));
        stage.runtime.block_on(unary::<_, Item>(&mut client, "/streams.v1.Streams/Say", request))
    });
    assert!(refused.is_err() || refused.unwrap().is_err());
    let counters = stage.gateway.counters();
    assert_eq!((counters.calls, counters.connections, counters.calls_refused), (2, 1, 1));
    assert!(counters.connections_refused >= 1);
    working.iter().for_each(|task| task.abort());
    stage.wait_until("the ends", || stage.gateway.counters().calls == 0);
}

#[timed]
fn calls_under_way_end_before_the_gateway() {
    let stage = Stage::new();
    let mut client = stage.client();
    let plan = Plan { items: 2_000, bytes: 1_000, code: 0 };
    let path = "/streams.v1.Streams/Count";
    let mut replies = stage
        .runtime
        .block_on(reply_stream::<_, Item>(&mut client, path, Request::new(plan)))
        .unwrap();
    assert!(stage.runtime.block_on(replies.message()).unwrap().is_some());
    let place = stage.place();
    let gateway = stage.gateway;
    let draining = std::thread::spawn(move || gateway.drain(Duration::from_secs(60)));
    wait_until("no more connections", || std::net::TcpStream::connect(place).is_err());
    let mut more = 1;
    while stage.runtime.block_on(replies.message()).unwrap().is_some() {
        more += 1;
    }
    assert_eq!(more, 2_000);
    assert!(draining.join().unwrap());
}

#[timed]
fn calls_that_do_not_end_are_cut_off() {
    let stage = Stage::new();
    let mut client = stage.client();
    let call = stage.runtime.spawn(async move {
        unary::<_, Words>(&mut client, "/echo.v1.Echo/Work", Request::new(Span { ms: 0 })).await
    });
    wait_until("the call", || stage.seen.begun.load(Ordering::Relaxed) == 1);
    assert!(!stage.gateway.drain(Duration::from_millis(50)));
    let status = stage.runtime.block_on(call).unwrap().unwrap_err();
    assert!(
        matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled),
        "{status}"
    );
    wait_until("the end", || stage.seen.dropped.load(Ordering::Relaxed) == 1);
}
