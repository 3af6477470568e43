//! REST requests that are wrong: each is refused, and the message names the field.

use super::{head, input, rest};
use crate::fault::Kind;
use crate::json::DEPTH;
use crate::oip_rest::decode;

fn refused(body: &[u8], kind: Kind, message: &str) {
    let fault = rest(body).expect_err(&String::from_utf8_lossy(body));
    assert!(fault.message.starts_with(message), "{}\nfor {}", fault.message, String::from_utf8_lossy(body));
    assert_eq!(fault.kind, kind, "{}", fault.message);
}

#[test]
fn text_that_is_no_json_is_malformed() {
    let cases = [
        ("", "the JSON ends at byte 0, expected an object"),
        ("   ", "the JSON ends at byte 3"),
        ("{", "the JSON ends at byte 1, expected a key in quotes"),
        ("{\"inputs\"", "the JSON ends at byte 9, expected ':'"),
        ("{\"inputs\" 1", "the JSON has '1' at byte 10, expected ':'"),
        ("{\"inputs\":[", "inputs[0]: the JSON ends at byte 11"),
        ("{\"inputs\":[]", "the JSON ends at byte 12, expected ',' or '}'"),
        ("{\"inputs\":[]} x", "the JSON has 'x' at byte 14, expected its end"),
        ("{\"inputs\":[],}", "the JSON has '}' at byte 13, expected a key in quotes"),
        ("{inputs:[]}", "the JSON has 'inputs:[]}' at byte 1"),
        ("{[{[{[{[{[{[", "the JSON has '[{[{[{[{[{[' at byte 1"),
        ("{\"a\":{\"b\":1 \"c\"}}", "the JSON has '\"c\"}}' at byte 12"),
        ("{\"a\":tru}", "the JSON has 'tru}' at byte 5, expected a value"),
        ("{\"a\":01}", "the JSON has '01}' at byte 5, expected a digit"),
        ("{\"a\":1.}", "the JSON has '}' at byte 7, expected a digit"),
        ("{\"a\":1e}", "the JSON has '}' at byte 7, expected a digit"),
        ("{\"a\":-}", "the JSON has '}' at byte 6, expected a digit"),
        ("{\"a\":+1}", "the JSON has '+1}' at byte 5"),
        ("{\"a\":.5}", "the JSON has '.5}' at byte 5"),
        ("{\"a\":\"x", "the JSON ends at byte 7, expected the rest of a string"),
        ("{\"a\":\"\n\"}", "the JSON has '\\n\"}' at byte 6, expected the rest of a string"),
        ("{\"a\":\"\\x\"}", "the JSON has '\\x\"}' at byte 6, expected an escape"),
        ("{\"a\":\"\\u12\"}", "the JSON has '\\u12\"}' at byte 6, expected \\u and four hexadecimal"),
        ("{\"a\":\"\\u+123\"}", "the JSON has"),
        ("{\"a\":\"\\ud800\"}", "the JSON has '\"}' at byte 12"),
        ("{\"a\":\"\\ud800\\u0041\"}", "half a surrogate pair"),
        ("{\"a\":\"\\udc00\"}", "half a surrogate pair"),
        ("{\"a\":[1,]}", "the JSON has ']}' at byte 8, expected a value"),
        ("{\"a\":[1 2]}", "the JSON has '2]}' at byte 8, expected ',' or ']'"),
        ("{\"inputs\":[],\"inputs\":[]}", "the key \"inputs\" comes twice"),
        ("{\"x\":1,\"\\u0078\":2}", "the key \"x\" comes twice"),
        ("\u{feff}{}", "the JSON has"),
    ];
    for (body, message) in cases {
        refused(body.as_bytes(), Kind::Malformed, message);
    }
    refused(b"{\"a\":\"\xff\"}", Kind::Malformed, "the string at byte 6 is no UTF-8 at byte 6");
    refused(b"{\"a\":\"\\n\xc0\x80\"}", Kind::Malformed, "the string at byte 8 is no UTF-8");
}

#[test]
fn depth_is_bounded() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |depth: usize| format!("{{\"a\":{}1{}}}", open.repeat(depth), close.repeat(depth));
        refused(nested(DEPTH).as_bytes(), Kind::LimitExceeded, "the JSON is more than 64 levels deep");
        refused(nested(DEPTH - 1).as_bytes(), Kind::Signature, "inputs: missing");
        refused(
            format!("{{\"a\":{}", open.repeat(1 << 20)).as_bytes(),
            Kind::LimitExceeded,
            "the JSON is more than 64",
        );
        let data = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        refused(input("INT8", "[1]", &data).as_bytes(), Kind::Signature, "inputs[0].data[0][0]");
    }
}

