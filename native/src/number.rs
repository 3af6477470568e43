//! Numbers of JSON: one scan of the digits, then the value in the type that is wanted, rounded once and to nearest even.
//!
//! The fast ways are those where a double is provably enough (W. D. Clinger, "How to read floating point numbers
//! accurately", 1990); everything else goes through the standard library, which is exact.

use std::cmp::Ordering;

/// A number as it was written: `mantissa * 10^exponent`, where that holds all of its digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decimal {
    pub negative: bool,
    pub mantissa: u64,
    pub exponent: i32,
    /// Whether `mantissa` holds every digit; otherwise the text must be read again.
    pub exact: bool,
    /// Whether it has neither a point nor an exponent.
    pub whole: bool,
    /// Where it ends.
    pub end: usize,
}

/// Exponents are kept within this: beyond it every double is zero or infinite, however many digits there are in a body.
const FAR: i32 = 1 << 30;
/// The most decimal digits that always fit 64 bits.
const DIGITS: usize = 19;

/// Read the number at `at`, by the grammar of RFC 8259.
///
/// Errors: where the grammar is left.
#[inline(always)]
pub fn scan(bytes: &[u8], at: usize) -> Result<Decimal, usize> {
    let negative = bytes.get(at) == Some(&b'-');
    let start = at + usize::from(negative);
    let (mut mantissa, mut end) = digits(bytes, start, 0);
    if end == start || (bytes[start] == b'0' && end > start + 1) {
        return Err(start);
    }
    let mut count = end - start;
    let (mut exponent, mut whole) = (0i32, true);
    if bytes.get(end) == Some(&b'.') {
        whole = false;
        let point = end + 1;
        let (more, after) = many_digits(bytes, point, mantissa);
        if after == point {
            return Err(point);
        }
        mantissa = more;
        end = after;
        count += after - point;
        exponent = -((after - point).min(FAR as usize) as i32);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        whole = false;
        let (power, after) = power(bytes, end + 1)?;
        exponent = (exponent + power).clamp(-FAR, FAR);
        end = after;
    }
    Ok(Decimal { negative, mantissa, exponent, exact: count <= DIGITS, whole, end })
}

/// Go on with a mantissa over the digits from `at`; it wraps where there are more than fit.
#[inline(always)]
fn digits(bytes: &[u8], at: usize, mut mantissa: u64) -> (u64, usize) {
    let mut end = at;
    for byte in bytes.get(at..).unwrap_or_default() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
        end += 1;
    }
    (mantissa, end)
}

/// The same, eight bytes at a time: behind the point there are mostly many digits.
#[inline(always)]
fn many_digits(bytes: &[u8], at: usize, mut mantissa: u64) -> (u64, usize) {
    const TENS: [u64; 9] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
    const EACH: u64 = 0x0101_0101_0101_0101;
    let mut end = at;
    while let Some(chunk) = bytes.get(end..end + 8) {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        // A digit's byte becomes 0 to 9; one that is more, and only that, has its highest bit set in `others`.
        let word = u64::from_le_bytes(word) ^ (EACH * 0x30);
        let others = (((word & (EACH * 0x7f)) + EACH * 0x76) | word) & (EACH * 0x80);
        let count = others.trailing_zeros() / 8;
        if count == 0 {
            return (mantissa, end);
        }
        // Zeros go before the digits, then neighbours are joined: to two digits a byte, four, and eight.
        let ones = word << (64 - 8 * count);
        let pairs = (ones & (EACH * 0x0f)).wrapping_mul(10).wrapping_add(ones >> 8) & 0x00ff_00ff_00ff_00ff;
        let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
        let value = fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff;
        mantissa = mantissa.wrapping_mul(TENS[count as usize]).wrapping_add(value);
        end += count as usize;
        if count < 8 {
            return (mantissa, end);
        }
    }
    digits(bytes, end, mantissa)
}

