//! One connection over HTTP/2: its frames, its settings, its end. Requests are in `inbound`, answers in `outbound`.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use super::bounds::Bucket;
use super::frame::{self, Code, Frame, ACK, FRAME_BYTES, HEAD_BYTES, MOST, PREFACE};
use super::hpack::Decoder;
use super::stream::Stream;
use crate::front::outbox::Said;
use crate::front::outgoing::Outgoing;
use crate::front::protocol::{Desk, Flow, Protocol};

/// What a client may send a stream, and a connection, before it is told more.
pub(super) const STREAM_WINDOW: u32 = 1 << 20;
pub(super) const WINDOW: u32 = 8 << 20;
/// The window that both sides begin with.
pub(super) const FIRST_WINDOW: u32 = 65_535;
/// Frames as large as the client takes, but no larger.
const LARGEST_FRAME: usize = 64 * 1024;
/// Answers to PING and SETTINGS that may wait for a client that does not read.
const UNREAD: usize = 256 * 1024;
/// Said on the wrong port.
const HTTP1: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 53\r\nconnection: close\r\n\r\n\
This port speaks gRPC: HTTP/2 with prior knowledge.\r\n";

/// Why a connection ends: the code, and what is said with it.
pub(super) type Failure = (Code, &'static str);

/// A header block that has not come whole.
pub(super) struct Block {
    pub stream: u32,
    pub ends: bool,
    pub bytes: Vec<u8>,
    pub frames: usize,
    pub since: Instant,
}

/// How far the connection's end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Going {
    No,
    /// The client was told to send no more, but what is on its way is served.
    Told,
    /// Nothing above this stream is served.
    Last(u32),
}

/// The connection.
pub(crate) struct Http2 {
    /// Bytes of the preface that have come.
    preface: usize,
    /// Whether the client's first SETTINGS have come.
    settled: bool,
    pub(super) decoder: Decoder,
    pub(super) block: Option<Block>,
    pub(super) streams: BTreeMap<u32, Stream>,
    /// The client's highest stream.
    pub(super) last: u32,
    /// Bytes that the client may still send, and those that it is not yet told that it may send again.
    pub(super) window: i64,
    pub(super) taken: u32,
    /// Bytes that we may still send; and a new stream's.
    pub(super) room: i64,
    pub(super) first_room: i64,
    /// The most bytes of a frame that the client takes.
    pub(super) frame: usize,
    /// Bytes of answers that wait in all streams.
    pub(super) waiting: usize,
    /// Streams that have something to send.
    pub(super) queue: VecDeque<u32>,
    pub(super) going: Going,
    /// Frames that bring nothing, and streams that are reset: each has its price, which work that is done pays back. So
    /// a client that pings with every message (to measure its bandwidth) is no flood, and one that only pings is.
    pub(super) idle_frames: Bucket,
    pub(super) resets: Bucket,
    since: Instant,
    pub(super) flow: Flow,
}

impl Http2 {
    pub fn new(now: Instant) -> Http2 {
        Http2 {
            preface: 0,
            settled: false,
            decoder: Decoder::new(),
            block: None,
            streams: BTreeMap::new(),
            last: 0,
            window: i64::from(WINDOW),
            taken: 0,
            room: i64::from(FIRST_WINDOW),
            first_room: i64::from(FIRST_WINDOW),
            frame: FRAME_BYTES,
            waiting: 0,
            queue: VecDeque::new(),
            going: Going::No,
            idle_frames: Bucket::new(10_000.0, 2_000.0, now),
            resets: Bucket::new(1_000.0, 100.0, now),
            since: now,
            flow: Flow::Read,
        }
    }

    /// Say what the client may do. It is said when the client begins to speak HTTP/2, and not before: one that speaks
    /// HTTP/1 could not read the answer behind it.
    fn greet(&mut self, desk: &mut Desk<'_>) {
        let list = u32::try_from(desk.limits.head_bytes).unwrap_or(MOST);
        // MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_HEADER_LIST_SIZE
        let settings = [(3, desk.limits.streams), (4, STREAM_WINDOW), (6, list)];
        desk.out.gather(|buffer| {
            frame::settings(buffer, &settings);
            frame::number(buffer, frame::WINDOW, 0, WINDOW - FIRST_WINDOW);
        });
    }

