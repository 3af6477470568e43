//! The Open Inference Protocol over gRPC: `inference.ModelInferRequest` and `inference.ModelInferResponse`.
//!
//! Source: <https://github.com/kserve/open-inference-protocol> `specification/protocol/open_inference_grpc.proto`, and
//! Triton's parameters. What needs more than a tensor is `Unusual`: Python knows.

use crate::fault::Fault;
use crate::flaw::{excerpt, Flaw, Found};
use crate::infer::{Decoded, Form, Infer, Wanted};
use crate::json_values::LIST;
use crate::oip_grpc_contents as contents;
use crate::oip_rest_data::RANK;
use crate::oip_rest_input::unknown;
use crate::protobuf::{bytes_size, varint, varint_size, write_bytes, write_length, write_text, write_varint};
use crate::protobuf::{Fields, Value};
use crate::rows::{check_raw, Lend, View};
use crate::service::Head;
use crate::tensor::{Datatype, Tensor};
use crate::timeout;

/// Decode a `ModelInferRequest`.
///
/// Memory: a small multiple of the message (eight bytes an element of one), whatever the shapes say.
///
/// Errors: `Malformed` where the message is not of the format, `Signature` where a value does not fit its field. Both
/// name the field.
pub fn decode(head: &Head, message: &[u8]) -> Result<Decoded, Fault> {
    request(head, message).or_else(|flaw| flaw.told())
}

fn request(head: &Head, message: &[u8]) -> Found<Decoded> {
    let mut request = Request::default();
    for field in Fields::new(message) {
        let (number, value) = field?;
        request.field(number, value)?;
    }
    let limit = head.header("grpc-timeout").map_or(0, timeout::from_grpc);
    let other = head.header("x-request-timeout-ms").map_or(0, timeout::from_header);
    let Request { model, version, id, priority, timeout, inputs, wanted, raw } = request;
    Ok(Decoded::Infer(Box::new(Infer {
        model: model.to_string(),
        version: version.to_string(),
        id: id.to_string(),
        inputs: tensors(inputs, &raw)?,
        wanted,
        form: Form::Grpc,
        priority,
        timeout_us: timeout::smaller(timeout::smaller(limit, other), timeout),
    })))
}

#[derive(Default)]
struct Request<'a> {
    model: &'a str,
    version: &'a str,
    id: &'a str,
    priority: u32,
    timeout: u64,
    inputs: Vec<Input<'a>>,
    wanted: Vec<Wanted>,
    raw: Vec<&'a [u8]>,
}

impl<'a> Request<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Found<()> {
        match number {
            1 => self.model = value.text().map_err(|flaw| flaw.within("model_name"))?,
            2 => self.version = value.text().map_err(|flaw| flaw.within("model_version"))?,
            3 => self.id = value.text().map_err(|flaw| flaw.within("id"))?,
            4 => self.parameter(value).map_err(|flaw| flaw.within("parameters"))?,
            5 if self.inputs.len() == LIST => return Err(Flaw::unusual()),
            6 if self.wanted.len() == LIST => return Err(Flaw::unusual()),
            5 => {
                let index = self.inputs.len();
                let input = Input::read(value).map_err(|flaw| flaw.within(format_args!("inputs[{}]", index)))?;
                self.inputs.push(input);
            }
            6 => {
                let index = self.wanted.len();
                let wanted = output(value).map_err(|flaw| flaw.within(format_args!("outputs[{}]", index)))?;
                self.wanted.push(wanted);
            }
            7 if self.raw.len() == LIST => return Err(Flaw::unusual()),
            7 => self.raw.push(value.bytes().map_err(|flaw| flaw.within("raw_input_contents"))?),
            _ => (),
        }
        Ok(())
    }

    fn parameter(&mut self, entry: Value<'a>) -> Found<()> {
        let (key, value) = parameter(entry)?;
        match key {
            "timeout" => self.timeout = whole(value).map_err(|flaw| flaw.within(".timeout"))?,
            "priority" => {
                let flaw = || Flaw::signature(format!("is beyond {}", u32::MAX));
                let priority = whole(value).and_then(|priority| u32::try_from(priority).map_err(|_| flaw()));
                self.priority = priority.map_err(|flaw| flaw.within(".priority"))?;
            }
            _ => return Err(Flaw::unusual()),
        }
        Ok(())
    }
}

