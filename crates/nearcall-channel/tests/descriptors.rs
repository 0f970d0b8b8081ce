//! How many descriptors an end holds open, counted by the kernel.
//!
//! A test program of its own, since other tests would open descriptors meanwhile.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::thread;

use nearcall_channel::{
    Address, Deadline, Endpoint, Listener, Mechanism, MechanismSet, Options, connect,
};

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Two ends of one connection: the client's and the server's.
fn ends(mechanism: Mechanism) -> (Endpoint, Endpoint) {
    let name = format!("unix:@nearcall-descriptors-{}", std::process::id());
    let address: Address = name.parse().unwrap();
    let listener = Listener::bind(&address).unwrap();
    let client = thread::spawn(move || {
        connect(&address, mechanism, &Options::offering(MechanismSet::ALL)).unwrap()
    });
    let server = listener.accept(Deadline::NEVER, &Options::offering(MechanismSet::ALL)).unwrap();
    (client.join().unwrap(), server)
}

#[test]
fn an_endpoint_holds_as_many_descriptors_as_it_says() {
    let mut wrong = Vec::new();
    for mechanism in Mechanism::all().filter(|mechanism| mechanism.supported().is_ok()) {
        // What the process opens once is not the connection's.
        drop(ends(mechanism));
        let none = open_descriptors();
        for of_server in [false, true] {
            let (client, server) = ends(mechanism);
            let (kept, dropped) = if of_server { (server, client) } else { (client, server) };
            drop(dropped);
            let counted = open_descriptors() - none;
            if counted != kept.descriptors() {
                let end = if of_server { "server" } else { "client" };
                wrong.push((mechanism.name(), end, counted, kept.descriptors()));
            }
        }
    }
    assert!(wrong.is_empty(), "(mechanism, end, counted, claimed): {wrong:#?}");
}
