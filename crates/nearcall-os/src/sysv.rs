//! System V message queues.
//!
//! A queue is a number that exists until it is removed: a killed owner leaves it behind. So the
//! other end removes it too when it sees the death, and [`list`] shows what is left. There is no
//! descriptor and no timeout: to end a wait, remove the queue (the waiter gets EIDRM).
//! **Invariants:** an [`OwnedQueue`] is removed on drop.
//! **Not here:** POSIX message queues (`mqueue.rs`).
#![allow(unsafe_code, reason = "rustix has no System V queues")]

use std::io;
use std::mem::MaybeUninit;

use crate::platform;

/// A queue that this process created. It is removed on drop.
#[derive(Debug)]
pub struct OwnedQueue(i32);

/// A message behind its type, the form that the kernel reads. Reused for every send and receive.
#[derive(Debug)]
pub struct MessageBuffer {
    /// The first word is the type, the rest the body.
    words: Vec<libc::c_long>,
    body_bytes: usize,
}

/// A queue as the kernel keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Bytes it holds at most (all bodies together).
    pub bytes_max: u64,
    /// Bytes in it now.
    pub bytes: u64,
    /// Messages in it.
    pub messages: u64,
    /// The current owner.
    pub owner_uid: u32,
    /// The permission bits, as of a file.
    pub mode: u32,
}

/// The limits of this machine. `None` if the file cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one message (kernel.msgmax).
    pub message_bytes_max: Option<u64>,
    /// Bytes in one queue (kernel.msgmnb).
    pub queue_bytes_max: Option<u64>,
    /// Queues (kernel.msgmni).
    pub queues_max: Option<u64>,
}

/// One line of /proc/sysvipc/msg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The queue's number.
    pub id: i32,
    /// Bytes in it.
    pub bytes: u64,
    /// Messages in it.
    pub messages: u64,
    /// The process that sent last; zero for none.
    pub last_sender_pid: i32,
    /// The process that received last; zero for none.
    pub last_receiver_pid: i32,
    /// The user that created it.
    pub creator_uid: u32,
}

impl OwnedQueue {
    /// A new queue that only this user may use (mode 0600).
    ///
    /// # Errors
    ///
    /// ENOSPC when kernel.msgmni is reached, ENOSYS without System V IPC.
    pub fn create() -> io::Result<Self> {
        // SAFETY: msgget takes numbers only.
        match unsafe { libc::msgget(libc::IPC_PRIVATE, libc::IPC_CREAT | 0o600) } {
            -1 => Err(io::Error::last_os_error()),
            id => Ok(Self(id)),
        }
    }

    /// Its number, for the peer.
    #[must_use]
    pub fn id(&self) -> i32 {
        self.0
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        // The peer may have removed it already.
        let _ = remove(self.0);
    }
}

impl MessageBuffer {
    /// Room for bodies of up to `body_bytes`. Allocates here and nowhere else.
    #[must_use]
    pub fn with_capacity(body_bytes: usize) -> Self {
        let words = 1 + body_bytes.div_ceil(size_of::<libc::c_long>());
        Self { words: vec![0; words], body_bytes }
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        let body = &self.words[1..];
        // SAFETY: the words after the type are at least `body_bytes` initialised bytes of this
        // message, and bytes have no alignment.
        unsafe { std::slice::from_raw_parts(body.as_ptr().cast(), self.body_bytes) }
    }

    /// The body, to be written before a send.
    pub fn body_mut(&mut self) -> &mut [u8] {
        let body = &mut self.words[1..];
        // SAFETY: as in `body`; any bytes are a value of the words.
        unsafe { std::slice::from_raw_parts_mut(body.as_mut_ptr().cast(), self.body_bytes) }
    }
}

/// Sends the first `bytes` of the body with type `kind` (above zero); waits while the queue is
/// full.
///
/// # Errors
///
/// EIDRM or EINVAL when the queue is gone, EINVAL also above kernel.msgmax.
///
/// # Panics
///
/// When `bytes` exceeds the buffer.
pub fn send(queue: i32, kind: i32, message: &mut MessageBuffer, bytes: usize) -> io::Result<()> {
    send_flagged(queue, kind, message, bytes, 0).map(drop)
}

/// [`send`] that does not wait; false when the queue is full.
///
/// # Errors
///
/// As for [`send`].
///
/// # Panics
///
/// As for [`send`].
pub fn try_send(
    queue: i32,
    kind: i32,
    message: &mut MessageBuffer,
    bytes: usize,
) -> io::Result<bool> {
    send_flagged(queue, kind, message, bytes, libc::IPC_NOWAIT)
}

/// Receives the oldest message of type `kind` (zero: of any) and waits for it. Returns its length.
///
/// # Errors
///
/// EIDRM or EINVAL when the queue is gone; E2BIG when the message is longer than the buffer: it
/// stays in the queue.
pub fn receive(queue: i32, kind: i32, message: &mut MessageBuffer) -> io::Result<usize> {
    let bytes = receive_flagged(queue, kind, message, 0)?;
    bytes.ok_or_else(|| io::ErrorKind::WouldBlock.into())
}

