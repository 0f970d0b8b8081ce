//! Refuses names that differ in the `.proto` file and are the same in Rust.
//!
//! # Invariants
//!
//! - Within a package, no two types or modules of the generated code share a name.
//! - Within a caller, no two functions share a name.
//!
//! **Not here:** duplicates within the file, which the parser refuses, and clashes among the fields
//! of a message, which rustc reports.

use std::collections::BTreeMap;

use prost_reflect::{DescriptorPool, FileDescriptor};

use crate::error::{BuildError, Place};
use crate::model::{Kind, Service};
use crate::names;

/// Checks the names of everything that is generated from `pool`.
pub(crate) fn check(pool: &DescriptorPool, services: &[Service]) -> Result<(), BuildError> {
    // Types and modules share one namespace, for each package.
    let mut packages: BTreeMap<String, Names> = BTreeMap::new();
    for file in pool.files().filter(|file| file.package_name() != GOOGLE) {
        let names = packages.entry(file.package_name().to_owned()).or_default();
        check_messages(&file, names)?;
    }
    for service in services {
        let names = packages.entry(service.package.clone()).or_default();
        let Service { name, rust_name, place, .. } = service;
        names.claim(rust_name.clone(), format!("service `{name}`"), place)?;
        for part in ["Caller", "Dispatcher"] {
            let what = format!("the {} of service `{name}`", part.to_lowercase());
            names.claim(format!("{rust_name}{part}"), what, place)?;
        }
        let what = format!("the module of service `{name}`");
        names.claim(methods_module(service), what, place)?;
        check_caller(service)?;
    }
    Ok(())
}

/// The module that holds the statics of a service's methods.
pub(crate) fn methods_module(service: &Service) -> String {
    format!("{}_methods", service.snake)
}

fn check_messages(file: &FileDescriptor, names: &mut Names) -> Result<(), BuildError> {
    for message in file.messages() {
        let place = Place::from_item(file, message.path());
        let what = format!("message `{}`", message.name());
        names.claim(names::to_upper_camel(message.name()), what, &place)?;
        // prost puts the types that are declared within the message there.
        let what = format!("the module of message `{}`", message.name());
        names.claim(names::to_snake(message.name()), what, &place)?;
    }
    for enumeration in file.enums() {
        let what = format!("enum `{}`", enumeration.name());
        let place = Place::from_item(file, enumeration.path());
        names.claim(names::to_upper_camel(enumeration.name()), what, &place)?;
    }
    Ok(())
}

fn check_caller(service: &Service) -> Result<(), BuildError> {
    let mut names = Names::default();
    names.claim("new".to_owned(), "the caller's own `new`".to_owned(), &service.place)?;
    for method in &service.methods {
        let what = format!("method `{}`", method.name);
        names.claim(method.rust_name.clone(), what, &method.place)?;
    }
    for method in &service.methods {
        let name = &method.name;
        let what = format!("the call of `{name}` with options");
        names.claim(format!("{}_with", method.snake), what, &method.place)?;
        if method.kind != Kind::Oneway {
            let what = format!("the started call of `{name}`");
            names.claim(format!("start_{}", method.snake), what, &method.place)?;
        }
    }
    Ok(())
}

/// The package whose types are part of `prost-types`, and not generated.
const GOOGLE: &str = "google.protobuf";

/// The Rust names in use, each with a description of its owner.
#[derive(Default)]
struct Names(BTreeMap<String, String>);

impl Names {
    fn claim(&mut self, name: String, what: String, place: &Place) -> Result<(), BuildError> {
        match self.0.get(&name) {
            Some(first) => Err(BuildError::NameClash {
                place: place.clone(),
                first: first.clone(),
                second: what,
                name,
            }),
            None => {
                self.0.insert(name, what);
                Ok(())
            }
        }
    }
}
