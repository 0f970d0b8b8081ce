//! The number that stands for a method in a frame: FNV-1a of `package.Service/Method`, 32 bits.
//!
//! Always true: it depends on the full name and on nothing else, so it is the same in every build,
//! and other methods can come and go. Two methods of one service with one number are refused in
//! `model.rs`; methods of different services never meet, because a call names its object too.

/// The number of `method` of the service with the full name `service`.
pub(crate) fn method_id(service: &str, method: &str) -> u32 {
    let bytes = service.bytes().chain(*b"/").chain(method.bytes());
    bytes.fold(OFFSET, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME))
}

/// The start value and the factor that the definition of FNV-1a gives for 32 bits.
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
