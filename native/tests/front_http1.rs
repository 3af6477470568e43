//! HTTP/1.1 over real sockets.

mod common;

use std::io::Write;

use common::{all, limits, serve, until};

/// Status lines of the answers in a text.
fn statuses(text: &str) -> Vec<u16> {
    text.split("HTTP/1.1 ").skip(1).filter_map(|rest| rest.get(..3)?.parse().ok()).collect()
}

fn post(path: &str, body: &str, more: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n{more}\r\n{body}", body.len())
}

#[test]
fn a_body_is_answered() {
    let server = serve(limits());
    let text = server.talk(post("/echo", "hello", "connection: close\r\n").as_bytes());
    assert_eq!(text, "HTTP/1.1 200 OK\r\nx-a: b\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello");
}

#[test]
fn a_request_is_read_however_its_bytes_come() {
    let server = serve(limits());
    let request = "POST /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let whole = server.talk(request.as_bytes());
    assert!(whole.ends_with("abc"), "{whole}");
    for split in (1..request.len()).step_by(7) {
        let mut socket = server.http();
        socket.write_all(&request.as_bytes()[..split]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
        socket.write_all(&request.as_bytes()[split..]).unwrap();
        assert_eq!(all(&mut socket), whole, "split at {split}");
    }
}

#[test]
fn pipelined_answers_come_in_the_order_of_their_requests() {
    let server = serve(limits());
    let mut socket = server.http();
    let last = post("/echo", "last", "connection: close\r\n");
    let requests = [
        post("/hold", "one", ""),
        post("/echo", "two", ""),
        post("/pieces", "three", ""),
        post("/hold", "four", ""),
        last,
    ];
    socket.write_all(requests.concat().as_bytes()).unwrap();
    server.house.wait_for_held(2);
    server.house.release();
    let text = all(&mut socket);
    let places: Vec<_> = ["one", "two", "thr", "four", "last"].iter().map(|word| text.find(word).unwrap()).collect();
    assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{text}");
    assert_eq!(statuses(&text), [200; 5]);
}

#[test]
fn more_requests_than_may_wait_are_all_answered() {
    let server = serve(limits());
    let mut socket = server.http();
    let mut requests = post("/echo", "x", "").repeat(999);
    requests += &post("/echo", "x", "connection: close\r\n");
    socket.write_all(requests.as_bytes()).unwrap();
    assert_eq!(statuses(&all(&mut socket)), [200; 1000]);
}

#[test]
fn what_is_malformed_is_refused_and_the_connection_ends() {
    let server = serve(limits());
    let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(5000));
    let large = format!("GET / HTTP/1.1\r\nhost: x\r\na: {}", "b".repeat(5000));
    let many = format!("GET / HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: b\r\n".repeat(40));
    for (status, request) in [
        (400, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        (400, "GET / HTTP/1.1\nhost: x\n\n"),
        (400, "GET / HTTP/1.1\r\nhost : x\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n"),
        (413, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100001\r\n\r\n"),
        (413, "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n186a1\r\n"),
        (414, &long),
        (431, &large),
        (431, &many),
        (417, "GET / HTTP/1.1\r\nhost: x\r\nexpect: gold\r\n\r\n"),
        (501, "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n\r\n"),
        (505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ] {
        // What follows must not be taken for a request.
        let text = server.talk(format!("{request}GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes());
        assert_eq!(statuses(&text), [status], "{request:?}: {text}");
        assert!(text.contains("connection: close\r\n"));
    }
}

#[test]
fn a_refusal_keeps_the_connection_where_the_body_is_small() {
    let server = serve(limits());
    let text = server.talk((post("/refuse", "body", "") + &post("/echo", "next", "connection: close\r\n")).as_bytes());
    assert_eq!(statuses(&text), [429, 200], "{text}");
    let text =
        server.talk((post("/refuse", "body", "expect: 100-continue\r\n") + &post("/echo", "next", "")).as_bytes());
    assert_eq!(statuses(&text), [429], "{text}");
}

#[test]
fn a_client_that_waits_is_told_to_go_on() {
    let server = serve(limits());
    let mut socket = server.http();
    let head =
        "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n";
    socket.write_all(head.as_bytes()).unwrap();
    let mut interim = [0; 25];
    std::io::Read::read_exact(&mut socket, &mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    socket.write_all(b"body").unwrap();
    assert!(all(&mut socket).ends_with("body"));
}

#[test]
fn the_head_alone_is_answered_to_head() {
    let server = serve(limits());
    let request = "HEAD /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody";
    let text = server.talk(request.as_bytes());
    assert!(text.contains("content-length: 4\r\n") && text.ends_with("\r\n\r\n"), "{text}");
}

#[test]
fn an_answer_without_content_has_no_body() {
    let server = serve(limits());
    let text = server.talk((post("/nothing", "", "") + &post("/echo", "", "connection: close\r\n")).as_bytes());
    assert!(text.starts_with("HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n"), "{text}");
}

#[test]
fn a_streamed_answer_is_chunked_or_ends_with_the_connection() {
    let server = serve(limits());
    let text = server.talk(post("/pieces", "abcde", "connection: close\r\n").as_bytes());
    assert!(text.ends_with("\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"), "{text}");
    let text = server.talk(b"POST /pieces HTTP/1.0\r\ncontent-length: 5\r\nconnection: keep-alive\r\n\r\nabcde");
    assert!(text.ends_with("connection: close\r\n\r\nabcde"), "{text}");
    let text = server.talk(post("/broken", "", "").as_bytes());
    assert!(text.ends_with("4\r\nhalf\r\n"), "a broken answer must not look whole: {text}");
}

#[test]
fn an_old_client_may_keep_its_connection() {
    let server = serve(limits());
    let text = server.talk(b"GET /echo HTTP/1.0\r\nconnection: keep-alive\r\n\r\nGET /echo HTTP/1.0\r\n\r\n");
    assert_eq!(statuses(&text), [200, 200]);
    assert!(text.contains("connection: keep-alive\r\n"));
}

#[test]
fn a_reply_that_is_let_fall_is_an_error() {
    let server = serve(limits());
    let text = server.talk(post("/drop", "", "").as_bytes());
    assert_eq!(statuses(&text), [500]);
}

#[test]
fn a_panic_ends_one_connection_only() {
    let server = serve(limits());
    assert_eq!(server.talk(post("/panic", "", "").as_bytes()), "");
    let text = server.talk(post("/echo", "", "connection: close\r\n").as_bytes());
    assert_eq!(statuses(&text), [200]);
}

#[test]
fn a_client_that_disconnects_is_known_to_the_house() {
    let server = serve(limits());
    let mut socket = server.http();
    socket.write_all(post("/hold", "x", "").as_bytes()).unwrap();
    server.house.wait_for_held(1);
    assert!(!server.house.held.lock().unwrap()[0].2.gone());
    drop(socket);
    until(|| server.house.held.lock().unwrap()[0].2.gone());
    server.house.release();
}

#[test]
fn a_client_that_has_said_all_is_still_answered() {
    let server = serve(limits());
    let mut socket = server.http();
    socket.write_all(post("/hold", "x", "").as_bytes()).unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    server.house.wait_for_held(1);
    server.house.release();
    assert_eq!(statuses(&all(&mut socket)), [200]);
}

#[test]
fn large_bodies_travel_both_ways() {
    let server = serve(limits());
    let body: String = "0123456789abcdef".repeat(1 << 20);
    let mut socket = server.http();
    let mut writer = socket.try_clone().unwrap();
    let request = post("/large", &body, "connection: close\r\n");
    let thread = std::thread::spawn(move || writer.write_all(request.as_bytes()).unwrap());
    let text = all(&mut socket);
    thread.join().unwrap();
    assert!(text.ends_with(&body) && text.contains("content-length: 16777216\r\n"));
}
