//! What peers send that is wrong, or too much.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use nearcall::prost::Message;
use nearcall_grpc::GatewayLimits;
use tonic::Code;

use crate::raw::{self, framed};
use crate::stage::*;

const SAY: &str = "/streams.v1.Streams/Say";

#[timed]
fn what_is_no_call_is_answered() {
    let stage = Stage::new();
    let say = framed(false, &item(1, 1).encode_to_vec());
    let twice = [say.clone(), say.clone()].concat();
    let timeout = |value: &'static str| vec![("grpc-timeout", value)];
    let kind = |value: &'static str| vec![("content-type", value)];
    let encoding = |value: &'static str| vec![("grpc-encoding", value)];
    let ok = (200, Some(Code::Ok));
    let grpc = |code| (200, Some(code));
    for (path, headers, body, (http, code)) in [
        (SAY, vec![], say.clone(), ok),
        (SAY, timeout("99999999H"), say.clone(), ok),
        (SAY, kind("application/grpc+proto"), say.clone(), ok),
        (SAY, kind("application/grpc;charset=x"), say.clone(), ok),
        (SAY, encoding("identity"), say.clone(), ok),
        (SAY, timeout("0S"), say.clone(), grpc(Code::DeadlineExceeded)),
        (SAY, timeout("-1S"), say.clone(), grpc(Code::Internal)),
        (SAY, timeout("123456789S"), say.clone(), grpc(Code::Internal)),
        (SAY, timeout(""), say.clone(), grpc(Code::Internal)),
        (SAY, kind("application/json"), say.clone(), (415, None)),
        (SAY, kind("application/grpcx"), say.clone(), (415, None)),
        (SAY, encoding("snappy"), say.clone(), grpc(Code::Unimplemented)),
        (SAY, encoding("gzip"), framed(true, b"no gzip"), grpc(Code::Internal)),
        (SAY, vec![], framed(true, b"no encoding"), grpc(Code::Internal)),
        (SAY, vec![], vec![9, 0, 0, 0, 0], grpc(Code::Internal)),
        (SAY, vec![], vec![], grpc(Code::Internal)),
        (SAY, vec![], say[..say.len() - 1].to_vec(), grpc(Code::Internal)),
        (SAY, vec![], twice, grpc(Code::Internal)),
        (SAY, vec![], vec![0, 0xff, 0xff, 0xff, 0xff], grpc(Code::ResourceExhausted)),
        ("/streams.v1.Streams/No", vec![], say.clone(), grpc(Code::Unimplemented)),
        ("/streams.v1.No/Say", vec![], say.clone(), grpc(Code::Unimplemented)),
        ("/nearcall.v1.Server/Describe", vec![], say.clone(), grpc(Code::Unimplemented)),
        ("/streams.v1.Streams", vec![], say.clone(), grpc(Code::Unimplemented)),
        ("/streams.v1.Streams/Say/", vec![], say.clone(), grpc(Code::Unimplemented)),
        ("//", vec![], say.clone(), grpc(Code::Unimplemented)),
        ("/grpc.health.v1.Health/No", vec![], say.clone(), grpc(Code::Unimplemented)),
    ] {
        let call = raw::call(stage.place(), path, &headers, body);
        let answer = stage.runtime.block_on(call).unwrap();
        let expected = (http, code.map(i32::from));
        assert_eq!((answer.http, answer.code), expected, "{path} {headers:?}: {answer:?}");
        let says_why = !answer.text.is_empty() || !answer.body.is_empty();
        assert!(says_why || path.starts_with("/grpc."), "{path} {headers:?}: {answer:?}");
        assert!(answer.headers.contains_key("content-type"), "{answer:?}");
    }
    stage.wait_until("the ends", || stage.gateway.counters().calls == 0);
}

#[timed]
fn long_messages_and_headers_are_refused() {
    let limits = GatewayLimits { message_bytes_max: 10_000, ..GatewayLimits::default() };
    let stage = Stage::with(|gateway| gateway.limits(limits));
    let say = |bytes: usize, padding: &str| {
        let body = framed(false, &item(1, bytes).encode_to_vec());
        let headers = [("padding", padding)];
        stage.runtime.block_on(raw::call(stage.place(), SAY, &headers, body))
    };
    assert_eq!(say(9_000, "").unwrap().code, Some(0));
    assert_eq!(say(11_000, "").unwrap().code, Some(8));
    assert_eq!(say(1, &"x".repeat(6_000)).unwrap().code, Some(0));
    // Above what the server takes as metadata, and then above what the gateway takes as headers.
    assert_eq!(say(1, &"x".repeat(10_000)).unwrap().code, Some(8));
    let refused = say(1, &"x".repeat(100_000));
    assert!(refused.as_ref().map_or(true, |it| it.http == 431), "{refused:?}");
}

