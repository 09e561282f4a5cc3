//! Words that an answer copies, cut into other pieces than the tokenizer's: "kettle" as "ke" + "ttle".
//!
//! A name that always comes as one token is copied by attending once; one that training never showed comes in pieces, some of
//! which stand in no answer. Cut words are both, and every piece is copied now and then.
//!
//! Invariant: a word is cut at the same places wherever it stands in an example, and a cut text joins to the text it was.

use std::collections::HashSet;

use demask::decode::rng::{Purpose, Rng};

/// The shortest word that is cut, and the shortest that may be cut twice.
const SHORTEST: usize = 3;
const LONG: usize = 6;
/// Share of the words of a chosen example that are cut.
const WORDS: f64 = 0.6;

/// Which words of one example are cut, and where.
pub(super) struct Cuts {
    words: HashSet<String>,
    rng: Rng,
}

impl Cuts {
    /// Cuts for the words of letters that `prompt` and `response` share, in a `share` of the examples; the same for the same
    /// `seed` and `index`.
    pub(super) fn draw(share: f32, seed: u64, index: u64, prompt: &str, response: &str) -> Self {
        let rng = Rng::new(seed, index);
        let mut words = HashSet::new();
        if rng.uniform(Purpose::Mask, CHOSEN, 0) < f64::from(share) {
            let asked: HashSet<&str> = pieces(prompt).filter(|piece| is_word(piece)).collect();
            words.extend(pieces(response).filter(|piece| asked.contains(piece)).map(str::to_owned));
        }
        Self { words, rng }
    }

    /// `text` in pieces that are to be encoded one by one.
    pub(super) fn cut<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let (mut cut, mut start, mut at) = (Vec::new(), 0, 0);
        for piece in pieces(text) {
            if self.words.contains(piece) {
                for place in self.places(piece) {
                    cut.push(&text[start..at + place]);
                    start = at + place;
                }
            }
            at += piece.len();
        }
        cut.push(&text[start..]);
        cut
    }

    /// Where a word is cut, ascending.
    fn places(&self, word: &str) -> Vec<usize> {
        let key = demask::model::hash::Hash::new().bytes(word.as_bytes()).value();
        if self.rng.uniform(Purpose::Mask, CHOSEN + 1, key) >= WORDS {
            return Vec::new();
        }
        let inner: Vec<usize> = word.char_indices().map(|(at, _)| at).skip(1).collect();
        let often = if inner.len() + 1 >= LONG { 1 + key % 2 } else { 1 };
        let draw =
            |cut| inner[(self.rng.bits(Purpose::Mask, CHOSEN + 2 + cut, key) % inner.len() as u64) as usize];
        let mut places: Vec<usize> = (0..often).map(draw).collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// Steps of the draws, apart from those of the masks.
const CHOSEN: u64 = 1 << 40;

fn is_word(piece: &str) -> bool {
    piece.chars().all(char::is_alphabetic) && piece.chars().count() >= SHORTEST
}

/// Runs of letters, and what is between them.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let letter = rest.chars().next()?.is_alphabetic();
        let end = rest.find(|c: char| c.is_alphabetic() != letter).unwrap_or(rest.len());
        let (piece, left) = rest.split_at(end);
        rest = left;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_copied_words_are_cut_alike_in_both_texts_and_nothing_is_lost() {
        let (prompt, response) = ("Sort: kettle, Åsa and teapot.", "List: kettle, teapot, Åsa.");
        let mut cut_once = 0;
        for index in 0..200 {
            let cuts = Cuts::draw(1.0, 1, index, prompt, response);
            let (asked, answered) = (cuts.cut(prompt), cuts.cut(response));
            assert_eq!(asked.concat(), prompt);
            assert_eq!(answered.concat(), response);
            // "Sort", "and" and "List" stand in one of the texts only.
            assert!(!cuts.words.contains("Sort") && !cuts.words.contains("List") && cuts.words.len() == 3);
            for word in ["kettle", "teapot", "Åsa"] {
                let within = |text: &str, pieces: &[&str]| -> Vec<usize> {
                    let (start, mut at, mut places) = (text.find(word).unwrap(), 0, Vec::new());
                    for piece in pieces {
                        at += piece.len();
                        if (start + 1..start + word.len()).contains(&at) {
                            places.push(at - start);
                        }
                    }
                    places
                };
                let places = within(prompt, &asked);
                assert_eq!(places, within(response, &answered), "{word}");
                cut_once += usize::from(!places.is_empty());
            }
        }
        assert!((300..420).contains(&cut_once), "about six words of ten are cut: {cut_once} of 600");
        assert_eq!(Cuts::draw(0.0, 1, 0, prompt, response).cut(prompt), [prompt]);
    }

    #[test]
    fn the_share_is_that_of_examples() {
        let chosen =
            (0..2000).filter(|&index| !Cuts::draw(0.25, 7, index, "Tom sat", "Tom").words.is_empty());
        let count = chosen.count();
        assert!((430..570).contains(&count), "{count} of 2000");
    }
}