fn power(bytes: &[u8], at: usize) -> Result<(i32, usize), usize> {
    let signed = matches!(bytes.get(at), Some(b'+' | b'-'));
    let start = at + usize::from(signed);
    let (mut value, mut end) = (0i32, start);
    while let Some(digit @ b'0'..=b'9') = bytes.get(end) {
        value = (value * 10 + i32::from(digit - b'0')).min(FAR / 16);
        end += 1;
    }
    if end == start {
        return Err(start);
    }
    Ok((if bytes[at] == b'-' { -value } else { value }, end))
}

/// Powers of ten that are exact in a double.
pub const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

impl Decimal {
    /// The double that is nearest. `text` is what was scanned.
    #[inline]
    pub fn to_f64(self, text: &[u8]) -> f64 {
        match self.scaled() {
            // Both operands are exact, so the one operation rounds once.
            Some(value) if self.mantissa <= 1 << 53 => self.signed(value),
            _ => slow_f64(text),
        }
    }

    /// The single that is nearest to the decimal itself, not to a double in between.
    #[inline]
    pub fn to_f32(self, text: &[u8]) -> f32 {
        if self.mantissa == 0 && self.exact {
            return self.signed(0.0) as f32;
        }
        if let Some(value) = self.scaled() {
            // `value` is within two units in the last place of the decimal. Halves between singles are doubles whose
            // low 29 bits are this; where none lies within reach, both round to the same single.
            const HALF: i64 = 1 << 28;
            let low = (value.to_bits() & ((1 << 29) - 1)) as i64;
            let normal = value >= f64::from(f32::MIN_POSITIVE) && value < f64::from(f32::MAX);
            if normal && (low - HALF).abs() > 4 {
                return self.signed(value) as f32;
            }
        }
        slow_f32(text)
    }

    /// The 16 bits of the half that is nearest to the decimal itself.
    pub fn to_half(self, text: &[u8], kind: Half) -> u16 {
        let value = self.to_f64(text);
        if !kind.tie(value) {
            return kind.narrow(value);
        }
        // The double lies just between two halves; which is nearer is decided by what the double has lost.
        let bits = value.to_bits();
        kind.narrow(match compare(text, value) {
            Ordering::Less => f64::from_bits(bits - 1),
            Ordering::Equal => value,
            Ordering::Greater => f64::from_bits(bits + 1),
        })
    }

    /// Whether it has a part behind the point that is not zero.
    pub fn fractional(self, text: &[u8]) -> bool {
        let (digits, point) = significant(text);
        digits.len() as i64 > point && !digits.is_empty()
    }

    #[inline(always)]
    fn scaled(self) -> Option<f64> {
        let power = POWERS.get(self.exponent.unsigned_abs() as usize)?;
        let mantissa = self.mantissa as f64;
        let value = if self.exponent < 0 { mantissa / power } else { mantissa * power };
        if self.exact {
            Some(value)
        } else {
            None
        }
    }

    #[inline(always)]
    fn signed(self, value: f64) -> f64 {
        if self.negative {
            -value
        } else {
            value
        }
    }
}

#[cold]
fn slow_f64(text: &[u8]) -> f64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
}

#[cold]
fn slow_f32(text: &[u8]) -> f32 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(f32::NAN)
}

/// The two floats of 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    Fp16,
    Bf16,
}

impl Half {
    /// Bits of the fraction, and the exponent's bias.
    fn layout(self) -> (u32, i32) {
        match self {
            Half::Fp16 => (10, 15),
            Half::Bf16 => (7, 127),
        }
    }

    /// By how many bits a double's significand (53 bits) is too long for this type.
    fn surplus(self, value: f64) -> u32 {
        let (fraction, bias) = self.layout();
        let exponent = ((value.to_bits() >> 52) & 0x7ff) as i32 - 1023;
        52 - fraction + (1 - bias - exponent).max(0) as u32
    }

