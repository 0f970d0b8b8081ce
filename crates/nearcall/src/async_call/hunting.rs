//! Waiting for a server without holding an executor's thread.
//!
//! **Not here:** one attempt to connect (`client/async_routes.rs`).

use std::future::poll_fn;
use std::time::Duration;

use super::connecting::Connecting;
use crate::address::{Address, BadAddress};
use crate::client::{Client, ReconnectPolicy};
use crate::deadline::Deadline;
use crate::status::Status;

impl Client {
    /// Waits until a server listens at `address`, for at most `timeout`, and connects to it, for
    /// async callers. As [`hunt`](Self::hunt), for any executor.
    ///
    /// # Errors
    ///
    /// As [`hunt`](Self::hunt), and `FAILED_PRECONDITION`: the mechanism has no descriptor to wait
    /// for.
    pub async fn hunt_async(&self, address: &str, timeout: Duration) -> Result<(), Status> {
        let address: Address = address.parse().map_err(|error: BadAddress| Status::from(error))?;
        let route = self.async_route(&address);
        let (policy, deadline) = (ReconnectPolicy::Wait(timeout), Deadline::after(timeout));
        let mut connecting = Connecting::default();
        loop {
            let connected =
                poll_fn(|context| connecting.poll(&route, policy, deadline, context.waker()));
            let connection = connected.await?;
            if connection.is_open() {
                return Ok(());
            }
            // It ended since it was used last.
            route.forget(&connection);
            connecting.restart();
        }
    }
}
