//! Each kind of run: its table compared with the text in `tests/golden`, the same again after it
//! was stored, and harmless where a file says what no measurement would.

use nearcall_results::report::table::{details, table};
use nearcall_results::run::{Cell, Run};

use crate::table::{PAGE, check, full, of_calls};
use crate::{table_budgets, table_matrix, table_studies, table_traffic, table_waits};

fn all() -> [(&'static str, Run); 12] {
    [
        ("full", full()),
        ("calls", of_calls()),
        ("waits", table_waits::run()),
        ("budgets", table_budgets::run()),
        ("matrix", table_matrix::run()),
        ("studies", table_studies::run()),
        ("pace", table_traffic::pace()),
        ("gap", table_traffic::gap()),
        ("burst", table_traffic::burst()),
        ("clients", table_traffic::clients()),
        ("threads", table_traffic::threads()),
        ("start", table_traffic::start()),
    ]
}

#[test]
fn each_kind_of_run_has_its_table() {
    for (name, run) in all() {
        check(&table(&run, PAGE), &format!("table_{name}.txt"));
    }
}

#[test]
fn a_stored_run_is_the_same_again() {
    for (name, run) in all() {
        let again = Run::parse(&run.to_json()).unwrap();
        assert_eq!(table(&again, PAGE), table(&run, PAGE), "{name}");
        assert_eq!(details(&again, PAGE), details(&run, PAGE), "{name}");
    }
}

/// The run with hostile texts, absurd figures, and a thousand of everything.
fn hostile(mut run: Run) -> Run {
    let cells = run.cells.len();
    if let Some(last) = run.cells.last().cloned() {
        let many = (0..1_000_u32).map(|number| {
            let mut cell = Cell { mechanism: format!("m{number}"), ..last.clone() };
            if let Some(pace) = &mut cell.pace {
                pace.rate_per_s = number;
            }
            if let Some(gap) = &mut cell.gap {
                gap.gap_ns = u64::MAX - u64::from(number);
            }
            cell
        });
        // Those tables have a row or a square for each mechanism, whatever there is.
        let many: Vec<Cell> = if run.matrix.is_some() { Vec::new() } else { many.collect() };
        run.cells.extend(many);
    }
    if cells > 0 {
        run.cells[0].mechanism = "\u{1b}[2J".repeat(1_000);
        run.cells[0].placement.class = "\r\n".to_owned();
        run.cells[cells - 1].wait = "\u{202e}".repeat(100);
    }
    if let Some(rest) = run.at_rest.first_mut() {
        (rest.wait, rest.observed_ns) = ("\r\n".to_owned(), 0);
        run.at_rest.extend(vec![run.at_rest[0].clone(); 10_000]);
    }
    if let Some(budget) = run.budgets.first_mut() {
        budget.what = "\u{1b}[31m".repeat(1_000);
        budget.against = "\r\n".repeat(1_000);
        budget.unit = "\u{9b}".to_owned();
        (budget.measured, budget.short_by) = (Some(f64::MAX), Some(f64::MAX));
        run.budgets[2].launch_values = vec![1e300; 100_000];
        run.budgets.extend(vec![run.budgets[1].clone(); 10_000]);
    }
    run
}

#[test]
fn a_run_from_a_file_cannot_harm_the_terminal() {
    for (name, run) in all() {
        // These show every cell.
        let is_whole = ["full", "calls"].contains(&name);
        let found = table(&hostile(run), PAGE);
        assert!(found.chars().all(|c| c == '\n' || !c.is_control()), "{name}");
        assert!(!found.contains('\u{202e}'), "{name}");
        assert!(found.lines().all(|line| line.chars().count() <= 100), "{name}");
        let lines = found.lines().count();
        assert!(lines < 1_000 || is_whole, "{name}: {lines} lines");
    }
}
