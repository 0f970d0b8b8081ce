//! Every corruption that a channel could commit is found.

use super::*;

const SIZES: [usize; 10] = [0, 1, 7, 8, 9, 63, 64, 65, 4_095, 65_537];

fn message(payload: &Payload, number: u64) -> Vec<u8> {
    let mut bytes = vec![0; payload.message_bytes()];
    payload.fill(number, 0, &mut bytes);
    bytes
}

fn judge(payload: &Payload, number: u64, bytes: &[u8]) -> Result<(), Corruption> {
    let mut verifier = Verifier::new(payload, number);
    verifier.piece(bytes);
    verifier.end()
}

#[test]
fn messages_of_odd_sizes_in_odd_pieces_pass() {
    for (seed, size) in (0..).zip(SIZES) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let payload = Payload::new(seed, size);
        let first = u64::MAX - 3;
        let mut verifier = Verifier::new(&payload, first);
        for step in 0..12 {
            let mut offset = 0;
            while offset < size {
                let mut piece = vec![0; rng.usize(1..=(size - offset).min(9_000))];
                payload.fill(first.wrapping_add(step), offset, &mut piece);
                verifier.piece(&piece);
                offset += piece.len();
            }
            assert_eq!(verifier.end(), Ok(()), "{size} bytes, step {step}");
        }
        assert_eq!(verifier.next(), 8);
    }
}

#[test]
fn the_expected_checksum_is_that_of_the_bytes() {
    for size in SIZES {
        let payload = Payload::new(5, size);
        for number in [0, 1, 6, 7, 255, 256, u64::MAX] {
            let mut sum = Checksum::new();
            sum.update(&message(&payload, number));
            assert_eq!(payload.expected(number), sum.finish(), "{size} bytes, {number}");
        }
    }
}

#[test]
fn every_changed_bit_of_a_small_message_is_found() {
    for size in SIZES.into_iter().filter(|&size| size < 100) {
        let payload = Payload::new(1, size);
        let good = message(&payload, 1_234_567);
        for bit in 0..size * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(judge(&payload, 1_234_567, &bad).is_err(), "{size} bytes, bit {bit}");
        }
    }
}

#[test]
fn every_other_value_of_a_byte_is_found() {
    let payload = Payload::new(1, 65);
    let good = message(&payload, 77);
    for at in 0..65 {
        for change in 1..=255 {
            let mut bad = good.clone();
            bad[at] ^= change;
            assert!(judge(&payload, 77, &bad).is_err(), "byte {at} changed by {change}");
        }
    }
}

#[test]
fn a_changed_byte_of_a_large_message_is_found() {
    let payload = Payload::new(2, 4_095);
    let good = message(&payload, 9);
    for at in 0..4_095 {
        let mut bad = good.clone();
        bad[at] = bad[at].wrapping_add(128);
        assert!(judge(&payload, 9, &bad).is_err(), "byte {at}");
    }
}

#[test]
fn a_lost_or_moved_byte_is_found() {
    let payload = Payload::new(3, 200);
    let good = message(&payload, 9);
    for at in 0..200 {
        let mut short = good.clone();
        short.remove(at);
        let length = Corruption::Length { number: 9, expected: 200, found: 199 };
        assert_eq!(judge(&payload, 9, &short), Err(length));
        short.push(0);
        assert_eq!(judge(&payload, 9, &short).is_err(), short != good, "lost byte {at}");
        let mut rotated = good.clone();
        rotated[at..].rotate_left(1);
        assert_eq!(judge(&payload, 9, &rotated).is_err(), rotated != good, "rotated from {at}");
    }
}

#[test]
fn a_lost_message_and_an_old_body_are_found() {
    let payload = Payload::new(4, 300);
    let found = judge(&payload, 5, &message(&payload, 6));
    assert_eq!(found, Err(Corruption::Number { number: 5, found: 6 }));
    let mut stale = message(&payload, 4);
    stale[..8].copy_from_slice(&5_u64.to_le_bytes());
    assert!(matches!(judge(&payload, 5, &stale), Err(Corruption::Checksum { number: 5, .. })));
}

#[test]
fn a_corrupt_message_does_not_disturb_the_next() {
    let payload = Payload::new(4, 100);
    let mut verifier = Verifier::new(&payload, 0);
    verifier.piece(&[0; 50]);
    assert!(verifier.end().is_err());
    verifier.piece(&message(&payload, 1));
    assert_eq!(verifier.end(), Ok(()));
    assert_ne!(verifier.digest(), 0);
}

#[test]
#[should_panic(expected = "a piece lies within its message")]
fn a_piece_beyond_the_message_panics() {
    Payload::new(0, 10).fill(0, 5, &mut [0; 6]);
}

#[test]
fn parts_are_the_bytes_that_filling_writes() {
    for size in SIZES {
        let payload = Payload::new(3, size);
        for number in [0, 1, 8, u64::MAX] {
            let mut parts = Vec::new();
            payload.parts(number, |part| parts.extend_from_slice(part));
            assert_eq!(parts, message(&payload, number), "size {size}, number {number}");
        }
    }
}

#[test]
fn of_a_header_only_its_bytes_are_written_and_judged() {
    for touch in [Touch::Header, Touch::None] {
        let touched = touch.bytes_of(4_095);
        let payload = Payload::touched(3, 4_095, touch);
        let mut bytes = vec![0xee; 4_095];
        // In odd pieces, the touched part in two of them.
        payload.fill(8, 0, &mut bytes[..40]);
        payload.fill(8, 40, &mut bytes[40..]);
        assert_eq!(bytes[touched..], vec![0xee; 4_095 - touched], "{touch}");
        assert_eq!(bytes[..touched], message(&Payload::new(3, 4_095), 8)[..touched]);
        assert_eq!(judge(&payload, 8, &bytes), Ok(()), "{touch}");
        let mut verifier = Verifier::new(&payload, 8);
        assert_eq!(verifier.needs_bytes(), Some(touched));
        verifier.piece(&bytes[..touched]);
        verifier.skip(4_095 - touched);
        assert_eq!((verifier.end(), verifier.next()), (Ok(()), 9));
        bytes[4_094] ^= 1;
        assert_eq!(judge(&payload, 8, &bytes), Ok(()), "the rest is not read");
        assert!(judge(&payload, 8, &bytes[..4_094]).is_err(), "the length is judged");
        bytes[12] ^= 1;
        assert_eq!(judge(&payload, 8, &bytes).is_err(), touch == Touch::Header);
        assert_eq!(judge(&payload, 9, &bytes).is_err(), touch == Touch::Header);
    }
}

#[test]
fn a_message_no_longer_than_a_header_is_touched_in_full() {
    let payload = Payload::touched(3, 64, Touch::Header);
    assert_eq!(Verifier::new(&payload, 0).needs_bytes(), None);
    assert_eq!(message(&payload, 5), message(&Payload::new(3, 64), 5));
    let word = Payload::touched(3, 8, Touch::None);
    assert_eq!((message(&word, 5), judge(&word, 5, &[9; 8])), (vec![0; 8], Ok(())));
}
