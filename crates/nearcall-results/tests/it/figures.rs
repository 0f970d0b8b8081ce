//! Figures of stored and of made-up runs: well formed, complete, in the right place, and resting on
//! the cells that they show.
//!
//! What they look like is seen in `docs/report.html`.

use std::collections::HashSet;
use std::path::Path;
use std::sync::LazyLock;

use nearcall_results::noise::Grade;
use nearcall_results::report::chart::Frame;
use nearcall_results::report::chart::axis::Axis;
use nearcall_results::report::chart::lines::{Lines, Point, Series};
use nearcall_results::report::chart::mark::Look;
use nearcall_results::report::figure::{self, Figure};
use nearcall_results::report::hosts::{Host, hosts};
use nearcall_results::report::number::Unit;
use nearcall_results::run::{CallFacts, Cell, Machine, Matrix, Placement, RttNs, Run};

use crate::page_reader::tags;
use crate::table::{empty, latency};

/// Panics unless `text` is a well-formed XML document or element, as far as charts use XML.
#[track_caller]
pub(crate) fn check_well_formed(text: &str) {
    assert!(text.chars().all(|c| !c.is_control() || c == '\n'), "a control character");
    let tags = tags(text);
    let attributes: usize = tags.iter().map(|tag| tag.attributes.len()).sum();
    assert_eq!(attributes, text.matches("=\"").count(), "an attribute has a value");
    for tag in tags {
        assert!(tag.name.chars().all(|c| c.is_ascii_alphanumeric()), "a name: {}", tag.name);
        let names: HashSet<&str> = tag.attributes.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), tag.attributes.len(), "an attribute twice: {names:?}");
        for name in ["d", "x", "y", "width", "height", "viewBox"] {
            let value = tag.get(name).unwrap_or_default();
            assert!(!value.contains("NaN") && !value.contains("inf"), "{name}={value}");
        }
    }
}