    /// There are too many connections: say so, and end.
    pub fn turn_away(&mut self, desk: &mut Desk<'_>) {
        self.greet(desk);
        self.fail(desk, (Code::Calm, "too many connections"));
    }

    /// End the connection for an error.
    pub(super) fn fail(&mut self, desk: &mut Desk<'_>, (code, message): Failure) {
        let last = self.last;
        desk.out.gather(|buffer| frame::goaway(buffer, last, code, message));
        self.left();
        self.flow = Flow::Finish;
    }

    /// End one stream for an error.
    pub(super) fn reset(&mut self, desk: &mut Desk<'_>, stream: u32, code: Code) {
        desk.out.gather(|buffer| frame::number(buffer, frame::RESET, stream, code as u32));
        if let Some(mut stream) = self.remove(stream) {
            stream.leave();
        }
        self.over(desk);
    }

    pub(super) fn remove(&mut self, stream: u32) -> Option<Stream> {
        let stream = self.streams.remove(&stream)?;
        self.waiting -= stream.waiting.bytes();
        Some(stream)
    }

    /// A stream has ended: perhaps it was the last.
    pub(super) fn over(&mut self, desk: &Desk<'_>) {
        if self.streams.is_empty() {
            self.since = desk.now;
            if matches!(self.going, Going::Last(_)) {
                self.flow = Flow::Finish;
            }
        }
    }

    /// Take the preface, or what has come of it; `None` where it is none.
    fn greeted(&mut self, desk: &mut Desk<'_>, bytes: &[u8]) -> Option<usize> {
        let expected = &PREFACE[self.preface..];
        let count = expected.len().min(bytes.len());
        if expected[..count] != bytes[..count] {
            return None;
        }
        if self.preface == 0 && count > 0 {
            self.greet(desk);
        }
        self.preface += count;
        Some(count)
    }

