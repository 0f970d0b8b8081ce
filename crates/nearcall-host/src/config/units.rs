//! How the services of a file become units, and what must fit together for that.
//!
//! **Invariants:** no two services listen at one address; members of a group agree on what concerns
//! the group as a whole.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use nearcall_channel::{Address, BadAddress, SocketAccess};
use toml::Spanned;

use super::order::order;
use super::raw::{RawGateway, RawService, Restart, Run, Span};
use super::{ConfigError, NamedFile, Policy, Service, Source, Unit, UnitName};
use super::{access, gateway};
use crate::limits::{
    BACK_OFF_MAX_DEFAULT, BACK_OFF_MIN_DEFAULT, LOG_RATE_DEFAULT, READY_WITHIN_DEFAULT,
    RESTART_LIMIT_DEFAULT, SERVICES_MAX, STOP_WITHIN_DEFAULT,
};

type RawServices = BTreeMap<Spanned<String>, RawService>;
type RawGateways = BTreeMap<Spanned<String>, RawGateway>;

/// A unit and what its members said of it.
struct Draft {
    unit: Unit,
    /// Services that must be up before it, and where the file says so.
    after: Vec<(String, Range<usize>)>,
    /// Where it begins.
    span: Range<usize>,
}

/// Makes the units of the services of a file, in the order in which they can be started.
pub(super) fn from_raw(
    source: &Source<'_>,
    tables: (RawServices, RawGateways),
    host: &Address,
) -> Result<(Vec<Rc<Unit>>, Vec<NamedFile>), ConfigError> {
    let mut files = Vec::new();
    let mut drafts: Vec<Draft> = Vec::new();
    let mut taken: Vec<(Address, String)> = vec![(host.clone(), "the host itself".to_owned())];
    for draft in in_file(source, tables, &mut files)? {
        for service in &draft.unit.services {
            let mut others = drafts.iter().flat_map(|other| &other.unit.services);
            let is_joined = matches!(draft.unit.name, UnitName::Group(_));
            if !is_joined && others.any(|other| other.name == service.name) {
                let text = format!("two services have the name `{}`: rename one", service.name);
                return Err(source.error(Some(draft.span), text));
            }
            for place in service.addresses() {
                if let Some((_, other)) = taken.iter().find(|(address, _)| address == place) {
                    let text = format!(
                        "service `{}` listens at {place}, and so does {other}: give one of them \
                         another `listen`",
                        service.name
                    );
                    return Err(source.error(Some(draft.span), text));
                }
                taken.push((place.clone(), format!("service `{}`", service.name)));
            }
        }
        let group = drafts.iter_mut().find(|other| other.unit.name == draft.unit.name);
        match group {
            Some(group) if matches!(draft.unit.name, UnitName::Group(_)) => {
                join(source, group, draft)?;
            }
            _ => drafts.push(draft),
        }
    }
    Ok((in_order(source, drafts)?, files))
}

/// Makes a unit of each service and gateway, in the order of the file.
fn in_file(
    source: &Source<'_>,
    (services, gateways): (RawServices, RawGateways),
    files: &mut Vec<NamedFile>,
) -> Result<Vec<Draft>, ConfigError> {
    if services.is_empty() && gateways.is_empty() {
        return Err(source.error(None, "it names no service: write a table `[service.NAME]`"));
    }
    let forwarded: usize = gateways.values().map(|gateway| gateway.forward.len()).sum();
    let count = services.len() + gateways.len() + forwarded;
    if count > SERVICES_MAX {
        let text =
            format!("{count} services are more than the {SERVICES_MAX} of one host: run two");
        return Err(source.error(None, text));
    }
    let place = |(name, service): (&Spanned<String>, &RawService)| {
        let listen = service.listen.as_ref().map_or(name.get_ref(), Spanned::get_ref);
        (name.get_ref().clone(), listen.clone())
    };
    let places: BTreeMap<String, String> = services.iter().map(place).collect();
    let mut drafts = Vec::new();
    let mut services: Vec<_> = services.into_iter().collect();
    services.sort_by_key(|(name, _)| name.span().start);
    for (name, raw) in services {
        drafts.push(draft(source, &name, raw, files)?);
    }
    for (name, raw) in gateways {
        let parts = gateway::parts(source, &name, raw, &places, files)?;
        let mut draft = draft(source, &name, parts.service, files)?;
        let own = draft.unit.services[0].clone();
        let forwarded = parts.forwarded.into_iter();
        let forwarded = forwarded.map(|(name, listen)| Service { name, listen, ..own.clone() });
        draft.unit.services.extend(forwarded);
        draft.unit.services[0].sockets = parts.sockets;
        drafts.push(draft);
    }
    drafts.sort_by_key(|draft| draft.span.start);
    Ok(drafts)
}

