//! How long a caller is ready to wait, wherever the protocols let it say so. Microseconds; 0 for no limit.
//!
//! What cannot be read is no limit: it is a hint of a caller who may not even know of it, a proxy's for one.

/// Of two limits the smaller; 0 is none.
pub fn smaller(one: u64, other: u64) -> u64 {
    match (one, other) {
        (0, limit) | (limit, 0) => limit,
        _ => one.min(other),
    }
}

/// The header `x-request-timeout-ms`: milliseconds, at most 18 digits.
pub fn from_header(text: &str) -> u64 {
    limit(text.as_bytes(), 18, |amount| Some(amount.saturating_mul(1000)))
}

/// The metadata `grpc-timeout`: at most eight digits and a unit.
///
/// Source: <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>
pub fn from_grpc(text: &str) -> u64 {
    let (unit, digits) = text.as_bytes().split_last().unwrap_or((&0, b""));
    limit(digits, 8, |amount| match unit {
        b'H' => Some(amount * 3_600_000_000),
        b'M' => Some(amount * 60_000_000),
        b'S' => Some(amount * 1_000_000),
        b'm' => Some(amount * 1000),
        b'u' => Some(amount),
        b'n' => Some(amount / 1000),
        _ => None,
    })
}

fn limit(digits: &[u8], most: usize, scale: impl FnOnce(u64) -> Option<u64>) -> u64 {
    if digits.is_empty() || digits.len() > most || !digits.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    let amount = digits.iter().fold(0, |amount, digit| amount * 10 + u64::from(digit - b'0'));
    // A limit of nothing has passed already; 0 would be none at all.
    scale(amount).map_or(0, |limit| limit.max(1))
}
