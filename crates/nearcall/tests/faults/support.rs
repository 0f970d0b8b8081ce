pub(crate) fn unique_address() -> String {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("unix:@nearcall-fault-{}-{number}", std::process::id())
}
