//! Numbers are exact, and rounded once.

use super::{bytes, input, rest, Random};
use crate::infer::Decoded;
use crate::number::{scan, Half};
use crate::shortest::write_f32;

fn to_f32(text: &str) -> f32 {
    scan(text.as_bytes(), 0).expect(text).to_f32(text.as_bytes())
}

fn to_f64(text: &str) -> f64 {
    scan(text.as_bytes(), 0).expect(text).to_f64(text.as_bytes())
}

fn half(text: &str, kind: Half) -> u16 {
    scan(text.as_bytes(), 0).expect(text).to_half(text.as_bytes(), kind)
}

/// Check both floats against the standard library.
fn same(text: &str) {
    let (single, double) = (text.parse::<f32>().expect(text), text.parse::<f64>().expect(text));
    assert_eq!(to_f32(text).to_bits(), single.to_bits(), "{} as f32", text);
    assert_eq!(to_f64(text).to_bits(), double.to_bits(), "{} as f64", text);
}

#[test]
fn floats_are_the_nearest_to_the_text() {
    let texts = [
        "0",
        "-0",
        "0.0",
        "-0.0e5",
        "1",
        "0.1",
        "0.3",
        "1e22",
        "1e23",
        "9007199254740993",
        "9007199254740992.5",
        "1.7976931348623157e308",
        "4.9e-324",
        "2.4e-324",
        "2.2250738585072011e-308",
        "3.4028235e38",
        "3.4028236e38",
        "1.1754944e-38",
        "1e-45",
        "7e-46",
        "16777217",
        "16777217.0000000001",
        "16777219",
        "0.10000000149011612",
        "1.00000005960464477539062500",
        "1.000000059604644775390625000000000000001",
        "8.589973e9",
        "1e999",
        "1e-999",
        "0e99999999999",
        "123456789012345678901234567890",
        "0.000000000000000000000000000001",
        "99999999999999999999e-20",
        "1e10",
        "33554433",
        "1234567890123456789e-18",
    ];
    texts.iter().for_each(|text| same(text));
}

#[test]
fn random_texts_of_any_length_are_rounded_as_the_standard_library_does() {
    let mut random = Random(7);
    for _ in 0..60_000 {
        let digits = 1 + random.below(21);
        let mut text: String = (0..digits).map(|_| char::from(b'0' + random.below(10) as u8)).collect();
        text = text.trim_start_matches('0').to_string();
        if text.is_empty() {
            text.push('0');
        }
        if random.below(3) > 0 {
            let point = 1 + random.below(text.len());
            let leading = text.starts_with('0');
            text.insert(if leading { 1 } else { point }, '.');
            text.push('5');
        }
        match random.below(3) {
            0 => text += &format!("e{}", random.below(90) as i64 - 60),
            1 => text.insert(0, '-'),
            _ => (),
        }
        same(&text);
    }
}

#[test]
fn texts_next_to_the_middle_of_two_singles_are_rounded_once() {
    let mut random = Random(8);
    for _ in 0..20_000 {
        let single = f32::from_bits(random.next() as u32 & 0x7fff_ffff);
        if !single.is_normal() || single == f32::MAX {
            continue;
        }
        let middle = (f64::from(single) + f64::from(f32::from_bits(single.to_bits() + 1))) / 2.0;
        for double in [middle, f64::from_bits(middle.to_bits() - 1), f64::from_bits(middle.to_bits() + 1)] {
            same(&format!("{}", double));
            same(&format!("{:e}", double));
            same(&format!("{:.17e}", double));
        }
    }
}

#[test]
fn every_half_comes_back_from_its_own_value() {
    for bits in 0..=u16::MAX {
        for kind in [Half::Fp16, Half::Bf16] {
            let value = kind.widen(bits);
            let back = kind.narrow(f64::from(value));
            assert!(back == bits || (value.is_nan() && kind.widen(back).is_nan()), "{:?} {:#06x}", kind, bits);
        }
    }
}

#[test]
fn halves_are_rounded_to_the_nearest_and_ties_to_even() {
    let cases = [
        ("1", 0x3c00, 0x3f80),
        ("-2", 0xc000, 0xc000),
        ("65504", 0x7bff, 0x4780),
        ("65519.99", 0x7bff, 0x4780),
        ("65520", 0x7c00, 0x4780),
        ("0.1", 0x2e66, 0x3dcd),
        ("5.9604644775390625e-8", 0x0001, 0x3380),
        ("2.98023223876953125e-8", 0x0000, 0x3300),
        ("2.980232238769531251e-8", 0x0001, 0x3300),
        ("2.98023223876953124e-8", 0x0000, 0x3300),
        // Between 1 and its next half; a double cannot tell the last two from the first.
        ("1.00048828125", 0x3c00, 0x3f80),
        ("1.0004882812500000000000000000001", 0x3c01, 0x3f80),
        ("1.0004882812499999999999999999999", 0x3c00, 0x3f80),
        ("1.00146484375", 0x3c02, 0x3f80),
        ("1.0014648437499999999999999999999", 0x3c01, 0x3f80),
        ("1.00390625", 0x3c04, 0x3f80),
        ("1.0039062500000000000000000000000000001e0", 0x3c04, 0x3f81),
        ("0.010039062500000000000000000000000000001E+2", 0x3c04, 0x3f81),
        ("1.01171875", 0x3c0c, 0x3f82),
        ("3e38", 0x7c00, 0x7f62),
        ("3.4e38", 0x7c00, 0x7f80),
        ("9.2e-41", 0x0000, 0x0001),
        ("4e-41", 0x0000, 0x0000),
        ("1e-400", 0x0000, 0x0000),
        ("0.0000e99", 0x0000, 0x0000),
    ];
    for (text, fp16, bf16) in cases {
        assert_eq!(half(text, Half::Fp16), fp16, "{} as FP16", text);
        assert_eq!(half(text, Half::Bf16), bf16, "{} as BF16", text);
    }
}

