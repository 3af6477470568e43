//! One connection over HTTP/1.1: requests as they come, answers in the order of the requests.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Instant;

use super::answer::{self, Framing};
use super::body::Body;
use super::head::{self, Length, Parsed, Refusal};
use crate::front::outbox::{Said, Ticket};
use crate::front::outgoing::Outgoing;
use crate::front::protocol::{Desk, Flow, Protocol};
use crate::service::{Head, Response, Wire};

/// So many requests may be unanswered before no more are read.
const PIPELINED: usize = 64;
/// So many bytes may wait for the client before no more requests are read.
const UNREAD: usize = 1 << 20;
/// A refused body up to this size is read and forgotten, so that the connection can go on.
const FORGOTTEN: u64 = 1 << 20;
/// Empty lines that are forgiven in front of a request.
const BLANK_LINES: usize = 4;

/// What is read now. There is one a connection, so its size is no matter.
#[allow(clippy::large_enum_variant)]
enum Reading {
    Head,
    Body {
        head: Head,
        body: Body,
        slot: Slot,
        continues: bool,
    },
    /// What is left of a refused body.
    Rest(u64),
    /// Nothing more.
    Nothing,
}

/// A request that is not wholly answered.
struct Slot {
    modern: bool,
    keep: bool,
    /// Whether it was HEAD, so that the answer has no body.
    bodiless: bool,
    /// How the answer's pieces are framed, once it has begun.
    begun: Option<Framing>,
    /// What came before its turn, and its bytes.
    held: Vec<Said>,
}

/// The connection.
pub(crate) struct Http1 {
    reading: Reading,
    /// Since when that is read; for a head, since its first byte or the last answer.
    since: Instant,
    partial: bool,
    scanned: usize,
    blank: usize,
    slots: VecDeque<Slot>,
    /// The number of the first slot's request.
    first: u64,
    held: usize,
    left: Arc<AtomicBool>,
    flow: Flow,
}

impl Http1 {
    pub fn new(now: Instant) -> Http1 {
        Http1 {
            reading: Reading::Head,
            since: now,
            partial: false,
            scanned: 0,
            blank: 0,
            slots: VecDeque::new(),
            first: 0,
            held: 0,
            left: Arc::new(AtomicBool::new(false)),
            flow: Flow::Read,
        }
    }

    /// There are too many connections: say so, and end.
    pub fn turn_away(&mut self, desk: &mut Desk<'_>) {
        let (headers, body) = told("too many connections");
        answer::head(desk.out, 503, &headers, Framing::Length(body.len()), answer::Said::Close);
        desk.out.body(body);
        self.flow = Flow::Finish;
    }

    fn read(&mut self, desk: &mut Desk<'_>, next: Reading) {
        self.reading = next;
        self.since = desk.now;
        self.scanned = 0;
    }

    /// Refuse what is being read, in its turn, and read no more.
    fn refuse(&mut self, desk: &mut Desk<'_>, refusal: Refusal) {
        let slot = match std::mem::replace(&mut self.reading, Reading::Nothing) {
            Reading::Body { slot, .. } => Slot { keep: false, ..slot },
            _ => Slot { modern: true, keep: false, bodiless: false, begun: None, held: Vec::new() },
        };
        let request = self.push(slot);
        self.answer(desk, request, Said::Response(plain(refusal)));
    }

    fn push(&mut self, slot: Slot) -> u64 {
        self.slots.push_back(slot);
        self.first + self.slots.len() as u64 - 1
    }

    /// Take one step with what has come; `None` where more is needed.
    fn step(&mut self, desk: &mut Desk<'_>, bytes: &[u8]) -> Result<Option<usize>, Refusal> {
        match &mut self.reading {
            Reading::Head => self.head(desk, bytes),
            Reading::Body { body, .. } => {
                let used = body.take(bytes, desk.limits.head_bytes)?;
                if body.done() {
                    self.call(desk);
                    return Ok(Some(used));
                }
                Ok(if used == 0 { None } else { Some(used) })
            }
            Reading::Rest(missing) => {
                let count = (*missing).min(bytes.len() as u64);
                *missing -= count;
                if *missing == 0 {
                    self.read(desk, Reading::Head);
                }
                Ok(Some(count as usize))
            }
            Reading::Nothing => Ok(Some(bytes.len())),
        }
    }

    fn head(&mut self, desk: &mut Desk<'_>, bytes: &[u8]) -> Result<Option<usize>, Refusal> {
        if self.scanned == 0 && bytes.starts_with(b"\r") {
            if bytes.len() == 1 {
                return Ok(None);
            }
            self.blank += 1;
            if bytes[1] != b'\n' || self.blank > BLANK_LINES {
                return Err((400, "malformed request line: expected METHOD TARGET HTTP/1.1"));
            }
            return Ok(Some(2));
        }
        if !self.partial {
            self.partial = true;
            self.since = desk.now;
        }
        let size = match head::end(bytes, &mut self.scanned, desk.limits.head_bytes)? {
            Some(size) => size,
            None => return Ok(None),
        };
        let parsed = head::parse(&bytes[..size], desk.limits.headers)?;
        self.partial = false;
        self.blank = 0;
        self.admit(desk, parsed)?;
        Ok(Some(size))
    }

