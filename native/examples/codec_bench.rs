//! How fast the codec is: `cargo run --release --example codec_bench`. Prints nanoseconds a request and MB a second.

use std::time::{Duration, Instant};

use vitrify_plane::infer::{Decoded, Form, Wanted};
use vitrify_plane::service::{Head, Wire};
use vitrify_plane::tensor::{Datatype, Tensor};
use vitrify_plane::{oip_grpc, oip_rest};

fn main() {
    let head = &head();
    let decode = |body: &[u8]| rows(oip_rest::decode("iris", "", head, body));
    let row = body(1, 4, "FP32", |index| format!("{:.1}", index as f64 + 0.5));
    measure("REST, decode one row of 4 floats", &row, decode);
    measure("REST, decode 2000 x 100 FP32, 6 digits", &body(2000, 100, "FP32", six), decode);
    measure("REST, decode 2000 x 100 FP32, 17 digits", &body(2000, 100, "FP32", long), decode);
    measure("REST, decode 2000 x 100 FP64, 6 digits", &body(2000, 100, "FP64", six), decode);
    measure("REST, decode 2000 x 100 FP64, 17 digits", &body(2000, 100, "FP64", long), decode);
    measure("REST, decode 2000 x 100 INT64", &body(2000, 100, "INT64", |index| (index * 7919).to_string()), decode);
    measure("REST, decode 20000 BYTES", &body(200, 100, "BYTES", |index| format!("\"word {}\"", index)), decode);

    let one = floats(1, 3);
    measure("REST, encode one row of 3 floats", &one.data, |_| rest_answer(&one, false));
    let many = floats(2000, 100);
    measure("REST, encode 2000 x 100 FP32", &many.data, |_| rest_answer(&many, false));
    measure("REST, encode 2000 x 100 FP32 binary", &many.data, |_| rest_answer(&many, true));

    let row = message(&floats(1, 4));
    measure("gRPC, decode one row of 4 floats", &row, |bytes| rows(oip_grpc::decode(head, bytes)));
    let all = message(&many);
    measure("gRPC, decode 2000 x 100 FP32", &all, |bytes| rows(oip_grpc::decode(head, bytes)));
    let name = || oip_grpc::encode("iris", "1", "", "sha256:00", std::slice::from_ref(&one)).len();
    measure("gRPC, encode one row of 3 floats", &one.data, |_| name());
}

fn six(index: usize) -> String {
    format!("{:.6}", (index as f64 * 0.739).sin() * 10.0)
}

fn long(index: usize) -> String {
    f64::from(((index as f64 * 0.739).sin() * 10.0) as f32).to_string()
}

fn rows(decoded: Result<Decoded, vitrify_plane::fault::Fault>) -> usize {
    match decoded {
        Ok(Decoded::Infer(infer)) => infer.inputs[0].rows(),
        other => panic!("{:?}", other),
    }
}

fn head() -> Head {
    Head {
        wire: Wire::Http,
        method: String::new(),
        path: String::new(),
        query: String::new(),
        headers: Vec::new(),
        peer: [127, 0, 0, 1].into(),
        arrived: Instant::now(),
    }
}

fn body(rows: usize, columns: usize, datatype: &str, element: impl Fn(usize) -> String) -> Vec<u8> {
    let data: Vec<String> = (0..rows * columns).map(element).collect();
    let (shape, data) = (format!("[{},{}]", rows, columns), data.join(","));
    let input = format!(r#"{{"name":"input","shape":{},"datatype":"{}","data":[{}]}}"#, shape, datatype, data);
    format!(r#"{{"id":"1","inputs":[{}]}}"#, input).into_bytes()
}

fn floats(rows: usize, columns: usize) -> Tensor {
    let data = (0..rows * columns).flat_map(|index| ((index as f32 * 0.739).sin() * 0.5 + 0.5).to_le_bytes()).collect();
    Tensor { name: "input".into(), datatype: Datatype::Fp32, shape: vec![rows as u64, columns as u64], data }
}

fn rest_answer(tensor: &Tensor, binary: bool) -> usize {
    let wanted = [Wanted { name: "input".into(), binary: Some(binary) }];
    let outputs = std::slice::from_ref(tensor);
    let answer = oip_rest::encode("iris", "1", "", "sha256:00", outputs, &wanted, Form::Rest { binary });
    answer.expect("finite floats").1.len()
}

/// A `ModelInferRequest` is, but for the names of two fields, like the response of the same tensor.
fn message(tensor: &Tensor) -> Vec<u8> {
    let response = oip_grpc::encode("iris", "", "", "", std::slice::from_ref(tensor));
    let raw = tensor.data.len();
    let head = response.len() - raw;
    let mut request = response;
    // The last field is raw_output_contents (6); in the request raw_input_contents is 7.
    let at = (0..head).rev().find(|at| request[*at] == 0x32).expect("the field's tag");
    request[at] = 0x3a;
    request
}

/// Run for about half a second.
fn measure(what: &str, bytes: &[u8], run: impl Fn(&[u8]) -> usize) {
    let (start, mut times, mut check) = (Instant::now(), 0u32, 0usize);
    while start.elapsed() < Duration::from_millis(500) {
        for _ in 0..8 {
            check = check.wrapping_add(run(bytes));
        }
        times += 8;
    }
    let seconds = start.elapsed().as_secs_f64() / f64::from(times);
    let (nanoseconds, speed) = (seconds * 1e9, bytes.len() as f64 / seconds / 1e6);
    println!("{:44} {:>12.0} ns {:>9.0} MB/s   ({})", what, nanoseconds, speed, check % 10);
}
