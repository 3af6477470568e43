//! A connection's socket, plain or under TLS.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use super::outgoing::Outgoing;
use crate::tls::sealed::{Got, Sealed};

/// The socket.
pub(crate) struct Channel {
    socket: TcpStream,
    /// Its TLS, where it has one.
    sealed: Option<Box<Sealed>>,
}

/// The socket for what has still to be sealed.
struct Sealing<'a>(&'a mut Sealed, &'a mut TcpStream);

impl Write for Sealing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(self.1, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Channel {
    pub fn new(socket: TcpStream, sealed: Option<Sealed>) -> Channel {
        Channel { socket, sealed: sealed.map(Box::new) }
    }

    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Whether the handshake is not done.
    pub fn shaking(&self) -> bool {
        self.sealed.as_ref().map_or(false, |sealed| !sealed.shaken())
    }

    /// Whether bytes wait here that the socket did not take.
    pub fn waits(&self) -> bool {
        self.sealed.as_ref().map_or(false, |sealed| sealed.waits())
    }

    /// Who the client is, by its certificate.
    pub fn name(&self) -> Option<String> {
        self.sealed.as_ref().and_then(|sealed| sealed.name())
    }

    /// Read what has come.
    ///
    /// # Errors
    /// `WouldBlock` where there is nothing yet; any other where the connection is over.
    pub fn read(&mut self, room: &mut [u8]) -> io::Result<Got> {
        if let Some(sealed) = &mut self.sealed {
            return sealed.read(&mut self.socket, room);
        }
        let count = self.socket.read(room)?;
        Ok(Got { count, more: count == room.len(), ended: count == 0 })
    }

    /// Read what nobody wants to know. True where the client has ended its side.
    ///
    /// # Errors
    /// As for `read`.
    pub fn skip(&mut self, room: &mut [u8]) -> io::Result<bool> {
        self.socket.read(room).map(|count| count == 0)
    }

    /// Write what the socket takes. True when nothing waits any more.
    pub fn flush(&mut self, out: &mut Outgoing) -> io::Result<bool> {
        match &mut self.sealed {
            None => out.flush(&mut self.socket),
            Some(sealed) => {
                let done = out.flush(&mut Sealing(sealed, &mut self.socket))?;
                Ok(sealed.push(&mut self.socket)? && done)
            }
        }
    }

    /// End our side. False where the socket cannot.
    pub fn end(&mut self) -> bool {
        if let Some(sealed) = &mut self.sealed {
            sealed.close(&mut self.socket);
        }
        self.socket.shutdown(Shutdown::Write).is_ok()
    }
}
