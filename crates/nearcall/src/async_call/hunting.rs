//! Waiting for a server without holding an executor's thread.
//!
//! **Not here:** one attempt to connect (`clients/async_routes.rs`).

use std::time::Duration;

use super::connecting;
use crate::address::{Address, BadAddress};
use crate::clients::Client;
use crate::status::Status;
use crate::transport;

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
        if let Some(hunt) = transport::hunt(&address, timeout) {
            return hunt.await;
        }
        let route = self.async_route(&address);
        connecting::hunt(&route, timeout).await.map(drop)
    }
}
