//! What a server says of one of its listeners, beside the address.
//!
//! **Invariants:** options that contradict each other or the address are refused before anything
//! listens.
//! **Not here:** what follows for clients (`listen_policy.rs`), the file of the socket
//! (`nearcall-channel`).

use std::path::Path;
use std::time::Duration;

use nearcall_channel::{Address as Place, MechanismSet, SOCKET_MODE_DEFAULT, SocketAccess};
use nearcall_os::process;

use crate::address::{Address, At};
use crate::limits::Limits;
use crate::listen_policy::ListenPolicy;

/// The options of one listener: who may connect, by which mechanisms, and within which limits.
///
/// Whatever is not said is as the server has it ([`Limits`]), and every user may connect who can
/// reach the socket. Its file is for its own user only, unless [`users`](Self::users),
/// [`groups`](Self::groups) or [`socket_mode`](Self::socket_mode) say more.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use nearcall::{EventLoop, Server};
/// use nearcall::server::ListenOptions;
///
/// let event_loop = EventLoop::new()?;
/// let server = Server::new(&event_loop);
/// let options = ListenOptions::new()
///     .users([0, 1000]) // Whoever else connects is refused with the reason.
///     .message_bytes_max(64 << 10)
///     .deadline_max(Duration::from_secs(10));
/// server.listen_with("unix:@doc-of-listen-options", &options)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct ListenOptions {
    mechanisms: Option<MechanismSet>,
    users: Option<Vec<u32>>,
    groups: Option<Vec<u32>>,
    socket_mode: Option<u32>,
    socket_owner: Option<(u32, u32)>,
    deadline_max: Option<Duration>,
    message_bytes_max: Option<u32>,
}

impl ListenOptions {
    /// Returns options that say nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the mechanisms that clients may choose from, as `?allow=` in the address does.
    #[must_use]
    pub fn mechanisms(mut self, offered: impl Into<MechanismSet>) -> Self {
        self.mechanisms = Some(offered.into());
        self
    }

    /// Lets in only clients of these user ids, by what the kernel knows of the process that
    /// connects, and of the groups of [`groups`](Self::groups). Whoever holds a connection that
    /// such a process has made counts as its user.
    #[must_use]
    pub fn users(mut self, uids: impl IntoIterator<Item = u32>) -> Self {
        self.users = Some(uids.into_iter().collect());
        self
    }

    /// Lets in only clients of these group ids, supplementary groups included, and the users of
    /// [`users`](Self::users).
    #[must_use]
    pub fn groups(mut self, gids: impl IntoIterator<Item = u32>) -> Self {
        self.groups = Some(gids.into_iter().collect());
        self
    }

    /// Sets the mode of the file of the socket, whatever the umask is. Processes with the right to
    /// write may connect. By default it is `0o600`, and `0o666` where users or groups are given,
    /// since those are checked for each client.
    #[must_use]
    pub fn socket_mode(mut self, mode: u32) -> Self {
        self.socket_mode = Some(mode);
        self
    }

    /// Gives the file of the socket to a user and a group, which takes the privilege to do so.
    #[must_use]
    pub fn socket_owner(mut self, uid: u32, gid: u32) -> Self {
        self.socket_owner = Some((uid, gid));
        self
    }

    /// Sets the longest deadline that clients of this listener are granted:
    /// [`Limits::deadline_max`].
    #[must_use]
    pub fn deadline_max(mut self, longest: Duration) -> Self {
        self.deadline_max = Some(longest);
        self
    }

    /// Sets the longest message, in bytes: [`Limits::message_bytes_max`].
    #[must_use]
    pub fn message_bytes_max(mut self, bytes: u32) -> Self {
        self.message_bytes_max = Some(bytes);
        self
    }

    /// Returns whether they say who may reach the socket.
    pub(super) fn ask_for_access(&self) -> bool {
        let Self { users, groups, socket_mode, socket_owner, .. } = self;
        users.is_some() || groups.is_some() || socket_mode.is_some() || socket_owner.is_some()
    }

    /// Returns the policy of a listener at `address` of a server with these limits, and who may
    /// reach its socket.
    ///
    /// # Errors
    ///
    /// What contradicts what: the text for people.
    pub(super) fn policy(
        &self,
        address: &Address,
        limits: Limits,
    ) -> Result<(ListenPolicy, SocketAccess), String> {
        let limits = Limits {
            message_bytes_max: self.message_bytes_max.unwrap_or(limits.message_bytes_max),
            deadline_max: self.deadline_max.unwrap_or(limits.deadline_max),
            ..limits
        };
        limits.check()?;
        let offered = match (address.allow, self.mechanisms) {
            (Some(allow), Some(own)) if allow != own => {
                return Err(format!(
                    "`?allow={allow}` in the address contradicts the option `mechanisms`, \
                     {own}: say it in one place"
                ));
            }
            (allow, own) => allow.or(own).unwrap_or_default(),
        };
        if offered.is_empty() {
            return Err("the option `mechanisms` names none, so no client could connect".into());
        }
        self.check_place(address)?;
        let access = self.access(address)?;
        let (users, groups) = (self.users.clone(), self.groups.clone());
        let (wait, trust) = (address.wait, address.trust());
        Ok((ListenPolicy { wait, trust, offered, users, groups, limits }, access))
    }

