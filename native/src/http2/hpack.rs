//! Decoding of header blocks (RFC 7541): static and dynamic table, literals, Huffman.

use std::collections::VecDeque;

use super::huffman;
use crate::http1::head::text;

/// What is said in our SETTINGS, and the protocol's default.
pub const TABLE_BYTES: usize = 4096;
/// What a table counts for an entry beside its text (RFC 7541, 4.1).
const ENTRY_BYTES: usize = 32;

#[rustfmt::skip]
const STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
];

/// The block cannot be read; the connection's compression state is lost.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken;

/// A decoded list of headers, bounded: what is beyond is decoded, for the table's sake, but not kept.
#[derive(Debug, Default)]
pub struct List {
    pub headers: Vec<(String, String)>,
    /// Whether it was larger than allowed.
    pub over: bool,
    bytes: usize,
}

/// The state of one direction of a connection.
pub struct Decoder {
    /// The newest first.
    table: VecDeque<(String, String)>,
    bytes: usize,
    /// The most bytes, as the encoder has chosen.
    most: usize,
}

/// Bytes that are read from their front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// An integer whose first bits share a byte with something else (RFC 7541, 5.1).
    fn integer(&mut self, bits: u32) -> Result<usize, Broken> {
        let mask = (1usize << bits) - 1;
        let mut value = usize::from(self.byte()?) & mask;
        if value < mask {
            return Ok(value);
        }
        // Four bytes more hold any size that is allowed here.
        for shift in [0, 7, 14, 21] {
            let byte = usize::from(self.byte()?);
            value += (byte & 127) << shift;
            if byte & 128 == 0 {
                return Ok(value);
            }
        }
        Err(Broken)
    }

    fn byte(&mut self) -> Result<u8, Broken> {
        let (first, rest) = self.0.split_first().ok_or(Broken)?;
        self.0 = rest;
        Ok(*first)
    }

    fn string(&mut self) -> Result<String, Broken> {
        let coded = self.0.first().ok_or(Broken)? & 128 != 0;
        let length = self.integer(7)?;
        if length > self.0.len() {
            return Err(Broken);
        }
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        if coded {
            let bytes = huffman::decode(bytes).ok_or(Broken)?;
            return Ok(String::from_utf8(bytes).unwrap_or_else(|error| text(error.as_bytes())));
        }
        Ok(text(bytes))
    }
}

impl List {
    fn add(&mut self, name: String, value: String, most_bytes: usize, most: usize) {
        self.bytes += name.len() + value.len() + ENTRY_BYTES;
        self.over = self.over || self.bytes > most_bytes || self.headers.len() == most;
        if !self.over {
            self.headers.push((name, value));
        }
    }
}

impl Decoder {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Decoder {
        Decoder { table: VecDeque::new(), bytes: 0, most: TABLE_BYTES }
    }

    /// Decode a whole block: at most so many bytes of headers, and so many of them, are kept.
    pub fn decode(&mut self, block: &[u8], most_bytes: usize, most: usize) -> Result<List, Broken> {
        let mut list = List { headers: Vec::with_capacity(12), ..List::default() };
        let mut rest = Cursor(block);
        while let Some(first) = rest.0.first().copied() {
            if first & 0x80 != 0 {
                let index = rest.integer(7)?;
                let (name, value) = self.entry(index)?;
                // A block of indices costs nothing to send, so what is not kept is not copied either.
                if list.over {
                    continue;
                }
                let (name, value) = (name.to_string(), value.to_string());
                list.add(name, value, most_bytes, most);
            } else if first & 0x40 != 0 {
                let (name, value) = self.literal(&mut rest, 6)?;
                self.insert(name.clone(), value.clone());
                list.add(name, value, most_bytes, most);
            } else if first & 0x20 != 0 {
                let size = rest.integer(5)?;
                if size > TABLE_BYTES || !list.headers.is_empty() {
                    return Err(Broken);
                }
                self.most = size;
                self.evict(0);
            } else {
                let (name, value) = self.literal(&mut rest, 4)?;
                list.add(name, value, most_bytes, most);
            }
        }
        Ok(list)
    }

    fn literal(&self, rest: &mut Cursor<'_>, bits: u32) -> Result<(String, String), Broken> {
        let name = match rest.integer(bits)? {
            0 => rest.string()?,
            index => self.entry(index)?.0.to_string(),
        };
        Ok((name, rest.string()?))
    }

    fn entry(&self, index: usize) -> Result<(&str, &str), Broken> {
        if (1..=STATIC.len()).contains(&index) {
            return Ok(STATIC[index - 1]);
        }
        let place = index.checked_sub(STATIC.len() + 1).ok_or(Broken)?;
        self.table.get(place).map(|(name, value)| (&**name, &**value)).ok_or(Broken)
    }

    fn insert(&mut self, name: String, value: String) {
        let size = name.len() + value.len() + ENTRY_BYTES;
        self.evict(size);
        if size <= self.most {
            self.bytes += size;
            self.table.push_front((name, value));
        }
    }

    /// Make room for so many bytes, or empty the table.
    fn evict(&mut self, room: usize) {
        while self.bytes + room > self.most {
            match self.table.pop_back() {
                Some((name, value)) => self.bytes -= name.len() + value.len() + ENTRY_BYTES,
                None => return,
            }
        }
    }
}

#[cfg(test)]
#[path = "hpack_tests.rs"]
mod tests;
