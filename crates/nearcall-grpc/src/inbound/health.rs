//! `grpc.health.v1.Health`: how the servers of the exposed interfaces say that they are.
//!
//! **Invariants:** a server that does not answer does not serve.
//! **Not here:** what a server makes its health of (`nearcall::control`).

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use futures_util::stream;
use nearcall::control::Health as NearcallHealth;
use nearcall::server::RunningServer;
use tokio::time::sleep;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::Shared;
use super::limits::{HEALTH_INTERVAL, QUESTION_BYTES_MAX};
use crate::proto::GatewayCaller;

pub(super) fn server(shared: &Arc<Shared>) -> HealthServer<Service> {
    let service = Service(Arc::clone(shared));
    HealthServer::new(service).max_decoding_message_size(QUESTION_BYTES_MAX)
}

/// Answers for all exposed interfaces.
pub(super) struct Service(Arc<Shared>);

/// Returns the health of an interface, or of all together; nothing if it is not exposed.
async fn health(shared: &Shared, name: &str) -> Option<ServingStatus> {
    let of = |health| match health {
        NearcallHealth::Serving => ServingStatus::Serving,
        NearcallHealth::Unknown => ServingStatus::Unknown,
        NearcallHealth::NotServing | NearcallHealth::Draining => ServingStatus::NotServing,
    };
    if *shared.stop.borrow() {
        return Some(ServingStatus::NotServing);
    }
    if !name.is_empty() {
        return Some(of(shared.exposed.find(name)?.health().await));
    }
    let mut together = ServingStatus::Serving;
    for servers in shared.exposed.all() {
        match of(servers.health().await) {
            ServingStatus::Serving => {}
            other => together = other,
        }
        if together == ServingStatus::NotServing {
            break;
        }
    }
    Some(together)
}

/// Has the server of a gateway that has a name report the health of all exposed interfaces.
pub(super) async fn report(shared: &Shared, own: Option<&RunningServer>) -> Infallible {
    let Some(own) = own else { return std::future::pending().await };
    loop {
        // Of its only object, which `nearcall list` shows, and so of the server as a whole.
        own.set_health(
            GatewayCaller::INTERFACE.name,
            match health(shared, "").await {
                Some(ServingStatus::Serving) => NearcallHealth::Serving,
                Some(ServingStatus::Unknown) => NearcallHealth::Unknown,
                _ => NearcallHealth::NotServing,
            },
        );
        sleep(HEALTH_INTERVAL).await;
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl Health for Service {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let name = &request.get_ref().service;
        let unknown = || Status::not_found(format!("{name:?} is not exposed here"));
        let status = health(&self.0, name).await.ok_or_else(unknown)?;
        Ok(Response::new(response(status)))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    /// Sends the health at once and when it has changed, until the gateway stops.
    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (shared, name) = (Arc::clone(&self.0), request.into_inner().service);
        let seen = stream::unfold((shared, name, None), |(shared, name, last)| async move {
            loop {
                // Before the question: whoever stops meanwhile is seen in the next round.
                let is_last = *shared.stop.borrow();
                let now = health(&shared, &name).await.unwrap_or(ServingStatus::ServiceUnknown);
                if last != Some(now) {
                    return Some((Ok(response(now)), (shared, name, Some(now))));
                }
                if is_last {
                    return None;
                }
                tokio::select! {
                    () = sleep(HEALTH_INTERVAL) => {}
                    () = shared.stopped() => {}
                }
            }
        });
        Ok(Response::new(Box::pin(seen)))
    }
}
