//! The way of an answer from any thread to the loop.
//!
//! Answers are put into one list, and the loop is woken once for all that were put there before it looked. A thread
//! that sends many answers in a row takes a [`Cork`], so that the loop is not woken between them.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::service::{Reply, Response};
use crate::sys::Waker;

/// What the loop is told.
#[derive(Debug)]
pub(crate) enum Said {
    /// An answer, or a piece.
    Response(Response),
    /// Whoever had to answer let it fall.
    Abandoned,
}

/// An answer and its way: the connection by its token, and what the connection calls the request.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub token: u64,
    pub request: u64,
    pub said: Said,
}

/// The list.
pub(crate) struct Outbox {
    parcels: Mutex<Vec<Parcel>>,
    /// Whether the loop waits, or is about to, and so has to be woken.
    asleep: AtomicBool,
    waker: Waker,
}

thread_local! {
    static CORKS: Cell<usize> = const { Cell::new(0) };
    static UNTOLD: RefCell<Vec<Arc<Outbox>>> = const { RefCell::new(Vec::new()) };
}

impl Outbox {
    pub fn new() -> std::io::Result<Outbox> {
        Ok(Outbox { parcels: Mutex::new(Vec::new()), asleep: AtomicBool::new(false), waker: Waker::new()? })
    }

    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Parcel>> {
        // A list of answers is whole whatever happened to a thread that held it.
        self.parcels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Exchange the list for an empty one.
    pub fn take(&self, empty: &mut Vec<Parcel>) {
        std::mem::swap(&mut *self.locked(), empty);
    }

    /// Say that the loop is about to wait. False where there is something to do first.
    pub fn sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        if self.locked().is_empty() {
            return true;
        }
        self.asleep.store(false, Ordering::SeqCst);
        false
    }

    /// Say that the loop is up.
    pub fn up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Wake the loop if it waits.
    pub fn wake(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.waker.wake();
        }
    }

    fn put(self: &Arc<Self>, parcel: Parcel) {
        self.locked().push(parcel);
        if CORKS.with(Cell::get) == 0 {
            self.wake();
            return;
        }
        UNTOLD.with(|untold| {
            let mut untold = untold.borrow_mut();
            if !untold.iter().any(|one| Arc::ptr_eq(one, self)) {
                untold.push(Arc::clone(self));
            }
        });
    }
}

/// While it lives, answers that its thread sends do not wake the loop; it does so once, when it is dropped.
pub struct Cork(std::marker::PhantomData<*const ()>);

impl Cork {
    /// Hold the wakes of this thread.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Cork {
        CORKS.with(|corks| corks.set(corks.get() + 1));
        Cork(std::marker::PhantomData)
    }
}

impl Drop for Cork {
    fn drop(&mut self) {
        let left = CORKS.with(|corks| {
            corks.set(corks.get() - 1);
            corks.get()
        });
        if left == 0 {
            let untold = UNTOLD.with(|untold| std::mem::take(&mut *untold.borrow_mut()));
            untold.iter().for_each(|outbox| outbox.wake());
        }
    }
}

/// The front's `Reply`. If it is dropped before the last of its answer was sent, the loop is told so.
pub(crate) struct Ticket {
    outbox: Arc<Outbox>,
    token: u64,
    request: u64,
    left: Arc<AtomicBool>,
    finished: Cell<bool>,
}

impl Ticket {
    pub fn new(outbox: &Arc<Outbox>, token: u64, request: u64, left: &Arc<AtomicBool>) -> Ticket {
        let (outbox, left) = (Arc::clone(outbox), Arc::clone(left));
        Ticket { outbox, token, request, left, finished: Cell::new(false) }
    }
}

impl Reply for Ticket {
    fn send(&self, response: Response) -> bool {
        let last = matches!(response, Response::Http { .. } | Response::Grpc { .. } | Response::End { .. });
        if self.finished.replace(last || self.finished.get()) {
            return false;
        }
        // A client that left is still told to the loop when it is the last: the loop counts what is unanswered.
        let gone = self.gone();
        if last || !gone {
            self.outbox.put(Parcel { token: self.token, request: self.request, said: Said::Response(response) });
        }
        !gone
    }

    fn gone(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.finished.get() {
            self.outbox.put(Parcel { token: self.token, request: self.request, said: Said::Abandoned });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> (Arc<Outbox>, Arc<AtomicBool>, Ticket) {
        let (outbox, left) = (Arc::new(Outbox::new().unwrap()), Arc::new(AtomicBool::new(false)));
        let ticket = Ticket::new(&outbox, 1, 2, &left);
        (outbox, left, ticket)
    }

    fn taken(outbox: &Outbox) -> Vec<String> {
        let mut parcels = Vec::new();
        outbox.take(&mut parcels);
        parcels.iter().map(|parcel| format!("{:?}", parcel.said)).collect()
    }

    fn end() -> Response {
        Response::End { code: 0, message: String::new() }
    }

    #[test]
    fn nothing_is_sent_behind_the_last() {
        let (outbox, _, ticket) = made();
        assert!(ticket.send(Response::Piece(vec![1])) && ticket.send(end()));
        assert!(!ticket.send(Response::Piece(vec![2])) && !ticket.send(end()));
        drop(ticket);
        assert_eq!(taken(&outbox).len(), 2);
    }

    #[test]
    fn a_reply_that_is_let_fall_says_so() {
        let (outbox, _, ticket) = made();
        ticket.send(Response::Piece(vec![1]));
        drop(ticket);
        assert_eq!(taken(&outbox)[1], "Abandoned");
    }

    #[test]
    fn a_client_that_left_is_sent_nothing_but_the_last() {
        let (outbox, left, ticket) = made();
        left.store(true, Ordering::Relaxed);
        assert!(ticket.gone() && !ticket.send(Response::Piece(vec![1])) && !ticket.send(end()));
        assert_eq!(taken(&outbox).len(), 1);
    }

    #[test]
    fn the_loop_is_woken_once_and_only_where_it_sleeps() {
        let (outbox, _, ticket) = made();
        assert!(outbox.sleep());
        assert!(outbox.asleep.load(Ordering::SeqCst));
        ticket.send(Response::Piece(vec![1]));
        assert!(!outbox.asleep.load(Ordering::SeqCst), "it was woken");
        assert!(!outbox.sleep(), "there is something to do");
        taken(&outbox);
        assert!(outbox.sleep());
    }

    #[test]
    fn a_cork_holds_the_wake_until_its_end() {
        let (outbox, _, ticket) = made();
        assert!(outbox.sleep());
        let (outer, inner) = (Cork::new(), Cork::new());
        ticket.send(Response::Piece(vec![1]));
        ticket.send(Response::Piece(vec![2]));
        drop(inner);
        assert!(outbox.asleep.load(Ordering::SeqCst));
        drop(outer);
        assert!(!outbox.asleep.load(Ordering::SeqCst), "it was woken");
        assert_eq!(taken(&outbox).len(), 2);
    }
}
