use crate::runner::hooks;
use nearcall_bench::profile::*;
use nearcall_channel::*;
#[test]
fn draft_all() {
    for mechanism in Mechanism::all() {
        for &wait in mechanism.waits() {
            if wait == WaitPolicy::Spin && mechanism.data_path() != DataPath::SharedMemory {
                continue;
            }
            let plan = ProfilePlan {
                mechanism,
                message_bytes: 1024,
                shape: nearcall_bench::bench_plan::Shape::Echo,
                wait,
                placement: Default::default(),
                seed: 1,
            };
            println!("{mechanism} {wait} {}", draft(&plan, &hooks()));
        }
    }
}
