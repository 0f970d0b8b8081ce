//! The table of a gateway as that of a service: the arguments of its process, and where that
//! listens.
//!
//! **Invariants:** a gateway starts after the services of its file that it exposes, and stops
//! before them.
//! **Not here:** what a gateway does (`nearcall-grpc`), its arguments for people
//! (`nearcall-cli`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nearcall_channel::{Address, BadAddress};
use toml::Spanned;

use super::raw::{RawGateway, RawService, Run};
use super::{ConfigError, NamedFile, Source};

/// A gateway as a service.
pub(super) struct GatewayParts {
    pub(super) service: RawService,
    /// Where peers connect to.
    pub(super) sockets: Vec<Address>,
    /// The names at which it serves what other machines have.
    pub(super) forwarded: Vec<(String, Address)>,
}

/// Reads the table of one gateway. `places` are the addresses of the services of the file.
pub(super) fn parts(
    source: &Source<'_>,
    name: &Spanned<String>,
    raw: RawGateway,
    places: &BTreeMap<String, String>,
    files: &mut Vec<NamedFile>,
) -> Result<GatewayParts, ConfigError> {
    let refuse =
        |why: &str| source.error(Some(name.span()), format!("gateway `{}`: {why}", name.get_ref()));
    if let Some(why) = contradiction(&raw) {
        return Err(refuse(why));
    }
    let parse = |text: &str| {
        text.parse::<Address>().map_err(|error: BadAddress| refuse(&error.to_string()))
    };
    let sockets = raw.listen.0.iter().map(|place| parse(&format!("tcp://{place}")));
    let sockets: Vec<Address> = sockets.collect::<Result<_, _>>()?;
    let forwarded = raw.forward.keys().map(|it| Ok((it.get_ref().clone(), parse(it.get_ref())?)));
    let forwarded: Vec<(String, Address)> = forwarded.collect::<Result<_, ConfigError>>()?;

    let directory = source.path.parent().unwrap_or(Path::new("."));
    let mut arguments = vec![format!("--name={}", name.get_ref())];
    for (option, file) in named_files(&raw) {
        let path = directory.join(file.get_ref());
        arguments.push(format!("--{option}={}", path.display()));
        let (service, span) = (name.get_ref().clone(), file.span());
        files.push(NamedFile { service, run: Run::Gateway, path, span });
    }
    arguments.extend(plain_arguments(&raw, places));

    let service = service_of(raw, name, arguments, places);
    Ok(GatewayParts { service, sockets, forwarded })
}

/// Returns why the keys of a gateway do not fit together.
fn contradiction(raw: &RawGateway) -> Option<&'static str> {
    let is_url = |url: &String| url.starts_with("grpc://") || url.starts_with("grpcs://");
    if raw.expose.is_empty() && raw.forward.is_empty() {
        Some("it does nothing: write a table `expose` or `forward` below it")
    } else if raw.expose.is_empty() != raw.listen.0.is_empty() {
        Some("`listen` says where peers call what `expose` names: write both, or neither")
    } else if raw.cert.is_some() != raw.key.is_some() {
        Some("a certificate has a key: write both `cert` and `key`, or neither")
    } else if raw.client_ca.is_some() && raw.cert.is_none() {
        Some("`client-ca` needs `cert` and `key`")
    } else if raw.forward.is_empty() && (raw.ca.is_some() || raw.descriptors.is_some()) {
        Some("`ca` and `descriptors` are for `forward`")
    } else if !raw.forward.values().all(is_url) {
        Some(
            "`forward` leads to gRPC servers: write \"grpcs://HOST:PORT\", or \"grpc://HOST:PORT\"",
        )
    } else if raw.expose.values().any(Vec::is_empty) {
        Some("`expose` names the interfaces of each server: [\"home.v1.Thermostat\"]")
    } else {
        None
    }
}

fn named_files(raw: &RawGateway) -> impl Iterator<Item = (&'static str, &Spanned<PathBuf>)> {
    let files = [
        ("cert", &raw.cert),
        ("key", &raw.key),
        ("client-ca", &raw.client_ca),
        ("ca", &raw.ca),
        ("descriptors", &raw.descriptors),
    ];
    files.into_iter().filter_map(|(option, file)| Some((option, file.as_ref()?)))
}

/// Returns the arguments that name no file.
fn plain_arguments(raw: &RawGateway, places: &BTreeMap<String, String>) -> Vec<String> {
    let mut arguments = Vec::new();
    let words = [("--insecure", raw.insecure), ("--balance", raw.balance)];
    arguments.extend(words.iter().filter(|(_, is_set)| *is_set).map(|(word, _)| (*word).into()));
    arguments.extend(raw.max_message_bytes.map(|bytes| format!("--max-message-bytes={bytes}")));
    let forwarded = raw.forward.iter();
    arguments.extend(forwarded.map(|(name, url)| format!("--forward={}={url}", name.get_ref())));
    arguments.push("--".to_owned());
    arguments.extend(raw.expose.iter().map(|(server, interfaces)| {
        let address = places.get(server.get_ref()).unwrap_or(server.get_ref());
        format!("{address}={}", interfaces.join(","))
    }));
    arguments
}

/// Returns the gateway as a service.
fn service_of(
    raw: RawGateway,
    name: &Spanned<String>,
    arguments: Vec<String>,
    places: &BTreeMap<String, String>,
) -> RawService {
    let exposed = raw.expose.into_keys().filter(|server| places.contains_key(server.get_ref()));
    RawService {
        run: Run::Gateway,
        file: Spanned::new(name.span(), PathBuf::new()),
        group: None,
        arguments: Some(Spanned::new(name.span(), arguments)),
        environment: raw.environment,
        listen: None,
        socket_mode: raw.socket_mode,
        socket_owner: raw.socket_owner,
        interfaces: None,
        after: raw.after.into_iter().chain(exposed).collect(),
        restart: raw.restart,
        restart_limit: raw.restart_limit,
        back_off_min: raw.back_off_min,
        back_off_max: raw.back_off_max,
        ready_within: raw.ready_within,
        stop_within: raw.stop_within,
        watchdog: raw.watchdog,
        log_rate: raw.log_rate,
    }
}