    /// Take one frame, if it has come whole.
    fn step(&mut self, desk: &mut Desk<'_>, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        let frame = match Frame::parse(bytes) {
            Some(frame) => frame,
            None => return Ok(None),
        };
        if frame.length > FRAME_BYTES {
            return Err((Code::FrameSize, "a frame is larger than was allowed"));
        }
        let payload = match bytes.get(HEAD_BYTES..HEAD_BYTES + frame.length) {
            Some(payload) => payload,
            None => return Ok(None),
        };
        let block = self.block.as_ref().map(|block| block.stream);
        if block.is_some() != (frame.kind == frame::CONTINUATION)
            || block.map_or(false, |stream| stream != frame.stream)
        {
            return Err((Code::Protocol, "a header block was interrupted, or continued where there is none"));
        }
        if !self.settled && (frame.kind != frame::SETTINGS || frame.has(ACK)) {
            return Err((Code::Protocol, "the first frame has to be SETTINGS"));
        }
        self.take(desk, frame, payload)?;
        Ok(Some(HEAD_BYTES + frame.length))
    }

    fn take(&mut self, desk: &mut Desk<'_>, frame: Frame, payload: &[u8]) -> Result<(), Failure> {
        let connection = matches!(frame.kind, frame::SETTINGS | frame::PING | frame::GOAWAY);
        let either = frame.kind == frame::WINDOW || frame.kind > frame::CONTINUATION;
        if !either && connection != (frame.stream == 0) {
            return Err((Code::Protocol, "a frame is on the wrong stream"));
        }
        let sizes = match frame.kind {
            frame::PRIORITY => payload.len() == 5,
            frame::RESET | frame::WINDOW => payload.len() == 4,
            frame::PING => payload.len() == 8,
            frame::SETTINGS => payload.len() % 6 == 0 && (payload.is_empty() || !frame.has(ACK)),
            frame::GOAWAY => payload.len() >= 8,
            _ => true,
        };
        if !sizes {
            return Err((Code::FrameSize, "a frame has the wrong size"));
        }
        match frame.kind {
            frame::DATA => self.data(desk, frame, payload),
            frame::HEADERS => self.headers(desk, frame, payload),
            frame::CONTINUATION => self.continuation(desk, frame, payload),
            frame::WINDOW => self.widened(desk, frame, frame::word(payload)),
            frame::RESET => self.was_reset(desk, frame),
            frame::PUSH => Err((Code::Protocol, "a client does not push")),
            frame::SETTINGS => self.settings(desk, frame, payload),
            frame::PING => {
                self.spare(desk)?;
                if !frame.has(ACK) {
                    desk.out.gather(|buffer| {
                        frame::head(buffer, 8, frame::PING, ACK, 0);
                        buffer.extend_from_slice(payload);
                    });
                }
                Ok(())
            }
            // The client opens no more streams; those that it has are served, and then it closes.
            frame::GOAWAY => Ok(()),
            _ => self.spare(desk),
        }
    }

    /// Count a frame that brings nothing.
    pub(super) fn spare(&mut self, desk: &Desk<'_>) -> Result<(), Failure> {
        if !self.idle_frames.take(desk.now) || desk.out.waiting() > UNREAD.max(desk.limits.send_bytes) {
            return Err((Code::Calm, "too many frames that bring nothing"));
        }
        Ok(())
    }

    fn settings(&mut self, desk: &mut Desk<'_>, frame: Frame, payload: &[u8]) -> Result<(), Failure> {
        self.spare(desk)?;
        self.settled = true;
        if frame.has(ACK) {
            return Ok(());
        }
        for setting in payload.chunks_exact(6) {
            let value = frame::word(&setting[2..]);
            match u16::from_be_bytes([setting[0], setting[1]]) {
                2 if value > 1 => return Err((Code::Protocol, "ENABLE_PUSH is neither 0 nor 1")),
                4 if value > MOST => return Err((Code::FlowControl, "INITIAL_WINDOW_SIZE is too large")),
                4 => self.resize(i64::from(value))?,
                5 if !(FRAME_BYTES as u32..=0xff_ffff).contains(&value) => {
                    return Err((Code::Protocol, "MAX_FRAME_SIZE is out of its range"));
                }
                5 => self.frame = (value as usize).min(LARGEST_FRAME),
                _ => {}
            }
        }
        desk.out.gather(|buffer| frame::head(buffer, 0, frame::SETTINGS, ACK, 0));
        self.requeue();
        self.send(desk);
        Ok(())
    }

    /// A new INITIAL_WINDOW_SIZE changes every stream's window by the difference.
    fn resize(&mut self, first: i64) -> Result<(), Failure> {
        let change = first - self.first_room;
        self.first_room = first;
        for stream in self.streams.values_mut() {
            stream.room += change;
            if stream.room > i64::from(MOST) {
                return Err((Code::FlowControl, "a stream's window is too large"));
            }
        }
        Ok(())
    }

    fn widened(&mut self, desk: &mut Desk<'_>, frame: Frame, more: u32) -> Result<(), Failure> {
        let more = i64::from(more & MOST);
        if frame.stream == 0 {
            self.room += more;
            if more == 0 {
                return Err((Code::Protocol, "WINDOW_UPDATE by nothing"));
            }
            if self.room > i64::from(MOST) {
                return Err((Code::FlowControl, "the connection's window is too large"));
            }
            self.send(desk);
            return Ok(());
        }
        self.known(frame.stream)?;
        let (room, waits) = match self.streams.get_mut(&frame.stream) {
            Some(stream) => {
                stream.room += more;
                (stream.room, stream.waiting.bytes() > 0)
            }
            None => return self.spare(desk),
        };
        if more == 0 {
            self.reset(desk, frame.stream, Code::Protocol);
        } else if room > i64::from(MOST) {
            self.reset(desk, frame.stream, Code::FlowControl);
        } else if waits {
            self.enqueue(frame.stream);
            self.send(desk);
        } else {
            return self.spare(desk);
        }
        Ok(())
    }

    /// A frame on a stream that was never opened is an error of the connection. Behind the last stream of GOAWAY the
    /// client may have opened some that were not looked at.
    pub(super) fn known(&self, stream: u32) -> Result<(), Failure> {
        let unseen = stream > self.last && !matches!(self.going, Going::Last(_));
        if unseen || stream % 2 == 0 {
            return Err((Code::Protocol, "a frame is on a stream that was never opened"));
        }
        Ok(())
    }

    fn was_reset(&mut self, desk: &mut Desk<'_>, frame: Frame) -> Result<(), Failure> {
        self.known(frame.stream)?;
        if !self.resets.take(desk.now) {
            return Err((Code::Calm, "too many streams are reset"));
        }
        if let Some(mut stream) = self.remove(frame.stream) {
            stream.leave();
        }
        self.over(desk);
        Ok(())
    }

    /// What ran out of time.
    fn late(&mut self, desk: &mut Desk<'_>) {
        let limits = desk.limits;
        let (mut bodies, mut stalled) = (Vec::new(), Vec::new());
        for (id, stream) in &self.streams {
            let streams = matches!(stream.taking, super::stream::Taking::Stream { .. });
            if !stream.ended && !streams && !stream.answered() && desk.past(stream.since, limits.body_seconds) {
                bodies.push(*id);
            } else if stream.waiting.bytes() > 0 && desk.past(stream.moved, limits.send_seconds) {
                stalled.push(*id);
            }
        }
        for id in bodies {
            self.refuse(desk, id, 408, (4, "the request's body did not come in time"));
        }
        for id in stalled {
            self.reset(desk, id, Code::Cancel);
        }
    }
}

