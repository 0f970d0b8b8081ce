//! Accounts of what users hold of this process: descriptors, mappings, bytes and more.
//!
//! A user never holds more than half of what the others leave. So a single user gets half, a second
//! one a quarter, and whoever comes next still gets something. What is charged is given back when
//! its [`Charge`] is dropped.
//!
//! **Invariants:** what is used of a resource is the sum of what its users hold, and never more
//! than its total; no sum overflows; a charge that is refused changes nothing; a forked process
//! charges nothing to the books of its parent, gives nothing back to them and never locks them.
//! **Not here:** how much there is (`nearcall_os::capacity`), who charges what.
//!
//! **Invariant:** a user never holds more than half of what the others leave, and what is held is
//! given back when its holder goes. *Checked by* `src/account/tests.rs`, `tests/accounts.rs`,
//! `crates/nearcall/tests/faults/shares.rs`, `crates/nearcall/tests/faults/memory.rs`.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearcall_os::capacity::{self, Capacity};
use nearcall_os::fork::Epoch;
use thiserror::Error;

/// Something that runs out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// Open descriptors.
    Descriptors,
    /// Mappings of memory.
    Mappings,
    /// Bytes of memory.
    Bytes,
}

const RESOURCES: usize = 3;

/// A user of this machine; those of all others together count as one.
pub type User = Option<u32>;

/// The accounts of all users. Clones are the same accounts.
#[derive(Debug, Clone)]
pub struct Accounts {
    books: Arc<Mutex<Books>>,
    /// Of the process whose books they are.
    epoch: Epoch,
}

#[derive(Debug)]
struct Books {
    totals: [u64; RESOURCES],
    used: [u64; RESOURCES],
    held: HashMap<User, [u64; RESOURCES]>,
    /// Bytes given back since [`Accounts::take_given_back`].
    given_back: u64,
}

/// The account of one user.
#[derive(Debug, Clone)]
pub struct UserAccount {
    accounts: Accounts,
    user: User,
}

/// What one holder has charged to an account. Dropping it gives everything back.
#[derive(Debug)]
pub struct Charge {
    account: UserAccount,
    resource: Resource,
    amount: u64,
}

/// The share of a user does not suffice.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{} would hold {wanted} {resource} of the server and may hold {share}{}: half of what others \
     leave of {total}; close something, or raise {}", Named(*.user), Spared(*.spared),
    .resource.limit()
)]
pub struct Exceeded {
    /// The resource.
    pub resource: Resource,
    /// The user.
    pub user: User,
    /// What the user would hold, in the resource's unit.
    pub wanted: u64,
    /// What the user may hold now.
    pub share: u64,
    /// What of that is spared for messages that are being received.
    pub spared: u64,
    /// What there is for all users together.
    pub total: u64,
}

struct Spared(u64);

impl fmt::Display for Spared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            spared => write!(f, ", but for {spared} that messages under way need"),
        }
    }
}

struct Named(User);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(uid) => write!(f, "user {uid}"),
            None => f.write_str("clients of other machines together"),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Descriptors => "descriptors",
            Self::Mappings => "memory mappings",
            Self::Bytes => "bytes of memory",
        })
    }
}

impl Resource {
    /// The limit that the total follows from.
    fn limit(self) -> &'static str {
        match self {
            Self::Descriptors => "the server's limit of open files (`ulimit -n`)",
            Self::Mappings => "vm.max_map_count",
            Self::Bytes => "the memory of the server's control group, or its `ulimit -v`",
        }
    }
}

impl Accounts {
    /// Creates accounts of so much of each resource.
    #[must_use]
    pub fn new(capacity: &Capacity) -> Self {
        let (used, held) = ([0; RESOURCES], HashMap::new());
        let books = Books { totals: totals(capacity), used, held, given_back: 0 };
        Self { books: Arc::new(Mutex::new(books)), epoch: Epoch::current() }
    }

    /// Returns the accounts of this process, whose servers share what it has. A forked process has
    /// new ones.
    #[cfg(not(simulation))]
    #[must_use]
    pub fn of_process() -> Self {
        static OWN: Mutex<Option<Accounts>> = Mutex::new(None);
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        match own.as_ref().filter(|accounts| accounts.epoch.is_current()) {
            Some(accounts) => accounts.clone(),
            None => own.insert(Self::new(&Capacity::of_process())).clone(),
        }
    }

