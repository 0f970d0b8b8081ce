//! Figures of stored and of made-up runs: well formed, complete, in the right place, and resting on
//! the cells that they show.
//!
//! `UPDATE_EXPECT=1 cargo test -p nearcall-results` rewrites the expected drawing; look at it.

use std::collections::HashSet;
use std::path::Path;
use std::sync::LazyLock;

use nearcall_results::noise::Grade;
use nearcall_results::report::chart::Frame;
use nearcall_results::report::chart::axis::Axis;
use nearcall_results::report::chart::lines::{Lines, Point, Series};
use nearcall_results::report::chart::mark::Look;
use nearcall_results::report::figure::{Figure, Shown, figures};
use nearcall_results::report::hosts::hosts;
use nearcall_results::report::number::Unit;
use nearcall_results::run::{Cell, GapFacts, Machine, Matrix, Placement, RttNs, Run};

use crate::page_reader::tags;
use crate::table::{check_golden, empty, latency, stored as stored_run};

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
    let drawing = &figure.svg.0;
    check_well_formed(drawing);
    assert!(drawing.contains("<title id=\"") && drawing.contains("<desc id=\""));
    assert!(drawing.starts_with("<svg") && drawing.contains("viewBox=\"0 0 680 "));
    assert!(figure.id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{}", figure.id);
    assert!(!figure.title.is_empty() && !figure.about.is_empty());
    assert!(
        !figure.caption.is_empty() && figure.caption.chars().count() < 260,
        "{}",
        figure.caption
    );
    let heads: Vec<String> = figure.table.heads().map(|(head, _)| head).collect();
    assert!(!rows(figure).is_empty(), "{} has an empty table", figure.id);
    assert!(heads.iter().any(|head| head.starts_with("grade")), "{heads:?}");
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

fn drawn(shown: &[Shown]) -> Vec<&Figure> {
    let mut found = Vec::new();
    for one in shown {
        if let Shown::Figure(figure) = one {
            found.push(figure);
        }
    }
    found
}

fn shown(runs: &[Run]) -> Vec<Shown> {
    let shown = figures(&hosts(runs).unwrap());
    check_shown(&shown);
    shown
}

#[track_caller]
fn figure<'a>(shown: &'a [Shown], wanted: &str) -> &'a Figure {
    let found = shown.iter().find_map(|one| match one {
        Shown::Figure(figure) if figure.id == wanted => Some(figure),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no figure {wanted}"))
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
    let found = drawn(&shown)[0].svg.0.replace("><", ">\n<");
    check_golden(&found, "figure_overview.svg");
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
    let chart = Lines { x, y, series: vec![series], bounds: Vec::new(), remark: String::new() };
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
        let chart = Lines { x, y, series, bounds: Vec::new(), remark: String::new() };
        chart.draw(&Frame { id: "f", title: "t", desc: "d" }).into_string()
    };
    let count = |drawing: &str, class: &str| drawing.matches(&format!("class=\"{class}\"")).count();
    let (apart, over) = (drawn(400.0), drawn(130.0));
    assert_eq!((count(&apart, "band"), count(&apart, "bar")), (2, 0));
    assert_eq!((count(&over, "band"), count(&over, "bar")), (0, 2));
}

#[test]
fn nearcall_stands_beside_other_libraries() {
    let shown = shown(&[stored_run("rivals/epyc-2cpu.json")]);
    let ids: Vec<&str> = drawn(&shown).iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(ids, ["libraries", "libraries-large", "libraries-rate"]);
    let figure = drawn(&shown)[0];
    assert_eq!(figure.title, "An empty call, beside other libraries");
    let rows = rows(figure);
    assert_eq!(rows.len(), 19);
    let of = |name: &str| rows.iter().find(|row| row[0] == name).unwrap();
    // Only rows of one wait are compared.
    assert_eq!(of("nearcall-spin")[7], "1.00×");
    assert_eq!((of("tonic")[2], of("nearcall-block")[7]), ("block", "1.00×"));
}

fn at(mut cell: Cell, client: u32, server: u32) -> Cell {
    let class = if client == server { "same_cpu" } else { "same_llc" };
    cell.placement =
        Placement { class: class.to_owned(), client_cpu: Some(client), server_cpu: Some(server) };
    cell
}

