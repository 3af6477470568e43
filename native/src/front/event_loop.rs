//! The loop: one thread that waits for sockets and answers, and gives every connection its turns.

use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::unix::io::AsRawFd;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::channel::Channel;
use super::connection::{Connection, Shared};
use super::control::Control;
use super::outbox::Parcel;
use super::outgoing::Outgoing;
use super::protocol::{Desk, Protocol};
use crate::http1::connection::Http1;
use crate::http2::connection::Http2;
use crate::service::Peer;
use crate::sys::{exhausted, Epoll, Event, BROKEN, READABLE, WRITABLE};
use crate::tls::sealed::Sealed;

/// Which protocol a listener speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Http1,
    Http2,
}

/// Between two looks at every connection's clock.
const TICK: Duration = Duration::from_millis(500);
/// While a server is drained it is looked at so often whether all is answered.
const DRAIN_TICK: Duration = Duration::from_millis(10);
/// For requests that were on their way when the clients were told to send no more.
const GRACE: Duration = Duration::from_millis(500);
/// Bytes that are read with one call.
const SCRATCH: usize = 128 * 1024;
/// Events, and accepted connections, of one turn.
const EVENTS: usize = 256;
const ACCEPTS: usize = 64;
/// So many times, at most, before a drained server's listeners close: what the kernel has queued.
const DRAIN_ROUNDS: usize = 64;
/// Connections beyond the limit that may be told so at a time.
const OVERFLOW: usize = 256;
/// Tokens that are no connections: their generation is never given.
const WAKE: u64 = u64::MAX;
const LISTENERS: u64 = u64::MAX - 64;

/// A place for a connection; its generation tells one connection from the next in the same place.
struct Place {
    generation: u32,
    connection: Option<Box<Connection>>,
}

/// The loop's state.
pub(crate) struct EventLoop {
    epoll: Epoll,
    listeners: Vec<(TcpListener, Kind)>,
    /// Whether the listeners are not watched, because no descriptor was left.
    deaf: bool,
    places: Vec<Place>,
    free: Vec<u32>,
    open: usize,
    touched: Vec<u64>,
    parcels: Vec<Parcel>,
    scratch: Vec<u8>,
    shared: Shared,
    control: Arc<Control>,
    next_tick: Instant,
    /// When the grace of a drained server ends, and whether it has.
    grace: Option<Instant>,
    over: bool,
}

impl EventLoop {
    pub fn new(
        listeners: Vec<(TcpListener, Kind)>,
        shared: Shared,
        control: Arc<Control>,
    ) -> std::io::Result<EventLoop> {
        let epoll = Epoll::new()?;
        epoll.add(shared.outbox.waker().as_raw_fd(), WAKE, READABLE)?;
        for (place, (listener, _)) in listeners.iter().enumerate() {
            epoll.add(listener.as_raw_fd(), LISTENERS + place as u64, READABLE)?;
        }
        let next_tick = shared.now + TICK;
        Ok(EventLoop {
            epoll,
            listeners,
            deaf: false,
            places: Vec::new(),
            free: Vec::new(),
            open: 0,
            touched: Vec::new(),
            parcels: Vec::new(),
            scratch: vec![0; SCRATCH],
            shared,
            control,
            next_tick,
            grace: None,
            over: false,
        })
    }

    /// Serve until it is stopped.
    pub fn run(mut self) {
        let mut events = [Event::NONE; EVENTS];
        while !self.control.stopped() {
            self.answers();
            self.settle();
            let wait = if self.shared.outbox.sleep() { self.until_tick() } else { 0 };
            let found = self.epoll.wait(&mut events, wait);
            self.shared.outbox.up();
            self.shared.now = Instant::now();
            // An error of epoll itself cannot pass; a short rest keeps it from taking the whole machine.
            let found = found.unwrap_or_else(|_| {
                std::thread::sleep(DRAIN_TICK);
                0
            });
            for event in &events[..found] {
                self.event(event.token(), event.kinds());
            }
            self.drain();
            if self.shared.now >= self.next_tick {
                self.tick();
            }
        }
        for index in 0..self.places.len() {
            self.remove(index);
        }
    }

