//! Counting up or down in equal steps, from a given number or from any.

use serde::{Deserialize, Serialize};

use super::demand::Family;
use super::{read, told};
use crate::task::lexicon::in_words;
use crate::task::{Rng, Wording};

/// An arithmetic sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Negative when counting down.
    step: i64,
    count: usize,
    /// The first number, where it is given.
    start: Option<i64>,
}

impl Count {
    /// The numbers a sequence may begin with.
    fn starts(&self) -> std::ops::RangeInclusive<i64> {
        let way = self.step * (self.count as i64 - 1);
        if way > 0 { 0..=(199 - way).min(99) } else { -way..=99 }
    }
}

impl Family for Count {
    fn draw(rng: &mut Rng, wording: Wording) -> (Self, String) {
        let size = rng.between(1, 15);
        let mut count = Self {
            step: if rng.below(5) < 3 { size } else { -size },
            count: rng.between(3, 7) as usize,
            start: None,
        };
        if rng.below(3) > 0 {
            count.start = Some(rng.between(*count.starts().start(), *count.starts().end()));
        }
        let plural = match size {
            6 => "sixes".to_string(),
            2..=10 => format!("{}s", in_words(size)),
            _ => String::new(),
        };
        let steps = match rng.below(3) {
            0 | 1 if !plural.is_empty() => format!("{} {plural}", rng.pick(&["in", "by"])),
            2 if size > 1 => format!("in steps of {size}"),
            _ => format!("by {size}"),
        };
        let ended = count.start.is_some() && rng.below(3) == 0;
        let section = match (count.start, count.step > 0) {
            (Some(_), true) if ended => "count.to",
            (Some(_), false) if ended => "count.to.down",
            (None, true) => "count.free",
            (None, false) => "count.free.down",
            (Some(_), true) => "count.from",
            (Some(_), false) => "count.from.down",
        };
        let start = count.start.map_or(String::new(), |start| start.to_string());
        let end = count.start.map_or(0, |start| start + count.step * (count.count as i64 - 1)).to_string();
        let slots = [("steps", steps.as_str()), ("k", &size.to_string()), ("s", &start), ("e", &end)];
        let prompt = loop {
            let prompt = told(rng, wording, section, count.count, &slots);
            // Some patterns may leave out how many numbers are wanted.
            if ended || says(&prompt, count.count) {
                break prompt;
            }
        };
        (count, prompt)
    }

    fn key(&self) -> String {
        format!("{}:{}:{:?}", self.step, self.count, self.start)
    }

    fn answer(&self, rng: &mut Rng, _wording: Wording) -> Vec<String> {
        let starts = self.starts();
        let start = self.start.unwrap_or_else(|| rng.between(*starts.start(), *starts.end()));
        (0..self.count as i64).map(|at| (start + at * self.step).to_string()).collect()
    }

    fn read(&self, _response: &str, parts: &[&str]) -> Option<String> {
        let numbers = read::every(parts, self.count, read::number)?;
        let right = numbers.windows(2).all(|pair| pair[1] - pair[0] == self.step)
            && self.start.is_none_or(|start| numbers[0] == start);
        right.then(|| format!("{numbers:?}"))
    }
}

/// Whether the prompt names the count as "N numbers" or the like.
fn says(prompt: &str, count: usize) -> bool {
    let count = count as i64;
    let lower = prompt.to_lowercase();
    ["numbers", "terms", "steps"].iter().any(|what| {
        lower.contains(&format!("{count} {what}")) || lower.contains(&format!("{} {what}", in_words(count)))
    })
}