#[test]
fn integers_never_go_through_a_double() {
    for text in ["9007199254740993", "9223372036854775807", "-9223372036854775808", "0", "-0", "-1"] {
        let value: i64 = text.parse().expect(text);
        assert_eq!(bytes("INT64", "[1]", &format!("[{}]", text)), value.to_le_bytes());
    }
    for text in ["18446744073709551615", "18446744073709551614", "9007199254740993"] {
        let value: u64 = text.parse().expect(text);
        assert_eq!(bytes("UINT64", "[1]", &format!("[{}]", text)), value.to_le_bytes());
    }
}

#[test]
fn every_integer_type_takes_its_ends_and_nothing_beyond() {
    let types = [
        ("UINT8", "0", "255", "-1", "256"),
        ("UINT16", "0", "65535", "-1", "65536"),
        ("UINT32", "0", "4294967295", "-1", "4294967296"),
        ("UINT64", "0", "18446744073709551615", "-1", "18446744073709551616"),
        ("INT8", "-128", "127", "-129", "128"),
        ("INT16", "-32768", "32767", "-32769", "32768"),
        ("INT32", "-2147483648", "2147483647", "-2147483649", "2147483648"),
        ("INT64", "-9223372036854775808", "9223372036854775807", "-9223372036854775809", "9223372036854775808"),
    ];
    for (datatype, least, most, below, beyond) in types {
        bytes(datatype, "[2]", &format!("[{},{}]", least, most));
        let long = "340282366920938463463374607431768211456000";
        for wrong in [below, beyond, "1.5", "1e-1", "123456789.123456789123456789", long] {
            let fault = rest(input(datatype, "[2]", &format!("[0,{}]", wrong))).expect_err(wrong);
            assert!(fault.message.starts_with("inputs[0].data[1]: found "), "{}", fault.message);
            assert!(fault.message.contains(&format!("expected an integer of {}", datatype)), "{}", fault.message);
        }
    }
}

#[test]
fn what_python_has_to_say_is_unusual() {
    for (datatype, data) in [
        ("INT64", "[1.0]"),
        ("INT64", "[1e3]"),
        ("UINT8", "[1230000e-4]"),
        ("FP32", "[1e39]"),
        ("FP64", "[1e309]"),
        ("FP16", "[65520]"),
        ("BF16", "[3.4e38]"),
        ("FP32", "[null]"),
        ("BYTES", "[null]"),
        ("INT8", "[null]"),
        ("BYTES", "[1]"),
        ("BYTES", "[\"a\",true]"),
        ("BOOL", "[null]"),
        ("FP32", "null"),
    ] {
        assert_eq!(rest(input(datatype, "[1]", data)), Ok(Decoded::Unusual), "{} {}", datatype, data);
    }
}

#[test]
fn digits_are_read_at_every_length_and_before_every_byte() {
    for length in 1..=19 {
        for follow in 0..=255u8 {
            if follow.is_ascii_digit() || follow == b'e' || follow == b'E' {
                continue;
            }
            let digits = &"9081726354908172635"[..length];
            let text = [b"0.", digits.as_bytes(), &[follow], b"1234567890"].concat();
            let found = scan(&text, 0).expect("a number");
            let expected = (digits.parse().expect("digits"), -(length as i32), 2 + length);
            assert_eq!((found.mantissa, found.exponent, found.end), expected);
        }
    }
}

#[test]
fn singles_are_written_as_the_standard_library_writes_them() {
    let mut random = Random(9);
    let (mut own, mut all) = (0, 0);
    let mut check = |value: f32| {
        let mut text = Vec::new();
        all += 1;
        if write_f32(&mut text, value) {
            own += 1;
            assert_eq!(String::from_utf8(text).expect("digits"), format!("{:?}", value));
        } else {
            assert!(text.is_empty());
        }
    };
    for _ in 0..100_000 {
        check(random.below(1 << 20) as f32 / 1024.0);
        check(random.below(2_000_000) as f32 * 1e-6 - 1.0);
        check(f32::from_bits(random.next() as u32));
    }
    for exponent in 0..255u32 {
        for fraction in [0, 1, 2, 0x3f_ffff, 0x40_0000, 0x7f_fffe, 0x7f_ffff] {
            check(f32::from_bits(exponent << 23 | fraction));
        }
    }
    assert!(own * 2 > all, "the fast way is taken: {} of {}", own, all);
}
