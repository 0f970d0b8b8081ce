//! The table of a made-up run from CPU to CPU, compared with the text in `tests/golden`.

use nearcall_results::noise::Grade;
use nearcall_results::report::table::table;
use nearcall_results::run::{Cell, LoadAchieved, Matrix, Placement, Run};

use crate::table::{PAGE, check, empty, latency, place};

/// Two cores of two threads each on one cache, and two more on another node.
fn class(a: u32, b: u32) -> &'static str {
    match (a / 2 == b / 2, a / 4 == b / 4) {
        _ if a == b => "same_cpu",
        (true, _) => "smt",
        (false, true) => "same_llc",
        (false, false) => "cross_node",
    }
}

fn cell(name: &str, wait: &str, client: u32, server: u32, ns: f64) -> Cell {
    let mut cell = latency(name, 8, wait, ns, None);
    place(&mut cell, wait, [ns, ns], Grade::B);
    cell.placement = Placement {
        class: class(client, server).to_owned(),
        client_cpu: Some(client),
        server_cpu: Some(server),
    };
    cell
}

pub(crate) fn run() -> Run {
    let mut run = empty();
    let cpus: Vec<u32> = (0..8).collect();
    run.matrix = Some(Matrix { cpus: cpus.clone(), pairs: 64, left_out: 0 });
    for &client in &cpus {
        for &server in &cpus {
            let way_ns = match class(client, server) {
                "same_cpu" => 0.0,
                "smt" => 90.0,
                "same_llc" => 240.0,
                _ => 610.0,
            };
            let ns = way_ns + f64::from(client) * 3.0 + f64::from(server);
            if client != server {
                run.cells.push(cell("shm", "spin", client, server, ns));
            }
            run.cells.push(cell("pipe", "block", client, server, ns + 5_000.0));
        }
    }
    run
}

#[test]
fn pairs_that_were_left_out_and_disturbed_ones_are_told() {
    let mut run = run();
    run.matrix = Some(Matrix { cpus: (0..12).collect(), pairs: 144, left_out: 80 });
    run.cells.retain(|cell| cell.mechanism == "pipe");
    run.cells[1].grade = Some(Grade::D);
    for cell in &mut run.cells {
        cell.load = "cpu,memory,io".to_owned();
        cell.load_achieved = Some(LoadAchieved {
            workers: 4,
            cpu_percent: vec![61.0, 58.5],
            memory_bytes_per_s: Some(2.1e9),
            io_bytes_per_s: Some(9.4e7),
            ..LoadAchieved::default()
        });
    }
    run.cells[5].load_achieved.as_mut().unwrap().not_reached =
        vec!["the io worker: cannot write in /tmp: read-only file system".to_owned()];
    check(&table(&run, PAGE), "table_matrix_loaded.txt");
}
