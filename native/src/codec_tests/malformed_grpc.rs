//! gRPC messages that are wrong: each is refused, and the message names the field.

use super::{entry, grpc_request, head, lie, message, packed, varint_field};
use crate::fault::Kind;
use crate::oip_grpc::decode;

fn refused(body: &[u8], kind: Kind, message: &str) {
    let fault = decode(&head(&[]), body).expect_err(message);
    assert!(fault.message.starts_with(message), "{}\nexpected {}", fault.message, message);
    assert_eq!(fault.kind, kind, "{}", fault.message);
}

#[test]
fn bytes_that_are_no_message_are_malformed() {
    let cases: [(&[u8], &str); 10] = [
        (&[0x80], "a varint is cut off"),
        (&[0xff; 11], "a varint is cut off, or longer"),
        (&[0x0a], "a varint is cut off"),
        (&[0x0a, 5, 1], "field 1 is 5 bytes long, but only 1 are left"),
        (&[0x00, 0], "the message has a field of the number 0"),
        (&[0xfa, 0xff, 0xff, 0xff, 0x7f, 0], "the message has a field of the number"),
        (&[0x0b, 0x0c], "field 1 has the wire type 3"),
        (&[0x0c], "field 1 has the wire type 4"),
        (&[0x0d, 1, 2, 3], "field 1 is 4 bytes long, but only 3"),
        (&[0x09, 1, 2, 3], "field 1 is 8 bytes long, but only 3"),
    ];
    for (body, message) in cases {
        refused(body, Kind::Malformed, message);
    }
    refused(&lie(7, usize::MAX), Kind::Malformed, "field 7 is 18446744073709551615 bytes long, but only 0");
}

#[test]
fn fields_of_the_wrong_kind_are_named() {
    for (number, name) in [
        (1, "model_name"),
        (2, "model_version"),
        (3, "id"),
        (4, "parameters"),
        (5, "inputs[0]"),
        (6, "outputs[0]"),
        (7, "raw_input_contents"),
    ] {
        refused(&varint_field(number, 1), Kind::Malformed, &format!("{}: is a number on the wire", name));
    }
    for (number, name) in [(1, "model_name"), (2, "model_version"), (3, "id")] {
        refused(&message(&[(number, b"\xff")]), Kind::Malformed, &format!("{}: is no UTF-8 text", name));
    }
    refused(&message(&[(6, b"")]), Kind::Signature, "outputs[0].name: missing");
    refused(&message(&[(6, &message(&[(1, b"\xff")]))]), Kind::Malformed, "outputs[0].name: is no UTF-8");
    refused(&message(&[(6, &varint_field(2, 1))]), Kind::Malformed, "outputs[0].parameters: is a number");
}

#[test]
fn parameters_are_named() {
    let cases = [
        (varint_field(2, -1i64 as u64), "found -1, expected no negative number"),
        (message(&[(3, b"1s")]), "found \"1s\", expected a whole number"),
        (message(&[(3, b"")]), "found \"\", expected a whole number"),
        (message(&[(3, b"+1")]), "found \"+1\", expected a whole number"),
        (varint_field(1, 1), "found another kind of parameter"),
        (Vec::new(), "is no whole number, expected int64_param"),
    ];
    for (value, expected) in &cases {
        for key in ["timeout", "priority"] {
            let expected = format!("parameters.{}: {}", key, expected);
            refused(&message(&[(4, &entry(key, value))]), Kind::Signature, &expected);
        }
    }
    refused(
        &message(&[(4, &entry("priority", &varint_field(2, 1 << 32)))]),
        Kind::Signature,
        "parameters.priority: is beyond",
    );
}

#[test]
fn fields_of_an_input_are_named() {
    let input = |fields: &[(u32, &[u8])]| message(&[(5, &message(fields))]);
    let wide = packed(&[1; 33]);
    let cases: [(Vec<u8>, &str); 8] = [
        (input(&[(2, b"INT8")]), ".name: missing"),
        (input(&[(1, b"x")]), ".datatype: missing"),
        (input(&[(1, b"x"), (2, b"INT4")]), ".datatype: found \"INT4\", expected one of BOOL"),
        (input(&[(1, b"x"), (2, b"INT8"), (3, &packed(&[2, -1]))]), ".shape: found -1, expected no negative size"),
        (input(&[(1, b"x"), (2, b"INT8"), (3, &wide)]), ".shape: has more than 32 dimensions"),
        (input(&[(1, b"x"), (2, b"INT8"), (3, &packed(&[i64::MAX; 3]))]), ".shape: [9223372036854775807, "),
        (input(&[(1, b"x"), (2, b"INT8")]), ".contents: has 0 elements, expected 1 by the shape []"),
        (
            input(&[(1, b"x"), (2, b"INT8"), (3, &packed(&[1 << 40]))]),
            ".contents: has 0 elements, expected 1099511627776",
        ),
    ];
    for (body, expected) in &cases {
        refused(body, Kind::Signature, &format!("inputs[0]{}", expected));
    }
    refused(&input(&[(3, &[0x80])]), Kind::Malformed, "inputs[0].shape: a varint is cut off");
    refused(&input(&[(1, b"\xff")]), Kind::Malformed, "inputs[0].name: is no UTF-8");
}

