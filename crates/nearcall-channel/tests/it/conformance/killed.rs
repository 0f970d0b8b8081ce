//! The other end is killed by SIGKILL: the survivor learns of it, soon, wherever it happened.

use super::closing::{expect_gone, let_it_sleep, send_until_gone};
use super::sizes::expect_message;
use crate::support::prelude::*;

const LONG: usize = 400_000;

fn small(play: &Play) -> Options {
    Options { buffer_bytes: 4 << 10, ..play.options() }
}

/// Receives the three messages that the other end sent before its death, or as many of them as
/// the mechanism still has.
fn expect_the_last_three(endpoint: &mut Endpoint, play: &Play) {
    if play.mechanism.capabilities().delivers_after_death {
        for number in 0..3 {
            expect_message(endpoint, number, 100, Deadline::NEVER);
        }
        return;
    }
    let mut bytes = [0; 100];
    let mut arrived = 0;
    while endpoint.receive_into(&mut bytes, Deadline::NEVER).is_ok() {
        expect_pattern(&bytes, arrived, 100);
        arrived += 1;
    }
    assert!(arrived <= 3, "{arrived} of 3 messages");
    // Its messages lay in its own memory, which went with it.
    assert!(arrived == 0 || play.mechanism != Mechanism::Cma, "{arrived} messages of a dead end");
}

pub(super) fn killed_while_idle(play: &mut Play) {
    let mut endpoint = play.meet();
    if !play.is_first() {
        for number in 0..3 {
            endpoint.send(&pattern(number, 100), Deadline::NEVER).unwrap();
        }
        play.die();
    }
    let death = play.hear_of_death();
    play.wait_for_death();
    expect_the_last_three(&mut endpoint, play);
    expect_gone(&mut endpoint);
    death.now("death while idle", play);
}

/// Some kernel objects tell of what the dead end left unread before they give what it sent.
pub(super) fn killed_with_messages_unread(play: &mut Play) {
    let mut endpoint = play.meet();
    if !play.is_first() {
        play.hear();
        for number in 0..3 {
            endpoint.send(&pattern(number, 100), Deadline::NEVER).unwrap();
        }
        play.die();
    }
    endpoint.send(&pattern(7, 100), Deadline::NEVER).unwrap();
    play.tell(0);
    let death = play.hear_of_death();
    play.wait_for_death();
    expect_the_last_three(&mut endpoint, play);
    expect_gone(&mut endpoint);
    death.now("death with messages unread", play);
}

pub(super) fn killed_while_we_receive(play: &mut Play) {
    let mut endpoint = play.meet();
    if !play.is_first() {
        let_it_sleep();
        play.die();
    }
    let gone = endpoint.receive(Deadline::NEVER).err();
    play.hear_of_death().now("death in receive", play);
    assert!(matches!(gone, Some(ReceiveError::PeerGone)), "{gone:?}");
    expect_gone(&mut endpoint);
}

pub(super) fn killed_while_we_send(play: &mut Play) {
    let mut endpoint = play.meet_with(&small(play));
    if !play.is_first() {
        let_it_sleep();
        play.die();
    }
    send_until_gone(&mut endpoint, &[5; 100]);
    play.hear_of_death().now("death in send", play);
    expect_gone(&mut endpoint);
}

pub(super) fn killed_while_sending(play: &mut Play) {
    let mut endpoint = play.meet_with(&small(play));
    if !play.is_first() {
        let mut claim = endpoint.claim(LONG, Deadline::NEVER).unwrap();
        claim.write(&pattern(0, LONG / 2)).unwrap();
        play.die();
    }
    let mut bytes = Vec::new();
    // A mechanism may hand a message out only once it is whole.
    let error = match endpoint.receive(Deadline::NEVER) {
        Ok(mut message) => {
            assert_eq!(message.len(), LONG);
            message.read_to_end(&mut bytes).unwrap_err()
        }
        Err(error) => error,
    };
    play.hear_of_death().now("death amid a message to us", play);
    assert!(matches!(error, ReceiveError::PeerGone), "{error:?}");
    expect_gone(&mut endpoint);
}

pub(super) fn killed_while_receiving(play: &mut Play) {
    let mut endpoint = play.meet_with(&small(play));
    if !play.is_first() {
        let mut message = endpoint.receive(Deadline::NEVER).unwrap();
        message.read(&mut vec![0; 50_000]).unwrap();
        play.die();
    }
    send_until_gone(&mut endpoint, &pattern(0, LONG));
    play.hear_of_death().now("death amid a message from us", play);
    expect_gone(&mut endpoint);
}

fn echo(endpoint: &mut Endpoint) -> Result<(), ReceiveError> {
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        endpoint.receive(Deadline::NEVER)?.read_to_end(&mut bytes)?;
        if endpoint.send(&bytes, Deadline::NEVER).is_err() {
            return Err(ReceiveError::PeerGone);
        }
    }
}

pub(super) fn killed_while_echoing(play: &mut Play) {
    let mut endpoint = play.meet();
    if !play.is_first() {
        let _ = echo(&mut endpoint);
        return;
    }
    let random = Duration::from_micros(fastrand::Rng::with_seed(play.seed).u64(0..10_000));
    let victim = play.victim();
    let killer = thread::spawn(move || {
        clock::pause(random);
        process::kill_pidfd(&victim).unwrap();
        clock::monotonic_ns()
    });
    // It may be killed before the first message.
    let begun = endpoint.send(&pattern(0, 60), Deadline::NEVER);
    let begun = begun.map_err(|error| match error {
        SendError::PeerGone => ReceiveError::PeerGone,
        error => panic!("{error:?}"),
    });
    let error = begun.and_then(|()| echo(&mut endpoint)).unwrap_err();
    let noticed_ns = clock::monotonic_ns();
    let took = Duration::from_nanos(noticed_ns.saturating_sub(killer.join().unwrap()));
    note(&format!("{} by {}: death in echo noticed after {took:?}", play.mechanism, play.wait));
    assert!(matches!(error, ReceiveError::PeerGone), "{error:?}");
    assert!(took < DEATH_NOTICED, "noticed only after {took:?}");
    expect_gone(&mut endpoint);
}
