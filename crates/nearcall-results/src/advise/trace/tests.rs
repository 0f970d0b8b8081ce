//! Traffic as its recording counts it, and the requirements of that.

use super::*;

/// What a client sent (above zero) and received (below) over connection 3, a second apart.
fn traffic(moved: &[i64]) -> Recording {
    let mut traffic = Traffic::default();
    for (second, bytes) in moved.iter().enumerate() {
        match bytes {
            0.. => traffic.sent(3, second as u64 * 1_000_000_000, bytes.unsigned_abs()),
            _ => traffic.received(3, bytes.unsigned_abs(), true),
        }
    }
    traffic.conclude(Vec::new()).unwrap()
}

#[test]
fn the_busiest_connection_stands_for_a_recording() {
    let mut counted = Traffic::default();
    for at in 0..5 {
        counted.sent(7, at * 2_500_000, 101);
        counted.received(7, 16, true);
        counted.sent(8, at, 1);
    }
    counted.sent(7, 10_000_000, 101);
    // A reply to something that was not recorded.
    counted.received(9, 1, true);
    let found = counted.conclude(vec!["one".into()]).unwrap();
    assert_eq!((found.connection, found.messages, found.answered), (7, 6, 5), "{found:?}");
    assert_eq!((found.message_bytes, found.reply_bytes), (101, Some(16)));
    assert_eq!(found.notes, ["one", "5 messages of other connections do not count"]);
    let range = |from_bytes, sent, received| SizeRange { from_bytes, sent, received };
    assert_eq!(found.sizes, [range(8, 0, 5), range(64, 6, 0)]);
    let text = summary(&found, Style::PLAIN);
    assert!(text.contains("6 messages in 0.010 s, 5 of them answered"), "{text}");
    assert_eq!(Traffic::default().conclude(Vec::new()), None);
}

#[test]
fn requirements_are_those_of_the_typical_message() {
    let with = |pattern, message_bytes, reply_bytes, rate_per_s| Requirements {
        pattern,
        message_bytes,
        reply_bytes,
        rate_per_s,
        ..Requirements::default()
    };
    let (calls, one_way) = (Pattern::Call, Pattern::OneWay);
    for (moved, expected) in [
        // The last one is not answered.
        (&[100, -30, 100, -30, 9_000][..], with(calls, 100, Some(30), Some(0.5))),
        (&[9, 700, 700, -1], with(one_way, 700, None, Some(1.0))),
        (&[0, -0, 0], with(one_way, 1, None, Some(1.0))),
        (&[99_999_999_999], with(one_way, MESSAGE_BYTES_MAX, None, None)),
    ] {
        let wanted = requirements(&traffic(moved), &Requirements::default());
        assert_eq!(wanted, expected, "{moved:?}");
        assert_eq!(wanted.check(), Ok(()), "{moved:?}");
    }
    for (given, expected) in [(76.344_854, 76.3), (12_345.6, 12_300.0), (1.0, 1.0), (1e12, 1e9)] {
        assert_eq!(rounded(given), expected);
    }
}

#[test]
fn what_the_typical_message_does_not_stand_for_is_told() {
    let moved = [[100, -30].repeat(60), vec![9_000; 40]].concat();
    let found = traffic(&moved);
    let told = not_typical(&found, &requirements(&found, &Requirements::default()));
    assert_eq!(
        told,
        [
            "Recorded traffic, judged by calls of 100 B with replies of 30 B.",
            "40 % of the messages are one-way messages and do not count.",
            "One message of a hundred has 9000 B or more; ask for those with --size 9000."
        ]
    );
}

#[test]
fn a_thousand_connections_are_told_apart_and_times_may_go_back() {
    let mut counted = Traffic::default();
    (0..1_100).for_each(|connection| counted.sent(connection, 0, 1));
    let found = counted.conclude(Vec::new()).unwrap();
    assert_eq!((found.messages, found.rate_per_s), (1, None));
    assert_eq!(found.notes, ["1099 messages of other connections do not count"]);
    let mut back = Traffic::default();
    back.sent(1, 5_000_000_000, 64);
    back.sent(1, 1_000_000_000, 64);
    assert_eq!(back.conclude(Vec::new()).unwrap().rate_per_s, Some(0.25));
}
