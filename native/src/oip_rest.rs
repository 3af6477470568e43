//! The Open Inference Protocol over REST, with Triton's binary tensors: requests for inference.
//!
//! Sources: <https://github.com/kserve/open-inference-protocol> `specification/protocol/inference_rest.md`,
//! <https://github.com/triton-inference-server/server> `docs/protocol/extension_binary_data.md`. What neither says, or
//! what needs more than a tensor (classification, sequences, shared memory), is `Unusual`: Python knows.

use crate::fault::Fault;
use crate::flaw::{excerpt, Flaw, Found};
use crate::infer::{Decoded, Form, Infer, Wanted};
use crate::json::Reader;
use crate::json_values::{each, optional, parameters, truth, whole};
pub use crate::oip_rest_answer::{encode, encode_fault};
use crate::oip_rest_input as input;
use crate::service::Head;
use crate::tensor::Tensor;
use crate::timeout;

/// Decode the body of `POST /v2/models/{model}[/versions/{version}]/infer`.
///
/// Memory: a small multiple of the body (eight bytes an element of two), whatever the shapes say.
///
/// Errors: `Malformed` where the body is not of the format, `Signature` where a value does not fit its field. Both
/// name the field.
pub fn decode(model: &str, version: &str, head: &Head, body: &[u8]) -> Result<Decoded, Fault> {
    request(model, version, head, body).or_else(|flaw| flaw.told())
}

fn request(model: &str, version: &str, head: &Head, body: &[u8]) -> Found<Decoded> {
    if matches!(head.header("content-encoding"), Some(coding) if !coding.eq_ignore_ascii_case("identity")) {
        return Err(Flaw::unusual());
    }
    let (json, mut raw) = split(head, body)?;
    let mut request = Request::default();
    let mut reader = Reader::new(json, 0);
    reader.object(|reader, key| request.field(reader, key))?;
    reader.end()?;
    let mut inputs =
        request.inputs.ok_or_else(|| Flaw::signature("missing, expected a list of inputs").within("inputs"))?;
    for (index, size) in request.sizes {
        raw = input::fill(&mut inputs[index], size, raw)
            .map_err(|flaw| flaw.within(format_args!("inputs[{}].parameters.binary_data_size", index)))?;
    }
    if !raw.is_empty() {
        let found = format!("the body has {} bytes more than the JSON and the inputs' binary_data_size say", raw.len());
        return Err(Flaw::malformed(found));
    }
    let limit = head.header("x-request-timeout-ms").map_or(0, timeout::from_header);
    Ok(Decoded::Infer(Box::new(Infer {
        model: model.to_string(),
        version: version.to_string(),
        id: request.id,
        inputs,
        wanted: request.wanted,
        form: Form::Rest { binary: request.binary },
        priority: request.priority,
        timeout_us: timeout::smaller(limit, request.timeout),
    })))
}

/// The JSON, and what follows it.
fn split<'a>(head: &Head, body: &'a [u8]) -> Found<(&'a [u8], &'a [u8])> {
    const NAME: &str = "inference-header-content-length";
    let text = match head.header(NAME) {
        None => return Ok((body, b"")),
        Some(text) => text.trim(),
    };
    let length = text.parse::<usize>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    match length {
        // A raw request: its one input is described by the model only.
        Some(0) => Err(Flaw::unusual()),
        Some(length) if length <= body.len() => Ok(body.split_at(length)),
        _ => {
            let found = excerpt(text.as_bytes());
            let found = format!("found {}, expected the length of the JSON in a body of {} bytes", found, body.len());
            Err(Flaw::malformed(found).within(format_args!("header {}", NAME)))
        }
    }
}

#[derive(Default)]
struct Request {
    id: String,
    inputs: Option<Vec<Tensor>>,
    /// Which inputs lie in the binary part, and how many bytes each.
    sizes: Vec<(usize, usize)>,
    wanted: Vec<Wanted>,
    binary: bool,
    priority: u32,
    timeout: u64,
}

impl Request {
    fn field(&mut self, reader: &mut Reader, key: &str) -> Found<()> {
        match key {
            "id" => optional(reader, |reader| {
                self.id = reader.string()?.into_owned();
                Ok(())
            })
            .map_err(|flaw| flaw.within("id")),
            "inputs" => {
                let mut inputs = Vec::new();
                each(reader, "inputs", |reader| {
                    let (tensor, size) = input::read(reader)?;
                    self.sizes.extend(size.map(|size| (inputs.len(), size)));
                    inputs.push(tensor);
                    Ok(())
                })?;
                self.inputs = Some(inputs);
                Ok(())
            }
            "outputs" => optional(reader, |reader| {
                each(reader, "outputs", |reader| {
                    self.wanted.push(output(reader)?);
                    Ok(())
                })
            }),
            "parameters" => parameters(reader, |reader, key| self.parameter(reader, key)),
            _ => reader.skip(),
        }
    }

    fn parameter(&mut self, reader: &mut Reader, key: &str) -> Found<()> {
        match key {
            "timeout" => self.timeout = whole(reader, true)?,
            "priority" => self.priority = u32::try_from(whole(reader, true)?).unwrap_or(u32::MAX),
            "binary_data_output" => self.binary = truth(reader)?.unwrap_or(false),
            _ => return Err(Flaw::unusual()),
        }
        Ok(())
    }
}

fn output(reader: &mut Reader) -> Found<Wanted> {
    let (mut name, mut binary) = (None, None);
    reader.object(|reader, key| match key {
        "name" => {
            name = Some(reader.string().map_err(|flaw| flaw.within(".name"))?.into_owned());
            Ok(())
        }
        "parameters" => parameters(reader, |reader, key| match key {
            "binary_data" => {
                binary = truth(reader)?;
                Ok(())
            }
            _ => Err(Flaw::unusual()),
        }),
        _ => reader.skip(),
    })?;
    let name = name.ok_or_else(|| Flaw::signature("missing").within(".name"))?;
    Ok(Wanted { name, binary })
}
