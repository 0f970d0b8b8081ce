//! Calls and services of interfaces that are not known when the program is built: names and bytes
//! in the place of generated code. For gateways, tools and other languages.
//!
//! A [`DynamicCaller`] (or [`AsyncDynamicCaller`]) calls any method of an object by its name; it
//! learns the shapes of the methods from the server. A [`DynamicService`] serves an interface that
//! is given as a descriptor set ([`interface_from_descriptor_set`]). Neither decodes a message:
//! both have it as [`Encoded`] bytes.
//!
//! ```
#![doc = include_str!("../doc/room.txt")]
//! use nearcall::Client;
//! use nearcall::dynamic::{DynamicCaller, Encoded};
//!
//! let address = "thermostat";
//! # let address = &*serve_elsewhere("dynamic");
//! let caller = DynamicCaller::new(&Client::new(), address, "home.v1.Thermostat")?;
//! // `celsius`, field 1, a double.
//! let request = Encoded::from([&[0x09][..], &21.5f64.to_le_bytes()].concat());
//! let reply = caller.call("SetTarget", &request)?;
//! let reply: SetTargetReply = reply.decode()?;
//! let unknown = caller.call("SetTarge", &request).unwrap_err();
//! assert!(unknown.message().contains("home.v1.Thermostat has no method `SetTarge`"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Invariants:** descriptions are never released, so their number and size are bounded, and equal
//! ones are kept once.
//! **Not here:** messages as text (a reflection library makes them from the descriptor set).

mod async_caller;
mod caller;
mod description;
mod service;

pub use self::async_caller::AsyncDynamicCaller;
pub use self::caller::DynamicCaller;
pub use self::description::interface_from_descriptor_set;
pub use self::service::{DynamicDispatcher, DynamicRequest, DynamicService};
pub use crate::call::ThreadMethod;
pub use crate::codec::{Encoded, EncodedSlice};
