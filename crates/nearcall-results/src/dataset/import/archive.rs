//! The files of an archive, read into memory within limits.
//!
//! **Invariants:** nothing is written to disk and no name is ever used as a path; every amount that
//! the archive can claim is judged before it is read. A name that would lead out of the archive
//! when it is unpacked is refused all the same: such an archive is not what it says it is.

use std::collections::BTreeMap;
use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use tar::EntryType;

/// What is needed of an archive.
#[derive(Debug, Default)]
pub(super) struct Archive {
    /// Name below the archive's own directory (`logs/cpuinfo`) and text.
    pub(super) files: BTreeMap<String, String>,
    /// When the first and the last file of the results were written, in seconds since 1970.
    pub(super) written_unix_s: (u64, u64),
    /// A hash of names and texts: distinguishes two archives without a machine.
    pub(super) hash: u64,
}

/// How much is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) archive_bytes: u64,
    pub(super) unpacked_bytes: u64,
    pub(super) entries: u64,
    pub(super) entry_bytes: u64,
}

/// Those that hold outside of tests.
pub(super) const LIMITS: Limits = Limits {
    archive_bytes: ARCHIVE_BYTES_MAX,
    unpacked_bytes: UNPACKED_BYTES_MAX,
    entries: ENTRIES_MAX,
    entry_bytes: ENTRY_BYTES_MAX,
};

impl Archive {
    pub(super) fn read_gzip(gzip: impl Read, limits: &Limits) -> Result<Self, ImportError> {
        // One more than is allowed: a reader that gets it has passed the limit.
        let mut input = gzip.take(limits.archive_bytes + 1);
        let mut magic = Vec::new();
        input.by_ref().take(2).read_to_end(&mut magic)?;
        match &magic[..] {
            [] => return Err(ImportError::Empty),
            [0x1f, 0x8b] => {}
            _ => return Err(ImportError::NotGzip),
        }
        let unpacked = MultiGzDecoder::new(magic.as_slice().chain(&mut input));
        let archive = Self::read_tar(unpacked, limits);
        if input.limit() == 0 {
            Err(ImportError::larger("larger", ARCHIVE_BYTES_MAX))
        } else {
            archive
        }
    }

    pub(super) fn read_tar(tar: impl Read, limits: &Limits) -> Result<Self, ImportError> {
        let mut input = tar.take(limits.unpacked_bytes + 1);
        let archive = Self::read_entries(&mut input, limits);
        if input.limit() == 0 {
            Err(ImportError::larger("unpacks to more", UNPACKED_BYTES_MAX))
        } else {
            archive
        }
    }

    fn read_entries(input: impl Read, limits: &Limits) -> Result<Self, ImportError> {
        let mut tar = tar::Archive::new(input);
        let mut archive = Self { written_unix_s: (u64::MAX, 0), ..Self::default() };
        let mut root: Option<String> = None;
        let mut entries = 0;
        for entry in tar.entries()? {
            let mut entry = entry?;
            entries += 1;
            if entries > limits.entries {
                let text = format!("more than {ENTRIES_MAX} files and directories");
                return Err(ImportError::TooMuch(text));
            }
            let name = safe_name(&entry.path_bytes())?;
            let kind = entry.header().entry_type();
            if let Some(link) = entry.link_name_bytes() {
                check_link(&name, &link, kind)?;
            }
            if !matches!(kind, EntryType::Regular | EntryType::Continuous) {
                continue;
            }
            let Some((directory, inside)) = split(&name) else { continue };
            if root.get_or_insert_with(|| directory.to_owned()) != directory {
                return Err(ImportError::Form(format!(
                    "data of two machines: {} lies in another directory than what came before",
                    shown(name.as_bytes())
                )));
            }
            if !is_wanted(inside) {
                continue;
            }
            let size = entry.size();
            if size > limits.entry_bytes {
                let what = format!("the file {} has {size} bytes, more", shown(name.as_bytes()));
                return Err(ImportError::larger(&what, ENTRY_BYTES_MAX));
            }
            // A time beyond 2100 is no time.
            let time_s = entry.header().mtime().ok().filter(|&time| time < 4_102_444_800);
            if let Some(time_s) = time_s.filter(|_| inside.starts_with("results/")) {
                let (first, last) = archive.written_unix_s;
                archive.written_unix_s = (first.min(time_s), last.max(time_s));
            }
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            archive.keep(inside, &bytes);
        }
        // To the end, so that a cut or damaged one is noticed behind the last file too.
        io::copy(&mut tar.into_inner(), &mut io::sink())?;
        if entries == 0 {
            return Err(ImportError::Empty);
        }
        let (first, last) = archive.written_unix_s;
        archive.written_unix_s = (first.min(last), last);
        Ok(archive)
    }

