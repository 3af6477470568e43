//! When the house has to look at its lanes next: deadlines that pass, models that hang, clients that leave.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::lane_job::lock;

/// It looks at least so often,
const OFTEN: Duration = Duration::from_millis(100);
/// and after a look it waits at least so long.
const SELDOM: Duration = Duration::from_millis(5);

/// One alarm, set by any thread and waited for by one.
pub struct Alarm {
    base: Instant,
    /// Nanoseconds from the base; what is set later than this needs no wake.
    planned: AtomicU64,
    stopped: Mutex<bool>,
    rung: Condvar,
}

impl Default for Alarm {
    fn default() -> Alarm {
        let planned = AtomicU64::new(u64::MAX);
        Alarm { base: Instant::now(), planned, stopped: Mutex::new(false), rung: Condvar::new() }
    }
}

impl Alarm {
    fn nanos(&self, time: Instant) -> u64 {
        time.saturating_duration_since(self.base).as_nanos() as u64
    }

    /// Something is due then. Cheap where that is later than the next look.
    pub fn set(&self, time: Instant) {
        let nanos = self.nanos(time);
        if nanos < self.planned.load(Ordering::Acquire) {
            let _stopped = lock(&self.stopped);
            self.planned.fetch_min(nanos, Ordering::AcqRel);
            self.rung.notify_all();
        }
    }

    /// Call `look` again and again, until it is stopped; it says when it wants to be called next, and may be called
    /// earlier.
    pub fn run(&self, mut look: impl FnMut(Instant) -> Option<Instant>) {
        loop {
            self.planned.store(u64::MAX, Ordering::Release);
            let now = Instant::now();
            let next = look(now).map_or(now + OFTEN, |next| next.min(now + OFTEN));
            self.planned.fetch_min(self.nanos(next), Ordering::AcqRel);
            let earliest = now + SELDOM;
            let mut stopped = lock(&self.stopped);
            loop {
                if *stopped {
                    return;
                }
                let due = (self.base + Duration::from_nanos(self.planned.load(Ordering::Acquire))).max(earliest);
                let wait = due.saturating_duration_since(Instant::now());
                if wait.is_zero() {
                    break;
                }
                stopped = self.rung.wait_timeout(stopped, wait).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// End the loop.
    pub fn stop(&self) {
        *lock(&self.stopped) = true;
        self.rung.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::sync::Arc;

    #[test]
    fn it_rings_when_something_is_due_and_stops_when_told() {
        let alarm = Arc::new(Alarm::default());
        let due = Instant::now() + Duration::from_millis(20);
        alarm.set(due);
        let (sender, looks) = channel();
        let other = alarm.clone();
        let thread = std::thread::spawn(move || {
            other.run(|now| {
                let _ = sender.send(now);
                None
            });
        });
        while looks.recv_timeout(Duration::from_secs(60)).unwrap() < due {}
        alarm.stop();
        thread.join().unwrap();
    }
}
