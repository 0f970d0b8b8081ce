//! Figures of stored and of made-up runs: well formed, complete, and in the right place.
//!
//! `UPDATE_EXPECT=1 cargo test -p nearcall-bench` rewrites the expected drawing; look at it.

use std::collections::HashSet;
use std::path::Path;
use std::sync::LazyLock;

use nearcall_results::noise::Grade;
use nearcall_results::report::chart::Frame;
use nearcall_results::report::chart::axis::Axis;
use nearcall_results::report::chart::lines::{Lines, Point, Series};
use nearcall_results::report::chart::mark::Look;
use nearcall_results::report::chart::unit::Unit;
use nearcall_results::report::figure::{Figure, Shown, figures, stand_alone};
use nearcall_results::report::hosts::hosts;
use nearcall_results::run::{Cell, GapFacts, Machine, Matrix, Placement, Run};

use crate::table::{empty, latency};

/// Panics unless `text` is a well-formed XML document or element, as far as charts use XML.
#[track_caller]
pub(crate) fn check_well_formed(text: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>").unwrap_or(text);
    assert!(text.chars().all(|c| !c.is_control() || c == '\n'), "a control character");
    while let Some(at) = rest.find('<') {
        check_text(&rest[..at]);
        let end = at + rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "elements are nested");
            continue;
        }
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "a name: {name}");
        check_attributes(attributes);
        open.push(name);
    }
    check_text(rest);
    assert!(open.is_empty(), "{open:?} not closed");
}

#[track_caller]
fn check_text(text: &str) {
    for after in text.split('&').skip(1) {
        let entity = after.split_once(';').map(|(name, _)| name);
        assert!(matches!(entity, Some("amp" | "lt" | "gt" | "quot")), "& in {text}");
    }
    assert!(!text.contains('>'), "> in {text}");
}

#[track_caller]
fn check_attributes(attributes: &str) {
    let mut seen = HashSet::new();
    let mut rest = attributes.trim();
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"").expect("an attribute has a value");
        let (value, after) = value.split_once('"').expect("a value ends");
        assert!(seen.insert(name), "{name} twice");
        check_text(value);
        if ["d", "x", "y", "width", "height", "viewBox"].contains(&name) {
            assert!(!value.contains("NaN") && !value.contains("inf"), "{name}={value}");
        }
        rest = after.trim_start();
    }
}

/// Panics unless all of a page's figures are as a page needs them.
#[track_caller]
pub(crate) fn check_shown(shown: &[Shown]) {
    let mut ids = HashSet::new();
    for one in shown {
        match one {
            Shown::Figure(figure) => {
                assert!(ids.insert(figure.id.clone()), "{} twice", figure.id);
                check_figure(figure);
            }
            Shown::Missing { id, title, reason, command } => {
                assert!(ids.insert(id.clone()), "{id} twice");
                assert!(!title.is_empty() && !reason.is_empty());
                assert!(command.starts_with("nearcall bench"), "{command}");
            }
        }
    }
}

#[track_caller]
fn check_figure(figure: &Figure) {
    for drawing in [&figure.svg.0, &stand_alone(figure)] {
        check_well_formed(drawing);
        assert!(drawing.contains("<title id=\"") && drawing.contains("<desc id=\""));
    }
    assert!(figure.svg.0.starts_with("<svg") && figure.svg.0.contains("viewBox=\"0 0 680 "));
    assert!(figure.id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{}", figure.id);
    assert!(!figure.title.is_empty() && !figure.about.is_empty());
    assert!(
        !figure.caption.is_empty() && figure.caption.chars().count() < 260,
        "{}",
        figure.caption
    );
    let table = &figure.table;
    assert!(!table.rows.is_empty(), "{} has an empty table", figure.id);
    assert!(table.heads.iter().any(|head| head.starts_with("grade")), "{:?}", table.heads);
    for row in &table.rows {
        assert_eq!(row.len(), table.heads.len(), "{}: {row:?}", figure.id);
    }
}

/// Reading them takes longer than drawing them.
fn stored() -> &'static [Run] {
    static RUNS: LazyLock<Vec<Run>> = LazyLock::new(read_stored);
    &RUNS
}

