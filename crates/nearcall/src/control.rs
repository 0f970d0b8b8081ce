//! What every server answers without being registered: the interface `nearcall.v1.Server`, as
//! generated from `proto/nearcall/v1/server.proto`.
//!
//! ```
#![doc = include_str!("../doc/room.txt")]
//! use nearcall::Client;
//! use nearcall::control::{DescribeRequest, Health, HealthRequest, ServerCaller};
//!
//! let address = "thermostat";
//! # let address = &*serve_elsewhere("control");
//! let server = ServerCaller::new(&Client::new(), address)?;
//! let health = server.health(&HealthRequest::default())?.health();
//! assert_eq!(health, Health::Serving);
//! let description = server.describe(&DescribeRequest::default())?;
//! assert_eq!(description.objects[0].interface, "home.v1.Thermostat");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Invariants:** whatever a server replies is its own word, and says nothing of who it is: demand
//! its user by `?user=` in the address.
//! **Not here:** how a server answers (`servers/built_in.rs`), asking all servers (`names.rs`).

/// The key of the metadata with which a server refuses `stop` whose program can be ended by a
/// signal only; the value is the signal. Send it to the process that the kernel reports at the
/// other end of the connection: the number in the text is the server's word, in its own PID
/// namespace.
pub const STOP_BY_SIGNAL: &str = "nearcall-stop-by";

include!("control/golden/server.rs");
