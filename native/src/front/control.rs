//! What the threads that hold a front and its loop tell each other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::protocol::duration;

#[derive(Default)]
struct State {
    patience: Duration,
    drained: bool,
}

/// The flags.
#[derive(Default)]
pub(crate) struct Control {
    stop: AtomicBool,
    drain: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

impl Control {
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Ask for draining, which may take so many seconds.
    pub fn drain(&self, seconds: f64) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).patience = duration(seconds);
        self.drain.store(true, Ordering::SeqCst);
    }

    pub fn draining(&self) -> bool {
        self.drain.load(Ordering::Relaxed)
    }

    /// How long draining may take.
    pub fn patience(&self) -> Duration {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).patience
    }

    /// Say whether everything is answered.
    pub fn set_drained(&self, drained: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.drained != drained {
            state.drained = drained;
            self.changed.notify_all();
        }
    }

    /// Wait until everything is answered, for so many seconds at most.
    pub fn wait(&self, seconds: f64) -> bool {
        let end = Instant::now().checked_add(duration(seconds));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.drained {
            let rest = end.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(Instant::now()));
            if rest.is_zero() || self.stopped() {
                return false;
            }
            state = self.changed.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Whoever waits has nothing to wait for any more.
    pub fn give_up(&self) {
        // With the lock, so that nobody is between looking and waiting.
        let _state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
    }
}
