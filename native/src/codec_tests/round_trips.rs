//! Random tensors of every datatype come back from what is encoded. An answer's outputs are written as a request's
//! inputs are, but for the name of the list.

use super::{head, request, Random};
use crate::infer::{Decoded, Form};
use crate::number::Half;
use crate::oip_grpc;
use crate::oip_rest::{decode, encode};
use crate::protobuf::{write_bytes, Fields};
use crate::tensor::{Datatype, Tensor};

const ROUNDS: usize = 60;

/// Replace what every NaN holds by the same: JSON has only one.
fn canonical(mut tensor: Tensor) -> Tensor {
    let half = |bytes: &[u8]| u16::from_le_bytes(bytes.try_into().expect("two bytes"));
    let datatype = tensor.datatype;
    for element in tensor.data.chunks_exact_mut(datatype.size().max(1)) {
        match datatype {
            Datatype::Fp64 if f64::from_le_bytes(element.try_into().expect("eight bytes")).is_nan() => {
                element.copy_from_slice(&f64::NAN.to_le_bytes());
            }
            Datatype::Fp32 if f32::from_le_bytes(element.try_into().expect("four bytes")).is_nan() => {
                element.copy_from_slice(&f32::NAN.to_le_bytes());
            }
            Datatype::Fp16 if Half::Fp16.widen(half(element)).is_nan() => element.copy_from_slice(&[0, 0x7e]),
            Datatype::Bf16 if Half::Bf16.widen(half(element)).is_nan() => element.copy_from_slice(&[0xc0, 0x7f]),
            _ => (),
        }
    }
    tensor
}

fn batch(random: &mut Random) -> Vec<Tensor> {
    Datatype::ALL.iter().map(|datatype| random.tensor(*datatype)).collect()
}

fn rest_back(tensors: &[Tensor], binary: bool) -> Vec<Tensor> {
    let (headers, body) = encode("m", "1", "", "", tensors, &[], Form::Rest { binary }).expect("texts are UTF-8");
    let json = headers.get(1).map_or(body.len(), |header| header.1.parse().expect("a length"));
    let text = std::str::from_utf8(&body[..json]).expect("JSON is text");
    let inputs = text.replacen("\"outputs\":", "\"inputs\":", 1);
    let length = inputs.len().to_string();
    let request_body = [inputs.as_bytes(), &body[json..]].concat();
    request(decode("m", "1", &head(&[("inference-header-content-length", &length)]), &request_body)).inputs
}

#[test]
fn rest_in_json() {
    let mut random = Random(3);
    for _ in 0..ROUNDS {
        let tensors: Vec<Tensor> = batch(&mut random).into_iter().map(canonical).collect();
        assert_eq!(rest_back(&tensors, false), tensors);
    }
}

#[test]
fn rest_in_binary() {
    let mut random = Random(4);
    for _ in 0..ROUNDS {
        let tensors = batch(&mut random);
        assert_eq!(rest_back(&tensors, true), tensors);
    }
}

#[test]
fn grpc() {
    let mut random = Random(5);
    for _ in 0..ROUNDS {
        let tensors = batch(&mut random);
        let response = oip_grpc::encode("m", "1", "i", "", &tensors);
        let mut message = Vec::new();
        for field in Fields::new(&response) {
            let (number, value) = field.expect("a message");
            // Raw contents have another number in a request.
            write_bytes(&mut message, if number == 6 { 7 } else { number }, value.bytes().expect("bytes"));
        }
        let infer = request(oip_grpc::decode(&head(&[]), &message));
        assert_eq!((infer.model.as_str(), infer.version.as_str(), infer.id.as_str()), ("m", "1", "i"));
        assert_eq!(infer.inputs, tensors);
    }
}

#[test]
fn every_half_is_written_so_that_it_comes_back_and_is_short() {
    for datatype in [Datatype::Fp16, Datatype::Bf16] {
        let data = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let tensor = canonical(Tensor { name: "x".into(), datatype, shape: vec![1 << 16], data });
        let (_, body) = encode("m", "1", "", "", std::slice::from_ref(&tensor), &[], Form::Rest { binary: false })
            .expect("numbers");
        let text = String::from_utf8(body).expect("text");
        let inputs = text.replacen("\"outputs\":", "\"inputs\":", 1);
        assert_eq!(request(super::rest(&inputs)).inputs, [tensor]);
        let digits = |text: &str| {
            let number = text.split('e').next().unwrap_or("").replace(&['.', '-'][..], "");
            number.trim_matches('0').len()
        };
        let elements = text.split_once("\"data\":[").expect("data").1;
        let longest = elements.split(',').filter(|text| !text.contains('"')).map(digits).max();
        assert_eq!(longest, Some(if datatype == Datatype::Fp16 { 5 } else { 4 }));
    }
}

#[test]
fn an_answer_for_python_is_never_binary_by_itself() {
    let tensor = Random(6).tensor(Datatype::Int8);
    for form in [Form::Grpc, Form::Local] {
        let (headers, _) = encode("m", "1", "", "", std::slice::from_ref(&tensor), &[], form).expect("numbers");
        assert_eq!(headers.len(), 1);
    }
    assert_eq!(super::rest(r#"{"inputs":[],"parameters":{"digest":"x"}}"#), Ok(Decoded::Unusual));
}
