//! One request over HTTP/2 and its answer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Instant;

use crate::grpc::Messages;
use crate::service::{Head, Inbound, Wire};

/// What becomes of the bytes of a request.
pub(super) enum Taking {
    /// A body over HTTP, of at most so many bytes.
    Body { head: Head, body: Vec<u8>, most: usize },
    /// One message over gRPC.
    Message { head: Head, messages: Messages, message: Option<Vec<u8>> },
    /// Messages over gRPC, each for the house as it comes.
    Stream { inbound: Box<dyn Inbound>, messages: Messages },
    /// Nothing more: it has come whole, or was refused.
    Nothing,
}

/// How an answer ends.
#[derive(Debug)]
pub(super) enum Ending {
    /// It goes on.
    Open,
    /// Over HTTP: with the last byte.
    Data,
    /// Over gRPC: with a status.
    Status(u8, String),
}

/// The stream.
pub(super) struct Stream {
    pub wire: Wire,
    /// Whether the request was HEAD.
    pub bodiless: bool,
    pub taking: Taking,
    /// Whether the client has ended its side.
    pub ended: bool,
    /// Bytes of the request that are still to come, where it said so.
    pub length: Option<u64>,
    /// Bytes that the client may still send, and those that it is not yet told that it may send again.
    pub window: i64,
    pub taken: u32,
    /// Bytes that we may still send.
    pub room: i64,
    /// Whether the answer's head was written.
    pub begun: bool,
    pub waiting: Waiting,
    pub ending: Ending,
    /// Over gRPC: fields that are said with the status.
    pub trailers: Vec<(String, String)>,
    /// Whether it is in the connection's queue of streams that have something to send.
    pub queued: bool,
    pub left: Arc<AtomicBool>,
    /// Since when its request is read.
    pub since: Instant,
    /// Since when its answer waits without moving.
    pub moved: Instant,
}

impl Stream {
    pub fn new(wire: Wire, window: i64, room: i64, now: Instant) -> Stream {
        Stream {
            wire,
            bodiless: false,
            taking: Taking::Nothing,
            ended: false,
            length: None,
            window,
            taken: 0,
            room,
            begun: false,
            waiting: Waiting::default(),
            ending: Ending::Open,
            trailers: Vec::new(),
            queued: false,
            left: Arc::new(AtomicBool::new(false)),
            since: now,
            moved: now,
        }
    }

    /// Tell the house that the client waits for nothing more.
    pub fn leave(&mut self) {
        self.left.store(true, Ordering::Relaxed);
        if let Taking::Stream { inbound, .. } = std::mem::replace(&mut self.taking, Taking::Nothing) {
            inbound.end(false);
        }
    }

    /// Whether nothing more is to be said by the house.
    pub fn answered(&self) -> bool {
        !matches!(self.ending, Ending::Open)
    }
}

/// Bytes of an answer that wait for the client's window.
#[derive(Default)]
pub(super) struct Waiting {
    pieces: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that are gone.
    gone: usize,
    bytes: usize,
}

impl Waiting {
    pub fn push(&mut self, piece: Vec<u8>) {
        if !piece.is_empty() {
            self.bytes += piece.len();
            self.pieces.push_back(piece);
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Move so many bytes, which wait, into a buffer.
    pub fn fill(&mut self, buffer: &mut Vec<u8>, mut count: usize) {
        self.bytes -= count;
        while count > 0 {
            let piece = match self.pieces.front() {
                Some(piece) => &piece[self.gone..],
                None => return,
            };
            let taken = count.min(piece.len());
            buffer.extend_from_slice(&piece[..taken]);
            count -= taken;
            self.gone += taken;
            if taken == piece.len() {
                self.pieces.pop_front();
                self.gone = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_bytes_come_out_in_order() {
        let mut waiting = Waiting::default();
        for piece in [&b"abc"[..], b"", b"d", b"efghij"] {
            waiting.push(piece.to_vec());
        }
        let mut buffer = Vec::new();
        for (count, rest) in [(2, 8), (3, 5), (0, 5), (5, 0)] {
            waiting.fill(&mut buffer, count);
            assert_eq!(waiting.bytes(), rest);
        }
        assert_eq!(buffer, b"abcdefghij");
    }
}
