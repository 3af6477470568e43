//! The tables that Python gives (lanes, routes, clients): JSON read into values, and texts written as JSON.
//!
//! They are rare and our own; the bodies of requests go through the codec.

use std::fmt::Write;

const DEPTH: usize = 32;

/// One JSON value. The last of two equal keys counts.
#[derive(Debug, Clone, PartialEq)]
pub enum Table {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Table>),
    Map(Vec<(String, Table)>),
}

impl Table {
    /// Read a whole text.
    pub fn read(text: &str) -> Result<Table, String> {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0)?;
        reader.space();
        if reader.at == text.len() {
            Ok(value)
        } else {
            Err(format!("a table goes on after its end, at byte {}", reader.at))
        }
    }

    /// The value of a key; null where there is none.
    pub fn get(&self, key: &str) -> &Table {
        self.map().iter().rev().find(|(name, _)| name == key).map_or(&Table::Null, |(_, value)| value)
    }

    /// The text, or an empty one.
    pub fn text(&self) -> &str {
        match self {
            Table::Text(text) => text,
            _ => "",
        }
    }

    /// The number, or zero.
    pub fn number(&self) -> f64 {
        match self {
            Table::Number(number) => *number,
            _ => 0.0,
        }
    }

    /// The number as a count: whole, never negative.
    pub fn count(&self) -> usize {
        self.number().max(0.0) as usize
    }

    /// True where it says so.
    pub fn yes(&self) -> bool {
        *self == Table::Bool(true)
    }

    /// The elements, or none.
    pub fn list(&self) -> &[Table] {
        match self {
            Table::List(values) => values,
            _ => &[],
        }
    }

    /// The keys and values, or none.
    pub fn map(&self) -> &[(String, Table)] {
        match self {
            Table::Map(pairs) => pairs,
            _ => &[],
        }
    }
}

/// Write a text as JSON has it.
pub fn quote(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{0}'..='\u{1f}' => {
                let _ = write!(out, "\\u{:04x}", letter as u32);
            }
            _ => out.push(letter),
        }
    }
    out.push('"');
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn wrong<T>(&self, expected: &str) -> Result<T, String> {
        Err(format!("a table has no {expected} at byte {}", self.at))
    }

    fn expect(&mut self, wanted: u8) -> Result<(), String> {
        self.space();
        if self.peek() == Some(wanted) {
            self.at += 1;
            return Ok(());
        }
        self.wrong(&format!("'{}'", wanted as char))
    }

    fn word(&mut self, word: &str, value: Table) -> Result<Table, String> {
        if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(value);
        }
        self.wrong(word)
    }

    fn value(&mut self, depth: usize) -> Result<Table, String> {
        if depth > DEPTH {
            return self.wrong("value that is not too deep");
        }
        self.space();
        match self.peek() {
            Some(b'n') => self.word("null", Table::Null),
            Some(b't') => self.word("true", Table::Bool(true)),
            Some(b'f') => self.word("false", Table::Bool(false)),
            Some(b'"') => self.string().map(Table::Text),
            Some(b'[') => self.list(depth),
            Some(b'{') => self.map(depth),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.wrong("value"),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Table, String> {
        let mut values = Vec::new();
        self.expect(b'[')?;
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Table::List(values));
        }
        loop {
            values.push(self.value(depth + 1)?);
            if self.ends(b']')? {
                return Ok(Table::List(values));
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Table, String> {
        let mut pairs = Vec::new();
        self.expect(b'{')?;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Table::Map(pairs));
        }
        loop {
            self.space();
            let key = self.string()?;
            self.expect(b':')?;
            pairs.push((key, self.value(depth + 1)?));
            if self.ends(b'}')? {
                return Ok(Table::Map(pairs));
            }
        }
    }

    /// True at the end, false at a comma.
    fn ends(&mut self, close: u8) -> Result<bool, String> {
        self.space();
        let found = self.peek();
        self.at += 1;
        if found == Some(close) {
            Ok(true)
        } else if found == Some(b',') {
            Ok(false)
        } else {
            self.at -= 1;
            self.wrong("comma or end")
        }
    }

    fn number(&mut self) -> Result<Table, String> {
        let from = self.at;
        while matches!(self.peek(), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
            self.at += 1;
        }
        self.text[from..self.at].parse().map(Table::Number).or_else(|_| self.wrong("number"))
    }

    fn string(&mut self) -> Result<String, String> {
        self.expect(b'"')?;
        let mut out = String::new();
        loop {
            let from = self.at;
            while !matches!(self.peek(), None | Some(b'"' | b'\\')) {
                self.at += 1;
            }
            out.push_str(&self.text[from..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(_) => out.push(self.escape()?),
                None => return self.wrong("end of a text"),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        self.at += 1;
        let letter = self.peek();
        self.at += 1;
        Ok(match letter {
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(one @ (b'"' | b'\\' | b'/')) => one as char,
            Some(b'u') => return self.unicode(),
            _ => return self.wrong("escape"),
        })
    }

    fn unicode(&mut self) -> Result<char, String> {
        let first = self.hex()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first).map_or_else(|| self.wrong("character"), Ok);
        }
        self.word("\\u", Table::Null)?;
        let second = self.hex()?;
        if !(0xdc00..0xe000).contains(&second) {
            return self.wrong("second half of a character");
        }
        char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
            .map_or_else(|| self.wrong("character"), Ok)
    }

    fn hex(&mut self) -> Result<u32, String> {
        let digits = self.text.get(self.at..self.at + 4).filter(|four| four.bytes().all(|one| one.is_ascii_hexdigit()));
        self.at += 4;
        digits.and_then(|four| u32::from_str_radix(four, 16).ok()).map_or_else(|| self.wrong("four digits"), Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_says_is_what_is_read() {
        let table =
            Table::read(r#" {"a": [1, -2.5e1, true, null], "b": {"c": "x\n\u00e9\ud83d\ude00"}, "a2": []} "#).unwrap();
        assert_eq!(table.get("a").list()[1].number(), -25.0);
        assert!(table.get("a").list()[2].yes());
        assert_eq!(table.get("b").get("c").text(), "x\né😀");
        assert_eq!(table.get("none"), &Table::Null);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in ["", "{", "[1,", "[1 2]", "\"a", "{\"a\" 1}", "nul", "1 2", "\"\\u12\"", "\"\\ud800\"", "-", "[1]]"]
        {
            assert!(Table::read(text).is_err(), "{text}");
        }
        assert!(Table::read(&"[".repeat(1000)).is_err());
    }

    #[test]
    fn a_quoted_text_reads_as_itself() {
        let text = "a\"b\\c\n\u{1}é😀";
        let mut out = String::new();
        quote(text, &mut out);
        assert_eq!(Table::read(&out).unwrap(), Table::Text(text.to_owned()));
    }
}
