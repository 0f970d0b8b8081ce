//! The accounts against a model, and their rule in numbers.

use nearcall_os::capacity::Capacity;
use nearcall_os::fork::run_in_child;

use super::*;

fn accounts(descriptors: u64) -> Accounts {
    Accounts::new(&Capacity { descriptors, mappings: 1000, bytes: u64::MAX })
}

#[test]
fn a_user_holds_at_most_half_of_what_the_others_leave() {
    let accounts = accounts(1000);
    let mut kept = Vec::new();
    for (user, share) in [(Some(1), 500), (Some(2), 250), (None, 125)] {
        let account = accounts.user(user);
        let refused = account.charge(Resource::Descriptors, share + 1).unwrap_err();
        assert_eq!((refused.share, refused.wanted, refused.total), (share, share + 1, 1000));
        kept.push(account.charge(Resource::Descriptors, share).unwrap());
        assert!(account.charge(Resource::Descriptors, 1).is_err());
    }
    assert_eq!(accounts.used(Resource::Descriptors), (875, 1000));
    kept.remove(0);
    assert!(accounts.user(Some(2)).charge(Resource::Descriptors, 100).is_ok());
    drop(kept);
    assert_eq!(accounts.used(Resource::Descriptors), (0, 1000));
    assert!(accounts.books().held.is_empty());
}

#[test]
fn a_refusal_names_user_resource_share_and_limit() {
    let accounts = accounts(10);
    let text = accounts.user(Some(7)).charge(Resource::Descriptors, 6).unwrap_err().to_string();
    for part in ["user 7", "6 descriptors", "may hold 5", "of 10", "ulimit -n"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_limit_that_falls_refuses_growth_and_takes_nothing_away() {
    let accounts = accounts(1000);
    let mut charge = accounts.user(None).charge(Resource::Descriptors, 400).unwrap();
    accounts.set_capacity(&Capacity { descriptors: 100, mappings: 0, bytes: 0 });
    assert!(charge.resize(401).is_err());
    assert_eq!(charge.amount(), 400);
    charge.resize(50).unwrap();
    assert!(charge.resize(51).is_err());
}

#[test]
#[cfg_attr(miri, ignore = "needs the kernel")]
fn a_forked_process_leaves_the_books_of_its_parent_alone() {
    let accounts = accounts(1000);
    let own = Accounts::of_process();
    assert!(Arc::ptr_eq(&own.books, &Accounts::of_process().books));
    let mut charges: Vec<_> =
        (0..2).map(|_| accounts.user(None).charge(Resource::Descriptors, 100).unwrap()).collect();
    // As by a thread that the child does not have.
    let locked = accounts.books();
    let code = run_in_child(|| {
        charges[0].resize(900).unwrap();
        charges.clear();
        let new = Accounts::of_process();
        let _charge = new.user(None).charge(Resource::Bytes, 1).unwrap();
        u8::from(Arc::ptr_eq(&own.books, &new.books))
    });
    drop(locked);
    assert_eq!(code.unwrap(), 0);
    assert_eq!(accounts.used(Resource::Descriptors), (200, 1000));
}

/// Small as a rule, and now and then as large as a number can be.
fn any_amount(random: &mut fastrand::Rng) -> u64 {
    match random.u8(..8) {
        0 => u64::MAX - random.u64(..3),
        1 => u64::MAX / 2 + random.u64(..3),
        _ => random.u64(..200),
    }
}

const ALL: [Resource; 3] = [Resource::Descriptors, Resource::Mappings, Resource::Bytes];

/// Runs random charges, and compares each outcome and sum with those of a list of what is held.
fn run(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let descriptors = if seed.is_multiple_of(3) { u64::MAX } else { 1000 };
    let accounts = accounts(descriptors);
    let mut held: Vec<Charge> = Vec::new();
    for step in 0..400 {
        let (user, resource) = (Some(random.u32(..4)), ALL[random.usize(..ALL.len())]);
        let sum = |held: &[Charge], of: Option<User>| -> u128 {
            let of_user = |it: &&Charge| of.is_none_or(|user| it.account.user == user);
            let of_resource = held.iter().filter(|it| it.resource == resource).filter(of_user);
            of_resource.map(|it| u128::from(it.amount)).sum()
        };
        let (own, all) = (sum(&held, Some(user)), sum(&held, None));
        let total = accounts.used(resource).1;
        let share = (u128::from(total) - (all - own)) / 2;
        match random.u8(..3) {
            0 => {
                let amount = any_amount(&mut random);
                let charged = accounts.user(user).charge(resource, amount);
                let fits = amount == 0 || own + u128::from(amount) <= share;
                assert_eq!(charged.is_ok(), fits, "seed {seed}, step {step}");
                held.extend(charged);
            }
            1 if !held.is_empty() => {
                let index = random.usize(..held.len());
                let (before, amount) = (held[index].amount, any_amount(&mut random));
                let grown = held[index].resize(amount);
                assert!(amount > before || grown.is_ok(), "seed {seed}, step {step}");
                assert_eq!(held[index].amount, if grown.is_ok() { amount } else { before });
            }
            _ if !held.is_empty() => {
                let index = random.usize(..held.len());
                drop(held.swap_remove(index));
            }
            _ => {}
        }
        let used = u128::from(accounts.used(resource).0);
        assert_eq!(used, sum(&held, None), "seed {seed}, step {step}");
        assert!(used <= u128::from(total), "seed {seed}, step {step}");
    }
    drop(held);
    assert!(ALL.iter().all(|resource| accounts.used(*resource).0 == 0), "seed {seed}");
    assert!(accounts.books().held.is_empty(), "seed {seed}");
}

#[test]
fn the_books_are_those_of_a_model() {
    for seed in 0..if cfg!(miri) { 3 } else { 300 } {
        run(seed);
    }
}
