//! SD-JWTs that several threads read, and signatures that they verify, while others are added.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use aws_lc_rs::digest::Digest;

use crate::jws::Key;
use crate::sd_jwt::{Limits, SdJwt};

pub enum Job {
    Read { issuer_jwt: String, disclosures: Vec<String>, limits: Limits },
    Verify { key: Arc<Key>, hash: Digest, signature: Vec<u8> },
}

#[derive(Clone)]
enum Outcome {
    Waiting,
    Read(Option<Arc<SdJwt>>),
    Valid(bool),
}

impl Job {
    fn done(self) -> Outcome {
        match self {
            Job::Read { issuer_jwt, disclosures, limits } => {
                let disclosures: Vec<&str> = disclosures.iter().map(String::as_str).collect();
                let read = SdJwt::read(&issuer_jwt, &disclosures, limits, None);
                read.iter().for_each(|read| {
                    read.sd_hash(&disclosures);
                });
                Outcome::Read(read.map(Arc::new))
            }
            Job::Verify { key, hash, signature } => Outcome::Valid(key.verifies_digest(&hash, &signature)),
        }
    }
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(usize, Job)>,
    outcomes: Vec<Outcome>,
    is_closed: bool,
}

/// Jobs in the order in which they were added.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    fn state(&self) -> Option<MutexGuard<'_, State>> {
        self.state.lock().ok()
    }

    /// Adds a job, and gives its number.
    pub fn add(&self, job: Job) -> Option<usize> {
        let mut state = self.state()?;
        let number = state.outcomes.len();
        state.outcomes.push(Outcome::Waiting);
        state.waiting.push_back((number, job));
        self.changed.notify_all();
        Some(number)
    }

    /// How many were added.
    pub fn count(&self) -> usize {
        self.state().map_or(0, |state| state.outcomes.len())
    }

    /// Says that no more are added.
    pub fn close(&self) {
        if let Some(mut state) = self.state() {
            state.is_closed = true;
            self.changed.notify_all();
        }
    }

    /// Works until the queue is closed and no job is waiting.
    pub fn work(&self) {
        while let Some(state) = self.state() {
            let Some(mut state) = self.until(state, |state| state.is_closed || !state.waiting.is_empty()) else {
                return;
            };
            let Some(job) = state.waiting.pop_front() else { return };
            drop(state);
            self.finish(job);
        }
    }

    /// The SD-JWT of a job, which this thread waits for, and works meanwhile.
    pub fn sd_jwt(&self, number: usize) -> Option<Arc<SdJwt>> {
        loop {
            let is_done = |state: &State| !matches!(state.outcomes.get(number), Some(Outcome::Waiting));
            let mut state = self.until(self.state()?, |state| is_done(state) || !state.waiting.is_empty())?;
            if is_done(&state) {
                return if let Some(Outcome::Read(read)) = state.outcomes.get(number) { read.clone() } else { None };
            }
            let job = state.waiting.pop_front()?;
            drop(state);
            self.finish(job);
        }
    }

    /// Whether each signature is known to be valid; false for other jobs.
    pub fn valid(&self) -> Vec<bool> {
        let state = self.state();
        state.map_or(vec![], |state| state.outcomes.iter().map(|one| matches!(one, Outcome::Valid(true))).collect())
    }

    fn until<'s>(
        &self,
        mut state: MutexGuard<'s, State>,
        holds: impl Fn(&State) -> bool,
    ) -> Option<MutexGuard<'s, State>> {
        while !holds(&state) {
            state = self.changed.wait(state).ok()?;
        }
        Some(state)
    }

    fn finish(&self, (number, job): (usize, Job)) {
        let done = catch_unwind(AssertUnwindSafe(|| job.done())).unwrap_or(Outcome::Valid(false));
        if let Some(mut state) = self.state() {
            state.outcomes[number] = done;
            self.changed.notify_all();
        }
    }
}
