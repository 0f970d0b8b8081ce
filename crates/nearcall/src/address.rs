//! Where a server is, and how to talk to it: an address with its parameters.
//!
//! `PLACE[?via=MECHANISM&wait=POLICY&trust=TRUST&user=USER][#INSTANCE]` for a client,
//! `PLACE[?allow=MECHANISMS&wait=POLICY&trust=TRUST]` for a server. A place is a `NAME` in the
//! runtime directory, `unix:/path`, `unix:@abstract`, `tcp://host:port`, or `inproc:NAME` for a
//! server of the same event loop. `grpc://host:port` and `grpcs://host:port` are for clients with a
//! transport (`transport.rs`). `via=auto` has the client choose by its traffic. `#INSTANCE`
//! names one of several objects with the same interface.
//! **Invariants:** a printed address parses back to the same address.
//! **Not here:** connecting (`clients.rs`).

use std::fmt;
use std::str::FromStr;

use nearcall_channel::{Address as Place, Mechanism, MechanismSet, WaitPolicy};

use crate::status::Status;
use crate::trust::Trust;

/// The place of a server and the parameters of the connection to it.
///
/// Every function that takes an address also takes its text. Parsed before, its errors come early:
///
/// ```
/// use nearcall::{Address, Mechanism};
///
/// let address: Address = "unix:/run/room.sock?via=shm".parse()?;
/// assert_eq!(address.mechanism(), Mechanism::Shm);
/// let error = "unix:/run/room.sock?via=smh".parse::<Address>().unwrap_err();
/// assert!(error.to_string().contains("smh"));
/// # Ok::<(), nearcall::BadAddress>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address {
    pub(crate) at: At,
    pub(crate) via: Option<Via>,
    pub(crate) wait: Option<WaitPolicy>,
    pub(crate) trust: Option<Trust>,
    /// The user whose server a client demands: a name or a number.
    pub(crate) user: Option<String>,
    /// The mechanisms that a server opens.
    pub(crate) allow: Option<MechanismSet>,
    pub(crate) instance: Option<String>,
}

/// What carries the messages of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Via {
    /// The mechanism that the address names.
    Mechanism(Mechanism),
    /// What the traffic needs, which the client finds out.
    Automatic,
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mechanism(mechanism) => mechanism.fmt(f),
            Self::Automatic => f.write_str(AUTOMATIC),
        }
    }
}

/// The word for [`Via::Automatic`].
const AUTOMATIC: &str = "auto";

/// The place of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum At {
    /// A place of sockets.
    Socket(Place),
    /// In the same event loop, by this name.
    InProcess(String),
    /// On another machine, by a transport: `grpc://` or `grpcs://`, with the rest.
    Remote(String),
}

impl At {
    /// Returns an error if a server cannot offer these mechanisms here.
    ///
    /// # Errors
    ///
    /// The text for people.
    pub(crate) fn check_offered(&self, offered: MechanismSet) -> Result<(), &'static str> {
        match self {
            Self::Socket(Place::Tcp { .. }) if !offered.contains(Mechanism::Tcp) => Err(
                "at tcp:// every connection begins over `tcp`: name that, and `shm` if connections \
                 of this machine may move on",
            ),
            Self::Socket(_) => Ok(()),
            Self::InProcess(_) => Err("within a loop there is one way only"),
            Self::Remote(_) => Err(NOT_LISTENED),
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(place) => place.fmt(f),
            Self::InProcess(name) => write!(f, "inproc:{name}"),
            Self::Remote(url) => f.write_str(url),
        }
    }
}

/// Text that is no address, and why.
///
/// What parsing an [`Address`] fails with.
#[derive(Clone, PartialEq, Eq)]
pub struct BadAddress {
    text: String,
    why: String,
}

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bad address `{}`: {}", self.text.escape_debug(), self.why)
    }
}

/// Prints like [`Display`](fmt::Display), for `fn main() -> Result<(), BadAddress>`.
impl fmt::Debug for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BadAddress {}

impl BadAddress {
    pub(crate) fn new(text: impl Into<String>, why: impl Into<String>) -> Self {
        Self { text: text.into(), why: why.into() }
    }
}

/// For services that make callers: `INVALID_ARGUMENT`.
impl From<BadAddress> for Status {
    fn from(error: BadAddress) -> Self {
        Self::invalid_argument(error.to_string())
    }
}

