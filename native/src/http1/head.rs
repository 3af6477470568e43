//! A request's head: found, then parsed whole. What could be read in two ways is refused.

/// How the body's end is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    Sized(u64),
    Chunked,
}

/// A parsed head. Names of headers are lower-case.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub method: String,
    pub path: String,
    pub query: String,
    pub headers: Vec<(String, String)>,
    /// Whether it is 1.1 and not 1.0.
    pub modern: bool,
    /// Whether the client wants to go on with the connection.
    pub keep: bool,
    pub length: Length,
    /// Whether the client waits for `100 Continue`.
    pub expects: bool,
}

/// Why a head is refused: the status, and what is said.
pub type Refusal = (u16, &'static str);

const NAME_BYTES: usize = 256;
const METHOD_BYTES: usize = 32;

/// Find where the head ends (behind its empty line). `scanned` is how far earlier calls have looked.
pub(crate) fn end(bytes: &[u8], scanned: &mut usize, most: usize) -> Result<Option<usize>, Refusal> {
    let looked = &bytes[..bytes.len().min(most)];
    while let Some(next) = looked.get(*scanned..).and_then(|rest| rest.iter().position(|byte| *byte == b'\n')) {
        let at = *scanned + next;
        if at == 0 || looked[at - 1] != b'\r' {
            return Err((400, "malformed head: a line ends without a carriage return"));
        }
        *scanned = at + 1;
        if at >= 3 && looked[at - 2] == b'\n' {
            return Ok(Some(at + 1));
        }
    }
    if bytes.len() > most {
        let line = bytes[..most].contains(&b'\n');
        return Err(if line {
            (431, "the request's head is too large")
        } else {
            (414, "the request's target is too long")
        });
    }
    *scanned = looked.len();
    Ok(None)
}

/// Parse a head that ends with its empty line.
pub(crate) fn parse(bytes: &[u8], most_headers: usize) -> Result<Parsed, Refusal> {
    let mut lines = bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut parsed = request_line(lines.next().unwrap_or(b""))?;
    let mut seen = Seen::default();
    for line in lines.take_while(|line| !line.is_empty()) {
        if parsed.headers.len() == most_headers {
            return Err((431, "the request has too many headers"));
        }
        let (name, value) = header(line)?;
        seen.look(&name, &value)?;
        parsed.headers.push((name, value));
    }
    seen.judge(&mut parsed)?;
    Ok(parsed)
}

fn request_line(line: &[u8]) -> Result<Parsed, Refusal> {
    let mut parts = line.split(|byte| *byte == b' ');
    let (method, target, version) = match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(method), Some(target), Some(version), None) => (method, target, version),
        _ => return Err((400, "malformed request line: expected METHOD TARGET HTTP/1.1")),
    };
    let modern = match version {
        b"HTTP/1.1" => true,
        b"HTTP/1.0" => false,
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit() => {
            return Err((505, "this port speaks HTTP/1.1 and HTTP/1.0"));
        }
        _ => return Err((400, "malformed request line: expected METHOD TARGET HTTP/1.1")),
    };
    if method.is_empty() || method.len() > METHOD_BYTES || !method.iter().all(|byte| token(*byte)) {
        return Err((400, "malformed request line: the method is no token"));
    }
    if method == b"CONNECT" {
        return Err((501, "the method CONNECT is not implemented"));
    }
    let (path, query) = split_target(method, target)?;
    Ok(Parsed {
        method: text(method),
        path,
        query,
        headers: Vec::with_capacity(8),
        modern,
        keep: modern,
        length: Length::Sized(0),
        expects: false,
    })
}

