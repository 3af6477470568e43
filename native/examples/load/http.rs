//! HTTP/1.1 as a client speaks it: one request after the other, kept alive.

use vitrify_plane::http1::body::Body;

use crate::{Outcome, Request};

/// No answer is larger.
const MOST: usize = 1 << 30;

/// One connection's state.
pub struct Session {
    request: Vec<u8>,
    /// Bytes of a head that has not come whole.
    head: Vec<u8>,
    answer: Option<Answer>,
}

struct Answer {
    status: u16,
    keep: bool,
    body: Body,
}

impl Session {
    pub fn new(request: &Request) -> Session {
        let mut text = format!("{} {} HTTP/1.1\r\nhost: {}\r\n", request.method, request.path, request.host);
        for (name, value) in &request.headers {
            text += &format!("{name}: {value}\r\n");
        }
        if !request.body.is_empty() || request.method == "POST" {
            text += &format!("content-length: {}\r\n", request.body.len());
        }
        text += "\r\n";
        Session { request: [text.as_bytes(), &request.body].concat(), head: Vec::new(), answer: None }
    }
}

/// Status, length of the body (`None` in chunks) and whether the connection goes on.
fn parse(head: &str) -> Option<(u16, Option<u64>, bool)> {
    let mut lines = head.split("\r\n");
    let first = lines.next()?.strip_prefix("HTTP/1.")?;
    let status = first.get(2..5)?.parse().ok()?;
    let (mut length, mut keep) = (Some(0), first.starts_with('1'));
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.parse().ok()?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            length = None;
        } else if name.eq_ignore_ascii_case("connection") {
            keep = value.eq_ignore_ascii_case("keep-alive") || (keep && !value.eq_ignore_ascii_case("close"));
        }
    }
    Some((status, length, keep))
}

impl crate::Session for Session {
    fn open(&mut self, _out: &mut Vec<u8>) {}

    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.request);
    }

    fn take(&mut self, bytes: &[u8], _out: &mut Vec<u8>) -> Outcome {
        let mut rest = bytes;
        if self.answer.is_none() {
            let before = self.head.len();
            self.head.extend_from_slice(bytes);
            let end = match self.head.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(end) => end,
                None => return Outcome::More,
            };
            let (status, length, keep) = match std::str::from_utf8(&self.head[..end]).ok().and_then(parse) {
                Some(found) => found,
                None => return Outcome::Broken("no answer of HTTP"),
            };
            let body = match length {
                Some(length) => Body::sized(length, MOST),
                None => Ok(Body::chunked(MOST)),
            };
            let body = match body {
                Ok(body) => body,
                Err((_, reason)) => return Outcome::Broken(reason),
            };
            rest = &bytes[(end + 4).saturating_sub(before)..];
            self.head.clear();
            self.answer = Some(Answer { status, keep, body });
        }
        let mut answer = match self.answer.take() {
            Some(answer) => answer,
            None => return Outcome::More,
        };
        if let Err((_, reason)) = answer.body.take(rest, 64 * 1024) {
            return Outcome::Broken(reason);
        }
        if !answer.body.done() {
            self.answer = Some(answer);
            return Outcome::More;
        }
        Outcome::Answer { success: (200..300).contains(&answer.status), status: answer.status, keep: answer.keep }
    }
}
