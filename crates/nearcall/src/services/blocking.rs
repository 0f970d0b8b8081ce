//! Methods that block: served by threads of a pool, so that they do not hold up their loop.
//!
//! **Invariants:** the loop's thread runs no method that was given to a pool, not even for a caller
//! of the same thread.
//! **Not here:** the threads and the queue (`services/blocking/pool.rs`), whose calls they serve
//! (`blocking/shares.rs`), the call on its way there (`owned_call.rs`).

use std::fmt;
use std::sync::Arc;

use crate::interface::Interface;
use crate::services::dispatcher::{Dispatcher, Incoming};
use crate::services::owned_call::OwnedCall;

mod pool;
mod shares;

pub use self::pool::{BlockingPool, BlockingPoolBuilder, WhenFull};

/// Serves methods of another dispatcher in the threads of a [`BlockingPool`].
///
/// In such a thread a method may block; [`Context::is_cancelled`](crate::Context::is_cancelled)
/// returns whether its caller still waits, and calls that it makes inherit its deadline. Methods
/// run at the same time, so the service is `Send + Sync`. One-way messages may overtake each other.
///
/// # Examples
///
/// ```
/// # mod home {
/// #     include!(concat!(
/// #         env!("CARGO_MANIFEST_DIR"),
/// #         "/../nearcall-build/tests/golden/thermostat.rs"
/// #     ));
/// # }
/// # use home::*;
/// use nearcall::{Context, EventLoop, Server, Status};
/// use nearcall::service::{Blocking, BlockingPool};
///
/// struct Room;
///
/// impl Thermostat for Room {
///     fn set_target(
///         &self,
///         _: &Context<'_>,
///         request: &SetTargetRequest,
///     ) -> Result<SetTargetReply, Status> {
///         std::fs::read("/proc/self/stat").map_err(|error| Status::internal(error.to_string()))?;
///         Ok(SetTargetReply { celsius_before: request.celsius })
///     }
/// #   fn note(&self, _: &Context<'_>, _: &NoteRequest) {}
/// #   fn watch(&self, _: &Context<'_>, _: &WatchRequest) -> Result<WatchReply, Status> {
/// #       Ok(WatchReply::default())
/// #   }
/// #   fn reset(&self, _: &Context<'_>, _: &()) -> Result<(), Status> { Ok(()) }
/// }
///
/// let event_loop = EventLoop::new()?;
/// let server = Server::new(&event_loop);
/// let pool = BlockingPool::builder().threads(4).build();
/// let thermostat = ThermostatDispatcher::new(Room);
/// server.register(Blocking::new(thermostat, &pool).methods(&["SetTarget"]))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Blocking<D> {
    dispatcher: Arc<D>,
    pool: BlockingPool,
    /// The numbers of the methods that block. None: all.
    methods: Option<Vec<u32>>,
}

impl<D: Dispatcher + Send + Sync> Blocking<D> {
    /// Has `pool` serve all methods of `dispatcher`.
    pub fn new(dispatcher: D, pool: &BlockingPool) -> Self {
        Self { dispatcher: Arc::new(dispatcher), pool: pool.clone(), methods: None }
    }

    /// Has the pool serve these methods only; the loop runs the others. The names are those of the
    /// `.proto` file.
    ///
    /// # Panics
    ///
    /// The interface has no method of that name.
    #[must_use]
    pub fn methods(mut self, names: &[&str]) -> Self {
        let interface = self.dispatcher.interface();
        let number = |name: &&str| {
            let method = interface.methods.iter().find(|method| method.name == *name);
            let Some(method) = method else {
                let known: Vec<_> = interface.methods.iter().map(|method| method.name).collect();
                let known = known.join(", ");
                panic!("{} has no method `{name}`; it has: {known}", interface.name)
            };
            method.id
        };
        self.methods = Some(names.iter().map(number).collect());
        self
    }
}

impl<D: Dispatcher + Send + Sync> Dispatcher for Blocking<D> {
    fn interface(&self) -> &'static Interface {
        self.dispatcher.interface()
    }

    fn dispatch(&self, incoming: Incoming<'_>) {
        let method = incoming.method();
        if self.methods.as_ref().is_none_or(|methods| methods.contains(&method)) {
            let dispatcher: Arc<dyn Dispatcher + Send + Sync> = Arc::clone(&self.dispatcher) as _;
            if let Some(call) = OwnedCall::new(incoming) {
                self.pool.submit(dispatcher, call);
            }
        } else {
            self.dispatcher.dispatch(incoming);
        }
    }
}

impl<D> Clone for Blocking<D> {
    fn clone(&self) -> Self {
        let (dispatcher, pool) = (Arc::clone(&self.dispatcher), self.pool.clone());
        Self { dispatcher, pool, methods: self.methods.clone() }
    }
}

impl<D> fmt::Debug for Blocking<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").field("pool", &self.pool).finish_non_exhaustive()
    }
}
