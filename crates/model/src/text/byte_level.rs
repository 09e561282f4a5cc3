//! How byte-level BPE writes bytes: printable ones as they are, the others as the letters from U+0100 on (GPT-2's table).

/// The letter that stands for a byte.
///
/// ```
/// use demask_model::text::byte_letter;
/// assert_eq!([b'a', b' ', b'\n', 0xad].map(byte_letter), ['a', 'Ġ', 'Ċ', 'Ń']);
/// ```
pub fn byte_letter(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&b| !printable(b)).count() as u32;
    char::from_u32(0x100 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::byte_letter;

    #[test]
    fn every_byte_has_a_letter_of_its_own() {
        let all: std::collections::BTreeSet<char> = (0..=255).map(byte_letter).collect();
        assert_eq!(all.len(), 256);
    }
}
