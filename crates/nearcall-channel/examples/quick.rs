//! quick
use nearcall_channel::*;
use nearcall_os::{clock, cpu, socket, region::*};
use std::sync::atomic::*;
fn main() {
    // floor
    let rounds = 2_000_000u64;
    let med = |mut v: Vec<u64>| { v.sort(); v[v.len()/2] };
    for _ in 0..2 {
        let (a, fd) = SharedRegion::create("x", 8192, Backing::Reserved).unwrap();
        let b = SharedRegion::open(fd, 8192..=8192).unwrap();
        let t = std::thread::spawn(move || { cpu::pin_current(1).unwrap();
            for i in 1..=rounds { while b.word64(0).load(Ordering::Acquire) != i { std::hint::spin_loop() } b.word64(1024).store(i, Ordering::Release); } });
        cpu::pin_current(0).unwrap();
        let mut v = vec![];
        for i in 1..=rounds { if i%100==1 { v.push(clock::monotonic_ns()); } a.word64(0).store(i, Ordering::Release); while a.word64(1024).load(Ordering::Acquire) != i { std::hint::spin_loop() } }
        t.join().unwrap();
        println!("floor {} ns", med(v.windows(2).map(|w| (w[1]-w[0])/100).collect()));
    }
    for m in std::env::args().skip(1) {
        let m: Mechanism = m.parse().unwrap();
        for size in [8usize, 56, 64, 1024, 65536, 1<<20] {
        let (a, b) = socket::unix_pair(socket::Kind::Seqpacket).unwrap();
        let n = if size > 10000 { 3000 } else if m.waits()[0]==WaitPolicy::Spin { 1_000_000 } else { 100_000 };
        let t = std::thread::spawn(move || { cpu::pin_current(1).unwrap(); let mut e = accept_over(b, &Options::default()).unwrap();
            let mut buf = vec![0u8; 1<<22];
            loop { let k = match e.receive(Deadline::Never) { Ok(mut msg) => msg.read(&mut buf).unwrap(), Err(ReceiveError::PeerGone) => break, Err(e) => panic!("{e}") };
                let k = k.min(8);
                e.send(&buf[..k], Deadline::Never).unwrap(); } });
        let mut e = connect_over(a, m, &Options::default()).unwrap();
        let data = vec![7u8; size]; let mut buf = vec![0u8; 1<<22];
        let mut v = vec![];
        for i in 0..n { if i%10==0 {v.push(clock::monotonic_ns());} e.send(&data, Deadline::Never).unwrap(); let mut r = e.receive(Deadline::Never).unwrap(); r.read(&mut buf).unwrap(); }
        println!("{m} {size} {} ns", med(v.windows(2).map(|w| (w[1]-w[0])/10).collect()));
        drop(e); t.join().unwrap();
        }
        // stream
        let (a, b) = socket::unix_pair(socket::Kind::Seqpacket).unwrap();
        let n = 10_000_000u64;
        let t = std::thread::spawn(move || { cpu::pin_current(1).unwrap(); let mut e = accept_over(b, &Options::default()).unwrap();
            let mut sum=0u64; let mut buf=[0u8;8];
            for _ in 0..n { let mut msg = e.receive(Deadline::Never).unwrap(); msg.read(&mut buf).unwrap(); sum=sum.wrapping_add(u64::from_le_bytes(buf)); }
            e.send(&sum.to_le_bytes(), Deadline::Never).unwrap(); });
        let mut e = connect_over(a, m, &Options::default()).unwrap();
        let s = clock::monotonic_ns();
        for i in 0..n { e.send(&i.to_le_bytes(), Deadline::Never).unwrap(); }
        let mut buf=[0u8;8];
        e.receive(Deadline::Never).unwrap().read(&mut buf).unwrap();
        assert_eq!(u64::from_le_bytes(buf), n*(n-1)/2);
        println!("{m} stream {:.1} M/s", n as f64*1e3/(clock::monotonic_ns()-s) as f64);
        t.join().unwrap();
    }
}