    /// Ask the house about a head, and get ready for its body.
    fn admit(&mut self, desk: &mut Desk<'_>, parsed: Parsed) -> Result<(), Refusal> {
        let Parsed { method, path, query, headers, modern, keep, length, expects } = parsed;
        let slot = Slot { modern, keep, bodiless: method == "HEAD", begun: None, held: Vec::new() };
        let head = Head { wire: Wire::Http, method, path, query, headers, peer: desk.peer.clone(), arrived: desk.now };
        let most = match desk.service.admit(&head) {
            Ok(most) => most,
            Err(response) => {
                self.refused(desk, slot, length, expects, response);
                return Ok(());
            }
        };
        let body = match length {
            Length::Chunked => Ok(Body::chunked(most)),
            Length::Sized(length) => Body::sized(length, most),
        };
        let (body, failed) = match body {
            Ok(body) => (body, None),
            Err(refusal) => (Body::chunked(0), Some(refusal)),
        };
        let continues = expects && !body.done() && failed.is_none();
        self.read(desk, Reading::Body { head, body, slot, continues });
        if let Some(refusal) = failed {
            return Err(refusal);
        }
        self.go_on(desk);
        if matches!(&self.reading, Reading::Body { body, .. } if body.done()) {
            self.call(desk);
        }
        Ok(())
    }

