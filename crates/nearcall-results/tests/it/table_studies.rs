//! A made-up run of studies.

use nearcall_results::noise::Grade;
use nearcall_results::report::table::{details, table};
use nearcall_results::run::{ClaimVerdict, Judged};
use nearcall_results::run::{Run, StudyResult, StudyRow, StudyTable};

use crate::table::{PAGE, empty};

fn row(bytes: u64, paper: f64, here: f64) -> StudyRow {
    StudyRow {
        mechanism: "uds_eventloop_marshalled".to_owned(),
        message_bytes: Some(bytes),
        paper: Some(paper),
        here_as_paper: Some(here * 1.2),
        here: Some(here),
        here_ci95: Some([here * 0.95, here * 1.07]),
        ratio: Some(here * 1.2 / paper),
        grade: Some(Grade::B),
        ..StudyRow::default()
    }
}

fn judged(id: &str, verdict: ClaimVerdict, evidence: &str) -> Judged {
    Judged {
        id: id.to_owned(),
        study: "motorola".to_owned(),
        statement: "Round-trip time grows linearly with the size from 16 KiB on".to_owned(),
        verdict,
        evidence: evidence.to_owned(),
        paper: "99.9 to 118.6 us for each KiB".to_owned(),
    }
}

pub(crate) fn run() -> Run {
    let missing = StudyRow {
        mechanism: "mempipe".to_owned(),
        placement: "0-1 one core".to_owned(),
        load: "stress".to_owned(),
        paper: Some(130.0),
        note: Some("no SMT here".to_owned()),
        ..StudyRow::default()
    };
    let table = |table: &str, rows| StudyTable {
        table: table.to_owned(),
        statistic: "round trip, mean".to_owned(),
        unit: "ns".to_owned(),
        rows,
    };
    let mut run = empty();
    run.studies = vec![StudyResult {
        study: "motorola".to_owned(),
        number: "000".to_owned(),
        title: "calls in an embedded platform".to_owned(),
        tables: vec![
            table("table1", vec![row(1 << 10, 1_008_490.0, 17_500.0), missing]),
            table("pictures", vec![StudyRow { paper: None, ratio: None, ..row(8, 1.0, 900.0) }]),
        ],
        verdicts: vec![
            judged(
                "T01",
                ClaimVerdict::Confirmed,
                "r² 0.998 (0.997 to 0.999), claimed at least 0.99",
            ),
            judged("T02", ClaimVerdict::Inconclusive, "1 of 2 hold, 1 open"),
            judged("T03", ClaimVerdict::Skipped, "there is one CPU"),
        ],
        ..StudyResult::default()
    }];
    run
}

#[test]
fn pictures_are_told_in_full() {
    let pictures = |text: String| text.contains("pictures: round trip, mean");
    assert!(pictures(details(&run(), PAGE)) && !pictures(table(&run(), PAGE)));
}
