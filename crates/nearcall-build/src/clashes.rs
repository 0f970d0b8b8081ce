//! Gives every generated item a name of its own, and refuses two names of the interface that are
//! the same in Rust.
//!
//! # Invariants
//!
//! - Within a module, no two messages, enums, oneofs or services share a Rust name. A message and a
//!   package may share a module (`include_file.rs`).
//! - Within a service, no two methods share a Rust name.
//! - Names of the interface are given first, then those that are derived from services and methods,
//!   then the caller's own (`new`, `with`, `loan`). Derived names are escaped, so that all others
//!   pass.
//! - The names of a service depend on the module of its package alone.
//!
//! **Not here:** the names of types (`type_names.rs`), and duplicates within the file, which the
//! parser refuses.
//!
//! **Invariant:** no two generated names share a module, struct or enum; the two that would are
//! reported with their places. *Checked by* `tests/it/errors.rs`, and for interfaces of other
//! projects `cargo xtask corpus`.

use std::collections::BTreeMap;

use prost_reflect::{DescriptorPool, FileDescriptor};

use crate::derived_names::Taken;
use crate::error::{BuildError, Place};
use crate::extern_paths::ExternPaths;
use crate::model::{Kind, Service};
use crate::scopes::{Modules, Names};
use crate::{names, type_names};

/// Checks the names of everything that is generated from `pool`, and names what is derived.
pub(crate) fn assign_names(
    pool: &DescriptorPool,
    services: &mut [Service],
    extern_paths: &ExternPaths,
) -> Result<(), BuildError> {
    let mut modules = Modules::default();
    for file in pool.files() {
        type_names::claim_file(&file, &mut modules, extern_paths)?;
    }
    let mut packages: BTreeMap<Vec<String>, (String, Place)> = BTreeMap::new();
    for file in pool.files().filter(|file| extern_paths.leaves_some_of(file)) {
        claim_package(&file, &mut modules, &mut packages)?;
    }
    for service in &mut *services {
        let names = modules.entry(names::module_path(&service.package)).or_default();
        let Service { name, rust_name, place, .. } = service;
        names.claim(rust_name.clone(), format!("service `{name}`"), place)?;
        claim_methods(service)?;
        assign_functions(service);
    }
    for (path, names) in &modules {
        let mut taken = Taken::default();
        names.iter().for_each(|name| taken.insert(name));
        let services = services.iter_mut();
        let services = services.filter(|service| names::module_path(&service.package) == *path);
        assign_types(&mut services.collect::<Vec<_>>(), taken);
    }
    Ok(())
}

/// Claims the modules of the package of `file`: that of `a.b` lies in that of `a`. Two packages
/// have two modules, since each has a file and a descriptor set of its own.
fn claim_package(
    file: &FileDescriptor,
    modules: &mut Modules,
    packages: &mut BTreeMap<Vec<String>, (String, Place)>,
) -> Result<(), BuildError> {
    let package = file.package_name();
    let (path, place) = (names::module_path(package), Place::from_package(file));
    let what = format!("package `{package}`");
    for (depth, module) in path.iter().enumerate() {
        let outer = modules.entry(path[..depth].to_vec()).or_default();
        outer.claim_module(module.clone(), what.clone(), &place)?;
    }
    let (first, first_place) =
        packages.entry(path.clone()).or_insert_with(|| (package.to_owned(), place.clone()));
    match first == package {
        true => Ok(()),
        false => Err(BuildError::NameClash {
            place,
            first: format!("package `{first}`"),
            first_place: Box::new(first_place.clone()),
            second: what,
            name: path.join("::"),
        }),
    }
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
        if method.kind == Kind::Unary {
            [method.names.start] = taken.derive([format!("start_{}", method.snake)]);
        }
    }
    let names = &mut service.caller;
    [names.new] = taken.derive(["new".to_owned()]);
    [names.with] = taken.derive(["with".to_owned()]);
    [names.loan] = taken.derive(["loan".to_owned()]);
}
