//! How options are typed: their labels, what stands between them, and the frame around question and options.

use std::sync::LazyLock;

use super::super::Rng;
use super::super::book::{Book, closed, expand, fill, joined};
use super::super::lexicon::{Wording, capital, untidy};

static FRAMES: LazyLock<Book> =
    LazyLock::new(|| Book::read(crate::task::wordings::text("choice/frames.txt")));

/// What is asked, before its options.
pub(super) struct Stem {
    /// The words.
    pub(super) text: String,
    /// What ends it: a question mark, a stop, or nothing where the text is whole as it stands.
    pub(super) mark: &'static str,
}

/// Two to four options mostly, ten at most.
pub(super) fn count(rng: &mut Rng) -> usize {
    match rng.below(100) {
        0..15 => 2,
        15..42 => 3,
        42..70 => 4,
        70..82 => 5,
        82..88 => 6,
        88..92 => 7,
        92..95 => 8,
        95..97 => 9,
        _ => 10,
    }
}

/// Labels for `count` options: capitals mostly; numbers only where no option is one.
pub(super) fn labels(rng: &mut Rng, count: usize, numeric: bool) -> Vec<String> {
    let first = match rng.below(100) {
        0..17 if !numeric => '1',
        17..32 => 'a',
        _ => 'A',
    };
    (0..count)
        .map(
            |at| {
                if first == '1' {
                    (at + 1).to_string()
                } else {
                    char::from(first as u8 + at as u8).to_string()
                }
            },
        )
        .collect()
}

/// The options, each with its label.
fn marked(rng: &mut Rng, wording: Wording, labels: &[String], options: &[String]) -> Vec<String> {
    let fresh = wording == Wording::Fresh && rng.below(3) == 0;
    let (open, close) = if fresh {
        *rng.pick(&[("[", "]"), ("Option ", ":"), ("", " ="), ("", "]")])
    } else {
        match rng.below(100) {
            0..42 => ("", ")"),
            42..56 => ("(", ")"),
            56..74 => ("", "."),
            74..84 => ("", ":"),
            84..90 => ("", " -"),
            90..93 => ("", "-"),
            93..95 => ("", ".)"),
            95..97 => ("(", "):"),
            _ => ("", ""),
        }
    };
    labels.iter().zip(options).map(|(label, option)| format!("{open}{label}{close} {option}")).collect()
}

/// The options with their labels, over several lines or in one.
fn options(rng: &mut Rng, wording: Wording, labels: &[String], texts: &[String], lines: bool) -> String {
    let between = match rng.below(20) {
        _ if lines => "\n",
        0..10 => " ",
        10..15 => ", ",
        15..17 => "; ",
        17 => " / ",
        18 => " or ",
        _ => ". ",
    };
    marked(rng, wording, labels, texts).join(between)
}

/// Question and options as one prompt.
pub(super) fn prompt(
    rng: &mut Rng,
    wording: Wording,
    stem: &Stem,
    labels: &[String],
    texts: &[String],
) -> String {
    let section = if labels.is_empty() { "bare" } else { "labelled" };
    let open = stem.mark.is_empty() && !stem.text.ends_with(['?', '.']);
    let pattern = FRAMES.find(rng, wording, section, |tag| match tag {
        "X" => true,
        "E" => !open,
        _ => !stem.mark.is_empty(),
    });
    let frame = expand(rng, pattern.expect("there are frames for every question").text).replace("\\n", "\n");
    let lines = if frame.contains("\n{O}") { rng.below(8) > 0 } else { rng.below(12) == 0 };
    let frame = if lines { frame.replace(" {O}", "\n{O}").replace("{O}. ", "{O}\n") } else { frame };
    let listed = options(rng, wording, labels, texts, lines);
    let text = untidy(rng, closed(&stem.text));
    let large = capital(&text);
    let (plain, choice) = (texts.join(", "), joined(texts, " or "));
    let filled = fill(
        &frame,
        &[("S", &large), ("s", &text), ("m", stem.mark), ("O", &listed), ("o", &plain), ("l", &choice)],
    );
    // An untidy stem keeps its small letter now and then.
    if frame.starts_with("{S}") && rng.below(16) == 0 {
        closed(&filled.replacen(&large, &text, 1))
    } else {
        closed(&filled)
    }
}

/// Options within a sentence: "A) an instrument or B) a tool".
pub(super) fn inline(rng: &mut Rng, wording: Wording, labels: &[String], texts: &[String]) -> String {
    let parts = if labels.is_empty() { texts.to_vec() } else { marked(rng, wording, labels, texts) };
    joined(&parts, " or ")
}
