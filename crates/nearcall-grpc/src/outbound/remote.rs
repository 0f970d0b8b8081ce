//! Another machine: what its name means, and the connections to it.
//!
//! **Invariants:** each of its addresses has one connection, which tonic opens when a call needs it
//! and again after it has ended; calls take the addresses in turn.
//! **Not here:** one call (`forward.rs`).

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use nearcall::client::ReconnectPolicy;
use nearcall::{Deadline, Status};
use tokio::runtime::Handle;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Uri};

use super::{Outbound, lock};

/// Time after which a name is resolved again, and the files of certificates are looked at: as often
/// as caches of names expect it.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Longest time for one attempt to connect, with TLS.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Time without a message after which a connection with calls under way is asked whether it lives,
/// and the time for its answer: a machine that is gone ends its calls after both.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEP_ALIVE_TIME_MAX: Duration = Duration::from_secs(10);

/// What a machine may send of one stream, and of all streams of a connection, before it was read,
/// in bytes. As much as nearcall lets a stream send.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 2 << 20;

/// Pauses between two attempts to reach a machine: doubled each time.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(2);
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A machine with its options.
pub(super) struct Remote {
    /// Names its objects at the server that forwards.
    pub(super) number: usize,
    /// As the program has it.
    pub(super) address: String,
    pub(super) policy: ReconnectPolicy,
    pub(super) options: Arc<Outbound>,
    /// The interfaces that are forwarded.
    pub(super) registered: Mutex<Vec<&'static str>>,
    is_secure: bool,
    hosts: Vec<String>,
    reached: Mutex<Reached>,
    next: AtomicUsize,
}

#[derive(Default)]
struct Reached {
    places: Arc<[Place]>,
    /// Until when the names need not be resolved again; `None`: they are to be.
    fresh_until: Option<Deadline>,
    /// When the files of certificates were changed last.
    files: Vec<Option<SystemTime>>,
}

#[derive(Clone)]
struct Place {
    at: SocketAddr,
    endpoint: Endpoint,
    channel: Channel,
}

impl Remote {
    /// Reads an address. Connects to nothing.
    ///
    /// # Errors
    ///
    /// Why it is none, for people.
    pub(super) fn new(
        number: usize,
        address: &str,
        policy: ReconnectPolicy,
        options: Arc<Outbound>,
        runtime: &Handle,
    ) -> Result<Arc<Self>, String> {
        let _inside = runtime.enter();
        let (scheme, hosts) = address.split_once("://").ok_or("it has no scheme")?;
        let hosts: Vec<_> = hosts.split(',').map(str::to_owned).collect();
        let remote = Self {
            number,
            address: address.to_owned(),
            policy,
            options,
            registered: Mutex::default(),
            is_secure: scheme == "grpcs",
            hosts,
            reached: Mutex::default(),
            next: AtomicUsize::new(0),
        };
        // What is wrong with the hosts or the files is said now.
        for host in &remote.hosts {
            remote.endpoint(SocketAddr::from(([127, 0, 0, 1], 1)), host)?;
        }
        Ok(Arc::new(remote))
    }

    /// Returns a connection for the next call, and how many there are.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE`: the name means nothing, or the files of certificates cannot be read.
    pub(super) async fn channel(&self) -> Result<(Channel, usize), Status> {
        let places = self.places().await?;
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % places.len();
        Ok((places[turn].channel.clone(), places.len()))
    }

    /// Has the names resolved again by the next call.
    pub(super) fn look_again(&self) {
        lock(&self.reached).fresh_until = None;
    }

