//! Requests of a connection over HTTP/2: header blocks, data, and what the house is given of them.

use super::connection::{Block, Failure, Going, Http2, STREAM_WINDOW, WINDOW};
use super::frame::{self, Code, Frame, END_HEADERS, END_STREAM, PRIORITISED};
use super::request::{request, Request};
use super::stream::{Stream, Taking};
use crate::front::outbox::{Said, Ticket};
use crate::front::protocol::Desk;
use crate::grpc::{Messages, Status};
use crate::service::{Head, Response, Wire};

/// The first allocation for a body; more only follows bytes that have come.
const FIRST: usize = 64 * 1024;
/// Frames of one header block.
const BLOCK_FRAMES: usize = 32;

impl Http2 {
    pub(super) fn headers(&mut self, desk: &mut Desk<'_>, frame: Frame, payload: &[u8]) -> Result<(), Failure> {
        let mut bytes = frame.unpadded(payload).ok_or((Code::Protocol, "more padding than frame"))?;
        if frame.has(PRIORITISED) {
            bytes = bytes.get(5..).ok_or((Code::FrameSize, "HEADERS without its priority"))?;
        }
        if frame.stream % 2 == 0 {
            return Err((Code::Protocol, "a client's streams are odd"));
        }
        if frame.has(END_HEADERS) {
            return self.list(desk, frame.stream, frame.has(END_STREAM), bytes);
        }
        let (stream, ends) = (frame.stream, frame.has(END_STREAM));
        self.block = Some(Block { stream, ends, bytes: bytes.to_vec(), frames: 1, since: desk.now });
        Ok(())
    }

    pub(super) fn continuation(&mut self, desk: &mut Desk<'_>, frame: Frame, payload: &[u8]) -> Result<(), Failure> {
        let mut block = self.block.take().ok_or((Code::Protocol, "CONTINUATION of nothing"))?;
        block.frames += 1;
        if block.frames > BLOCK_FRAMES || block.bytes.len() + payload.len() > desk.limits.head_bytes {
            return Err((Code::Calm, "a header block is too large"));
        }
        block.bytes.extend_from_slice(payload);
        if frame.has(END_HEADERS) {
            return self.list(desk, block.stream, block.ends, &block.bytes);
        }
        self.block = Some(block);
        Ok(())
    }

    /// Take a whole header block: a request's, or its trailers.
    fn list(&mut self, desk: &mut Desk<'_>, id: u32, ends: bool, block: &[u8]) -> Result<(), Failure> {
        let list = self.decoder.decode(block, desk.limits.head_bytes, desk.limits.headers);
        let list = list.map_err(|_| (Code::Compression, "a header block cannot be decoded"))?;
        if id <= self.last {
            return self.trailers(desk, id, ends, &list.headers);
        }
        if matches!(self.going, Going::Last(last) if id > last) {
            // The client was told that it is not served, and asks elsewhere.
            return self.spare(desk);
        }
        self.last = id;
        if self.streams.len() >= desk.limits.streams as usize {
            desk.out.gather(|buffer| frame::number(buffer, frame::RESET, id, Code::Refused as u32));
            return self.spare(desk);
        }
        let mut stream = Stream::new(Wire::Http, i64::from(STREAM_WINDOW), self.first_room, desk.now);
        stream.ended = ends;
        if list.over {
            let form = list.headers.iter().find(|(name, _)| name == "content-type");
            let grpc = form.map_or(false, |(_, value)| value.starts_with("application/grpc"));
            stream.wire = if grpc { Wire::Grpc } else { Wire::Http };
            self.streams.insert(id, stream);
            self.refuse(desk, id, 431, (8, "the request's head is too large"));
            return Ok(());
        }
        match request(list.headers, desk.peer, desk.now) {
            Ok(found) => self.open(desk, id, stream, found),
            Err(_) => {
                self.reset(desk, id, Code::Protocol);
                return self.spare(desk);
            }
        }
        Ok(())
    }

