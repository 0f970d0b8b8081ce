//! What comes from C, and what goes there.
//!
//! **Invariants:** null, bytes that are no UTF-8 and lengths that no object can have are errors
//! that name the argument; a struct is read as far as its size says.
//! **Not here:** handles (`handles.rs`).
//!
//! **Invariant:** in a forked process what its parent has made is an error without a wait. *Checked
//! by* `what_was_made_before_a_fork_is_an_error_after_it`.

use std::any::Any;
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use nearcall::Status;
use nearcall::dynamic::Encoded;

use crate::given::{NONE, give_bytes};
use crate::status::nearcall_status;
use crate::types::{nearcall_bytes, nearcall_view};

/// Within a function of the header: whoever called it keeps the header's rules, so that what it has
/// given may be read and written as they say, until it returns.
#[derive(Debug)]
pub(crate) struct Border(());

/// A struct whose size is its first field, for which all zeros are a value.
///
/// # Safety
///
/// It is `repr(C)`, begins with `size: usize`, and all zeros are a value of it.
pub(crate) unsafe trait Sized_: Copy {}

/// Runs the body of a function of the header, and returns how it has ended: null is `OK`.
///
/// # Safety
///
/// The caller of the function keeps the header's rules.
pub(crate) unsafe fn border(
    body: impl FnOnce(&Border) -> Result<(), Status>,
) -> *mut nearcall_status {
    let ended = catch_unwind(AssertUnwindSafe(|| body(&Border(()))));
    match ended {
        Ok(Ok(())) => std::ptr::null_mut(),
        Ok(Err(status)) => nearcall_status::give(&status),
        Err(panic) => nearcall_status::give(&panicked(&*panic)),
    }
}

/// Runs the body of a function that returns a value, and something else where there is none.
///
/// # Safety
///
/// As that of [`border`].
pub(crate) unsafe fn value_or<T>(other: T, body: impl FnOnce(&Border) -> Option<T>) -> T {
    catch_unwind(AssertUnwindSafe(|| body(&Border(())))).ok().flatten().unwrap_or(other)
}

#[cold]
fn panicked(panic: &(dyn Any + Send)) -> Status {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Status::internal(format!("a defect of libnearcall: {}", text.unwrap_or("it panicked")))
}

#[cold]
pub(crate) fn is_null(what: &str) -> Status {
    Status::invalid_argument(format!("`{what}` is null"))
}

