//! gRPC as a client speaks it: one unary call after the other on a connection.

use vitrify_plane::http2::frame::{self, Frame, ACK, END_HEADERS, END_STREAM, FRAME_BYTES, HEAD_BYTES, MOST};
use vitrify_plane::http2::hpack::Decoder;

use crate::{Outcome, Request};

/// Data that is taken before the server is told that it may send more.
const TAKEN: u32 = 1 << 30;

/// One connection's state.
pub struct Session {
    /// The header block, and the message with its prefix.
    block: Vec<u8>,
    message: Vec<u8>,
    decoder: Decoder,
    /// Bytes of a frame that has not come whole.
    rest: Vec<u8>,
    /// Of a header block that is continued, and whether the stream ends with it.
    block_so_far: Vec<u8>,
    last: bool,
    stream: u32,
    /// Bytes of the message that were sent.
    sent: usize,
    /// What may be sent: on the connection, on this stream, on the next.
    room: i64,
    stream_room: i64,
    first_room: i64,
    taken: u32,
    http: u16,
    status: Option<u16>,
    going: bool,
}

fn literal(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    for text in [name, value] {
        // A length of seven bits and more (RFC 7541, 5.1).
        if text.len() < 127 {
            block.push(text.len() as u8);
        } else {
            block.push(127);
            let mut rest = text.len() - 127;
            while rest >= 128 {
                block.push(rest as u8 | 128);
                rest >>= 7;
            }
            block.push(rest as u8);
        }
        block.extend_from_slice(text.as_bytes());
    }
}

impl Session {
    pub fn new(request: &Request) -> Session {
        // :method POST and :scheme http are entries of the static table.
        let mut block = vec![0x83, 0x86];
        literal(&mut block, ":path", &request.path);
        literal(&mut block, ":authority", &request.host);
        literal(&mut block, "content-type", "application/grpc");
        literal(&mut block, "te", "trailers");
        request.headers.iter().for_each(|(name, value)| literal(&mut block, name, value));
        let mut message = vec![0];
        message.extend_from_slice(&(request.body.len() as u32).to_be_bytes());
        message.extend_from_slice(&request.body);
        Session {
            block,
            message,
            decoder: Decoder::new(),
            rest: Vec::new(),
            block_so_far: Vec::new(),
            last: false,
            stream: 0,
            sent: 0,
            room: 65_535,
            stream_room: 0,
            first_room: 65_535,
            taken: 0,
            http: 0,
            status: None,
            going: false,
        }
    }

    /// Send what the windows let through of the message.
    fn data(&mut self, out: &mut Vec<u8>) {
        while self.sent < self.message.len() {
            let rest = self.message.len() - self.sent;
            let count = rest.min(FRAME_BYTES).min(self.room.min(self.stream_room).max(0) as usize);
            if count == 0 {
                return;
            }
            let last = if count == rest { END_STREAM } else { 0 };
            frame::head(out, count, frame::DATA, last, self.stream);
            out.extend_from_slice(&self.message[self.sent..self.sent + count]);
            self.sent += count;
            self.room -= count as i64;
            self.stream_room -= count as i64;
        }
    }

    /// Take a header block: the answer's head or its end. True where the call has ended with it.
    fn headers(&mut self, frame: Frame, payload: &[u8]) -> Result<bool, &'static str> {
        let mut bytes = payload;
        if frame.kind == frame::HEADERS {
            bytes = frame.unpadded(bytes).ok_or("bad padding")?;
            if frame.has(frame::PRIORITISED) {
                bytes = bytes.get(5..).ok_or("no priority")?;
            }
            self.last = frame.has(END_STREAM);
        }
        self.block_so_far.extend_from_slice(bytes);
        if !frame.has(END_HEADERS) {
            return Ok(false);
        }
        let block = std::mem::take(&mut self.block_so_far);
        let list = self.decoder.decode(&block, 1 << 20, 1000).map_err(|_| "a header block cannot be decoded")?;
        for (name, value) in list.headers {
            match &*name {
                ":status" => self.http = value.parse().unwrap_or(0),
                "grpc-status" => self.status = value.parse().ok(),
                _ => {}
            }
        }
        Ok(self.last && frame.stream == self.stream)
    }

    /// Take a frame. True where the call has ended with it.
    fn frame(&mut self, frame: Frame, payload: &[u8], out: &mut Vec<u8>) -> Result<bool, &'static str> {
        match frame.kind {
            frame::DATA => {
                self.taken += frame.length as u32;
                if self.taken > TAKEN {
                    frame::number(out, frame::WINDOW, 0, std::mem::take(&mut self.taken));
                }
                Ok(frame.has(END_STREAM) && frame.stream == self.stream)
            }
            frame::HEADERS | frame::CONTINUATION => self.headers(frame, payload),
            frame::RESET if frame.stream == self.stream && self.status.is_none() => Err("the stream was reset"),
            frame::SETTINGS if !frame.has(ACK) => {
                for setting in payload.chunks_exact(6).filter(|setting| setting[..2] == [0, 4]) {
                    let first = i64::from(frame::word(&setting[2..]));
                    self.stream_room += first - self.first_room;
                    self.first_room = first;
                }
                frame::head(out, 0, frame::SETTINGS, ACK, 0);
                self.data(out);
                Ok(false)
            }
            frame::PING if !frame.has(ACK) => {
                frame::head(out, 8, frame::PING, ACK, 0);
                out.extend_from_slice(payload);
                Ok(false)
            }
            frame::WINDOW => {
                let more = i64::from(frame::word(payload));
                if frame.stream == 0 {
                    self.room += more;
                } else if frame.stream == self.stream {
                    self.stream_room += more;
                }
                self.data(out);
                Ok(false)
            }
            frame::GOAWAY => {
                self.going = true;
                Ok(false)
            }
            _ => Ok(false),
        }
    }
}

impl crate::Session for Session {
    fn open(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(frame::PREFACE);
        frame::settings(out, &[(2, 0), (4, MOST)]);
        frame::number(out, frame::WINDOW, 0, MOST - 65_535);
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        self.stream = if self.stream == 0 { 1 } else { self.stream + 2 };
        self.sent = 0;
        self.stream_room = self.first_room;
        self.http = 0;
        self.status = None;
        frame::head(out, self.block.len(), frame::HEADERS, END_HEADERS, self.stream);
        out.extend_from_slice(&self.block);
        self.data(out);
    }

    fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Outcome {
        let mut held = std::mem::take(&mut self.rest);
        let whole = if held.is_empty() {
            bytes
        } else {
            held.extend_from_slice(bytes);
            &held
        };
        let (mut used, mut ended) = (0, false);
        while let Some(frame) = Frame::parse(&whole[used..]) {
            let payload = match whole.get(used + HEAD_BYTES..used + HEAD_BYTES + frame.length) {
                Some(payload) => payload,
                None => break,
            };
            used += HEAD_BYTES + frame.length;
            match self.frame(frame, payload, out) {
                Ok(last) => ended = ended || last,
                Err(reason) => return Outcome::Broken(reason),
            }
        }
        self.rest = whole[used..].to_vec();
        if !ended {
            return if self.going { Outcome::Broken("the server is going away") } else { Outcome::More };
        }
        let status = if self.http == 200 { self.status.unwrap_or(2) } else { self.http };
        let keep = !self.going && self.stream < MOST - 2;
        Outcome::Answer { success: self.http == 200 && self.status == Some(0), status, keep }
    }
}
