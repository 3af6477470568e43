//! The shortest decimal text of a single, several times faster than formatting does it.
//!
//! Everything between the two neighbouring middles reads back as the same single. Scaled so that nine digits stand before
//! the point, both middles and the value are doubles with an error far below one unit; of the whole numbers between
//! them, the one with the most zeros at its end is the shortest text. Where an error could matter, it is not used.

use crate::number::{self, POWERS};

/// Scaled values are right to about 1e-7; what is decided by less than this is left to the standard library.
const DOUBT: f64 = 1e-6;

/// Append a number of 1e-4 to 1e16 as `{:?}` writes it. False, with nothing appended, where the way does not apply.
pub fn write_f32(out: &mut Vec<u8>, value: f32) -> bool {
    let size = value.abs();
    if !(1e-4..1e16).contains(&size) {
        return false;
    }
    match decimal(size) {
        Some((digits, exponent)) => {
            if value < 0.0 {
                out.push(b'-');
            }
            write(out, digits, exponent);
            true
        }
        None => false,
    }
}

/// The shortest `digits * 10^exponent`, of those the nearest.
fn decimal(value: f32) -> Option<(u64, i32)> {
    let middle = |neighbour: u32| (f64::from(value) + f64::from(f32::from_bits(neighbour))) / 2.0;
    let (low, high) = (middle(value.to_bits() - 1), middle(value.to_bits() + 1));
    let binary = (value.to_bits() >> 23) as i32 - 127;
    // log10(2) is about 1233 / 4096: this is right, or off by one.
    let mut power = 8 - ((binary * 1233) >> 12);
    let mut scaled = scale(value.into(), power);
    if scaled >= 1e9 {
        power -= 1;
        scaled = scale(value.into(), power);
    }
    let (low, high) = (scale(low, power), scale(high, power));
    if doubtful(low) || doubtful(high) {
        return None;
    }
    // Neither is whole: the whole numbers between them begin above the one and end below the other.
    let (mut first, mut last) = (low as i64 as u64 + 1, high as i64 as u64);
    let mut exponent = 0;
    while (first + 9) / 10 <= last / 10 {
        first = (first + 9) / 10;
        last /= 10;
        exponent += 1;
    }
    let exact = scaled / POWERS[exponent as usize];
    if first < last && doubtful(exact + 0.5) {
        return None;
    }
    Some((((exact + 0.5) as i64 as u64).clamp(first, last), exponent - power))
}

/// A value times a power of ten, rounded once.
fn scale(value: f64, power: i32) -> f64 {
    let ten = POWERS[power.unsigned_abs() as usize];
    if power < 0 {
        value / ten
    } else {
        value * ten
    }
}

/// Whether on which side of a whole number it lies could be an error.
fn doubtful(value: f64) -> bool {
    (value - (value + 0.5) as i64 as f64).abs() < DOUBT
}

/// Write `digits * 10^exponent` without an exponent, and as a float: with a point.
fn write(out: &mut Vec<u8>, digits: u64, exponent: i32) {
    const ZEROS: &[u8] = b"0000000000000000";
    let mut room = [0; 20];
    let digits = number::decimal(digits, &mut room);
    let point = digits.len() as i32 + exponent;
    if exponent >= 0 {
        out.extend_from_slice(digits);
        out.extend_from_slice(&ZEROS[..exponent as usize]);
        out.extend_from_slice(b".0");
    } else if point > 0 {
        let (before, behind) = digits.split_at(point as usize);
        out.extend_from_slice(before);
        out.push(b'.');
        out.extend_from_slice(behind);
    } else {
        out.extend_from_slice(b"0.");
        out.extend_from_slice(&ZEROS[..-point as usize]);
        out.extend_from_slice(digits);
    }
}
