//! A request's body as it comes: of a known length, or in chunks (RFC 9112, 7.1).

use super::head::Refusal;

/// The first allocation; more only follows bytes that have come.
const FIRST: usize = 64 * 1024;
/// Of a chunk's extensions.
const EXTENSION_BYTES: usize = 256;
const BAD: Refusal = (400, "malformed chunked body");
const LARGE: Refusal = (413, "the request's body is larger than is allowed");

/// A body that is being read.
pub struct Body {
    bytes: Vec<u8>,
    most: usize,
    state: State,
}

enum State {
    /// So many bytes are missing.
    Sized(usize),
    /// In a chunk's size, of which so many digits have come.
    Size {
        size: usize,
        digits: usize,
    },
    /// In what follows a size; ignored.
    Extension {
        size: usize,
        bytes: usize,
    },
    /// The line feed behind a size is expected.
    SizeEnd(usize),
    Data(usize),
    DataReturn,
    DataFeed,
    /// In a trailer's line, of so many bytes, ignored; and all trailers so far.
    Trailer {
        line: usize,
        bytes: usize,
    },
    TrailerFeed {
        line: usize,
        bytes: usize,
    },
    Done,
}

impl Body {
    /// A body of a length.
    pub fn sized(length: u64, most: usize) -> Result<Body, Refusal> {
        if length > most as u64 {
            return Err(LARGE);
        }
        let state = if length == 0 { State::Done } else { State::Sized(length as usize) };
        Ok(Body { bytes: Vec::with_capacity((length as usize).min(FIRST)), most, state })
    }

    /// A body in chunks.
    pub fn chunked(most: usize) -> Body {
        Body { bytes: Vec::new(), most, state: State::Size { size: 0, digits: 0 } }
    }

    /// Whether it has come whole.
    pub fn done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// The bytes, once it has come whole.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Take bytes up to the body's end, and return how many.
    pub fn take(&mut self, bytes: &[u8], most_trailers: usize) -> Result<usize, Refusal> {
        let mut used = 0;
        while used < bytes.len() {
            let rest = &bytes[used..];
            used += match self.state {
                State::Done => break,
                State::Sized(missing) => {
                    let count = missing.min(rest.len());
                    self.append(&rest[..count], missing);
                    self.state = if count == missing { State::Done } else { State::Sized(missing - count) };
                    count
                }
                State::Data(missing) => {
                    let count = missing.min(rest.len());
                    self.append(&rest[..count], self.most - self.bytes.len());
                    self.state = if count == missing { State::DataReturn } else { State::Data(missing - count) };
                    count
                }
                _ => {
                    self.framing(rest[0], most_trailers)?;
                    1
                }
            };
        }
        Ok(used)
    }