    fn until_tick(&self) -> i32 {
        let rest = self.next_tick.saturating_duration_since(Instant::now());
        let rest = if self.shared.draining { rest.min(DRAIN_TICK) } else { rest };
        rest.as_millis() as i32 + 1
    }

    fn event(&mut self, token: u64, kinds: u32) {
        if token == WAKE {
            self.shared.outbox.waker().clear();
        } else if token >= LISTENERS {
            self.accept((token - LISTENERS) as usize);
        } else {
            let mut scratch = std::mem::take(&mut self.scratch);
            self.with(token, |connection, shared| {
                if kinds & (READABLE | BROKEN) != 0 {
                    connection.readable(shared, &mut scratch);
                }
                // A broken socket whose connection does not read says nothing else, again and again.
                if kinds & BROKEN != 0 && kinds & (READABLE | WRITABLE) == 0 {
                    connection.kill();
                }
            });
            self.scratch = scratch;
        }
    }

    /// Give a connection a turn. If that panics, this connection is over, and only this one.
    fn with(&mut self, token: u64, act: impl FnOnce(&mut Connection, &Shared)) {
        let (index, generation) = (token as u32 as usize, (token >> 32) as u32);
        let connection = match self.places.get_mut(index) {
            Some(Place { generation: found, connection: Some(connection) }) if *found == generation => connection,
            _ => return,
        };
        let shared = &self.shared;
        if catch_unwind(AssertUnwindSafe(|| act(connection, shared))).is_err() {
            let _ = catch_unwind(AssertUnwindSafe(|| connection.kill()));
        }
        if !connection.touched {
            connection.touched = true;
            self.touched.push(token);
        }
    }

    /// Bring the answers that have come to their connections.
    fn answers(&mut self) {
        let mut parcels = std::mem::take(&mut self.parcels);
        self.shared.outbox.take(&mut parcels);
        for Parcel { token, request, said } in parcels.drain(..) {
            self.with(token, |connection, shared| connection.answer(shared, request, said));
        }
        self.parcels = parcels;
    }

    /// Write what the turn has made, and tell epoll what every connection wants.
    fn settle(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        for token in touched.drain(..) {
            self.with(token, |connection, shared| connection.settle(shared));
            let index = token as u32 as usize;
            let connection = match self.places.get_mut(index).and_then(|place| place.connection.as_mut()) {
                Some(connection) => connection,
                None => continue,
            };
            connection.touched = false;
            let wants = connection.wants();
            if !connection.dead() && wants != connection.interest {
                connection.interest = wants;
                if self.epoll.modify(connection.socket().as_raw_fd(), token, wants).is_err() {
                    connection.kill();
                }
            }
            if !connection.open() && std::mem::take(&mut connection.counted) {
                self.open -= 1;
            }
            if connection.dead() {
                self.remove(index);
            }
        }
        self.touched = touched;
    }

    fn remove(&mut self, index: usize) {
        let place = &mut self.places[index];
        if let Some(mut connection) = place.connection.take() {
            // What it holds of the house is dropped with it.
            let _ = catch_unwind(AssertUnwindSafe(move || connection.kill()));
            place.generation = (place.generation + 1) & 0x7fff_ffff;
            self.free.push(index as u32);
            self.listen_again();
        }
    }

