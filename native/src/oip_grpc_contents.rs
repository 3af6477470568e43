//! `inference.InferTensorContents`: the elements of an input, typed, packed or one by one.

use crate::flaw::{Flaw, Found};
use crate::protobuf::{varint, Fields, Value};
use crate::tensor::Datatype;

/// The fields of the message, by number.
const NAMES: [&str; 9] = [
    "",
    "bool_contents",
    "int_contents",
    "int64_contents",
    "uint_contents",
    "uint64_contents",
    "fp32_contents",
    "fp64_contents",
    "bytes_contents",
];

/// Which field holds the elements of a datatype; none for those that are sent raw only.
fn field(datatype: Datatype) -> Option<u32> {
    match datatype {
        Datatype::Bool => Some(1),
        Datatype::Int8 | Datatype::Int16 | Datatype::Int32 => Some(2),
        Datatype::Int64 => Some(3),
        Datatype::Uint8 | Datatype::Uint16 | Datatype::Uint32 => Some(4),
        Datatype::Uint64 => Some(5),
        Datatype::Fp32 => Some(6),
        Datatype::Fp64 => Some(7),
        Datatype::Bytes => Some(8),
        Datatype::Fp16 | Datatype::Bf16 => None,
    }
}

/// Whether a message holds no element of any type.
pub fn say_nothing(message: &[u8]) -> bool {
    Fields::new(message).all(|field| match field {
        Ok((number, Value::Bytes(b""))) => number != 8,
        Ok((number, _)) => NAMES.get(number as usize).is_none(),
        Err(_) => false,
    })
}

/// Append the elements of one message to a tensor's bytes, and return how many there were.
///
/// Errors: `Signature` where an element is not of the datatype, `Malformed` where the message is none.
pub fn read(message: &[u8], datatype: Datatype, expected: usize, out: &mut Vec<u8>) -> Found<usize> {
    let own = field(datatype);
    // A packed element is one byte at least: a shape that says more takes no memory by saying so.
    out.reserve(expected.min(message.len()).saturating_mul(datatype.size()));
    let mut count = 0;
    for field in Fields::new(message) {
        let (number, value) = field?;
        let name = match NAMES.get(number as usize) {
            Some(name) => name,
            None => continue,
        };
        if Some(number) != own {
            // An empty packed field says nothing.
            if value == Value::Bytes(b"") && number != 8 {
                continue;
            }
            let own = own.ok_or_else(|| {
                let found = "has no typed contents: send it in raw_input_contents";
                Flaw::signature(format!("is set, but {} {}", datatype.name(), found))
            })?;
            let found = format!("is set, but {} goes with {}", datatype.name(), NAMES[own as usize]);
            return Err(Flaw::signature(found).within(format_args!(".{}", name)));
        }
        count += elements(value, datatype, count, out).map_err(|flaw| flaw.within(format_args!(".{}", name)))?;
    }
    Ok(count)
}

/// One occurrence of the field: an element, or all of a packed list. `before` were there already.
fn elements(value: Value, datatype: Datatype, before: usize, out: &mut Vec<u8>) -> Found<usize> {
    match (datatype, value) {
        (Datatype::Bytes, Value::Bytes(text)) => {
            let length = u32::try_from(text.len()).map_err(|_| Flaw::signature("has an element of more than 4 GiB"))?;
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(text);
            Ok(1)
        }
        (Datatype::Fp32, Value::Fixed32(bytes)) => {
            out.extend_from_slice(&bytes);
            Ok(1)
        }
        (Datatype::Fp64, Value::Fixed64(bytes)) => {
            out.extend_from_slice(&bytes);
            Ok(1)
        }
        // On the wire floats are little-endian, as they are in a tensor.
        (Datatype::Fp32 | Datatype::Fp64, Value::Bytes(packed)) if packed.len() % datatype.size() == 0 => {
            out.extend_from_slice(packed);
            Ok(packed.len() / datatype.size())
        }
        (Datatype::Bytes | Datatype::Fp32 | Datatype::Fp64, _) => {
            Err(Flaw::malformed(format!("is not on the wire as elements of {} are", datatype.name())))
        }
        (_, Value::Varint(number)) => {
            element(number, datatype, before, out)?;
            Ok(1)
        }
        (_, Value::Bytes(mut packed)) => {
            let mut count = 0;
            while !packed.is_empty() {
                element(varint(&mut packed)?, datatype, before + count, out)?;
                count += 1;
            }
            Ok(count)
        }
        _ => Err(Flaw::malformed("is no varint on the wire, expected one")),
    }
}

/// Append an element that came as a varint; 32-bit fields are the varint's low half, as the format says.
#[inline(always)]
fn element(number: u64, datatype: Datatype, index: usize, out: &mut Vec<u8>) -> Found<()> {
    let (signed, unsigned) = (number as u32 as i32, number as u32);
    let refused = |value: i64| {
        let found = format!("found {}, expected a value of {}", value, datatype.name());
        Flaw::signature(found).within(format_args!("[{}]", index))
    };
    match datatype {
        Datatype::Bool => out.push(u8::from(number != 0)),
        Datatype::Int8 => out.push(i8::try_from(signed).map_err(|_| refused(signed.into()))? as u8),
        Datatype::Uint8 => out.push(u8::try_from(unsigned).map_err(|_| refused(unsigned.into()))?),
        Datatype::Int16 => {
            out.extend_from_slice(&i16::try_from(signed).map_err(|_| refused(signed.into()))?.to_le_bytes());
        }
        Datatype::Uint16 => {
            out.extend_from_slice(&u16::try_from(unsigned).map_err(|_| refused(unsigned.into()))?.to_le_bytes());
        }
        Datatype::Int32 | Datatype::Uint32 => out.extend_from_slice(&unsigned.to_le_bytes()),
        _ => out.extend_from_slice(&number.to_le_bytes()),
    }
    Ok(())
}
