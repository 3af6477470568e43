//! JSON, read where it lies: a cursor over the bytes that gives strings, numbers and structure, and builds no tree.
//!
//! Source: RFC 8259; beyond it only the bare tokens NaN, Infinity and -Infinity are known, as Python writes them.

use std::borrow::Cow;

use crate::flaw::{excerpt, Flaw, Found};

/// The most levels of arrays and objects in what is skipped.
pub const DEPTH: usize = 64;
/// The most keys of one object that is read: beyond it Python looks whether one comes twice.
pub const KEYS: usize = 64;

/// A cursor.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Start at a position.
    pub fn new(bytes: &'a [u8], at: usize) -> Reader<'a> {
        Reader { bytes, at }
    }

    /// Where it is.
    pub fn at(&self) -> usize {
        self.at
    }

    /// All bytes, also those before it.
    #[inline(always)]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Go to a position further on.
    #[inline(always)]
    pub fn go(&mut self, at: usize) {
        self.at = at;
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Skip white space, and look at the next byte; 0 at the end.
    #[inline(always)]
    pub fn peek(&mut self) -> u8 {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(byte) => return *byte,
                None => return 0,
            }
        }
    }

    /// Take the next byte if it is this.
    #[inline(always)]
    pub fn take(&mut self, byte: u8) -> bool {
        let same = self.peek() == byte && self.at < self.bytes.len();
        self.at += usize::from(same);
        same
    }

    /// Take a word.
    pub fn word(&mut self, word: &[u8]) -> bool {
        self.peek();
        let same = self.bytes[self.at..].starts_with(word);
        self.at += if same { word.len() } else { 0 };
        same
    }

    /// The text is not what JSON has here.
    #[cold]
    pub fn broken(&mut self, expected: &str) -> Box<Flaw> {
        self.peek();
        self.broken_here(expected)
    }

    /// The same inside a string, where white space counts.
    #[cold]
    fn broken_here(&self, expected: &str) -> Box<Flaw> {
        let rest = &self.bytes[self.at.min(self.bytes.len())..];
        let found = match rest.first() {
            None => "ends".to_string(),
            Some(_) => format!("has '{}'", excerpt(&rest[..rest.len().min(12)])),
        };
        Flaw::malformed(format!("the JSON {} at byte {}, expected {}", found, self.at, expected))
    }

    /// Read an object; `each` reads the value of a key. A key may come once.
    pub fn object(&mut self, mut each: impl FnMut(&mut Self, &str) -> Found<()>) -> Found<()> {
        if !self.take(b'{') {
            return Err(self.wrong("an object"));
        }
        if self.take(b'}') {
            return Ok(());
        }
        let mut seen: Vec<Cow<'a, str>> = Vec::with_capacity(8);
        loop {
            let key = self.key()?;
            if seen.contains(&key) {
                return Err(Flaw::malformed(format!("the key \"{}\" comes twice", excerpt(key.as_bytes()))));
            }
            if seen.len() == KEYS {
                return Err(Flaw::unusual());
            }
            if !self.take(b':') {
                return Err(self.broken("':'"));
            }
            each(self, &key)?;
            seen.push(key);
            if self.take(b'}') {
                return Ok(());
            }
            if !self.take(b',') {
                return Err(self.broken("',' or '}'"));
            }
        }
    }

    /// Read an array; `each` reads the element of an index.
    pub fn array(&mut self, mut each: impl FnMut(&mut Self, usize) -> Found<()>) -> Found<()> {
        if !self.take(b'[') {
            return Err(self.wrong("an array"));
        }
        if self.take(b']') {
            return Ok(());
        }
        for index in 0.. {
            each(self, index)?;
            if self.take(b']') {
                break;
            }
            if !self.take(b',') {
                return Err(self.broken("',' or ']'"));
            }
        }
        Ok(())
    }

    fn key(&mut self) -> Found<Cow<'a, str>> {
        match self.peek() {
            b'"' => self.string(),
            _ => Err(self.broken("a key in quotes")),
        }
    }

    /// Read a string.
    pub fn string(&mut self) -> Found<Cow<'a, str>> {
        if self.peek() != b'"' {
            return Err(self.wrong("a string"));
        }
        let start = self.at + 1;
        let mut end = start;
        loop {
            match self.bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => return self.escaped(start, end),
                Some(byte) if *byte >= 0x20 => end += 1,
                _ => {
                    self.at = end;
                    return Err(self.broken_here("the rest of a string, with control characters escaped"));
                }
            }
        }
        let text = self.utf8(start, end)?;
        self.at = end + 1;
        Ok(Cow::Borrowed(text))
    }

    fn utf8(&self, start: usize, end: usize) -> Found<&'a str> {
        std::str::from_utf8(&self.bytes[start..end]).map_err(|error| {
            Flaw::malformed(format!("the string at byte {} is no UTF-8 at byte {}", start, start + error.valid_up_to()))
        })
    }

    /// Read on a string that has escapes: `at` is the first one.
    fn escaped(&mut self, start: usize, mut at: usize) -> Found<Cow<'a, str>> {
        let mut text = String::from(self.utf8(start, at)?);
        loop {
            let from = at;
            while matches!(self.bytes.get(at), Some(byte) if *byte >= 0x20 && *byte != b'"' && *byte != b'\\') {
                at += 1;
            }
            text.push_str(self.utf8(from, at)?);
            match self.bytes.get(at) {
                Some(b'"') => {
                    self.at = at + 1;
                    return Ok(Cow::Owned(text));
                }
                Some(b'\\') => {
                    self.at = at;
                    text.push(self.escape()?);
                    at = self.at;
                }
                _ => {
                    self.at = at;
                    return Err(self.broken_here("the rest of a string, with control characters escaped"));
                }
            }
        }
    }

    fn escape(&mut self) -> Found<char> {
        let found = match self.bytes.get(self.at + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return Err(self.broken_here("an escape of JSON")),
        };
        self.at += 2;
        Ok(found)
    }

    /// `\u` and four digits; of what is beyond 16 bits, both halves.
    fn unicode(&mut self) -> Found<char> {
        let high = self.unit()?;
        let code = match high {
            0xd800..=0xdbff => match self.unit()? {
                low @ 0xdc00..=0xdfff => 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00),
                _ => return Err(Flaw::malformed(format!("half a surrogate pair ends at byte {}", self.at))),
            },
            _ => high,
        };
        char::from_u32(code).ok_or_else(|| Flaw::malformed(format!("half a surrogate pair ends at byte {}", self.at)))
    }

    fn unit(&mut self) -> Found<u32> {
        let digits = match self.bytes.get(self.at..self.at + 6) {
            Some([b'\\', b'u', digits @ ..]) if digits.iter().all(u8::is_ascii_hexdigit) => digits,
            _ => return Err(self.broken_here("\\u and four hexadecimal digits")),
        };
        self.at += 6;
        Ok(digits.iter().fold(0, |code, digit| code * 16 + char::from(*digit).to_digit(16).unwrap_or(0)))
    }

    /// The span of the value that comes, of whatever kind, for an error.
    pub fn token(&mut self) -> &'a [u8] {
        self.peek();
        let start = self.at;
        let mut copy = self.clone();
        let end = if copy.skip().is_ok() { copy.at } else { self.bytes.len().min(start + 12) };
        &self.bytes[start..end]
    }

    /// The value that comes is of another kind than it must be, or there is none.
    #[cold]
    pub fn wrong(&mut self, expected: &str) -> Box<Flaw> {
        let mut copy = self.clone();
        match copy.skip() {
            Ok(()) => Flaw::signature(format!("found {}, expected {}", excerpt(self.token()), expected)),
            Err(_) => self.broken(expected),
        }
    }

    /// Go past a value of any kind, which is checked to be JSON.
    pub fn skip(&mut self) -> Found<()> {
        self.skip_below(DEPTH)
    }

    fn skip_below(&mut self, depth: usize) -> Found<()> {
        if depth == 0 {
            return Err(Flaw::limit(format!("the JSON is more than {} levels deep at byte {}", DEPTH, self.at)));
        }
        match self.peek() {
            b'{' => self.skip_object(depth),
            b'[' => self.array(|reader, _| reader.skip_below(depth - 1)),
            b'"' => self.string().map(drop),
            b'-' | b'0'..=b'9' if !self.bytes[self.at..].starts_with(b"-I") => {
                let number = crate::number::scan(self.bytes, self.at);
                self.at =
                    number.map(|number| number.end).map_err(|at| Reader::new(self.bytes, at).broken("a digit"))?;
                Ok(())
            }
            _ => {
                const WORDS: [&[u8]; 6] = [b"true", b"false", b"null", b"NaN", b"Infinity", b"-Infinity"];
                match WORDS.iter().any(|word| self.word(word)) {
                    true => Ok(()),
                    false => Err(self.broken("a value")),
                }
            }
        }
    }

    /// Go past an object, without a bound on its keys and without a look at them.
    fn skip_object(&mut self, depth: usize) -> Found<()> {
        self.at += 1;
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            self.key()?;
            if !self.take(b':') {
                return Err(self.broken("':'"));
            }
            self.skip_below(depth - 1)?;
            if self.take(b'}') {
                return Ok(());
            }
            if !self.take(b',') {
                return Err(self.broken("',' or '}'"));
            }
        }
    }

    /// Nothing but white space may be left.
    pub fn end(&mut self) -> Found<()> {
        self.peek();
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(self.broken("its end"))
        }
    }
}

/// Append a string, quoted and escaped.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    out.push(b'"');
    // Without an early end this is done many bytes at a time, and mostly there is nothing to escape.
    let plain = bytes.iter().fold(true, |plain, byte| plain & (*byte >= 0x20) & (*byte != b'"') & (*byte != b'\\'));
    if plain {
        out.extend_from_slice(bytes);
        out.push(b'"');
        return;
    }
    let mut from = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let short = match byte {
            b'"' | b'\\' => *byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0..=0x1f => b'u',
            _ => continue,
        };
        out.extend_from_slice(&bytes[from..at]);
        out.extend_from_slice(&[b'\\', short]);
        if short == b'u' {
            out.extend_from_slice(&[b'0', b'0', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
        from = at + 1;
    }
    out.extend_from_slice(&bytes[from..]);
    out.push(b'"');
}
