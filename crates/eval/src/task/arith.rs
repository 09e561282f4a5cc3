//! `arith`, in the manner of GSM8K: word problems of one to four additions and subtractions, solved in written steps.
//!
//! A response draws one wording of its equations, of its step openers and of its conclusion, and keeps them:
//! `strict` accepts exactly the wordings that do so with every equation true and every step chained to the last.

use serde::{Deserialize, Serialize};

use super::names::NAMES;
use super::{Facts, Problem, Rng, Score, Task, Wording};

const LARGEST_START: i64 = 20;
const LARGEST_CHANGE: i64 = 9;
const LARGEST_TOTAL: i64 = 30;
const OBJECTS: [&str; 8] = ["apples", "books", "cards", "coins", "eggs", "keys", "pens", "toys"];

/// How an equation is written: plus, minus, equals.
const FORMS: [[&str; 3]; 4] =
    [["+", "-", "="], ["plus", "minus", "is"], ["plus", "minus", "makes"], ["and", "less", "gives us"]];
/// How the first step and every later step open.
const OPENERS: [[&str; 2]; 4] =
    [["First", "Then"], ["First", "Next"], ["At first", "Now"], ["To start", "After that"]];
/// How the answer is announced; the last is completed by the story.
const CONCLUSIONS: [&str; 3] =
    ["The answer is {n}.", "So the total is {n}.", "In the end {who} has {n} {what}."];

/// The `arith` task.
pub(super) struct Arith;

/// The content of an `arith` problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Story {
    /// Whose things are counted.
    pub who: String,
    /// What is counted.
    pub what: String,
    /// The first count.
    pub start: i64,
    /// The changes, in order.
    pub changes: Vec<i64>,
}

impl Task for Arith {
    fn name(&self) -> &'static str {
        "arith"
    }

    fn version(&self) -> u32 {
        2
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["arith/1", "arith/2", "arith/3", "arith/4"]
    }

    fn generate(&self, rng: &mut Rng, _wording: Wording) -> Problem {
        let steps = *rng.pick(&[1, 2, 2, 3, 3, 4, 4]);
        let start = rng.between(2, LARGEST_START);
        let changes = draw_changes(rng, start, steps);
        let scene = rng.pick(&[Scene::Person, Scene::Person, Scene::Box, Scene::Bus]);
        let story = Story { who: scene.who(rng), what: scene.what(rng), start, changes };
        let wording = [rng.below(FORMS.len()), rng.below(OPENERS.len()), rng.below(CONCLUSIONS.len())];
        Problem {
            task: self.name().into(),
            kind: self.kinds()[steps - 1].into(),
            prompt: scene.tell(rng, &story),
            response: story.solve(wording),
            key: story.key(),
            facts: Facts::Arith(story),
        }
    }

    fn score(&self, problem: &Problem, response: &str) -> Score {
        let Facts::Arith(story) = &problem.facts else { return Score::default() };
        let found = last_integer(response);
        let strict = story.wordings().any(|wording| story.solve(wording) == response.trim());
        Score {
            correct: found == Some(story.total()),
            strict: Some(strict),
            extracted: found.map(|n| n.to_string()),
        }
    }
}

impl Story {
    /// The answer.
    pub fn total(&self) -> i64 {
        self.start + self.changes.iter().sum::<i64>()
    }

    fn key(&self) -> String {
        self.changes.iter().fold(self.start.to_string(), |key, change| format!("{key}{change:+}"))
    }

    fn wordings(&self) -> impl Iterator<Item = [usize; 3]> {
        (0..FORMS.len() * OPENERS.len() * CONCLUSIONS.len())
            .map(|i| [i % FORMS.len(), i / FORMS.len() % OPENERS.len(), i / FORMS.len() / OPENERS.len()])
    }

    /// The worked solution in one wording: its form, its opener, its conclusion.
    fn solve(&self, [form, opener, conclusion]: [usize; 3]) -> String {
        let [plus, minus, equals] = FORMS[form];
        let mut text = String::new();
        let mut total = self.start;
        for (step, &change) in self.changes.iter().enumerate() {
            let open = OPENERS[opener][usize::from(step > 0)];
            let sign = if change < 0 { minus } else { plus };
            let after = total + change;
            text += &format!("{open} {total} {sign} {} {equals} {after}. ", change.abs());
            total = after;
        }
        text + &CONCLUSIONS[conclusion]
            .replace("{n}", &total.to_string())
            .replace("{who}", &self.who)
            .replace("{what}", &self.what)
    }
}

/// Changes that keep every running total within 0 and [`LARGEST_TOTAL`].
fn draw_changes(rng: &mut Rng, start: i64, steps: usize) -> Vec<i64> {
    let mut total = start;
    (0..steps)
        .map(|_| {
            let change = loop {
                let size = rng.between(1, LARGEST_CHANGE);
                let change = if rng.coin() { size } else { -size };
                if (0..=LARGEST_TOTAL).contains(&(total + change)) {
                    break change;
                }
            };
            total += change;
            change
        })
        .collect()
}

