//! gRPC requests as clients write them, and the answers.

use super::{entry, grpc_request, head, message, packed, request, texts, varint_field};
use crate::infer::{Decoded, Form, Wanted};
use crate::json_values::LIST;
use crate::oip_grpc::{decode, encode};
use crate::tensor::{Datatype, Tensor};

fn data(message: &[u8]) -> Vec<u8> {
    request(decode(&head(&[]), message)).inputs.remove(0).data
}

fn typed(datatype: &str, shape: &[i64], contents: &[u8]) -> Vec<u8> {
    data(&grpc_request(datatype, shape, Some(contents), &[]))
}

#[test]
fn a_whole_request_is_read() {
    let input = message(&[(1, b"x"), (2, b"FP32"), (3, &packed(&[1, 2]))]);
    let output = message(&[(1, b"p")]);
    let body = [
        message(&[(1, b"iris"), (2, b"3"), (3, b"id"), (4, &entry("timeout", &varint_field(2, 9000)))]),
        message(&[(4, &entry("priority", &varint_field(5, 2))), (5, &input), (6, &output), (7, &[1; 8])]),
        // Unknown fields of every kind but groups.
        varint_field(99, 1),
        [0xfa, 0x06, 1, 0, 0xf9, 0x06, 1, 2, 3, 4, 5, 6, 7, 8, 0xfd, 0x06, 1, 2, 3, 4].to_vec(),
    ]
    .concat();
    let infer = request(decode(&head(&[("grpc-timeout", "8m")]), &body));
    assert_eq!((infer.model.as_str(), infer.version.as_str(), infer.id.as_str()), ("iris", "3", "id"));
    assert_eq!((infer.timeout_us, infer.priority, infer.form), (8000, 2, Form::Grpc));
    assert_eq!(infer.wanted, [Wanted { name: "p".into(), binary: None }]);
    let tensor = Tensor { name: "x".into(), datatype: Datatype::Fp32, shape: vec![1, 2], data: vec![1; 8] };
    assert_eq!(infer.inputs, [tensor]);
}

#[test]
fn every_datatype_has_typed_contents_but_halves() {
    let list = |field: u32, values: &[i64]| message(&[(field, &packed(values))]);
    assert_eq!(typed("BOOL", &[3], &list(1, &[1, 0, 2])), [1, 0, 1]);
    assert_eq!(typed("INT8", &[2], &list(2, &[-128, 127])), [128, 127]);
    assert_eq!(typed("INT16", &[1], &list(2, &[-2])), (-2i16).to_le_bytes());
    assert_eq!(typed("INT32", &[1], &list(2, &[i32::MIN.into()])), i32::MIN.to_le_bytes());
    assert_eq!(
        typed("INT64", &[2], &list(3, &[i64::MIN, -1])),
        [i64::MIN.to_le_bytes(), (-1i64).to_le_bytes()].concat()
    );
    assert_eq!(typed("UINT8", &[1], &list(4, &[255])), [255]);
    assert_eq!(typed("UINT16", &[1], &list(4, &[65535])), [255, 255]);
    assert_eq!(typed("UINT32", &[1], &list(4, &[0xffff_ffff])), [255; 4]);
    assert_eq!(typed("UINT64", &[1], &list(5, &[-1])), [255; 8]);
    let floats = [1.5f32.to_le_bytes(), f32::NAN.to_le_bytes()].concat();
    assert_eq!(typed("FP32", &[2], &message(&[(6, &floats)])), floats);
    assert_eq!(typed("FP64", &[1], &message(&[(7, &0.1f64.to_le_bytes())])), 0.1f64.to_le_bytes());
    assert_eq!(typed("BYTES", &[2], &message(&[(8, b"\xff"), (8, b"")])), [1, 0, 0, 0, 255, 0, 0, 0, 0]);
}

