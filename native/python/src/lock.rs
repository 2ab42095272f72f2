//! Work without the interpreter's lock, also while the interpreter ends.
//!
//! CPython before 3.14 ends a thread that asks for the lock after that: it unwinds the thread through our frames, which
//! aborts the process. So from the interpreter's end on, a thread that comes back from work waits for ever, as in 3.14.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::Duration;

use pyo3::prelude::*;

/// The thread that ends the interpreter, once it does.
static ENDING: OnceLock<ThreadId> = OnceLock::new();
/// Threads that ask for the lock.
static ASKING: AtomicUsize = AtomicUsize::new(0);
/// Milliseconds that the end waits for these, since after a fork some of them are not there.
const PATIENCE: usize = 1_000;

/// Works without the lock. A panic declines.
pub fn without_lock<T: Send>(py: Python<'_>, work: impl FnOnce() -> Option<T> + Send) -> Option<T> {
    let result = py.detach(|| {
        let result = catch_unwind(AssertUnwindSafe(work)).ok().flatten();
        ASKING.fetch_add(1, Ordering::SeqCst);
        if ENDING.get().is_some_and(|thread| *thread != thread::current().id()) {
            ASKING.fetch_sub(1, Ordering::SeqCst);
            loop {
                thread::park();
            }
        }
        result
    });
    ASKING.fetch_sub(1, Ordering::SeqCst);
    result
}

/// Python calls this before it ends, when all threads are joined but daemons.
#[pyfunction]
pub fn end(py: Python<'_>) {
    ENDING.get_or_init(|| thread::current().id());
    py.detach(|| {
        for _ in 0..PATIENCE {
            if ASKING.load(Ordering::SeqCst) == 0 {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    });
}
