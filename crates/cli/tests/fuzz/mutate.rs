//! Inputs from seeds: bytes and numbers changed, pieces cut, doubled, moved between seeds, words of the formats put in.

/// Words that formats give a meaning to, and numbers at the edge of what types hold.
const WORDS: [&str; 44] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "true",
    "-1",
    "0",
    "1e308",
    "-1e-308",
    "NaN",
    "18446744073709551615",
    "9223372036854775808",
    "4294967296",
    "2147483647",
    "-9223372036854775808",
    "\\u0000",
    "\\ud800",
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "|",
    "(",
    ")",
    "not ",
    "for x in range(99999)",
    "endfor",
    "\n",
    "\r\n",
    "\t",
    "=",
    ".",
    "..",
    "/",
    "*",
    "[[",
    "]]",
    "\u{fffd}",
    "é",
];

/// A stream of numbers that is a function of the run's seed, the reader and the number of the input.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64, name: &str, execution: u64) -> Self {
        let start = seed ^ execution.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed =
            name.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        Self(mixed | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// A seed with one to eight changes.
pub(crate) fn mutate(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds[rng.below(seeds.len())].clone();
    for _ in 0..1 + rng.below(8) {
        change(rng, &mut bytes, seeds);
    }
    bytes
}

fn change(rng: &mut Rng, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    // Headers are at the front and footers at the end, and that is where readers look.
    let place = match rng.below(4) {
        0 => rng.below(bytes.len().min(64)),
        1 => bytes.len().saturating_sub(1 + rng.below(bytes.len().min(64))),
        _ => rng.below(bytes.len()),
    };
    let length = 1 + rng.below(32);
    let end = (place + length).min(bytes.len());
    match rng.below(11) {
        0 if !bytes.is_empty() => bytes[place] ^= 1 << rng.below(8),
        1 if !bytes.is_empty() => bytes[place] = rng.next() as u8,
        2 => drop(bytes.drain(place..end)),
        3 => {
            let piece = bytes[place..end].to_vec();
            let copies = 1 + rng.below(64);
            bytes.splice(place..place, piece.repeat(copies));
        }
        4 | 5 => {
            let word = WORDS[rng.below(WORDS.len())];
            let until = if rng.below(2) == 0 { place } else { end };
            bytes.splice(place..until, word.bytes());
        }
        6 => bytes.truncate(place),
        7 => {
            let other = &seeds[rng.below(seeds.len())];
            let from = rng.below(other.len());
            let piece = other[from..(from + 4 * length).min(other.len())].to_vec();
            bytes.splice(place..end, piece);
        }
        8 => {
            // A length or an offset of a binary format.
            let value = [0, 1, u64::MAX, u64::MAX >> 1, 1 << 31, 1 << 32, 1 << 40, rng.next()][rng.below(8)];
            let width = [2, 4, 8][rng.below(3)];
            for (byte, new) in bytes.iter_mut().skip(place).zip(value.to_le_bytes().into_iter().take(width)) {
                *byte = new;
            }
        }
        9 => number(rng, bytes, place),
        _ => {
            let other = rng.below(bytes.len());
            if !bytes.is_empty() {
                bytes.swap(place, other);
            }
        }
    }
}

/// Another number in place of the next one that is written out.
fn number(rng: &mut Rng, bytes: &mut Vec<u8>, place: usize) {
    let digit = |byte: &u8| byte.is_ascii_digit();
    let Some(start) = bytes[place..].iter().position(digit).map(|start| place + start) else { return };
    let end = start + bytes[start..].iter().take_while(|byte| digit(byte)).count();
    let numbers =
        ["0", "1", "2", "255", "65536", "99999999999", "1000000000000000000000", "-7", "0.5", "1e400"];
    bytes.splice(start..end, numbers[rng.below(numbers.len())].bytes());
}
