//! HTTP/2 and gRPC over real sockets, frame by frame.

mod common;

use common::{all, connect, limits, serve, until};
use std::io::Write;
use vitrify_plane::http2::frame::{self, ACK, END_HEADERS, END_STREAM, PADDED};

#[test]
fn a_call_is_answered_with_message_and_status() {
    let server = serve(limits());
    let mut client = server.grpc();
    for (stream, body) in [(1, &b"hello"[..]), (3, b""), (5, &[9; 10_000])] {
        client.headers(stream, "/t.T/Echo", 0);
        client.message(stream, body, END_STREAM);
        let answer = client.answer(stream);
        assert_eq!((answer.header(":status"), answer.header("grpc-status")), ("200", "0"));
        assert_eq!(answer.header("content-type"), "application/grpc");
        assert_eq!(&answer.data[5..], body);
        assert_eq!(frame::word(&answer.data[1..]) as usize, body.len());
    }
}

#[test]
fn a_call_is_read_however_its_bytes_come() {
    let server = serve(limits());
    let mut client = server.grpc();
    let mut bytes = Vec::new();
    let block = b"\x83\x86\x44\x09/t.T/Echo\x0f\x10\x10application/grpc";
    frame::head(&mut bytes, 5, frame::HEADERS, 0, 1);
    bytes.extend_from_slice(&block[..5]);
    frame::head(&mut bytes, block.len() - 5, frame::CONTINUATION, END_HEADERS, 1);
    bytes.extend_from_slice(&block[5..]);
    frame::head(&mut bytes, 10, frame::DATA, PADDED, 1);
    bytes.extend_from_slice(b"\x03\0\0\0\0\x02h\0\0\0");
    frame::head(&mut bytes, 1, frame::DATA, END_STREAM, 1);
    bytes.push(b'i');
    for byte in &bytes {
        client.write(&[*byte]);
    }
    let answer = client.answer(1);
    assert_eq!((answer.header("grpc-status"), &answer.data[5..]), ("0", &b"hi"[..]));
}

#[test]
fn a_refused_call_has_a_status_and_no_message() {
    let server = serve(limits());
    let mut client = server.grpc();
    for (stream, path, flag, code) in [
        (1, "/t.T/status", 0, "9"),
        (3, "/t.T/refuse", 0, "8"),
        (5, "/t.T/drop", 0, "13"),
        (7, "/t.T/Echo", 2, "13"),
        (9, "/t.T/Echo", 1, "13"),
    ] {
        client.headers(stream, path, 0);
        client.frame(frame::DATA, END_STREAM, stream, &[flag, 0, 0, 0, 0]);
        let answer = client.answer(stream);
        assert_eq!((answer.header("grpc-status"), answer.data.len()), (code, 0), "{path}");
    }
    client.headers(11, "/t.T/status", 0);
    client.message(11, b"", END_STREAM);
    assert_eq!(client.answer(11).header("grpc-message"), "no: %C3%A9%0A");
}

#[test]
fn a_unary_call_has_exactly_one_whole_message() {
    let server = serve(limits());
    let mut client = server.grpc();
    for (stream, bytes) in [(1, &b""[..]), (3, b"\0\0"), (5, b"\0\0\0\0\x02a"), (7, b"\0\0\0\0\0\0\0\0\0\0")] {
        client.headers(stream, "/t.T/Echo", 0);
        client.frame(frame::DATA, END_STREAM, stream, bytes);
        assert_eq!(client.answer(stream).header("grpc-status"), "13", "{bytes:?}");
    }
    client.headers(9, "/t.T/Echo", END_STREAM);
    assert_eq!(client.answer(9).header("grpc-status"), "13");
    client.headers(11, "/t.T/Echo", 0);
    client.frame(frame::DATA, 0, 11, b"\0\x7f\xff\xff\xff");
    assert_eq!(client.answer(11).header("grpc-status"), "8");
}

#[test]
fn a_stream_of_messages_is_answered_one_by_one() {
    let server = serve(limits());
    let mut client = server.grpc();
    client.headers(1, "/s.S/Any", 0);
    for body in [&b"a"[..], b"", b"ccc"] {
        client.message(1, body, 0);
        let (frame, payload) = client.find(frame::DATA).unwrap();
        assert_eq!((frame.stream, &payload[5..]), (1, body));
    }
    client.frame(frame::DATA, END_STREAM, 1, b"");
    assert_eq!(client.answer(1).header("grpc-status"), "0");
    assert_eq!(*server.house.ends.lock().unwrap(), [true]);
}