#[test]
fn fields_of_the_wrong_kind_are_named() {
    let cases = [
        ("[]", "found [], expected an object"),
        ("{}", "inputs: missing"),
        ("{\"inputs\":{}}", "inputs: found {}, expected an array"),
        ("{\"inputs\":null}", "inputs: found null, expected an array"),
        ("{\"inputs\":[1]}", "inputs[0]: found 1, expected an object"),
        ("{\"id\":7}", "id: found 7, expected a string"),
        ("{\"outputs\":[{}]}", "outputs[0].name: missing"),
        ("{\"outputs\":[{\"name\":1}]}", "outputs[0].name: found 1, expected a string"),
        ("{\"outputs\":[{\"name\":\"y\"},2]}", "outputs[1]: found 2"),
        ("{\"outputs\":[{\"parameters\":{\"binary_data\":1}}]}", "outputs[0].parameters.binary_data: found 1"),
        ("{\"parameters\":[]}", "parameters: found [], expected an object"),
        ("{\"parameters\":{\"binary_data_output\":\"true\"}}", "parameters.binary_data_output: found \"true\""),
        ("{\"parameters\":{\"timeout\":-1}}", "parameters.timeout: found -1, expected a whole number"),
        ("{\"parameters\":{\"timeout\":1.5}}", "parameters.timeout: found 1.5"),
        ("{\"parameters\":{\"timeout\":\"1s\"}}", "parameters.timeout: found \"1s\""),
        ("{\"parameters\":{\"timeout\":\"\"}}", "parameters.timeout: found \"\""),
        ("{\"parameters\":{\"timeout\":18446744073709551616}}", "parameters.timeout: found 18446744073709551616"),
    ];
    for (body, message) in cases {
        refused(body.as_bytes(), Kind::Signature, message);
    }
}

