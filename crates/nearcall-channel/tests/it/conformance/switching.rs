//! A connection changes its mechanism while both ends talk, from each mechanism to each.

use nearcall_channel::account::{Accounts, Resource};
use nearcall_os::capacity::Capacity;

use super::sizes::settle;
use crate::support::prelude::*;
use crate::support::switcher::Switcher;

pub(super) fn changes_to_every_mechanism(play: &mut Play) {
    let capacity = Capacity { descriptors: 1 << 20, mappings: 1 << 20, bytes: 1 << 40 };
    let accounts = Accounts::new(&capacity);
    for to in Mechanism::all().filter(|it| it.supported().is_ok()) {
        let mut options = play.options();
        if play.serves() {
            options.account = Some(accounts.user(Some(7)));
        }
        let endpoint = play.meet_with(&options);
        let options = Options { wait: None, wait_preferred: to.waits(), ..options };
        let mut end = Switcher::new(endpoint, !play.serves(), &options);
        end.round(false);
        end.switch_to(to, true);
        end.round(false);
        let charged = accounts.used(Resource::Descriptors).0;
        if play.serves() {
            assert_eq!(charged, end.endpoint().descriptors() as u64, "charged over {to}");
        }
        settle(play);
        end.expect_nothing_more();
        settle(play);
        drop(end);
        for resource in [Resource::Descriptors, Resource::Mappings, Resource::Bytes] {
            assert_eq!(accounts.used(resource).0, 0, "{resource} are charged after {to}");
        }
    }
}
