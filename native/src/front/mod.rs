//! The front: listening sockets, and one thread that speaks HTTP/1.1 on one port and HTTP/2 (gRPC) on the other.
//!
//! A request that has come whole is given to the [`Service`]; its answers come back from any thread through the
//! outbox. What a client can make the front hold or wait for is bounded by [`Limits`].

mod channel;
pub(crate) mod connection;
mod control;
mod event_loop;
pub(crate) mod outbox;
pub(crate) mod outgoing;
pub(crate) mod protocol;

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use crate::service::{Front, Limits, Service};
use crate::sys;
use crate::tls::Tls;
use connection::Shared;
use control::Control;
use event_loop::{EventLoop, Kind};
pub use outbox::Cork;
use outbox::Outbox;

/// A front whose thread runs.
struct Running {
    ports: (u16, u16),
    control: Arc<Control>,
    outbox: Arc<Outbox>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Listen and serve. `host` is an address or a name; of a name with several addresses (`localhost`) all are listened
/// on. A port of 0 takes any that is free, `None` does not listen. With `tls` nothing else is spoken.
///
/// # Errors
/// The host is unknown, or a port cannot be listened on.
pub fn start(
    host: &str,
    http: Option<u16>,
    grpc: Option<u16>,
    limits: Limits,
    tls: Option<Tls>,
    service: Arc<dyn Service>,
) -> io::Result<Arc<dyn Front>> {
    let mut listeners = Vec::new();
    let mut listen = |port: Option<u16>, kind| -> io::Result<u16> {
        let port = match port {
            Some(port) => port,
            None => return Ok(0),
        };
        let found = listen(host, port)?;
        let port = found[0].local_addr()?.port();
        listeners.extend(found.into_iter().map(|listener| (listener, kind)));
        Ok(port)
    };
    let ports = (listen(http, Kind::Http1)?, listen(grpc, Kind::Http2)?);
    let outbox = Arc::new(Outbox::new()?);
    let control = Arc::new(Control::default());
    let shared = Shared { service, limits, tls, outbox: Arc::clone(&outbox), now: Instant::now(), draining: false };
    let event_loop = EventLoop::new(listeners, shared, Arc::clone(&control))?;
    let thread = Builder::new().name("vitrify-front".to_string()).spawn(move || event_loop.run())?;
    Ok(Arc::new(Running { ports, control, outbox, thread: Mutex::new(Some(thread)) }))
}

/// Listen on every address of a host; on the same port, of which the first chooses.
fn listen(host: &str, port: u16) -> io::Result<Vec<TcpListener>> {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let mut found = Vec::new();
    let (mut port, mut failed) = (port, io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    let mut seen: Vec<SocketAddr> = Vec::new();
    for address in (host, 0).to_socket_addrs()? {
        let address = SocketAddr::new(address.ip(), port);
        if seen.iter().any(|one| one.ip() == address.ip()) {
            continue;
        }
        seen.push(address);
        match sys::listener(address) {
            Ok(listener) => {
                port = listener.local_addr()?.port();
                found.push(listener);
            }
            // A machine without IPv6 still has "::1 localhost" in its table of hosts.
            Err(error) => failed = error,
        }
    }
    if found.is_empty() {
        return Err(failed);
    }
    Ok(found)
}

impl Front for Running {
    fn ports(&self) -> (u16, u16) {
        self.ports
    }

    fn drain(&self, seconds: f64) -> bool {
        self.control.drain(seconds);
        self.outbox.waker().wake();
        self.control.wait(seconds)
    }

    fn stop(&self) {
        self.control.stop();
        self.outbox.waker().wake();
        self.control.give_up();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            if thread.thread().id() != std::thread::current().id() {
                // It catches every panic of what it calls.
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod fuzz_tests;
