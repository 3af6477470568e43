//! The Huffman code of RFC 7541, appendix B, read four bits at a time.
//!
//! The code is canonical (shorter codes first, equally long ones by symbol), so the lengths are all that is needed; the
//! table is made by the compiler.

const SYMBOLS: usize = 257;
const END: usize = 256;
const LONGEST: u8 = 30;

/// Bits by symbol; the last is the end of the string, which never appears in one.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// A node of the code's tree: where each bit leads. Below `SYMBOLS` it is a symbol, else a node and `SYMBOLS`.
type Tree = [[u16; 2]; 256];

const fn tree() -> Tree {
    let mut tree: Tree = [[u16::MAX; 2]; 256];
    let (mut nodes, mut code, mut length) = (1u16, 0u32, 1u8);
    while length <= LONGEST {
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] == length {
                let (mut node, mut bit) = (0usize, length);
                while bit > 1 {
                    bit -= 1;
                    let way = (code >> bit & 1) as usize;
                    if tree[node][way] == u16::MAX {
                        tree[node][way] = nodes + SYMBOLS as u16;
                        nodes += 1;
                    }
                    node = tree[node][way] as usize - SYMBOLS;
                }
                tree[node][(code & 1) as usize] = symbol as u16;
                code += 1;
            }
            symbol += 1;
        }
        code <<= 1;
        length += 1;
    }
    tree
}

/// What four bits lead to from a node.
#[derive(Clone, Copy)]
struct Step {
    node: u8,
    symbol: u8,
    emits: bool,
    fails: bool,
}

const fn steps() -> [[Step; 16]; 256] {
    let tree = tree();
    let mut steps = [[Step { node: 0, symbol: 0, emits: false, fails: false }; 16]; 256];
    let mut from = 0;
    while from < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            let (mut node, mut bit) = (from, 4);
            let mut step = steps[from][nibble];
            while bit > 0 {
                bit -= 1;
                let next = tree[node][nibble >> bit & 1] as usize;
                if next >= SYMBOLS {
                    node = next - SYMBOLS;
                } else {
                    step.fails = step.fails || next == END;
                    step.symbol = next as u8;
                    step.emits = true;
                    node = 0;
                }
            }
            step.node = node as u8;
            steps[from][nibble] = step;
            nibble += 1;
        }
        from += 1;
    }
    steps
}

/// Which nodes a string may end at: at most seven bits, all ones, behind the last symbol.
const fn ends() -> [bool; 256] {
    let tree = tree();
    let mut ends = [false; 256];
    let (mut node, mut bits) = (0usize, 0);
    while bits < 8 {
        ends[node] = true;
        node = tree[node][1] as usize - SYMBOLS;
        bits += 1;
    }
    ends
}

static STEPS: [[Step; 16]; 256] = steps();
static ENDS: [bool; 256] = ends();

/// Decode a string. `None` where it is no valid code.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(bytes.len() + bytes.len() / 2);
    let mut node = 0u8;
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            let step = STEPS[node as usize][nibble as usize];
            if step.fails {
                return None;
            }
            if step.emits {
                text.push(step.symbol);
            }
            node = step.node;
        }
    }
    if ENDS[node as usize] {
        Some(text)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_complete() {
        let sum: u64 = LENGTHS.iter().map(|length| 1u64 << (LONGEST - length)).sum();
        assert_eq!(sum, 1 << LONGEST);
        assert!(tree().iter().flatten().all(|way| *way != u16::MAX));
    }

    #[test]
    fn every_symbol_is_decoded() {
        // RFC 7541, appendix B: some codes, and C.4.1.
        for (code, length, symbol) in [
            (0x1ff8u32, 13u32, 0u8),
            (0x14, 6, b' '),
            (0x0, 5, b'0'),
            (0x7ffc, 15, b'<'),
            (0xfd, 8, b'Z'),
            (0x7fff0, 19, b'\\'),
            (0xfffe6, 20, 128),
            (0x3ffffee, 26, 255),
            (0x3ffffffc, 30, 10),
        ] {
            let bits = (u64::from(code) << (64 - length)) | (u64::MAX >> length);
            let bytes = bits.to_be_bytes();
            assert_eq!(decode(&bytes[..(length as usize + 7) / 8]), Some(vec![symbol]), "{symbol}");
        }
        let host = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(decode(&host).unwrap(), b"www.example.com");
    }

    #[test]
    fn bad_padding_and_the_end_symbol_are_refused() {
        assert_eq!(decode(&[]), Some(Vec::new()));
        // A whole byte of padding, padding of zeros, and the end's own code.
        assert_eq!(decode(&[0xff]), None);
        assert_eq!(decode(&[0x00]), None);
        assert_eq!(decode(&[0xff, 0xff, 0xff, 0xff]), None);
    }
}
