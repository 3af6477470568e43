//! A request's head out of a decoded header list: what RFC 9113, 8.2 and 8.3 ask of it.

use std::time::Instant;

use crate::grpc;
use crate::http1::head::{field, token};
use crate::service::{Head, Peer, Wire};

/// A checked request.
#[derive(Debug)]
pub(super) struct Request {
    pub head: Head,
    /// The body's length, where the client said it.
    pub length: Option<u64>,
    /// Whether it is gRPC, but in a form of messages that is not understood.
    pub foreign: bool,
}

/// The request is malformed: a stream error.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

#[derive(Default)]
struct Pseudo {
    method: Option<String>,
    scheme: Option<String>,
    path: Option<String>,
    authority: Option<String>,
}

/// Check a list and make a head of it.
pub(super) fn request(list: Vec<(String, String)>, peer: &Peer, now: Instant) -> Result<Request, Malformed> {
    let mut pseudo = Pseudo::default();
    let (mut headers, mut length, mut host) = (Vec::with_capacity(list.len()), None, false);
    for (name, value) in list {
        if !value.bytes().all(field) {
            return Err(Malformed);
        }
        if name.starts_with(':') {
            if !headers.is_empty() {
                return Err(Malformed);
            }
            pseudo.set(&name, value)?;
            continue;
        }
        check(&name, &value)?;
        if name == "content-length" {
            let digits = !value.is_empty() && value.len() <= 18 && value.bytes().all(|byte| byte.is_ascii_digit());
            if !digits || length.is_some() {
                return Err(Malformed);
            }
            length = value.parse().ok();
        }
        host = host || name == "host";
        headers.push((name, value));
    }
    let (method, path, query) = pseudo.line()?;
    if let (Some(authority), false) = (pseudo.authority, host) {
        headers.push(("host".to_string(), authority));
    }
    let form = headers.iter().find(|(name, _)| name == "content-type").and_then(|(_, value)| grpc::content_type(value));
    let wire = if form == Some(true) && method == "POST" { Wire::Grpc } else { Wire::Http };
    let head = Head { wire, method, path, query, headers, peer: peer.clone(), arrived: now };
    Ok(Request { head, length, foreign: form.is_some() && wire == Wire::Http })
}

impl Pseudo {
    fn set(&mut self, name: &str, value: String) -> Result<(), Malformed> {
        let place = match name {
            ":method" => &mut self.method,
            ":scheme" => &mut self.scheme,
            ":path" => &mut self.path,
            ":authority" => &mut self.authority,
            _ => return Err(Malformed),
        };
        match place.replace(value) {
            None => Ok(()),
            Some(_) => Err(Malformed),
        }
    }

    /// Method, path and query.
    fn line(&mut self) -> Result<(String, String, String), Malformed> {
        let method =
            self.method.take().filter(|method| !method.is_empty() && method.bytes().all(token)).ok_or(Malformed)?;
        if method == "CONNECT" {
            return Err(Malformed);
        }
        self.scheme.take().ok_or(Malformed)?;
        let mut path = self.path.take().ok_or(Malformed)?;
        let visible = path.bytes().all(|byte| (0x21..0x7f).contains(&byte) && byte != b'#');
        if !visible || !(path.starts_with('/') || (path == "*" && method == "OPTIONS")) {
            return Err(Malformed);
        }
        let query = match path.find('?') {
            Some(at) => {
                let query = path[at + 1..].to_string();
                path.truncate(at);
                query
            }
            None => String::new(),
        };
        Ok((method, path, query))
    }
}

/// Names are lower-case tokens; headers of a connection are none of HTTP/2.
fn check(name: &str, value: &str) -> Result<(), Malformed> {
    let lower = !name.is_empty() && name.bytes().all(|byte| token(byte) && !byte.is_ascii_uppercase());
    let connection = match name {
        "connection" | "proxy-connection" | "keep-alive" | "transfer-encoding" | "upgrade" => true,
        "te" => value != "trailers",
        _ => false,
    };
    if lower && !connection {
        Ok(())
    } else {
        Err(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(pairs: &[(&str, &str)]) -> Result<Request, Malformed> {
        let list = pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        request(list, &[127, 0, 0, 1].into(), Instant::now())
    }

    const GOOD: [(&str, &str); 4] =
        [(":method", "POST"), (":scheme", "http"), (":path", "/s/m?q"), (":authority", "x")];

    #[test]
    fn a_call_of_grpc_is_known_by_its_content_type() {
        let call = made(&[&GOOD[..], &[("content-type", "application/grpc"), ("te", "trailers")]].concat()).unwrap();
        assert_eq!((call.head.wire, &*call.head.path, &*call.head.query), (Wire::Grpc, "/s/m", "q"));
        assert_eq!(call.head.header("host"), Some("x"));
        let call = made(&[&GOOD[..], &[("content-type", "application/grpc+thrift")]].concat()).unwrap();
        assert!(call.foreign && call.head.wire == Wire::Http);
        let call =
            made(&[&GOOD[..], &[("content-type", "application/json"), ("content-length", "7")]].concat()).unwrap();
        assert!(!call.foreign && call.head.wire == Wire::Http && call.length == Some(7));
    }

    #[test]
    fn malformed_requests_are_refused() {
        for missing in 0..3 {
            let mut list = GOOD.to_vec();
            list.remove(missing);
            assert!(made(&list).is_err());
        }
        for wrong in [
            (":method", "GET"),
            (":status", "200"),
            ("Upper", "a"),
            ("a b", "c"),
            ("", "a"),
            ("a", "b\nc"),
            ("a", "b\0"),
            ("connection", "close"),
            ("transfer-encoding", "chunked"),
            ("te", "gzip"),
            ("content-length", "-1"),
            ("content-length", ""),
        ] {
            assert!(made(&[&GOOD[..], &[wrong]].concat()).is_err(), "{wrong:?}");
        }
        for (place, value) in [(0, ""), (0, "A B"), (0, "CONNECT"), (2, ""), (2, "a"), (2, "/a b"), (2, "*"), (2, "/#")]
        {
            let mut list = GOOD.to_vec();
            list[place].1 = value;
            assert!(made(&list).is_err(), "{value:?}");
        }
        let late = [("a", "b"), GOOD[0], GOOD[1], GOOD[2]];
        assert!(made(&late).is_err());
        let twice = [&GOOD[..], &[("content-length", "1"), ("content-length", "1")]].concat();
        assert!(made(&twice).is_err());
    }
}
