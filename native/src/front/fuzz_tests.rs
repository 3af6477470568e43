//! Both protocols fed with mutations of valid bytes: whatever comes, nothing panics, hangs, or grows without a bound.

use std::sync::Arc;
use std::time::Instant;

use super::outbox::{Outbox, Parcel};
use super::outgoing::Outgoing;
use super::protocol::{Desk, Flow, Protocol};
use crate::http1::connection::Http1;
use crate::http2::connection::Http2;
use crate::http2::frame;
use crate::service::{Head, Inbound, Limits, Reply, Response, Service, Wire};

struct Echo;

struct Pieces(Box<dyn Reply>);

impl Inbound for Pieces {
    fn message(&self, body: Vec<u8>) {
        self.0.send(Response::Piece(body));
    }

    fn end(&self, _orderly: bool) {
        self.0.send(Response::End { code: 0, message: String::new() });
    }
}

impl Service for Echo {
    fn admit(&self, head: &Head) -> Result<usize, Response> {
        if head.path.len() % 7 == 6 {
            return Err(Response::Http { status: 429, headers: Vec::new(), body: b"busy".to_vec() });
        }
        Ok(4096)
    }

    fn streams(&self, path: &str) -> bool {
        path.starts_with("/s.")
    }

    fn call(&self, head: Head, body: Vec<u8>, reply: Box<dyn Reply>) {
        assert!(body.len() <= 4096, "a body is larger than was admitted");
        match head.wire {
            Wire::Http => reply.send(Response::Http { status: 200, headers: head.headers, body }),
            Wire::Grpc => reply.send(Response::Grpc { code: 0, message: head.path, body: Some(body) }),
        };
    }

    fn open(&self, _head: Head, reply: Box<dyn Reply>) -> Box<dyn Inbound> {
        Box::new(Pieces(reply))
    }
}

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most.max(1)
    }

    /// Change, remove, repeat or insert some bytes; or leave them.
    fn mutate(&mut self, bytes: &[u8]) -> Vec<u8> {
        const WORTH: &[u8] = b"\r\n :;,\0\xff\x7f\x80/0123456789abcdefGETPOST\x01\x02\x04\x08";
        let mut bytes = bytes.to_vec();
        for _ in 0..self.below(5) {
            let at = self.below(bytes.len());
            let end = (at + 1 + self.below(12)).min(bytes.len());
            match self.below(6) {
                0 if !bytes.is_empty() => bytes[at] = WORTH[self.below(WORTH.len())],
                1 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                2 => drop(bytes.drain(at..end)),
                3 => {
                    let again = bytes[at..end].to_vec();
                    let _ = bytes.splice(at..at, again);
                }
                4 => bytes.insert(at, WORTH[self.below(WORTH.len())]),
                _ => bytes.truncate(if self.below(4) == 0 { at } else { bytes.len() }),
            }
        }
        bytes
    }
}

fn limits() -> Limits {
    Limits {
        connections: 1,
        head_bytes: 2048,
        headers: 32,
        head_seconds: 1.0,
        body_seconds: 1.0,
        idle_seconds: 1.0,
        send_seconds: 1.0,
        send_bytes: 1 << 20,
        streams: 8,
    }
}

