//! The flat table of made-up cells.

use std::collections::HashSet;
use std::path::Path;

use super::*;
use crate::report::hosts::hosts;
use crate::run::{Kind, Machine, RttNs, Settings};

#[test]
fn every_column_has_a_name_of_its_own_and_a_meaning() {
    let mut seen = HashSet::new();
    for column in COLUMNS {
        assert!(seen.insert(column.name), "{} twice", column.name);
        assert!(!column.about.is_empty() && !column.about.ends_with('.'), "{}", column.name);
    }
}

#[test]
fn every_value_of_the_stored_runs_is_what_its_column_holds() {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs");
    for file in std::fs::read_dir(runs).unwrap() {
        let run = Run::load(&file.unwrap().path()).unwrap();
        let run_file = place(&run);
        for (key, cell) in run.keyed_cells() {
            let line = Line { run: &run, run_file: &run_file, key: &key, cell };
            for (column, value) in COLUMNS.iter().zip(line.values()) {
                let holds = match value {
                    Value::Missing => continue,
                    Value::Text(_) => Holds::Text,
                    Value::Whole(_) => Holds::Whole,
                    Value::Real(_) => Holds::Real,
                    Value::Truth(_) => Holds::Truth,
                };
                assert_eq!(holds, column.holds, "{}", column.name);
            }
        }
    }
}

#[test]
fn csv_has_one_line_per_cell_and_quotes_what_must_be() {
    let machine = Machine { cpu_model: "A, \"B\"".to_owned(), ..Machine::default() };
    let mut run = Run::new(machine, Settings::default(), 0);
    let mut cell = Cell::new(Kind::Latency, "pipe", 8);
    cell.rtt_ns = Some(RttNs { p50: Some(0.1 + 0.2), mean: Some(f64::NAN), ..RttNs::default() });
    run.cells = vec![cell, Cell::new(Kind::Throughput, "pipe", 8)];
    let runs = [run];
    let text = csv(&hosts(&runs).unwrap());
    assert_eq!(text.matches("\r\n").count(), 3);
    assert!(text.contains("\"A, \"\"B\"\"\""), "{text}");
    // All digits, so that reading it gives the same number.
    assert!(text.contains(",0.30000000000000004,") && !text.contains("NaN"), "{text}");
}