    fn keep(&mut self, name: &str, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let piece = format!("{name}\0{text}\0");
        self.hash = self.hash.rotate_left(5) ^ crate::run::fnv1a(piece.as_bytes());
        // Of two files of one name the later one counts, as when unpacking.
        self.files.insert(name.to_owned(), text);
    }
}

/// The name without `./`, if it stays inside.
///
/// Names come in entries of their own, which the library reads whole and the limits of files do
/// not bound; that of all that is unpacked does. What is made of a name stays small.
fn safe_name(bytes: &[u8]) -> Result<String, ImportError> {
    if bytes.len() > NAME_BYTES_MAX {
        return Err(too_long(bytes));
    }
    let is_safe = |name: &&str| {
        let leads_out = name.split('/').any(|part| part == "..");
        !leads_out && !name.starts_with('/') && !name.contains(['\0', '\\'])
    };
    let name = str::from_utf8(bytes).ok().filter(is_safe);
    let name = name.ok_or_else(|| {
        ImportError::Unsafe(format!("the name {} leads out of the archive", shown(bytes)))
    })?;
    let parts: Vec<&str> = name.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    Ok(parts.join("/"))
}

fn too_long(name: &[u8]) -> ImportError {
    let name = shown(name);
    ImportError::Unsafe(format!("a name or link of more than {NAME_BYTES_MAX} bytes: {name}"))
}

/// Refuses a link that leads out of the archive. One that stays inside is not followed.
fn check_link(name: &str, link: &[u8], kind: EntryType) -> Result<(), ImportError> {
    if link.len() > NAME_BYTES_MAX {
        return Err(too_long(name.as_bytes()));
    }
    let refused = || {
        let (name, to) = (shown(name.as_bytes()), shown(link));
        ImportError::Unsafe(format!("the link {name} leads out of the archive, to {to}"))
    };
    let link = str::from_utf8(link).map_err(|_| refused())?;
    if link.starts_with('/') {
        return Err(refused());
    }
    // A hard link counts from the top, a symbolic one from its own directory.
    let mut depth = match kind {
        EntryType::Symlink => name.split('/').count() - 1,
        _ => 0,
    };
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.checked_sub(1).ok_or_else(refused)?,
            _ => depth += 1,
        }
    }
    Ok(())
}

/// The archive's own directory (`tmp/tmpAbCdEf`), and the name inside it.
fn split(name: &str) -> Option<(&str, &str)> {
    let starts = ["logs/", "results/"].into_iter().filter_map(|part| {
        let inner = format!("/{part}");
        if name.starts_with(part) { Some(0) } else { name.find(&inner).map(|at| at + 1) }
    });
    let at = starts.min()?;
    Some((&name[..at], &name[at..]))
}

/// Whether a file has something that is kept.
fn is_wanted(name: &str) -> bool {
    match name.strip_prefix("results/") {
        Some(result) => match result.strip_prefix("lat/") {
            Some(matrix) => matrix.ends_with(".csv") && !matrix.contains('/'),
            None => result.ends_with("_thr-headline.log") && !result.contains('/'),
        },
        None => name.starts_with("logs/"),
    }
}

/// A name from the archive, harmless and short.
fn shown(bytes: &[u8]) -> String {
    // A character has at most four bytes.
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * SHOWN_CHARS)]);
    text.chars().take(SHOWN_CHARS).flat_map(char::escape_debug).collect()
}

/// Why an archive gave no run.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// There is nothing in it.
    #[error("an empty archive")]
    Empty,
    /// It is not compressed by gzip.
    #[error("not a gzip file")]
    NotGzip,
    /// It ends too early.
    #[error("cut off: the archive ends inside")]
    CutOff,
    /// It has more than is read of one; the text names the limit.
    #[error("{0}")]
    TooMuch(String),
    /// A name or a link leads out of it or is too long; the text has its beginning.
    #[error("refused: {0}")]
    Unsafe(String),
    /// It is safe and has no figures of the right form, or those of two machines.
    #[error("{0}")]
    Form(String),
    /// It cannot be read, or is damaged.
    #[error("damaged, or cannot be read: {0}")]
    Io(io::Error),
}

impl ImportError {
    fn larger(what: &str, bytes: u64) -> Self {
        Self::TooMuch(format!("{what} than {} MiB", bytes >> 20))
    }
}

impl From<io::Error> for ImportError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::CutOff,
            _ => Self::Io(error),
        }
    }
}

