//! Frames of HTTP/2: their heads, kinds and errors (RFC 9113, 4, 6 and 7).

/// What a client has to begin with.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Of a frame's head.
pub const HEAD_BYTES: usize = 9;
/// The most bytes of a frame that we take: the protocol's default.
pub const FRAME_BYTES: usize = 16_384;
/// The largest window, and the largest stream.
pub const MOST: u32 = 0x7fff_ffff;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RESET: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 0x1;
pub const ACK: u8 = 0x1;
pub const END_HEADERS: u8 = 0x4;
pub const PADDED: u8 = 0x8;
pub const PRIORITISED: u8 = 0x20;

/// Error codes (RFC 9113, 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    None = 0,
    Protocol = 1,
    FlowControl = 3,
    StreamClosed = 5,
    FrameSize = 6,
    Refused = 7,
    Cancel = 8,
    Compression = 9,
    Calm = 11,
}

/// A frame's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    pub length: usize,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

impl Frame {
    /// Read a head; `None` where it has not come whole.
    pub fn parse(bytes: &[u8]) -> Option<Frame> {
        let head = bytes.get(..HEAD_BYTES)?;
        Some(Frame {
            length: usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]),
            kind: head[3],
            flags: head[4],
            stream: word(&head[5..]) & MOST,
        })
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// A payload without its padding; `None` where the padding is longer than the frame.
    pub fn unpadded<'a>(&self, payload: &'a [u8]) -> Option<&'a [u8]> {
        if !self.has(PADDED) {
            return Some(payload);
        }
        let (padding, rest) = payload.split_first()?;
        rest.get(..rest.len().checked_sub(usize::from(*padding))?)
    }
}

/// Four bytes as a number; fewer are zero.
pub fn word(bytes: &[u8]) -> u32 {
    bytes.get(..4).map_or(0, |four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
}

/// Write a head.
pub fn head(buffer: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let [_, high, middle, low] = (length as u32).to_be_bytes();
    let [a, b, c, d] = stream.to_be_bytes();
    buffer.extend_from_slice(&[high, middle, low, kind, flags, a, b, c, d]);
}

/// Write a frame whose payload is one number: WINDOW_UPDATE or RST_STREAM.
pub fn number(buffer: &mut Vec<u8>, kind: u8, stream: u32, number: u32) {
    head(buffer, 4, kind, 0, stream);
    buffer.extend_from_slice(&number.to_be_bytes());
}

/// Write SETTINGS.
pub fn settings(buffer: &mut Vec<u8>, settings: &[(u16, u32)]) {
    head(buffer, settings.len() * 6, SETTINGS, 0, 0);
    for (name, value) in settings {
        buffer.extend_from_slice(&name.to_be_bytes());
        buffer.extend_from_slice(&value.to_be_bytes());
    }
}

/// Write GOAWAY.
pub fn goaway(buffer: &mut Vec<u8>, last: u32, code: Code, message: &str) {
    head(buffer, 8 + message.len(), GOAWAY, 0, 0);
    buffer.extend_from_slice(&last.to_be_bytes());
    buffer.extend_from_slice(&(code as u32).to_be_bytes());
    buffer.extend_from_slice(message.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_is_written_is_read_again() {
        for (length, kind, flags, stream) in [(0, 0, 0, 0), (16_384, 1, 5, 1), (0xff_ffff, 255, 255, MOST)] {
            let mut buffer = Vec::new();
            head(&mut buffer, length, kind, flags, stream);
            assert_eq!(Frame::parse(&buffer), Some(Frame { length, kind, flags, stream }));
            assert_eq!(Frame::parse(&buffer[..8]), None);
        }
    }

    #[test]
    fn padding_is_taken_off() {
        let frame = Frame { length: 0, kind: DATA, flags: PADDED, stream: 1 };
        assert_eq!(frame.unpadded(&[2, b'a', 0, 0]), Some(&b"a"[..]));
        assert_eq!(frame.unpadded(&[0]), Some(&b""[..]));
        assert_eq!(frame.unpadded(&[2, 0]), None);
        assert_eq!(frame.unpadded(&[]), None);
    }

    #[test]
    fn the_reserved_bit_is_ignored() {
        assert_eq!(Frame::parse(&[0, 0, 0, 0, 0, 0x80, 0, 0, 1]).unwrap().stream, 1);
    }
}
