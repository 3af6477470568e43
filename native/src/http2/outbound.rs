//! Answers of a connection over HTTP/2: as far as the client's windows reach at once, the rest as they open.

use super::connection::Http2;
use super::frame::{self, Code, DATA, END_STREAM};
use super::stream::{Ending, Stream};
use super::write;
use crate::front::outbox::Said;
use crate::front::protocol::Desk;
use crate::grpc;
use crate::http1::answer::has_body;
use crate::service::{Response, Wire};

/// Bytes that may wait for the socket before streams wait instead, where they cost no copy.
const ROOM: usize = 512 * 1024;
/// A client that opens its window by less a time does not take its answer.
const MOVED: usize = 1024;

impl Http2 {
    /// Take an answer to a stream, or a piece of it.
    pub(super) fn respond(&mut self, desk: &mut Desk<'_>, id: u32, said: Said) {
        let most = self.frame;
        let stream = match self.streams.get_mut(&id) {
            Some(stream) if !stream.answered() => stream,
            _ => return,
        };
        if stream.waiting.bytes() == 0 {
            stream.moved = desk.now;
        }
        let before = stream.waiting.bytes();
        let goes_on = stream.say(desk, id, most, said);
        self.waiting += stream.waiting.bytes() - before;
        if !goes_on {
            return self.reset(desk, id, Code::Cancel);
        }
        self.enqueue(id);
        self.send(desk);
    }

    pub(super) fn enqueue(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(&id) {
            if !stream.queued {
                stream.queued = true;
                self.queue.push_back(id);
            }
        }
    }

    /// Every stream with something to send gets its turn again.
    pub(super) fn requeue(&mut self) {
        let waiting: Vec<u32> =
            self.streams.iter().filter(|(_, stream)| stream.waiting.bytes() > 0).map(|(id, _)| *id).collect();
        waiting.into_iter().for_each(|id| self.enqueue(id));
    }

    /// Send what the windows and the socket have room for: a frame a stream, in turn.
    pub(super) fn send(&mut self, desk: &mut Desk<'_>) {
        while desk.out.waiting() < ROOM {
            let id = match self.queue.pop_front() {
                Some(id) => id,
                None => return,
            };
            let stream = match self.streams.get_mut(&id) {
                Some(stream) => stream,
                None => continue,
            };
            stream.queued = false;
            let rest = stream.waiting.bytes();
            if rest > 0 {
                let open = self.room.min(stream.room).max(0) as usize;
                let count = rest.min(open).min(self.frame);
                if count == 0 {
                    // It comes again with its own window; with the connection's all come again.
                    if self.room <= 0 {
                        self.enqueue(id);
                        return;
                    }
                    continue;
                }
                self.room -= count as i64;
                self.waiting -= count;
                stream.data(desk, id, count);
                self.idle_frames.give(2.0);
            }
            if stream.waiting.bytes() > 0 {
                self.enqueue(id);
            } else {
                let most = self.frame;
                self.finish(desk, id, most);
            }
        }
    }

    /// Everything of an answer that there is so far has been sent: end it, if that was all.
    fn finish(&mut self, desk: &mut Desk<'_>, id: u32, most: usize) {
        let stream = match self.streams.get_mut(&id) {
            Some(stream) if stream.answered() => stream,
            _ => return,
        };
        if let Ending::Status(code, message) = &stream.ending {
            let only = !stream.begun;
            let end = (*code, &**message, &stream.trailers[..]);
            desk.out.gather(|buffer| write::trailers(buffer, id, only, most, end));
        }
        if !stream.ended {
            // The answer is whole, and the rest of the request is not wanted (RFC 9113, 8.1).
            desk.out.gather(|buffer| frame::number(buffer, frame::RESET, id, Code::None as u32));
        }
        self.idle_frames.give(4.0);
        self.resets.give(1.0);
        if let Some(mut stream) = self.remove(id) {
            if !stream.ended {
                stream.leave();
            }
        }
        self.over(desk);
    }
}