#[test]
fn fields_of_an_input_are_named() {
    let good = r#""name":"x","datatype":"INT8","shape":[1]"#;
    let cases = [
        (r#""datatype":"INT8","shape":[1],"data":[1]"#.to_string(), ".name: missing"),
        (r#""name":"x","shape":[1],"data":[1]"#.to_string(), ".datatype: missing"),
        (r#""name":"x","datatype":"INT8","data":[1]"#.to_string(), ".shape: missing"),
        (good.to_string(), ".data: missing"),
        (good.replace("INT8", "INT4"), ".datatype: found \"INT4\", expected one of BOOL, UINT8"),
        (good.replace("\"x\"", "1"), ".name: found 1, expected a string"),
        (good.replace("[1]", "1"), ".shape: found 1, expected an array"),
        (good.replace("[1]", "[-1]"), ".shape[0]: found -1, expected a whole number"),
        (good.replace("[1]", "[1.0]"), ".shape[0]: found 1.0"),
        (good.replace("[1]", "[2,\"3\"]"), ".shape[1]: found \"3\""),
        (good.replace("[1]", "[18446744073709551615,2]"), ".shape: [18446744073709551615, 2] is beyond all memory"),
        (good.replace("[1]", &format!("[{}1]", "1,".repeat(32))), ".shape: has more than 32 dimensions"),
        (format!("{},\"data\":[1],\"parameters\":{{\"binary_data_size\":1}}", good), ": has both data and"),
        (
            format!("{},\"parameters\":{{\"binary_data_size\":1}}", good),
            ".parameters.binary_data_size: found 1, but only",
        ),
        (format!("{},\"parameters\":{{\"binary_data_size\":-1}}", good), ".parameters.binary_data_size: found -1"),
        (
            format!("{},\"parameters\":{{\"binary_data_size\":\"x\"}}", good),
            ".parameters.binary_data_size: found \"x\"",
        ),
    ];
    for (fields, message) in cases {
        let body = format!("{{\"inputs\":[{{{}}}]}}", fields);
        refused(body.as_bytes(), Kind::Signature, &format!("inputs[0]{}", message));
    }
}

#[test]
fn data_that_do_not_fit_are_named_by_their_place() {
    let cases = [
        ("INT8", "[2]", "[1]", ": has 1 elements, expected 2 elements by the shape [2]"),
        ("INT8", "[2]", "[1,2,3]", ": has 3 elements"),
        ("INT8", "[]", "[]", ": has 0 elements, expected 1"),
        ("INT8", "[1000000000000]", "[1]", ": has 1 elements, expected 1000000000000"),
        ("BYTES", "[1000000000000]", "[\"\"]", ": has 1 elements"),
        ("FP64", "[4611686018427387904]", "[1]", ": has 1 elements"),
        ("INT8", "[2,2]", "[[1,2,3,4]]", ": has arrays of [1, 4]"),
        ("INT8", "[4]", "[[1,2],[3,4]]", ": has arrays of [2, 2]"),
        ("INT8", "[2,2]", "[[1,2],[3]]", "[1]: is ragged here"),
        ("INT8", "[2,2]", "[[1,2],3]", "[1]: is ragged here"),
        ("INT8", "[2,2]", "[[],[3]]", "[1]: is ragged here"),
        ("INT8", "[2,2]", "[[[1]],[2]]", "[1][0]: is ragged here"),
        ("INT8", "[2,2]", "[[1],[[2]]]", "[1][0]: is ragged here"),
        ("INT8", "[2,2]", "[1,[2]]", "[1]: found [2], expected an integer of INT8"),
        ("INT8", "[2]", "[1,true]", "[1]: found true, expected an integer of INT8"),
        ("INT8", "[2]", "[1,\"2\"]", "[1]: found \"2\""),
        ("INT8", "[2,2]", "[[1,2],[3,{\"a\": 1}]]", "[1][1]: found {\"a\": 1}"),
        ("INT8", "[1]", "7", ": found 7, expected an array"),
        ("INT8", "[1]", "\"AQ==\"", ": found \"AQ==\", expected an array"),
        ("BOOL", "[1]", "[2]", "[0]: found 2, expected true or false"),
        ("BOOL", "[1]", "[1.0]", "[0]: found 1.0"),
        ("BOOL", "[1]", "[-1]", "[0]: found -1"),
        ("BOOL", "[1]", "[\"true\"]", "[0]: found \"true\""),
        ("FP32", "[1]", "[\"1.5\"]", "[0]: found \"1.5\", expected a number of FP32"),
        ("FP32", "[1]", "[\"nan\"]", "[0]: found \"nan\""),
        ("FP16", "[1]", "[false]", "[0]: found false, expected a number of FP16"),
        ("INT64", "[1]", "[NaN]", "[0]: found NaN"),
        ("BYTES", "[1]", "[{}]", "[0]: found {}, expected a string"),
    ];
    for (datatype, shape, data, message) in cases {
        let message = format!("inputs[0].data{}", message);
        refused(input(datatype, shape, data).as_bytes(), Kind::Signature, &message);
    }
    for data in ["[1,]", "[1 2]", "[1", "[-]", "[1.]", "[00]", "[1e+]", "[nan]", "[-Inf]", "[\"a]", "[[1] [2]]"] {
        refused(input("FP32", "[1]", data).as_bytes(), Kind::Malformed, "inputs[0].data");
    }
}

#[test]
fn binary_parts_must_be_just_as_long() {
    let json = |datatype: &str, shape: &str, size: usize| {
        format!(
            r#"{{"inputs":[{{"name":"x","datatype":"{}","shape":{},"parameters":{{"binary_data_size":{}}}}}]}}"#,
            datatype, shape, size
        )
    };
    let size = "inputs[0].parameters.binary_data_size: ";
    type Case<'a> = (&'a str, &'a str, usize, &'a [u8], Kind, String);
    let cases: [Case; 9] = [
        ("FP32", "[2]", 4, &[0; 4], Kind::Signature, format!("{}has 4 bytes, expected 2 elements", size)),
        ("FP32", "[1]", 8, &[0; 8], Kind::Signature, format!("{}has 8 bytes", size)),
        ("FP32", "[1]", 4, &[0; 3], Kind::Signature, format!("{}found 4, but only 3", size)),
        ("FP32", "[1]", 4, &[0; 5], Kind::Malformed, "the body has 1 bytes more".into()),
        ("FP64", "[2305843009213693952]", 0, &[], Kind::Signature, format!("{}has 0 bytes", size)),
        ("BOOL", "[2]", 2, &[1, 2], Kind::Signature, format!("{}element 1 of BOOL is the byte 2", size)),
        ("BYTES", "[1]", 5, &[2, 0, 0, 0, 0], Kind::Signature, format!("{}element 0 of 1 does not fit", size)),
        ("BYTES", "[1]", 4, &[255; 4], Kind::Signature, format!("{}element 0 of 1 does not fit", size)),
        ("BYTES", "[1]", 5, &[0; 5], Kind::Signature, format!("{}has 1 bytes after its 1 elements", size)),
    ];
    for (datatype, shape, size, raw, kind, message) in cases {
        let json = json(datatype, shape, size);
        let length = json.len().to_string();
        let body = [json.as_bytes(), raw].concat();
        let fault = decode("m", "", &head(&[("inference-header-content-length", &length)]), &body).expect_err(&json);
        assert!(fault.message.starts_with(&message), "{}", fault.message);
        assert_eq!(fault.kind, kind);
    }
}

#[test]
fn headers_are_checked() {
    let body = input("INT8", "[1]", "[1]");
    for (name, value) in [
        ("inference-header-content-length", "-1"),
        ("inference-header-content-length", "+9"),
        ("inference-header-content-length", "x"),
        ("inference-header-content-length", "9999"),
        ("inference-header-content-length", "99999999999999999999"),
    ] {
        let fault = decode("m", "", &head(&[(name, value)]), body.as_bytes()).expect_err(value);
        assert!(fault.message.starts_with(&format!("header {}: found ", name)), "{}", fault.message);
        assert_eq!(fault.kind, Kind::Malformed);
    }
}

#[test]
fn a_message_shows_little_of_what_was_sent() {
    let long = format!("\"{}\"", "\u{e9}".repeat(100_000));
    let fault = rest(input("INT8", "[1]", &format!("[{}]", long))).expect_err("a string");
    assert!(fault.message.len() < 300 && fault.message.contains("..."), "{}", fault.message);
}