/// Where a story plays, which decides its words.
#[derive(Clone, Copy)]
enum Scene {
    Person,
    Box,
    Bus,
}

impl Scene {
    fn who(self, rng: &mut Rng) -> String {
        match self {
            Self::Person => rng.pick(&NAMES).to_string(),
            Self::Box => "the box".into(),
            Self::Bus => "the bus".into(),
        }
    }

    fn what(self, rng: &mut Rng) -> String {
        match self {
            Self::Person | Self::Box => rng.pick(&OBJECTS).to_string(),
            Self::Bus => "people".into(),
        }
    }

    /// The story and its question, each sentence in one of its phrasings.
    fn tell(self, rng: &mut Rng, story: &Story) -> String {
        let (starts, gains, losses, asks): (&[&str], &[&str], &[&str], &[&str]) = match self {
            Self::Person => (
                &["{who} has {n} {what}.", "{who} starts with {n} {what}."],
                &["{who} buys {n} more.", "{who} finds {n} more.", "Then {who} gets {n} more."],
                &["{who} loses {n}.", "{who} sells {n}.", "Then {who} gives away {n}."],
                &["How many {what} does {who} have now?", "How many {what} are left?"],
            ),
            Self::Box => (
                &["There are {n} {what} in the box.", "The box has {n} {what}."],
                &["We add {n} more.", "{n} are put in."],
                &["We take {n}.", "{n} are taken out."],
                &["How many {what} are in the box now?", "How many {what} are left?"],
            ),
            Self::Bus => (
                &["There are {n} people on the bus.", "The bus has {n} people."],
                &["{n} more get on.", "Then {n} get on."],
                &["{n} of them get off.", "Then {n} get off."],
                &["How many people are on the bus now?", "How many people are left?"],
            ),
        };
        let mut sentences = vec![rng.pick(starts).replace("{n}", &story.start.to_string())];
        for change in &story.changes {
            let phrasings = if *change < 0 { losses } else { gains };
            sentences.push(rng.pick(phrasings).replace("{n}", &change.abs().to_string()));
        }
        sentences.push(rng.pick(asks).to_string());
        sentences.join(" ").replace("{who}", &story.who).replace("{what}", &story.what)
    }
}

/// The last run of digits in a text, with its sign.
fn last_integer(text: &str) -> Option<i64> {
    let end = text.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = text[..end]
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    let size: i64 = text[start..end].parse().ok()?;
    // A minus sign counts only where it opens a word: "9-4" ends in 4.
    let before = &text[..start];
    let negative =
        before.strip_suffix('-').is_some_and(|rest| rest.is_empty() || rest.ends_with(char::is_whitespace));
    Some(if negative { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_integer_is_read_with_its_sign() {
        let cases = [
            ("so 12 apples", Some(12)),
            ("7 - 9 = -2", Some(-2)),
            ("9-4", Some(4)),
            ("é3", Some(3)),
            ("none", None),
            ("-", None),
        ];
        for (text, expected) in cases {
            assert_eq!(last_integer(text), expected, "{text}");
        }
        assert_eq!(last_integer(&"9".repeat(40)), None);
    }

    #[test]
    fn wordings_are_all_different() {
        let story = Story { who: "Tom".into(), what: "pens".into(), start: 12, changes: vec![7, -5] };
        let texts: std::collections::HashSet<String> =
            story.wordings().map(|wording| story.solve(wording)).collect();
        assert_eq!(texts.len(), 48);
        assert!(texts.contains("First 12 + 7 = 19. Then 19 - 5 = 14. The answer is 14."));
    }

    #[test]
    fn strict_refuses_what_correct_lets_pass() {
        let story = Story { who: "Tom".into(), what: "pens".into(), start: 12, changes: vec![7, -5] };
        let problem = Problem {
            task: "arith".into(),
            kind: "arith/2".into(),
            prompt: String::new(),
            response: String::new(),
            key: story.key(),
            facts: Facts::Arith(story),
        };
        let judge = |text: &str| {
            let score = Arith.score(&problem, text);
            (score.correct, score.strict == Some(true))
        };
        assert_eq!(judge("First 12 + 7 = 19. Then 19 - 5 = 14. The answer is 14."), (true, true));
        assert_eq!(
            judge("First 12 + 7 = 18. Then 19 - 5 = 14. The answer is 14."),
            (true, false),
            "a false equation"
        );
        assert_eq!(
            judge("First 12 + 7 = 19. Then 18 - 5 = 14. The answer is 14."),
            (true, false),
            "a broken chain"
        );
        assert_eq!(
            judge("First 12 + 7 = 19. Then 19 minus 5 is 14. The answer is 14."),
            (true, false),
            "two wordings"
        );
        assert_eq!(
            judge("First 12 + 7 = 19. Now 19 - 5 = 14. The answer is 14."),
            (true, false),
            "two openers"
        );
        assert_eq!(judge("First 12 + 7 = 19. Then 19 - 5 = 15. The answer is 15."), (false, false));
    }
}