impl Address {
    /// The mechanism that is used where an address of this machine names none: shared memory,
    /// whose waiters spin while that pays and then sleep.
    pub const MECHANISM_DEFAULT: Mechanism = Mechanism::Shm;

    /// Returns whether it is one of another machine, which a transport carries: `grpc://` and
    /// `grpcs://`.
    pub fn is_remote(&self) -> bool {
        matches!(self.at, At::Remote(_))
    }

    /// Parses the address of a listener, as [`Server::listen`](crate::Server::listen) does. Text of
    /// clients is parsed by `FromStr`.
    ///
    /// # Errors
    ///
    /// It cannot be parsed, or a part of it is for clients only.
    pub fn of_listener(text: &str) -> Result<Self, BadAddress> {
        let address = Self::parse(text)?;
        let why = if address.is_remote() {
            NOT_LISTENED.to_owned()
        } else if let Some(Via::Automatic) = address.via {
            "`via=auto` is for clients; a server says by its limit \
             `switches_per_minute_max` how often they may move to another mechanism"
                .to_owned()
        } else if let Some(via) = address.via {
            format!(
                "`via={via}` is for clients, each of which chooses; what they may choose, a \
                 server says by `allow={via}`"
            )
        } else if let Some(user) = &address.user {
            format!(
                "`user={user}` is for clients, which demand the user of a server by it; which \
                 users a server lets in, it says by its option `users`"
            )
        } else if let Some(instance) = &address.instance {
            format!(
                "`#{instance}` is for clients: an address has all objects of its server; leave it \
                 out, and register the object as `{instance}`"
            )
        } else if address.trust() == Trust::Yes {
            "a server trusts `no` client, or those of the `same-user`".to_owned()
        } else {
            return Ok(address);
        };
        Err(BadAddress { text: text.to_owned(), why })
    }

    /// Returns the error of a server whose loops have no clients of their own.
    pub(crate) fn only_in_one_loop(&self) -> BadAddress {
        let why = "`inproc:` is for clients of the same event loop, and the loops of \
                   a server with threads of its own have none: use `unix:@NAME`";
        BadAddress { text: self.to_string(), why: why.to_owned() }
    }

    /// Returns the mechanism that carries the messages; of `via=auto` the one to begin with where
    /// nothing is stored of the machine.
    pub fn mechanism(&self) -> Mechanism {
        let usual = match &self.at {
            At::Socket(Place::Tcp { .. }) => Mechanism::Tcp,
            _ => Self::MECHANISM_DEFAULT,
        };
        match self.via {
            Some(Via::Mechanism(mechanism)) => mechanism,
            Some(Via::Automatic) | None => usual,
        }
    }

    /// Returns whether the client moves the connection to what its traffic needs: `via=auto`.
    pub fn is_automatic(&self) -> bool {
        self.via == Some(Via::Automatic)
    }

    /// Returns how to wait on the connection, if the address has it.
    pub fn wait(&self) -> Option<WaitPolicy> {
        self.wait
    }

    /// Returns which peers this end trusts not to change what they have handed over: none unless
    /// the address says so.
    pub fn trust(&self) -> Trust {
        self.trust.unwrap_or_default()
    }

    /// Returns the user whose server this must be, as a name or a number, if the address says so.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns the address of the server as a whole, for the objects that each has once.
    pub(crate) fn of_server(&self) -> Self {
        Self { instance: None, ..self.clone() }
    }

    /// Which of several objects with one interface.
    pub fn instance(&self) -> Option<&str> {
        self.instance.as_deref()
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let address = Self::parse(text)?;
        match address.allow {
            None => Ok(address),
            Some(allow) => {
                let why = format!("`allow={allow}` is for servers: a client says `via=MECHANISM`");
                Err(BadAddress { text: text.to_owned(), why })
            }
        }
    }
}

