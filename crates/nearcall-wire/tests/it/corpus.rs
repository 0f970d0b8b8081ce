//! What is committed for the fuzz target `frame`, and steps from a seed.
//!
//! Not here: what the target tries (`src/fuzzing.rs`).

use std::fs;
use std::path::Path;

use nearcall_wire::{CallId, Frame, Payload, Status, Timeout, fuzzing};

#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn committed_frames_are_judged() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/frame");
    let files = fs::read_dir(corpus).unwrap();
    let tried = files.map(|file| fuzzing::frame(&fs::read(file.unwrap().path()).unwrap())).count();
    assert!(tried > 0, "no corpus for frame");
}

/// Not a fuzzer, but it runs everywhere, under Miri too.
#[test]
fn steps_from_a_seed_end_each_call_once() {
    for seed in 0..if cfg!(miri) { 4 } else { 3_000 } {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut steps = Vec::new();
        for _ in 0..60 {
            let choice = rng.u8(0..11);
            steps.push(choice);
            match choice {
                0 => steps.extend(any_frame(&mut rng).encode()),
                1 => {
                    let head = any_frame(&mut rng).encode();
                    let head_bytes = rng.u8(38..=40);
                    steps.extend(u32::from(head_bytes).to_le_bytes());
                    steps.push(head_bytes);
                    steps.extend(&head[..head_bytes.into()]);
                }
                3 | 8 => steps.extend(rng.u16(0..100).to_le_bytes()),
                _ => {}
            }
        }
        fuzzing::frame(&steps);
    }
}

/// Mostly one that is allowed, so that a run gets far.
fn any_frame(rng: &mut fastrand::Rng) -> Frame {
    let id = CallId::from_word(rng.u64(1..4) << 16 | rng.u64(0..3));
    let timeout = if rng.bool() { Timeout::NEVER } else { Timeout::from_ns(rng.u64(1..100)) };
    let payload = Payload { metadata_bytes: 0, body_bytes: rng.u32(0..100) };
    match rng.u8(0..12) {
        0..6 => Frame::Call { id, object: 7, method: 3, timeout, payload },
        6 => Frame::Oneway { object: 7, method: 3, timeout, payload },
        7 => Frame::Reply { id, payload },
        8 => Frame::Error { id, status: Status::Internal, payload },
        9 => Frame::Cancel { id },
        10 => Frame::Ping { number: 1 },
        _ => Frame::GoAway,
    }
}
