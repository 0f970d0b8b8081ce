//! A service that is written once, and becomes a program and a dynamic library.
//!
//! **Invariants:** what a service is asked for and answers is the same in both: only the bytes take
//! another way.
//! **Not here:** the calls of a library (`library/served.rs`), the host that loads libraries
//! (`nearcall-host`).

use std::env;
use std::error::Error;
use std::fmt;
use std::io::Write;
use std::mem;
use std::process::ExitCode;

use nearcall_os::signal::TerminationSignals;

use crate::servers::{Server, ServerBuilder};
use crate::services::dispatcher::Dispatcher;

pub(crate) mod hosting;
mod served;
mod subscriber;

pub use self::served::ServedLibrary;
use self::served::ServedObject;

/// The environment variable with the address at which a program of
/// [`service_main!`](crate::service_main) listens, instead of at its own name.
pub const LISTEN_VARIABLE: &str = "NEARCALL_LISTEN";

/// What a service is made from: its arguments in, its objects out.
///
/// See [`service_main!`](crate::service_main).
pub struct ServiceSetup {
    arguments: Vec<String>,
    builder: ServerBuilder,
    objects: Vec<ServedObject>,
    is_nonblocking: bool,
}

/// The function that makes a service: it registers its objects.
///
/// See [`run_service`] and [`service_main!`](crate::service_main).
pub type MakeService = fn(&mut ServiceSetup) -> Result<(), Box<dyn Error>>;

impl ServiceSetup {
    fn new(arguments: Vec<String>) -> Self {
        let (builder, objects) = (Server::builder(), Vec::new());
        Self { arguments, builder, objects, is_nonblocking: false }
    }

    /// Returns the arguments of the service: those of the program without its name, or those that
    /// the host's file has for the library.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// Declares that no method of this service waits: not for I/O, not for a lock that is held for
    /// long, not for another service. As a library it is then called by the other services of its
    /// group as a function: in their threads, several at once, for a tenth of the time.
    ///
    /// Such a call returns when the method does. A method that waits nevertheless holds its
    /// caller's service up, beyond the deadline of the call; calls of services without this
    /// declaration come over a connection, and end by their deadlines whatever the method does.
    pub fn set_nonblocking(&mut self) {
        self.is_nonblocking = true;
    }

    /// Serves `dispatcher` as the object with the name of its interface.
    pub fn register(&mut self, dispatcher: impl Dispatcher + Clone + Send + Sync) {
        self.objects.push(ServedObject::new("", dispatcher.clone()));
        let builder = mem::replace(&mut self.builder, Server::builder());
        self.builder = builder.register(dispatcher);
    }

    /// Serves `dispatcher` as one of several objects with one interface, which callers address as
    /// `ADDRESS#instance`.
    pub fn register_as(
        &mut self,
        instance: &str,
        dispatcher: impl Dispatcher + Clone + Send + Sync,
    ) {
        self.objects.push(ServedObject::new(instance, dispatcher.clone()));
        let builder = mem::replace(&mut self.builder, Server::builder());
        self.builder = builder.register_as(instance, dispatcher);
    }
}

impl fmt::Debug for ServiceSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceSetup")
            .field("arguments", &self.arguments)
            .field("objects", &self.objects.len())
            .finish_non_exhaustive()
    }
}

/// Makes a service and runs it as a program, until SIGTERM or SIGINT. What
/// [`service_main!`](crate::service_main) calls.
///
/// Listens at the address in [`LISTEN_VARIABLE`], or at `name`. What goes wrong is written to
/// stderr, and the exit code is 1.
pub fn run_service(name: &str, make: MakeService) -> ExitCode {
    let run = || -> Result<(), Box<dyn Error>> {
        // Before `make`, which may start programs.
        nearcall_channel::secure_inherited()?;
        let mut setup = ServiceSetup::new(env::args().skip(1).collect());
        make(&mut setup)?;
        let address = env::var(LISTEN_VARIABLE).unwrap_or_else(|_| name.to_owned());
        let ServiceSetup { builder, objects, .. } = setup;
        // Those of a library.
        drop(objects);
        // Before it listens: a client may stop it at once.
        let _termination = TerminationSignals::install()?;
        Ok(builder.nest_calls().listen(&address).start()?.run_until_signal()?)
    };
    let Err(error) = run() else { return ExitCode::SUCCESS };
    // One write, so that lines of several programs stay whole.
    let _ = std::io::stderr().write_all(format!("error: {name}: {error}\n").as_bytes());
    ExitCode::FAILURE
}