    fn trailers(&mut self, desk: &mut Desk<'_>, id: u32, ends: bool, list: &[(String, String)]) -> Result<(), Failure> {
        let stream = match self.streams.get(&id) {
            Some(stream) => stream,
            None => return self.spare(desk),
        };
        if stream.ended {
            self.reset(desk, id, Code::StreamClosed);
        } else if !ends || list.iter().any(|(name, _)| name.starts_with(':')) {
            self.reset(desk, id, Code::Protocol);
        } else {
            self.ended(desk, id);
        }
        Ok(())
    }

    /// Ask the house about a request, and get ready for its body.
    fn open(&mut self, desk: &mut Desk<'_>, id: u32, mut stream: Stream, found: Request) {
        let Request { head, length, foreign } = found;
        stream.wire = head.wire;
        stream.length = length;
        stream.bodiless = head.method == "HEAD";
        let ended = stream.ended;
        let admitted = desk.service.admit(&head);
        let left = std::sync::Arc::clone(&stream.left);
        self.streams.insert(id, stream);
        let most = match admitted {
            _ if foreign => return self.refuse(desk, id, 415, (3, "expected POST with content-type application/grpc")),
            Ok(most) => most,
            Err(response) => return self.respond(desk, id, Said::Response(response)),
        };
        if length.map_or(false, |length| length > (most as u64).saturating_add(5)) {
            return self.refuse(desk, id, 413, (8, "the request's body is larger than is allowed"));
        }
        let taking = if head.wire == Wire::Http {
            Taking::Body { head, body: Vec::new(), most }
        } else {
            let messages = Messages::new(most, head.header("grpc-encoding"));
            if desk.service.streams(&head.path) {
                let ticket = Ticket::new(desk.outbox, desk.token, u64::from(id), &left);
                let inbound = desk.service.open(head, Box::new(ticket));
                Taking::Stream { inbound, messages }
            } else {
                Taking::Message { head, messages, message: None }
            }
        };
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.taking = taking;
        }
        if ended {
            self.ended(desk, id);
        }
    }

    pub(super) fn data(&mut self, desk: &mut Desk<'_>, frame: Frame, payload: &[u8]) -> Result<(), Failure> {
        self.known(frame.stream)?;
        let bytes = frame.unpadded(payload).ok_or((Code::Protocol, "more padding than frame"))?;
        let (id, size, last) = (frame.stream, payload.len() as u32, frame.has(END_STREAM));
        self.count(desk, size)?;
        if !bytes.is_empty() {
            self.idle_frames.give(2.0);
        } else if !last {
            self.spare(desk)?;
        }
        let stream = match self.streams.get_mut(&id) {
            Some(stream) => stream,
            None => return self.spare(desk),
        };
        match stream.receive(size, bytes) {
            Err(Trouble::Reset(code)) => self.reset(desk, id, code),
            Err(Trouble::Refuse(status, refusal)) => self.refuse(desk, id, status, refusal),
            Ok(()) if last => self.ended(desk, id),
            Ok(()) if stream.taken >= STREAM_WINDOW / 2 => {
                let taken = std::mem::take(&mut stream.taken);
                stream.window += i64::from(taken);
                desk.out.gather(|buffer| frame::number(buffer, frame::WINDOW, id, taken));
            }
            Ok(()) => {}
        }
        Ok(())
    }

    /// Count data against the connection's window: it is never kept waiting, so the window is opened again.
    fn count(&mut self, desk: &mut Desk<'_>, size: u32) -> Result<(), Failure> {
        self.window -= i64::from(size);
        if self.window < 0 {
            return Err((Code::FlowControl, "more data than the connection's window"));
        }
        self.taken += size;
        if self.taken >= WINDOW / 2 {
            let taken = std::mem::take(&mut self.taken);
            self.window += i64::from(taken);
            desk.out.gather(|buffer| frame::number(buffer, frame::WINDOW, 0, taken));
        }
        Ok(())
    }

    /// The client has ended its side of a stream.
    fn ended(&mut self, desk: &mut Desk<'_>, id: u32) {
        let stream = match self.streams.get_mut(&id) {
            Some(stream) => stream,
            None => return,
        };
        stream.ended = true;
        if !matches!(stream.length, None | Some(0)) && !matches!(stream.taking, Taking::Nothing) {
            return self.reset(desk, id, Code::Protocol);
        }
        let left = &stream.left;
        match std::mem::replace(&mut stream.taking, Taking::Nothing) {
            Taking::Body { head, body, .. } => call(desk, id, left, head, body),
            Taking::Message { messages, .. } if !messages.between() => {
                self.refuse(desk, id, 400, (13, "the message has not come whole"));
            }
            Taking::Message { head, message: Some(message), .. } => call(desk, id, left, head, message),
            Taking::Message { .. } => self.refuse(desk, id, 400, (13, "exactly one message is expected")),
            Taking::Stream { inbound, messages } => inbound.end(messages.between()),
            Taking::Nothing => {}
        }
    }

    /// Refuse a request for what it is.
    pub(super) fn refuse(&mut self, desk: &mut Desk<'_>, id: u32, status: u16, (code, message): Status) {
        let wire = match self.streams.get_mut(&id) {
            Some(stream) => {
                if let Taking::Stream { inbound, .. } = std::mem::replace(&mut stream.taking, Taking::Nothing) {
                    inbound.end(false);
                }
                stream.wire
            }
            None => return,
        };
        let response = match wire {
            Wire::Grpc => Response::Grpc { code, message: message.to_string(), body: None },
            Wire::Http => {
                let headers = vec![("content-type".to_string(), "application/json".to_string())];
                Response::Http { status, headers, body: format!("{{\"error\":\"{message}\"}}").into_bytes() }
            }
        };
        self.respond(desk, id, Said::Response(response));
    }
}

