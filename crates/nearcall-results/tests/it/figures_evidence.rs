//! What figures draw and say must rest on the cells that they show: fronts, bounds, words, counts.

use nearcall_results::noise::Grade;
use nearcall_results::report::figure::{Figure, Shown, figures};
use nearcall_results::report::hosts::hosts;
use nearcall_results::run::{Cell, Machine, Matrix, RttNs, Run};

use crate::figures::check_shown;
use crate::table::{empty, latency};

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
fn an_enlarged_scatter_keeps_the_front_of_the_whole() {
    let mut run = run(slow_ones());
    run.cells.push(latency("shm-spin", 8, "spin", 100.0, None));
    let shown = shown(&[run]);
    let (whole, near) = (figure(&shown, "cpu-latency"), figure(&shown, "cpu-latency-near"));
    let on_front = |figure: &Figure| {
        let column = figure.table.heads.iter().position(|head| head == "on the front").unwrap();
        figure.table.rows.iter().filter(|row| row[column] == "yes").count()
    };
    assert_eq!((on_front(whole), on_front(near)), (1, 0));
    assert!(whole.svg.0.contains("class=\"front\"") && !near.svg.0.contains("class=\"front\""));
}

#[test]
fn an_enlarged_front_begins_where_that_of_the_whole_comes_from() {
    let mut run = run(slow_ones());
    // Less CPU time than all the others: both this and the fast one are on the front.
    run.cells[2].cpu_ns_per_message.client = Some(10.0);
    run.cells[2].cpu_ns_per_message.server = Some(10.0);
    run.cells.push(latency("shm-spin", 8, "spin", 100.0, None));
    let shown = shown(&[run]);
    let near = figure(&shown, "cpu-latency-near");
    assert!(desc(near).contains("both costs: tcp."), "{}", desc(near));
    // From the left edge, across, down, and on to the right edge.
    let (_, path) = near.svg.0.split_once("class=\"front\" d=\"").unwrap();
    let points = path.split_once('"').unwrap().0.matches(' ').count();
    assert!(points >= 4, "{path:.80}");
}

#[test]
fn a_floor_beside_load_bounds_no_idle_figure() {
    let mut run = run(slow_ones());
    run.floors = vec![latency("floor-spin", 8, "spin", 141.0, None)];
    let bounds = |run: &Run| {
        let shown = shown(std::slice::from_ref(run));
        let rows = &figure(&shown, "overview").table.rows;
        rows.iter().filter(|row| row[0].starts_with("bound")).count()
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
    assert!(
        load.about.contains(" 6 cells,") && !load.about.contains(" 8 cells,"),
        "{}",
        load.about
    );
    assert!(load.notes.iter().any(|note| note.contains("1 values are of grade D")));
}

#[test]
fn grade_d_is_told_where_machines_are_compared() {
    let mut other = run(slow_ones());
    other.machine = Machine { id: "ffff000011112222".to_owned(), ..Machine::default() };
    let mut first = run(slow_ones());
    for run in [&mut first, &mut other] {
        run.cells[0].grade = Some(Grade::D);
    }
    let shown = shown(&[first, other]);
    let machines = figure(&shown, "machines");
    assert!(machines.notes.iter().any(|note| note.starts_with("1 hollow marks")));
    assert!(desc(machines).contains(" of 5 undisturbed cells"), "{}", desc(machines));
}

#[test]
fn a_matrix_of_means_alone_says_so() {
    let mut run = empty();
    run.matrix = Some(Matrix { cpus: vec![0, 1], pairs: 2, left_out: 0 });
    for (client, server) in [(0, 1), (1, 0)] {
        let mut cell = latency("pipe", 8, "block", 1.0, None);
        cell.placement.client_cpu = Some(client);
        cell.placement.server_cpu = Some(server);
        cell.rtt_ns = Some(RttNs { mean: Some(1_234.0), ..RttNs::default() });
        cell.tags = vec!["imported".to_owned(), "mean".to_owned()];
        run.cells.push(cell);
    }
    let shown = shown(&[run]);
    let reason = shown.iter().find_map(|one| match one {
        Shown::Missing { id, reason, .. } if id == "matrix" => Some(reason.as_str()),
        _ => None,
    });
    assert!(reason.is_some_and(|reason| reason.contains("only means are stored")), "{reason:?}");
}
