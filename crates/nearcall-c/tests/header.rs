//! The header is what the sources say. `UPDATE_EXPECT=1` rewrites it; review the difference.

use std::path::Path;

#[test]
fn the_header_is_that_of_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let bindings = cbindgen::generate(root).expect("cbindgen reads the sources");
    let mut header = Vec::new();
    bindings.write(&mut header);
    let expected = root.join("include/nearcall.h");
    let differs = std::fs::read(&expected).ok().as_ref() != Some(&header);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&expected, &header).expect("the header is writable");
        return;
    }
    assert!(!differs, "{} is stale; review it after UPDATE_EXPECT=1", expected.display());
}