#[test]
fn a_cancelled_call_is_known_to_the_house() {
    let server = serve(limits());
    let mut client = server.grpc();
    client.headers(1, "/t.T/hold", 0);
    client.message(1, b"", END_STREAM);
    client.headers(3, "/s.S/Any", 0);
    server.house.wait_for_held(1);
    assert!(!server.house.held.lock().unwrap()[0].2.gone());
    client.frame(frame::RESET, 0, 1, &8u32.to_be_bytes());
    client.frame(frame::RESET, 0, 3, &8u32.to_be_bytes());
    until(|| server.house.held.lock().unwrap()[0].2.gone());
    until(|| *server.house.ends.lock().unwrap() == [false]);
    server.house.release();
    client.headers(5, "/t.T/Echo", 0);
    client.message(5, b"x", END_STREAM);
    assert_eq!(client.answer(5).header("grpc-status"), "0");
}

#[test]
fn a_client_that_disconnects_is_known_to_the_house() {
    let server = serve(limits());
    let mut client = server.grpc();
    client.headers(1, "/t.T/hold", 0);
    client.message(1, b"", END_STREAM);
    server.house.wait_for_held(1);
    drop(client);
    until(|| server.house.held.lock().unwrap()[0].2.gone());
    server.house.release();
}

#[test]
fn an_answer_waits_for_the_window() {
    let server = serve(limits());
    let mut client = server.grpc();
    // A stream's window of ten bytes, then of twenty more, then of all.
    client.frame(frame::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 10]);
    client.headers(1, "/t.T/Echo", 0);
    client.message(1, &[7; 1000], END_STREAM);
    assert_eq!(client.find(frame::DATA).unwrap().1.len(), 10);
    client.frame(frame::WINDOW, 0, 1, &20u32.to_be_bytes());
    assert_eq!(client.find(frame::DATA).unwrap().1.len(), 20);
    client.frame(frame::SETTINGS, 0, 0, &[0, 4, 0, 0, 16, 0]);
    let answer = client.answer(1);
    assert_eq!((answer.data.len(), answer.header("grpc-status")), (1005 - 30, "0"));
}

#[test]
fn megabytes_travel_both_ways() {
    let server = serve(limits());
    let mut client = server.grpc();
    client.headers(1, "/t.T/megabytes", 0);
    client.message(1, b"", END_STREAM);
    assert_eq!(client.answer(1).data.len(), (20 << 20) + 5);
    // Upwards, no more than the windows allow.
    client.headers(3, "/t.T/large", 0);
    let mut body = vec![0u8];
    body.extend_from_slice(&(8u32 << 20).to_be_bytes());
    body.resize(5 + (8 << 20), 3);
    let (mut at, mut room) = (0, 1i64 << 20);
    while at < body.len() {
        while room < 16_384 {
            let (frame, payload) = client.find(frame::WINDOW).unwrap();
            room += if frame.stream == 3 { i64::from(frame::word(&payload)) } else { 0 };
        }
        let end = (at + 16_384).min(body.len());
        let last = if end == body.len() { END_STREAM } else { 0 };
        client.frame(frame::DATA, last, 3, &body[at..end]);
        room -= (end - at) as i64;
        at = end;
    }
    let answer = client.answer(3);
    assert_eq!((answer.data.len(), answer.header("grpc-status")), (body.len(), "0"));
}

#[test]
fn plain_requests_are_answered_too() {
    let server = serve(limits());
    let mut client = server.grpc();
    for (stream, path, status, data) in
        [(1, "/echo", "200", &b"body"[..]), (3, "/refuse", "429", b"busy"), (5, "/drop", "500", b"")]
    {
        let mut block = vec![0x83, 0x86, 0x44, path.len() as u8];
        block.extend_from_slice(path.as_bytes());
        client.frame(frame::HEADERS, END_HEADERS, stream, &block);
        client.frame(frame::DATA, END_STREAM, stream, b"body");
        let answer = client.answer(stream);
        assert_eq!(answer.header(":status"), status);
        assert!(answer.data.starts_with(data), "{answer:?}");
    }
    client.frame(frame::HEADERS, END_HEADERS | END_STREAM, 7, b"\x82\x86\x44\x07/pieces");
    assert_eq!(client.answer(7).header(":status"), "200");
    client.frame(frame::HEADERS, END_HEADERS | END_STREAM, 9, b"\x82\x86\x44\x08/nothing");
    let answer = client.answer(9);
    assert_eq!((answer.headers.len(), answer.header(":status"), answer.data.len()), (1, "204", 0));
}

