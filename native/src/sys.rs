//! What the standard library lacks of Linux: epoll, eventfd, and a listening socket that several processes share.
//!
//! The only `unsafe` of the front. Constants are Linux's, the same on x86-64 and AArch64.
#![allow(unsafe_code)]

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::raw::{c_int, c_uint, c_void};
use std::os::unix::io::{AsRawFd, FromRawFd, OwnedFd, RawFd};

extern "C" {
    fn epoll_create1(flags: c_int) -> c_int;
    fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut Event) -> c_int;
    fn epoll_wait(epoll: c_int, events: *mut Event, room: c_int, timeout: c_int) -> c_int;
    fn eventfd(initial: c_uint, flags: c_int) -> c_int;
    fn read(fd: c_int, into: *mut c_void, room: usize) -> isize;
    fn write(fd: c_int, from: *const c_void, size: usize) -> isize;
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, size: c_uint) -> c_int;
    fn bind(fd: c_int, address: *const c_void, size: c_uint) -> c_int;
    fn listen(fd: c_int, backlog: c_int) -> c_int;
}

const CLOSE_ON_EXEC: c_int = 0o2_000_000;
const NON_BLOCKING: c_int = 0o4_000;
const ADD: c_int = 1;
const DELETE: c_int = 2;
const MODIFY: c_int = 3;
const STREAM: c_int = 1;
const AF_INET: c_int = 2;
const AF_INET6: c_int = 10;
const SOL_SOCKET: c_int = 1;
const REUSE_ADDRESS: c_int = 2;
const REUSE_PORT: c_int = 15;
const IPPROTO_IPV6: c_int = 41;
const IPV6_ONLY: c_int = 26;
const BACKLOG: c_int = 4096;
const KEEP_ALIVE: c_int = 9;
const IPPROTO_TCP: c_int = 6;
const KEEP_IDLE: c_int = 4;
const KEEP_INTERVAL: c_int = 5;
const KEEP_COUNT: c_int = 6;

/// Bytes can be read, or the other side has ended.
pub const READABLE: u32 = 0x001;
/// There is room for bytes.
pub const WRITABLE: u32 = 0x004;
/// The connection is broken; always reported.
pub const BROKEN: u32 = 0x008 | 0x010;

/// The process (EMFILE) or the machine (ENFILE, ENOBUFS, ENOMEM) has no room for another connection.
pub fn exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(24) | Some(23) | Some(105) | Some(12))
}

/// One readiness, in the kernel's layout (packed on x86-64 only).
#[derive(Clone, Copy)]
#[cfg_attr(target_arch = "x86_64", repr(C, packed))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C))]
pub struct Event {
    kinds: u32,
    token: u64,
}

impl Event {
    /// Nothing.
    pub const NONE: Event = Event { kinds: 0, token: 0 };

    /// Which of `READABLE`, `WRITABLE` and `BROKEN`.
    pub fn kinds(self) -> u32 {
        self.kinds
    }

    /// By what the descriptor was registered.
    pub fn token(self) -> u64 {
        self.token
    }
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

fn owned(fd: c_int) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor was just made by the kernel and nobody else has it.
    checked(fd).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Tells which descriptors are ready; level-triggered.
pub struct Epoll(OwnedFd);

impl Epoll {
    /// Make one.
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: no memory is passed.
        owned(unsafe { epoll_create1(CLOSE_ON_EXEC) }).map(Epoll)
    }

    fn control(&self, operation: c_int, fd: RawFd, token: u64, kinds: u32) -> io::Result<()> {
        let mut event = Event { kinds, token };
        // SAFETY: the event lives during the call.
        checked(unsafe { epoll_ctl(self.0.as_raw_fd(), operation, fd, &mut event) }).map(drop)
    }

    /// Watch a descriptor.
    pub fn add(&self, fd: RawFd, token: u64, kinds: u32) -> io::Result<()> {
        self.control(ADD, fd, token, kinds)
    }

    /// Change what is watched of a descriptor.
    pub fn modify(&self, fd: RawFd, token: u64, kinds: u32) -> io::Result<()> {
        self.control(MODIFY, fd, token, kinds)
    }

