//! Callers of `grpcs://` addresses: both ends prove who they are, by files that may change. A program of its own, since a
//! process installs the transport once, here with certificates.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::time::Duration;

use nearcall::dynamic::{
    DynamicDispatcher, DynamicRequest, DynamicService, Encoded, interface_from_descriptor_set,
};
use nearcall::{CallContext, CallOptions, Client, Code, Deadline, Server, Status};
use nearcall_grpc::{Gateway, Outbound, RunningGateway, TlsOptions};
use nearcall_testkit::directory::Directory;
use nearcall_testkit::echo::{EchoCaller, Words};
use nearcall_testkit::support::unique_address;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// Says who calls.
struct Who;

impl DynamicService for Who {
    async fn serve(&self, context: CallContext, _: DynamicRequest) -> Result<Encoded, Status> {
        let name = context.metadata().get("nearcall-peer-name").unwrap_or_default();
        Encoded::new(&Words { data: name.to_owned().into(), ..Words::default() })
    }
}

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Writes a certificate for a name, and its key.
fn issue(directory: &Directory, authority: &Authority, name: &str) -> [std::path::PathBuf; 2] {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap().pem();
    [
        directory.file(&format!("{name}.pem"), certificate.as_bytes()),
        directory.file(&format!("{name}.key"), key.serialize_pem().as_bytes()),
    ]
}

#[test]
fn both_ends_prove_who_they_are() {
    let (directory, own, other) = (Directory::new(), authority(), authority());
    let ca = directory.file("ca.pem", own.pem().as_bytes());
    let [certificate, key] = issue(&directory, &own, "client.test");
    let outbound = Outbound::new().ca(&ca).identity(certificate, key).server_name("gateway.test");
    outbound.install().unwrap();

    let address = unique_address();
    let echo = EchoCaller::INTERFACE;
    let interface = interface_from_descriptor_set(echo.descriptor_set, echo.name).unwrap();
    let server = Server::builder().register(DynamicDispatcher::new(interface, Who));
    let _server = server.listen(&address).start().unwrap();
    let gateway_at = |authority: &Authority, name: &str, port: u16| {
        let [certificate, key] = issue(&directory, authority, name);
        let tls = TlsOptions::new(certificate, key).client_ca(&ca);
        let listen = format!("127.0.0.1:{port}");
        let gateway = Gateway::builder().expose(&address, &[echo.name]).listen(&listen);
        gateway.tls(tls).start().unwrap()
    };
    let gateway = |authority: &Authority, name: &str| gateway_at(authority, name, 0);
    let call = |scheme: &str, place: SocketAddr| {
        let address = format!("{scheme}://{place}");
        let options = CallOptions::new().deadline(Duration::from_secs(60));
        let caller = EchoCaller::new(&Client::new(), &address).unwrap().with(options);
        caller.say(&Words::default()).map(|words| words.data)
    };
    let say = |scheme: &str, gateway: &RunningGateway| call(scheme, gateway.addresses()[0]);
    let good = gateway(&own, "gateway.test");
    assert_eq!(say("grpcs", &good).unwrap(), "client.test");
    for (scheme, gateway) in [
        ("grpcs", &gateway(&other, "gateway.test")),
        ("grpcs", &gateway(&own, "else.test")),
        // Plain text to a port of TLS.
        ("grpc", &good),
    ] {
        let status = say(scheme, gateway).unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{status}");
    }

    // A connection keeps the identity that it was made with; the next one has the new one.
    let [certificate, key] = issue(&directory, &own, "renamed.test");
    std::fs::copy(certificate, directory.0.join("client.test.pem")).unwrap();
    std::fs::copy(key, directory.0.join("client.test.key")).unwrap();
    assert_eq!(say("grpcs", &good).unwrap(), "client.test");
    let place = good.addresses()[0];
    drop(good);
    let end = Deadline::after(Duration::from_secs(60));
    while !call("grpcs", place).unwrap_err().message().contains("cannot be reached") {
        assert!(!end.has_passed(), "the end of the connection is not noticed");
    }
    let _gateway = gateway_at(&own, "gateway.test", place.port());
    assert_eq!(call("grpcs", place).unwrap(), "renamed.test");
}