/// One input, not yet joined with its bytes.
#[derive(Default)]
struct Input<'a> {
    name: &'a str,
    datatype: Option<Datatype>,
    shape: Vec<u64>,
    /// Mostly one; where a message comes more than once, its occurrences count as one.
    contents: Vec<&'a [u8]>,
}

impl<'a> Input<'a> {
    fn read(value: Value<'a>) -> Found<Input<'a>> {
        let mut input = Input { shape: Vec::with_capacity(4), ..Input::default() };
        for field in Fields::new(value.bytes()?) {
            let (number, value) = field?;
            match number {
                1 => input.name = value.text().map_err(|flaw| flaw.within(".name"))?,
                2 => {
                    let name = value.text().map_err(|flaw| flaw.within(".datatype"))?;
                    let datatype = Datatype::parse(name).ok_or_else(|| unknown(name).within(".datatype"))?;
                    input.datatype = Some(datatype);
                }
                3 => dimensions(value, &mut input.shape).map_err(|flaw| flaw.within(".shape"))?,
                4 => {
                    parameter(value).map_err(|flaw| flaw.within(".parameters"))?;
                    return Err(Flaw::unusual());
                }
                5 => {
                    let message = value.bytes().map_err(|flaw| flaw.within(".contents"))?;
                    // One that says nothing would take more memory than it has bytes.
                    if !contents::say_nothing(message) {
                        input.contents.push(message);
                    }
                }
                _ => (),
            }
        }
        if input.name.is_empty() {
            return Err(Flaw::signature("missing").within(".name"));
        }
        Ok(input)
    }

    /// Make the tensor; `raw` are its bytes where they came so.
    fn tensor(self, raw: Option<&[u8]>) -> Found<Tensor> {
        let datatype = self.datatype.ok_or_else(|| Flaw::signature("missing").within(".datatype"))?;
        let expected = Tensor::elements(&self.shape)
            .ok_or_else(|| Flaw::signature(format!("{:?} is beyond all memory", self.shape)).within(".shape"))?;
        let data = match raw {
            Some(raw) => {
                check_raw(datatype, &self.shape, raw)
                    .map_err(|found| Flaw::signature(found).within(".raw_input_contents"))?;
                raw.to_vec()
            }
            None => {
                let mut data = Vec::new();
                let mut count = 0;
                for message in &self.contents {
                    let read = contents::read(message, datatype, expected, &mut data);
                    count += read.map_err(|flaw| flaw.within(".contents"))?;
                }
                if count != expected {
                    let found = format!("has {} elements, expected {} by the shape {:?}", count, expected, self.shape);
                    return Err(Flaw::signature(found).within(".contents"));
                }
                data
            }
        };
        Ok(Tensor { name: self.name.to_string(), datatype, shape: self.shape, data })
    }
}

/// Join the inputs with their bytes: all of them have them in `raw_input_contents`, or none.
fn tensors(inputs: Vec<Input>, raw: &[&[u8]]) -> Found<Vec<Tensor>> {
    if !raw.is_empty() && raw.len() != inputs.len() {
        let found = format!("has {} entries, expected one for each of the {} inputs", raw.len(), inputs.len());
        return Err(Flaw::signature(found).within("raw_input_contents"));
    }
    let mut tensors = Vec::with_capacity(inputs.len());
    for (index, input) in inputs.into_iter().enumerate() {
        let bytes = raw.get(index).copied();
        if bytes.is_some() && !input.contents.is_empty() {
            let found = "is set beside raw_input_contents, expected one of them";
            return Err(Flaw::signature(found).within(format_args!("inputs[{}].contents", index)));
        }
        let tensor = input.tensor(bytes);
        tensors.push(tensor.map_err(|flaw| flaw.within(format_args!("inputs[{}]", index)))?);
    }
    Ok(tensors)
}

/// One dimension, or all of them packed.
fn dimensions(value: Value, shape: &mut Vec<u64>) -> Found<()> {
    match value {
        Value::Varint(size) => dimension(size, shape),
        Value::Bytes(mut packed) => {
            while !packed.is_empty() {
                dimension(varint(&mut packed)?, shape)?;
            }
            Ok(())
        }
        _ => Err(Flaw::malformed("is no varint on the wire, expected one")),
    }
}

fn dimension(size: u64, shape: &mut Vec<u64>) -> Found<()> {
    if shape.len() == RANK {
        return Err(Flaw::signature(format!("has more than {} dimensions", RANK)));
    }
    if size > i64::MAX as u64 {
        return Err(Flaw::signature(format!("found {}, expected no negative size", size as i64)));
    }
    shape.push(size);
    Ok(())
}

fn output(value: Value) -> Found<Wanted> {
    let mut name = "";
    for field in Fields::new(value.bytes()?) {
        let (number, value) = field?;
        match number {
            1 => name = value.text().map_err(|flaw| flaw.within(".name"))?,
            2 => {
                parameter(value).map_err(|flaw| flaw.within(".parameters"))?;
                return Err(Flaw::unusual());
            }
            _ => (),
        }
    }
    if name.is_empty() {
        return Err(Flaw::signature("missing").within(".name"));
    }
    Ok(Wanted { name: name.to_string(), binary: None })
}

/// One entry of a map of parameters: its key, and the message `InferParameter`.
fn parameter(entry: Value<'_>) -> Found<(&str, &[u8])> {
    let (mut key, mut value): (&str, &[u8]) = ("", b"");
    for field in Fields::new(entry.bytes()?) {
        let (number, field) = field?;
        match number {
            1 => key = field.text()?,
            2 => value = field.bytes()?,
            _ => (),
        }
    }
    Ok((key, value))
}

/// The whole number that an `InferParameter` holds, as a number or in digits. Of several choices the last counts.
fn whole(message: &[u8]) -> Found<u64> {
    let mut found = Err(Flaw::signature("is no whole number, expected int64_param, uint64_param or string_param"));
    for field in Fields::new(message) {
        let (number, value) = field?;
        found = match number {
            2 | 5 => {
                let value = value.varint()?;
                let negative = number == 2 && value > i64::MAX as u64;
                let flaw = || Flaw::signature(format!("found {}, expected no negative number", value as i64));
                Some(value).filter(|_| !negative).ok_or_else(flaw)
            }
            3 => {
                let text = value.text()?;
                let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                let flaw =
                    || Flaw::signature(format!("found \"{}\", expected a whole number", excerpt(text.as_bytes())));
                text.parse().ok().filter(|_| digits).ok_or_else(flaw)
            }
            1 | 4 => Err(Flaw::signature("found another kind of parameter, expected a whole number")),
            _ => found,
        };
    }
    found
}

/// Encode a `ModelInferResponse`. Outputs are tensors or views; their bytes go into `raw_output_contents`.
pub fn encode<T: Lend>(model: &str, version: &str, id: &str, digest: &str, outputs: &[T]) -> Vec<u8> {
    let data: usize = outputs.iter().map(|output| bytes_size(output.lend().data.len())).sum();
    let heads: usize = outputs.iter().map(|output| bytes_size(output_size(output.lend()))).sum();
    let texts: usize = [model, version, id].iter().map(|text| bytes_size(text.len())).sum();
    let mut out = Vec::with_capacity(data + heads + texts + bytes_size(bytes_size(digest.len()) + 16));
    write_text(&mut out, 1, model);
    write_text(&mut out, 2, version);
    write_text(&mut out, 3, id);
    if !digest.is_empty() {
        const KEY: &str = "digest";
        let value = bytes_size(digest.len());
        write_length(&mut out, 4, bytes_size(KEY.len()) + bytes_size(value));
        write_bytes(&mut out, 1, KEY.as_bytes());
        write_length(&mut out, 2, value);
        write_bytes(&mut out, 3, digest.as_bytes());
    }
    for output in outputs.iter().map(Lend::lend) {
        write_length(&mut out, 5, output_size(output));
        write_bytes(&mut out, 1, output.name.as_bytes());
        write_bytes(&mut out, 2, output.datatype.name().as_bytes());
        write_length(&mut out, 3, shape_size(output.shape));
        output.shape.iter().for_each(|size| write_varint(&mut out, *size));
    }
    for output in outputs.iter().map(Lend::lend) {
        write_bytes(&mut out, 6, output.data);
    }
    out
}

/// Bytes of an `InferOutputTensor`.
fn output_size(output: View) -> usize {
    let texts = bytes_size(output.name.len()) + bytes_size(output.datatype.name().len());
    texts + bytes_size(shape_size(output.shape))
}

fn shape_size(shape: &[u64]) -> usize {
    shape.iter().map(|size| varint_size(*size)).sum()
}
