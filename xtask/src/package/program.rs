//! The programs of users, built, and laid out with what belongs to them.
//!
//! **Not here:** the packages that they go into (`debian.rs`, `archive.rs`, `image.rs`), the text
//! of the manual pages and of the completions, which the program itself has.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use super::{Places, bill, install, install_text};
use crate::child::succeed;

/// The C library of this machine.
pub(super) const GNU: &str = "x86_64-unknown-linux-gnu";
/// Programs that need nothing but a kernel.
pub(super) const STATIC: &str = "x86_64-unknown-linux-musl";
/// The programs of users.
const PROGRAMS: [&str; 3] = ["nearcall", "nearcall-host", "nearcall-group"];
/// What is called when a package is tried.
pub(super) const EXAMPLE: &str = "thermostat";
/// The unit of the host, as the book shows it.
pub(super) const UNIT: &str = include_str!("../../package/nearcall-host@.service");
/// Where each shell looks for completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/nearcall"),
    ("zsh", "zsh/vendor-completions/_nearcall"),
    ("fish", "fish/vendor_completions.d/nearcall.fish"),
];

/// The directory of programs that were built.
pub(super) struct Programs {
    pub(super) directory: PathBuf,
    pub(super) target: &'static str,
}

impl Programs {
    /// Builds the programs as users do, and the example.
    pub(super) fn build(places: &Places, target: &'static str) -> io::Result<Self> {
        let mut build = Command::new("cargo");
        // The features of packages are those of `cargo run --release`.
        build.current_dir(&places.root).args(["build", "--quiet", "--locked"]);
        build.args(["--profile", if places.dev { "dev" } else { "release" }]);
        build.args(PROGRAMS.iter().flat_map(|program| ["--bin", program]));
        build.args(["--example", EXAMPLE]);
        let mut directory = places.target.clone();
        if target != GNU {
            build.args(["--target", target]);
            directory.push(target);
        }
        succeed(&mut build)?;
        Ok(Self { directory: directory.join(if places.dev { "debug" } else { "release" }), target })
    }

    /// The example, which no package has.
    pub(super) fn example(&self) -> PathBuf {
        self.directory.join("examples").join(EXAMPLE)
    }

    /// Lays out all below `stage/usr`.
    pub(super) fn lay_out(&self, places: &Places, stage: &Path) -> io::Result<()> {
        for program in PROGRAMS {
            let from = self.directory.join(program);
            install(stage, &from, &format!("usr/bin/{program}"), 0o755)?;
        }
        let own = stage.join("usr/bin/nearcall");
        let pages = stage.join("usr/share/man/man1");
        succeed(Command::new(&own).args(["man", "--out-dir"]).arg(&pages))?;
        for page in fs::read_dir(&pages)? {
            // Without name and time: packages of one commit are the same.
            succeed(Command::new("gzip").arg("-9n").arg(page?.path()))?;
        }
        for (shell, file) in COMPLETIONS {
            let mut ask = Command::new("nearcall");
            let path = env::join_paths([stage.join("usr/bin")]).map_err(io::Error::other)?;
            let script = succeed(ask.env("COMPLETE", shell).env("PATH", path))?;
            install_text(stage, &script, &format!("usr/share/{file}"))?;
        }
        install_text(stage, UNIT, "usr/lib/systemd/system/nearcall-host@.service")?;
        let bill = bill::of(&places.root, "nearcall-cli", self.target)?;
        install_text(stage, &bill, "usr/share/doc/nearcall/sbom.cdx.json")?;
        for license in ["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md"] {
            let to = format!("usr/share/doc/nearcall/{license}");
            install(stage, &places.root.join(license), &to, 0o644)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_the_one_in_the_book() {
        let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/book/src/guides/systemd.md");
        let page = fs::read_to_string(book).unwrap();
        assert!(page.contains(&format!("```ini\n{UNIT}```\n")), "systemd.md shows another unit");
    }
}
