//! Every case passes between two ends of nearcall, and between two of tonic.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nearcall_grpc_interop::cases::{NAMES, Outcome};
use nearcall_grpc_interop::{nearcall_client, nearcall_service, tonic_client, tonic_service};
use tokio::net::TcpListener;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

#[track_caller]
fn check(outcomes: &[Outcome], cases: usize) {
    let failed: Vec<_> = outcomes.iter().filter(|outcome| outcome.result.is_err()).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(outcomes.len(), cases);
}

#[test]
fn nearcall_passes_its_cases() {
    let address = format!("unix:@nearcall-interop-{}", std::process::id());
    let outcomes = runtime().block_on(async {
        let server = nearcall_service::start(&address).unwrap();
        let outcomes = nearcall_client::call(&address, NAMES).await.unwrap();
        server.stop().unwrap();
        outcomes
    });
    check(&outcomes, NAMES.len());
}

#[test]
fn tonic_passes_all_cases() {
    let outcomes = runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(tonic_service::serve(listener, None, std::future::pending()));
        tonic_client::call(&address, None, &tonic_client::names()).await.unwrap()
    });
    check(&outcomes, tonic_client::names().len());
}
