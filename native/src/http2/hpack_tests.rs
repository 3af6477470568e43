//! The examples of RFC 7541, appendix C, and what must be refused.

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

fn decoded(decoder: &mut Decoder, hex: &str) -> Vec<(String, String)> {
    let list = decoder.decode(&bytes(hex), 1 << 16, 100).unwrap();
    assert!(!list.over);
    list.headers
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

#[test]
fn integers_are_read() {
    // C.1.1, C.1.2, C.1.3
    assert_eq!(Cursor(&[0b0000_1010]).integer(5), Ok(10));
    assert_eq!(Cursor(&[0b0001_1111, 0b1001_1010, 0b0000_1010]).integer(5), Ok(1337));
    assert_eq!(Cursor(&[0b0010_1010]).integer(8), Ok(42));
    assert_eq!(Cursor(&[0x1f, 0xff, 0xff, 0xff, 0xff, 0x0f]).integer(5), Err(Broken));
    assert_eq!(Cursor(&[0x1f, 0x80]).integer(5), Err(Broken));
}

#[test]
fn single_representations() {
    for (hex, name, value, kept) in [
        ("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", "custom-key", "custom-header", 55),
        ("040c 2f73 616d 706c 652f 7061 7468", ":path", "/sample/path", 0),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", "password", "secret", 0),
        ("82", ":method", "GET", 0),
    ] {
        let mut decoder = Decoder::new();
        assert_eq!(decoded(&mut decoder, hex), pairs(&[(name, value)]));
        assert_eq!(decoder.bytes, kept);
    }
}

const FIRST: &[(&str, &str)] =
    &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];
const SECOND: &[(&str, &str)] = &[
    (":method", "GET"),
    (":scheme", "http"),
    (":path", "/"),
    (":authority", "www.example.com"),
    ("cache-control", "no-cache"),
];
const THIRD: &[(&str, &str)] = &[
    (":method", "GET"),
    (":scheme", "https"),
    (":path", "/index.html"),
    (":authority", "www.example.com"),
    ("custom-key", "custom-value"),
];

#[test]
fn requests_in_a_row_with_and_without_huffman() {
    // C.3 and C.4
    for blocks in [
        [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ],
        [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ],
    ] {
        let mut decoder = Decoder::new();
        assert_eq!(decoded(&mut decoder, blocks[0]), pairs(FIRST));
        assert_eq!(decoder.bytes, 57);
        assert_eq!(decoded(&mut decoder, blocks[1]), pairs(SECOND));
        assert_eq!(decoder.bytes, 110);
        assert_eq!(decoded(&mut decoder, blocks[2]), pairs(THIRD));
        assert_eq!(decoder.bytes, 164);
    }
}

#[test]
fn answers_in_a_row_evict_from_a_small_table() {
    // C.6, with a table of 256 bytes.
    let mut decoder = Decoder::new();
    decoder.most = 256;
    let date = "Mon, 21 Oct 2013 20:13:21 GMT";
    let later = "Mon, 21 Oct 2013 20:13:22 GMT";
    let place = "https://www.example.com";
    let first =
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 \
                 63c7 8f0b 97c8 e9ae 82ae 43d3";
    assert_eq!(
        decoded(&mut decoder, first),
        pairs(&[(":status", "302"), ("cache-control", "private"), ("date", date), ("location", place)])
    );
    assert_eq!(decoder.bytes, 222);
    assert_eq!(
        decoded(&mut decoder, "4883 640e ffc1 c0bf"),
        pairs(&[(":status", "307"), ("cache-control", "private"), ("date", date), ("location", place)])
    );
    assert_eq!(decoder.bytes, 222);
    let third =
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 \
                 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07";
    let cookie = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
    assert_eq!(
        decoded(&mut decoder, third),
        pairs(&[
            (":status", "200"),
            ("cache-control", "private"),
            ("date", later),
            ("location", place),
            ("content-encoding", "gzip"),
            ("set-cookie", cookie),
        ])
    );
    assert_eq!(decoder.bytes, 215);
}

#[test]
fn broken_blocks_are_refused() {
    for hex in [
        "80",
        "be",
        "ff ff ff ff ff ff",
        "40",
        "40 0a 61",
        "00 01 61",
        "00 01 61 7f ff ff ff 0f",
        "00 81 00 00",
        "3f e2 1f",
        "82 20",
        "7f 80",
    ] {
        assert_eq!(Decoder::new().decode(&bytes(hex), 1 << 16, 100).err(), Some(Broken), "{hex}");
    }
}

#[test]
fn a_bomb_of_indices_is_not_kept() {
    let mut decoder = Decoder::new();
    let mut block = vec![0x40, 1, b'a', 0x7f, 0xa1, 0x0f];
    block.extend_from_slice(&[b'x'; 2080]);
    block.extend_from_slice(&[0xbe; 10_000]);
    let list = decoder.decode(&block, 8192, 100).unwrap();
    assert!(list.over && list.headers.len() <= 3);
    let list = decoder.decode(&[0x82; 200], 1 << 20, 100).unwrap();
    assert!(list.over && list.headers.len() == 100);
}

#[test]
fn a_table_may_be_emptied_and_grown_again() {
    let mut decoder = Decoder::new();
    decoded(&mut decoder, "4001610162");
    assert_eq!(decoder.bytes, 34);
    decoded(&mut decoder, "203fe11f82");
    assert_eq!((decoder.bytes, decoder.most), (0, TABLE_BYTES));
}
