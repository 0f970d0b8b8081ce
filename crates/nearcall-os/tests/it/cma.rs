//! Cross-memory attach with a child that prints its address.

use std::io::Read;

use nearcall_os::cma::{self, Refusal};
use nearcall_os::pages::Pages;

use crate::partner;

#[test]
fn the_memory_of_a_child_is_read() {
    if partner::role().is_some() {
        return show_memory();
    }
    let name = "cma::the_memory_of_a_child_is_read";
    let mut child = partner::start(name, "show memory");
    let mut output = child.pipes().stdout.take().unwrap();
    partner::read_until(&mut output, "address ");
    let address = partner::read_until(&mut output, ".");
    let address: u64 = address.trim_end_matches('.').parse().unwrap();
    let pid = i32::try_from(child.pid()).unwrap();
    if let Err(reason) = cma::probe(pid, address) {
        assert!(matches!(reason, Refusal::Yama(_) | Refusal::Forbidden), "{reason}");
        return partner::send(&format!("skipped: {reason}\n"));
    }
    let mut bytes = vec![0; BYTES];
    cma::read(pid, address, &mut bytes).unwrap();
    assert!(bytes.iter().zip(pattern()).all(|(is, should)| *is == should));
    let refusal = Refusal::from(cma::read(pid, 8, &mut bytes).unwrap_err());
    assert!(matches!(refusal, Refusal::BadAddress), "{refusal}");
    let past_the_end = address + u64::try_from(BYTES).unwrap() - 1;
    assert!(cma::read(pid, u64::MAX - 1, &mut bytes).is_err() && past_the_end > address);
    child.kill().unwrap();
    let refusal = Refusal::from(cma::read(pid, address, &mut bytes).unwrap_err());
    assert!(matches!(refusal, Refusal::PeerGone), "{refusal}");
}

/// The number of a process that died may be another's by the time of the copy. Here it is this
/// process's, which is certain to be readable.
#[test]
fn r22_memory_of_a_process_with_a_number_that_was_reused_is_not_taken() {
    let mut pages = Pages::create(64).unwrap();
    pages.fill(7);
    let mut child = partner::start("no test of this name", "end");
    let pidfd = child.pidfd().try_clone_to_owned().unwrap();
    let own = nearcall_os::process::pid();
    child.kill().unwrap();
    let refused = cma::read_of(&pidfd, own, pages.address(), &mut [0; 8]).unwrap_err();
    assert!(matches!(Refusal::from(refused), Refusal::PeerGone));
}

#[test]
fn pages_are_whole_aligned_and_zero() {
    let mut pages = Pages::create(5000).unwrap();
    assert_eq!((pages.len() % 4096, pages.address() % 4096), (0, 0));
    assert!(pages.len() >= 5000 && pages.iter().all(|byte| *byte == 0));
    pages[4999] = 7;
    pages.prefault();
    assert_eq!(pages[4999], 7);
    pages.lock().unwrap();
    assert!(Pages::create(usize::MAX).is_err());
}

fn show_memory() {
    let mut pages = Pages::create(BYTES).unwrap();
    for (byte, value) in pages.iter_mut().zip(pattern()) {
        *byte = value;
    }
    partner::send(&format!("address {}.", pages.address()));
    // The parent kills this process, or closes its input by dying.
    let _ = std::io::stdin().read(&mut [0]);
}

fn pattern() -> impl Iterator<Item = u8> {
    (0..=250).cycle()
}

const BYTES: usize = 300_000;