/// Feed bytes in pieces, as a connection does.
fn feed(protocol: &mut dyn Protocol, bytes: &[u8], random: &mut Random) {
    let (service, limits): (Arc<dyn Service>, _) = (Arc::new(Echo), limits());
    let outbox = Arc::new(Outbox::new().unwrap());
    let (mut out, mut rest, now) = (Outgoing::default(), Vec::new(), Instant::now());
    let mut parcels: Vec<Parcel> = Vec::new();
    let mut sink = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let end = (at + 1 + random.below(bytes.len())).min(bytes.len());
        rest.extend_from_slice(&bytes[at..end]);
        at = end;
        let mut desk = Desk {
            service: &service,
            limits: &limits,
            outbox: &outbox,
            token: 0,
            peer: &[127, 0, 0, 1].into(),
            now,
            draining: false,
            out: &mut out,
        };
        let used = protocol.receive(&mut desk, &rest);
        assert!(used <= rest.len());
        rest.drain(..used);
        outbox.take(&mut parcels);
        for Parcel { request, said, .. } in parcels.drain(..) {
            protocol.answer(&mut desk, request, said);
        }
        if random.below(3) == 0 {
            protocol.pump(&mut desk);
            protocol.tick(&mut desk);
        }
        assert!(out.waiting() < 4 << 20);
        sink.clear();
        out.flush(&mut sink).unwrap();
        if protocol.flow() == Flow::Finish {
            break;
        }
        assert!(rest.len() <= 2048 + frame::FRAME_BYTES + bytes.len());
    }
    protocol.left();
}

fn http1() -> Vec<Vec<u8>> {
    [
        "GET /v2 HTTP/1.1\r\nhost: a\r\n\r\nGET /v2/models?x HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        "POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhelloPOST /b HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n",
        "POST /c HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nt: u\r\n\r\nHEAD / HTTP/1.0\r\n\r\n",
        "POST /d HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\nabc",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect()
}

fn block(path: &str) -> Vec<u8> {
    let mut block = vec![0x83, 0x86, 0x44, path.len() as u8];
    block.extend_from_slice(path.as_bytes());
    block.extend_from_slice(b"\x5f\x10application/grpc\x40\x02te\x08trailers");
    block
}

fn http2() -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for (path, padded) in [("/t.T/Echo", false), ("/s.S/Stream", false), ("/t.T/Long", true)] {
        let mut bytes = frame::PREFACE.to_vec();
        frame::settings(&mut bytes, &[(3, 100), (4, 1000), (5, 20_000)]);
        for stream in [1, 3] {
            let block = block(path);
            let (first, second) = block.split_at(7);
            frame::head(&mut bytes, first.len(), frame::HEADERS, 0, stream);
            bytes.extend_from_slice(first);
            frame::head(&mut bytes, second.len(), frame::CONTINUATION, frame::END_HEADERS, stream);
            bytes.extend_from_slice(second);
            let message = if padded { &b"\x03\0\0\0\0\x02hi\0\0\0"[..] } else { b"\0\0\0\0\x02hi" };
            let flags = frame::END_STREAM | if padded { frame::PADDED } else { 0 };
            frame::head(&mut bytes, message.len(), frame::DATA, flags, stream);
            bytes.extend_from_slice(message);
        }
        frame::number(&mut bytes, frame::WINDOW, 0, 70_000);
        frame::number(&mut bytes, frame::WINDOW, 1, 7);
        frame::number(&mut bytes, frame::RESET, 3, 8);
        frame::head(&mut bytes, 8, frame::PING, 0, 0);
        bytes.extend_from_slice(b"12345678");
        frame::head(&mut bytes, 5, frame::PRIORITY, 0, 5);
        bytes.extend_from_slice(b"\0\0\0\0\x01");
        found.push(bytes);
    }
    found
}

#[test]
fn mutated_requests_over_http1_do_no_harm() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let seeds = http1();
    for turn in 0..20_000 {
        let bytes = random.mutate(&seeds[turn % seeds.len()]);
        feed(&mut Http1::new(Instant::now()), &bytes, &mut random);
    }
}

#[test]
fn mutated_frames_do_no_harm() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let seeds = http2();
    for turn in 0..20_000 {
        // The preface stays whole, or nothing behind it would be looked at.
        let seed = &seeds[turn % seeds.len()];
        let (preface, rest) = seed.split_at(frame::PREFACE.len());
        let bytes = [preface, &random.mutate(rest)].concat();
        feed(&mut Http2::new(Instant::now()), &bytes, &mut random);
    }
}