/// Makes a service both a program and a dynamic library, from one crate.
///
/// In the library of the crate, which has `crate-type = ["cdylib", "rlib"]`, the macro gives a
/// function `main` for the program and the symbol that a host of libraries looks for. It takes a
/// function that registers the objects ([`ServiceSetup`]), and a name before it if the service is
/// not to have that of its package. `src/main.rs` is then one line.
///
/// Where a service runs, its callers do not notice: as a process of its own, or with others in one
/// process (`nearcall host`). Its streams are refused in a library, so an interface with streams is
/// served by a process.
///
/// While a method waits for a call of its own, made by a [`Client`](crate::Client) without a loop,
/// the service goes on serving, so services may call each other in circles. Hold no lock during
/// such a call: the method that is served meanwhile may need it, in the same thread.
///
/// As a library, the service is called over a connection by the other services of its group as
/// well, so deadlines hold whatever its methods do, unless it declares that they do not wait
/// ([`ServiceSetup::set_nonblocking`]). Events of the `tracing` crate, from `INFO` on, go to the
/// log of the host, unless the service installs a subscriber.
///
/// # Examples
///
/// ```toml
/// [lib]
/// crate-type = ["cdylib", "rlib"]
/// ```
///
/// `src/lib.rs`:
///
/// ```
/// # mod home {
/// #     include!(concat!(
/// #         env!("CARGO_MANIFEST_DIR"),
/// #         "/../nearcall-build/tests/golden/thermostat.rs"
/// #     ));
/// # }
/// # use home::*;
/// use std::error::Error;
/// use std::sync::Mutex;
///
/// use nearcall::{Context, Status};
/// use nearcall::service::ServiceSetup;
///
/// struct Room(Mutex<f64>);
///
/// impl Thermostat for Room {
///     fn set_target(
///         &self,
///         _: &Context<'_>,
///         request: &SetTargetRequest,
///     ) -> Result<SetTargetReply, Status> {
///         let mut wanted = self.0.lock().unwrap();
///         Ok(SetTargetReply { celsius_before: std::mem::replace(&mut *wanted, request.celsius) })
///     }
/// #   fn note(&self, _: &Context<'_>, _: &NoteRequest) {}
/// #   fn watch(&self, _: &Context<'_>, _: &WatchRequest) -> Result<WatchReply, Status> {
/// #       Ok(WatchReply::default())
/// #   }
/// #   fn reset(&self, _: &Context<'_>, _: &()) -> Result<(), Status> { Ok(()) }
/// }
///
/// fn make(setup: &mut ServiceSetup) -> Result<(), Box<dyn Error>> {
///     let celsius = setup.arguments().first().map_or(Ok(18.0), |first| first.parse())?;
///     setup.register(ThermostatDispatcher::new(Room(Mutex::new(celsius))));
///     Ok(())
/// }
///
/// # mod crate_root {
/// # use super::make;
/// nearcall::service_main!(make);
/// # }
/// # fn main() {}
/// ```
///
/// `src/main.rs`:
///
/// ```ignore
/// fn main() -> std::process::ExitCode {
///     thermostat::main()
/// }
/// ```
#[macro_export]
macro_rules! service_main {
    ($make:path) => {
        $crate::service_main!(env!("CARGO_PKG_NAME"), $make);
    };
    ($name:expr, $make:path) => {
        /// Runs the service as a program, until SIGTERM or SIGINT.
        pub fn main() -> ::std::process::ExitCode {
            $crate::service::run_service($name, $make)
        }

        const _: () = {
            $crate::__link_runtime!();

            struct Exported;

            impl $crate::__library::Export for Exported {
                type Service = $crate::__library::ServedLibrary;
                const NAME: &'static str = $name;
                const VERSION: &'static str = env!("CARGO_PKG_VERSION");

                fn create(
                    host: $crate::__library::HostLink,
                    arguments: ::std::vec::Vec<::std::string::String>,
                ) -> ::std::result::Result<Self::Service, ::std::string::String> {
                    $crate::__library::ServedLibrary::new(host, arguments, $make)
                }
            }

            $crate::__library::export_service!(Exported);
        };
    };
}

/// Has a service link the dynamic library that it shares with others, in a build for that.
#[cfg(nearcall_shared)]
#[doc(hidden)]
#[macro_export]
macro_rules! __link_runtime {
    () => {
        use ::nearcall_runtime as _;
    };
}

/// A service has all of nearcall in itself.
#[cfg(not(nearcall_shared))]
#[doc(hidden)]
#[macro_export]
macro_rules! __link_runtime {
    () => {};
}
