//! The `data` of one input in JSON: read in one pass straight into the tensor's bytes, flat or nested.

use std::fmt::Write;

use crate::flaw::{excerpt, Flaw, Found};
use crate::json::Reader;
use crate::number::{self, Decimal, Half};
use crate::tensor::{Datatype, Tensor};

/// The most dimensions of a tensor.
pub const RANK: usize = 32;

/// How data are nested: as every level must be as long as its first array was, a length a level says everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nest {
    lengths: [usize; RANK],
    levels: usize,
}

impl Nest {
    /// Check that the shape says the same, or that the data are flat and as many.
    ///
    /// Errors: a signature's, about `data`.
    pub fn agrees(&self, shape: &[u64]) -> Found<()> {
        let lengths = &self.lengths[..self.levels];
        let same = lengths.len() <= shape.len() && lengths.iter().zip(shape).all(|(one, other)| *one as u64 == *other);
        // Below an empty level there is nothing that could show the others.
        let same = same && (lengths.len() == shape.len() || lengths.last() == Some(&0));
        if same || (lengths.len() == 1 && Tensor::elements(shape) == Some(lengths[0])) {
            return Ok(());
        }
        let wanted = Tensor::elements(shape).map_or_else(|| "too many".to_string(), |count| count.to_string());
        let found = match lengths {
            [one] => format!("{} elements", one),
            _ => format!("arrays of {:?}", lengths),
        };
        Err(Flaw::signature(format!("has {}, expected {} elements by the shape {:?}", found, wanted, shape)))
    }
}

const UNKNOWN: usize = usize::MAX;

/// Read the data of a datatype, and append the elements' bytes.
pub fn read(reader: &mut Reader, datatype: Datatype, out: &mut Vec<u8>) -> Found<Nest> {
    match datatype {
        Datatype::Bool => nested::<Bool>(reader, out),
        Datatype::Uint8 => nested::<u8>(reader, out),
        Datatype::Uint16 => nested::<u16>(reader, out),
        Datatype::Uint32 => nested::<u32>(reader, out),
        Datatype::Uint64 => nested::<u64>(reader, out),
        Datatype::Int8 => nested::<i8>(reader, out),
        Datatype::Int16 => nested::<i16>(reader, out),
        Datatype::Int32 => nested::<i32>(reader, out),
        Datatype::Int64 => nested::<i64>(reader, out),
        Datatype::Fp16 => nested::<Fp16>(reader, out),
        Datatype::Bf16 => nested::<Bf16>(reader, out),
        Datatype::Fp32 => nested::<f32>(reader, out),
        Datatype::Fp64 => nested::<f64>(reader, out),
        Datatype::Bytes => nested::<Text>(reader, out),
    }
}

/// One type of elements.
trait Element {
    /// Read one and append its bytes.
    fn read(reader: &mut Reader, out: &mut Vec<u8>) -> Found<()>;
}

fn nested<E: Element>(reader: &mut Reader, out: &mut Vec<u8>) -> Found<Nest> {
    let mut nest = Nest { lengths: [UNKNOWN; RANK], levels: 0 };
    let mut counts = [0usize; RANK];
    if !matches!(reader.peek(), b'[') {
        return Err(if reader.word(b"null") { Flaw::unusual() } else { reader.wrong("an array") });
    }
    let (mut depth, mut leaves) = (0, 0);
    loop {
        // Here a value begins: an array, or the elements of the innermost one.
        if reader.take(b'[') {
            if depth == RANK || (depth == leaves && leaves > 0) {
                return Err(ragged(&counts[..depth]));
            }
            counts[depth] = 0;
            depth += 1;
            nest.levels = nest.levels.max(depth);
            if reader.peek() != b']' {
                continue;
            }
        } else {
            if leaves != depth && leaves > 0 {
                return Err(ragged(&counts[..depth]));
            }
            leaves = depth;
            match elements::<E>(reader, out) {
                (count, Ok(())) => counts[depth - 1] = count,
                (count, Err(flaw)) => {
                    counts[depth - 1] = count;
                    return Err(flaw.within(place(&counts[..depth])));
                }
            }
        }
        // Here an array may end, and those around it.
        while reader.take(b']') {
            let length = &mut nest.lengths[depth - 1];
            if *length == UNKNOWN {
                *length = counts[depth - 1];
            } else if *length != counts[depth - 1] {
                return Err(ragged(&counts[..depth - 1]));
            }
            depth -= 1;
            if depth == 0 {
                return Ok(nest);
            }
            counts[depth - 1] += 1;
        }
        if !reader.take(b',') {
            return Err(reader.broken("',' or ']'").within(place(&counts[..depth])));
        }
    }
}

