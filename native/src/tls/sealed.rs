//! What TLS puts between a socket and its connection. It never waits.

use std::cell::RefCell;
use std::io::{self, Read, Write};

use super::openssl::{Context, Session, Step};

/// Sealed bytes that are opened at a time: so much of a connection's memory grows with what its client sends.
const PIECE: usize = 16 * 1024;
/// The largest record, opened: of bytes that come, no more than these were kept before.
const RECORD: usize = 17 * 1024;
/// Sealed with one call; what the socket does not take of it waits, and nothing more is sealed then.
const SEALED: usize = 64 * 1024;
/// A handshake of more bytes is none: a chain of certificates has some thousand.
const HANDSHAKE: usize = 256 * 1024;

/// One connection's TLS.
pub(crate) struct Sealed {
    session: Session,
    /// Sealed bytes that the socket did not take.
    rest: Vec<u8>,
    shaken: bool,
    /// Bytes of the handshake that have come.
    heard: usize,
}

/// What was read.
pub(crate) struct Got {
    pub count: usize,
    /// Whether the socket may have more.
    pub more: bool,
    /// Whether the client has ended its side.
    pub ended: bool,
}

thread_local! {
    /// Where sealed bytes are on their way to a socket.
    static PASSAGE: RefCell<Vec<u8>> = RefCell::new(vec![0; SEALED]);
}

fn broken() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

impl Sealed {
    /// Begin with a handshake; none where memory is short.
    pub fn new(context: &Context) -> Option<Sealed> {
        Some(Sealed { session: Session::new(context)?, rest: Vec::new(), shaken: false, heard: 0 })
    }

    /// Whether the handshake is done.
    pub fn shaken(&self) -> bool {
        self.shaken
    }

    /// Whether sealed bytes wait for the socket.
    pub fn waits(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Who the client is, by its certificate.
    pub fn name(&self) -> Option<String> {
        self.session.name()
    }

    /// Read once from the socket and open all that has come, so that nothing waits here of which epoll does not know.
    ///
    /// # Errors
    /// `WouldBlock` where there is nothing opened yet; any other where the connection is over.
    pub fn read(&mut self, socket: &mut impl Read, room: &mut [u8]) -> io::Result<Got> {
        let (into, raw) = room.split_at_mut(room.len() / 2);
        // What is opened is smaller than what was sealed, but for a record that had begun before.
        let most = raw.len() - RECORD;
        let count = socket.read(&mut raw[..most])?;
        let mut got = Got { count: 0, more: count == most, ended: count == 0 };
        for piece in raw[..count].chunks(PIECE) {
            if !self.session.take(piece) {
                return Err(broken());
            }
            if self.shake(piece.len())? {
                self.open(into, &mut got)?;
            }
        }
        if got.count == 0 && !got.ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(got)
    }

    /// Go on with the handshake by so many bytes; true when it is done.
    fn shake(&mut self, bytes: usize) -> io::Result<bool> {
        if self.shaken {
            return Ok(true);
        }
        self.heard += bytes;
        match self.session.shake() {
            Step::Done(_) => self.shaken = true,
            Step::Wants if self.heard <= HANDSHAKE => {}
            _ => return Err(broken()),
        }
        Ok(self.shaken)
    }

    fn open(&mut self, into: &mut [u8], got: &mut Got) -> io::Result<()> {
        while !got.ended {
            match self.session.read(&mut into[got.count..]) {
                Step::Done(count) => got.count += count,
                Step::Wants => break,
                Step::Closed => got.ended = true,
                Step::Failed => return Err(broken()),
            }
        }
        Ok(())
    }

    /// Send what is sealed. False where the socket does not take all of it.
    pub fn push(&mut self, socket: &mut impl Write) -> io::Result<bool> {
        let count = sent(socket, &self.rest)?;
        self.rest.drain(..count);
        if self.waits() {
            return Ok(false);
        }
        self.rest.shrink_to(0);
        PASSAGE.with(|passage| {
            let mut passage = passage.borrow_mut();
            loop {
                let count = self.session.sealed(&mut passage);
                if count == 0 {
                    return Ok(self.rest.is_empty());
                }
                let sent = if self.waits() { 0 } else { sent(socket, &passage[..count])? };
                self.rest.extend_from_slice(&passage[sent..count]);
            }
        })
    }

    /// Say that nothing more comes, if the socket takes it at once.
    pub fn close(&mut self, socket: &mut impl Write) {
        if self.shaken {
            self.session.close();
        }
        let _ = self.push(socket);
    }

    /// Seal bytes, as many as are sealed at a time, once the socket has taken those before.
    pub fn write(&mut self, socket: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        if !self.shaken || !self.push(socket)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match self.session.write(&bytes[..bytes.len().min(SEALED)]) {
            Step::Done(count) => {
                self.push(socket)?;
                Ok(count)
            }
            Step::Wants => Err(io::ErrorKind::WouldBlock.into()),
            Step::Closed | Step::Failed => Err(broken()),
        }
    }
}

/// Write, and return how many bytes were taken.
fn sent(socket: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match socket.write(&bytes[sent..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => sent += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}
