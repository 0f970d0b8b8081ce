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

use crate::server::{Server, ServerBuilder};
use crate::service::dispatcher::Dispatcher;

mod served;

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
}

/// The function that makes a service: it registers its objects.
pub type MakeService = fn(&mut ServiceSetup) -> Result<(), Box<dyn Error>>;

impl ServiceSetup {
    fn new(arguments: Vec<String>) -> Self {
        Self { arguments, builder: Server::builder(), objects: Vec::new() }
    }

    /// Returns the arguments of the service: those of the program without its name, or those that
    /// the host's file has for the library.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// Serves `dispatcher` as the object with the name of its interface. In a library calls come
    /// from several threads at once.
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
        drop(objects);
        Ok(builder.listen(&address).start()?.run_until_signal()?)
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
/// process (`nearcall host`). A library's calls to services of the same host are function calls
/// with bytes; its streams are refused, so an interface with streams is served by a process.
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
/// use nearcall::{Context, ServiceSetup, Status};
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
            $crate::run_service($name, $make)
        }

        const _: () = {
            struct Exported;

            impl $crate::__library::Export for Exported {
                type Service = $crate::__library::ServedLibrary;
                const NAME: &'static str = $name;
                const VERSION: &'static str = env!("CARGO_PKG_VERSION");

                fn create(
                    _: $crate::__library::HostLink,
                    arguments: ::std::vec::Vec<::std::string::String>,
                ) -> ::std::result::Result<Self::Service, ::std::string::String> {
                    $crate::__library::ServedLibrary::new(arguments, $make)
                }
            }

            $crate::__library::export_service!(Exported);
        };
    };
}
