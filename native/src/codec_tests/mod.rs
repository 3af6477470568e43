//! Tests of the codec, and what they share.

mod fuzz;
mod grpc;
mod malformed_grpc;
mod malformed_rest;
mod numbers;
mod pieces;
mod rest;
mod round_trips;

use std::time::Instant;

use crate::fault::Fault;
use crate::infer::{Decoded, Infer};
use crate::oip_rest;
use crate::protobuf::{write_bytes, write_length, write_varint};
use crate::service::{Head, Wire};
use crate::tensor::{Datatype, Tensor};

/// A head with these headers.
pub fn head(headers: &[(&str, &str)]) -> Head {
    Head {
        wire: Wire::Http,
        method: "POST".into(),
        path: "/v2/models/m/infer".into(),
        query: String::new(),
        headers: headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        peer: [127, 0, 0, 1].into(),
        arrived: Instant::now(),
    }
}

/// Decode a REST body without headers.
pub fn rest(body: impl AsRef<[u8]>) -> Result<Decoded, Fault> {
    oip_rest::decode("m", "1", &head(&[]), body.as_ref())
}

/// The request that was decoded; everything else fails the test.
pub fn request(decoded: Result<Decoded, Fault>) -> Infer {
    match decoded {
        Ok(Decoded::Infer(infer)) => *infer,
        other => panic!("expected a request, found {:?}", other),
    }
}

/// A REST body of one input.
pub fn input(datatype: &str, shape: &str, data: &str) -> String {
    format!(r#"{{"inputs":[{{"name":"x","datatype":"{}","shape":{},"data":{}}}]}}"#, datatype, shape, data)
}

/// A tensor's bytes by REST.
pub fn bytes(datatype: &str, shape: &str, data: &str) -> Vec<u8> {
    request(rest(input(datatype, shape, data))).inputs.remove(0).data
}

/// A message of fields of bytes.
pub fn message(fields: &[(u32, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    fields.iter().for_each(|(number, bytes)| write_bytes(&mut out, *number, bytes));
    out
}

/// A packed list of varints.
pub fn packed(values: &[i64]) -> Vec<u8> {
    let mut out = Vec::new();
    values.iter().for_each(|value| write_varint(&mut out, *value as u64));
    out
}

/// A `ModelInferRequest` of one input and its `contents`, if any, and of raw contents.
pub fn grpc_request(datatype: &str, shape: &[i64], contents: Option<&[u8]>, raw: &[&[u8]]) -> Vec<u8> {
    let mut input = message(&[(1, b"x"), (2, datatype.as_bytes()), (3, &packed(shape))]);
    if let Some(contents) = contents {
        write_bytes(&mut input, 5, contents);
    }
    let mut out = message(&[(1, b"m"), (5, &input)]);
    raw.iter().for_each(|raw| write_bytes(&mut out, 7, raw));
    out
}

/// A random generator, the same on every machine (xorshift64*, G. Marsaglia and S. Vigna).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 11) as usize % bound
    }

    /// A tensor of any shape of up to three dimensions, with any bits as its elements.
    pub fn tensor(&mut self, datatype: Datatype) -> Tensor {
        let rank = 1 + self.below(3);
        let shape: Vec<u64> = (0..rank).map(|_| self.below(5) as u64).collect();
        let count = Tensor::elements(&shape).expect("a small shape");
        let mut data = Vec::new();
        for _ in 0..count {
            match datatype {
                Datatype::Bytes => self.text(&mut data),
                Datatype::Bool => data.push(self.below(2) as u8),
                _ => data.extend_from_slice(&self.element()[..datatype.size()]),
            }
        }
        Tensor { name: format!("input {} \"\u{e9}\u{1f600}\\", self.below(9)), datatype, shape, data }
    }

    /// Any bits, or (often) a small number as an integer or a double.
    fn element(&mut self) -> [u8; 8] {
        match self.below(4) {
            0 => (self.below(200) as i64 - 100).to_le_bytes(),
            1 => (self.below(1000) as f64 / 64.0).to_le_bytes(),
            _ => self.next().to_le_bytes(),
        }
    }

    fn text(&mut self, data: &mut Vec<u8>) {
        const PIECES: [&str; 10] =
            ["", "a", "\"", "\\", "\u{1}", "\n", "\u{e9}", "\u{ffff}", "\u{1f600}", "plain text"];
        let text: String = (0..self.below(4)).map(|_| PIECES[self.below(PIECES.len())]).collect();
        data.extend_from_slice(&(text.len() as u32).to_le_bytes());
        data.extend_from_slice(text.as_bytes());
    }
}

/// One BYTES element a text.
pub fn texts(texts: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for text in texts {
        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    }
    out
}

/// A map entry: a key and an `InferParameter`.
pub fn entry(key: &str, value: &[u8]) -> Vec<u8> {
    message(&[(1, key.as_bytes()), (2, value)])
}

/// A field that is a varint.
pub fn varint_field(number: u32, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    write_varint(&mut out, u64::from(number) << 3);
    write_varint(&mut out, value);
    out
}

/// A field of bytes whose length is a lie.
pub fn lie(number: u32, length: usize) -> Vec<u8> {
    let mut out = Vec::new();
    write_length(&mut out, number, length);
    out
}