fn call(desk: &Desk<'_>, id: u32, left: &std::sync::Arc<std::sync::atomic::AtomicBool>, head: Head, body: Vec<u8>) {
    let ticket = Ticket::new(desk.outbox, desk.token, u64::from(id), left);
    desk.service.call(head, body, Box::new(ticket));
}

/// Why data cannot be taken.
enum Trouble {
    /// It breaks the protocol.
    Reset(Code),
    /// The request is refused: with a status over HTTP, and one over gRPC.
    Refuse(u16, Status),
}

impl Stream {
    /// Take the data of a frame; `size` counts its padding too.
    fn receive(&mut self, size: u32, bytes: &[u8]) -> Result<(), Trouble> {
        if self.ended {
            return Err(Trouble::Reset(Code::StreamClosed));
        }
        self.window -= i64::from(size);
        if self.window < 0 {
            return Err(Trouble::Reset(Code::FlowControl));
        }
        self.taken += size;
        if let Some(length) = self.length {
            let rest = length.checked_sub(bytes.len() as u64);
            self.length = Some(rest.ok_or(Trouble::Reset(Code::Protocol))?);
        }
        self.take(bytes).map_err(|(status, refusal)| Trouble::Refuse(status, refusal))
    }

    /// Take bytes of the request.
    fn take(&mut self, mut bytes: &[u8]) -> Result<(), (u16, Status)> {
        match &mut self.taking {
            Taking::Body { body, most, .. } => {
                if bytes.len() > *most - body.len() {
                    return Err((413, (8, "the request's body is larger than is allowed")));
                }
                if body.capacity() - body.len() < bytes.len() {
                    // What was said of the length no longer counts these bytes.
                    let coming = self.length.map_or(*most - body.len(), |rest| rest as usize + bytes.len());
                    body.reserve_exact(coming.min(body.len().max(FIRST)).max(bytes.len()));
                }
                body.extend_from_slice(bytes);
            }
            Taking::Message { messages, message, .. } => {
                while !bytes.is_empty() {
                    if message.is_some() {
                        return Err((400, (13, "exactly one message is expected")));
                    }
                    *message = messages.next(&mut bytes).map_err(|status| (400, status))?;
                }
            }
            Taking::Stream { inbound, messages } => {
                while !bytes.is_empty() {
                    if let Some(message) = messages.next(&mut bytes).map_err(|status| (400, status))? {
                        inbound.message(message);
                    }
                }
            }
            Taking::Nothing => {}
        }
        Ok(())
    }
}