impl Address {
    /// Parses the address of a server or a client.
    fn parse(text: &str) -> Result<Self, BadAddress> {
        let bad = |why: String| BadAddress { text: text.to_owned(), why };
        let (rest, instance) = match text.split_once('#') {
            Some((_, "")) => return Err(bad("an instance must follow `#`".into())),
            Some((rest, instance)) => (rest, Some(instance)),
            None => (text, None),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if let Some(instance) = instance
            && !instance.chars().all(plain)
        {
            return Err(bad("an instance has only letters, digits and `._-`".into()));
        }
        let (place, parameters) = match rest.split_once('?') {
            Some((place, parameters)) => (place, Some(parameters)),
            None => (rest, None),
        };
        let at = match place.strip_prefix("inproc:") {
            Some("") => return Err(bad("a name must follow `inproc:`".into())),
            Some(name) => At::InProcess(name.to_owned()),
            None if is_remote(place) => At::Remote(place.to_owned()),
            None => {
                check_scheme(place).map_err(bad)?;
                let place: Result<Place, _> = place.parse();
                At::Socket(place.map_err(|error| bad(error.why().to_owned()))?)
            }
        };
        let instance = instance.map(str::to_owned);
        let (via, wait, trust, user, allow) = (None, None, None, None, None);
        let mut address = Self { at, via, wait, trust, user, allow, instance };
        for parameter in parameters.into_iter().flat_map(|all| all.split('&')) {
            address.set(parameter).map_err(bad)?;
        }
        if let At::Remote(url) = &address.at {
            check_remote(url, rest, &address).map_err(bad)?;
        }
        let is_local =
            matches!(&address.at, At::Socket(place) if !matches!(place, Place::Tcp { .. }));
        if let (Some(user), false) = (&address.user, is_local) {
            let text =
                format!("`user={user}`: only of a server at a unix socket the user is known");
            return Err(bad(text));
        }
        if address.is_automatic() && (!is_local || address.wait.is_some()) {
            let why = "`via=auto`: only at a unix socket, and without `wait=`, since the wait \
                       policy goes with the mechanism";
            return Err(bad(why.to_owned()));
        }
        if let Some(allow) = address.allow {
            address
                .at
                .check_offered(allow)
                .map_err(|why| bad(format!("`allow={allow}`: {why}")))?;
        }
        Ok(address)
    }

    fn set(&mut self, parameter: &str) -> Result<(), String> {
        let twice = |name| Err(format!("`{name}` is given twice"));
        match parameter.split_once('=') {
            Some(("via", _)) if self.via.is_some() => return twice("via"),
            Some(("wait", _)) if self.wait.is_some() => return twice("wait"),
            Some(("trust", _)) if self.trust.is_some() => return twice("trust"),
            Some(("user", _)) if self.user.is_some() => return twice("user"),
            Some(("allow", _)) if self.allow.is_some() => return twice("allow"),
            Some(("user", "")) => return Err("a name or a number must follow `user=`".into()),
            Some(("user", word)) => self.user = Some(word.to_owned()),
            Some(("allow", word)) => {
                self.allow = Some(word.parse().map_err(|error| format!("{error}"))?);
            }
            Some(("trust", word)) => self.trust = Some(word.parse()?),
            Some(("via", word)) => {
                self.via = Some(match word {
                    AUTOMATIC => Via::Automatic,
                    word => Via::Mechanism(word.parse().map_err(|error| format!("{error}"))?),
                });
            }
            Some(("wait", word)) => {
                self.wait = Some(word.parse().map_err(|error| format!("{error}"))?);
            }
            _ => {
                return Err(format!(
                    "unknown parameter `{parameter}`: there are `via=MECHANISM`, `wait=POLICY`, \
                     `trust=TRUST` and `user=USER`, and for servers `allow=MECHANISMS`"
                ));
            }
        }
        Ok(())
    }
}

/// Why a server cannot listen at a place of a transport.
const NOT_LISTENED: &str = "`grpc://` is for clients; what serves gRPC is a gateway in front of \
                            the server: `nearcall gateway`";

fn check_scheme(place: &str) -> Result<(), String> {
    match place.split_once("://") {
        None | Some(("tcp", _)) => Ok(()),
        Some((scheme, _)) => Err(format!(
            "unknown scheme `{scheme}://`: there are `tcp://`, `grpc://` and `grpcs://`"
        )),
    }
}

fn is_remote(place: &str) -> bool {
    place.starts_with("grpc://") || place.starts_with("grpcs://")
}

/// Refuses what only a connection of this machine has. `rest` is the address without an instance.
fn check_remote(url: &str, rest: &str, address: &Address) -> Result<(), String> {
    let (_, hosts) = url.split_once("://").unwrap_or_default();
    let is_host = |host: &str| {
        let (name, port) = host.rsplit_once(':').unwrap_or_default();
        !name.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
    };
    if !hosts.split(',').all(is_host) {
        return Err("a host and a port must follow, such as `grpc://node2:50051`; several are \
                    separated by commas"
            .to_owned());
    }
    if let Some(instance) = &address.instance {
        return Err(format!(
            "`#{instance}`: gRPC knows no instances of an interface; expose each at a port of its \
             own"
        ));
    }
    match rest.split_once('?') {
        Some((_, parameters)) => Err(format!(
            "`{parameters}`: a connection to another machine has no mechanism to choose, no memory \
             to trust and no user that the kernel knows; leave it out (certificates say who is \
             there: `grpcs://`)"
        )),
        None => Ok(()),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at.fmt(f)?;
        let via = self.via.map(|via| format!("via={via}"));
        let wait = self.wait.map(|wait| format!("wait={wait}"));
        let trust = self.trust.map(|trust| format!("trust={trust}"));
        let user = self.user.as_ref().map(|user| format!("user={user}"));
        let allow = self.allow.map(|allow| format!("allow={allow}"));
        for (index, parameter) in [via, wait, trust, user, allow].iter().flatten().enumerate() {
            let mark = if index == 0 { '?' } else { '&' };
            write!(f, "{mark}{parameter}")?;
        }
        match &self.instance {
            Some(instance) => write!(f, "#{instance}"),
            None => Ok(()),
        }
    }
}

/// Prints like [`Display`](fmt::Display).
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_address_parses_back() {
        for text in [
            "thermostat",
            "thermostat?via=shm-futex",
            "thermostat?via=auto&trust=yes",
            "unix:/run/x.sock?wait=spin",
            "unix:@x?via=pipe&wait=poll#kitchen",
            "unix:@x?trust=yes",
            "x?via=shm&wait=spin&trust=same-user&user=root#kitchen",
            "inproc:thermostat#a",
            "grpc://node2:50051",
            "grpcs://[::1]:50051,node3:1",
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn a_server_says_what_it_allows() {
        let address = Address::of_listener("x?wait=spin&allow=shm,cma").unwrap();
        assert_eq!(address.to_string(), "x?wait=spin&allow=shm,cma");
        for (text, why) in [
            ("x?allow=", "no mechanism is named"),
            ("x?allow=shm-futx", "did you mean `shm-futex`"),
            ("x?allow=all&allow=all", "`allow` is given twice"),
            ("tcp://a:1?allow=shm", "begins over `tcp`: name that"),
            ("inproc:x?allow=all", "one way only"),
            ("x?via=cma", "`allow=cma`"),
            ("x?via=auto", "switches_per_minute_max"),
            ("x?user=root", "is for clients"),
            ("grpc://a:1", "a gateway in front of the server"),
        ] {
            let error = Address::of_listener(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_bad_address_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "it is empty"),
            ("x?via=telepathy", "unknown mechanism `telepathy`"),
            ("x?via=pip", "did you mean `pipe`"),
            ("x?via=auto&wait=spin", "without `wait=`"),
            ("tcp://a:1?via=auto", "only at a unix socket"),
            ("x?via=auto&via=shm", "`via` is given twice"),
            ("x?wait=nap", "unknown wait policy `nap`"),
            ("x?speed=high", "unknown parameter `speed=high`"),
            ("x?via=pipe&via=fifo", "`via` is given twice"),
            ("x?trust=me", "unknown trust `me`"),
            ("x?trust=no&trust=yes", "`trust` is given twice"),
            ("x?user=", "must follow `user=`"),
            ("x?user=a&user=b", "`user` is given twice"),
            ("tcp://a:1?user=root", "only of a server at a unix socket"),
            ("x?allow=shm", "is for servers"),
            ("x#", "an instance must follow"),
            ("x#a b", "an instance has only"),
            ("inproc:", "a name must follow"),
            ("unix:", "must follow `unix:`"),
            ("a/b", "a path starts with `unix:`"),
            ("grpc://", "a host and a port must follow"),
            ("grpc://a", "a host and a port must follow"),
            ("grpc://a:1,b:0", "a host and a port must follow"),
            ("grpc://:1", "a host and a port must follow"),
            ("grpcs://a:1?via=shm", "no mechanism to choose"),
            ("grpc://a:1?trust=yes", "no memory to trust"),
            ("grpc://a:1?user=root", "no user that the kernel knows"),
            ("grpc://a:1#kitchen", "no instances"),
            ("grcp://a:1", "unknown scheme `grcp://`"),
            ("https://a:1", "unknown scheme `https://`"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
