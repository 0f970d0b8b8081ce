//! Who serves an interface: any object that has it, one by its instance, or all.
//!
//! **Invariants:** only servers of this user are asked.
//! **Not here:** asking them (`names.rs`).

use std::time::Duration;

use crate::address::Address;
use crate::control::{DescribeRequest, Health};
use crate::limits::NAME_ANSWER_MAX;
use crate::names::{NameEntry, ask_all};
use crate::status::Status;

/// The objects with one interface, from [`find`].
#[derive(Debug, Clone)]
pub struct Found {
    interface: String,
    objects: Vec<FoundObject>,
    /// Names whose servers did not answer.
    silent: Vec<String>,
}

/// An object, where it is, and whether it can do its work.
///
/// Stands in a [`Found`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundObject {
    /// The address for its callers: `NAME` or `NAME#instance`.
    pub address: Address,
    /// Its health when its server was asked.
    pub health: Health,
}

/// Asks all servers of this user that listen by name which of their objects have an interface, such
/// as `home.v1.Thermostat`. Blocks for as long as [`names`](crate::observe::names).
///
/// It is asked once: ask again when a call fails with `UNAVAILABLE`.
///
/// # Errors
///
/// As [`names`](crate::observe::names). `INVALID_ARGUMENT`: the name is empty.
///
/// # Examples
///
/// ```no_run
/// # mod home {
/// #     include!(concat!(
/// #         env!("CARGO_MANIFEST_DIR"),
/// #         "/../nearcall-build/tests/golden/thermostat.rs"
/// #     ));
/// # }
/// # use home::*;
/// use nearcall::Client;
///
/// let client = Client::new();
/// let found = nearcall::client::find("home.v1.Thermostat")?;
///
/// // Any that serves: another one each time.
/// let thermostat = ThermostatCaller::new(&client, &found.any()?.to_string())?;
/// // The one with this instance.
/// let kitchen = ThermostatCaller::new(&client, &found.instance("kitchen")?.to_string())?;
/// // All.
/// for object in found.all() {
///     ThermostatCaller::new(&client, &object.address.to_string())?.reset(&())?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn find(interface: &str) -> Result<Found, Status> {
    find_within(interface, NAME_ANSWER_MAX)
}

/// Works like [`find`], and waits for each server for `timeout` at most.
///
/// # Errors
///
/// As [`find`].
pub fn find_within(interface: &str, timeout: Duration) -> Result<Found, Status> {
    if interface.is_empty() {
        return Err(Status::invalid_argument(
            "an interface has a name, such as `home.v1.Thermostat`",
        ));
    }
    let request = DescribeRequest { interface: interface.to_owned(), ..DescribeRequest::default() };
    Ok(Found::among(interface, ask_all(&request, timeout)?))
}

impl Found {
    fn among(interface: &str, entries: Vec<NameEntry>) -> Self {
        let (mut objects, mut silent) = (Vec::new(), Vec::new());
        for NameEntry { name, server, .. } in entries {
            let Ok(server) = server else {
                silent.push(name);
                continue;
            };
            for object in server.objects.iter().filter(|object| object.interface == interface) {
                let address = match object.instance.as_str() {
                    "" => name.parse(),
                    instance => format!("{name}#{instance}").parse(),
                };
                // An instance that no address can have is for callers of the same program.
                let Ok(address) = address else { continue };
                objects.push(FoundObject { address, health: object.health() });
            }
        }
        Self { interface: interface.to_owned(), objects, silent }
    }

    /// Returns all objects, sorted by address, also those that cannot do their work now.
    pub fn all(&self) -> &[FoundObject] {
        &self.objects
    }

    /// Returns the address of any object that serves: a random one.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE`: there is none, or none serves.
    pub fn any(&self) -> Result<&Address, Status> {
        let serve = self.objects.iter().filter(|object| object.health == Health::Serving);
        let serve: Vec<_> = serve.collect();
        match fastrand::choice(&serve) {
            Some(object) => Ok(&object.address),
            None if self.objects.is_empty() => Err(self.nothing("no server")),
            None => Err(Status::unavailable(format!(
                "none of the {} objects with {} serves now",
                self.objects.len(),
                self.interface
            ))),
        }
    }

