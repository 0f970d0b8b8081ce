//! The default paths of stored runs and of the data set.
//!
//! `$XDG_DATA_HOME/nearcall/runs`, else `~/.local/share/nearcall/runs`, else the current directory.
//! Writing the file is `Run::save`. A data set is beside it: `.../nearcall/data`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use nearcall_results::report::number;

/// A path for a new run that began at this moment (seconds since 1970). Makes its directory.
pub(crate) fn new_run_file(started_unix_s: u64) -> PathBuf {
    let directory = directory(variable("XDG_DATA_HOME"), variable("HOME"), "runs")
        .filter(|directory| fs::create_dir_all(directory).is_ok())
        .unwrap_or_default();
    free_name(&directory, started_unix_s)
}

/// Returns the directory of stored runs, which need not exist; `None` without a home.
pub(crate) fn runs() -> Option<PathBuf> {
    directory(variable("XDG_DATA_HOME"), variable("HOME"), "runs")
}

/// Returns the directory of the data set, which need not exist; `None` without a home.
pub(crate) fn data_set() -> Option<PathBuf> {
    directory(variable("XDG_DATA_HOME"), variable("HOME"), "data")
}

fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).map(PathBuf::from)
}

/// The directory, from the values of XDG_DATA_HOME and HOME. The standard ignores relative
/// ones.
fn directory(data_home: Option<PathBuf>, home: Option<PathBuf>, name: &str) -> Option<PathBuf> {
    let data_home = data_home.filter(|path| path.is_absolute());
    let home = home.filter(|path| path.is_absolute()).map(|home| home.join(".local/share"));
    Some(data_home.or(home)?.join("nearcall").join(name))
}

/// A name that no file has yet. Two runs of one second get different names.
fn free_name(directory: &Path, started_unix_s: u64) -> PathBuf {
    let stamp = stamp(started_unix_s);
    let names = (1..NAMES_TRIED_MAX).map(|number| match number {
        1 => format!("nearcall-run-{stamp}.json"),
        _ => format!("nearcall-run-{stamp}-{number}.json"),
    });
    let mut paths = names.map(|name| directory.join(name));
    let last = directory.join(format!("nearcall-run-{stamp}-{}.json", std::process::id()));
    paths.find(|path| !path.exists()).unwrap_or(last)
}

/// "20261121-031159", in UTC.
fn stamp(unix_s: u64) -> String {
    let date = number::date(unix_s);
    let digits: String =
        date.chars().filter(|char| char.is_ascii_digit() || *char == ' ').collect();
    let digits = digits.trim().replace(' ', "-");
    format!("{digits}{:02}", unix_s % 60)
}

/// More runs than this do not begin in one second.
const NAMES_TRIED_MAX: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_directory_comes_before_the_home() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(directory(path("/d"), path("/h"), "runs"), path("/d/nearcall/runs"));
        assert_eq!(directory(path("d"), path("/h"), "data"), path("/h/.local/share/nearcall/data"));
        assert_eq!(directory(None, path(""), "runs"), None);
    }

    #[test]
    fn the_name_has_date_and_time() {
        assert_eq!(stamp(1_700_000_003), "20231114-221323");
        let path = free_name(Path::new("/nowhere"), 0);
        assert_eq!(path, Path::new("/nowhere/nearcall-run-19700101-000000.json"));
    }
}
