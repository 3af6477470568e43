//! Requests that Python itself submits to a lane, so that every protocol shares its queue.
//!
//! An answer that is made in a thread of Python's is taken by that thread at once; one that is made elsewhere (a
//! deadline, a model that hangs) becomes an event.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::batch::Slice;
use crate::fault::{Fault, Kind};
use crate::general::{Event, Events};
use crate::lane_job::{lock, Answer, Job, Times};
use crate::tensor::Tensor;

/// What became of one request.
pub struct Completed {
    pub ticket: u64,
    pub result: Result<Vec<Tensor>, Fault>,
}

thread_local! {
    static TAKEN: RefCell<Option<VecDeque<Completed>>> = const { RefCell::new(None) };
}

/// Do something in a thread of Python's; how many answers of its own requests it made.
pub fn collect<T>(work: impl FnOnce() -> T) -> (T, usize) {
    TAKEN.with(|taken| {
        taken.borrow_mut().get_or_insert_with(VecDeque::new);
    });
    let result = work();
    let made = TAKEN.with(|taken| {
        let mut queue = taken.borrow_mut();
        let made = queue.as_ref().map_or(0, VecDeque::len);
        if made == 0 {
            *queue = None;
        }
        made
    });
    (result, made)
}

/// The next of the answers that this thread made.
pub fn collected() -> Option<Completed> {
    TAKEN.with(|taken| {
        let mut queue = taken.borrow_mut();
        let next = queue.as_mut().and_then(VecDeque::pop_front);
        if queue.as_ref().map_or(false, VecDeque::is_empty) {
            *queue = None;
        }
        next
    })
}

/// All requests of Python's that have no answer yet.
#[derive(Default)]
pub struct Tickets {
    open: Mutex<HashMap<u64, Arc<AtomicBool>>>,
}

impl Tickets {
    /// The answer to a new request, whose ticket Python has chosen.
    pub fn issue(self: &Arc<Self>, ticket: u64, events: &Arc<Events>) -> Box<LocalAnswer> {
        let left = Arc::new(AtomicBool::new(false));
        lock(&self.open).insert(ticket, left.clone());
        Box::new(LocalAnswer { ticket, left, tickets: self.clone(), events: events.clone() })
    }

    /// Nobody waits for it any more; false where it has its answer.
    pub fn cancel(&self, ticket: u64) -> bool {
        lock(&self.open).remove(&ticket).map(|left| left.store(true, Ordering::Release)).is_some()
    }
}

/// The way to Python.
pub struct LocalAnswer {
    ticket: u64,
    left: Arc<AtomicBool>,
    tickets: Arc<Tickets>,
    events: Arc<Events>,
}

impl Answer for LocalAnswer {
    fn done(self: Box<Self>, _: &Job, result: Result<Vec<Slice>, Fault>, _: Times) -> Option<Kind> {
        let result = result.map(|slices| slices.into_iter().map(Slice::keep).collect());
        let mut completed = Some(Completed { ticket: self.ticket, result });
        TAKEN.with(|taken| {
            if let Some(queue) = taken.borrow_mut().as_mut() {
                queue.extend(completed.take());
            }
        });
        if let Some(completed) = completed {
            self.events.push(Event::Local(completed));
        }
        None
    }

    fn gone(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }
}

impl Drop for LocalAnswer {
    fn drop(&mut self) {
        lock(&self.tickets.open).remove(&self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane_job::tests::caller;
    use std::time::Duration;

    #[test]
    fn an_answer_is_taken_where_it_was_made_or_is_an_event() {
        let (tickets, events) = (Arc::new(Tickets::default()), Arc::new(Events::default()));
        let job = caller(0, 1, 0, 1, Duration::from_secs(9)).job;
        let fault = || Err(Fault::new(Kind::Busy, "full"));
        let ((), made) = collect(|| {
            tickets.issue(1, &events).done(&job, fault(), Times::default());
        });
        assert_eq!(made, 1);
        assert_eq!(collected().map(|one| one.ticket), Some(1));
        assert!(collected().is_none());
        assert_eq!(collect(|| ()).1, 0);
        tickets.issue(2, &events).done(&job, fault(), Times::default());
        assert!(matches!(events.next(Duration::from_secs(9)), Some(Event::Local(Completed { ticket: 2, .. }))));
        assert!(lock(&tickets.open).is_empty());
    }

    #[test]
    fn a_cancelled_request_is_gone() {
        let (tickets, events) = (Arc::new(Tickets::default()), Arc::new(Events::default()));
        let answer = tickets.issue(1, &events);
        assert!(!answer.gone());
        assert!(tickets.cancel(answer.ticket));
        assert!(answer.gone());
        assert!(!tickets.cancel(answer.ticket));
    }
}
