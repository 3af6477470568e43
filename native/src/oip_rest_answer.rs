//! The Open Inference Protocol over REST: answers, in JSON or with Triton's binary tensors, and errors.

use std::io::Write;

use crate::fault::{Fault, Kind};
use crate::infer::{Form, Wanted};
use crate::json::write_string;
use crate::number::{write_i64, write_u64, Half};
use crate::rows::{element, Lend, View};
use crate::service::Response;
use crate::shortest;
use crate::tensor::Datatype;

/// Headers and body.
pub type Answer = (Vec<(String, String)>, Vec<u8>);

/// Encode an answer to a request for inference.
///
/// `outputs` are tensors or views, in the order in which they are answered. Each is binary where its entry in `wanted`
/// says so, or else where `form` does. `id` and `digest` are left out where they are empty.
///
/// Errors: `Signature` where BYTES that are no text were asked for in JSON.
pub fn encode<T: Lend>(
    model: &str,
    version: &str,
    id: &str,
    digest: &str,
    outputs: &[T],
    wanted: &[Wanted],
    form: Form,
) -> Result<Answer, Fault> {
    let mut body = Vec::with_capacity(256 + outputs.iter().map(|output| estimate(output.lend())).sum::<usize>());
    body.extend_from_slice(b"{\"model_name\":");
    write_string(&mut body, model);
    body.extend_from_slice(b",\"model_version\":");
    write_string(&mut body, version);
    if !id.is_empty() {
        body.extend_from_slice(b",\"id\":");
        write_string(&mut body, id);
    }
    if !digest.is_empty() {
        body.extend_from_slice(b",\"parameters\":{\"digest\":");
        write_string(&mut body, digest);
        body.push(b'}');
    }
    body.extend_from_slice(b",\"outputs\":[");
    let mut some_binary = false;
    for (index, output) in outputs.iter().map(Lend::lend).enumerate() {
        if index > 0 {
            body.push(b',');
        }
        let binary = is_binary(wanted, index, output.name, form);
        some_binary |= binary;
        write_output(&mut body, output, binary)?;
    }
    body.extend_from_slice(b"]}");
    let json = body.len();
    for (index, output) in outputs.iter().map(Lend::lend).enumerate() {
        if is_binary(wanted, index, output.name, form) {
            body.extend_from_slice(output.data);
        }
    }
    Ok((headers(some_binary, json), body))
}

/// Encode an error.
pub fn encode_fault(fault: &Fault) -> Response {
    let mut body = b"{\"error\":".to_vec();
    write_string(&mut body, &fault.message);
    body.push(b'}');
    let mut headers = headers(false, 0);
    if matches!(fault.kind, Kind::Busy | Kind::Unavailable) {
        headers.push(("retry-after".to_string(), fault.retry_after.to_string()));
    }
    // RFC 9110, 15.5.2, wants it with every 401; `vitrify.serve.planes.dispatch` says the same.
    if fault.kind == Kind::Authentication {
        headers.push(("www-authenticate".to_string(), "Bearer realm=\"vitrify\"".to_string()));
    }
    Response::Http { status: fault.kind.codes().0, headers, body }
}

fn headers(binary: bool, json: usize) -> Vec<(String, String)> {
    let content = if binary { "application/octet-stream" } else { "application/json" };
    let mut headers = Vec::with_capacity(4);
    headers.push(("content-type".to_string(), content.to_string()));
    if binary {
        headers.push(("inference-header-content-length".to_string(), json.to_string()));
    }
    headers
}

/// What an output has to be; mostly its request is at the same place.
fn is_binary(wanted: &[Wanted], index: usize, name: &str, form: Form) -> bool {
    let same = wanted.get(index).filter(|one| one.name == name);
    let asked = same.or_else(|| wanted.iter().find(|one| one.name == name)).and_then(|one| one.binary);
    asked.unwrap_or(form == Form::Rest { binary: true })
}

/// About how many bytes an output takes.
fn estimate(output: View) -> usize {
    const TEXT: [usize; 14] = [6, 4, 6, 11, 21, 5, 7, 12, 21, 11, 11, 14, 22, 0];
    let elements = output.data.len() / output.datatype.size().max(1);
    128 + output.data.len().max(elements.saturating_mul(TEXT[output.datatype as usize]))
}

fn write_output(body: &mut Vec<u8>, output: View, binary: bool) -> Result<(), Fault> {
    body.extend_from_slice(b"{\"name\":");
    write_string(body, output.name);
    body.extend_from_slice(b",\"datatype\":\"");
    body.extend_from_slice(output.datatype.name().as_bytes());
    body.extend_from_slice(b"\",\"shape\":");
    write_list(body, output.shape.iter(), |body, size| write_u64(body, *size));
    if binary {
        body.extend_from_slice(b",\"parameters\":{\"binary_data_size\":");
        write_u64(body, output.data.len() as u64);
        body.extend_from_slice(b"}}");
        return Ok(());
    }
    body.extend_from_slice(b",\"data\":");
    write_data(body, output)?;
    body.push(b'}');
    Ok(())
}