#[test]
fn lists_may_be_packed_or_not_and_come_in_pieces() {
    let mixed = [varint_field(2, 1), message(&[(2, &packed(&[2, 3]))]), varint_field(2, u64::MAX)].concat();
    assert_eq!(typed("INT8", &[4], &mixed), [1, 2, 3, 255]);
    let single = [&[0x35][..], &1f32.to_le_bytes()].concat();
    assert_eq!(typed("FP32", &[1], &single), 1f32.to_le_bytes());
    let double = [&[0x39][..], &1f64.to_le_bytes()].concat();
    assert_eq!(typed("FP64", &[1], &double), 1f64.to_le_bytes());
    // A message that comes twice is one, and so is a shape that is not packed.
    let contents = message(&[(2, &packed(&[1]))]);
    let head = message(&[(1, b"x"), (2, b"INT8"), (5, &contents), (5, &contents)]);
    let input = [head, varint_field(3, 2), varint_field(3, 1)].concat();
    assert_eq!(data(&message(&[(5, &input)])), [1, 1]);
}

#[test]
fn raw_contents_are_taken_as_they_are() {
    for (datatype, raw) in [
        ("FP16", vec![1, 2]),
        ("BF16", vec![1, 2]),
        ("BOOL", vec![1]),
        ("UINT64", vec![9; 8]),
        ("BYTES", texts(&["ab"])),
    ] {
        assert_eq!(data(&grpc_request(datatype, &[1], None, &[&raw])), raw, "{}", datatype);
    }
    assert_eq!(data(&grpc_request("FP32", &[0, 2], None, &[&[]])).len(), 0);
    assert_eq!(data(&grpc_request("FP32", &[0, 2], None, &[])).len(), 0);
}

#[test]
fn what_only_python_knows_is_unusual() {
    let input = message(&[(1, b"x"), (4, &entry("shared_memory_region", b""))]);
    let output = message(&[(1, b"y"), (2, &entry("classification", b""))]);
    let many = |number: u32, one: &[u8]| message(&vec![(number, one); LIST + 1]);
    let named = message(&[(1, b"x")]);
    let sequence = message(&[(4, &entry("sequence_id", &varint_field(2, 1)))]);
    let bodies = [sequence, message(&[(5, &input)]), message(&[(6, &output)])];
    for body in bodies.into_iter().chain([many(5, &named), many(6, &named), many(7, b"")]) {
        assert_eq!(decode(&head(&[]), &body), Ok(Decoded::Unusual));
    }
}

#[test]
fn parameters_are_whole_numbers_in_any_form() {
    for value in [varint_field(2, 7), varint_field(5, 7), message(&[(3, b"7")])] {
        let body = message(&[(4, &entry("timeout", &value)), (4, &entry("priority", &value))]);
        let infer = request(decode(&head(&[("grpc-timeout", "1S"), ("x-request-timeout-ms", "1")]), &body));
        assert_eq!((infer.timeout_us, infer.priority), (7, 7));
    }
    let infer = request(decode(&head(&[("grpc-timeout", "1S"), ("x-request-timeout-ms", "2")]), b""));
    assert_eq!(infer.timeout_us, 2000);
}

#[test]
fn an_answer_is_a_response_of_raw_contents() {
    let outputs = [
        Tensor { name: "p".into(), datatype: Datatype::Uint8, shape: vec![1, 300], data: vec![3; 300] },
        Tensor { name: "q".into(), datatype: Datatype::Bytes, shape: vec![1], data: texts(&["a"]) },
    ];
    let tensor =
        |name: &[u8], datatype: &[u8], shape: &[i64]| message(&[(1, name), (2, datatype), (3, &packed(shape))]);
    let expected = message(&[
        (1, b"m"),
        (2, b"2"),
        (3, b"id"),
        (4, &entry("digest", &message(&[(3, b"sha256:00")]))),
        (5, &tensor(b"p", b"UINT8", &[1, 300])),
        (5, &tensor(b"q", b"BYTES", &[1])),
        (6, &[3; 300]),
        (6, &texts(&["a"])),
    ]);
    let found = encode("m", "2", "id", "sha256:00", &outputs);
    assert_eq!(found, expected);
    assert!(found.capacity() < found.len() + 64, "the room is reckoned beforehand");
    assert_eq!(encode::<Tensor>("", "", "", "", &[]), b"");
}
