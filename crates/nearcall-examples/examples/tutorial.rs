//! The programs of the tutorial (`docs/book/src/tutorial`), as its pages have them, in one.
//!
//! `NEARCALL_TUTORIAL=errors` runs what the program with the name under which this one was started
//! is at the end of the page `errors`. `build.rs` takes them out of the pages.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]
#![allow(clippy::disallowed_methods, reason = "the pages need nothing but the standard library")]

use std::env;
use std::error::Error;
use std::path::Path;

type Program = fn() -> Result<(), Box<dyn Error>>;

include!(concat!(env!("OUT_DIR"), "/tutorial.rs"));

fn main() -> Result<(), Box<dyn Error>> {
    let page = env::var("NEARCALL_TUTORIAL").unwrap_or_default();
    let own = env::args().next().unwrap_or_default();
    let name = Path::new(&own).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let end = PROGRAMS.iter().rposition(|(of, ..)| *of == page).map_or(0, |last| last + 1);
    let found = PROGRAMS[..end].iter().rfind(|(_, program, _)| *program == name);
    let Some((_, _, run)) = found else {
        let all: Vec<_> = PROGRAMS.iter().map(|(page, name, _)| format!("{page}/{name}")).collect();
        println!("set NEARCALL_TUTORIAL to a page; there are {}", all.join(", "));
        return Ok(());
    };
    run()
}