#[test]
fn pings_and_settings_are_acknowledged() {
    let server = serve(limits());
    let mut client = server.grpc();
    client.frame(frame::PING, 0, 0, b"12345678");
    let (ping, payload) = client.find(frame::PING).unwrap();
    assert!(ping.has(ACK) && payload == b"12345678");
    client.frame(frame::PRIORITY, 0, 9, &[0; 5]);
    client.frame(200, 0xff, 9, b"unknown");
    client.headers(1, "/t.T/Echo", 0);
    client.message(1, b"x", END_STREAM);
    assert_eq!(client.answer(1).header("grpc-status"), "0");
}

#[test]
fn more_streams_than_allowed_are_refused() {
    let server = serve(limits());
    let mut client = server.grpc();
    for stream in 0..17 {
        client.headers(stream * 2 + 1, "/t.T/hold", 0);
    }
    assert_eq!(client.answer(33).reset, Some(7));
}

#[test]
fn errors_of_a_stream_leave_the_others_alone() {
    let server = serve(limits());
    let mut client = server.grpc();
    for (stream, block) in [(1, &b"\x83\x86"[..]), (3, b"\x83\x86\x44\x01a"), (5, b"\x83\x86\x84\x00\x01A\x01b")] {
        client.frame(frame::HEADERS, END_HEADERS | END_STREAM, stream, block);
        assert_eq!(client.answer(stream).reset, Some(1), "{block:?}");
    }
    client.headers(7, "/t.T/hold", 0);
    client.frame(frame::WINDOW, 0, 7, &frame::MOST.to_be_bytes());
    assert_eq!(client.answer(7).reset, Some(3));
    client.headers(9, "/t.T/hold", END_STREAM);
    client.headers(11, "/t.T/Echo", 0);
    client.message(11, b"x", END_STREAM);
    assert_eq!(client.answer(11).header("grpc-status"), "0");
}

#[test]
fn errors_of_the_connection_end_it_with_their_code() {
    let server = serve(limits());
    for (code, kind, flags, stream, payload) in [
        (1, frame::DATA, 0, 0, &b"x"[..]),
        (1, frame::DATA, 0, 1, b"x"),
        (1, frame::DATA, PADDED, 1, b"\x05x"),
        (1, frame::HEADERS, END_HEADERS, 2, b"\x82"),
        (1, frame::HEADERS, END_HEADERS, 0, b"\x82"),
        (9, frame::HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff"),
        (1, frame::CONTINUATION, END_HEADERS, 1, b"\x82"),
        (1, frame::PUSH, END_HEADERS, 1, b"\0\0\0\x02"),
        (1, frame::RESET, 0, 1, &[0; 4]),
        (6, frame::RESET, 0, 1, &[0; 3]),
        (6, frame::PING, 0, 0, &[0; 7]),
        (1, frame::PING, 0, 1, &[0; 8]),
        (6, frame::SETTINGS, 0, 0, &[0; 5]),
        (6, frame::SETTINGS, ACK, 0, &[0; 6]),
        (1, frame::SETTINGS, 0, 1, &[0; 6]),
        (1, frame::SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 2]),
        (3, frame::SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0]),
        (1, frame::SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 1]),
        (1, frame::WINDOW, 0, 0, &[0; 4]),
        (3, frame::WINDOW, 0, 0, &[0x7f, 0xff, 0xff, 0xff]),
        (6, frame::WINDOW, 0, 0, &[0; 5]),
        (6, frame::PRIORITY, 0, 1, &[0; 4]),
    ] {
        let mut client = server.grpc();
        client.frame(kind, flags, stream, payload);
        assert_eq!(client.goaway(), code, "kind {kind}, flags {flags}, stream {stream}, {payload:?}");
        while client.next().is_some() {}
    }
    let mut client = server.grpc();
    client.write(&[0, 0x40, 1, 0, 0, 0, 0, 0, 1]);
    assert_eq!(client.goaway(), 6, "a frame that is too large");
    let mut client = server.grpc();
    client.frame(frame::HEADERS, 0, 1, b"\x82");
    client.frame(frame::PING, 0, 0, &[0; 8]);
    assert_eq!(client.goaway(), 1, "a header block that is interrupted");
}

#[test]
fn a_client_of_http1_is_told_what_the_port_speaks() {
    let server = serve(limits());
    let mut socket = connect(server.front.ports().1);
    socket.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let text = all(&mut socket);
    let answer = &text[text.find("HTTP/1.1 400 ").expect("an answer of HTTP/1.1")..];
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("content-length: {}", body.len())), "{answer}");
}