/// Load and gaps in one run.
fn full() -> Run {
    let mut run = empty();
    for (index, name) in NAMES[..4].iter().enumerate() {
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
fn load_and_gaps_are_drawn() {
    let shown = shown(&[full()]);
    let load = rows(figure(&shown, "load"));
    assert_eq!(load.len(), 4);
    assert!(load.iter().all(|row| row[6] == "2.00×"), "{load:?}");
    let gap = rows(figure(&shown, "gap"));
    assert_eq!((gap.len(), gap[1][2]), (12, "10.0 µs"));
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
    let shown = shown(&[run, named]);
    for figure in drawn(&shown) {
        let bytes = figure.svg.0.len();
        assert!(bytes < 350_000, "{} takes {bytes} bytes", figure.id);
    }
    let overview = drawn(&shown)[0];
    assert!(overview.svg.0.contains("420 more are in the table only."));
}

#[test]
fn each_machine_has_figures_of_its_own() {
    let mut other = small();
    other.machine = Machine { id: "ffff000011112222".to_owned(), ..Machine::default() };
    let shown = shown(&[small(), other]);
    for id in ["overview", "overview-machine-2"] {
        assert_eq!(rows(figure(&shown, id)).len(), 4, "{id}");
    }
}

#[test]
fn cpu_time_stands_beside_the_latency_that_it_buys() {
    let mut run = run(slow_ones());
    run.cells[2].cpu_ns_per_message.server = None;
    let ends = latency("floor-futex", 8, "block", 4_000.0, None);
    run.floors = vec![ends];
    let shown = shown(&[run]);
    let cost = figure(&shown, "cpu-latency");
    let rows = rows(cost);
    assert_eq!(rows.len(), 6, "a cell without CPU time is left out: {rows:?}");
    let both = cost.table.heads().position(|(head, _)| head == "CPU time, both").unwrap();
    // A mean of both ends, which may be above the median of the round trip.
    assert!(rows.iter().all(|row| row[both].ends_with('s')), "{rows:?}");
    assert!(cost.svg.0.contains("CPU time of both ends: "));
}

#[test]
fn a_floor_beside_load_bounds_no_idle_figure() {
    let mut run = run(slow_ones());
    run.floors = vec![latency("floor-spin", 8, "spin", 141.0, None)];
    let bounds = |run: &Run| {
        let shown = shown(std::slice::from_ref(run));
        rows(figure(&shown, "overview")).iter().filter(|row| row[0].starts_with("floor-")).count()
    };
    assert_eq!(bounds(&run), 1);
    run.floors[0].load = "cpu".to_owned();
    assert_eq!(bounds(&run), 0);
}

#[test]
fn the_first_picture_is_of_an_idle_machine_and_two_cpus_or_says_so() {
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
    let title = |run: Run| figure(&shown(&[run]), "overview").title.clone();
    let found = title(all);
    assert!(found.ends_with("every mechanism"), "{found}");
    assert!(title(run(one_cpu)).ends_with("every mechanism, both ends on one CPU"));
    assert!(title(run(loaded)).ends_with("every mechanism, beside cpu"));
}

#[test]
fn a_line_of_floors_has_points_of_one_shape() {
    let mut run = empty();
    for bytes in [8, 64, 512] {
        run.cells.push(latency("pipe", bytes, "block", 9_000.0, None));
        for (shape, ns) in [("echo", 1_234.0), ("sink", 4_321.0)] {
            let mut floor = latency("floor-chunked-copy", bytes, "spin", ns, None);
            floor.shape = shape.to_owned();
            run.floors.push(floor);
        }
    }
    let shown = shown(&[run]);
    let drawing = &figure(&shown, "latency-echo").svg.0;
    assert!(drawing.contains("1.23 µs") && !drawing.contains("4.32 µs"));
}

fn disturbed(mut cell: Cell) -> Cell {
    cell.grade = Some(Grade::D);
    cell
}

#[test]
fn what_is_disturbed_is_not_called_the_fastest() {
    let mut run = run(slow_ones());
    run.cells.push(disturbed(latency("shm-spin", 8, "spin", 100.0, None)));
    run.cells.push(latency("pipe", 64, "block", 9_500.0, None));
    run.cells.push(disturbed(latency("shm-spin", 64, "spin", 110.0, None)));
    let shown = shown(&[run]);
    let overview = figure(&shown, "overview");
    assert!(desc(overview).contains("Fastest: pipe"), "{}", desc(overview));
    let sizes = figure(&shown, "latency-echo");
    assert!(!desc(sizes).contains("shm-spin is best"), "{}", desc(sizes));
}

/// The size that is drawn, and fewer of another one.
fn idle_and_loaded() -> Run {
    let mut run = empty();
    for load in ["idle", "cpu"] {
        let large = NAMES[..2].iter().map(|name| latency(name, 4_096, "block", 9_900.0, None));
        for mut cell in slow_ones().into_iter().chain(large) {
            cell.load = load.to_owned();
            run.cells.push(cell);
        }
    }
    run
}

#[test]
fn beside_a_load_only_what_is_drawn_is_counted_and_grade_d_is_told() {
    let mut run = idle_and_loaded();
    run.cells[0].grade = Some(Grade::D);
    let shown = shown(&[run]);
    let load = figure(&shown, "load");
    assert!(load.caption.contains(" 6 cells,"), "{}", load.caption);
    assert!(load.notes.iter().any(|note| note.contains("1 values are of grade D")));
}

#[test]
fn means_alone_give_no_figure() {
    let mut cell = latency("pipe", 8, "block", 1.0, None);
    cell.rtt_ns = Some(RttNs { mean: Some(1_234.0), ..RttNs::default() });
    cell.tags = vec!["imported".to_owned(), "mean".to_owned()];
    assert!(drawn(&shown(&[run(vec![cell])])).is_empty());
}