fn read_stored() -> Vec<Run> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    files.iter().filter_map(|path| Run::load(path).ok()).collect()
}

fn drawn(shown: &[Shown]) -> Vec<&Figure> {
    let mut found = Vec::new();
    for one in shown {
        if let Shown::Figure(figure) = one {
            found.push(figure);
        }
    }
    found
}

#[test]
fn every_figure_of_the_stored_runs_is_whole() {
    let runs = stored();
    let hosts = hosts(runs).unwrap();
    let shown = figures(&hosts);
    check_shown(&shown);
    let ids: Vec<&str> = drawn(&shown).iter().map(|figure| figure.id.as_str()).collect();
    for id in ["overview", "latency-echo", "throughput-bytes", "distribution", "cpu-latency"] {
        assert!(ids.contains(&id), "{id} not in {ids:?}");
    }
    let bytes: usize = drawn(&shown).iter().map(|figure| figure.svg.0.len()).sum();
    assert!(bytes < 250_000, "{bytes} bytes of drawings");
    let again = figures(&hosts);
    let text = |shown: &[Shown]| format!("{shown:?}");
    assert_eq!(text(&again), text(&shown), "the same runs give the same figures");
}

#[test]
fn each_stored_run_alone_gives_whole_figures() {
    for run in stored() {
        check_shown(&figures(&hosts(std::slice::from_ref(run)).unwrap()));
    }
}

#[test]
fn no_run_and_an_empty_run_give_no_figure() {
    assert!(figures(&[]).is_empty());
    let runs = [empty()];
    let shown = figures(&hosts(&runs).unwrap());
    check_shown(&shown);
    assert!(drawn(&shown).is_empty() && !shown.is_empty());
}

fn small() -> Run {
    let mut run = empty();
    run.floors = vec![latency("floor-spin", 8, "spin", 141.0, None)];
    run.cells = vec![
        latency("pipe", 8, "block", 9_840.0, None),
        latency("shm-spin", 8, "spin", 148.2, None),
        latency("<script>alert('&\u{1b}')</script>", 8, "block", 19_480.0, None),
    ];
    run.cells[0].grade = Some(Grade::D);
    run
}

#[test]
fn a_small_overview_is_drawn_as_it_was_looked_at() {
    let runs = [small()];
    let shown = figures(&hosts(&runs).unwrap());
    let found = stand_alone(drawn(&shown)[0]).replace("><", ">\n<");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/figure_overview.svg");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert!(found == expected, "figure_overview.svg differs; UPDATE_EXPECT=1 rewrites it\n{found}");
}

#[test]
fn names_of_strangers_are_text_and_nothing_else() {
    let runs = [small()];
    for figure in drawn(&figures(&hosts(&runs).unwrap())) {
        assert!(!figure.svg.0.contains("<script") && !figure.svg.0.contains('\u{1b}'));
    }
}

/// Where the marks of a drawing are, by their label.
fn places(drawing: &str) -> Vec<(String, [f64; 2])> {
    let marks = drawing.split("<path d=\"M").skip(1);
    let place = |mark: &str| {
        let (x, rest) = mark.split_once(' ').unwrap();
        let (y, _) = rest.split_once('m').unwrap();
        let (_, label) = rest.split_once("<title>").unwrap();
        let label = label.split('<').next().unwrap().to_owned();
        (label, [x.parse().unwrap(), y.parse().unwrap()])
    };
    marks.map(place).collect()
}

