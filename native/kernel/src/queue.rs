//! Signatures that several threads verify while others are added.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard};

use crate::jws::verifies;

/// A signature: point, message, r and s.
pub type Signature = (Vec<u8>, Vec<u8>, Vec<u8>);

#[derive(Default)]
struct State {
    waiting: VecDeque<(usize, Signature)>,
    /// Whether each signature is known to be valid.
    valid: Vec<bool>,
    is_closed: bool,
}

/// Signatures in the order in which they were added.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    fn state(&self) -> Option<MutexGuard<'_, State>> {
        self.state.lock().ok()
    }

    /// Adds a signature.
    pub fn add(&self, signature: Signature) {
        if let Some(mut state) = self.state() {
            let number = state.valid.len();
            state.valid.push(false);
            state.waiting.push_back((number, signature));
            self.changed.notify_one();
        }
    }

    /// Says that no more are added.
    pub fn close(&self) {
        if let Some(mut state) = self.state() {
            state.is_closed = true;
            self.changed.notify_all();
        }
    }

    /// Verifies signatures until the queue is closed and none is waiting.
    pub fn work(&self) {
        while let Some((number, (point, message, signature))) = self.next() {
            let valid = catch_unwind(AssertUnwindSafe(|| verifies(&point, &message, &signature))).unwrap_or(false);
            if let Some(mut state) = self.state() {
                state.valid[number] = valid;
            }
        }
    }

    /// Whether each signature is known to be valid.
    pub fn valid(&self) -> Vec<bool> {
        self.state().map(|state| state.valid.clone()).unwrap_or_default()
    }

    fn next(&self) -> Option<(usize, Signature)> {
        let mut state = self.state()?;
        loop {
            let first = state.waiting.pop_front();
            if first.is_some() || state.is_closed {
                return first;
            }
            state = self.changed.wait(state).ok()?;
        }
    }
}
