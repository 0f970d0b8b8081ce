//! `nearcall doctor`: shows what was found out about this machine and the servers on it.
//!
//! **Not here:** judging the machine (`nearcall_bench::doctor`) and the servers (`product.rs`).

mod product;

use clap::Args;
use nearcall_bench::doctor::{self, Finding, Severity};
use nearcall_results::report::document;
use nearcall_results::report::lines::{Ink, Style};
use serde::Serialize;

use super::End;
use crate::args::JsonArgs;
use crate::output;
use crate::terminal::style;

/// Report what is wrong with this machine and its servers, and how to fix it
///
/// Looks at the runtime directory, limits, what the kernel lacks and mechanisms that do not work;
/// at names whose servers are gone, silent, of another version or of another user, and at servers
/// whose socket was removed; and at what disturbs measuring. Each finding says why it matters and
/// what to do. Changes nothing.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) format: JsonArgs,
}

pub(super) fn run(args: &DoctorArgs) -> anyhow::Result<End> {
    let mut findings = doctor::read();
    findings.extend(product::read());
    // A stable sort: findings of equal severity keep the order of the checks.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    if args.format.json {
        output::json(&Document { schema: SCHEMA, findings: &findings })?;
    } else {
        output::result(&text(&findings, style()))?;
    }
    Ok(End::Done)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    findings: &'a [Finding],
}

/// What is not as it should be, each with reason and advice; the rest by name only.
fn text(findings: &[Finding], style: Style) -> String {
    let mut out = document::Document::default();
    let (shown, rest): (Vec<&Finding>, Vec<&Finding>) =
        findings.iter().partition(|finding| finding.severity > Severity::Unknown);
    for finding in &shown {
        let ink = if finding.severity == Severity::Problem { Ink::Bad } else { Ink::Title };
        out.wrap_in(ink, &format!("{:<8} ", finding.severity.name()), &finding.what);
        out.wrap("  found  ", &finding.found);
        out.wrap("  why    ", &finding.why);
        out.wrap("  do     ", &finding.advice);
        out.blank();
    }
    let names = |severity| {
        let of = rest.iter().filter(|finding| finding.severity == severity);
        of.map(|finding| finding.what.as_str()).collect::<Vec<_>>()
    };
    for (label, names) in
        [("ok       ", names(Severity::Ok)), ("unknown  ", names(Severity::Unknown))]
    {
        if !names.is_empty() {
            out.wrap(label, names.join(", "));
        }
    }
    let count = |severity| findings.iter().filter(|one| one.severity == severity).count();
    out.answer(format!(
        "{} checks: {}, {}, {}",
        findings.len(),
        plural(count(Severity::Problem), "problem"),
        plural(count(Severity::Warning), "warning"),
        plural(count(Severity::Note), "note"),
    ));
    out.text(style)
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

const SCHEMA: &str = "nearcall.doctor/1";

const EXAMPLES: &str = "\
Examples:
  nearcall doctor
  nearcall doctor --json | jq -r '.findings[] | .advice'";

#[cfg(test)]
mod tests {
    use nearcall_bench::doctor::Concern;

    use super::*;

    fn finding(what: &str, severity: Severity) -> Finding {
        Finding {
            what: what.to_owned(),
            concerns: Concern::Ipc,
            severity,
            found: "much ".repeat(40),
            why: "because".to_owned(),
            advice: "nothing".to_owned(),
        }
    }

    #[test]
    fn advice_is_shown_only_where_something_is_wrong() {
        let findings = [
            finding("swap", Severity::Warning),
            finding("tsc", Severity::Ok),
            finding("boost", Severity::Unknown),
        ];
        for width in 50..=200 {
            let found = text(&findings, Style::new(Some(width), false));
            assert!(found.starts_with("warning  swap\n  found  much "), "{found}");
            assert!(found.contains("  why    because\n  do     nothing\n"), "{found}");
            assert!(found.contains("ok       tsc\nunknown  boost\n"), "{found}");
            assert!(found.ends_with("3 checks: 0 problems, 1 warning, 0 notes\n"), "{found}");
            assert!(found.lines().all(|line| line.chars().count() <= width), "{found}");
        }
    }
}
