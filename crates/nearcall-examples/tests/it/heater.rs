//! One service as a program and as a library.

use std::process::{self, Stdio};
use std::time::Duration;

use nearcall::Client;
use nearcall_os::library::{Library, LibraryFile};

use self::home::{Temperature, ThermostatCaller};
use crate::program::{command, run, spawn};

#[allow(dead_code, reason = "the service is in the example")]
mod home {
    nearcall::include_proto!("home.v1");
}

#[test]
fn the_program_serves_where_the_environment_says() {
    let address = format!("unix:@nearcall-it-heater-{}", process::id());
    let mut heater = command("heater", &["17.5"]);
    let _heater = spawn(heater.env("NEARCALL_LISTEN", &address).stdin(Stdio::null()));
    let client = Client::new();
    client.hunt(&address, Duration::from_secs(60)).unwrap();
    let heater = ThermostatCaller::new(&client, &address).unwrap();
    assert_eq!(heater.set_target(&Temperature { celsius: 21.0 }).unwrap().celsius, 17.5);
}

#[test]
fn a_program_that_cannot_make_its_service_says_why() {
    let ended = run("heater", &["warm"], "");
    assert_eq!((ended.code, &*ended.stderr), (Some(1), "error: heater: no number: `warm`\n"));
}

#[test]
fn the_library_has_the_same_service() {
    let path = command("libheater_library.so", &[]).get_program().to_owned();
    let library = Library::load(LibraryFile::open(path.as_ref()).unwrap()).unwrap();
    assert_eq!(library.name_and_version(), ("heater", env!("CARGO_PKG_VERSION")));
    let error = library.create("heater", &["warm".into()]).unwrap_err().to_string();
    assert!(error.contains("could not be created: no number: `warm`"), "{error}");
    let instance = library.create("heater", &["17.5".into()]).unwrap();
    let objects = instance.objects().unwrap();
    assert_eq!(objects[0].interface, "home.v1.Thermostat");
    assert!(objects[0].is_nonblocking);
}
