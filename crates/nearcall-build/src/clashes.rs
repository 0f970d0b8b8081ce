//! Gives every generated item a name of its own, and refuses two names of the interface that are
//! the same in Rust.
//!
//! # Invariants
//!
//! - Within a package, no two messages, enums or services share a Rust name.
//! - Within a service, no two methods share a Rust name.
//! - Names of the interface are given first, then those that are derived from services and methods,
//!   then the caller's own (`new`, `loan`). Derived names are escaped, so that all others pass.
//! - The names of a service depend on its package alone.
//!
//! **Not here:** duplicates within the file, which the parser refuses, and clashes among the fields
//! of a message, which rustc reports.

use std::collections::BTreeMap;

use prost_reflect::{DescriptorPool, FileDescriptor};

use crate::derived_names::Taken;
use crate::error::{BuildError, Place};
use crate::extern_paths::ExternPaths;
use crate::model::{Kind, Service};
use crate::names;

/// Checks the names of everything that is generated from `pool`, and names what is derived.
pub(crate) fn assign_names(
    pool: &DescriptorPool,
    services: &mut [Service],
    extern_paths: &ExternPaths,
) -> Result<(), BuildError> {
    // Types and modules share one namespace, for each package.
    let mut packages: BTreeMap<String, Names> = BTreeMap::new();
    for file in pool.files() {
        let names = packages.entry(file.package_name().to_owned()).or_default();
        claim_types(&file, names, extern_paths)?;
    }
    for service in &mut *services {
        let names = packages.entry(service.package.clone()).or_default();
        let Service { name, rust_name, place, .. } = service;
        names.claim(rust_name.clone(), format!("service `{name}`"), place)?;
        claim_methods(service)?;
        assign_functions(service);
    }
    for (package, names) in &packages {
        let mut taken = Taken::default();
        names.0.keys().for_each(|name| taken.insert(name));
        // The module of the package `a.b` lies in that of the package `a`.
        let inner = packages.keys().filter_map(|other| inner_module(package, other));
        inner.for_each(|module| taken.insert(&names::to_snake(module)));
        let services = services.iter_mut().filter(|service| service.package == *package);
        assign_types(&mut services.collect::<Vec<_>>(), taken);
    }
    Ok(())
}

/// Returns the first part of the package `other` below `package`.
fn inner_module<'a>(package: &str, other: &'a str) -> Option<&'a str> {
    let rest = match package {
        "" => other,
        package => other.strip_prefix(package)?.strip_prefix('.')?,
    };
    rest.split('.').next().filter(|part| !part.is_empty())
}

fn claim_types(
    file: &FileDescriptor,
    names: &mut Names,
    extern_paths: &ExternPaths,
) -> Result<(), BuildError> {
    for message in file.messages().filter(|one| !extern_paths.contains(one.full_name())) {
        let place = Place::from_item(file, message.path());
        let what = format!("message `{}`", message.name());
        names.claim(names::to_upper_camel(message.name()), what, &place)?;
        // prost puts the types that are declared within the message there.
        let what = format!("the module of message `{}`", message.name());
        names.claim(names::to_snake(message.name()), what, &place)?;
    }
    for enumeration in file.enums().filter(|one| !extern_paths.contains(one.full_name())) {
        let what = format!("enum `{}`", enumeration.name());
        let place = Place::from_item(file, enumeration.path());
        names.claim(names::to_upper_camel(enumeration.name()), what, &place)?;
    }
    Ok(())
}

fn claim_methods(service: &Service) -> Result<(), BuildError> {
    let mut names = Names::default();
    for method in &service.methods {
        let what = format!("method `{}`", method.name);
        names.claim(method.rust_name.clone(), what, &method.place)?;
    }
    Ok(())
}

/// Names the types of the services of one package. `taken` has the names of its interfaces.
fn assign_types(services: &mut [&mut Service], mut taken: Taken) {
    for service in &mut *services {
        let (stem, snake) = (&service.rust_name, &service.snake);
        let types = &mut service.types;
        [types.caller, types.dispatcher] =
            taken.derive([format!("{stem}Caller"), format!("{stem}Dispatcher")]);
        [types.methods_module] = taken.derive([format!("{snake}_methods")]);
    }
    // After all callers: a service `HomeAsync` beside `Home` has a `HomeAsyncCaller` too.
    for service in services {
        let stem = format!("{}Async", service.rust_name);
        let types = &mut service.types;
        [types.async_trait, types.async_caller, types.async_dispatcher] =
            taken.derive([stem.clone(), format!("{stem}Caller"), format!("{stem}Dispatcher")]);
    }
}

/// Names the functions of the callers of `service`. A caller and its async form have one set of
/// names.
fn assign_functions(service: &mut Service) {
    let mut taken = Taken::default();
    service.methods.iter().for_each(|method| taken.insert(&method.rust_name));
    for method in &mut service.methods {
        let (snake, names) = (&method.snake, &mut method.names);
        [names.with] = taken.derive([format!("{snake}_with")]);
        match method.kind {
            Kind::Unary => {
                [names.start, names.start_with] =
                    taken.derive([format!("start_{snake}"), format!("start_{snake}_with")]);
                [names.try_start, names.try_start_with] =
                    taken.derive([format!("try_start_{snake}"), format!("try_start_{snake}_with")]);
            }
            Kind::Oneway => {
                [names.attempt, names.attempt_with] =
                    taken.derive([format!("try_{snake}"), format!("try_{snake}_with")]);
            }
            Kind::ReplyStream | Kind::RequestStream | Kind::BothStreams => {}
        }
    }
    let names = &mut service.caller;
    [names.new] = taken.derive(["new".to_owned()]);
    [names.loan, names.loan_with, names.try_loan] =
        taken.derive(["loan", "loan_with", "try_loan"].map(str::to_owned));
}

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

#[cfg(test)]
mod tests {
    use super::inner_module;

    #[test]
    fn a_package_lies_in_the_module_of_another() {
        assert_eq!(inner_module("a", "a.b.c"), Some("b"));
        assert_eq!(inner_module("", "a.b"), Some("a"));
        assert_eq!(
            [("a", "ab.c"), ("a", "a"), ("", "")].map(|(a, b)| inner_module(a, b)),
            [None; 3]
        );
    }
}
