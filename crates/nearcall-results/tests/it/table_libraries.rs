//! nearcall beside other libraries: the stored comparison as a table and in `compare`.

use std::path::Path;

use nearcall_results::compare::{Rules, compare};
use nearcall_results::report::table::table;
use nearcall_results::run::Run;

use crate::table::{PAGE, check};

fn stored() -> Run {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    Run::load(&docs.join("rivals/epyc-2cpu.json")).unwrap()
}

#[test]
fn each_way_to_wait_has_rows_of_its_own() {
    check(&table(&stored(), PAGE), "table_libraries.txt");
}

#[test]
fn what_failed_is_named_with_its_reason() {
    let mut run = stored();
    run.libraries[10].failure = Some("the server ended with \u{1b}[2J exit code 1".to_owned());
    run.library_cells.retain(|cell| cell.mechanism != run.libraries[10].name);
    let text = table(&run, PAGE);
    assert!(text.contains("ttrpc-async: the server ended with"), "{text}");
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn two_comparisons_of_libraries_are_compared_cell_by_cell() {
    let (before, mut after) = (stored(), stored());
    after.started_unix_s += 60;
    let found = compare(&before, &after, &Rules::default()).unwrap();
    assert_eq!(found.cells.len(), 126);
    assert!(found.cells.iter().all(|cell| cell.name.starts_with("library: ")));
}