#[test]
fn equal_factors_are_equally_far_apart_in_the_drawing() {
    let values = [(8.0, 100.0), (64.0, 1_000.0), (512.0, 100_000.0), (4_096.0, f64::NAN)];
    let point =
        |&(x, y): &(f64, f64)| Point { x, y, interval: None, hollow: false, label: format!("{x}") };
    let series = Series {
        name: "a".to_owned(),
        look: Look::Series(0),
        marked: true,
        points: values.iter().map(point).collect(),
    };
    let x = Axis::log(Unit::Size, "size", values.map(|(x, _)| x)).unwrap();
    let y = Axis::log(Unit::Time, "time", values.map(|(_, y)| y)).unwrap();
    let chart = Lines { x, y, series: vec![series], bounds: Vec::new(), remark: None };
    let frame = Frame { id: "f", title: "t", desc: "d" };
    let drawing = chart.draw(&frame).into_string();
    check_well_formed(&drawing);
    let places = places(&drawing);
    let [(_, a), (_, b), (_, c)] = &places[..] else { panic!("{places:?}") };
    assert!((b[0] - a[0] - (c[0] - b[0])).abs() < 0.3, "{places:?}");
    assert!((2.0 * (b[1] - a[1]) - (c[1] - b[1])).abs() < 0.5, "{places:?}");
    assert!(a[1] > b[1] && b[1] > c[1], "more is higher");
}

#[test]
fn bands_that_would_cover_each_other_are_bars() {
    let series = |name: &str, look: u8, y: f64| {
        let point = |x: f64| Point {
            x,
            y,
            interval: Some([y * 0.8, y * 1.25]),
            hollow: false,
            label: String::new(),
        };
        let points = vec![point(8.0), point(64.0)];
        Series { name: name.to_owned(), look: Look::Series(look), marked: true, points }
    };
    let drawn = |other: f64| {
        let x = Axis::log(Unit::Size, "size", [8.0, 64.0]).unwrap();
        let y = Axis::log(Unit::Time, "time", [50.0, 900.0]).unwrap();
        let series = vec![series("a", 0, 100.0), series("b", 1, other)];
        let chart = Lines { x, y, series, bounds: Vec::new(), remark: None };
        chart.draw(&Frame { id: "f", title: "t", desc: "d" }).into_string()
    };
    let count = |drawing: &str, class: &str| drawing.matches(&format!("class=\"{class}\"")).count();
    let (apart, over) = (drawn(400.0), drawn(130.0));
    assert_eq!((count(&apart, "band"), count(&apart, "bar")), (2, 0));
    assert_eq!((count(&over, "band"), count(&over, "bar")), (0, 2));
}

#[test]
fn nearcall_stands_beside_other_libraries() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rivals");
    let runs = [Run::load(&folder.join("epyc-2cpu.json")).unwrap()];
    let shown = figures(&hosts(&runs).unwrap());
    check_shown(&shown);
    let ids: Vec<&str> = drawn(&shown).iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(ids, ["libraries", "libraries-large", "libraries-rate"]);
    let figure = drawn(&shown)[0];
    assert_eq!(figure.title, "An empty call, beside other libraries");
    assert_eq!(figure.table.rows.len(), 18);
    let of = |name: &str| figure.table.rows.iter().find(|row| row[0] == name).unwrap();
    // Only rows of one wait are compared.
    assert_eq!(of("nearcall-spin")[7], "1.00×");
    assert_eq!((&*of("tonic")[2], &*of("nearcall-block")[7]), ("block", "1.00×"));
}

fn at(mut cell: Cell, client: u32, server: u32) -> Cell {
    let class = if client == server { "same_cpu" } else { "same_llc" };
    cell.placement =
        Placement { class: class.to_owned(), client_cpu: Some(client), server_cpu: Some(server) };
    cell
}