#[test]
fn contents_that_do_not_fit_are_named_by_their_place() {
    let list = |field: u32, values: &[i64]| message(&[(field, &packed(values))]);
    let cases = [
        ("INT8", 3, list(2, &[0, 1, 128]), ".int_contents[2]: found 128, expected a value of INT8"),
        ("INT8", 1, list(2, &[-129]), ".int_contents[0]: found -129"),
        ("INT16", 1, list(2, &[32768]), ".int_contents[0]: found 32768"),
        ("UINT8", 2, [list(4, &[1]), list(4, &[256])].concat(), ".uint_contents[1]: found 256"),
        ("UINT16", 1, list(4, &[65536]), ".uint_contents[0]: found 65536"),
        ("INT64", 2, list(3, &[1]), ": has 1 elements, expected 2 by the shape [2]"),
        ("INT64", 1, list(3, &[1, 2]), ": has 2 elements, expected 1"),
        ("INT64", 1, list(2, &[1]), ".int_contents: is set, but INT64 goes with int64_contents"),
        ("FP32", 1, list(1, &[1]), ".bool_contents: is set, but FP32 goes with fp32_contents"),
        ("FP16", 1, list(6, &[1]), ": is set, but FP16 has no typed contents: send it in raw_input_contents"),
        ("BF16", 1, list(6, &[1]), ": is set, but BF16 has no typed contents"),
        ("BYTES", 2, message(&[(8, b"a")]), ": has 1 elements, expected 2"),
    ];
    for (datatype, count, contents, expected) in &cases {
        let body = grpc_request(datatype, &[*count], Some(contents), &[]);
        refused(&body, Kind::Signature, &format!("inputs[0].contents{}", expected));
    }
    let broken = [
        ("FP32", message(&[(6, &[1, 2, 3])]), ".fp32_contents: is not on the wire as elements of FP32"),
        ("FP64", varint_field(7, 1), ".fp64_contents: is not on the wire"),
        ("BYTES", varint_field(8, 1), ".bytes_contents: is not on the wire"),
        ("INT64", message(&[(3, &[0x80])]), ".int64_contents: a varint is cut off"),
        ("INT64", [0x1d, 1, 2, 3, 4].to_vec(), ".int64_contents: is no varint on the wire"),
    ];
    for (datatype, contents, expected) in &broken {
        let body = grpc_request(datatype, &[1], Some(contents), &[]);
        refused(&body, Kind::Malformed, &format!("inputs[0].contents{}", expected));
    }
}

#[test]
fn raw_contents_must_be_just_as_long_and_for_all_inputs() {
    let cases: [(&str, i64, &[&[u8]], &str); 7] = [
        ("FP32", 2, &[&[0; 4]], "inputs[0].raw_input_contents: has 4 bytes, expected 2 elements of 4 bytes"),
        ("FP32", 1, &[&[0; 5]], "inputs[0].raw_input_contents: has 5 bytes"),
        ("BOOL", 1, &[&[7]], "inputs[0].raw_input_contents: element 0 of BOOL is the byte 7"),
        ("BYTES", 1, &[&[9, 0, 0, 0]], "inputs[0].raw_input_contents: element 0 of 1 does not fit"),
        ("BYTES", 0, &[&[0]], "inputs[0].raw_input_contents: has 1 bytes after its 0 elements"),
        ("INT8", 1, &[&[0], &[0]], "raw_input_contents: has 2 entries, expected one for each of the 1 inputs"),
        ("INT8", 1 << 62, &[&[0]], "inputs[0].raw_input_contents: has 1 bytes"),
    ];
    for (datatype, count, raw, expected) in cases {
        refused(&grpc_request(datatype, &[count], None, raw), Kind::Signature, expected);
    }
    let both = grpc_request("INT8", &[1], Some(&message(&[(2, &[1])])), &[&[0]]);
    refused(&both, Kind::Signature, "inputs[0].contents: is set beside raw_input_contents");
}
