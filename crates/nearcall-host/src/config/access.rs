//! Who may connect to the socket of a service: `socket-mode` and `socket-owner`.
//!
//! **Invariants:** what lets in clients that could not reach the socket is refused.
//! **Not here:** making the file of the socket (`nearcall-channel`).

use nearcall_channel::{Address, SocketAccess};
use nearcall_os::{process, users};

/// Reads the mode and the owner of the socket at an address, in the words of the file.
///
/// # Errors
///
/// They cannot be understood, or do not fit the address: the name of the key, and the text for
/// people.
pub(super) fn parse(
    listen: &Address,
    mode: Option<&str>,
    owner: Option<&str>,
) -> Result<SocketAccess, (&'static str, String)> {
    let has_file = matches!(listen, Address::Name(_) | Address::Path(_));
    let key = if mode.is_some() { MODE } else { OWNER };
    if !has_file && (mode.is_some() || owner.is_some()) {
        let text = format!("{listen} is a socket without a file, which has neither mode nor owner");
        return Err((key, text));
    }
    let default = SocketAccess::default();
    let mode = mode.map_or(Ok(default.mode), parse_mode).map_err(|text| (MODE, text))?;
    if matches!(listen, Address::Name(_)) && mode & 0o066 != 0 {
        let text = format!(
            "mode {mode:04o} lets in other users, who cannot enter the runtime directory: give it \
             `listen = \"unix:/PATH\"` in a directory that they may enter"
        );
        return Err((MODE, text));
    }
    let owner = owner.map(parse_owner).transpose().map_err(|text| (OWNER, text))?;
    Ok(SocketAccess { mode, owner })
}

const MODE: &str = "socket-mode";
const OWNER: &str = "socket-owner";

/// Parses the mode of a socket.
fn parse_mode(text: &str) -> Result<u32, String> {
    let shown = text.escape_debug();
    let is_octal = !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
    match mode {
        None => Err(format!("`{shown}` is no mode of a socket: write one as \"0660\"")),
        Some(mode) if mode & 0o222 == 0 => Err(format!(
            "mode `{shown}` lets in no client: that takes the right to write, as \"0600\" gives it"
        )),
        Some(mode) => Ok(mode),
    }
}

/// Parses `USER:GROUP`: names or numbers, of which one may be missing.
fn parse_owner(text: &str) -> Result<(u32, u32), String> {
    let shown = text.escape_debug();
    let Some((user, group)) = text.split_once(':').filter(|_| text.len() > 1) else {
        return Err(format!(
            "`{shown}` is no owner: write \"USER:GROUP\", \"USER:\" or \":GROUP\""
        ));
    };
    let look_up = |name: &str, own: u32, kind: &str, find: Find| match name.parse() {
        _ if name.is_empty() => Ok(own),
        Ok(id) => Ok(id),
        Err(_) => match find(name) {
            Ok(Some(id)) => Ok(id),
            Ok(None) => Err(format!("there is no {kind} `{}`", name.escape_debug())),
            Err(error) => Err(format!("the {kind} `{}`: {error}", name.escape_debug())),
        },
    };
    let user = look_up(user, process::user_id(), "user", users::user_id_of)?;
    Ok((user, look_up(group, process::group_id(), "group", users::group_id_of)?))
}

type Find = fn(&str) -> std::io::Result<Option<u32>>;
