//! REST requests as clients write them, and the answers.

use super::{bytes, head, input, request, rest, texts};
use crate::fault::{Fault, Kind};
use crate::infer::{Decoded, Form, Wanted};
use crate::json_values::LIST;
use crate::oip_rest::{decode, encode, encode_fault};
use crate::service::Response;
use crate::tensor::{Datatype, Tensor};

fn wanted(name: &str, binary: Option<bool>) -> Wanted {
    Wanted { name: name.into(), binary }
}

fn singles(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn tensor(name: &str, datatype: Datatype, shape: &[u64], data: Vec<u8>) -> Tensor {
    Tensor { name: name.into(), datatype, shape: shape.to_vec(), data }
}

#[test]
fn a_whole_request_is_read() {
    let body = r#" { "id" : "a\u00e9\ud83d\ude00", "unknown": {"deep": [1, {"x": null}]}, "parameters":
        {"timeout": 1500, "priority": "2", "binary_data_output": true},
        "inputs": [ {"name": "x", "shape": [2, 2], "datatype": "FP32", "data": [1, 2.5, -3e0, "NaN"] },
                    {"data": ["a", "\"\\\/\b\f\n\r\t"], "datatype": "BYTES", "name": "\u0079", "shape": [2]} ],
        "outputs": [ {"name": "p", "parameters": {"binary_data": false}}, {"name": "q"} ] } "#;
    let infer = request(decode("m", "1", &head(&[("x-request-timeout-ms", "1")]), body.as_bytes()));
    assert_eq!((infer.model.as_str(), infer.version.as_str(), infer.id.as_str()), ("m", "1", "a\u{e9}\u{1f600}"));
    assert_eq!((infer.timeout_us, infer.priority, infer.form), (1000, 2, Form::Rest { binary: true }));
    assert_eq!(infer.wanted, [wanted("p", Some(false)), wanted("q", None)]);
    let strings = texts(&["a", "\"\\/\u{8}\u{c}\n\r\t"]);
    let inputs = [
        tensor("x", Datatype::Fp32, &[2, 2], singles(&[1.0, 2.5, -3.0, f32::NAN])),
        tensor("y", Datatype::Bytes, &[2], strings),
    ];
    assert_eq!(infer.inputs, inputs);
}

#[test]
fn null_is_the_same_as_left_out() {
    let body = r#"{"id":null,"parameters":null,"outputs":null,"inputs":[{"name":"x","shape":[0],"datatype":"INT8",
        "parameters":null,"data":[]}]}"#;
    let infer = request(rest(body));
    assert_eq!((infer.id.as_str(), infer.wanted.len(), infer.inputs[0].data.len()), ("", 0, 0));
}

