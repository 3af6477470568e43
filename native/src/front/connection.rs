//! One socket: bytes in and out, its protocol, its end.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use super::channel::Channel;
use super::outbox::{Outbox, Said};
use super::outgoing::Outgoing;
use super::protocol::{duration, Desk, Flow, Protocol};
use crate::service::{Limits, Peer, Service};
use crate::sys::{READABLE, WRITABLE};
use crate::tls::Tls;

/// Reads of one connection before the others have their turn.
const READS: usize = 8;
/// A client that takes fewer bytes a `send_seconds` does not take its answer.
const MOVED: u64 = 16 * 1024;
/// A client that does read may be `send_bytes` behind so many times: with many requests at once it cannot be faster.
const MOST_TIMES: usize = 4;
/// One that does not is given so many ticks.
const SLOW_TICKS: u32 = 2;
/// How long a connection that we have ended is still read: closed with bytes unread, the kernel would tell the client
/// of an error before it has read our answer.
const LINGER_SECONDS: f64 = 2.0;
/// Memory that a connection keeps for what comes in.
const KEPT: usize = 64 * 1024;

/// What all connections share, for one turn.
pub(crate) struct Shared {
    pub service: Arc<dyn Service>,
    pub limits: Limits,
    pub tls: Option<Tls>,
    pub outbox: Arc<Outbox>,
    pub now: Instant,
    pub draining: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// All is written and we have ended our side; since then.
    Lingering(Instant),
    Dead,
}

/// The connection.
pub(crate) struct Connection {
    channel: Channel,
    token: u64,
    peer: Peer,
    protocol: Box<dyn Protocol>,
    out: Outgoing,
    begun: Instant,
    /// Bytes that have come and that the protocol could not use yet.
    rest: Vec<u8>,
    phase: Phase,
    /// Whether the client has ended its side.
    ended: bool,
    /// What epoll was told.
    pub interest: u32,
    /// When bytes waited, and how many were ever taken then.
    mark: Option<(Instant, u64)>,
    /// Bytes that were taken until the last tick, and for how many ticks too few.
    taken: u64,
    slow: u32,
    /// Whether it is in the list of connections that this turn has touched.
    pub touched: bool,
    /// Whether it is one of the connections that are limited.
    pub counted: bool,
}

impl Connection {
    pub fn new(
        channel: Channel,
        token: u64,
        peer: Peer,
        protocol: Box<dyn Protocol>,
        out: Outgoing,
        now: Instant,
    ) -> Connection {
        Connection {
            channel,
            token,
            peer,
            protocol,
            out,
            begun: now,
            rest: Vec::new(),
            phase: Phase::Open,
            ended: false,
            interest: READABLE,
            mark: None,
            taken: 0,
            slow: 0,
            touched: false,
            counted: false,
        }
    }

    pub fn socket(&self) -> &TcpStream {
        self.channel.socket()
    }

    pub fn dead(&self) -> bool {
        self.phase == Phase::Dead
    }

    /// Whether it still serves, and so counts among the connections.
    pub fn open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether an answer is missing, or not wholly written. In a handshake nothing was asked yet.
    pub fn busy(&self) -> bool {
        self.phase == Phase::Open && !self.channel.shaking() && (self.protocol.unanswered() || self.owes())
    }

    /// Whether something waits for the socket.
    fn owes(&self) -> bool {
        !self.out.is_empty() || self.channel.waits()
    }

    /// Whether the client's bytes are waited for.
    fn listens(&self) -> bool {
        let wanted = self.phase != Phase::Open || self.channel.shaking() || self.protocol.flow() == Flow::Read;
        !self.ended && wanted
    }

