//! TLS of the load generator: the system's OpenSSL 3, on its sockets directly. It trusts whoever answers: it measures.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::raw::{c_char, c_int, c_long, c_void};
use std::os::unix::io::AsRawFd;

extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

macro_rules! functions {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        #[allow(non_snake_case)]
        struct Functions { $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        unsafe fn functions(library: *mut c_void) -> Functions {
            Functions { $($name: {
                let found = dlsym(library, concat!(stringify!($name), "\0").as_ptr().cast());
                assert!(!found.is_null(), concat!("no ", stringify!($name)));
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(found)
            },)* }
        }
    };
}

functions! {
    TLS_client_method() -> *mut c_void;
    SSL_CTX_new(*mut c_void) -> *mut c_void;
    SSL_CTX_set_alpn_protos(*mut c_void, *const u8, u32) -> c_int;
    SSL_CTX_ctrl(*mut c_void, c_int, c_long, *mut c_void) -> c_long;
    SSL_new(*mut c_void) -> *mut c_void;
    SSL_free(*mut c_void);
    SSL_set_fd(*mut c_void, c_int) -> c_int;
    SSL_connect(*mut c_void) -> c_int;
    SSL_read(*mut c_void, *mut c_void, c_int) -> c_int;
    SSL_write(*mut c_void, *const c_void, c_int) -> c_int;
    SSL_get_error(*mut c_void, c_int) -> c_int;
    ERR_clear_error();
}

/// What all connections share.
pub struct Client {
    functions: Functions,
    context: *mut c_void,
}

impl Client {
    /// For one protocol.
    pub fn new(grpc: bool) -> Client {
        // SAFETY: the types are those of OpenSSL 3's headers; the context lives as long as the process.
        unsafe {
            let library = dlopen(b"libssl.so.3\0".as_ptr().cast(), 2);
            assert!(!library.is_null(), "there is no libssl.so.3");
            let functions = functions(library);
            let context = (functions.SSL_CTX_new)((functions.TLS_client_method)());
            let offered: &[u8] = if grpc { b"\x02h2" } else { b"\x08http/1.1" };
            (functions.SSL_CTX_set_alpn_protos)(context, offered.as_ptr(), offered.len() as u32);
            (functions.SSL_CTX_ctrl)(context, 33, 0x03, std::ptr::null_mut()); // a write may be partial, and be moved
            Client { functions, context }
        }
    }
}

/// A connection's socket, plain or under TLS.
pub struct Stream<'a> {
    pub socket: TcpStream,
    sealed: Option<(&'a Client, *mut c_void)>,
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        if let Some((client, ssl)) = self.sealed {
            // SAFETY: it is ours.
            unsafe { (client.functions.SSL_free)(ssl) }
        }
    }
}

impl<'a> Stream<'a> {
    /// Take a socket that blocks; it does not block any more then.
    pub fn new(socket: TcpStream, client: Option<&'a Client>) -> io::Result<Stream<'a>> {
        let sealed = match client {
            None => None,
            // SAFETY: the socket lives as long as the session, and closes after it.
            Some(client) => unsafe {
                let ssl = (client.functions.SSL_new)(client.context);
                (client.functions.SSL_set_fd)(ssl, socket.as_raw_fd());
                if (client.functions.SSL_connect)(ssl) != 1 {
                    (client.functions.SSL_free)(ssl);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "the TLS handshake failed"));
                }
                Some((client, ssl))
            },
        };
        socket.set_nonblocking(true)?;
        Ok(Stream { socket, sealed })
    }

    fn said(client: &Client, ssl: *mut c_void, result: c_int) -> io::Result<usize> {
        // SAFETY: the result is that of the last call for this session.
        match unsafe { (client.functions.SSL_get_error)(ssl, result) } {
            0 => Ok(result as usize),
            2 | 3 => Err(io::ErrorKind::WouldBlock.into()),
            6 => Ok(0),
            _ => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }
}

impl Read for Stream<'_> {
    /// Read all that has come, record by record: epoll does not know of what was read and not taken.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (client, ssl) = match self.sealed {
            Some(sealed) => sealed,
            None => return self.socket.read(into),
        };
        let mut taken = 0;
        while taken < into.len() {
            // SAFETY: at most so many bytes are written.
            let result = unsafe {
                (client.functions.ERR_clear_error)();
                (client.functions.SSL_read)(ssl, into[taken..].as_mut_ptr().cast(), (into.len() - taken) as c_int)
            };
            match Stream::said(client, ssl, result) {
                Ok(0) => break,
                Ok(count) => taken += count,
                Err(_) if taken > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.sealed {
            None => self.socket.write(bytes),
            Some((client, ssl)) => {
                // SAFETY: at most so many bytes are read.
                let result = unsafe {
                    (client.functions.ERR_clear_error)();
                    (client.functions.SSL_write)(ssl, bytes.as_ptr().cast(), bytes.len() as c_int)
                };
                Stream::said(client, ssl, result)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
