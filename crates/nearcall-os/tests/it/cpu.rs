//! Processors of the running machine.

use nearcall_os::cpu;

#[test]
fn a_thread_is_pinned_to_each_allowed_processor() {
    // In a thread of its own, so that no other test inherits the mask.
    let worker = std::thread::spawn(|| {
        let allowed = cpu::allowed();
        assert!(!allowed.is_empty());
        for &cpu in &allowed {
            cpu::pin_current(cpu).unwrap();
            assert_eq!(cpu::current_cpu(), cpu);
        }
        cpu::unpin_current(&allowed).unwrap();
        assert_eq!(cpu::allowed(), allowed);
    });
    worker.join().unwrap();
}

#[test]
fn a_processor_that_does_not_exist_is_an_error() {
    assert!(cpu::pin_current(1023).is_err() || cpu::allowed().contains(&1023));
    assert!(cpu::pin_current(usize::MAX).is_err());
}
