//! What a decoder finds wrong, while it climbs out of what it was reading: each level puts its own name before the path.

use std::fmt::Display;

use crate::fault::{Fault, Kind};
use crate::infer::Decoded;

/// The result of every step of a decoder. The flaw is boxed: results are then as small as what they hold.
pub type Found<T> = Result<T, Box<Flaw>>;

/// One thing that is wrong, or that only Python knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    unusual: bool,
    kind: Kind,
    path: String,
    message: String,
}

impl Flaw {
    /// The text is not what its format demands.
    #[cold]
    pub fn malformed(message: impl Into<String>) -> Box<Flaw> {
        Flaw::of(Kind::Malformed, message.into())
    }

    /// A value is well-formed, but not what the field takes.
    #[cold]
    pub fn signature(message: impl Into<String>) -> Box<Flaw> {
        Flaw::of(Kind::Signature, message.into())
    }

    /// It is larger or deeper than anything that is read.
    #[cold]
    pub fn limit(message: impl Into<String>) -> Box<Flaw> {
        Flaw::of(Kind::LimitExceeded, message.into())
    }

    /// Nothing is wrong: Python has to look at it.
    #[cold]
    pub fn unusual() -> Box<Flaw> {
        Box::new(Flaw { unusual: true, ..*Flaw::of(Kind::Internal, String::new()) })
    }

    fn of(kind: Kind, message: String) -> Box<Flaw> {
        Box::new(Flaw { unusual: false, kind, path: String::new(), message })
    }

    /// Put what is around the place before the path: `inputs[1]`, then `.data`, then `[3]`.
    #[cold]
    pub fn within(mut self: Box<Self>, outer: impl Display) -> Box<Flaw> {
        self.path = format!("{}{}", outer, self.path);
        self
    }

    /// What the client is told, or that Python has to look.
    pub fn told(self) -> Result<Decoded, Fault> {
        if self.unusual {
            return Ok(Decoded::Unusual);
        }
        let path = self.path.trim_start_matches('.');
        let message = if path.is_empty() { self.message } else { format!("{}: {}", path, self.message) };
        Err(Fault::new(self.kind, message))
    }
}

/// A piece of what the client sent, as an error may show it: at most 40 characters, control characters escaped.
pub fn excerpt(text: &[u8]) -> String {
    const SHOWN: usize = 40;
    let head = &text[..text.len().min(4 * SHOWN)];
    let lossy = String::from_utf8_lossy(head);
    let mut out: String = lossy.chars().take(SHOWN).flat_map(shown).collect();
    if lossy.chars().count() > SHOWN || head.len() < text.len() {
        out.push_str("...");
    }
    out
}

fn shown(one: char) -> Vec<char> {
    if one.is_control() {
        one.escape_default().collect()
    } else {
        vec![one]
    }
}