impl Protocol for Http2 {
    fn receive(&mut self, desk: &mut Desk<'_>, bytes: &[u8]) -> usize {
        let mut used = 0;
        if self.preface < PREFACE.len() {
            match self.greeted(desk, bytes) {
                Some(count) => used = count,
                None => {
                    if bytes.first().map_or(false, u8::is_ascii_uppercase) && self.preface == 0 {
                        desk.out.put(HTTP1);
                    }
                    self.flow = Flow::Finish;
                    return bytes.len();
                }
            }
            if self.preface < PREFACE.len() {
                return used;
            }
        }
        while self.flow == Flow::Read && used < bytes.len() {
            match self.step(desk, &bytes[used..]) {
                Ok(Some(count)) => used += count,
                Ok(None) => break,
                Err(failure) => self.fail(desk, failure),
            }
        }
        used
    }

    fn answer(&mut self, desk: &mut Desk<'_>, request: u64, said: Said) {
        if self.flow != Flow::Finish {
            self.respond(desk, request as u32, said);
        }
    }

    fn pump(&mut self, desk: &mut Desk<'_>) {
        if !self.queue.is_empty() && self.flow == Flow::Read {
            self.send(desk);
        }
    }

    fn tick(&mut self, desk: &mut Desk<'_>) {
        let limits = desk.limits;
        if self.flow != Flow::Read {
            return;
        }
        let head = self.block.as_ref().map_or(!self.settled && desk.past(self.since, limits.head_seconds), |block| {
            desk.past(block.since, limits.head_seconds)
        });
        if head {
            return self.fail(desk, (Code::None, "a head did not come in time"));
        }
        self.late(desk);
        if self.streams.is_empty() && desk.past(self.since, limits.idle_seconds) {
            self.fail(desk, (Code::None, "nothing was asked for some time"));
        }
    }

    fn drain(&mut self, desk: &mut Desk<'_>, over: bool) {
        if self.preface == 0 {
            // Nothing was said yet, so nothing is lost.
            if over {
                self.flow = Flow::Finish;
            }
            return;
        }
        let next = if over { Going::Last(self.last) } else { Going::Told };
        if self.flow != Flow::Read || self.going == next || matches!(self.going, Going::Last(_)) {
            return;
        }
        self.going = next;
        let last = if over { self.last } else { MOST };
        desk.out.gather(|buffer| frame::goaway(buffer, last, Code::None, "the server is shutting down"));
        self.over(desk);
    }

    fn left(&mut self) {
        for stream in self.streams.values_mut() {
            stream.leave();
        }
        self.streams.clear();
        self.waiting = 0;
        self.queue.clear();
        self.block = None;
        if self.flow == Flow::Read {
            self.flow = Flow::Finish;
        }
    }

    fn beyond(&self, out: &Outgoing, most: usize) -> bool {
        let sum = self.waiting + out.waiting();
        sum > most && sum - self.streams.values().map(|stream| stream.waiting.bytes()).max().unwrap_or(0) > most
    }

    fn unanswered(&self) -> bool {
        !self.streams.is_empty()
    }

    fn flow(&self) -> Flow {
        self.flow
    }
}