    /// Whether a double lies exactly between two neighbours.
    pub fn tie(self, value: f64) -> bool {
        let surplus = self.surplus(value);
        let significand = (value.to_bits() & ((1 << 52) - 1)) | 1 << 52;
        value.is_finite() && surplus <= 53 && significand & ((1 << surplus) - 1) == 1 << (surplus - 1)
    }

    /// Round a double to nearest, ties to even; beyond the largest it is infinite.
    pub fn narrow(self, value: f64) -> u16 {
        let (fraction, bias) = self.layout();
        let sign = ((value.to_bits() >> 48) & 0x8000) as u16;
        let infinite = ((2 * bias + 1) as u64) << fraction;
        if value.is_nan() {
            return sign | (infinite | 1 << (fraction - 1)) as u16;
        }
        if value.is_infinite() {
            return sign | infinite as u16;
        }
        let surplus = self.surplus(value);
        if surplus > 53 {
            return sign;
        }
        let significand = (value.to_bits() & ((1 << 52) - 1)) | 1 << 52;
        let (kept, lost, half) = (significand >> surplus, significand & ((1 << surplus) - 1), 1u64 << (surplus - 1));
        let rounded = kept + u64::from(lost > half || (lost == half && kept & 1 == 1));
        let exponent = ((value.to_bits() >> 52) & 0x7ff) as i32 - 1023;
        // The hidden bit, and a carry out of the fraction, add one to the exponent's field.
        let field = (exponent + bias - 1).max(0) as u64;
        sign | ((field << fraction) + rounded).min(infinite) as u16
    }

    /// The single that has this value; every half has one.
    pub fn widen(self, bits: u16) -> f32 {
        if self == Half::Bf16 {
            return f32::from_bits(u32::from(bits) << 16);
        }
        let sign = u32::from(bits & 0x8000) << 16;
        let (exponent, fraction) = (u32::from(bits >> 10) & 31, u32::from(bits) & 0x3ff);
        match exponent {
            0 => f32::from_bits(sign | (fraction as f32 / 16_777_216.0).to_bits()),
            31 => f32::from_bits(sign | 0xff << 23 | fraction << 13),
            _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
        }
    }
}

/// The significant digits of a number's text, and how many of them stand before the point (it may be negative).
fn significant(text: &[u8]) -> (Vec<u8>, i64) {
    let split = text.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(text.len());
    let (number, power) = (&text[..split], text.get(split + 1..).unwrap_or(b""));
    let power = std::str::from_utf8(power).ok().and_then(|text| text.parse::<i64>().ok()).unwrap_or_else(|| {
        let far = i64::from(FAR);
        if power.is_empty() {
            0
        } else if power[0] == b'-' {
            -far
        } else {
            far
        }
    });
    let plain = number.iter().position(|byte| *byte == b'.').unwrap_or(number.len());
    let before = number[..plain].iter().filter(|byte| byte.is_ascii_digit()).count() as i64;
    let mut digits: Vec<u8> = number.iter().copied().filter(u8::is_ascii_digit).collect();
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    digits.drain(..zeros);
    while digits.last() == Some(&b'0') {
        digits.pop();
    }
    (digits, before - zeros as i64 + power.clamp(-i64::from(FAR), i64::from(FAR)))
}

/// Compare the size (without sign) of a decimal with that of a double which has at most 160 significant digits.
fn compare(text: &[u8], value: f64) -> Ordering {
    let (left, left_point) = significant(text);
    let (right, right_point) = significant(format!("{:.160e}", value.abs()).as_bytes());
    left_point.cmp(&right_point).then_with(|| left.cmp(&right))
}

/// Append a whole number in decimal.
pub fn write_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(decimal(value, &mut [0; 20]));
}

/// A whole number's digits.
pub fn decimal(mut value: u64, room: &mut [u8; 20]) -> &[u8] {
    let mut at = room.len();
    loop {
        at -= 1;
        room[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &room[at..];
        }
    }
}

/// Append a whole number in decimal.
pub fn write_i64(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    write_u64(out, value.unsigned_abs());
}