    /// Returns an error if an option means nothing at this place.
    fn check_place(&self, address: &Address) -> Result<(), String> {
        let is_local =
            matches!(&address.at, At::Socket(Place::Name(_) | Place::Path(_) | Place::Abstract(_)));
        let has_file = matches!(&address.at, At::Socket(Place::Name(_) | Place::Path(_)));
        let names_users = self.users.is_some() || self.groups.is_some();
        if names_users && !is_local {
            return Err("the options `users` and `groups` need a unix socket: elsewhere the \
                        kernel knows no user of a client"
                .into());
        }
        if let Some(offered) = self.mechanisms {
            let checked = address.at.check_offered(offered);
            checked.map_err(|why| format!("the option `mechanisms`: {why}"))?;
        }
        if (self.socket_mode.is_some() || self.socket_owner.is_some()) && !has_file {
            return Err("the options `socket_mode` and `socket_owner` need a socket with a \
                        file: `NAME` or `unix:/path`"
                .into());
        }
        let is_empty = |ids: &Option<Vec<u32>>| ids.as_ref().is_none_or(Vec::is_empty);
        if names_users && is_empty(&self.users) && is_empty(&self.groups) {
            return Err("the options `users` and `groups` name none, so no client could \
                        connect"
                .into());
        }
        Ok(())
    }

    /// Returns who may reach the socket.
    fn access(&self, address: &Address) -> Result<SocketAccess, String> {
        let names_users = self.users.is_some() || self.groups.is_some();
        let mode = self.socket_mode.unwrap_or(match (names_users, &address.at) {
            (true, At::Socket(Place::Path(_))) => 0o666,
            _ => SOCKET_MODE_DEFAULT,
        });
        if mode & !0o777 != 0 {
            return Err(format!(
                "the option `socket_mode` is {mode:#o}: it has bits above 0o777, which a socket \
                 does not have"
            ));
        }
        if mode & 0o222 == 0 {
            return Err(format!(
                "the option `socket_mode` is {mode:#o}: it lets no process connect, which takes \
                 the right to write, as 0o600 gives it"
            ));
        }
        let server = process::user_id();
        let owner = self.socket_owner.map_or(server, |(uid, _)| uid);
        let is_other = |uid: &&u32| **uid != 0 && **uid != owner;
        let other = self.users.iter().flatten().find(is_other);
        match &address.at {
            At::Socket(Place::Name(name)) => {
                let cannot_enter = |client: String| {
                    format!(
                        "{client} cannot reach `{name}`: the runtime directory is for user \
                         {server} only; listen at `unix:/path` in a directory that others may enter"
                    )
                };
                if let Some(uid) =
                    self.users.iter().flatten().find(|uid| ![0, server].contains(uid))
                {
                    return Err(cannot_enter(format!("user {uid} of the option `users`")));
                }
                if mode & 0o066 != 0 {
                    return Err(cannot_enter(format!(
                        "another user that the `socket_mode` {mode:#o} lets in"
                    )));
                }
            }
            At::Socket(Place::Path(path)) => {
                if let Some(uid) = other.filter(|_| mode & 0o022 == 0) {
                    return Err(format!(
                        "user {uid} of the option `users` cannot connect: \
                         the `socket_mode` {mode:#o} lets in user {owner} only"
                    ));
                }
                check_entry(path, mode, owner)?;
            }
            _ => {}
        }
        Ok(SocketAccess { mode, owner: self.socket_owner })
    }
}

/// Returns an error if the mode of a socket lets users in who cannot enter its directory.
fn check_entry(path: &Path, mode: u32, owner: u32) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let directory = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A directory that is not there is refused where the socket is made.
    let Ok(metadata) = std::fs::metadata(directory) else { return Ok(()) };
    let (directory, own_mode) = (directory.display(), metadata.mode() & 0o777);
    let needs = |client: &str, bit: u32| {
        format!(
            "the `socket_mode` {mode:#o} lets {client} in, and the directory {directory} with mode \
             {own_mode:04o} does not: give it the right to enter, {bit:#o}, or use another"
        )
    };
    if mode & 0o002 != 0 && own_mode & 0o001 == 0 {
        return Err(needs("all users", 0o001));
    }
    if mode & 0o020 != 0 && own_mode & 0o011 == 0 {
        return Err(needs("its group", 0o010));
    }
    if mode & 0o200 != 0 && owner != 0 && metadata.uid() == owner && own_mode & 0o100 == 0 {
        return Err(needs(&format!("user {owner}"), 0o100));
    }
    Ok(())
}