#[test]
fn data_may_be_flat_or_nested_as_the_shape_says() {
    let flat = bytes("INT8", "[2,2,2]", "[1,2,3,4,5,6,7,8]");
    assert_eq!(flat, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(bytes("INT8", "[2,2,2]", "[ [[1,2],[3,4]], [[5,6],[7,8]] ]"), flat);
    assert_eq!(bytes("INT8", "[1,1,1]", "[[[1]]]"), [1]);
    for (shape, data) in [
        ("[0]", "[]"),
        ("[0,3]", "[]"),
        ("[2,0]", "[[],[]]"),
        ("[2,0]", "[]"),
        ("[1,1,0]", "[[[]]]"),
        ("[2,0,7]", "[[],[]]"),
    ] {
        assert_eq!(bytes("FP64", shape, data).len(), 0);
    }
    assert_eq!(bytes("INT8", "[]", "[7]"), [7]);
}

#[test]
fn every_datatype_has_its_own_bytes() {
    assert_eq!(bytes("BOOL", "[4]", "[true,false,1,0]"), [1, 0, 1, 0]);
    assert_eq!(bytes("UINT16", "[1]", "[258]"), [2, 1]);
    assert_eq!(bytes("INT32", "[1]", "[-2]"), (-2i32).to_le_bytes());
    assert_eq!(bytes("FP64", "[1]", "[0.1]"), 0.1f64.to_le_bytes());
    assert_eq!(bytes("FP16", "[3]", "[1,0.1,\"-Infinity\"]"), [0x00, 0x3c, 0x66, 0x2e, 0x00, 0xfc]);
    assert_eq!(bytes("BF16", "[2]", "[1,Infinity]"), [0x80, 0x3f, 0x80, 0x7f]);
    assert_eq!(bytes("BYTES", "[2]", "[\"\",\"\u{e9}\"]"), texts(&["", "\u{e9}"]));
}

#[test]
fn what_is_no_number_comes_as_a_word_or_in_quotes() {
    let same = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    assert_eq!(bytes("FP32", "[3]", "[NaN,Infinity,-Infinity]"), singles(&same));
    assert_eq!(bytes("FP32", "[3]", r#"["NaN","Infinity","-Infinity"]"#), singles(&same));
}

#[test]
fn the_datatype_may_come_after_the_data() {
    let body = r#"{"inputs":[{"data":[[1],[2]],"shape":[2,1],"name":"x","datatype":"UINT8"}]}"#;
    assert_eq!(request(rest(body)).inputs[0].data, [1, 2]);
}

#[test]
fn binary_tensors_follow_the_json_in_order() {
    let json = r#"{"inputs":[{"name":"a","shape":[2],"datatype":"INT16","parameters":{"binary_data_size":4}},
        {"name":"b","shape":[1],"datatype":"FP32","data":[1]},
        {"name":"c","shape":[2],"datatype":"BYTES","parameters":{"binary_data_size":9}}]}"#;
    let body = [json.as_bytes(), &[1, 0, 2, 0], &texts(&["", "x"])].concat();
    let length = json.len().to_string();
    let infer = request(decode("m", "", &head(&[("inference-header-content-length", &length)]), &body));
    let data: Vec<&[u8]> = infer.inputs.iter().map(|input| input.data.as_slice()).collect();
    assert_eq!(data, [&[1, 0, 2, 0][..], &1f32.to_le_bytes(), &texts(&["", "x"])]);
}

const ENTRY: &str = r#"{"name":"x","datatype":"INT8","shape":[0],"data":[]},"#;

#[test]
fn what_only_python_knows_is_unusual() {
    let good = input("INT8", "[1]", "[1]");
    let with = |text: &str| good.replace("\"data\"", &format!("{},\"data\"", text));
    let bodies = [
        with(r#""parameters":{"shared_memory_region":"r"}"#),
        with(r#""parameters":{"content_type":"np"}"#),
        good.replace("{\"inputs\"", r#"{"parameters":{"sequence_id":1},"inputs""#),
        good.replace("{\"inputs\"", r#"{"outputs":[{"name":"y","parameters":{"classification":2}}],"inputs""#),
    ];
    let many: String = (0..65).map(|key| format!("\"{}\":1,", key)).collect();
    let lists = ["inputs", "outputs"].map(|list| format!("{{\"{}\":[{}1]}}", list, ENTRY.repeat(LIST)));
    for body in bodies.iter().chain(&lists).chain([&format!("{{{}\"inputs\":[]}}", many)]) {
        assert_eq!(rest(body), Ok(Decoded::Unusual), "{}", body);
    }
    for (name, value) in
        [("content-encoding", "gzip"), ("content-encoding", "deflate"), ("inference-header-content-length", "0")]
    {
        assert_eq!(decode("m", "", &head(&[(name, value)]), good.as_bytes()), Ok(Decoded::Unusual));
    }
    request(decode("m", "", &head(&[("content-encoding", "Identity")]), good.as_bytes()));
}

#[test]
fn the_smaller_limit_of_time_counts_and_zero_is_none() {
    for (header, parameter, expected) in
        [("5", "7000", 5000), ("5", "\"3\"", 3), ("x", "4", 4), ("6", "0", 6000), ("", "0", 0), ("0", "9", 1)]
    {
        let body = input("INT8", "[1]", "[1]")
            .replace("{\"inputs\"", &format!("{{\"parameters\":{{\"timeout\":{}}},\"inputs\"", parameter));
        let infer = request(decode("m", "", &head(&[("x-request-timeout-ms", header)]), body.as_bytes()));
        assert_eq!(infer.timeout_us, expected, "{} {}", header, parameter);
    }
}

#[test]
fn an_answer_in_json_names_all() {
    let outputs = [
        tensor("p", Datatype::Fp32, &[1, 6], singles(&[0.1, 1.0, -0.0, 1e20, 1.5e-7, f32::NAN])),
        tensor("q", Datatype::Bytes, &[2], texts(&["a\"\u{1}\u{7f}", "\u{e9}\n"])),
        tensor("r", Datatype::Bool, &[2], vec![0, 1]),
    ];
    let (headers, body) =
        encode("m", "2", "i\"d", "sha256:00", &outputs, &[], Form::Rest { binary: false }).expect("an answer");
    assert_eq!(headers, [("content-type".to_string(), "application/json".to_string())]);
    let expected = concat!(
        r#"{"model_name":"m","model_version":"2","id":"i\"d","parameters":{"digest":"sha256:00"},"outputs":["#,
        r#"{"name":"p","datatype":"FP32","shape":[1,6],"data":[0.1,1.0,-0.0,1e20,1.5e-7,"NaN"]},"#,
        r#"{"name":"q","datatype":"BYTES","shape":[2],"data":["a\"\u0001"#,
        "\u{7f}",
        r#"","é\n"]},"#,
        r#"{"name":"r","datatype":"BOOL","shape":[2],"data":[false,true]}]}"#
    );
    assert_eq!(String::from_utf8(body).expect("text"), expected);
}

#[test]
fn each_output_is_binary_where_it_was_asked_for() {
    let outputs = [
        tensor("p", Datatype::Int16, &[2], vec![1, 0, 2, 0]),
        tensor("q", Datatype::Int16, &[1], vec![3, 0]),
        tensor("r", Datatype::Bytes, &[1], vec![1, 0, 0, 0, 0xff]),
    ];
    let asked = [wanted("r", Some(true)), wanted("q", Some(false)), wanted("p", None)];
    for (binary, tail) in [(true, &[1, 0, 2, 0, 1, 0, 0, 0, 0xff][..]), (false, &[1, 0, 0, 0, 0xff])] {
        let (headers, body) = encode("m", "2", "", "", &outputs, &asked, Form::Rest { binary }).expect("an answer");
        assert_eq!(headers[0].1, "application/octet-stream");
        assert_eq!(headers[1].0, "inference-header-content-length");
        let (json, rest) = body.split_at(headers[1].1.parse().expect("a length"));
        assert_eq!(rest, tail);
        let json = String::from_utf8(json.to_vec()).expect("text");
        assert!(json.ends_with("]}") && json.contains(r#""shape":[1],"data":[3]}"#), "{}", json);
        assert!(json.contains(r#""shape":[1],"parameters":{"binary_data_size":5}}"#), "{}", json);
        assert_eq!(json.contains(r#""shape":[2],"parameters":{"binary_data_size":4}}"#), binary, "{}", json);
    }
}

#[test]
fn bytes_that_are_no_text_are_refused_in_json() {
    let outputs = [tensor("r", Datatype::Bytes, &[1], vec![1, 0, 0, 0, 0xff])];
    let fault = encode("m", "", "", "", &outputs, &[], Form::Rest { binary: false }).expect_err("no text");
    assert_eq!(fault.kind, Kind::Signature);
    assert!(fault.message.contains("output r: element 0") && fault.message.contains("ask for binary_data"));
}

#[test]
fn an_error_has_its_status_and_says_what_its_client_needs() {
    let fault = Fault { kind: Kind::Busy, message: "full \"up\"".into(), retry_after: 3 };
    match encode_fault(&fault) {
        Response::Http { status, headers, body } => {
            assert_eq!((status, body), (429, br#"{"error":"full \"up\""}"#.to_vec()));
            assert_eq!(headers[1], ("retry-after".to_string(), "3".to_string()));
        }
        other => panic!("{:?}", other),
    }
    match encode_fault(&Fault::new(Kind::Authentication, "x")) {
        Response::Http { status, headers, .. } => {
            assert_eq!(status, 401);
            assert_eq!(headers[1], ("www-authenticate".to_string(), "Bearer realm=\"vitrify\"".to_string()));
        }
        other => panic!("{:?}", other),
    }
    match encode_fault(&Fault::new(Kind::Signature, "x")) {
        Response::Http { status, headers, .. } => assert_eq!((status, headers.len()), (400, 1)),
        other => panic!("{:?}", other),
    }
}
