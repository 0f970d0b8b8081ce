//! A server as a library of `nearcall host`: its services, called by the host.
//!
//! The functions have the types of nearcall_service.h, whose structs are pointers without a type
//! here, so that a program needs that header only for a library.
//! **Invariants:** a server becomes a library or is started, and only once.
//! **Not here:** the table that a library exports (`nearcall_library.hpp`), the loader
//! (`nearcall_os::library`).

use std::ffi::c_void;

use nearcall::__library::{
    HostLink, HostTable, RequestFields, ServedLibrary, destroy, dispatch, expose, objects,
};
use nearcall::Status;

use crate::border::border;
use crate::server::become_library;
use crate::status::nearcall_status;
use crate::types::nearcall_server;

/// Makes an instance of a library for `nearcall host` of a server that was prepared, from what the
/// host gives to `create` of `struct nearcall_library`. The server is used up; it listens nowhere,
/// since the host does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_library_new(
    server: nearcall_server,
    host: *const c_void,
    instance: *mut *mut c_void,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            at.place("instance", instance)?;
            become_library(server, |prepared| {
                let make = |host| {
                    ServedLibrary::new(host, Vec::new(), |setup| {
                        for (object, service) in prepared.services {
                            match object {
                                Some(object) => setup.register_as(&object, service.dispatcher()),
                                None => setup.register(service.dispatcher()),
                            }
                        }
                        Ok(())
                    })
                };
                let made = instance_of(host, make);
                at.put("instance", instance, made.map_err(Status::failed_precondition)?)
            })
        })
    }
}

fn instance_of(
    host: *const c_void,
    make: impl FnOnce(HostLink) -> Result<ServedLibrary, String>,
) -> Result<*mut c_void, String> {
    // SAFETY: by the header it is the table of the host, or null.
    unsafe { expose(host.cast::<HostTable>(), make) }
}

/// The function `objects` of `struct nearcall_library`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_library_objects(
    instance: *mut c_void,
    count: *mut usize,
) -> *const c_void {
    // SAFETY: by the header, as the host calls it: with an instance of `nearcall_library_new`.
    unsafe { objects::<ServedLibrary>(instance, count) }.cast()
}

/// The function `dispatch` of `struct nearcall_library`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_library_dispatch(
    instance: *mut c_void,
    request: *const c_void,
    call: *mut c_void,
) {
    // SAFETY: as above.
    unsafe { dispatch::<ServedLibrary>(instance, request.cast::<RequestFields>(), call) }
}

/// The function `destroy` of `struct nearcall_library`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_library_destroy(instance: *mut c_void) {
    // SAFETY: as above.
    unsafe { destroy::<ServedLibrary>(instance) }
}
