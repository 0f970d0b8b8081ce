//! Calls through a gateway: shapes, metadata, deadlines, ends.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use nearcall_grpc::Gateway;
use nearcall_testkit::echo::{Failure, Words};
use nearcall_testkit::streams::Plan;
use nearcall_testkit::support::unique_address;
use tonic::codec::CompressionEncoding::{Gzip, Zstd};
use tonic::{Code, Request};

use crate::raw;
use crate::stage::*;

#[timed]
fn every_shape_passes_with_and_without_compression() {
    let stage = Stage::new();
    stage.runtime.block_on(async {
        for encoding in [None, Some(Gzip), Some(Zstd)] {
            let mut client = stage.client();
            if let Some(encoding) = encoding {
                client = client.send_compressed(encoding).accept_compressed(encoding);
            }
            let asked = item(3, 100_000);
            let request = Request::new(asked.clone());
            let said = unary::<_, Item>(&mut client, "/streams.v1.Streams/Say", request);
            assert_eq!(said.await.unwrap().into_inner(), asked);
            let plan = Plan { items: 40, bytes: 10_000, code: 0 };
            let path = "/streams.v1.Streams/Count";
            let counted = reply_stream::<_, Item>(&mut client, path, Request::new(plan));
            let counted: Vec<_> = counted.await.unwrap().collect().await;
            assert_eq!(counted.len(), 40, "{encoding:?}");
            assert_eq!(counted[39].as_ref().unwrap().number, 39);
            let items = stream::iter((0..100).map(|number| item(number, 1_000)));
            let sum = request_stream(&mut client, items.clone()).await.unwrap();
            assert_eq!(sum.into_inner().number, 4_950);
            let echoed: Vec<_> = both_streams(&mut client, items).await.unwrap().collect().await;
            assert_eq!(echoed.len(), 100);
            assert_eq!(echoed[99].as_ref().unwrap(), &item(99, 1_000));
        }
    });
    let counters = stage.gateway.counters();
    assert_eq!(counters.ended_with(nearcall::Code::Ok), 12);
    assert_eq!((counters.calls, counters.connections), (0, 1));
    assert!(counters.bytes_in > 100_000 && counters.bytes_out > 100_000, "{counters:?}");
}

#[timed]
fn items_pass_one_by_one() {
    let stage = Stage::new();
    stage.runtime.block_on(async {
        let (send, receive) = tokio::sync::mpsc::channel::<Item>(1);
        let items = stream::unfold(receive, |mut it| async { Some((it.recv().await?, it)) });
        send.send(item(0, 5)).await.unwrap();
        let mut replies = both_streams(&mut stage.client(), items).await.unwrap();
        for number in 0..5 {
            assert_eq!(replies.message().await.unwrap(), Some(item(number, 5)));
            send.send(item(number + 1, 5)).await.unwrap();
        }
        drop(send);
        assert_eq!(replies.message().await.unwrap(), Some(item(5, 5)));
        assert_eq!(replies.message().await.unwrap(), None);
    });
}

#[timed]
fn a_one_way_method_is_answered_at_once() {
    let stage = Stage::new();
    stage.call::<_, ()>("/echo.v1.Echo/Note", Request::new(Words::default())).unwrap();
    stage.wait_until("the message", || stage.seen.noted.load(Ordering::Relaxed) == 1);
}