/// [`receive`] that does not wait; `None` when there is no such message.
///
/// # Errors
///
/// As for [`receive`].
pub fn try_receive(
    queue: i32,
    kind: i32,
    message: &mut MessageBuffer,
) -> io::Result<Option<usize>> {
    receive_flagged(queue, kind, message, libc::IPC_NOWAIT)
}

/// Removes a queue with its messages; waiting calls fail with EIDRM.
///
/// # Errors
///
/// EINVAL when it is gone, EPERM when it is another user's.
pub fn remove(queue: i32) -> io::Result<()> {
    // SAFETY: IPC_RMID ignores the pointer.
    match unsafe { libc::msgctl(queue, libc::IPC_RMID, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The size of a queue and how full it is.
///
/// # Errors
///
/// EINVAL when it is gone.
pub fn stat(queue: i32) -> io::Result<Stat> {
    let mut stat = MaybeUninit::<libc::msqid_ds>::zeroed();
    // SAFETY: the pointer is to a local of the right type.
    if unsafe { libc::msgctl(queue, libc::IPC_STAT, stat.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: filled by the kernel; plain integers.
    let stat = unsafe { stat.assume_init() };
    Ok(Stat {
        bytes_max: platform::count(stat.msg_qbytes),
        bytes: platform::count(stat.__msg_cbytes),
        messages: platform::count(stat.msg_qnum),
        owner_uid: stat.msg_perm.uid,
        mode: u32::from(stat.msg_perm.mode) & 0o777,
    })
}

/// Returns whether this error of a send or a receive means that the queue was removed, if the
/// arguments were right.
#[must_use]
pub fn means_removed(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIDRM | libc::EINVAL))
}

/// Reads the limits of this machine.
#[must_use]
pub fn limits() -> Limits {
    let read = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
        text.trim().parse().ok()
    };
    Limits {
        message_bytes_max: read("msgmax"),
        queue_bytes_max: read("msgmnb"),
        queues_max: read("msgmni"),
    }
}

/// The queues that this user made. For leak checks: reads /proc/sysvipc/msg.
///
/// # Errors
///
/// When the file cannot be read.
pub fn list() -> io::Result<Vec<Entry>> {
    let text = std::fs::read_to_string("/proc/sysvipc/msg")?;
    let uid = rustix::process::geteuid().as_raw();
    Ok(parse_list(&text).into_iter().filter(|entry| entry.creator_uid == uid).collect())
}

/// Reads the text of /proc/sysvipc/msg. Lines that cannot be read are left out.
#[must_use]
pub fn parse_list(text: &str) -> Vec<Entry> {
    let entry = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        Some(Entry {
            id: fields.get(1)?.parse().ok()?,
            bytes: fields.get(3)?.parse().ok()?,
            messages: fields.get(4)?.parse().ok()?,
            last_sender_pid: fields.get(5)?.parse().ok()?,
            last_receiver_pid: fields.get(6)?.parse().ok()?,
            creator_uid: fields.get(9)?.parse().ok()?,
        })
    };
    text.lines().skip(1).filter_map(entry).collect()
}

fn send_flagged(
    queue: i32,
    kind: i32,
    message: &mut MessageBuffer,
    bytes: usize,
    flags: libc::c_int,
) -> io::Result<bool> {
    assert!(bytes <= message.body_bytes, "{bytes} bytes of {}", message.body_bytes);
    message.words[0] = kind.into();
    loop {
        // SAFETY: the words hold the type and then at least `bytes` bytes of body.
        let outcome = unsafe { libc::msgsnd(queue, message.words.as_ptr().cast(), bytes, flags) };
        if outcome == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN) => return Ok(false),
            _ => return Err(error),
        }
    }
}

fn receive_flagged(
    queue: i32,
    kind: i32,
    message: &mut MessageBuffer,
    flags: libc::c_int,
) -> io::Result<Option<usize>> {
    let room = message.body_bytes;
    loop {
        let words = message.words.as_mut_ptr().cast();
        // SAFETY: the words have place for the type and then for `room` bytes of body.
        let outcome = unsafe { libc::msgrcv(queue, words, room, kind.into(), flags) };
        if let Ok(bytes) = usize::try_from(outcome) {
            return Ok(Some(bytes));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ENOMSG) => return Ok(None),
            _ => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read_and_a_broken_line_left_out() {
        let text = "key msqid perms cbytes qnum lspid lrpid uid gid cuid cgid stime rtime ctime\n\
                    0   3   600     12    2    41    42   7   8    9   10     0     0 1700000000\n\
                    broken line\n";
        let expected = Entry {
            id: 3,
            bytes: 12,
            messages: 2,
            last_sender_pid: 41,
            last_receiver_pid: 42,
            creator_uid: 9,
        };
        assert_eq!(parse_list(text), [expected]);
        assert_eq!(parse_list(""), []);
    }
}
