//! Panics of libraries that read strangers' files, turned into a sentence at our door.
//!
//! A library that panics on damaged input would end the command (or a server's request) with a backtrace that names no
//! file. Invariant: what runs inside [`caught`] either returns or becomes an error; nothing is printed.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs a library's code; a panic becomes its message. Nothing the code was working on may be used after that.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |about| {
            if !INSIDE.get() {
                others(about);
            }
        }));
    });
    let before = INSIDE.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    INSIDE.set(before);
    outcome.map_err(|cause| {
        let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| cause.downcast_ref::<String>().cloned());
        let text: String = text.unwrap_or_default().chars().take(200).collect();
        format!("it is damaged in a way its reader cannot handle: {text}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message_and_work_its_outcome() {
        assert_eq!(caught(|| 1 + 1), Ok(2));
        let empty: [u8; 0] = [];
        let error = caught(|| empty[std::hint::black_box(3)]).unwrap_err();
        assert!(error.contains("index out of bounds"), "{error}");
        assert!(!INSIDE.get());
    }
}