#[timed]
fn metadata_pass_both_ways() {
    let stage = Stage::new();
    let mut request = Request::new(item(1, 1));
    let sent = request.metadata_mut();
    sent.insert("room", "attic".parse().unwrap());
    sent.append("room", "cellar".parse().unwrap());
    sent.insert_bin("token-bin", tonic::metadata::MetadataValue::from_bytes(&[0, 255, 7]));
    sent.insert("nearcall-peer-address", "1.2.3.4".parse().unwrap());
    sent.insert("nearcall-peer-name", "boss".parse().unwrap());
    let answer = stage.call::<_, Item>("/streams.v1.Streams/Say", request).unwrap();
    let got = answer.metadata();
    let rooms: Vec<_> = got.get_all("seen-room").iter().collect();
    assert_eq!(rooms, ["attic", "cellar"]);
    let token = got.get_bin("seen-token-bin").unwrap();
    assert_eq!(token.to_bytes().unwrap()[..], [0, 255, 7]);
    let addresses: Vec<_> = got.get_all("seen-nearcall-peer-address").iter().collect();
    assert_eq!(addresses.len(), 1);
    assert!(addresses[0].to_str().unwrap().starts_with("127.0.0.1:"), "{addresses:?}");
    for key in ["seen-nearcall-peer-name", "seen-te", "seen-user-agent", "seen-content-type"] {
        assert!(got.get(key).is_none(), "{key}");
    }
    stage.runtime.block_on(async {
        let mut request = Request::new(Plan { items: 1, ..Plan::default() });
        request.metadata_mut().insert("room", "attic".parse().unwrap());
        let path = "/streams.v1.Streams/Count";
        let mut replies =
            reply_stream::<_, Item>(&mut stage.client(), path, request).await.unwrap();
        while replies.message().await.unwrap().is_some() {}
        let trailers = replies.trailers().await.unwrap().unwrap();
        assert_eq!(trailers.get("seen-room").unwrap(), "attic");
    });
}

#[timed]
fn a_status_passes_with_its_details() {
    let stage = Stage::new();
    for code in [Code::NotFound, Code::Aborted, Code::Unauthenticated] {
        let request = Failure { code: i32::from(code).unsigned_abs(), text: "kein Öl\n".into() };
        let status = stage.call::<_, ()>("/echo.v1.Echo/Fail", Request::new(request)).unwrap_err();
        assert_eq!((status.code(), status.message()), (code, "kein Öl\n"));
        assert_eq!(status.details(), b"\x08\x05\0\xff");
        assert_eq!(status.metadata().get("room").unwrap(), "attic");
    }
    stage.runtime.block_on(async {
        for items in [0, 3] {
            let plan = Plan { items, bytes: 1, code: 5 };
            let path = "/streams.v1.Streams/Count";
            let replies =
                reply_stream::<_, Item>(&mut stage.client(), path, Request::new(plan)).await;
            let end = match replies {
                Ok(replies) => replies.collect::<Vec<_>>().await.pop().unwrap().map(drop),
                Err(status) => Err(status),
            };
            let status = end.unwrap_err();
            assert_eq!((status.code(), status.message()), (Code::NotFound, "as planned"));
        }
    });
    assert_eq!(stage.gateway.counters().ended_with(nearcall::Code::NotFound), 3);
}

#[timed]
fn a_deadline_ends_the_call_at_both_ends() {
    let stage = Stage::new();
    for path in ["/echo.v1.Echo/Work", "/streams.v1.Streams/Count"] {
        // A plan of very many items.
        let body = raw::framed(false, &[8, 0xff, 0xff, 0xff, 0x7f, 16, 0x80, 0x80, 4]);
        // The client that the other tests use watches the time itself.
        let call = raw::call(stage.place(), path, &[("grpc-timeout", "50m")], body);
        let answer = stage.runtime.block_on(call).unwrap();
        assert_eq!(answer.code, Some(4), "{answer:?}");
    }
    stage.wait_until("the end", || stage.seen.dropped.load(Ordering::Relaxed) == 2);
    // The default of the method.
    let quick = stage.call::<_, Words>("/echo.v1.Echo/Quick", Request::new(Words::default()));
    assert_eq!(quick.unwrap_err().code(), Code::DeadlineExceeded);
}

