//! Valid requests, changed at random: whatever comes, the codec answers, and takes no more memory than the body allows.

use super::{entry, grpc_request, head, message, packed, texts, varint_field, Random};
use crate::fault::{Fault, Kind};
use crate::infer::Decoded;
use crate::tensor::{Datatype, Tensor};
use crate::{oip_grpc, oip_rest};

const INPUTS: usize = 40_000;

/// Change some bytes: flip, set, insert, remove, double a piece, or cut the end off.
fn mutate(random: &mut Random, seed: &[u8], words: &[&[u8]]) -> Vec<u8> {
    let mut body = seed.to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(body.len() + 1);
        match random.below(7) {
            0 if at < body.len() => body[at] ^= 1 << random.below(8),
            1 if at < body.len() => body[at] = random.next() as u8,
            2 if at < body.len() => drop(body.remove(at)),
            3 => body.insert(at, random.next() as u8),
            4 => {
                let end = (at + random.below(20)).min(body.len());
                let piece = body[at..end].to_vec();
                body.splice(at..at, piece);
            }
            5 => body.truncate(at),
            _ => {
                let word = words[random.below(words.len())];
                let end = (at + random.below(word.len() + 1)).min(body.len());
                body.splice(at..end, word.iter().copied());
            }
        }
    }
    body
}

/// What was decoded holds together, and is small.
fn sound(decoded: Result<Decoded, Fault>, body: &[u8]) {
    match decoded {
        Ok(Decoded::Infer(infer)) => infer.inputs.iter().for_each(|tensor| whole(tensor, body.len())),
        Ok(Decoded::Unusual) => (),
        Err(fault) => {
            assert!(matches!(fault.kind, Kind::Malformed | Kind::Signature | Kind::LimitExceeded), "{:?}", fault);
            assert!(!fault.message.is_empty() && fault.message.len() < 600, "{:?}", fault);
        }
    }
}

fn whole(tensor: &Tensor, body: usize) {
    let count = Tensor::elements(&tensor.shape).expect("a shape that can be counted");
    if tensor.datatype == Datatype::Bytes {
        crate::rows::check_bytes(&tensor.data, count).expect("elements");
    } else {
        assert_eq!(tensor.data.len(), count * tensor.datatype.size());
    }
    assert!(tensor.data.capacity() <= 8 * body + 64, "{} bytes for a body of {}", tensor.data.capacity(), body);
}

#[test]
fn rest() {
    let seeds = [
        r#"{"id":"a\u00e9\ud83d\ude00","parameters":{"timeout":5,"priority":"1","binary_data_output":true},"inputs":[{"name":
           "x","shape":[2,2],"datatype":"FP32","data":[[1.5,-2e-3],["NaN",Infinity]]}],"outputs":[{"name":"y"}]}"#,
        r#"{"inputs":[{"name":"x","shape":[3],"datatype":"INT64","data":[1,-9223372036854775808,3]},{"data":["a","\n\""],
           "datatype":"BYTES","shape":[2],"name":"z"},{"name":"b","shape":[2],"datatype":"BOOL","data":[true,0]}]}"#,
        r#"{"inputs":[{"name":"x","shape":[2],"datatype":"BYTES","parameters":{"binary_data_size":9}},
           {"name":"h","shape":[2],"datatype":"FP16","data":[0.1,65504]},
           {"name":"u","shape":[1,1],"datatype":"UINT8","data":[[255]]}]}"#,
    ];
    let words: [&[u8]; 14] = [
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b"\"",
        b"null",
        b"18446744073709551616",
        b"-1",
        b"1e999",
        b"\\ud800",
        b"[[[[[[",
        b"9007199254740993",
        b"\"shape\":[4611686018427387904],",
    ];
    let mut random = Random(11);
    for round in 0..INPUTS {
        let json = mutate(&mut random, seeds[round % seeds.len()].as_bytes(), &words);
        let length = (json.len() + random.below(2)).to_string();
        let tail = texts(&["ab", "c"]);
        let body = [&json[..], &tail[..random.below(tail.len() + 1)]].concat();
        sound(oip_rest::decode("m", "", &head(&[("inference-header-content-length", &length)]), &body), &body);
        sound(oip_rest::decode("m", "", &head(&[]), &json), &json);
    }
}

#[test]
fn grpc() {
    let contents = [message(&[(2, &packed(&[1, -2, 127]))]), varint_field(2, 5)].concat();
    let parameters =
        message(&[(4, &entry("timeout", &varint_field(2, 5))), (4, &entry("priority", &message(&[(3, b"1")])))]);
    let seeds = [
        [parameters, grpc_request("INT8", &[2, 2], Some(&contents), &[])].concat(),
        grpc_request("FP32", &[1, 4], None, &[&[1; 16]]),
        grpc_request("BYTES", &[2], None, &[&texts(&["ab", ""])]),
        grpc_request("BYTES", &[2], Some(&message(&[(8, b"ab"), (8, b"")])), &[]),
        grpc_request("FP64", &[1], Some(&message(&[(7, &[7; 8])])), &[]),
    ];
    let words: [&[u8]; 8] =
        [&[0xff; 10], &[0x80], &[0x0b], &[0x0c], b"BYTES", b"UINT64", &[0x1a, 2, 0xff, 0x7f], &[0x2a, 0xff, 0xff, 3]];
    let mut random = Random(12);
    for round in 0..INPUTS {
        let body = mutate(&mut random, &seeds[round % seeds.len()], &words);
        sound(oip_grpc::decode(&head(&[]), &body), &body);
    }
}

#[test]
fn a_valid_request_cut_anywhere_is_refused() {
    let json = r#"{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1.5,"NaN"]}],"id":"a\ud83d\ude00"}"#;
    for end in 0..json.len() {
        super::rest(&json[..end]).expect_err(&json[..end]);
    }
    let body = grpc_request("FP32", &[1, 4], None, &[&[1; 16]]);
    let whole = oip_grpc::decode(&head(&[]), &body).expect("a request");
    for end in 0..body.len() {
        assert_ne!(oip_grpc::decode(&head(&[]), &body[..end]).ok().as_ref(), Some(&whole));
    }
}