/// Read elements up to the array's end, which is left there; also says how many were read.
#[inline(always)]
fn elements<E: Element>(reader: &mut Reader, out: &mut Vec<u8>) -> (usize, Found<()>) {
    let mut count = 0;
    loop {
        if let Err(flaw) = E::read(reader, out) {
            return (count, Err(flaw));
        }
        count += 1;
        if reader.take(b',') {
            continue;
        }
        if reader.peek() == b']' {
            return (count, Ok(()));
        }
        return (count, Err(reader.broken("',' or ']'")));
    }
}

/// `[2][0]`
#[cold]
fn place(counts: &[usize]) -> String {
    counts.iter().fold(String::new(), |mut path, count| {
        // Writing to a string never fails.
        let _ = write!(path, "[{}]", count);
        path
    })
}

#[cold]
fn ragged(counts: &[usize]) -> Box<Flaw> {
    let found = "is ragged here, expected arrays of the same length at every level, and elements in the innermost only";
    Flaw::signature(found).within(place(counts))
}

/// A value that is no element: missing, or of another kind.
#[cold]
fn other(reader: &mut Reader, expected: &str) -> Box<Flaw> {
    if reader.word(b"null") {
        // Whether a value may be missing stands in the signature.
        return Flaw::unusual();
    }
    reader.wrong(expected)
}

/// Scan a number; the second is its text.
#[inline(always)]
fn scan<'a>(reader: &mut Reader<'a>, expected: &str) -> Found<(Decimal, &'a [u8])> {
    if !matches!(reader.peek(), b'0'..=b'9' | b'-') {
        return Err(other(reader, expected));
    }
    let (bytes, start) = (reader.bytes(), reader.at());
    match number::scan(bytes, start) {
        Ok(decimal) => {
            reader.go(decimal.end);
            Ok((decimal, &bytes[start..decimal.end]))
        }
        Err(at) => Err(Reader::new(bytes, at).broken("a digit")),
    }
}

macro_rules! integer {
    ($($kind:ty, $name:literal;)*) => {$(
        impl Element for $kind {
            #[inline(always)]
            fn read(reader: &mut Reader, out: &mut Vec<u8>) -> Found<()> {
                const EXPECTED: &str = concat!("an integer of ", $name);
                let (decimal, text) = scan(reader, EXPECTED)?;
                let value = if decimal.exact && decimal.whole {
                    let size = i128::from(decimal.mantissa);
                    <$kind>::try_from(if decimal.negative { -size } else { size }).ok()
                } else {
                    long(decimal, text)?.and_then(|value| <$kind>::try_from(value).ok())
                };
                match value {
                    Some(value) => {
                        out.extend_from_slice(&value.to_le_bytes());
                        Ok(())
                    }
                    None => Err(Flaw::signature(format!("found {}, expected {}", excerpt(text), EXPECTED))),
                }
            }
        }
    )*};
}

integer! {
    u8, "UINT8, 0 to 255";
    u16, "UINT16, 0 to 65535";
    u32, "UINT32, 0 to 4294967295";
    u64, "UINT64, 0 to 18446744073709551615";
    i8, "INT8, -128 to 127";
    i16, "INT16, -32768 to 32767";
    i32, "INT32, -2147483648 to 2147483647";
    i64, "INT64, -9223372036854775808 to 9223372036854775807";
}

/// An integer with more digits than the fast way takes, or written like a float; none where it has a fraction.
#[cold]
fn long(decimal: Decimal, text: &[u8]) -> Found<Option<i128>> {
    if decimal.whole {
        return Ok(std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()));
    }
    // Whether 1.0 is an integer is for Python to say.
    if decimal.fractional(text) {
        Ok(None)
    } else {
        Err(Flaw::unusual())
    }
}

