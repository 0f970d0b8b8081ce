//! The id of a method in a frame: FNV-1a of `package.Service/Method`, 32 bits.
//!
//! **Not here:** two methods of one service with one id, which `model.rs` refuses. Methods of
//! different services may share an id, because a call also names its object.
//!
//! **Invariant:** the id depends on the full name alone: it is the same in every build, and methods
//! can be added and removed. *Checked by* `ids_never_change`.

/// Computes the id of `method` of the service with the full name `service`.
pub(crate) fn method_id(service: &str, method: &str) -> u32 {
    let bytes = service.bytes().chain(*b"/").chain(method.bytes());
    bytes.fold(OFFSET, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME))
}

/// The offset basis and the prime of FNV-1a for 32 bits.
const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

#[cfg(test)]
mod tests {
    use super::method_id;

    #[test]
    fn ids_never_change() {
        assert_eq!(method_id("home.v1.Thermostat", "SetTarget"), 0x8186_deca);
        assert_eq!(method_id("", ""), 0x2a0c_975e);
    }
}