/// Makes the unit of one service.
fn draft(
    source: &Source<'_>,
    name: &Spanned<String>,
    raw: RawService,
    files: &mut Vec<NamedFile>,
) -> Result<Draft, ConfigError> {
    let span = name.span();
    let name = name.get_ref().clone();
    let bad_name = |error: BadAddress| {
        source.error(Some(span.clone()), format!("bad name of a service `{name}`: {}", error.why()))
    };
    match name.parse().map_err(bad_name)? {
        Address::Name(_) => {}
        _ => {
            let text = format!(
                "bad name of a service `{name}`: write an address as `listen`, and a plain name \
                 here"
            );
            return Err(source.error(Some(span), text));
        }
    }
    let listen = match &raw.listen {
        None => Address::Name(name.clone()),
        Some(text) => text.get_ref().parse().map_err(|error: BadAddress| {
            source.error(Some(text.span()), format!("service `{name}`: {error}"))
        })?,
    };
    let access = socket_access(source, &name, &listen, &raw)?;
    check_library_keys(source, &name, &raw)?;
    let directory = source.path.parent().unwrap_or(Path::new("."));
    let file = directory.join(raw.file.get_ref());
    let policy = policy(source, &name, &raw)?;
    // A gateway has no file of its own.
    if raw.run != Run::Gateway {
        files.push(NamedFile {
            service: name.clone(),
            run: raw.run,
            path: file.clone(),
            span: raw.file.span(),
        });
    }
    check_texts(source, &name, &raw)?;
    let unit_name = match raw.group {
        Some(group) => UnitName::Group(group.into_inner()),
        None => UnitName::Service(name.clone()),
    };
    let service = Service {
        name,
        run: raw.run,
        file,
        arguments: raw.arguments.map(Spanned::into_inner).unwrap_or_default(),
        listen,
        sockets: Vec::new(),
        access,
        interfaces: raw.interfaces.map(Spanned::into_inner).unwrap_or_default(),
        watchdog: raw.watchdog.map(|Span(span)| span),
    };
    let unit = Unit {
        name: unit_name,
        services: vec![service],
        after: Vec::new(),
        environment: raw.environment.map(Spanned::into_inner).unwrap_or_default(),
        policy,
        ready_within: raw.ready_within.map_or(READY_WITHIN_DEFAULT, |Span(span)| span),
        stop_within: raw.stop_within.map_or(STOP_WITHIN_DEFAULT, |Span(span)| span),
        log_rate: raw.log_rate.unwrap_or(LOG_RATE_DEFAULT),
    };
    let after = raw.after.into_iter().map(|name| (name.get_ref().clone(), name.span())).collect();
    Ok(Draft { unit, after, span })
}

/// Returns who may connect to a service.
fn socket_access(
    source: &Source<'_>,
    name: &str,
    listen: &Address,
    raw: &RawService,
) -> Result<SocketAccess, ConfigError> {
    let text = |it: &Option<Spanned<String>>| it.as_ref().map(|it| it.get_ref().clone());
    let (mode, owner) = (text(&raw.socket_mode), text(&raw.socket_owner));
    access::parse(listen, mode.as_deref(), owner.as_deref()).map_err(|(key, why)| {
        let named = if key == "socket-mode" { &raw.socket_mode } else { &raw.socket_owner };
        let span = named.as_ref().map(Spanned::span);
        source.error(span, format!("service `{name}`: `{key}`: {why}"))
    })
}

/// Refuses keys that only a library has for a service that is none.
fn check_library_keys(
    source: &Source<'_>,
    name: &str,
    raw: &RawService,
) -> Result<(), ConfigError> {
    if raw.run == Run::Library {
        return Ok(());
    }
    let group = raw.group.as_ref().map(|group| ("group", group.span()));
    let interfaces = raw.interfaces.as_ref().map(|interfaces| ("interfaces", interfaces.span()));
    match group.or(interfaces) {
        None => Ok(()),
        Some((key, span)) => {
            let text = format!(
                "service `{name}`: `{key}` is for libraries: write `run = \"library\"`, or leave \
                 it out"
            );
            Err(source.error(Some(span), text))
        }
    }
}

/// Refuses what no process can be given.
fn check_texts(source: &Source<'_>, name: &str, raw: &RawService) -> Result<(), ConfigError> {
    if let Some(arguments) = &raw.arguments
        && arguments.get_ref().iter().any(|argument| argument.contains('\0'))
    {
        let text = format!("service `{name}`: an argument has a zero byte");
        return Err(source.error(Some(arguments.span()), text));
    }
    let Some(environment) = &raw.environment else { return Ok(()) };
    for (key, value) in environment.get_ref() {
        let text = if RESERVED.contains(&key.as_str()) {
            format!("service `{name}`: the host sets {key} itself: leave it out")
        } else if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
            format!("service `{name}`: `{}` is no variable", key.escape_debug())
        } else {
            continue;
        };
        return Err(source.error(Some(environment.span()), text));
    }
    Ok(())
}