    async fn places(&self) -> Result<Arc<[Place]>, Status> {
        let (known, files) = {
            let reached = lock(&self.reached);
            let is_fresh = reached.fresh_until.is_some_and(|until| !until.has_passed());
            if is_fresh {
                return Ok(Arc::clone(&reached.places));
            }
            (Arc::clone(&reached.places), reached.files.clone())
        };
        let now = self.files_changed();
        let known: &[Place] = if files == now { &known } else { &[] };
        let (mut places, mut why) = (Vec::new(), String::new());
        for host in &self.hosts {
            match tokio::net::lookup_host(host).await {
                Ok(found) => {
                    for at in found {
                        let place = match known.iter().find(|place| place.at == at) {
                            Some(place) => place.clone(),
                            None => self.place(at, host).map_err(Status::unavailable)?,
                        };
                        places.push(place);
                    }
                }
                Err(error) => why = format!("{host} cannot be resolved: {error}"),
            }
        }
        if places.is_empty() {
            return Err(Status::unavailable(format!("{}: {why}", self.address)));
        }
        let places: Arc<[Place]> = places.into();
        let fresh_until = Some(Deadline::after(LOOK_INTERVAL));
        *lock(&self.reached) = Reached { places: Arc::clone(&places), fresh_until, files: now };
        Ok(places)
    }

    fn place(&self, at: SocketAddr, host: &str) -> Result<Place, String> {
        let endpoint = self.endpoint(at, host)?;
        Ok(Place { at, channel: endpoint.connect_lazy(), endpoint })
    }

    fn files_changed(&self) -> Vec<Option<SystemTime>> {
        let Outbound { ca, identity, .. } = &*self.options;
        let identity = identity.iter().flat_map(|(certificate, key)| [certificate, key]);
        let files = ca.iter().chain(identity).filter(|_| self.is_secure);
        files.map(|file| fs::metadata(file).and_then(|it| it.modified()).ok()).collect()
    }

    fn endpoint(&self, at: SocketAddr, host: &str) -> Result<Endpoint, String> {
        let scheme = if self.is_secure { "https" } else { "http" };
        let uri = |text: &str| -> Result<Uri, String> {
            let parsed = format!("{scheme}://{text}").parse();
            parsed.map_err(|error| format!("{text} is no host: {error}"))
        };
        let endpoint = Endpoint::from(uri(&at.to_string())?)
            .origin(uri(host)?)
            .connect_timeout(CONNECT_TIME_MAX)
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIME_MAX)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        if !self.is_secure {
            return Ok(endpoint);
        }
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let tls = self.tls(name)?;
        endpoint.tls_config(tls).map_err(|error| format!("TLS to {host}: {}", chain_of(&error)))
    }

    fn tls(&self, host: &str) -> Result<ClientTlsConfig, String> {
        let Outbound { ca, identity, name, .. } = &*self.options;
        let tls = ClientTlsConfig::new().domain_name(name.as_deref().unwrap_or(host));
        let tls = match ca {
            Some(file) => tls.ca_certificate(Certificate::from_pem(read(file)?)),
            None => tls.with_native_roots(),
        };
        Ok(match identity {
            Some((certificate, key)) => {
                tls.identity(Identity::from_pem(read(certificate)?, read(key)?))
            }
            None => tls,
        })
    }

    /// Waits until one of the addresses can be reached.
    pub(super) async fn hunt(&self, timeout: Duration) -> Result<(), Status> {
        let mut last = String::new();
        let hunt = async {
            let mut pause = PAUSE_MIN;
            loop {
                match self.places().await {
                    Ok(places) => {
                        for place in places.iter() {
                            match place.endpoint.connect().await {
                                Ok(_) => return,
                                Err(error) => last = chain_of(&error),
                            }
                        }
                    }
                    Err(status) => last = status.message().to_owned(),
                }
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(PAUSE_MAX);
                self.look_again();
            }
        };
        let found = tokio::time::timeout(timeout, hunt).await;
        found.map_err(|_| {
            let text = format!("{} could not be reached in time: {last}", self.address);
            Status::deadline_exceeded(text)
        })
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error: io::Error| format!("{}: {error}", file.display()))
}

/// Returns an error with all of its causes: the first says little.
pub(super) fn chain_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}
