//! The programs as an image for containers, made by `umoci`, which needs no daemon.
//!
//! The image is a layout of the Open Container Initiative in one archive, with the static programs
//! and nothing else in it.
//! **Not here:** what it may need of its container (`docs/book/src/guides/containers.md`).

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Command;

use super::program::{Programs, STATIC};
use super::{Made, Places, VERSION, trial};
use crate::child::succeed;

/// Makes the image, unpacks it again, and tries what is in it.
pub(super) fn make(places: &Places) -> io::Result<Vec<Made>> {
    let file = places.out.join(format!("nearcall-{VERSION}-oci.tar"));
    if Command::new("umoci").arg("--version").output().is_err() {
        let tried = Err("not made: there is no umoci, which Debian has as a package".to_owned());
        return Ok(vec![Made { file, tried }]);
    }
    let programs = Programs::build(places, STATIC)?;
    let stage = places.stage("image")?;
    programs.lay_out(places, &stage.join("root"))?;
    let layout = stage.join("layout");
    let image = format!("{}:{VERSION}", layout.display());
    let umoci = |words: &[&dyn AsRef<OsStr>]| {
        let mut command = Command::new("umoci");
        command.env("SOURCE_DATE_EPOCH", &places.time);
        succeed(command.args(words.iter().map(|word| word.as_ref())))
    };
    umoci(&[&"init", &"--layout", &layout])?;
    umoci(&[&"new", &"--image", &image])?;
    umoci(&[&"insert", &"--image", &image, &stage.join("root/usr"), &"/usr"])?;
    let created = format!("--created={}", utc(&places.time)?);
    let entry = "--config.entrypoint=/usr/bin/nearcall";
    let history = "--no-history";
    umoci(&[
        &"config",
        &"--image",
        &image,
        &entry,
        &"--os=linux",
        &"--architecture=amd64",
        &created,
        &history,
    ])?;
    umoci(&[&"gc", &"--layout", &layout])?;
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{}", places.time)).arg("-C").arg(&layout).arg("-cf").arg(&file);
    succeed(tar.arg("."))?;
    let bundle = stage.join("bundle");
    umoci(&[&"unpack", &"--image", &image, &bundle])?;
    let root: &Path = &bundle.join("rootfs");
    let tried = trial::alone(root, &programs);
    Ok(vec![Made { file, tried }])
}

/// Writes seconds since 1970 as a date of RFC 3339.
fn utc(time: &str) -> io::Result<String> {
    let at = format!("--date=@{time}");
    Ok(succeed(Command::new("date").args(["-u", &at, "+%Y-%m-%dT%H:%M:%SZ"]))?.trim().to_owned())
}
