//! Text as it settles: the contiguous finished prefix of a response, cut at stop strings.
//!
//! Invariant: what was handed out is a prefix of the final text; nothing is ever taken back. So bytes of an unfinished
//! character and text that may yet become a stop string are held back, and a decoder that revises its tokens is only
//! read when it is done.

use std::ops::Range;

use demask_decode::replay::{Change, Place, Replay};
use demask_decode::{Canvas, StepRecord};
use demask_model::SpecialIds;
use demask_model::text::Tokenizer;

use crate::error::Refusal;

/// What an unfinished character decodes to.
const UNFINISHED: char = '\u{FFFD}';
/// Tokens before a token that its text may depend on (spaces, unfinished characters).
const WINDOW: usize = 8;

/// Why a text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// End of sequence, or a stop string.
    Stop,
    /// The canvas was full.
    Length,
}

impl Ending {
    /// OpenAI's `finish_reason`.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
        }
    }
}

/// The text of one canvas while it is decoded.
pub(crate) struct Settling {
    /// The canvas, told again from the records of the steps.
    replay: Replay,
    /// The response.
    tokens: Vec<u32>,
    probabilities: Vec<f32>,
    response: Range<usize>,
    ids: SpecialIds,
    stops: Vec<String>,
    revising: bool,
    /// Settled tokens at the last look.
    settled: usize,
    /// Handed out or ready to be.
    text: String,
    ending: Option<Ending>,
}

impl Settling {
    /// Nothing is decided yet; `revising` if the decoder masks committed tokens again, so that no prefix is final.
    pub(crate) fn new(canvas: &Canvas, revising: bool, stops: &[String]) -> Self {
        let response = canvas.asked_response();
        Self {
            replay: Replay::of(canvas),
            tokens: canvas.tokens()[response.clone()].to_vec(),
            probabilities: vec![1.0; response.len()],
            response,
            ids: canvas.ids().clone(),
            stops: stops.to_vec(),
            revising,
            settled: 0,
            text: String::new(),
            ending: None,
        }
    }

    /// Takes a step in; returns text that became final.
    pub(crate) fn step(&mut self, tokenizer: &Tokenizer, record: &StepRecord) -> Result<String, Refusal> {
        let (mask, eos) = (self.ids.mask, self.ids.eos[0]);
        for Change { position, place } in self.replay.step(record).map_err(Refusal::internal)? {
            // What a last block holds beyond the response that was asked for is no part of it.
            if !self.response.contains(&position) {
                continue;
            }
            let at = position - self.response.start;
            self.tokens[at] = place.token(mask, eos);
            if let Place::Committed { probability, .. } = place {
                self.probabilities[at] = probability;
            }
        }
        if self.revising || self.ending.is_some() {
            return Ok(String::new());
        }
        self.look(tokenizer)
    }

    /// Takes the finished canvas in; returns the rest of the text.
    pub(crate) fn finish(&mut self, tokenizer: &Tokenizer, tokens: &[u32]) -> Result<String, Refusal> {
        if self.ending.is_some() {
            return Ok(String::new());
        }
        self.tokens.copy_from_slice(&tokens[self.response.clone()]);
        // A canvas that was ended early still gives its prefix.
        self.settled = usize::MAX;
        let rest = self.look(tokenizer)?;
        self.ending.get_or_insert(Ending::Length);
        Ok(rest)
    }

    /// Why the text ended, once it has.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// The text so far; all of it once it has ended.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Decided tokens before the first mask or end of sequence.
    fn prefix(&self) -> &[u32] {
        let open = |t: &u32| *t == self.ids.mask || self.ids.eos.contains(t);
        let end = self.tokens.iter().position(open).unwrap_or(self.tokens.len());
        &self.tokens[..end]
    }