/// Path and query of a request's target, in origin form, absolute form, or `*`.
fn split_target(method: &[u8], target: &[u8]) -> Result<(String, String), Refusal> {
    if !target.iter().all(|byte| (0x21..0x7f).contains(byte) && *byte != b'#') {
        return Err((400, "malformed request line: the target holds a character that must be percent-encoded"));
    }
    let mut rest = target;
    if target.len() > 7 && target[..7].eq_ignore_ascii_case(b"http://") {
        let after = &target[7..];
        rest = after.iter().position(|byte| matches!(byte, b'/' | b'?')).map_or(&b"/"[..], |at| &after[at..]);
    }
    let (path, query) = match rest.iter().position(|byte| *byte == b'?') {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, &rest[..0]),
    };
    match path.first() {
        Some(b'/') => Ok((text(path), text(query))),
        None if rest.len() < target.len() => Ok(("/".to_string(), text(query))),
        Some(b'*') if rest == b"*" && method == b"OPTIONS" => Ok((text(path), String::new())),
        _ => Err((400, "malformed request line: the target has to begin with a slash")),
    }
}

fn header(line: &[u8]) -> Result<(String, String), Refusal> {
    if matches!(line[0], b' ' | b'\t') {
        return Err((400, "malformed header: a folded line"));
    }
    let colon = line.iter().position(|byte| *byte == b':').ok_or((400, "malformed header: no colon"))?;
    let (name, value) = (&line[..colon], trim(&line[colon + 1..]));
    if name.is_empty() || name.len() > NAME_BYTES || !name.iter().all(|byte| token(*byte)) {
        return Err((400, "malformed header: its name is no token"));
    }
    if !value.iter().all(|byte| field(*byte)) {
        return Err((400, "malformed header: its value holds a control character"));
    }
    Ok((name.iter().map(|byte| byte.to_ascii_lowercase() as char).collect(), text(value)))
}

/// What the headers say of the message itself.
#[derive(Default)]
struct Seen {
    length: Option<u64>,
    hosts: usize,
    chunked: bool,
    close: bool,
    keep: bool,
    expects: bool,
}

impl Seen {
    fn look(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
        match name {
            "content-length" => {
                if self.length.is_some() {
                    return Err((400, "content-length is given twice"));
                }
                if value.is_empty() || value.len() > 18 || !value.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err((400, "content-length is no number of bytes"));
                }
                self.length = value.parse().ok();
            }
            "transfer-encoding" => {
                if self.chunked {
                    return Err((400, "transfer-encoding is given twice"));
                }
                if !value.eq_ignore_ascii_case("chunked") {
                    return Err((501, "the only transfer-encoding that is implemented is chunked"));
                }
                self.chunked = true;
            }
            "host" => self.hosts += 1,
            "connection" => {
                for word in value.split(',').map(str::trim) {
                    self.close |= word.eq_ignore_ascii_case("close");
                    self.keep |= word.eq_ignore_ascii_case("keep-alive");
                }
            }
            "expect" => {
                if !value.eq_ignore_ascii_case("100-continue") {
                    return Err((417, "the only expectation that is known is 100-continue"));
                }
                self.expects = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn judge(&self, parsed: &mut Parsed) -> Result<(), Refusal> {
        if self.chunked && self.length.is_some() {
            return Err((400, "both content-length and transfer-encoding are given"));
        }
        if self.chunked && !parsed.modern {
            return Err((400, "transfer-encoding is not of HTTP/1.0"));
        }
        if self.hosts > 1 || (parsed.modern && self.hosts == 0) {
            return Err((400, "exactly one host header is expected"));
        }
        parsed.keep = !self.close && (parsed.modern || self.keep);
        parsed.expects = self.expects && parsed.modern;
        parsed.length = if self.chunked { Length::Chunked } else { Length::Sized(self.length.unwrap_or(0)) };
        Ok(())
    }
}

/// RFC 9110, 5.6.2.
pub(crate) fn token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// What a header's value may hold: everything but control characters, a tabulator excepted.
pub(crate) fn field(byte: u8) -> bool {
    byte == b'\t' || (byte >= 0x20 && byte != 0x7f)
}

fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// UTF-8 as it is, anything else as Latin-1.
pub(crate) fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_string(),
        Err(_) => bytes.iter().map(|byte| *byte as char).collect(),
    }
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