impl Border {
    /// Reads a text that ends with a zero.
    pub(crate) fn text<'a>(&'a self, what: &str, at: *const c_char) -> Result<&'a str, Status> {
        if at.is_null() {
            return Err(is_null(what));
        }
        // SAFETY: the header asks for a text that ends with a zero.
        let text = unsafe { CStr::from_ptr(at) };
        // Most are, and short: a tenth of the instructions that any UTF-8 takes.
        if text.to_bytes().is_ascii() {
            // SAFETY: ASCII is UTF-8.
            return Ok(unsafe { std::str::from_utf8_unchecked(text.to_bytes()) });
        }
        let no_text = |_| Status::invalid_argument(format!("`{what}` is not UTF-8"));
        text.to_str().map_err(no_text)
    }

    /// Returns whether a text that ends with a zero is this one, which has none: not null.
    #[inline]
    pub(crate) fn is_text(&self, at: *const c_char, text: &str) -> bool {
        // Here, so that it is not taken for a function of this library.
        unsafe extern "C" {
            fn strncmp(one: *const c_char, other: *const c_char, count: usize) -> c_int;
        }
        // SAFETY: the header asks for a text that ends with a zero, and no byte behind the first
        // that differs from `text`, which has none, is read.
        if at.is_null() || unsafe { strncmp(at, text.as_ptr().cast(), text.len()) } != 0 {
            return false;
        }
        // SAFETY: all bytes before it are those of `text`, so that the zero is not among them.
        unsafe { at.wrapping_add(text.len()).read() == 0 }
    }

    /// Reads a text that may be missing.
    pub(crate) fn optional_text<'a>(
        &'a self,
        what: &str,
        at: *const c_char,
    ) -> Result<Option<&'a str>, Status> {
        if at.is_null() { Ok(None) } else { self.text(what, at).map(Some) }
    }

    /// Reads an array.
    pub(crate) fn array<'a, T>(
        &'a self,
        what: &str,
        at: *const T,
        count: usize,
    ) -> Result<&'a [T], Status> {
        if count == 0 {
            return Ok(&[]);
        }
        if at.is_null() {
            return Err(is_null(what));
        }
        let bytes = count.checked_mul(size_of::<T>());
        if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) || !at.is_aligned() {
            let text =
                format!("`{what}` cannot be {count} items: its length or its place is wrong");
            return Err(Status::invalid_argument(text));
        }
        // SAFETY: the header asks for so many items there, and the length fits.
        Ok(unsafe { std::slice::from_raw_parts(at, count) })
    }

    /// Reads bytes.
    pub(crate) fn bytes<'a>(&'a self, what: &str, view: nearcall_view) -> Result<&'a [u8], Status> {
        self.array(what, view.data, view.size)
    }

    /// Reads options, of which the caller may know less or more than this library.
    pub(crate) fn options<T: Sized_>(&self, what: &str, at: *const T) -> Result<Option<T>, Status> {
        if at.is_null() {
            return Ok(None);
        }
        let size = self.struct_size(what, at)?;
        // SAFETY: the caller's struct is as long as it says.
        let bytes = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), size) };
        let (known, rest) = bytes.split_at(size.min(size_of::<T>()));
        if rest.iter().any(|byte| *byte != 0) {
            let text = format!("`{what}` sets what this library does not know; use a newer one");
            return Err(Status::unimplemented(text));
        }
        let mut options = std::mem::MaybeUninit::<T>::zeroed();
        let into = options.as_mut_ptr().cast::<u8>();
        // SAFETY: `options` is at least so long, and is other memory.
        unsafe { into.copy_from_nonoverlapping(known.as_ptr(), known.len()) };
        // SAFETY: zeros and what the caller has set are a value, by the trait.
        Ok(Some(unsafe { options.assume_init() }))
    }

    /// Reads how long a struct is that begins with its size.
    fn struct_size<T: Sized_>(&self, what: &str, at: *const T) -> Result<usize, Status> {
        // SAFETY: the header asks for a struct whose size is first.
        let size = unsafe { at.cast::<usize>().read_unaligned() };
        if size < size_of::<usize>() || size / size_of::<usize>() > OPTION_WORDS_MAX {
            let text = format!("`{what}.size` is {size}; set it to sizeof(*{what})");
            return Err(Status::invalid_argument(text));
        }
        Ok(size)
    }

    /// Writes a result. The place is looked at before there is one: see [`place`](Self::place).
    pub(crate) fn put<T>(&self, what: &str, at: *mut T, value: T) -> Result<(), Status> {
        let at = self.place(what, at)?;
        // SAFETY: the header asks for room for a value there.
        unsafe { at.write(value) };
        Ok(())
    }

    /// Writes a struct whose size is its first field, as far as its owner knows of it.
    pub(crate) fn put_sized<T: Sized_>(
        &self,
        what: &str,
        at: *mut T,
        make: impl FnOnce() -> Result<T, Status>,
    ) -> Result<(), Status> {
        let known = self.struct_size(what, self.place(what, at)?)?.min(size_of::<T>());
        let made = make()?;
        // The size stays what the owner has set; what this library does not know of stays as it is.
        let word = size_of::<usize>();
        let from = (&raw const made).cast::<u8>().wrapping_add(word);
        let into = at.cast::<u8>().wrapping_add(word);
        // SAFETY: `made` is at least so long as known, and the owner's struct as it says; they are
        // different memory.
        unsafe { into.copy_from_nonoverlapping(from, known - word) };
        Ok(())
    }

    /// Writes a result if there is a place for it.
    pub(crate) fn put_if_wanted<T>(&self, at: *mut T, value: impl FnOnce() -> T) {
        if !at.is_null() {
            // SAFETY: the header asks for room for a value there, or null.
            unsafe { at.write(value()) };
        }
    }

    /// Writes the next item of a stream, or that there is none; an error leaves none there as well.
    pub(crate) fn put_item(
        &self,
        item: *mut nearcall_bytes,
        has_item: *mut u32,
        receive: impl FnOnce() -> Result<Option<Encoded>, Status>,
    ) -> Result<(), Status> {
        self.put("item", item, NONE)?;
        self.put("has_item", has_item, 0)?;
        let received = receive()?;
        self.put("has_item", has_item, received.is_some().into())?;
        self.put("item", item, give_bytes(received.unwrap_or_default().into_bytes()))
    }

    /// Returns where a result goes: before anything is done that could not be undone.
    pub(crate) fn place<T>(&self, what: &str, at: *mut T) -> Result<*mut T, Status> {
        if at.is_null() { Err(is_null(what)) } else { Ok(at) }
    }
}

/// Longest options that any version will have, in words: a size above it was not set.
const OPTION_WORDS_MAX: usize = 512;

/// Reads a time in nanoseconds, of which the largest value is no end.
pub(crate) fn span(ns: u64) -> Duration {
    if ns == u64::MAX { Duration::MAX } else { Duration::from_nanos(ns) }
}

/// Says where an entry and its key lie; 0: there is none.
pub(crate) fn put_entry_at<'a>(
    at: &Border,
    [key, value]: [*mut nearcall_view; 2],
    mut entries: impl Iterator<Item = (&'a str, &'a [u8])>,
    number: usize,
) -> Option<u32> {
    let (found_key, found) = entries.nth(number)?;
    put_entry(at, key, Some(found_key.as_bytes()))?;
    put_entry(at, value, Some(found))
}

/// Says where an entry lies; 0: there is none.
pub(crate) fn put_entry(
    at: &Border,
    place: *mut nearcall_view,
    found: Option<&[u8]>,
) -> Option<u32> {
    let found = found?;
    let view = nearcall_view { data: found.as_ptr(), size: found.len() };
    at.put("value", place, view).ok().map(|()| 1)
}