fn write_list<T>(body: &mut Vec<u8>, items: impl Iterator<Item = T>, mut one: impl FnMut(&mut Vec<u8>, T)) {
    body.push(b'[');
    for (index, item) in items.enumerate() {
        if index > 0 {
            body.push(b',');
        }
        one(body, item);
    }
    body.push(b']');
}

/// Write the elements of one type; each is made of so many bytes.
fn write_each<const SIZE: usize>(body: &mut Vec<u8>, data: &[u8], one: impl Fn(&mut Vec<u8>, [u8; SIZE])) {
    write_list(body, data.chunks_exact(SIZE), |body, chunk| {
        let mut bytes = [0; SIZE];
        bytes.copy_from_slice(chunk);
        one(body, bytes);
    });
}

fn write_data(body: &mut Vec<u8>, output: View) -> Result<(), Fault> {
    let data = output.data;
    match output.datatype {
        Datatype::Bool => write_each(body, data, |body, [byte]| {
            body.extend_from_slice(if byte == 0 { &b"false"[..] } else { b"true" });
        }),
        Datatype::Uint8 => write_each(body, data, |body, [byte]| write_u64(body, byte.into())),
        Datatype::Uint16 => write_each(body, data, |body, bytes| write_u64(body, u16::from_le_bytes(bytes).into())),
        Datatype::Uint32 => write_each(body, data, |body, bytes| write_u64(body, u32::from_le_bytes(bytes).into())),
        Datatype::Uint64 => write_each(body, data, |body, bytes| write_u64(body, u64::from_le_bytes(bytes))),
        Datatype::Int8 => write_each(body, data, |body, bytes| write_i64(body, i8::from_le_bytes(bytes).into())),
        Datatype::Int16 => write_each(body, data, |body, bytes| write_i64(body, i16::from_le_bytes(bytes).into())),
        Datatype::Int32 => write_each(body, data, |body, bytes| write_i64(body, i32::from_le_bytes(bytes).into())),
        Datatype::Int64 => write_each(body, data, |body, bytes| write_i64(body, i64::from_le_bytes(bytes))),
        Datatype::Fp16 => write_each(body, data, |body, bytes| write_half(body, bytes, Half::Fp16)),
        Datatype::Bf16 => write_each(body, data, |body, bytes| write_half(body, bytes, Half::Bf16)),
        Datatype::Fp32 => write_each(body, data, |body, bytes| write_f32(body, f32::from_le_bytes(bytes))),
        Datatype::Fp64 => write_each(body, data, |body, bytes| write_f64(body, f64::from_le_bytes(bytes))),
        Datatype::Bytes => return write_texts(body, output),
    }
    Ok(())
}

fn write_texts(body: &mut Vec<u8>, output: View) -> Result<(), Fault> {
    let (mut at, mut index) = (0, 0);
    body.push(b'[');
    while at < output.data.len() {
        let broken = || Fault::new(Kind::Internal, format!("output {}: element {} is cut off", output.name, index));
        let (text, next) = element(output.data, at).ok_or_else(broken)?;
        let text = std::str::from_utf8(text).map_err(|_| {
            let found = format!("output {}: element {} is no UTF-8 text, which JSON cannot hold", output.name, index);
            Fault::new(Kind::Signature, found + "; ask for binary_data")
        })?;
        if index > 0 {
            body.push(b',');
        }
        write_string(body, text);
        at = next;
        index += 1;
    }
    body.push(b']');
    Ok(())
}

/// What JSON has no number for.
#[cold]
fn write_special(body: &mut Vec<u8>, value: f64) {
    body.extend_from_slice(match value {
        value if value.is_nan() => &b"\"NaN\""[..],
        value if value > 0.0 => b"\"Infinity\"",
        _ => b"\"-Infinity\"",
    });
}

/// The shortest text that reads back as the same single; with an exponent where it is far from one.
fn write_f32(body: &mut Vec<u8>, value: f32) {
    if shortest::write_f32(body, value) {
        return;
    }
    let size = value.abs();
    // Writing to memory never fails.
    let _ = match value {
        _ if !value.is_finite() => return write_special(body, value.into()),
        _ if size == 0.0 || (1e-4..1e16).contains(&size) => write!(body, "{:?}", value),
        _ => write!(body, "{:e}", value),
    };
}

/// The same for a double.
fn write_f64(body: &mut Vec<u8>, value: f64) {
    let size = value.abs();
    // Writing to memory never fails.
    let _ = match value {
        _ if !value.is_finite() => return write_special(body, value),
        _ if size == 0.0 || (1e-4..1e16).contains(&size) => write!(body, "{:?}", value),
        _ => write!(body, "{:e}", value),
    };
}

/// The shortest text that reads back as the same half: the first length of digits that does.
fn write_half(body: &mut Vec<u8>, bytes: [u8; 2], kind: Half) {
    let bits = u16::from_le_bytes(bytes);
    let value = kind.widen(bits);
    let digits = 0..5usize;
    let shortest = digits
        .filter_map(|digits| format!("{:.*e}", digits, value).parse::<f64>().ok())
        .find(|short| kind.narrow(*short) == bits);
    match shortest {
        Some(short) if value.is_finite() => write_f64(body, short),
        _ => write_f32(body, value),
    }
}
