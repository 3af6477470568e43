use super::*;

fn whole(text: &str) -> Result<Parsed, Refusal> {
    let mut scanned = 0;
    let found = end(text.as_bytes(), &mut scanned, 4096)?.expect("the head ends");
    parse(&text.as_bytes()[..found], 8)
}

#[test]
fn a_head_is_parsed() {
    let parsed =
        whole("POST /v2/m%20x/infer?a=1&b HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\nX-A:\t b c \r\n\r\n").unwrap();
    assert_eq!((&*parsed.method, &*parsed.path, &*parsed.query), ("POST", "/v2/m%20x/infer", "a=1&b"));
    assert_eq!(parsed.headers[2], ("x-a".to_string(), "b c".to_string()));
    assert_eq!(parsed.length, Length::Sized(12));
    assert!(parsed.modern && parsed.keep && !parsed.expects);
}

#[test]
fn the_end_is_found_however_the_bytes_come() {
    let bytes = b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET /next";
    let expected = bytes.len() - 9;
    for first in 0..=bytes.len() {
        for second in first..=bytes.len() {
            let mut scanned = 0;
            let mut found = end(&bytes[..first], &mut scanned, 4096).unwrap();
            found = found.or_else(|| end(&bytes[..second], &mut scanned, 4096).unwrap());
            found = found.or_else(|| end(bytes, &mut scanned, 4096).unwrap());
            assert_eq!(found, Some(expected), "split at {first} and {second}");
        }
    }
}

#[test]
fn the_connection_is_kept_or_not_as_the_client_says() {
    let kept = |text: &str| whole(text).unwrap().keep;
    assert!(kept("GET / HTTP/1.1\r\nhost: x\r\n\r\n"));
    assert!(!kept("GET / HTTP/1.1\r\nhost: x\r\nconnection: te, Close\r\n\r\n"));
    assert!(!kept("GET / HTTP/1.0\r\n\r\n"));
    assert!(kept("GET / HTTP/1.0\r\nconnection: Keep-Alive\r\n\r\n"));
}

#[test]
fn every_form_of_a_target_has_a_path() {
    for (target, path, query) in [
        ("/", "/", ""),
        ("/a?b?c", "/a", "b?c"),
        ("http://host/a?b", "/a", "b"),
        ("HTTP://host", "/", ""),
        ("http://host?b", "/", "b"),
    ] {
        let parsed = whole(&format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n")).unwrap();
        assert_eq!((&*parsed.path, &*parsed.query), (path, query), "{target}");
    }
    assert_eq!(whole("OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n").unwrap().path, "*");
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    for (status, head) in [
        (400, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ncontent-length: 1\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1, 1\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: +1\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0x1\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: \r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999999999999\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length : 1\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\n content-length: 1\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\n\tfolded\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\ncontent-length: 1\r\n\r\n"),
        (400, "POST / HTTP/1.1\nhost: x\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\na: b\rc: d\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\na: b\0\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\nno colon\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\n: empty\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\na b: c\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\n\r\n"),
        (400, "POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n"),
        (501, "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n"),
        (501, "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: xchunked\r\n\r\n"),
        (501, "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked, chunked\r\n\r\n"),
        (501, "CONNECT a:1 HTTP/1.1\r\nhost: x\r\n\r\n"),
        (505, "PRI * HTTP/2.0\r\n\r\n"),
        (505, "GET / HTTP/1.2\r\nhost: x\r\n\r\n"),
        (400, "GET / http/1.1\r\nhost: x\r\n\r\n"),
        (400, "GET /\r\n\r\n"),
        (400, "GET  / HTTP/1.1\r\nhost: x\r\n\r\n"),
        (400, "GET / HTTP/1.1 \r\nhost: x\r\n\r\n"),
        (400, " GET / HTTP/1.1\r\nhost: x\r\n\r\n"),
        (400, "GET /a b HTTP/1.1\r\nhost: x\r\n\r\n"),
        (400, "GET /\u{e9} HTTP/1.1\r\nhost: x\r\n\r\n"),
        (400, "GET /#f HTTP/1.1\r\nhost: x\r\n\r\n"),
        (400, "GET a HTTP/1.1\r\nhost: x\r\n\r\n"),
        (400, "GET * HTTP/1.1\r\nhost: x\r\n\r\n"),
        (400, "G@T / HTTP/1.1\r\nhost: x\r\n\r\n"),
        (417, "POST / HTTP/1.1\r\nhost: x\r\nexpect: 200-ok\r\n\r\n"),
        (431, "GET / HTTP/1.1\r\nhost: x\r\na:\r\nb:\r\nc:\r\nd:\r\ne:\r\nf:\r\ng:\r\nh:\r\n\r\n"),
    ] {
        assert_eq!(whole(head).map_err(|refusal| refusal.0), Err(status), "{head:?}");
    }
}

#[test]
fn a_head_that_is_too_large_is_refused_before_it_ends() {
    let mut scanned = 0;
    assert_eq!(end(&[b'a'; 65], &mut scanned, 64).unwrap_err().0, 414);
    let mut scanned = 0;
    let head = format!("GET / HTTP/1.1\r\na: {}", "b".repeat(64));
    assert_eq!(end(head.as_bytes(), &mut scanned, 64).unwrap_err().0, 431);
}

#[test]
fn bytes_that_are_no_utf8_are_latin() {
    let mut bytes = b"GET / HTTP/1.1\r\nhost: x\r\na: \xe9\r\n\r\n".to_vec();
    assert_eq!(parse(&bytes, 8).unwrap().headers[1].1, "\u{e9}");
    bytes.truncate(3);
    assert!(parse(&bytes, 8).is_err());
}