    /// Accept who has connected, and say whether there may be more.
    fn accept(&mut self, which: usize) -> bool {
        for _ in 0..ACCEPTS {
            let (listener, kind) = match self.listeners.get(which) {
                Some((listener, kind)) => (listener, *kind),
                None => return false,
            };
            match listener.accept() {
                Ok((socket, peer)) => {
                    // A socket that is closed already is nothing to speak of.
                    let _ = self.add(socket, peer.ip(), kind);
                }
                Err(error) if exhausted(&error) => {
                    self.deafen();
                    return false;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return false,
                Err(_) => {}
            }
        }
        true
    }

    /// No descriptor is left: the listeners would be ready for ever. They are watched again when one may be.
    fn deafen(&mut self) {
        self.deaf = true;
        for (listener, _) in &self.listeners {
            let _ = self.epoll.remove(listener.as_raw_fd());
        }
    }

    fn listen_again(&mut self) {
        if std::mem::take(&mut self.deaf) {
            for (place, (listener, _)) in self.listeners.iter().enumerate() {
                let _ = self.epoll.add(listener.as_raw_fd(), LISTENERS + place as u64, READABLE);
            }
        }
    }

    fn add(&mut self, socket: TcpStream, peer: IpAddr, kind: Kind) -> std::io::Result<()> {
        let used = self.places.len() - self.free.len();
        if used >= self.shared.limits.connections.saturating_add(OVERFLOW) {
            return Ok(());
        }
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let channel = Channel::new(socket, self.sealed(kind)?);
        let peer = Peer { address: peer, name: None };
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.places.push(Place { generation: 0, connection: None });
                self.places.len() as u32 - 1
            }
        };
        let token = u64::from(self.places[index as usize].generation) << 32 | u64::from(index);
        if let Err(error) = self.epoll.add(channel.socket().as_raw_fd(), token, READABLE) {
            self.free.push(index);
            return Err(error);
        }
        let full = self.open >= self.shared.limits.connections;
        let mut out = Outgoing::default();
        let protocol = self.protocol(kind, full, token, &peer, &mut out);
        let mut connection = Connection::new(channel, token, peer, protocol, out, self.shared.now);
        connection.counted = !full;
        self.open += usize::from(!full);
        self.places[index as usize].connection = Some(Box::new(connection));
        self.with(token, |_, _| ());
        Ok(())
    }

    /// The TLS of a new connection, where there is TLS.
    fn sealed(&self, kind: Kind) -> std::io::Result<Option<Sealed>> {
        let tls = match &self.shared.tls {
            Some(tls) => tls,
            None => return Ok(None),
        };
        let sealed = Sealed::new(if kind == Kind::Http1 { &tls.web } else { &tls.rpc });
        sealed.map(Some).ok_or_else(|| std::io::ErrorKind::OutOfMemory.into())
    }

    fn protocol(&self, kind: Kind, full: bool, token: u64, peer: &Peer, out: &mut Outgoing) -> Box<dyn Protocol> {
        let Shared { service, limits, outbox, now, draining, .. } = &self.shared;
        let mut desk = Desk { service, limits, outbox, token, peer, now: *now, draining: *draining, out };
        match kind {
            Kind::Http1 => {
                let mut protocol = Http1::new(*now);
                if full {
                    protocol.turn_away(&mut desk);
                }
                Box::new(protocol)
            }
            Kind::Http2 => {
                let mut protocol = Http2::new(*now);
                if full {
                    protocol.turn_away(&mut desk);
                }
                Box::new(protocol)
            }
        }
    }

    fn all(&mut self, act: impl Fn(&mut Connection, &Shared)) {
        for index in 0..self.places.len() {
            let generation = self.places[index].generation;
            if self.places[index].connection.is_some() {
                self.with(u64::from(generation) << 32 | index as u64, &act);
            }
        }
    }

    fn tick(&mut self) {
        self.next_tick = self.shared.now + TICK;
        self.all(Connection::tick);
        self.listen_again();
    }

    fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.places.iter().filter_map(|place| place.connection.as_deref())
    }

    /// Go on with draining, if that was asked for.
    fn drain(&mut self) {
        if !self.control.draining() {
            return;
        }
        if self.grace.is_none() {
            // Who has connected is served; then nobody connects any more.
            self.shared.draining = true;
            for which in 0..self.listeners.len() {
                let mut rounds = 0..DRAIN_ROUNDS;
                while self.accept(which) && rounds.next().is_some() {}
            }
            self.listeners.clear();
            self.deaf = false;
            self.grace = Some(self.shared.now + GRACE.min(self.control.patience() / 4));
            self.all(|connection, shared| connection.drain(shared, false));
        }
        if !self.over && self.grace.map_or(false, |grace| self.shared.now >= grace) {
            self.over = true;
            self.all(|connection, shared| connection.drain(shared, true));
        }
        if self.over {
            let busy = self.connections().any(Connection::busy);
            self.control.set_drained(!busy);
        }
    }
}