#[timed]
fn a_message_is_decompressed_no_further_than_the_limit() {
    let stage = Stage::new();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut zstd = zstd::Encoder::new(Vec::new(), 1).unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..32 {
        gzip.write_all(&zeros).unwrap();
    }
    for _ in 0..1_024 {
        zstd.write_all(&zeros).unwrap();
    }
    for (encoding, bomb) in [("gzip", gzip.finish().unwrap()), ("zstd", zstd.finish().unwrap())] {
        assert!(bomb.len() < 1 << 20, "{encoding}: {}", bomb.len());
        let before = memory_peak();
        let headers = [("grpc-encoding", encoding)];
        let call = raw::call(stage.place(), SAY, &headers, framed(true, &bomb));
        let answer = stage.runtime.block_on(call).unwrap();
        assert_eq!(answer.code, Some(8), "{encoding}: {answer:?}");
        let grown = memory_peak() - before;
        assert!(grown < 200 << 20, "{encoding}: {grown}");
    }
}

/// The most memory that this process has had, in bytes.
fn memory_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Sends bytes, and returns what comes until the gateway closes.
fn talk(stage: &Stage, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(stage.place()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // A reset is an end as well.
    let ended = stream.read_to_end(&mut answer);
    assert!(ended.as_ref().err().is_none_or(|it| it.kind() != std::io::ErrorKind::WouldBlock));
    answer
}

#[timed]
fn http_1_is_told_what_this_is() {
    let stage = Stage::new();
    for request in [
        "GET / HTTP/1.1\r\nhost: here\r\n\r\n",
        "POST /streams.v1.Streams/Say HTTP/1.1\r\nhost: here\r\ncontent-length: 0\r\n\r\n",
    ] {
        let answer = String::from_utf8(talk(&stage, request.as_bytes())).unwrap();
        assert!(answer.starts_with("HTTP/1.1 505 "), "{answer}");
        assert!(answer.contains("it takes HTTP/2 only"), "{answer}");
    }
    let answer = talk(&stage, b"hello, is it me you are looking for?\r\n\r\n");
    assert!(answer.starts_with(b"HTTP/1.1 400 "), "{}", answer.escape_ascii());
}

#[timed]
fn upper_case_keys_end_their_stream_alone() {
    let stage = Stage::new();
    // Settings, and headers on stream 1: the static fields 3, 6, 4 and a literal `Room: attic`.
    let mut frames = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    let block = b"\x83\x86\x84\x00\x04Room\x05attic";
    frames.extend([0, 0, u8::try_from(block.len()).unwrap(), 1, 5, 0, 0, 0, 1]);
    frames.extend(block);
    // GOAWAY, so that the connection ends.
    frames.extend(b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0");
    let answer = talk(&stage, &frames);
    // RST_STREAM or GOAWAY with PROTOCOL_ERROR.
    let reset = b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x01";
    let is_reset = answer.windows(reset.len()).any(|it| it == reset);
    assert!(is_reset || answer.ends_with(b"\0\0\0\x01"), "{}", answer.escape_ascii());
    let say = raw::call(stage.place(), SAY, &[], framed(false, b""));
    assert_eq!(stage.runtime.block_on(say).unwrap().code, Some(0));
}

#[timed]
fn who_sends_nothing_is_cut_off() {
    let handshake_timeout = Duration::from_millis(300);
    let keepalive = Duration::from_millis(300);
    let limits = GatewayLimits {
        handshake_timeout,
        keepalive_interval: keepalive,
        keepalive_timeout: keepalive,
        ..GatewayLimits::default()
    };
    let stage = Stage::with(|gateway| gateway.limits(limits));
    for beginning in [
        &b""[..],
        b"PRI * HTTP",
        b"GET / HTTP/1.1\r\nhost",
        // Its settings do not come.
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    ] {
        let began = nearcall_os::clock::now();
        talk(&stage, beginning);
        let took = nearcall_os::clock::now() - began;
        assert!(took < Duration::from_secs(10), "{}: {took:?}", beginning.escape_ascii());
    }
    assert!(stage.gateway.counters().handshakes_failed >= 2);
}