/// Variables by which the host hands over sockets.
const RESERVED: [&str; 4] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NEARCALL_LISTEN"];

fn policy(source: &Source<'_>, name: &str, raw: &RawService) -> Result<Policy, ConfigError> {
    let restart = raw.restart.as_ref().map_or(Restart::default(), |it| *it.get_ref());
    let limit = raw.restart_limit.as_ref().map_or(RESTART_LIMIT_DEFAULT, |it| *it.get_ref());
    let span = |it: &Option<Spanned<Span>>| it.as_ref().map(|it| it.get_ref().0);
    let back_off_max = span(&raw.back_off_max);
    let back_off_min = span(&raw.back_off_min);
    let at = raw.back_off_min.as_ref().or(raw.back_off_max.as_ref()).map(Spanned::span);
    let (min, max) = match (back_off_min, back_off_max) {
        (Some(min), None) => (min, min.max(BACK_OFF_MAX_DEFAULT)),
        (None, Some(max)) => (max.min(BACK_OFF_MIN_DEFAULT), max),
        (min, max) => (min.unwrap_or(BACK_OFF_MIN_DEFAULT), max.unwrap_or(BACK_OFF_MAX_DEFAULT)),
    };
    if min > max {
        let text = format!(
            "service `{name}`: `back-off-min`, {min:?}, is above `back-off-max`, {max:?}: exchange \
             them"
        );
        return Err(source.error(at, text));
    }
    let limit = (limit > 0).then_some(limit);
    Ok(Policy { restart, limit, back_off_min: min, back_off_max: max })
}

/// Adds a further member to a group.
fn join(source: &Source<'_>, group: &mut Draft, member: Draft) -> Result<(), ConfigError> {
    let Draft { unit, after, span } = member;
    let (first, name) = (&group.unit.services[0].name, &unit.services[0].name);
    let whole = "its process is started, restarted and stopped as a whole";
    if unit.policy != group.unit.policy {
        let text = format!(
            "service `{name}` has another restart policy than `{first}` of the same group, {}, and \
             {whole}: give them the same `restart`, `restart-limit`, `back-off-min` and \
             `back-off-max`",
            unit.name
        );
        return Err(source.error(Some(span), text));
    }
    for (key, value) in &unit.environment {
        if group.unit.environment.get(key).is_some_and(|other| other != value) {
            let text = format!(
                "service `{name}` sets {key} to another value than `{first}` of the same group, \
                 {}, and their process has one environment: move one of them out of the group",
                unit.name
            );
            return Err(source.error(Some(span), text));
        }
    }
    group.unit.environment.extend(unit.environment);
    let longest = |one: Duration, other: Duration| one.max(other);
    group.unit.ready_within = longest(group.unit.ready_within, unit.ready_within);
    group.unit.stop_within = longest(group.unit.stop_within, unit.stop_within);
    group.unit.log_rate = group.unit.log_rate.max(unit.log_rate);
    group.unit.services.extend(unit.services);
    group.after.extend(after);
    Ok(())
}

/// Resolves what the units need, and orders them by it.
fn in_order(source: &Source<'_>, drafts: Vec<Draft>) -> Result<Vec<Rc<Unit>>, ConfigError> {
    let with = |service: &str| {
        let has = |draft: &Draft| draft.unit.services.iter().any(|it| it.name == service);
        drafts.iter().position(has)
    };
    let mut needs: Vec<Vec<usize>> = Vec::with_capacity(drafts.len());
    for (number, draft) in drafts.iter().enumerate() {
        let mut needed = Vec::new();
        for (service, span) in &draft.after {
            let Some(unit) = with(service) else {
                let text = format!(
                    "{} starts after `{service}`, and there is no service of that name",
                    draft.unit.name
                );
                return Err(source.error(Some(span.clone()), text));
            };
            // Members of one group start together; a service that needs itself is a circle.
            let is_itself = draft.unit.services.len() == 1;
            if (unit != number || is_itself) && !needed.contains(&unit) {
                needed.push(unit);
            }
        }
        needs.push(needed);
    }
    let order = order(drafts.len(), |unit| &needs[unit]).map_err(|circle| {
        let name = |unit: &usize| drafts[*unit].unit.name.to_string();
        let names: Vec<_> = circle.iter().chain(circle.first()).map(name).collect();
        let text = format!(
            "a circle of dependencies: {}: take one `after` out",
            names.join(" starts after ")
        );
        source.error(circle.first().map(|unit| drafts[*unit].span.clone()), text)
    })?;
    let names: Vec<_> = drafts.iter().map(|draft| draft.unit.name.clone()).collect();
    let mut units: Vec<_> = drafts.into_iter().map(|draft| Some(draft.unit)).collect();
    let take = |number: usize| {
        let after = needs[number].iter().map(|needed| names[*needed].clone()).collect();
        units[number].take().map(|unit| Rc::new(Unit { after, ..unit }))
    };
    Ok(order.into_iter().filter_map(take).collect())
}
