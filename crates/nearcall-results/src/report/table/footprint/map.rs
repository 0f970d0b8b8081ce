//! Where the memory of processes lies: a block by cause, and one by mapping.

use crate::findings::memory::{Cause, MemoryMap, PartBytes};
use crate::report::columns::{self, Column};
use crate::report::document::Document;
use crate::report::number;
use crate::report::table::grid::clean;

/// A row of either block.
struct Row {
    /// The set-up.
    what: String,
    label: String,
    cause: &'static str,
    bytes: PartBytes,
}

/// Prints the maps, if there are any.
pub(super) fn print(out: &mut Document, maps: &[MemoryMap]) {
    if maps.is_empty() {
        return;
    }
    out.part("Memory by cause");
    out.grid(columns::grouped(&BY_CAUSE, &by_cause(maps), |row| row.what.clone()).compact());
    out.part(format!("Memory by mapping, from {} on", number::memory(SHOWN_BYTES_MIN as f64)));
    out.grid(columns::grouped(&BY_MAPPING, &by_mapping(maps), |row| row.what.clone()).compact());
    out.note(LEGEND);
}

/// Returns what each set-up takes.
pub(super) fn answer(maps: &[MemoryMap]) -> Option<String> {
    let amounts = maps
        .iter()
        .map(|map| format!("{}: {}", clean(&map.what), number::memory(map.sum(None).pss as f64)));
    let amounts: Vec<String> = amounts.collect();
    (!amounts.is_empty()).then(|| format!("{} (PSS).", amounts.join("; ")))
}

fn by_cause(maps: &[MemoryMap]) -> Vec<Row> {
    let mut rows = Vec::new();
    for map in maps {
        let row = |label: &str, bytes| Row {
            what: clean(&map.what),
            label: label.to_owned(),
            cause: "",
            bytes,
        };
        let causes = Cause::ALL.iter().map(|&cause| (cause, map.sum(Some(cause))));
        let causes = causes.filter(|(_, bytes)| *bytes != PartBytes::default());
        rows.extend(causes.map(|(cause, bytes)| row(cause.name(), bytes)));
        rows.push(row("all", map.sum(None)));
        if let Some(private) = map.page_table_bytes {
            rows.push(row("page tables", PartBytes { private, ..PartBytes::default() }));
        }
    }
    rows
}

fn by_mapping(maps: &[MemoryMap]) -> Vec<Row> {
    let mut rows = Vec::new();
    for map in maps {
        // Of a difference only the causes are known.
        let named = map.parts.iter().filter(|part| !part.mapping.is_empty());
        let mut parts: Vec<_> = named.filter(|part| part.bytes.pss >= SHOWN_BYTES_MIN).collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.bytes.pss));
        rows.extend(parts.into_iter().map(|part| Row {
            what: clean(&map.what),
            label: clean(&part.mapping),
            cause: part.cause.name(),
            bytes: part.bytes,
        }));
    }
    rows
}

fn amount(bytes: i64) -> String {
    match bytes {
        0 => "–".to_owned(),
        bytes => number::optional(Some(bytes as f64), "bytes"),
    }
}

const BY_CAUSE: [Column<Row>; 4] = [
    Column::words("", 20, |row| row.label.clone()),
    Column::figure("private", FIGURE, |row| amount(row.bytes.private)),
    Column::figure("shared", FIGURE, |row| amount(row.bytes.shared)),
    Column::figure("PSS", FIGURE, |row| amount(row.bytes.pss)),
];

const BY_MAPPING: [Column<Row>; 5] = [
    Column::words("", 32, |row| row.label.clone()),
    Column::words("cause", 13, |row| row.cause.to_owned()),
    Column::figure("private", FIGURE, |row| amount(row.bytes.private)),
    Column::figure("shared", FIGURE, |row| amount(row.bytes.shared)),
    Column::figure("PSS", FIGURE, |row| amount(row.bytes.pss)),
];

/// An amount with its unit.
const FIGURE: usize = 10;

/// Smaller mappings are in the block by cause only.
const SHOWN_BYTES_MIN: i64 = 16 << 10;

const LEGEND: &str = "private: resident pages that no other process maps; shared: the others; PSS \
    divides a shared page by the processes that map it. relocations: pages of program files that \
    the dynamic linker has written addresses into, each process for itself (RELRO of the ELF \
    program headers). variables: what else of program files was written to. allocator: the heap \
    and other memory without a file. ring, segments, tables: shared memory of connections. page \
    tables are in the kernel, and in no sum. Resident text is what lies in the page cache around \
    what has run (64 KiB at a time), so more than what has run.";