    /// Returns the accounts of this process of the simulation.
    #[cfg(simulation)]
    #[must_use]
    pub fn of_process() -> Self {
        use nearcall_os::simulation::{Process, current_process};

        static ALL: Mutex<Vec<(Process, Accounts)>> = Mutex::new(Vec::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(process) = current_process() else { return Self::new(&Capacity::of_process()) };
        all.retain(|(other, _)| other.is_beside(process));
        if let Some((_, accounts)) = all.iter().find(|(other, _)| *other == process) {
            return accounts.clone();
        }
        let accounts = Self::new(&Capacity::of_process());
        all.push((process, accounts.clone()));
        accounts
    }

    /// Follows limits of this process that may have changed. What is held stays. Where the address
    /// space is limited, threads share heaps from now on.
    pub fn read_limits(&self) {
        capacity::fit_heaps();
        let mut capacity = Capacity::of_process();
        // Those that are charged are open, too.
        let (charged, _) = self.used(Resource::Descriptors);
        capacity.descriptors = capacity.descriptors.saturating_add(charged);
        self.set_capacity(&capacity);
    }

    fn set_capacity(&self, capacity: &Capacity) {
        self.books().totals = totals(capacity);
    }

    /// Returns the account of a user.
    #[must_use]
    pub fn user(&self, user: User) -> UserAccount {
        UserAccount { accounts: self.clone(), user }
    }

    /// Returns what all users hold of a resource, and what there is of it.
    #[must_use]
    pub fn used(&self, resource: Resource) -> (u64, u64) {
        let books = self.books();
        (books.used[resource as usize], books.totals[resource as usize])
    }

    /// Returns how many bytes were given back since they were last taken.
    #[must_use]
    pub fn given_back(&self) -> u64 {
        self.books().given_back
    }

    /// Works like [`given_back`](Self::given_back), and counts from zero again.
    pub fn take_given_back(&self) -> u64 {
        std::mem::take(&mut self.books().given_back)
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn totals(capacity: &Capacity) -> [u64; RESOURCES] {
    let mut totals = [u64::MAX; RESOURCES];
    totals[Resource::Descriptors as usize] = capacity.descriptors;
    totals[Resource::Mappings as usize] = capacity.mappings;
    totals[Resource::Bytes as usize] = capacity.bytes;
    totals
}

impl Books {
    /// Has `user` hold `new` in place of `old`, which it holds now.
    fn replace(
        &mut self,
        user: User,
        resource: Resource,
        (old, new): (u64, u64),
        spares: bool,
    ) -> Result<(), Exceeded> {
        let (index, total) = (resource as usize, self.totals[resource as usize]);
        let held = self.held.get(&user).map_or(0, |held| held[index]);
        let wanted = (held - old).saturating_add(new);
        let others = self.used[index] - held;
        let share = total.saturating_sub(others) / 2;
        let spared = if spares { share / SPARED_PART } else { 0 };
        if new > old && wanted > share - spared {
            return Err(Exceeded { resource, user, wanted, share, spared, total });
        }
        self.used[index] = others + wanted;
        let account = self.held.entry(user).or_default();
        account[index] = wanted;
        if *account == [0; RESOURCES] {
            self.held.remove(&user);
        }
        if resource == Resource::Bytes {
            self.given_back = self.given_back.saturating_add(old.saturating_sub(new));
        }
        Ok(())
    }
}

impl UserAccount {
    /// Charges `amount` of a resource.
    ///
    /// # Errors
    ///
    /// The share of the user does not suffice; its other holders may give something back.
    pub fn charge(&self, resource: Resource, amount: u64) -> Result<Charge, Exceeded> {
        let mut charge = self.empty_charge(resource);
        charge.resize(amount)?;
        Ok(charge)
    }

    /// Returns a charge of nothing yet, to be resized.
    #[must_use]
    pub fn empty_charge(&self, resource: Resource) -> Charge {
        Charge { account: self.clone(), resource, amount: 0 }
    }

    /// Returns whose account it is.
    #[must_use]
    pub fn user(&self) -> User {
        self.user
    }

    /// Returns the accounts of all users.
    #[must_use]
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }
}

impl Charge {
    /// Returns what is charged.
    #[must_use]
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Charges more, or gives some back. In a forked process it only notes the amount: the books
    /// are its parent's, and a thread that is not there may have locked them.
    ///
    /// # Errors
    ///
    /// As [`UserAccount::charge`]; what was charged stays. Giving back never fails.
    pub fn resize(&mut self, amount: u64) -> Result<(), Exceeded> {
        self.replace(amount, false)
    }

    /// Works like [`resize`](Self::resize), and leaves an eighth of the share to what has to be
    /// charged before it can be refused by itself: messages that are being received, and replies.
    ///
    /// # Errors
    ///
    /// As [`resize`](Self::resize).
    pub fn resize_sparing(&mut self, amount: u64) -> Result<(), Exceeded> {
        self.replace(amount, true)
    }

    fn replace(&mut self, amount: u64, spares: bool) -> Result<(), Exceeded> {
        if amount != self.amount {
            let UserAccount { accounts, user } = &self.account;
            if accounts.epoch.is_current() {
                let change = (self.amount, amount);
                accounts.books().replace(*user, self.resource, change, spares)?;
            }
            self.amount = amount;
        }
        Ok(())
    }
}

/// The part of a share that [`Charge::resize_sparing`] leaves: an eighth, four messages of the
/// largest default size of a user that may hold 128 MiB.
const SPARED_PART: u64 = 8;

/// Resizes a charge to an account that there may be none of.
///
/// # Errors
///
/// As [`Charge::resize`].
pub fn resize(charge: &mut Option<Charge>, amount: usize) -> Result<(), Exceeded> {
    charge.as_mut().map_or(Ok(()), |charge| charge.resize(amount as u64))
}

impl Drop for Charge {
    fn drop(&mut self) {
        let _ = self.resize(0);
    }
}

#[cfg(test)]
mod tests;