/// `"NaN"`, `NaN` and the infinities; everything else is no float.
#[cold]
fn special(reader: &mut Reader, expected: &str) -> Found<f64> {
    const NAMES: [(&str, f64); 3] = [("NaN", f64::NAN), ("Infinity", f64::INFINITY), ("-Infinity", f64::NEG_INFINITY)];
    if reader.peek() == b'"' {
        let mut copy = reader.clone();
        let text = copy.string()?;
        if let Some((_, value)) = NAMES.iter().find(|(name, _)| *name == text) {
            *reader = copy;
            return Ok(*value);
        }
    } else if let Some((_, value)) = NAMES.iter().find(|(name, _)| reader.word(name.as_bytes())) {
        return Ok(*value);
    }
    Err(other(reader, expected))
}

/// The next byte begins a number and not `-Infinity`.
#[inline(always)]
fn numeric(reader: &mut Reader) -> bool {
    match reader.peek() {
        b'0'..=b'9' => true,
        b'-' => reader.bytes().get(reader.at() + 1) != Some(&b'I'),
        _ => false,
    }
}

macro_rules! float {
    ($($kind:ty, $name:literal, $from:expr, $round:expr, $infinite:expr;)*) => {$(
        impl Element for $kind {
            #[inline(always)]
            fn read(reader: &mut Reader, out: &mut Vec<u8>) -> Found<()> {
                const EXPECTED: &str = concat!("a number of ", $name);
                if !numeric(reader) {
                    out.extend_from_slice(&$from(special(reader, EXPECTED)?).to_le_bytes());
                    return Ok(());
                }
                let (decimal, text) = scan(reader, EXPECTED)?;
                let value = $round(decimal, text);
                if $infinite(value) {
                    // Whether a number beyond the type's largest is infinite is for Python to say.
                    return Err(Flaw::unusual());
                }
                out.extend_from_slice(&value.to_le_bytes());
                Ok(())
            }
        }
    )*};
}

/// FP16.
struct Fp16;
/// BF16.
struct Bf16;

float! {
    f32, "FP32", |value| value as f32, Decimal::to_f32, f32::is_infinite;
    f64, "FP64", |value: f64| value, Decimal::to_f64, f64::is_infinite;
    Fp16, "FP16", |value| Half::Fp16.narrow(value), |one: Decimal, text| one.to_half(text, Half::Fp16),
        |bits| bits & 0x7fff == 0x7c00;
    Bf16, "BF16", |value| Half::Bf16.narrow(value), |one: Decimal, text| one.to_half(text, Half::Bf16),
        |bits| bits & 0x7fff == 0x7f80;
}

/// BOOL.
struct Bool;

impl Element for Bool {
    fn read(reader: &mut Reader, out: &mut Vec<u8>) -> Found<()> {
        const EXPECTED: &str = "true or false";
        if reader.word(b"true") {
            out.push(1);
        } else if reader.word(b"false") {
            out.push(0);
        } else {
            let (decimal, text) = scan(reader, EXPECTED)?;
            if !decimal.whole || !decimal.exact || decimal.mantissa > u64::from(!decimal.negative) {
                return Err(Flaw::signature(format!("found {}, expected {}", excerpt(text), EXPECTED)));
            }
            out.push(decimal.mantissa as u8);
        }
        Ok(())
    }
}

/// BYTES.
struct Text;

impl Element for Text {
    fn read(reader: &mut Reader, out: &mut Vec<u8>) -> Found<()> {
        match reader.peek() {
            b'"' => (),
            // Some fields take numbers and truths as well as texts.
            b'0'..=b'9' | b'-' | b't' | b'f' => return reader.skip().and_then(|_| Err(Flaw::unusual())),
            _ => return Err(other(reader, "a string")),
        }
        let text = reader.string()?;
        let length = u32::try_from(text.len()).map_err(|_| Flaw::signature("found a string of more than 4 GiB"))?;
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(text.as_bytes());
        Ok(())
    }
}