/// All figures of a page, each as a page needs it.
#[track_caller]
pub(crate) fn figures(hosts: &[Host<'_>]) -> Vec<Figure> {
    let drawn = hosts.iter().enumerate().flat_map(|(index, host)| figure::figures(host, index));
    let drawn: Vec<Figure> = drawn.collect();
    let mut ids = HashSet::new();
    for figure in &drawn {
        assert!(ids.insert(figure.id.clone()), "{} twice", figure.id);
        check_figure(figure);
    }
    drawn
}

#[track_caller]
fn check_figure(figure: &Figure) {
    let drawing = &figure.svg.0;
    check_well_formed(drawing);
    assert!(drawing.contains("<title id=\"") && drawing.contains("<desc id=\""));
    assert!(drawing.starts_with("<svg") && drawing.contains("viewBox=\"0 0 680 "));
    assert!(figure.id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{}", figure.id);
    assert!(!figure.title.is_empty() && !figure.caption.is_empty());
    let heads: Vec<String> = figure.table.heads().map(|(head, _)| head).collect();
    assert!(!rows(figure).is_empty(), "{} has an empty table", figure.id);
    for row in rows(figure) {
        assert_eq!(row.len(), heads.len(), "{}: {row:?}", figure.id);
    }
}

fn rows(figure: &Figure) -> Vec<Vec<&str>> {
    figure.table.texts().collect()
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

fn drawn(runs: &[Run]) -> Vec<Figure> {
    figures(&hosts(runs).unwrap())
}

#[track_caller]
fn figure<'a>(drawn: &'a [Figure], wanted: &str) -> &'a Figure {
    let found = drawn.iter().find(|figure| figure.id == wanted);
    found.unwrap_or_else(|| panic!("no figure {wanted}"))
}

fn ids(drawn: &[Figure]) -> Vec<&str> {
    drawn.iter().map(|figure| figure.id.as_str()).collect()
}

fn run(cells: Vec<Cell>) -> Run {
    Run { cells, ..empty() }
}

/// What a drawing says to those who cannot see it.
fn desc(figure: &Figure) -> &str {
    let (_, rest) = figure.svg.0.split_once("<desc").unwrap();
    rest.split_once("</desc>").unwrap().0
}

const NAMES: [&str; 6] = ["pipe", "fifo", "tcp", "unix-stream", "unix-dgram", "posix-mq"];

/// Each with as much CPU time as latency.
fn slow_ones() -> Vec<Cell> {
    let slow = |(index, name): (usize, &&str)| {
        latency(name, 8, "block", 8_000.0 + 500.0 * index as f64, None)
    };
    NAMES.iter().enumerate().map(slow).collect()
}

#[test]
fn the_stored_runs_give_at_most_six_figures_of_a_machine() {
    let drawn = drawn(stored());
    let first: Vec<&str> = ids(&drawn).into_iter().filter(|id| !id.contains("-machine-")).collect();
    assert_eq!(first, ["latency", "rate", "cpu", "p99", "bare", "matrix"]);
    // The tour ran on an EPYC with other caches; the Xeon's runs have nothing that is drawn.
    assert_eq!(drawn.len(), 6 + 4);
    let bytes: usize = drawn.iter().map(|figure| figure.svg.0.len()).sum();
    assert!(bytes < 250_000, "{bytes} bytes of drawings");
    let again = figures(&hosts(stored()).unwrap());
    assert_eq!(format!("{again:?}"), format!("{drawn:?}"), "the same runs, the same figures");
}

#[test]
fn each_stored_run_alone_gives_whole_figures() {
    for run in stored() {
        drawn(std::slice::from_ref(run));
    }
}

#[test]
fn no_run_and_an_empty_run_give_no_figure() {
    assert!(drawn(&[]).is_empty() && drawn(&[empty()]).is_empty());
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
fn names_of_strangers_are_text_and_nothing_else() {
    let runs = [small()];
    for figure in drawn(&runs) {
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
        points: values.iter().map(point).collect(),
    };
    let x = Axis::log(Unit::Size, "size", values.map(|(x, _)| x)).unwrap();
    let y = Axis::log(Unit::Time, "time", values.map(|(_, y)| y)).unwrap();
    let chart = Lines { x, y, series: vec![series], bounds: Vec::new() };
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
        Series { name: name.to_owned(), look: Look::Series(look), points }
    };
    let drawn = |other: f64| {
        let x = Axis::log(Unit::Size, "size", [8.0, 64.0]).unwrap();
        let y = Axis::log(Unit::Time, "time", [50.0, 900.0]).unwrap();
        let series = vec![series("a", 0, 100.0), series("b", 1, other)];
        let chart = Lines { x, y, series, bounds: Vec::new() };
        chart.draw(&Frame { id: "f", title: "t", desc: "d" }).into_string()
    };
    let count = |drawing: &str, class: &str| drawing.matches(&format!("class=\"{class}\"")).count();
    let (apart, over) = (drawn(400.0), drawn(130.0));
    assert_eq!((count(&apart, "band"), count(&apart, "bar")), (2, 0));
    assert_eq!((count(&over, "band"), count(&over, "bar")), (0, 2));
}

fn at(mut cell: Cell, client: u32, server: u32) -> Cell {
    let class = if client == server { "same_cpu" } else { "same_llc" };
    cell.placement =
        Placement { class: class.to_owned(), client_cpu: Some(client), server_cpu: Some(server) };
    cell
}

/// Every pair of `cpus` CPUs.
fn square(cpus: u32) -> Run {
    let mut run = empty();
    run.matrix = Some(Matrix { cpus: (0..cpus).collect(), ..Matrix::default() });
    for pair in 0..cpus * cpus {
        let ns = f64::from(200 + pair % 977);
        run.cells.push(at(latency("shm", 8, "spin", ns, None), pair / cpus, pair % cpus));
    }
    run
}

#[test]
fn a_large_machine_and_many_names_stay_small_drawings() {
    let mut named = empty();
    for index in 0..500_u32 {
        let ns = 1_000.0 + f64::from(index);
        named.cells.push(latency(&format!("m{index}"), 8, "block", ns, None));
    }
    let drawn = drawn(&[square(64), named]);
    for figure in &drawn {
        let bytes = figure.svg.0.len();
        assert!(bytes < 350_000, "{} takes {bytes} bytes", figure.id);
    }
    assert!(figure(&drawn, "cpu").svg.0.contains("420 more are in the table only."));
    assert_eq!(rows(figure(&drawn, "matrix")).len(), 2, "a row for each class");
}

#[test]
fn a_small_square_has_its_figures_as_text_and_one_cpu_is_no_square() {
    let found = drawn(&[square(4)]);
    assert_eq!(ids(&found), ["matrix"], "pairs are in no other figure");
    let drawing = &found[0].svg.0;
    assert_eq!(drawing.matches(" ns</text>").count(), 16 + 2, "and both ends of the key");
    assert!(drawing.contains("CPU 0 to 3: 203 ns, grade "), "{drawing}");
    assert!(drawn(&[square(1)]).is_empty());
}

#[test]
fn each_machine_has_figures_of_its_own() {
    let mut other = small();
    other.machine = Machine { id: "ffff000011112222".to_owned(), ..Machine::default() };
    let drawn = drawn(&[small(), other]);
    assert_eq!(ids(&drawn), ["cpu", "p99", "cpu-machine-2", "p99-machine-2"]);
}

#[test]
fn cpu_time_is_of_both_ends() {
    let mut run = run(slow_ones());
    run.cells[2].cpu_ns_per_message.server = None;
    let drawn = drawn(&[run]);
    let cost = figure(&drawn, "cpu");
    let rows = rows(cost);
    assert_eq!(rows.len(), 5, "a cell without CPU time is left out: {rows:?}");
    assert!(cost.svg.0.contains("median of the time: "));
}

#[test]
fn calls_stand_beside_the_same_bytes_without_calls() {
    let mut cells = slow_ones();
    for cell in &mut cells {
        cell.shape = "call".to_owned();
        let bare_ns = Some(4_000.0);
        let caller = "blocking".to_owned();
        let ratio_to_bare = cell.rtt_ns.as_ref().unwrap().p50.map(|ns| ns / 4_000.0);
        cell.call = Some(CallFacts { caller, bare_ns, ratio_to_bare, ..CallFacts::default() });
    }
    let drawn = drawn(&[run(cells)]);
    let bare = figure(&drawn, "bare");
    assert_eq!(rows(bare)[0][..2], ["pipe", "block"]);
    assert!(bare.svg.0.contains("2.00×") && bare.svg.0.contains("the same bytes without calls: 4"));
}

#[test]
fn a_figure_is_of_an_idle_machine_and_two_cpus_or_says_so() {
    let mut one_cpu = slow_ones();
    for cell in &mut one_cpu {
        cell.placement.class = "same_cpu".to_owned();
    }
    let mut loaded = slow_ones();
    for cell in &mut loaded {
        cell.load = "cpu".to_owned();
    }
    let usual = slow_ones().into_iter().take(2);
    let all = run(one_cpu.iter().chain(&loaded).cloned().chain(usual).collect());
    let title = |run: Run| figure(&drawn(&[run]), "cpu").title.clone();
    assert!(title(all).ends_with(", 8 B"));
    assert!(title(run(one_cpu)).ends_with(", 8 B, both ends on one CPU"));
    assert!(title(run(loaded)).ends_with(", 8 B, beside cpu"));
}

fn disturbed(mut cell: Cell) -> Cell {
    cell.grade = Some(Grade::D);
    cell
}

#[test]
fn what_is_disturbed_is_not_called_the_best() {
    let mut run = run(slow_ones());
    run.cells.push(disturbed(latency("shm-spin", 8, "spin", 100.0, None)));
    run.cells.push(latency("pipe", 64, "block", 9_500.0, None));
    run.cells.push(disturbed(latency("shm-spin", 64, "spin", 110.0, None)));
    let drawn = drawn(&[run]);
    for (id, words) in [("cpu", "Least: pipe"), ("latency", "at 8 B pipe is best")] {
        let desc = desc(figure(&drawn, id));
        assert!(desc.contains(words), "{desc}");
        assert!(figure(&drawn, id).notes[0].contains("of grade D"));
    }
}

#[test]
fn means_alone_give_no_figure() {
    let mut cell = latency("pipe", 8, "block", 1.0, None);
    cell.rtt_ns = Some(RttNs { mean: Some(1_234.0), ..RttNs::default() });
    assert!(drawn(&[run(vec![cell])]).is_empty());
}
