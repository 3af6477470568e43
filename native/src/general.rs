//! Calls that Python answers: everything but the hot requests. They wait as events until Python takes them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::client::Slot;
use crate::fault::{Fault, Kind};
use crate::hot;
use crate::lane_job::lock;
use crate::local::Completed;
use crate::service::{Head, Inbound, Reply, Response, Wire};

/// What Python is told.
pub enum Event {
    /// A call; a streaming one has no body, its messages follow.
    Call { number: u64, streaming: bool, head: Box<Head>, client: String, request: String, body: Vec<u8> },
    /// A message of a streaming call.
    Message { number: u64, body: Vec<u8> },
    /// The client has ended its side.
    End { number: u64 },
    /// The client has left.
    Gone { number: u64 },
    /// A request that Python submitted to a lane has its answer.
    Local(Completed),
}

impl Event {
    fn size(&self) -> usize {
        match self {
            Event::Message { body, .. } => body.len(),
            _ => 0,
        }
    }
}

/// Events that Python has not taken yet.
#[derive(Default)]
pub struct Events {
    queue: Mutex<VecDeque<Event>>,
    ready: Condvar,
    stopped: AtomicBool,
    bytes: AtomicUsize,
}

impl Events {
    /// Add one.
    pub fn push(&self, event: Event) {
        self.bytes.fetch_add(event.size(), Ordering::Relaxed);
        lock(&self.queue).push_back(event);
        self.ready.notify_one();
    }

    /// Wait for one; none after so long, or when all is over.
    pub fn next(&self, patience: Duration) -> Option<Event> {
        let until = Instant::now() + patience;
        let mut queue = lock(&self.queue);
        loop {
            if let Some(event) = queue.pop_front() {
                self.bytes.fetch_sub(event.size(), Ordering::Relaxed);
                return Some(event);
            }
            let left = until.saturating_duration_since(Instant::now());
            if self.stopped.load(Ordering::Acquire) || left.is_zero() {
                return None;
            }
            queue = self.ready.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether nothing more is to come.
    pub fn over(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// No more is waited for.
    pub fn stop(&self) {
        let _queue = lock(&self.queue);
        self.stopped.store(true, Ordering::Release);
        self.ready.notify_all();
    }
}

struct Open {
    reply: Mutex<Box<dyn Reply>>,
    streaming: bool,
    told: AtomicBool,
    /// The client's share of what may run at a time; it is free when the call has ended.
    slot: Mutex<Option<Slot>>,
    /// The request's name, for the end of an answer over gRPC; over HTTP, Python says it.
    request: Option<String>,
    /// Bytes of its body, which Python holds until it has answered.
    size: usize,
    held: Arc<AtomicUsize>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.held.fetch_sub(self.size, Ordering::Relaxed);
    }
}

/// Calls that Python has not answered to the end.
pub struct Calls {
    open: Mutex<HashMap<u64, Arc<Open>>>,
    numbers: AtomicU64,
    most: AtomicUsize,
    most_bytes: AtomicUsize,
    held: Arc<AtomicUsize>,
    events: Arc<Events>,
}

impl Calls {
    /// None yet, and none is taken before there are limits.
    pub fn new(events: Arc<Events>) -> Calls {
        let [most, most_bytes] = [AtomicUsize::new(0), AtomicUsize::new(0)];
        Calls { open: Mutex::default(), numbers: AtomicU64::new(1), most, most_bytes, held: Arc::default(), events }
    }

    /// At most so many at a time, and so many bytes of bodies that were not answered, and of messages that Python has not
    /// taken.
    pub fn limit(&self, most: usize, most_bytes: usize) {
        self.most.store(most, Ordering::Relaxed);
        self.most_bytes.store(most_bytes, Ordering::Relaxed);
    }

    fn full(&self, size: usize) -> bool {
        let now = self.held.load(Ordering::Relaxed) + self.events.bytes.load(Ordering::Relaxed);
        now.saturating_add(size) > self.most_bytes.load(Ordering::Relaxed)
    }

    /// Hand a call to Python, or give the reply back with why not.
    pub fn begin(&self, call: Begin) -> Result<u64, (Box<dyn Reply>, Fault)> {
        let Begin { streaming, head, client, request, body, reply, slot } = call;
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let named = if head.wire == Wire::Grpc { Some(request.clone()) } else { None };
        {
            let mut open = lock(&self.open);
            if open.len() >= self.most.load(Ordering::Relaxed) || self.full(body.len()) {
                let message = format!("the server is answering {} requests, as many as it can", open.len());
                return Err((reply, Fault::new(Kind::Busy, message)));
            }
            self.held.fetch_add(body.len(), Ordering::Relaxed);
            let one = Open {
                reply: Mutex::new(reply),
                streaming,
                told: AtomicBool::new(false),
                slot: Mutex::new(slot),
                request: named,
                size: body.len(),
                held: self.held.clone(),
            };
            open.insert(number, Arc::new(one));
        }
        self.events.push(Event::Call { number, streaming, head: Box::new(head), client, request, body });
        Ok(number)
    }

    /// Send an answer or a piece of one; false where the client has left, or the call has ended. With the end of one
    /// over gRPC go the seconds after which to come again; 0 for none.
    pub fn send(&self, number: u64, response: Response, retry_after: u32) -> bool {
        let last = !matches!(response, Response::Begin { .. } | Response::Piece(_));
        let found = if last { lock(&self.open).remove(&number) } else { lock(&self.open).get(&number).cloned() };
        found.map_or(false, |call| {
            if last {
                // The client may ask again as soon as it has its answer.
                drop(lock(&call.slot).take());
            }
            let reply = lock(&call.reply);
            if let (true, Some(request)) = (last, &call.request) {
                reply.send(hot::trailers(request, retry_after));
            }
            reply.send(response)
        })
    }

    /// Forget a call without an answer.
    pub fn forget(&self, number: u64) {
        lock(&self.open).remove(&number);
    }

    /// Tell Python of the clients that have left.
    pub fn sweep(&self) {
        let open: Vec<(u64, Arc<Open>)> =
            lock(&self.open).iter().map(|(number, call)| (*number, call.clone())).collect();
        for (number, call) in open {
            if lock(&call.reply).gone() && !call.told.swap(true, Ordering::Relaxed) {
                self.events.push(Event::Gone { number });
            }
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        lock(&self.open).len()
    }

    fn message(&self, number: u64, body: Vec<u8>) {
        let streaming = lock(&self.open).get(&number).map_or(false, |call| call.streaming);
        if !streaming {
            return;
        }
        if self.full(body.len()) {
            let message = "messages come quicker than they can be answered".to_owned();
            self.send(number, Response::End { code: Kind::Busy.codes().1, message }, 1);
            self.events.push(Event::Gone { number });
        } else {
            self.events.push(Event::Message { number, body });
        }
    }
}

/// What a call is begun with.
pub struct Begin {
    pub streaming: bool,
    pub head: Head,
    pub client: String,
    pub request: String,
    pub body: Vec<u8>,
    pub reply: Box<dyn Reply>,
    pub slot: Option<Slot>,
}

/// Takes the messages of one streaming call for Python.
pub struct Messages {
    pub calls: Arc<Calls>,
    /// None where the call was refused.
    pub number: Option<u64>,
}

impl Inbound for Messages {
    fn message(&self, body: Vec<u8>) {
        if let Some(number) = self.number {
            self.calls.message(number, body);
        }
    }

    fn end(&self, orderly: bool) {
        if let Some(number) = self.number {
            let event = if orderly { Event::End { number } } else { Event::Gone { number } };
            self.calls.events.push(event);
        }
    }
}
