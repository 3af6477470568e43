//! Protocol Buffers on the wire: the fields of a message one after the other, and their writing.
//!
//! Source: <https://protobuf.dev/programming-guides/encoding/>. Groups, which proto3 has not, are refused.

use crate::flaw::{Flaw, Found};

/// The value of one field. Bytes are where they lie in the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    Fixed32([u8; 4]),
}

impl<'a> Value<'a> {
    /// The bytes of a field that is a message, a string or packed.
    pub fn bytes(self) -> Found<&'a [u8]> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(Flaw::malformed("is a number on the wire, expected a length and bytes")),
        }
    }

    /// A string.
    pub fn text(self) -> Found<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Flaw::malformed("is no UTF-8 text"))
    }

    /// A number of any width: bool, int and uint.
    pub fn varint(self) -> Found<u64> {
        match self {
            Value::Varint(number) => Ok(number),
            _ => Err(Flaw::malformed("is no varint on the wire, expected one")),
        }
    }
}

/// Go through a message.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Start.
    pub fn new(message: &'a [u8]) -> Fields<'a> {
        Fields { rest: message }
    }

    fn field(&mut self) -> Found<(u32, Value<'a>)> {
        let tag = varint(&mut self.rest)?;
        let number = match u32::try_from(tag >> 3) {
            Ok(number) if number > 0 && number < 1 << 29 => number,
            _ => return Err(Flaw::malformed(format!("the message has a field of the number {}", tag >> 3))),
        };
        let value = match tag & 7 {
            0 => Value::Varint(varint(&mut self.rest)?),
            1 => Value::Fixed64(array(self.take(8, number)?)),
            2 => {
                let length = varint(&mut self.rest)?;
                Value::Bytes(self.take(length, number)?)
            }
            5 => Value::Fixed32(array(self.take(4, number)?)),
            kind => {
                return Err(Flaw::malformed(format!(
                    "field {} has the wire type {}, expected 0, 1, 2 or 5",
                    number, kind
                )))
            }
        };
        Ok((number, value))
    }

    fn take(&mut self, length: u64, number: u32) -> Found<&'a [u8]> {
        match usize::try_from(length) {
            Ok(length) if length <= self.rest.len() => {
                let (taken, rest) = self.rest.split_at(length);
                self.rest = rest;
                Ok(taken)
            }
            _ => Err(Flaw::malformed(format!(
                "field {} is {} bytes long, but only {} are left: the message is cut off",
                number,
                length,
                self.rest.len()
            ))),
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Found<(u32, Value<'a>)>;

    /// The next field's number and value. After an error there is nothing to go on with.
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            None
        } else {
            Some(self.field())
        }
    }
}

/// Copy a slice whose length is known.
fn array<const SIZE: usize>(bytes: &[u8]) -> [u8; SIZE] {
    let mut out = [0; SIZE];
    out.copy_from_slice(bytes);
    out
}

/// Take a varint from the front: at most ten bytes, the last of which has one bit.
#[inline]
pub fn varint(rest: &mut &[u8]) -> Found<u64> {
    if let Some(byte @ 0..=0x7f) = rest.first() {
        *rest = &rest[1..];
        return Ok(u64::from(*byte));
    }
    let mut value = 0u64;
    for (index, byte) in rest.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            if index == 9 && *byte > 1 {
                break;
            }
            *rest = &rest[index + 1..];
            return Ok(value);
        }
    }
    Err(Flaw::malformed("a varint is cut off, or longer than 64 bits"))
}

/// Append a varint.
pub fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// How many bytes a varint takes.
pub fn varint_size(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Append the head of a field of bytes.
pub fn write_length(out: &mut Vec<u8>, number: u32, length: usize) {
    write_varint(out, u64::from(number) << 3 | 2);
    write_varint(out, length as u64);
}

/// Append a field of bytes.
pub fn write_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    write_length(out, number, bytes.len());
    out.extend_from_slice(bytes);
}

/// Append a string, which is left out where it is empty.
pub fn write_text(out: &mut Vec<u8>, number: u32, text: &str) {
    if !text.is_empty() {
        write_bytes(out, number, text.as_bytes());
    }
}

/// How many bytes a field of bytes takes whose number is below 16.
pub fn bytes_size(length: usize) -> usize {
    1 + varint_size(length as u64) + length
}
