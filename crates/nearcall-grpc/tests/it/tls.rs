//! Certificates of gateways and of their peers.

use std::path::PathBuf;

use nearcall_grpc::{Gateway, RunningGateway, TlsOptions};
use nearcall_testkit::directory::Directory;
use nearcall_testkit::support::unique_address;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Response};

use crate::raw;
use crate::stage::*;

/// One that issues certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
struct Pair {
    certificate: String,
    key: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn issue(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap().pem();
        Pair { certificate, key: key.serialize_pem() }
    }

    fn pem(&self) -> String {
        self.0.pem()
    }
}

/// A server, a gateway with a certificate before it, and where its files are.
struct Secured {
    runtime: tokio::runtime::Runtime,
    gateway: RunningGateway,
    directory: Directory,
    _server: nearcall::server::RunningServer,
}

impl Secured {
    fn new(pair: &Pair, client_ca: Option<&Authority>) -> Self {
        let directory = Directory::new();
        let [certificate, key] = files(&directory);
        pair.write(&directory);
        let mut tls = TlsOptions::new(certificate, key);
        if let Some(authority) = client_ca {
            tls = tls.client_ca(directory.file("ca.pem", authority.pem().as_bytes()));
        }
        let address = unique_address();
        let (server, _) = serve(&address);
        let gateway = gateway_to(&address).tls(tls).start().unwrap();
        Self { runtime: runtime(), gateway, directory, _server: server }
    }

    /// Calls by a connection of its own.
    fn say(&self, config: ClientTlsConfig) -> Result<Response<Item>, String> {
        let place = format!("https://{}", self.gateway.addresses()[0]);
        self.runtime.block_on(async {
            let endpoint = Endpoint::from_shared(place).unwrap().tls_config(config).unwrap();
            let channel = endpoint.connect().await.map_err(|error| format!("{error:?}"))?;
            let mut client = tonic::client::Grpc::new(channel);
            client.ready().await.map_err(|error| format!("{error:?}"))?;
            let request = Request::new(item(1, 1));
            let answer = unary::<_, Item>(&mut client, "/streams.v1.Streams/Say", request).await;
            answer.map_err(|status| format!("{status:?}"))
        })
    }
}

fn files(directory: &Directory) -> [PathBuf; 2] {
    ["certificate.pem", "key.pem"].map(|name| directory.0.join(name))
}

impl Pair {
    fn write(&self, directory: &Directory) {
        directory.file("certificate.pem", self.certificate.as_bytes());
        directory.file("key.pem", self.key.as_bytes());
    }

    fn identity(&self) -> Identity {
        Identity::from_pem(&self.certificate, &self.key)
    }
}

fn trusting(authority: &Authority) -> ClientTlsConfig {
    let certificate = Certificate::from_pem(authority.pem());
    ClientTlsConfig::new().ca_certificate(certificate).domain_name("gateway.test")
}

#[timed]
fn who_is_at_the_other_end_is_proved() {
    let (authority, other) = (Authority::new("one"), Authority::new("other"));
    let past = |params: &mut CertificateParams| params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    let good = Secured::new(&authority.issue("gateway.test", |_| ()), None);
    good.say(trusting(&authority)).unwrap();
    let expired = Secured::new(&authority.issue("gateway.test", past), None);
    for (secured, config, text) in [
        (&good, trusting(&other), "UnknownIssuer"),
        (&good, trusting(&authority).domain_name("else.test"), "NotValidForName"),
        (&expired, trusting(&authority), "Expired"),
    ] {
        let error = secured.say(config).unwrap_err();
        assert!(error.contains(text), "{error}");
    }
    // Plain text to one with TLS ends, and so does TLS to one without.
    let place = good.gateway.addresses()[0];
    let plain = raw::call(place, "/streams.v1.Streams/Say", &[], raw::framed(false, b""));
    assert!(good.runtime.block_on(plain).is_err());
    let stage = Stage::new();
    let place = format!("https://{}", stage.place());
    let endpoint = Endpoint::from_shared(place).unwrap().tls_config(trusting(&authority)).unwrap();
    assert!(stage.runtime.block_on(endpoint.connect()).is_err());
    let counters = good.gateway.counters();
    assert!(counters.handshakes_failed >= 3, "{counters:?}");
}

#[timed]
fn peers_prove_who_they_are() {
    let (authority, other) = (Authority::new("one"), Authority::new("other"));
    let secured = Secured::new(&authority.issue("gateway.test", |_| ()), Some(&authority));
    let client = authority.issue("client.test", |params| {
        let uri = "spiffe://test/client".try_into().unwrap();
        params.subject_alt_names.push(SanType::URI(uri));
    });
    let answer = secured.say(trusting(&authority).identity(client.identity())).unwrap();
    let metadata = answer.metadata().get_all("seen-nearcall-peer-name");
    let names: Vec<_> = metadata.iter().collect();
    assert_eq!(names, ["client.test", "spiffe://test/client", "client.test"]);
    let past = |params: &mut CertificateParams| params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    for config in [
        trusting(&authority),
        trusting(&authority).identity(other.issue("client.test", |_| ()).identity()),
        trusting(&authority).identity(authority.issue("client.test", past).identity()),
    ] {
        secured.say(config).unwrap_err();
    }
}

#[timed]
fn changed_certificates_are_used() {
    let (authority, other) = (Authority::new("one"), Authority::new("other"));
    let secured = Secured::new(&authority.issue("gateway.test", |_| ()), None);
    secured.say(trusting(&authority)).unwrap();
    secured.directory.file("key.pem", b"no key");
    nearcall_os::clock::pause(std::time::Duration::from_millis(1_100));
    secured.say(trusting(&authority)).unwrap();
    other.issue("gateway.test", |_| ()).write(&secured.directory);
    wait_until("the new certificate", || secured.say(trusting(&other)).is_ok());
    assert!(secured.say(trusting(&authority)).is_err());
}

#[timed]
fn files_that_cannot_be_used_are_named() {
    let directory = Directory::new();
    let authority = Authority::new("one");
    let pair = authority.issue("gateway.test", |_| ());
    let strange = authority.issue("gateway.test", |_| ());
    pair.write(&directory);
    let [certificate, key] = files(&directory);
    let empty = directory.file("empty.pem", b"");
    let other_key = directory.file("other.pem", strange.key.as_bytes());
    let nothing = directory.0.join("nothing.pem");
    for (options, file, text) in [
        (TlsOptions::new(&nothing, &key), &nothing, "No such file"),
        (TlsOptions::new(&certificate, &nothing), &nothing, "No such file"),
        (TlsOptions::new(&empty, &key), &empty, "holds them as PEM"),
        (TlsOptions::new(&certificate, &empty), &empty, "holds a private key"),
        (TlsOptions::new(&certificate, &other_key), &certificate, "KeyMismatch"),
        (TlsOptions::new(&certificate, &key).client_ca(&empty), &empty, "holds them as PEM"),
    ] {
        let error = Gateway::builder().tls(options).start().unwrap_err().to_string();
        assert!(error.starts_with(&file.display().to_string()), "{error}");
        assert!(error.contains(text), "{error}");
    }
}