    /// Watch a descriptor no more.
    pub fn remove(&self, fd: RawFd) -> io::Result<()> {
        self.control(DELETE, fd, 0, 0)
    }

    /// Wait for at most so many milliseconds (-1 for ever) and return how many events were written.
    pub fn wait(&self, events: &mut [Event], milliseconds: i32) -> io::Result<usize> {
        // SAFETY: the kernel writes at most so many events as there are.
        let found = unsafe { epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), events.len() as c_int, milliseconds) };
        match checked(found) {
            Ok(found) => Ok(found as usize),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }
}

/// Wakes a thread that waits in [`Epoll::wait`].
pub struct Waker(OwnedFd);

impl Waker {
    /// Make one.
    pub fn new() -> io::Result<Waker> {
        // SAFETY: no memory is passed.
        owned(unsafe { eventfd(0, CLOSE_ON_EXEC | NON_BLOCKING) }).map(Waker)
    }

    /// Make it readable.
    pub fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight bytes are read from an array of eight. It fails only where it is readable already.
        unsafe { write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Make it unreadable.
    pub fn clear(&self) {
        let mut count = [0u8; 8];
        // SAFETY: eight bytes are written to an array of eight. It fails only where it is unreadable already.
        unsafe { read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl AsRawFd for Waker {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Listen on an address that other processes of the same user may listen on too; accepts do not block.
pub fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let domain = if address.is_ipv6() { AF_INET6 } else { AF_INET };
    // SAFETY: no memory is passed.
    let fd = owned(unsafe { socket(domain, STREAM | CLOSE_ON_EXEC | NON_BLOCKING, 0) })?;
    set(&fd, SOL_SOCKET, REUSE_ADDRESS, 1)?;
    set(&fd, SOL_SOCKET, REUSE_PORT, 1)?;
    if address.is_ipv6() {
        // Otherwise "::" takes IPv4's port too, and a second listener of ours on "0.0.0.0" fails.
        set(&fd, IPPROTO_IPV6, IPV6_ONLY, 1)?;
    }
    keep_alive(&fd)?;
    let (name, size) = raw(address);
    // SAFETY: `size` bytes of the name are valid, and it lives during the call.
    checked(unsafe { bind(fd.as_raw_fd(), name.as_ptr().cast(), size) })?;
    // SAFETY: no memory is passed.
    checked(unsafe { listen(fd.as_raw_fd(), BACKLOG) })?;
    Ok(TcpListener::from(fd))
}

/// Have the kernel ask a silent client whether it is still there, and break the connection where it is not: after two
/// minutes. Accepted sockets inherit it from their listener.
fn keep_alive(fd: &OwnedFd) -> io::Result<()> {
    set(fd, SOL_SOCKET, KEEP_ALIVE, 1)?;
    set(fd, IPPROTO_TCP, KEEP_IDLE, 60)?;
    set(fd, IPPROTO_TCP, KEEP_INTERVAL, 15)?;
    set(fd, IPPROTO_TCP, KEEP_COUNT, 4)
}

fn set(fd: &OwnedFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let size = std::mem::size_of::<c_int>() as c_uint;
    // SAFETY: the value lives during the call and has the size that is given.
    checked(unsafe { setsockopt(fd.as_raw_fd(), level, name, (&value as *const c_int).cast(), size) }).map(drop)
}

/// `sockaddr_in` or `sockaddr_in6`, and its size.
fn raw(address: SocketAddr) -> ([u8; 28], c_uint) {
    let mut name = [0u8; 28];
    name[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(four) => {
            name[..2].copy_from_slice(&(AF_INET as u16).to_ne_bytes());
            name[4..8].copy_from_slice(&four.ip().octets());
            (name, 16)
        }
        SocketAddr::V6(six) => {
            name[..2].copy_from_slice(&(AF_INET6 as u16).to_ne_bytes());
            name[4..8].copy_from_slice(&six.flowinfo().to_be_bytes());
            name[8..24].copy_from_slice(&six.ip().octets());
            name[24..28].copy_from_slice(&six.scope_id().to_ne_bytes());
            (name, 28)
        }
    }
}