    /// Grow by doubling, never beyond what may come.
    fn append(&mut self, bytes: &[u8], coming: usize) {
        if self.bytes.capacity() - self.bytes.len() < bytes.len() {
            self.bytes.reserve_exact(coming.min(self.bytes.len().max(FIRST)).max(bytes.len()));
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// One byte of what is between the data.
    fn framing(&mut self, byte: u8, most_trailers: usize) -> Result<(), Refusal> {
        self.state = match (&self.state, byte) {
            (State::Size { digits: 0, .. }, b'\r' | b';') => return Err(BAD),
            (&State::Size { size, .. }, b'\r') => State::SizeEnd(size),
            (&State::Size { size, .. }, b';') => State::Extension { size, bytes: 0 },
            (&State::Size { size, digits }, _) => {
                let digit = (byte as char).to_digit(16).ok_or(BAD)? as usize;
                let size = size.checked_mul(16).and_then(|size| size.checked_add(digit)).ok_or(BAD)?;
                if digits == 16 {
                    return Err(BAD);
                }
                if size > self.most - self.bytes.len() {
                    return Err(LARGE);
                }
                State::Size { size, digits: digits + 1 }
            }
            (&State::Extension { size, .. }, b'\r') => State::SizeEnd(size),
            (&State::Extension { size, bytes }, _) if byte != b'\n' && bytes < EXTENSION_BYTES => {
                State::Extension { size, bytes: bytes + 1 }
            }
            (State::SizeEnd(0), b'\n') => State::Trailer { line: 0, bytes: 0 },
            (&State::SizeEnd(size), b'\n') => State::Data(size),
            (State::DataReturn, b'\r') => State::DataFeed,
            (State::DataFeed, b'\n') => State::Size { size: 0, digits: 0 },
            (&State::Trailer { line, bytes }, b'\r') => State::TrailerFeed { line, bytes },
            (&State::Trailer { line, bytes }, _) if byte != b'\n' => {
                if bytes == most_trailers {
                    return Err((431, "the request's trailers are too large"));
                }
                State::Trailer { line: line + 1, bytes: bytes + 1 }
            }
            (State::TrailerFeed { line: 0, .. }, b'\n') => State::Done,
            (&State::TrailerFeed { bytes, .. }, b'\n') => State::Trailer { line: 0, bytes },
            _ => return Err(BAD),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], most: usize) -> Result<(Vec<u8>, usize, bool), Refusal> {
        let mut body = Body::chunked(most);
        let used = body.take(text, 64)?;
        Ok((body.bytes.clone(), used, body.done()))
    }

    #[test]
    fn chunks_are_joined_and_what_follows_is_left() {
        let text = b"4\r\nWiki\r\n5;a=\"b\"\r\npedia\r\n0A\r\n0123456789\r\n0\r\nT: x\r\n\r\nGET";
        for split in 0..text.len() {
            let mut body = Body::chunked(64);
            let mut used = body.take(&text[..split], 64).unwrap();
            used += body.take(&text[used..], 64).unwrap();
            assert!(body.done());
            assert_eq!((&body.bytes[..], used), (&b"Wikipedia0123456789"[..], text.len() - 3));
        }
    }

    #[test]
    fn bad_chunks_are_refused() {
        for (status, text) in [
            (400, &b"\r\n"[..]),
            (400, b";a\r\n"),
            (400, b"g\r\n"),
            (400, b"-1\r\n"),
            (400, b"+1\r\n"),
            (400, b"0x1\r\n"),
            (400, b" 1\r\n"),
            (400, b"1\n"),
            (400, b"1 \r\n"),
            (400, b"1;a\nb"),
            (400, b"1\r\nab\r\n"),
            (400, b"1\r\na\n"),
            (400, b"1\r\na\rb"),
            (400, b"00000000000000001\r\n"),
            (400, b"0\r\nT: x\n"),
            (400, b"0\r\n\rx"),
            (413, b"41\r\n"),
            (413, b"ffffffffffffffff\r\n"),
            (413, b"3f\r\n000000000000000000000000000000000000000000000000000000000000000\r\n2\r\n"),
        ] {
            assert_eq!(read(text, 64).map_err(|refusal| refusal.0), Err(status), "{:?}", String::from_utf8_lossy(text));
        }
        let long = [&b"0\r\n"[..], &[b'a'; 65]].concat();
        assert_eq!(read(&long, 64).unwrap_err().0, 431);
        let long = [&b"1;"[..], &[b'a'; EXTENSION_BYTES + 1]].concat();
        assert_eq!(read(&long, 64).unwrap_err().0, 400);
    }

    #[test]
    fn a_declared_length_allocates_nothing_before_its_bytes_come() {
        let mut body = Body::sized(1 << 40, 1 << 41).unwrap();
        assert!(body.bytes.capacity() <= FIRST);
        body.take(&[0; 100_000], 0).unwrap();
        assert!(body.bytes.capacity() <= 4 * FIRST);
        assert_eq!(Body::sized(65, 64).err().unwrap().0, 413);
        assert!(Body::sized(0, 0).unwrap().done());
    }
}