impl Stream {
    /// Write one frame of data; the last of an answer over HTTP ends the stream.
    fn data(&mut self, desk: &mut Desk<'_>, id: u32, count: usize) {
        let last = count == self.waiting.bytes() && matches!(self.ending, Ending::Data);
        self.room -= count as i64;
        if count >= MOVED || count == self.waiting.bytes() {
            self.moved = desk.now;
        }
        desk.out.gather(|buffer| {
            frame::head(buffer, count, DATA, if last { END_STREAM } else { 0 }, id);
            self.waiting.fill(buffer, count);
        });
    }

    /// Take what the house says. False where the answer cannot go on.
    fn say(&mut self, desk: &mut Desk<'_>, id: u32, most: usize, said: Said) -> bool {
        match (self.wire, said) {
            (Wire::Grpc, Said::Response(response)) => self.say_grpc(desk, id, response),
            (Wire::Grpc, Said::Abandoned) => self.ending = Ending::Status(13, "internal error".to_string()),
            (Wire::Http, Said::Response(response)) => return self.say_http(desk, id, most, response),
            (Wire::Http, Said::Abandoned) => {
                let body = b"{\"error\":\"internal error\"}".to_vec();
                let headers = vec![("content-type".to_string(), "application/json".to_string())];
                return self.say_http(desk, id, most, Response::Http { status: 500, headers, body });
            }
        }
        true
    }

    fn say_grpc(&mut self, desk: &mut Desk<'_>, id: u32, response: Response) {
        match response {
            Response::Grpc { code, message, body } => {
                if let Some(body) = body {
                    self.message(desk, id, body);
                }
                self.ending = Ending::Status(code, message);
            }
            Response::Begin { .. } => self.begin(desk, id),
            Response::Piece(body) => self.message(desk, id, body),
            Response::End { code, message } => self.ending = Ending::Status(code, message),
            Response::Trailers(fields) => self.trailers = fields,
            // The house answers a call as it refuses a request.
            Response::Http { status, headers, body } => {
                let message = String::from_utf8_lossy(&body).into_owned();
                self.trailers = headers;
                self.trailers.retain(|(name, _)| name == "x-request-id" || name == "retry-after");
                self.ending = Ending::Status(grpc::code(status), message);
            }
        }
    }

    fn begin(&mut self, desk: &mut Desk<'_>, id: u32) {
        if !self.begun {
            self.begun = true;
            desk.out.gather(|buffer| write::grpc(buffer, id));
        }
    }

    /// One message, in its frame.
    fn message(&mut self, desk: &mut Desk<'_>, id: u32, body: Vec<u8>) {
        self.begin(desk, id);
        let mut prefix = Vec::with_capacity(grpc::PREFIX);
        prefix.push(0);
        prefix.extend_from_slice(&(body.len() as u32).to_be_bytes());
        self.waiting.push(prefix);
        self.waiting.push(body);
    }

    fn say_http(&mut self, desk: &mut Desk<'_>, id: u32, most: usize, response: Response) -> bool {
        match response {
            Response::Http { status, headers, body } if !self.begun => {
                let length = if has_body(status) { Some(body.len()) } else { None };
                if !self.bodiless && has_body(status) {
                    self.waiting.push(body);
                }
                let last = self.waiting.bytes() == 0;
                self.begun = true;
                self.ending = Ending::Data;
                let answer = (status, &headers[..], length);
                desk.out.gather(|buffer| write::http(buffer, id, last, most, answer));
            }
            Response::Begin { status, headers } if !self.begun => {
                self.begun = true;
                self.bodiless = self.bodiless || !has_body(status);
                desk.out.gather(|buffer| write::http(buffer, id, false, most, (status, &headers[..], None)));
            }
            Response::Piece(piece) if self.begun => {
                if !self.bodiless {
                    self.waiting.push(piece);
                }
            }
            Response::End { code: 0, .. } if self.begun => {
                self.ending = Ending::Data;
                if self.waiting.bytes() == 0 {
                    desk.out.gather(|buffer| frame::head(buffer, 0, DATA, END_STREAM, id));
                }
            }
            _ if self.begun => return false,
            _ => {
                let headers = vec![("content-type".to_string(), "application/json".to_string())];
                let body = b"{\"error\":\"internal error\"}".to_vec();
                return self.say_http(desk, id, most, Response::Http { status: 500, headers, body });
            }
        }
        true
    }
}
