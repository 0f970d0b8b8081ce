//! The options of a call.
//!
//! **Invariants:** what is not given is as the method and the client have it.
//! **Not here:** their meaning (`nearcall::CallOptions`).

use std::time::Duration;

use nearcall::CallOptions;
use pyo3::exceptions::PyValueError;
use pyo3::{Bound, PyAny, PyResult};

use crate::failure::add_entries;

/// Returns options of what was given to a call; `None` if that is nothing.
pub(crate) fn read(
    timeout: Option<f64>,
    metadata: Option<&Bound<'_, PyAny>>,
    wait_for_ready: Option<bool>,
) -> PyResult<Option<CallOptions>> {
    if timeout.is_none() && metadata.is_none() && wait_for_ready.is_none() {
        return Ok(None);
    }
    let mut options = CallOptions::new();
    if let Some(seconds) = timeout {
        options = match seconds.is_infinite() && seconds > 0.0 {
            true => options.no_deadline(),
            false => options.deadline(duration("timeout", seconds)?),
        };
    }
    if let Some(waits) = wait_for_ready {
        options = options.wait_for_ready(waits);
    }
    if let Some(entries) = metadata {
        add_entries(entries, |key, value| {
            options = std::mem::take(&mut options).metadata_bin(key, value)?;
            Ok(())
        })?;
    }
    Ok(Some(options))
}

/// Returns a length of time; one that is over is zero.
pub(crate) fn duration(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds.max(0.0))
        .map_err(|_| PyValueError::new_err(format!("`{name}` is {seconds}: give it in seconds")))
}