/// Bytes of an archive. The public ones have below 1 MiB; one of 160 CPUs would have about 20.
pub const ARCHIVE_BYTES_MAX: u64 = 64 << 20;

/// Bytes that are unpacked in all, which bounds the memory that is needed to a small multiple of
/// it, whatever stands in names and headers. An archive of 48 CPUs has below 50 MiB.
pub const UNPACKED_BYTES_MAX: u64 = 256 << 20;

/// Files and directories. Each pair of CPUs has a directory with some files: 160 CPUs make 250,000.
pub const ENTRIES_MAX: u64 = 500_000;

/// Bytes of one file that is read. The largest, `cpuinfo` of a machine with 160 CPUs, has 200 KiB.
pub const ENTRY_BYTES_MAX: u64 = 4 << 20;

/// Bytes of a name: as Linux bounds a path. The longest in public archives has below 100.
pub const NAME_BYTES_MAX: usize = 4_096;

/// Characters of a name that a message shows.
const SHOWN_CHARS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_inside_or_refused() {
        for (name, expected) in [
            ("tmp/tmpA/logs/uname", Some("tmp/tmpA/logs/uname")),
            ("./tmp//tmpA/./logs/", Some("tmp/tmpA/logs")),
            ("../x", None),
            ("a/../../x", None),
            ("a/..", None),
            ("/etc/passwd", None),
            ("a\\..\\b", None),
        ] {
            let found = safe_name(name.as_bytes()).ok();
            assert_eq!(found.as_deref(), expected, "{name}");
        }
        assert!(safe_name(b"a\xff").is_err());
    }

    #[test]
    fn names_and_links_are_short() {
        let (fits, long) = ("a/".repeat(2_048), "a/".repeat(2_048) + "b");
        assert!(safe_name(fits.as_bytes()).is_ok());
        let is_too_long =
            |error: ImportError| error.to_string().contains("of more than 4096 bytes");
        assert!(is_too_long(safe_name(long.as_bytes()).unwrap_err()));
        let link = check_link("x", long.as_bytes(), EntryType::Symlink);
        assert!(is_too_long(link.unwrap_err()));
    }

    /// An archive of empty files, and one of these bytes.
    fn tar_of(empty: usize, bytes: &[u8]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for number in 0..=empty {
            let bytes = if number == empty { bytes } else { b"" };
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            tar.append_data(&mut header, format!("tmp/logs/{number}"), bytes).unwrap();
        }
        tar.into_inner().unwrap()
    }

    #[test]
    fn every_limit_is_kept_and_told_by_its_name() {
        let whole = tar_of(3, &[b'x'; 100]);
        let mut zipped = Vec::new();
        let mut zip = flate2::read::GzEncoder::new(&whole[..], flate2::Compression::fast());
        zip.read_to_end(&mut zipped).unwrap();
        let fits = Limits {
            archive_bytes: zipped.len() as u64,
            unpacked_bytes: whole.len() as u64,
            entries: 4,
            entry_bytes: 100,
        };
        assert_eq!(Archive::read_gzip(&zipped[..], &fits).unwrap().files.len(), 4);
        for (limits, message) in [
            (Limits { archive_bytes: fits.archive_bytes - 1, ..fits }, "larger than 64 MiB"),
            (Limits { unpacked_bytes: fits.unpacked_bytes - 1, ..fits }, "more than 256 MiB"),
            (Limits { entries: 3, ..fits }, "more than 500000 files"),
            (Limits { entry_bytes: 99, ..fits }, "has 100 bytes, more than 4 MiB"),
        ] {
            let error = Archive::read_gzip(&zipped[..], &limits).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn links_may_lead_about_but_not_out() {
        for (link, inside) in [
            ("../../cpu/cpu0", true),
            ("../../../../x", true),
            ("../../../../../x", false),
            ("/sys/bus", false),
            ("a/../../b", true),
        ] {
            let found =
                check_link("tmp/tmpA/logs/sys-node/cpu0", link.as_bytes(), EntryType::Symlink);
            assert_eq!(found.is_ok(), inside, "{link}");
        }
        assert!(check_link("a/b/c", b"../x", EntryType::Link).is_err());
    }

    #[test]
    fn the_folder_of_the_archive_is_told_from_what_is_in_it() {
        assert_eq!(split("tmp/tmpA/logs/sys-cpu/x"), Some(("tmp/tmpA/", "logs/sys-cpu/x")));
        assert_eq!(split("results/a.csv"), Some(("", "results/a.csv")));
        assert_eq!(split("x/results/logs/y"), Some(("x/", "results/logs/y")));
        assert_eq!(split("README"), None);
    }
}
