//! The report in a real browser: Debian's chromium without a window. Where there is none, the tests
//! say so and pass.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nearcall_os::process::Child;

use crate::program::Folder;
use crate::report::stored;

/// What became of a page.
struct Seen {
    /// The document when its scripts had run.
    dom: String,
    /// Lines that it wrote to the console; errors are among them.
    console: Vec<String>,
}

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).find_map(|folder| {
        NAMES.iter().map(|name| folder.join(name)).find(|program| program.is_file())
    });
    if found.is_none() {
        use std::io::Write as _;
        let line =
            format!("SKIPPED: none of {} is in PATH: apt install chromium", NAMES.join(", "));
        // Around the capture of the test harness, so that it is seen.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    found
}

/// Opens a file of the directory, and leaves nothing behind but in it.
fn open(browser: &Path, folder: &Folder, name: &str) -> Seen {
    let (stdout, stderr) = (folder.home().join("dom"), folder.home().join("log"));
    let mut command = Command::new(browser);
    command.args(OPTIONS).arg(option("--user-data-dir=", &folder.home().join("browser")));
    command.arg(option("file://", &folder.path().join(name)));
    command.env("HOME", folder.home()).env_remove("XDG_CONFIG_HOME").env_remove("XDG_CACHE_HOME");
    command.current_dir(folder.path()).stdin(Stdio::null());
    command.stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
    let mut child = Child::spawn(&mut command).unwrap();
    let status = child.wait(Some(DEADLINE)).unwrap();
    if status.is_none() {
        child.kill().unwrap();
    }
    let log = String::from_utf8_lossy(&fs::read(&stderr).unwrap()).into_owned();
    assert!(status.is_some_and(|status| status.success()), "{status:?}: {log}");
    let console = log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned);
    Seen { dom: fs::read_to_string(&stdout).unwrap(), console: console.collect() }
}

fn option(name: &str, value: &Path) -> std::ffi::OsString {
    let mut option = OsStr::new(name).to_owned();
    option.push(value);
    option
}

/// The texts of the row that begins with `head` in the table `id`.
fn row(dom: &str, id: &str, head: &str) -> Vec<String> {
    let table = dom.split(&format!("<table id=\"{id}\"")).nth(1).unwrap();
    let table = table.split("</table>").next().unwrap();
    let row = table.split("<tr>").find(|row| row.contains(&format!(">{head}</th>"))).unwrap();
    let texts = row.split('>').filter_map(|part| part.split('<').next());
    texts.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

#[test]
fn a_browser_shows_the_figures_of_the_run_and_finds_no_error() {
    let Some(browser) = browser() else { return };
    let folder = Folder::new();
    stored().save(&folder.path().join("run.json")).unwrap();
    let ended = folder.run(&["report", "run.json", "-o", "report.html"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let seen = open(&browser, &folder, "report.html");
    assert_eq!(seen.console, [""; 0]);
    for (name, median, interval) in
        [("pipe", "9.84 µs", "9.64 to 9.94 µs"), ("unix-stream", "8.76 µs", "8.58 to 8.85 µs")]
    {
        let row = row(&seen.dom, "small-table", name);
        assert!(row.iter().any(|text| text == median), "{row:?}");
        assert!(row.iter().any(|text| text == interval), "{row:?}");
    }
    assert!(!seen.dom.contains("<script"), "the page has no script");
}

/// The test above could not fail if this one did.
#[test]
fn a_page_that_throws_is_found_out() {
    let Some(browser) = browser() else { return };
    let folder = Folder::new();
    let page = "<!DOCTYPE html><title>x</title><script>throw new Error('on purpose')</script>";
    fs::write(folder.path().join("bad.html"), page).unwrap();
    let seen = open(&browser, &folder, "bad.html");
    assert!(seen.console.iter().any(|line| line.contains("on purpose")), "{:?}", seen.console);
}

const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// No window, no network, no traces, the console on standard error.
const OPTIONS: [&str; 13] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-breakpad",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=5000",
    "--dump-dom",
];

/// A cold start beside a build takes seconds.
const DEADLINE: Duration = Duration::from_secs(60);