    fn look(&mut self, tokenizer: &Tokenizer) -> Result<String, Refusal> {
        let count = self.prefix().len();
        let ended = self.tokens.get(count).is_none_or(|&t| t != self.ids.mask);
        if count == self.settled && !ended {
            return Ok(String::new());
        }
        self.settled = count;
        let mut text = tokenizer.decode(self.prefix())?;
        let at_end = self.tokens.get(count).is_some();
        if !ended {
            text.truncate(text.trim_end_matches(UNFINISHED).len());
        }
        let end = match first_stop(&text, &self.stops) {
            Some(start) => {
                self.ending = Some(Ending::Stop);
                start
            }
            None if ended => {
                self.ending = Some(if at_end { Ending::Stop } else { Ending::Length });
                text.len()
            }
            None => text.len() - held_back(&text, &self.stops),
        };
        match text.get(self.text.len()..end) {
            Some(new) if text.starts_with(&self.text) => {
                let new = new.to_owned();
                self.text.push_str(&new);
                Ok(new)
            }
            // Less is certain than was: only a tokenizer that rewrites what is before a token does so.
            _ if self.ending.is_none() => Ok(String::new()),
            _ => Err(Refusal::internal("the tokenizer changed text that was already sent")),
        }
    }

    /// The tokens of the text, up to the one that completes a stop string.
    pub(crate) fn used(&self, tokenizer: &Tokenizer) -> Result<&[u32], Refusal> {
        let prefix = self.prefix();
        if first_stop(&tokenizer.decode(prefix)?, &self.stops).is_none() {
            return Ok(prefix);
        }
        // More tokens never lose a stop string, so the first prefix that has one is found by halving.
        let (mut low, mut high) = (0, prefix.len());
        while low + 1 < high {
            let middle = low.midpoint(high);
            match first_stop(&tokenizer.decode(&prefix[..middle])?, &self.stops) {
                Some(_) => high = middle,
                None => low = middle,
            }
        }
        Ok(&prefix[..high])
    }

    /// Each token of the text with its own text and the logarithm of its probability when it was committed.
    pub(crate) fn logprobs(&self, tokenizer: &Tokenizer) -> Result<Vec<(String, f32)>, Refusal> {
        let used = self.used(tokenizer)?;
        let piece = |i: usize| -> Result<String, Refusal> {
            let from = i.saturating_sub(WINDOW);
            let (before, with) = (tokenizer.decode(&used[from..i])?, tokenizer.decode(&used[from..=i])?);
            Ok(with.strip_prefix(before.as_str()).map_or_else(|| with.clone(), str::to_owned))
        };
        (0..used.len()).map(|i| Ok((piece(i)?, self.probabilities[i].max(f32::MIN_POSITIVE).ln()))).collect()
    }
}

/// Where the text is cut: the start of the stop string that is complete first, read from left to right.
fn first_stop(text: &str, stops: &[String]) -> Option<usize> {
    let found =
        stops.iter().filter_map(|stop| text.find(stop.as_str()).map(|start| (start + stop.len(), start)));
    found.min().map(|(_, start)| start)
}

