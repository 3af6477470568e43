//! gRPC over HTTP/2: what a message is framed in, and how its end is said.
//!
//! Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md

/// Of a message's prefix: a flag for compression, and four bytes of length.
pub(crate) const PREFIX: usize = 5;
/// The first allocation; more only follows bytes that have come.
const FIRST: usize = 64 * 1024;

/// A gRPC status: code and message.
pub(crate) type Status = (u8, &'static str);

/// Whether a content type is gRPC's, and whether its messages are those that are understood.
pub(crate) fn content_type(value: &str) -> Option<bool> {
    let rest = value.trim().strip_prefix("application/grpc")?;
    match rest.as_bytes().first() {
        None | Some(b';') => Some(true),
        Some(b'+') => Some(rest[1..].split(';').next() == Some("proto")),
        Some(_) => None,
    }
}

/// A status' message, percent-encoded: everything but visible ASCII and the space.
pub(crate) fn percent(message: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut text = String::with_capacity(message.len());
    for byte in message.bytes() {
        if (0x20..0x7f).contains(&byte) && byte != b'%' {
            text.push(byte as char);
        } else {
            text.push('%');
            text.push(DIGITS[usize::from(byte >> 4)] as char);
            text.push(DIGITS[usize::from(byte & 15)] as char);
        }
    }
    text
}

/// A gRPC code for a status that was meant for HTTP.
pub(crate) fn code(status: u16) -> u8 {
    match status {
        200..=299 => 0,
        400 | 405 | 406 | 411 | 415 | 417 => 3,
        401 => 16,
        403 => 7,
        404 => 5,
        408 | 504 => 4,
        409 => 6,
        412 | 422 => 9,
        413 | 414 | 429 | 431 => 8,
        501 | 505 => 12,
        502 | 503 => 14,
        _ => 13,
    }
}

/// Reads messages as their bytes come.
pub(crate) struct Messages {
    prefix: [u8; PREFIX],
    /// Bytes of the prefix that have come.
    begun: usize,
    missing: usize,
    body: Vec<u8>,
    most: usize,
    /// Whether the request says that its messages may be compressed.
    encoded: bool,
}

impl Messages {
    /// Messages of at most so many bytes.
    pub fn new(most: usize, encoding: Option<&str>) -> Messages {
        let encoded = encoding.map_or(false, |encoding| encoding != "identity");
        Messages { prefix: [0; PREFIX], begun: 0, missing: 0, body: Vec::new(), most, encoded }
    }

    /// Whether nothing of a message has come that is not whole.
    pub fn between(&self) -> bool {
        self.begun == 0
    }

    /// Take bytes, and give the first message that is whole with them; what it did not need is left in `bytes`.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Vec<u8>>, Status> {
        if self.begun < PREFIX {
            let count = (PREFIX - self.begun).min(bytes.len());
            self.prefix[self.begun..self.begun + count].copy_from_slice(&bytes[..count]);
            self.begun += count;
            *bytes = &bytes[count..];
            if self.begun < PREFIX {
                return Ok(None);
            }
            self.open(bytes.len())?;
        }
        let count = self.missing.min(bytes.len());
        if self.body.capacity() - self.body.len() < count {
            self.body.reserve_exact(self.missing.min(self.body.len().max(FIRST)).max(count));
        }
        self.body.extend_from_slice(&bytes[..count]);
        self.missing -= count;
        *bytes = &bytes[count..];
        if self.missing > 0 {
            return Ok(None);
        }
        self.begun = 0;
        Ok(Some(std::mem::take(&mut self.body)))
    }

    /// Look at a whole prefix.
    fn open(&mut self, come: usize) -> Result<(), Status> {
        let [flag, a, b, c, d] = self.prefix;
        match (flag, self.encoded) {
            (0, _) => {}
            (1, true) => return Err((12, "compressed messages are not implemented; send them as identity")),
            (1, false) => return Err((13, "a message is compressed, but grpc-encoding names no compression")),
            _ => return Err((13, "malformed message: its first byte has to be 0 or 1")),
        }
        self.missing = u32::from_be_bytes([a, b, c, d]) as usize;
        if self.missing > self.most {
            return Err((8, "the message is larger than is allowed"));
        }
        self.body.reserve_exact(self.missing.min(come.max(FIRST)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(messages: &mut Messages, mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, Status> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            found.extend(messages.next(&mut bytes)?);
        }
        Ok(found)
    }

    #[test]
    fn messages_are_found_however_their_bytes_come() {
        let stream = b"\0\0\0\0\x03abc\0\0\0\0\0\0\0\0\0\x01d";
        for split in 0..=stream.len() {
            let mut messages = Messages::new(8, None);
            let mut found = all(&mut messages, &stream[..split]).unwrap();
            found.extend(all(&mut messages, &stream[split..]).unwrap());
            assert_eq!(found, [&b"abc"[..], b"", b"d"]);
            assert!(messages.between());
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (code, encoding, bytes) in [
            (12, Some("gzip"), &b"\x01\0\0\0\0"[..]),
            (13, None, b"\x01\0\0\0\0"),
            (13, Some("identity"), b"\x01\0\0\0\0"),
            (13, Some("gzip"), b"\x02\0\0\0\0"),
            (8, None, b"\0\0\0\0\x09"),
            (8, None, b"\0\xff\xff\xff\xff"),
        ] {
            assert_eq!(all(&mut Messages::new(8, encoding), bytes).unwrap_err().0, code);
        }
    }

    #[test]
    fn a_declared_length_allocates_nothing_before_its_bytes_come() {
        let mut messages = Messages::new(usize::MAX, None);
        all(&mut messages, b"\0\xff\xff\xff\xffabc").unwrap();
        assert!(messages.body.capacity() <= FIRST);
    }

    #[test]
    fn content_types() {
        for (value, expected) in [
            ("application/grpc", Some(true)),
            ("application/grpc+proto", Some(true)),
            ("application/grpc; charset=utf-8", Some(true)),
            ("application/grpc+json", Some(false)),
            ("application/grpc-web", None),
            ("application/json", None),
            ("", None),
        ] {
            assert_eq!(content_type(value), expected, "{value}");
        }
    }

    #[test]
    fn a_message_is_percent_encoded() {
        assert_eq!(percent("a b\n\u{e9}%~"), "a b%0A%C3%A9%25~");
    }
}