    fn turn<T>(&mut self, shared: &Shared, act: impl FnOnce(&mut dyn Protocol, &mut Desk<'_>) -> T) -> T {
        let mut desk = Desk {
            service: &shared.service,
            limits: &shared.limits,
            outbox: &shared.outbox,
            token: self.token,
            peer: &self.peer,
            now: shared.now,
            draining: shared.draining,
            out: &mut self.out,
        };
        act(&mut *self.protocol, &mut desk)
    }

    /// Read what has come.
    pub fn readable(&mut self, shared: &Shared, scratch: &mut [u8]) {
        for _ in 0..READS {
            if !self.listens() {
                return;
            }
            if self.phase != Phase::Open {
                return self.skip(scratch);
            }
            let shaking = self.channel.shaking();
            let got = self.channel.read(scratch);
            if shaking && !self.channel.shaking() {
                self.peer.name = self.channel.name().map(Arc::from);
            }
            match got {
                Ok(got) => {
                    if got.count > 0 {
                        self.feed(shared, &scratch[..got.count]);
                    }
                    if got.ended {
                        self.ended = true;
                        self.protocol.left();
                    }
                    if !got.more {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What comes is no TLS, or not whole: the alert that says so goes out, and nothing else.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return self.end(shared),
                Err(_) => return self.kill(),
            }
        }
    }

    fn skip(&mut self, scratch: &mut [u8]) {
        match self.channel.skip(scratch) {
            Ok(ended) => self.ended |= ended,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.kill(),
        }
    }

    /// End our side, and forget what comes.
    fn end(&mut self, shared: &Shared) {
        self.phase = Phase::Lingering(shared.now);
        self.protocol.left();
        self.rest = Vec::new();
        if !self.channel.end() {
            self.kill();
        }
    }

    fn feed(&mut self, shared: &Shared, bytes: &[u8]) {
        if self.rest.is_empty() {
            let used = self.turn(shared, |protocol, desk| protocol.receive(desk, bytes));
            self.rest.extend_from_slice(&bytes[used.min(bytes.len())..]);
            return;
        }
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(bytes);
        let used = self.turn(shared, |protocol, desk| protocol.receive(desk, &rest));
        rest.drain(..used.min(rest.len()));
        if !rest.is_empty() || rest.capacity() <= KEPT {
            self.rest = rest;
        }
    }

    /// Take an answer.
    pub fn answer(&mut self, shared: &Shared, request: u64, said: Said) {
        if self.phase == Phase::Open {
            self.turn(shared, |protocol, desk| protocol.answer(desk, request, said));
        }
    }

    /// Write, go on with what was held back, and see how it goes on; at the end of every turn that touched it.
    pub fn settle(&mut self, shared: &Shared) {
        if self.phase == Phase::Open {
            self.write(shared);
        }
        if self.phase == Phase::Open
            && self.protocol.beyond(&self.out, shared.limits.send_bytes.saturating_mul(MOST_TIMES))
        {
            self.kill();
        }
        if self.phase == Phase::Open && !self.rest.is_empty() && self.protocol.flow() == Flow::Read {
            self.feed(shared, &[]);
        }
        if self.phase == Phase::Open && self.protocol.flow() == Flow::Finish && !self.owes() {
            self.end(shared);
        }
        if self.ended && matches!(self.phase, Phase::Lingering(_)) {
            self.kill();
        }
    }

    fn write(&mut self, shared: &Shared) {
        loop {
            match self.channel.flush(&mut self.out) {
                Ok(true) => self.mark = None,
                Ok(false) => {}
                Err(_) => return self.kill(),
            }
            let left = self.out.waiting();
            self.turn(shared, |protocol, desk| protocol.pump(desk));
            if self.out.waiting() == left || left > 0 {
                return;
            }
        }
    }

    /// What epoll has to be told.
    pub fn wants(&self) -> u32 {
        // In a handshake an answer waits for the client, not for the socket.
        let ready = self.channel.waits() || (!self.channel.shaking() && !self.out.is_empty());
        let writes = self.phase == Phase::Open && ready;
        (if self.listens() { READABLE } else { 0 }) | (if writes { WRITABLE } else { 0 })
    }

    /// Look at the clock.
    pub fn tick(&mut self, shared: &Shared) {
        let past = |since: Instant, seconds: f64| shared.now.saturating_duration_since(since) > duration(seconds);
        if let Phase::Lingering(since) = self.phase {
            if past(since, LINGER_SECONDS) {
                self.kill();
            }
            return;
        }
        if self.channel.shaking() && past(self.begun, shared.limits.head_seconds) {
            return self.kill();
        }
        let moved = self.out.total() - std::mem::replace(&mut self.taken, self.out.total()) >= MOVED;
        let beyond = !moved && self.protocol.beyond(&self.out, shared.limits.send_bytes);
        self.slow = if beyond { self.slow + 1 } else { 0 };
        if self.slow == SLOW_TICKS {
            return self.kill();
        }
        if !self.owes() {
            self.mark = None;
            self.out.shrink();
        } else {
            match self.mark {
                Some((_, taken)) if self.out.total() - taken >= MOVED => self.mark = None,
                Some((since, _)) if past(since, shared.limits.send_seconds) => return self.kill(),
                _ => {}
            }
            self.mark = self.mark.or(Some((shared.now, self.out.total())));
        }
        self.turn(shared, |protocol, desk| protocol.tick(desk));
    }

    /// Take no more requests.
    pub fn drain(&mut self, shared: &Shared, over: bool) {
        if self.phase == Phase::Open {
            self.turn(shared, |protocol, desk| protocol.drain(desk, over));
        }
    }

    /// It is over: whoever answers is told.
    pub fn kill(&mut self) {
        if self.phase != Phase::Dead {
            self.phase = Phase::Dead;
            self.protocol.left();
        }
    }
}
