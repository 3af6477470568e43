//! Header blocks as we write them: the static table and literals that are never indexed, so that no state is kept.

use super::frame::{self, END_HEADERS, END_STREAM, HEADERS};
use crate::grpc;
use crate::http1::head::{field, token};

/// `content-type: application/grpc` (a literal whose name is entry 31).
const GRPC: &[u8] = b"\x0f\x10\x10application/grpc";
/// `grpc-status: `, its value follows.
const GRPC_STATUS: &[u8] = b"\x00\x0bgrpc-status";
const GRPC_MESSAGE: &[u8] = b"\x00\x0cgrpc-message";
/// Said with every refusal of a compressed message.
const GRPC_ACCEPT: &[u8] = b"\x00\x14grpc-accept-encoding\x08identity";

/// An integer that shares its first byte (RFC 7541, 5.1).
fn integer(buffer: &mut Vec<u8>, bits: u32, first: u8, value: usize) {
    let mask = (1usize << bits) - 1;
    if value < mask {
        return buffer.push(first | value as u8);
    }
    buffer.push(first | mask as u8);
    let mut rest = value - mask;
    while rest >= 128 {
        buffer.push(rest as u8 | 128);
        rest >>= 7;
    }
    buffer.push(rest as u8);
}

fn string(buffer: &mut Vec<u8>, text: &[u8]) {
    integer(buffer, 7, 0, text.len());
    buffer.extend_from_slice(text);
}

fn status(buffer: &mut Vec<u8>, status: u16) {
    let place = [200, 204, 206, 304, 400, 404, 500].iter().position(|one| *one == status);
    match place {
        Some(place) => buffer.push(0x88 + place as u8),
        None => {
            buffer.push(8);
            string(buffer, status.to_string().as_bytes());
        }
    }
}

/// Write HEADERS, and CONTINUATION where the block is larger than the peer takes in one.
fn headers(buffer: &mut Vec<u8>, stream: u32, last: bool, most: usize, block: impl FnOnce(&mut Vec<u8>)) {
    let start = buffer.len();
    let flags = if last { END_STREAM } else { 0 };
    frame::head(buffer, 0, HEADERS, flags | END_HEADERS, stream);
    let body = buffer.len();
    block(buffer);
    let length = buffer.len() - body;
    if length <= most {
        let [_, high, middle, low] = (length as u32).to_be_bytes();
        buffer[start..start + 3].copy_from_slice(&[high, middle, low]);
        return;
    }
    let block = buffer.split_off(body);
    buffer.truncate(start);
    let pieces = (length + most - 1) / most;
    for (place, piece) in block.chunks(most).enumerate() {
        let ends = if place + 1 == pieces { END_HEADERS } else { 0 };
        let (kind, flags) = if place == 0 { (HEADERS, flags | ends) } else { (frame::CONTINUATION, ends) };
        frame::head(buffer, piece.len(), kind, flags, stream);
        buffer.extend_from_slice(piece);
    }
}

/// The head of an answer over HTTP. `length` is left out where the body is streamed.
pub(super) fn http(
    buffer: &mut Vec<u8>,
    stream: u32,
    last: bool,
    most: usize,
    answer: (u16, &[(String, String)], Option<usize>),
) {
    let (code, fields, length) = answer;
    headers(buffer, stream, last, most, |block| {
        status(block, code);
        for (name, value) in fields {
            let name = name.to_ascii_lowercase();
            let ours =
                matches!(&*name, "content-length" | "connection" | "transfer-encoding" | "keep-alive" | "upgrade");
            if ours || name.is_empty() || !name.bytes().all(token) || !value.bytes().all(field) {
                continue;
            }
            block.push(0);
            string(block, name.as_bytes());
            string(block, value.trim_matches(|letter| letter == ' ' || letter == '\t').as_bytes());
        }
        if let Some(length) = length {
            block.extend_from_slice(b"\x0f\x0d");
            string(block, length.to_string().as_bytes());
        }
    });
}

/// The head of an answer over gRPC.
pub(super) fn grpc(buffer: &mut Vec<u8>, stream: u32) {
    frame::head(buffer, 1 + GRPC.len(), HEADERS, END_HEADERS, stream);
    buffer.push(0x88);
    buffer.extend_from_slice(GRPC);
}

/// The end of an answer over gRPC: status, text, and more fields; `only` where there was nothing before it.
pub(super) fn trailers(
    buffer: &mut Vec<u8>,
    stream: u32,
    only: bool,
    most: usize,
    end: (u8, &str, &[(String, String)]),
) {
    let (code, message, fields) = end;
    headers(buffer, stream, true, most, |block| {
        if only {
            block.push(0x88);
            block.extend_from_slice(GRPC);
        }
        block.extend_from_slice(GRPC_STATUS);
        string(block, code.to_string().as_bytes());
        if code == 12 {
            block.extend_from_slice(GRPC_ACCEPT);
        }
        if !message.is_empty() {
            block.extend_from_slice(GRPC_MESSAGE);
            string(block, grpc::percent(message).as_bytes());
        }
        for (name, value) in fields.iter().filter(|(name, value)| name.bytes().all(token) && value.bytes().all(field)) {
            block.push(0);
            string(block, name.as_bytes());
            string(block, value.as_bytes());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::frame::Frame;
    use super::super::hpack::Decoder;
    use super::*;

    /// The frames' payloads joined, decoded.
    fn read(mut bytes: &[u8]) -> (Vec<(String, String)>, usize) {
        let (mut block, mut frames) = (Vec::new(), 0);
        while let Some(frame) = Frame::parse(bytes) {
            block.extend_from_slice(&bytes[9..9 + frame.length]);
            bytes = &bytes[9 + frame.length..];
            frames += 1;
            assert_eq!(frame.has(END_HEADERS), bytes.is_empty());
        }
        (Decoder::new().decode(&block, 1 << 20, 100).unwrap().headers, frames)
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn what_is_written_is_decoded_again() {
        let mut buffer = Vec::new();
        grpc(&mut buffer, 1);
        assert_eq!(read(&buffer).0, pairs(&[(":status", "200"), ("content-type", "application/grpc")]));
        for code in [200, 204, 206, 304, 400, 404, 500, 429] {
            let mut buffer = Vec::new();
            http(
                &mut buffer,
                1,
                false,
                16_384,
                (code, &pairs(&[("X-A", " b "), ("c\n", "d"), ("e", "\n")]), Some(300)),
            );
            let expected = [(":status", &*code.to_string()), ("x-a", "b"), ("content-length", "300")];
            assert_eq!(read(&buffer).0, pairs(&expected));
        }
        let mut buffer = Vec::new();
        trailers(&mut buffer, 1, false, 16_384, (13, "a b\u{e9}%", &pairs(&[("e", "f"), ("g", "\n")])));
        assert_eq!(read(&buffer).0, pairs(&[("grpc-status", "13"), ("grpc-message", "a b%C3%A9%25"), ("e", "f")]));
    }

    #[test]
    fn a_large_block_is_continued() {
        let mut buffer = Vec::new();
        let long = "x".repeat(40_000);
        http(&mut buffer, 1, true, 16_384, (200, &pairs(&[("a", &long), ("b", "c")]), None));
        let (headers, frames) = read(&buffer);
        assert_eq!((headers.len(), frames), (3, 3));
        assert_eq!(headers[1].1, long);
    }
}