/// Length of the longest end of the text that a stop string begins with.
fn held_back(text: &str, stops: &[String]) -> usize {
    let longest = |stop: &String| {
        let lengths = (1..stop.len().min(text.len() + 1)).rev();
        lengths.filter(|&n| stop.is_char_boundary(n)).find(|&n| text.ends_with(&stop[..n])).unwrap_or(0)
    };
    stops.iter().map(longest).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use demask_model::text::TokenizerSettings;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_stop_that_completes_first_cuts() {
        let stops = ["abc d".to_owned(), "c".to_owned()];
        assert_eq!(first_stop("abc d", &stops), Some(2));
        assert_eq!(first_stop("abx", &stops), None);
        // Of two that end together the longer one cuts more.
        assert_eq!(first_stop("xabc", &["bc".to_owned(), "abc".to_owned()]), Some(1));
    }

    /// A tokenizer of bytes: a, b, and the two halves of é.
    fn bytes() -> Tokenizer {
        let vocab = json!({ "<eos>": 0, "<mask>": 1, "a": 2, "b": 3, "Ã": 4, "©": 5 });
        let special = |id: u32, content: &str| {
            json!({ "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false, "special": true })
        };
        let level = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false });
        let tokenizer = json!({
            "version": "1.0", "added_tokens": [special(0, "<eos>"), special(1, "<mask>")], "normalizer": null,
            "pre_tokenizer": level, "decoder": level, "post_processor": null,
            "model": { "type": "BPE", "vocab": vocab, "merges": [] },
        });
        let settings = TokenizerSettings::from_bytes("none", b"{}").unwrap();
        Tokenizer::from_bytes("none", tokenizer.to_string().as_bytes(), settings, 6).unwrap()
    }

    fn settling(length: usize, stops: &[&str]) -> Settling {
        let ids = SpecialIds { mask: 1, eos: vec![0], pad: None, bos: None };
        let canvas = Canvas::generate(&[2], length, &ids).unwrap();
        let stops: Vec<String> = stops.iter().map(|s| (*s).to_owned()).collect();
        Settling::new(&canvas, false, &stops)
    }

    fn record(commits: &[(usize, u32)]) -> StepRecord {
        let commit = |&(position, token): &(usize, u32)| json!({ "position": position, "token": token, "confidence": 0.5, "probability": 0.5 });
        serde_json::from_value(json!({
            "step": 0, "block": 0, "masked": 1, "stop": null, "forwards": 1, "computed_rows": 1,
            "commits": commits.iter().map(commit).collect::<Vec<_>>(),
            "seconds": { "forward": 0.0, "marginals": 0.0, "select": 0.0 },
        }))
        .unwrap()
    }

    #[test]
    fn half_a_character_waits_for_the_other() {
        let (tokenizer, mut text) = (bytes(), settling(4, &[]));
        assert_eq!(text.step(&tokenizer, &record(&[(2, 4)])).unwrap(), "");
        assert_eq!(text.step(&tokenizer, &record(&[(1, 2)])).unwrap(), "a");
        assert_eq!(text.step(&tokenizer, &record(&[(3, 5)])).unwrap(), "é");
        // A half that stays one is shown for what it is.
        assert_eq!(text.step(&tokenizer, &record(&[(4, 4)])).unwrap(), "\u{FFFD}");
        assert_eq!((text.text(), text.ending()), ("aé\u{FFFD}", Some(Ending::Length)));
    }

    #[test]
    fn a_stop_string_across_steps_is_never_shown() {
        let (tokenizer, mut text) = (bytes(), settling(5, &["ba"]));
        assert_eq!(text.step(&tokenizer, &record(&[(1, 2), (2, 3)])).unwrap(), "a");
        assert_eq!(text.step(&tokenizer, &record(&[(3, 3)])).unwrap(), "b");
        assert_eq!(text.step(&tokenizer, &record(&[(4, 2)])).unwrap(), "");
        assert_eq!((text.text(), text.ending()), ("ab", Some(Ending::Stop)));
        assert_eq!(text.used(&tokenizer).unwrap(), [2, 3, 3, 2]);
        assert_eq!(text.step(&tokenizer, &record(&[(5, 2)])).unwrap(), "");
        assert_eq!(text.finish(&tokenizer, &[2, 2, 3, 3, 2, 2]).unwrap(), "");
        assert_eq!(text.text(), "ab");
    }

    #[test]
    fn an_end_of_sequence_ends_the_text_before_the_canvas() {
        let (tokenizer, mut text) = (bytes(), settling(4, &[]));
        assert_eq!(text.step(&tokenizer, &record(&[(2, 0)])).unwrap(), "");
        assert_eq!(text.step(&tokenizer, &record(&[(1, 3)])).unwrap(), "b");
        assert_eq!(text.ending(), Some(Ending::Stop));
    }

    #[test]
    fn what_may_become_a_stop_is_held_back() {
        let stops = ["\n\n".to_owned(), "Q: é".to_owned()];
        assert_eq!(held_back("text\n", &stops), 1);
        assert_eq!(held_back("text Q: ", &stops), 3);
        assert_eq!(held_back("text", &stops), 0);
        assert_eq!(held_back("", &stops), 0);
    }
}