#[timed]
fn a_call_that_its_peer_gives_up_is_cancelled() {
    let stage = Stage::new();
    let very_many: [u8; 9] = [8, 0xff, 0xff, 0xff, 0x7f, 16, 0x80, 0x80, 4];
    let mut ended = 0;
    for (path, message, is_open) in [
        ("/echo.v1.Echo/Work", &b""[..], false),
        ("/streams.v1.Streams/Count", &very_many, false),
        ("/streams.v1.Streams/Sum", b"\x08\x01", true),
        ("/streams.v1.Streams/Exchange", b"\x08\x01", true),
    ] {
        for reset in [Some(h2::Reason::CANCEL), Some(h2::Reason::NO_ERROR), None] {
            stage.runtime.block_on(async {
                let begun = raw::begin(stage.place(), path, &[]).await.unwrap();
                let (_answer, mut send, connection) = begun;
                send.send_data(raw::framed(false, message).into(), !is_open).unwrap();
                tokio::time::sleep(Duration::from_millis(200)).await;
                match reset {
                    Some(reason) => send.send_reset(reason),
                    None => drop(connection),
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            });
            ended += 1;
            stage.wait_until(path, || stage.seen.dropped.load(Ordering::Relaxed) == ended);
        }
    }
    stage.wait_until("the count", || {
        stage.gateway.counters().ended_with(nearcall::Code::Cancelled) == ended
    });
}

#[timed]
fn the_end_of_a_service_is_told_while_its_caller_waits_to_send() {
    let stage = Stage::new();
    stage.runtime.block_on(async {
        let items = stream::iter([item(REFUSED, 1)]).chain(stream::pending());
        let status = request_stream(&mut stage.client(), items).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::OutOfRange, "as sent"));
    });
}

#[timed]
fn a_server_may_come_and_go() {
    let stage = Stage::new();
    let say = || stage.call::<_, Item>("/streams.v1.Streams/Say", Request::new(item(1, 1)));
    say().unwrap();
    stage.server.stop().unwrap();
    let status = say().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let (_server, _) = serve(&stage.address);
    say().unwrap();
    let nobody = Gateway::builder().expose(&unique_address(), &["a.B"]).listen("localhost:0");
    let nobody = nobody.start().unwrap();
    let mut client = tonic::client::Grpc::new(stage.runtime.block_on(connect(&nobody)));
    let call = unary::<_, Item>(&mut client, "/a.B/C", Request::new(item(1, 1)));
    let status = stage.runtime.block_on(call).unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
}

#[timed]
fn servers_share_calls_in_turns() {
    let addresses = [unique_address(), unique_address()];
    let served = addresses.each_ref().map(|address| serve(address));
    let gateway = addresses
        .iter()
        .fold(Gateway::builder(), |gateway, address| gateway.expose(address, &[STREAMS.name]));
    let gateway = gateway.balance().listen("127.0.0.1:0").start().unwrap();
    let runtime = runtime();
    let mut client = tonic::client::Grpc::new(runtime.block_on(connect(&gateway)));
    let mut say = || {
        let request = Request::new(item(1, 1));
        runtime.block_on(unary::<_, Item>(&mut client, "/streams.v1.Streams/Say", request))
    };
    for _ in 0..6 {
        say().unwrap();
    }
    let begun = |at: usize| served[at].1.begun.load(Ordering::Relaxed);
    assert_eq!((begun(0), begun(1)), (3, 3));
    served[0].0.stop().unwrap();
    // A call that finds a connection ended may fail; then the other one has them all.
    let failed = (0..6).filter(|_| say().is_err()).count();
    assert!(failed <= 3, "{failed}");
}

#[timed]
fn what_cannot_be_exposed_is_refused() {
    let refuse = |gateway: nearcall_grpc::GatewayBuilder| gateway.start().unwrap_err().to_string();
    let gateway = || Gateway::builder();
    for (error, text) in [
        (refuse(gateway().expose("a", &["nearcall.v1.Server"])), "answers to such names"),
        (refuse(gateway().expose("a", &["grpc.health.v1.Health"])), "answers to such names"),
        (refuse(gateway().expose("a", &["x.Y"]).expose("b", &["x.Y"])), "by `balance`"),
        (refuse(gateway().expose("no address", &["x.Y"])), "no address"),
        (refuse(gateway().expose("a", &[""])), "has a name of"),
        (refuse(gateway().listen("0.0.0.0:0")), "say `insecure`"),
        (refuse(gateway().listen("nowhere")), "HOST:PORT"),
    ] {
        assert!(error.contains(text), "{error}");
    }
    let open = gateway().listen("0.0.0.0:0").listen("127.0.0.1:0").insecure().start().unwrap();
    assert_eq!(open.addresses().len(), 2);
    let away = gateway().expose(&unique_address(), &["x.Y"]).check().unwrap_err().to_string();
    assert!(away.contains("does not answer for x.Y"), "{away}");
}