/// Matrix, load and gaps in one run.
fn full() -> Run {
    let mut run = empty();
    run.matrix = Some(Matrix { cpus: (0..4).collect(), pairs: 16, left_out: 0 });
    for (client, server) in [(0, 0), (0, 1), (1, 0), (3, 1), (2, 1)] {
        let ns = 5_000.0 + f64::from(client * 10 + server);
        run.cells.push(at(latency("pipe", 8, "block", ns, None), client, server));
    }
    for (index, name) in ["pipe", "tcp", "shm-futex", "fifo"].into_iter().enumerate() {
        for load in ["idle", "cpu,memory,io"] {
            let factor = if load == "idle" { 1.0 } else { 2.0 };
            let ns = (8_000.0 + 100.0 * index as f64) * factor;
            let mut cell = at(latency(name, 16, "block", ns, None), 0, 1);
            load.clone_into(&mut cell.load);
            run.cells.push(cell);
        }
        for gap_ns in [0, 10_000, 1_000_000] {
            let mut cell = at(latency(name, 8, "block", 9_000.0, None), 0, 1);
            cell.gap = Some(GapFacts { gap_ns, ..GapFacts::default() });
            run.cells.push(cell);
        }
    }
    run
}

#[test]
fn matrix_load_and_gaps_are_drawn() {
    let runs = [full()];
    let shown = figures(&hosts(&runs).unwrap());
    check_shown(&shown);
    let figure = |id: &str| drawn(&shown).into_iter().find(|figure| figure.id == id).unwrap();
    let matrix = figure("matrix");
    assert_eq!(matrix.svg.0.matches("<title>CPU ").count(), 5, "one place per pair");
    assert!(matrix.svg.0.contains("CPU 2 to CPU 1 (cores of one cache): 5.02 µs"));
    let load = figure("load");
    assert_eq!(load.table.rows.len(), 4);
    assert!(load.table.rows.iter().all(|row| row[6] == "2.00×"), "{:?}", load.table);
    assert_eq!(figure("gap").table.rows.len(), 12);
}

#[test]
fn of_fewer_than_four_cpus_there_is_no_square() {
    let mut run = full();
    run.cells.retain(|cell| cell.placement.client_cpu != Some(3));
    let runs = [run];
    let shown = figures(&hosts(&runs).unwrap());
    assert!(drawn(&shown).iter().all(|figure| figure.id != "matrix"));
}

#[test]
fn a_large_machine_and_many_names_stay_small_drawings() {
    let mut run = empty();
    run.matrix = Some(Matrix { cpus: (0..64).collect(), pairs: 4_096, left_out: 0 });
    for pair in 0..4_096_u32 {
        let ns = f64::from(200 + pair % 977);
        run.cells.push(at(latency("shm", 8, "spin", ns, None), pair / 64, pair % 64));
    }
    let mut named = empty();
    for index in 0..500_u32 {
        let ns = 1_000.0 + f64::from(index);
        named.cells.push(latency(&format!("m{index}"), 8, "block", ns, None));
    }
    let runs = [run, named];
    let shown = figures(&hosts(&runs).unwrap());
    check_shown(&shown);
    for figure in drawn(&shown) {
        let bytes = figure.svg.0.len();
        assert!(bytes < 350_000, "{} takes {bytes} bytes", figure.id);
    }
    let overview = drawn(&shown)[0];
    assert!(overview.svg.0.contains("420 more are in the table only."));
}

#[test]
fn machines_are_divided_and_never_averaged() {
    let mut other = small();
    other.machine = Machine { id: "ffff000011112222".to_owned(), ..Machine::default() };
    for cell in &mut other.cells {
        let times = cell.rtt_ns.as_mut().unwrap();
        times.p50 = times.p50.map(|ns| ns * 4.0);
        times.p50_ci95 = times.p50_ci95.map(|ends| ends.map(|ns| ns * 4.0));
    }
    let runs = [small(), other];
    let shown = figures(&hosts(&runs).unwrap());
    check_shown(&shown);
    let found = drawn(&shown).into_iter().find(|figure| figure.id == "machines").unwrap();
    assert_eq!(found.table.rows.len(), 3);
    for row in &found.table.rows {
        assert_eq!((row[5].as_str(), row[6].as_str()), ("4.00×", "3.81× to 4.20×"));
    }
    assert!(drawn(&shown).iter().any(|figure| figure.id == "overview-machine-2"));
}