    /// Returns the address of the object with this instance, whether it serves or not; with an
    /// empty one, of the object without an instance.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE`: there is none. `FAILED_PRECONDITION`: several servers have one, and which is
    /// for the caller to say, by the name.
    pub fn instance(&self, instance: &str) -> Result<&Address, Status> {
        let wanted = Some(instance).filter(|instance| !instance.is_empty());
        let having = |object: &&FoundObject| object.address.instance() == wanted;
        let having: Vec<_> = self.objects.iter().filter(having).collect();
        match having.as_slice() {
            [object] => Ok(&object.address),
            [] => Err(self.nothing(&match wanted {
                Some(instance) => format!("no instance `{}`", instance.escape_debug()),
                None => "no object without an instance".to_owned(),
            })),
            several => {
                let several: Vec<_> = several.iter().map(|it| it.address.to_string()).collect();
                Err(Status::failed_precondition(format!(
                    "several servers have this object with {}: use one of the addresses {}",
                    self.interface,
                    several.join(", ")
                )))
            }
        }
    }

    fn nothing(&self, what: &str) -> Status {
        let mut text = format!("{what} of this user serves {} by name", self.interface);
        if !self.silent.is_empty() {
            text.push_str(&format!("; no answer from {}", self.silent.join(", ")));
        }
        Status::unavailable(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{DescribeReply, Object};
    use crate::names::NameProblem;
    use crate::status::Code;

    fn entry(name: &str, objects: &[(&str, &str, Health)]) -> NameEntry {
        let objects = objects.iter().map(|(interface, instance, health)| Object {
            name: String::new(),
            interface: (*interface).to_owned(),
            instance: (*instance).to_owned(),
            health: (*health).into(),
        });
        let server = DescribeReply { objects: objects.collect(), ..DescribeReply::default() };
        NameEntry { name: name.to_owned(), server: Ok(server), process: None }
    }

    fn found() -> Found {
        let server = Err(NameProblem::Stale);
        let silent = NameEntry { name: "silent".to_owned(), server, process: None };
        let entries = vec![
            entry("a", &[("x.Y", "", Health::NotServing), ("x.Z", "", Health::Serving)]),
            entry("b", &[("x.Y", "one", Health::Serving), ("x.Y", "a b", Health::Serving)]),
            entry("c", &[("x.Y", "one", Health::Serving), ("x.Y", "two", Health::Draining)]),
            silent,
        ];
        Found::among("x.Y", entries)
    }

    #[test]
    fn any_serves_and_all_are_listed() {
        let found = found();
        let all: Vec<_> = found.all().iter().map(|object| object.address.to_string()).collect();
        assert_eq!(all, ["a", "b#one", "c#one", "c#two"]);
        let mut seen = std::collections::BTreeSet::new();
        // Each time with a chance of one half.
        while seen.len() < 2 {
            seen.insert(found.any().unwrap().to_string());
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["b#one", "c#one"]);
    }

    #[test]
    fn an_instance_is_found_if_it_is_the_only_one() {
        let found = found();
        assert_eq!(found.instance("two").unwrap().to_string(), "c#two");
        assert_eq!(found.instance("").unwrap().to_string(), "a");
        let several = found.instance("one").unwrap_err();
        assert_eq!(several.code(), Code::FailedPrecondition);
        assert!(several.message().contains("b#one, c#one"), "{several}");
    }

    #[test]
    fn what_nobody_serves_is_named_with_those_that_did_not_answer() {
        let none = found().instance("three").unwrap_err();
        assert_eq!(none.code(), Code::Unavailable);
        assert!(none.message().contains("`three`") && none.message().contains("x.Y"), "{none}");
        assert!(none.message().contains("no answer from silent"), "{none}");
        let none = Found::among("x.Y", Vec::new()).any().unwrap_err();
        assert_eq!(none.message(), "no server of this user serves x.Y by name");
        let asleep = Found::among("x.Y", vec![entry("a", &[("x.Y", "", Health::Unknown)])]);
        let asleep = asleep.any().unwrap_err();
        assert!(asleep.message().contains("none of the 1 objects"), "{asleep}");
    }
}
