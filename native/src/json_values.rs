//! The values that requests in JSON have in common: lists, parameters, truths and whole numbers.

use crate::flaw::{Flaw, Found};
use crate::json::Reader;
use crate::number::scan;

/// The most entries of one list: each takes more memory than its shortest text. What is longer is Python's to refuse.
pub const LIST: usize = 10_000;

/// Read a list of fields.
pub fn each<'a>(reader: &mut Reader<'a>, list: &str, mut one: impl FnMut(&mut Reader<'a>) -> Found<()>) -> Found<()> {
    let read = reader.array(|reader, index| match index {
        LIST => Err(Flaw::unusual()),
        _ => one(reader).map_err(|flaw| flaw.within(format_args!("[{}]", index))),
    });
    read.map_err(|flaw| flaw.within(list))
}

/// Read an object of parameters, or null.
pub fn parameters<'a>(reader: &mut Reader<'a>, mut one: impl FnMut(&mut Reader<'a>, &str) -> Found<()>) -> Found<()> {
    optional(reader, |reader| {
        reader.object(|reader, key| one(reader, key).map_err(|flaw| flaw.within(format_args!(".{}", key))))
    })
    .map_err(|flaw| flaw.within(".parameters"))
}

/// Read what may be null.
pub fn optional<'a>(reader: &mut Reader<'a>, mut one: impl FnMut(&mut Reader<'a>) -> Found<()>) -> Found<()> {
    if reader.word(b"null") {
        Ok(())
    } else {
        one(reader)
    }
}

/// Read true or false; null is neither.
pub fn truth(reader: &mut Reader) -> Found<Option<bool>> {
    const WORDS: [(&[u8], Option<bool>); 3] = [(b"true", Some(true)), (b"false", Some(false)), (b"null", None)];
    match WORDS.iter().find(|(word, _)| reader.word(word)) {
        Some((_, value)) => Ok(*value),
        None => Err(reader.wrong("true or false")),
    }
}

/// A whole number that is not negative, in digits only; as a string too where it is allowed.
pub fn whole(reader: &mut Reader, quoted: bool) -> Found<u64> {
    const EXPECTED: &str = "a whole number of 64 bits";
    let start = reader.clone();
    let value = match reader.peek() {
        b'"' if quoted => digits(reader.string()?.as_bytes()),
        b'0'..=b'9' => {
            let (bytes, at) = (reader.bytes(), reader.at());
            let number = scan(bytes, at).map_err(|at| Reader::new(bytes, at).broken("a digit"))?;
            reader.go(number.end);
            if number.exact && number.whole {
                Some(number.mantissa)
            } else {
                digits(&bytes[at..number.end])
            }
        }
        _ => None,
    };
    value.ok_or_else(|| start.clone().wrong(EXPECTED))
}

/// What digits say, and nothing but digits.
fn digits(text: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok())
}
