//! An answer as HTTP/1.1 writes it.

use std::io::Write;

use super::head::{field, token};
use crate::front::outgoing::Outgoing;

/// How the end of an answer's body is known, and whether there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(usize),
    Chunked,
    /// The connection's end is the body's.
    Closed,
}

/// Whether an answer of this status has a body at all.
pub(crate) fn has_body(status: u16) -> bool {
    !(status < 200 || status == 204 || status == 304)
}

/// What is said of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Nothing,
    Close,
    /// To a client of HTTP/1.0, which would not expect it.
    Keep,
}

/// Write status line and headers.
pub(crate) fn head(out: &mut Outgoing, status: u16, headers: &[(String, String)], framing: Framing, said: Said) {
    out.gather(|buffer| {
        buffer.extend_from_slice(b"HTTP/1.1 ");
        decimal(buffer, status as usize);
        buffer.push(b' ');
        buffer.extend_from_slice(reason(status).as_bytes());
        buffer.extend_from_slice(b"\r\n");
        for (name, value) in headers {
            if ours(name) || !name.bytes().all(token) || !value.bytes().all(field) {
                continue;
            }
            buffer.extend_from_slice(name.as_bytes());
            buffer.extend_from_slice(b": ");
            buffer.extend_from_slice(value.as_bytes());
            buffer.extend_from_slice(b"\r\n");
        }
        match framing {
            Framing::Length(length) if has_body(status) => {
                buffer.extend_from_slice(b"content-length: ");
                decimal(buffer, length);
                buffer.extend_from_slice(b"\r\n");
            }
            Framing::Chunked if has_body(status) => buffer.extend_from_slice(b"transfer-encoding: chunked\r\n"),
            _ => {}
        }
        buffer.extend_from_slice(match said {
            Said::Nothing => b"\r\n",
            Said::Close => b"connection: close\r\n\r\n",
            Said::Keep => b"connection: keep-alive\r\n\r\n",
        });
    });
}

/// Write one chunk; an empty one would be the last and is left out.
pub(crate) fn chunk(out: &mut Outgoing, piece: Vec<u8>) {
    if piece.is_empty() {
        return;
    }
    out.gather(|buffer| write!(buffer, "{:x}\r\n", piece.len())).unwrap_or_default();
    out.body(piece);
    out.put(b"\r\n");
}

/// The headers that the front sets itself.
fn ours(name: &str) -> bool {
    ["content-length", "connection", "transfer-encoding", "keep-alive"].iter().any(|one| name.eq_ignore_ascii_case(one))
}

fn decimal(buffer: &mut Vec<u8>, number: usize) {
    let mut digits = [0u8; 20];
    let (mut at, mut rest) = (digits.len(), number);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    buffer.extend_from_slice(&digits[at..]);
}

fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        422 => "Unprocessable Content",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        499 => "Client Closed Request",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(out: &mut Outgoing) -> String {
        let mut bytes = Vec::new();
        out.flush(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_header_that_would_split_the_answer_is_left_out() {
        let mut out = Outgoing::default();
        let headers = [("a", "b"), ("c", "d\r\ne: f"), ("g\r\nh", "i"), ("Content-Length", "7")];
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        head(&mut out, 200, &headers, Framing::Length(0), Said::Close);
        assert_eq!(written(&mut out), "HTTP/1.1 200 OK\r\na: b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    }

    #[test]
    fn an_answer_without_a_body_has_no_length() {
        let mut out = Outgoing::default();
        head(&mut out, 204, &[], Framing::Length(0), Said::Nothing);
        assert_eq!(written(&mut out), "HTTP/1.1 204 No Content\r\n\r\n");
    }

    #[test]
    fn chunks_have_their_size_in_front() {
        let mut out = Outgoing::default();
        chunk(&mut out, vec![b'x'; 26]);
        chunk(&mut out, Vec::new());
        assert_eq!(written(&mut out), format!("1a\r\n{}\r\n", "x".repeat(26)));
    }

    #[test]
    fn numbers_are_decimal() {
        for number in [0, 7, 10, 12345, usize::MAX] {
            let mut buffer = Vec::new();
            decimal(&mut buffer, number);
            assert_eq!(String::from_utf8(buffer).unwrap(), number.to_string());
        }
    }
}
