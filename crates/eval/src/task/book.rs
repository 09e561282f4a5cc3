//! Sentence patterns as data: books of patterns with alternatives, options and slots, drawn and filled.
//!
//! A book is a text file. `# name` opens a section; every other line is a tag, a blank and a pattern. In a pattern
//! `<a|b>` is one of several, `[a|b]` too but only half of the time, `{x}` is a slot to be filled. A tag that ends in `!` keeps its
//! pattern for fresh wording: it never occurs in training. Lines that open with `;` are remarks.
//!
//! Invariant: usual wording never draws a pattern marked `!`.

use std::collections::HashMap;

use super::Rng;
use super::lexicon::Wording;

/// Patterns by section.
pub(super) struct Book {
    sections: HashMap<&'static str, Vec<Pattern>>,
}

/// One pattern of a book.
#[derive(Clone, Copy)]
pub(super) struct Pattern {
    /// What the pattern is for, in the terms of its book.
    pub(super) tag: &'static str,
    /// Never used in training.
    pub(super) fresh: bool,
    /// The pattern itself.
    pub(super) text: &'static str,
}

impl Book {
    /// Reads a book.
    ///
    /// # Panics
    /// If a pattern stands before the first section or has no tag: books are part of the program.
    pub(super) fn read(text: &'static str) -> Self {
        let mut sections: HashMap<&'static str, Vec<Pattern>> = HashMap::new();
        let mut section = None;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(';')) {
            if let Some(name) = line.strip_prefix("# ") {
                section = Some(name);
                continue;
            }
            let (tag, text) = line.split_once(' ').expect("a pattern has a tag");
            let fresh = tag.ends_with('!');
            let pattern = Pattern { tag: tag.trim_end_matches('!'), fresh, text: text.trim() };
            sections.entry(section.expect("a pattern stands in a section")).or_default().push(pattern);
        }
        Self { sections }
    }

    /// The patterns of a section, in their order; none where there is no such section.
    pub(super) fn section(&self, name: &str) -> &[Pattern] {
        self.sections.get(name).map_or(&[], Vec::as_slice)
    }

    /// A pattern of a section among those whose tag is wanted, not yet expanded. Fresh wording takes one kept for it two times
    /// out of three where there is any. Nothing where no pattern fits.
    pub(super) fn find(
        &self,
        rng: &mut Rng,
        wording: Wording,
        section: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Option<Pattern> {
        let fitting: Vec<Pattern> =
            self.section(section).iter().filter(|pattern| wanted(pattern.tag)).copied().collect();
        let (fresh, usual): (Vec<Pattern>, Vec<Pattern>) =
            fitting.into_iter().partition(|pattern| pattern.fresh);
        let take_fresh = matches!(wording, Wording::Fresh) && !fresh.is_empty() && rng.below(3) > 0;
        let pool = if take_fresh { fresh } else { usual };
        (!pool.is_empty()).then(|| *rng.pick(&pool))
    }

    /// A pattern of a section whatever its tag, expanded.
    ///
    /// # Panics
    /// If the section has no usual pattern.
    pub(super) fn draw(&self, rng: &mut Rng, wording: Wording, section: &str) -> String {
        let pattern = self.find(rng, wording, section, |_| true);
        expand(rng, pattern.unwrap_or_else(|| panic!("no pattern in section {section}")).text)
    }
}

/// Chooses among the alternatives and options of a pattern; slots stay.
pub(super) fn expand(rng: &mut Rng, pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(at) = rest.find(['<', '[']) {
        out.push_str(&rest[..at]);
        let (inside, after) = bracketed(&rest[at..]);
        if rest.as_bytes()[at] == b'<' || rng.coin() {
            let choices = alternatives(inside);
            let choice = *rng.pick(&choices);
            out.push_str(&expand(rng, choice));
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Splits a text that opens with a bracket into the inside and what follows the closing one.
fn bracketed(text: &str) -> (&str, &str) {
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' | b'[' => depth += 1,
            b'>' | b']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (&text[1..at], &text[at + 1..]);
        }
    }
    panic!("a bracket is not closed in the pattern {text:?}")
}

/// The alternatives of the inside of a bracket: cut at the bars that stand in no inner bracket.
fn alternatives(inside: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            b'<' | b'[' => depth += 1,
            b'>' | b']' => depth -= 1,
            b'|' if depth == 0 => {
                found.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&inside[start..]);
    found
}

/// Fills slots: `{name}` becomes its value.
pub(super) fn fill(text: &str, slots: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let Some(end) = rest[at..].find('}').map(|end| at + end) else { break };
        out.push_str(&rest[..at]);
        match slots.iter().find(|(name, _)| *name == &rest[at + 1..end]) {
            Some((_, value)) => out.push_str(value),
            None => out.push_str(&rest[at..=end]),
        }
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    out
}

/// The text without the gaps that options left out leave behind: no two spaces in a row, none before a mark.
pub(super) fn closed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let after_word = out.ends_with(char::is_alphanumeric);
        let gap = c == ' '
            && (out.is_empty()
                || out.ends_with(['\n', ' '])
                || matches!(chars.peek(), None | Some(' ' | '\n'))
                || (after_word && matches!(chars.peek(), Some('?' | '.' | ',' | ':' | ';' | '!'))));
        if !gap {
            out.push(c);
        }
    }
    out
}

/// Items in a row: "a, b and c" with the given last link.
pub(super) fn joined(items: &[String], last: &str) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., tail] => format!("{}{last}{tail}", head.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_pattern_expands_to_everything_it_says_and_nothing_else() {
        let mut rng = Rng::new(1);
        let seen: HashSet<String> = (0..400).map(|_| expand(&mut rng, "<a|b[c<d|e>]> {f}[!]")).collect();
        let expected = ["a {f}", "a {f}!", "b {f}", "b {f}!", "bcd {f}", "bcd {f}!", "bce {f}", "bce {f}!"];
        assert_eq!(seen, expected.map(String::from).into());
    }

    #[test]
    fn slots_are_filled_once_and_unknown_ones_stay() {
        assert_eq!(fill("{a}{b} {c}", &[("a", "{b}"), ("b", "x")]), "{b}x {c}");
        assert_eq!(fill("no slot {", &[]), "no slot {");
    }

    #[test]
    fn what_was_left_out_leaves_no_gap() {
        assert_eq!(closed("a  b ? c , d\n e "), "a b? c, d\ne");
        assert_eq!(closed("12 + 7 = ?"), "12 + 7 = ?");
    }

    #[test]
    fn a_pattern_kept_for_fresh_wording_is_drawn_in_no_other() {
        let book = Book::read("# s\nC usual\nC! fresh\nQ asked");
        let mut rng = Rng::new(2);
        for _ in 0..100 {
            assert_ne!(book.draw(&mut rng, Wording::Usual, "s"), "fresh");
        }
        let fresh = (0..300).filter(|_| book.draw(&mut rng, Wording::Fresh, "s") == "fresh").count();
        assert!((150..250).contains(&fresh), "{fresh}");
        assert!(book.find(&mut rng, Wording::Usual, "s", |tag| tag == "N").is_none());
    }
}
