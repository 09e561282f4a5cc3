//! Texts with gaps: `[MASK]` is one token to be found, `[MASK:5]` is five. The one reader of this spelling.
//!
//! A gap takes the space before it: tokenizers put a space at the beginning of the word behind it, so a model that
//! saw the space alone would be asked for a word it never saw begin there.

/// The longest gap.
pub const LONGEST: usize = 65_536;

/// A stretch of a text with gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Words that stay as they are.
    Text(&'a str),
    /// This many tokens to be found.
    Gap(usize),
}

/// How a gap is misspelt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GapError {
    /// No `]`.
    #[error("a gap is not closed: {0:?}")]
    Open(String),
    /// A length that is no number, or out of range.
    #[error("a gap's length must be between 1 and {LONGEST}, not {0:?}")]
    Length(String),
    /// Something else inside the brackets.
    #[error("a gap is written [MASK] or [MASK:5], not [MASK{0}]")]
    Spelling(String),
    /// No gap at all.
    #[error("the text has no gap; write [MASK] or [MASK:5] where tokens are to be found")]
    None,
}

/// Cuts a text at its gaps; a text without any is one piece.
///
/// ```
/// use demask_engine::gaps::{Piece, split};
/// assert_eq!(split("2 + [MASK] = 4")?, [Piece::Text("2 +"), Piece::Gap(1), Piece::Text(" = 4")]);
/// # Ok::<(), demask_engine::gaps::GapError>(())
/// ```
pub fn split(text: &str) -> Result<Vec<Piece<'_>>, GapError> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some(start) = rest.find("[MASK") {
        let Some(length) = rest[start..].find(']') else {
            return Err(GapError::Open(rest[start..].chars().take(40).collect()));
        };
        let inside = &rest[start + "[MASK".len()..start + length];
        let count = match inside.strip_prefix(':') {
            None if inside.is_empty() => 1,
            Some(number) => match number.parse() {
                Ok(count) if (1..=LONGEST).contains(&count) => count,
                _ => return Err(GapError::Length(number.into())),
            },
            None => return Err(GapError::Spelling(inside.into())),
        };
        let before = rest[..start].strip_suffix(' ').unwrap_or(&rest[..start]);
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        pieces.push(Piece::Gap(count));
        rest = &rest[start + length + 1..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_cut_out() {
        let pieces = split("a [MASK] b[MASK:3]").unwrap();
        assert_eq!(pieces, [Piece::Text("a"), Piece::Gap(1), Piece::Text(" b"), Piece::Gap(3)]);
        let pieces = split(" [MASK] [MASK]\n[MASK]").unwrap();
        assert_eq!(pieces, [Piece::Gap(1), Piece::Gap(1), Piece::Text("\n"), Piece::Gap(1)]);
        assert_eq!(split("no gap").unwrap(), [Piece::Text("no gap")]);
        for bad in ["a [MASK", "a [MASK:0]", "a [MASK:x]", "a [MASKED]", "[MASK:99999999999999999999]"] {
            assert!(split(bad).is_err(), "{bad}");
        }
    }
}