    /// Say `100 Continue` where the client waits for it and it is its turn.
    fn go_on(&mut self, desk: &mut Desk<'_>) {
        if let Reading::Body { continues, .. } = &mut self.reading {
            if *continues && self.slots.is_empty() {
                *continues = false;
                desk.out.put(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
        }
    }

    /// The house refused a head. The connection goes on where the body is small, and sure to come.
    fn refused(&mut self, desk: &mut Desk<'_>, mut slot: Slot, length: Length, expects: bool, response: Response) {
        let rest = match length {
            Length::Sized(0) => Reading::Head,
            Length::Sized(length) if length <= FORGOTTEN && !expects && slot.keep => Reading::Rest(length),
            _ => {
                slot.keep = false;
                Reading::Nothing
            }
        };
        self.read(desk, rest);
        let request = self.push(slot);
        self.answer(desk, request, Said::Response(response));
    }

    /// Give a whole request to the house.
    fn call(&mut self, desk: &mut Desk<'_>) {
        if let Reading::Body { head, body, slot, .. } = std::mem::replace(&mut self.reading, Reading::Head) {
            let next = if slot.keep { Reading::Head } else { Reading::Nothing };
            self.read(desk, next);
            let request = self.push(slot);
            let ticket = Ticket::new(desk.outbox, desk.token, request, &self.left);
            desk.service.call(head, body.into_bytes(), Box::new(ticket));
        }
    }

    /// Write what was said of the first request. True where that was its last.
    fn write(&mut self, desk: &mut Desk<'_>, said: Said) -> bool {
        // The last answer of a drained connection says so; a request that is being read still gets its own.
        let alone = self.slots.len() == 1 && !self.partial && !matches!(self.reading, Reading::Body { .. });
        let slot = match self.slots.front_mut() {
            Some(slot) => slot,
            None => return false,
        };
        if slot.begun.is_none() && desk.draining && alone {
            slot.keep = false;
        }
        match said {
            Said::Response(Response::Http { status, headers, body }) if slot.begun.is_none() => {
                answer::head(desk.out, status, &headers, Framing::Length(body.len()), said_of(slot));
                if !slot.bodiless && answer::has_body(status) {
                    desk.out.body(body);
                }
                true
            }
            Said::Response(Response::Begin { status, headers }) if slot.begun.is_none() => {
                let framing = if slot.modern { Framing::Chunked } else { Framing::Closed };
                slot.keep &= slot.modern;
                slot.bodiless |= !answer::has_body(status);
                answer::head(desk.out, status, &headers, framing, said_of(slot));
                slot.begun = Some(framing);
                false
            }
            Said::Response(Response::Piece(piece)) if slot.begun.is_some() => {
                match slot.begun {
                    _ if slot.bodiless => {}
                    Some(Framing::Chunked) => answer::chunk(desk.out, piece),
                    _ => desk.out.body(piece),
                }
                false
            }
            Said::Response(Response::End { code: 0, .. }) if slot.begun.is_some() => {
                if slot.begun == Some(Framing::Chunked) && !slot.bodiless {
                    desk.out.put(b"0\r\n\r\n");
                }
                true
            }
            // The answer has begun and cannot be whole: only the connection's end says so.
            _ if slot.begun.is_some() => {
                self.flow = Flow::Finish;
                true
            }
            _ => {
                slot.keep = false;
                let (headers, body) = told("internal error");
                answer::head(desk.out, 500, &headers, Framing::Length(body.len()), answer::Said::Close);
                desk.out.body(body);
                true
            }
        }
    }

    /// The first request is answered; begin with what waits for its turn behind it.
    fn next(&mut self, desk: &mut Desk<'_>) {
        if let Some(slot) = self.slots.pop_front() {
            self.first += 1;
            if !slot.keep {
                self.flow = Flow::Finish;
            }
        }
        if !self.partial && matches!(self.reading, Reading::Head) {
            self.since = desk.now;
        }
        self.go_on(desk);
    }

    /// Write what has come of the first requests, as far as it goes.
    fn advance(&mut self, desk: &mut Desk<'_>) {
        while let Some(slot) = self.slots.front_mut() {
            if slot.held.is_empty() || self.flow == Flow::Finish {
                return;
            }
            let mut ended = false;
            for said in std::mem::take(&mut slot.held) {
                self.held -= weight(&said);
                ended = ended || self.write(desk, said);
            }
            if !ended {
                return;
            }
            self.next(desk);
        }
    }

    fn settle(&mut self, desk: &Desk<'_>) {
        if self.flow != Flow::Finish {
            let full = self.slots.len() >= PIPELINED || desk.out.waiting() > UNREAD;
            self.flow = if full { Flow::Pause } else { Flow::Read };
        }
    }
}

impl Protocol for Http1 {
    fn receive(&mut self, desk: &mut Desk<'_>, bytes: &[u8]) -> usize {
        let mut used = 0;
        self.settle(desk);
        while self.flow == Flow::Read && used < bytes.len() {
            match self.step(desk, &bytes[used..]) {
                Ok(Some(count)) => used += count,
                Ok(None) => break,
                Err(refusal) => self.refuse(desk, refusal),
            }
            self.settle(desk);
        }
        used
    }

    fn answer(&mut self, desk: &mut Desk<'_>, request: u64, said: Said) {
        let place = match request.checked_sub(self.first) {
            Some(place) if place < self.slots.len() as u64 => place as usize,
            _ => return,
        };
        if self.flow == Flow::Finish {
            return;
        }
        if place > 0 {
            self.held += weight(&said);
            self.slots[place].held.push(said);
        } else if self.write(desk, said) {
            self.next(desk);
            self.advance(desk);
        }
        self.settle(desk);
    }

    fn pump(&mut self, desk: &mut Desk<'_>) {
        self.settle(desk);
    }

    fn tick(&mut self, desk: &mut Desk<'_>) {
        if self.flow != Flow::Read {
            // Time in which the server did not read is not the client's.
            self.since = desk.now;
            return;
        }
        match self.reading {
            Reading::Head if self.partial && desk.past(self.since, desk.limits.head_seconds) => {
                self.refuse(desk, (408, "the request's head did not come in time"));
            }
            Reading::Head
                if !self.partial
                    && self.slots.is_empty()
                    && desk.out.is_empty()
                    && desk.past(self.since, desk.limits.idle_seconds) =>
            {
                self.flow = Flow::Finish;
            }
            Reading::Body { .. } | Reading::Rest(_) if desk.past(self.since, desk.limits.body_seconds) => {
                self.refuse(desk, (408, "the request's body did not come in time"));
            }
            _ => {}
        }
    }

    fn drain(&mut self, _desk: &mut Desk<'_>, over: bool) {
        let idle = matches!(self.reading, Reading::Head) && !self.partial && self.slots.is_empty();
        if over && idle && self.flow == Flow::Read {
            self.flow = Flow::Finish;
        }
    }

    fn left(&mut self) {
        self.left.store(true, Ordering::Relaxed);
        if self.flow != Flow::Finish {
            self.reading = Reading::Nothing;
            if self.slots.is_empty() {
                self.flow = Flow::Finish;
            }
            if let Some(last) = self.slots.back_mut() {
                last.keep = false;
            }
        }
    }

    fn beyond(&self, out: &Outgoing, most: usize) -> bool {
        self.held > most || out.beyond(most)
    }

    fn unanswered(&self) -> bool {
        !self.slots.is_empty() || matches!(self.reading, Reading::Body { .. })
    }

    fn flow(&self) -> Flow {
        self.flow
    }
}

fn said_of(slot: &Slot) -> answer::Said {
    match (slot.keep, slot.modern) {
        (false, _) => answer::Said::Close,
        (true, true) => answer::Said::Nothing,
        (true, false) => answer::Said::Keep,
    }
}

fn weight(said: &Said) -> usize {
    match said {
        Said::Response(Response::Http { body, .. }) | Said::Response(Response::Piece(body)) => body.len() + 64,
        _ => 64,
    }
}

/// Headers and body of an error, as every protocol of the house has it.
fn told(message: &str) -> (Vec<(String, String)>, Vec<u8>) {
    let headers = vec![("content-type".to_string(), "application/json".to_string())];
    (headers, format!("{{\"error\":\"{message}\"}}").into_bytes())
}

fn plain((status, message): Refusal) -> Response {
    let (headers, body) = told(message);
    Response::Http { status, headers, body }
}
