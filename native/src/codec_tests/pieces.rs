//! The small pieces: varints, rows and offsets, limits of time.

use super::{texts, Random};
use crate::protobuf::{varint, varint_size, write_varint};
use crate::rows::{check_raw, offsets, tensor_rows};
use crate::tensor::{Datatype, Tensor};
use crate::timeout::{from_grpc, from_header};

#[test]
fn varints_come_back_and_have_the_size_that_was_said() {
    let mut random = Random(1);
    let ends = (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit]).chain([u64::MAX]);
    for value in ends.chain((0..1000).map(|_| random.next())) {
        let mut out = Vec::new();
        write_varint(&mut out, value);
        assert_eq!(out.len(), varint_size(value));
        out.push(7);
        let mut rest = out.as_slice();
        assert_eq!((varint(&mut rest), rest), (Ok(value), &[7][..]));
    }
}

#[test]
fn varints_that_are_cut_off_or_too_long_are_refused() {
    for bytes in [&[][..], &[0x80], &[0xff; 9], &[0xff; 10], &[0xff; 11]] {
        varint(&mut &*bytes).expect_err("no varint");
    }
    let most = [[0xff; 9].as_slice(), &[1]].concat();
    assert_eq!(varint(&mut most.as_slice()), Ok(u64::MAX));
    varint(&mut [[0xff; 9].as_slice(), &[2]].concat().as_slice()).expect_err("65 bits");
    assert_eq!(varint(&mut &[0x80, 0][..]), Ok(0), "a longer form than needed is allowed");
}

#[test]
fn rows_are_where_they_lie() {
    let data: Vec<u8> = (0..24).collect();
    let tensor = Tensor { name: "x".into(), datatype: Datatype::Int16, shape: vec![4, 3], data };
    assert_eq!(tensor_rows(&tensor, 1, 3), Some(&tensor.data[6..18]));
    assert_eq!(tensor_rows(&tensor, 4, 4), Some(&[][..]));
    assert_eq!((tensor_rows(&tensor, 3, 5), tensor_rows(&tensor, 2, 1)), (None, None));
    let empty = Tensor { name: "x".into(), datatype: Datatype::Int16, shape: vec![0, 3], data: Vec::new() };
    assert_eq!(tensor_rows(&empty, 0, 0), Some(&[][..]));
    let words = Tensor { name: "x".into(), datatype: Datatype::Bytes, shape: vec![1], data: texts(&["a"]) };
    assert_eq!(tensor_rows(&words, 0, 1), None);
}

#[test]
fn offsets_are_checked_against_the_data() {
    let data = texts(&["a", "", "xyz"]);
    assert_eq!(offsets(&data, 3), Ok(vec![0, 5, 9, 16]));
    assert_eq!(offsets(&[], 0), Ok(vec![0]));
    for (data, count) in [(&data[..], 2), (&data[..], 4), (&data[..15], 3), (&data[..], usize::MAX), (&data[..2], 0)] {
        offsets(data, count).expect_err("lengths that do not fit");
    }
}

#[test]
fn raw_data_are_as_long_as_the_shape_says() {
    assert_eq!(check_raw(Datatype::Fp32, &[2, 1], &[0; 8]), Ok(()));
    check_raw(Datatype::Fp32, &[2, 1], &[0; 9]).expect_err("a byte too many");
    check_raw(Datatype::Fp32, &[u64::MAX, 2], &[]).expect_err("more than a machine can count");
    check_raw(Datatype::Fp64, &[1 << 61], &[]).expect_err("more bytes than a machine can count");
    check_raw(Datatype::Bytes, &[1 << 62], &[]).expect_err("no elements");
}

#[test]
fn limits_of_time_are_microseconds() {
    for (text, expected) in
        [("1H", 3_600_000_000), ("2M", 120_000_000), ("3S", 3_000_000), ("4m", 4000), ("5u", 5), ("6000n", 6)]
    {
        assert_eq!(from_grpc(text), expected, "{}", text);
    }
    assert_eq!((from_grpc("0S"), from_grpc("1n"), from_grpc("99999999H")), (1, 1, 359_999_996_400_000_000));
    for text in ["", "S", "1", "1s", "-1S", "1.5S", "123456789S", "1 S", "\u{e9}"] {
        assert_eq!((from_grpc(text), from_header(text)), (0, u64::from(text == "1") * 1000), "{}", text);
    }
    assert_eq!((from_header("15"), from_header("0"), from_header("+2")), (15_000, 1, 0));
    assert_eq!((from_header("999999999999999999"), from_header("1000000000000000000")), (u64::MAX, 0));
}
