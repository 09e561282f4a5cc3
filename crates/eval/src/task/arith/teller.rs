//! Whoever tells a story: the random choices, the wording, how numbers are written, and how clauses become sentences.

use super::super::Rng;
use super::super::lexicon::{Noun, Wording, capital, in_words};
use super::story::Step;
use super::words::{Tense, patterns};

/// Per cent of the prompts whose numbers are written in words.
const IN_WORDS: usize = 3;
/// Per cent of the twelves and sixes that are a dozen and half a dozen.
const DOZENS: usize = 20;

/// Two times of one clause.
const TWICE: [[&str; 2]; 9] = [
    ["in the morning", "in the afternoon"],
    ["in the morning", "in the evening"],
    ["on Monday", "on Tuesday"],
    ["on Saturday", "on Sunday"],
    ["before lunch", "after lunch"],
    ["at first", "later"],
    ["one day", "the next day"],
    ["this week", "next week"],
    ["today", "tomorrow"],
];

/// Three times of one clause.
const THRICE: [[&str; 3]; 4] = [
    ["on Friday", "on Saturday", "on Sunday"],
    ["on Monday", "on Tuesday", "on Wednesday"],
    ["in the morning", "at noon", "in the evening"],
    ["in the first week", "in the second week", "in the third week"],
];

/// One thing that happens.
#[derive(Clone, Debug)]
pub(super) struct Clause {
    pub(super) subject: String,
    pub(super) predicate: String,
    /// The subject is the hero of the story: a clause after "and" may leave it out.
    pub(super) own: bool,
    /// Whether its verb is a plural one: only clauses that agree may share a subject.
    pub(super) plural: bool,
    /// Whether it says when already.
    pub(super) timed: bool,
    pub(super) gains: bool,
}

impl Clause {
    pub(super) fn whole(&self) -> String {
        format!("{} {}", self.subject, self.predicate)
    }
}

/// The state of a telling.
pub(super) struct Teller<'a> {
    pub(super) rng: &'a mut Rng,
    pub(super) wording: Wording,
    pub(super) tense: Tense,
    words: bool,
}

impl<'a> Teller<'a> {
    pub(super) fn new(rng: &'a mut Rng, wording: Wording) -> Self {
        let tense = if rng.below(5) < 3 { Tense::Present } else { Tense::Past };
        let words = rng.below(100) < IN_WORDS;
        Self { rng, wording, tense, words }
    }

    /// One of the patterns, as [`Wording::pick`] does.
    pub(super) fn pick<'p>(&mut self, patterns: &[&'p str]) -> &'p str {
        self.wording.pick(self.rng, patterns)
    }

    /// One of the patterns of a list of `patterns.txt`.
    pub(super) fn draw(&mut self, list: &str) -> &'static str {
        self.pick(patterns(list))
    }

    pub(super) fn coin(&mut self) -> bool {
        self.rng.coin()
    }

    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.rng.below(100) < percent
    }

    /// A number as it is written here.
    pub(super) fn number(&self, n: i64) -> String {
        if self.words && n < 100 { in_words(n) } else { n.to_string() }
    }

    fn dozen(&mut self, n: i64) -> Option<&'static str> {
        let word = match n {
            12 => "dozen",
            6 => "half a dozen",
            _ => return None,
        };
        self.chance(DOZENS).then_some(word)
    }

    /// "12 pens", "1 pen", "a dozen pens".
    pub(super) fn count(&mut self, n: i64, noun: &Noun) -> String {
        match self.dozen(n) {
            Some("dozen") => format!("a dozen {}", noun.many),
            Some(half) => format!("{half} {}", noun.many),
            None => format!("{} {}", self.number(n), if n == 1 { &noun.one } else { &noun.many }),
        }
    }

    /// What is gained or lost, told in short or in full: "7 more", "another 7 pens", "5 of them".
    pub(super) fn amount(&mut self, step: Step, noun: &Noun, poss: &str) -> String {
        let patterns: &[&str] = match (step.gains(), step.by) {
            (true, 1) => {
                &["{n} more", "one more", "{n} more {one}", "another {one}", "another one", "*{n} {one} more"]
            }
            (true, _) => &[
                "{n} more",
                "{n} more",
                "{n} more",
                "{n} more",
                "{n} more",
                "{n} more {many}",
                "{n} more {many}",
                "{n} more {many}",
                "another {n}",
                "another {n}",
                "another {n} {many}",
                "{n}",
                "{n} {many}",
                "{n} new {many}",
                "{n} extra {many}",
                "{n} more of them",
                "{n} new ones",
                "{n} others",
                "*{n} {many} more",
                "*{n} other {many}",
            ],
            (false, 1) => &[
                "{n}",
                "one",
                "{n} of them",
                "one of them",
                "{n} {one}",
                "one {one}",
                "*one of those {many}",
            ],
            (false, _) => &[
                "{n}",
                "{n}",
                "{n}",
                "{n}",
                "{n} of them",
                "{n} of them",
                "{n} of them",
                "{n} {many}",
                "{n} {many}",
                "{n} of the {many}",
                "{n} of the {many}",
                "{n} of {poss} {many}",
                "*{n} of those {many}",
                "*{n} of all the {many}",
            ],
        };
        let pattern = self.pick(patterns);
        let number = match self.dozen(step.by) {
            Some("dozen") if pattern.starts_with("another") => "dozen".to_owned(),
            Some("dozen") => "a dozen".to_owned(),
            Some(half) if !pattern.starts_with("another") => half.to_owned(),
            _ => self.number(step.by),
        };
        let text = pattern.replace("{n}", &number).replace("{one}", &noun.one).replace("{many}", &noun.many);
        text.replace("{poss}", poss)
    }

    /// A time before the clause, with its space, or nothing.
    pub(super) fn before(&mut self) -> String {
        if self.chance(55) {
            return String::new();
        }
        match self.draw("teller/before") {
            "now" if self.tense == Tense::Past => "then ".to_owned(),
            word => format!("{word} "),
        }
    }

    /// A time after the clause, with its space, or nothing.
    pub(super) fn after(&mut self) -> String {
        if self.chance(85) { String::new() } else { format!(" {}", self.draw("teller/after")) }
    }

    /// Two times that go together.
    pub(super) fn twice(&mut self) -> [&'static str; 2] {
        // Nothing was sold tomorrow.
        let past = if self.tense == Tense::Past { TWICE.len() - 2 } else { TWICE.len() };
        TWICE[self.rng.below(past)]
    }

    /// Three times that go together.
    pub(super) fn thrice(&mut self) -> [&'static str; 3] {
        *self.rng.pick(&THRICE)
    }

    /// Clauses in one sentence or several, without the full stop of the last.
    pub(super) fn sentences(&mut self, clauses: &[Clause]) -> String {
        let mut text = String::new();
        let mut at = 0;
        while at < clauses.len() {
            let most = clauses.len() - at;
            let taken = if self.chance(62) { 1 } else { 2 + usize::from(self.chance(25)) }.min(most);
            let before = if at == 0 && self.chance(40) { String::new() } else { self.before() };
            let timed = clauses[at..at + taken].iter().any(|clause| clause.timed);
            let before = if timed { String::new() } else { before };
            let after = if timed || !before.is_empty() { String::new() } else { self.after() };
            let sentence = before + &self.joined(&clauses[at..at + taken]) + &after;
            match at {
                0 => text += &capital(&sentence),
                _ if self.chance(4) => text += &format!("; {sentence}"),
                _ => text += &format!(". {}", capital(&sentence)),
            }
            at += taken;
        }
        text
    }

    /// Clauses as one: "Tom buys 7 more, loses 5 and finds 2".
    pub(super) fn joined(&mut self, clauses: &[Clause]) -> String {
        let Some((first, rest)) = clauses.split_first() else { return String::new() };
        let mut text = first.whole();
        let mut last = first;
        for (at, clause) in rest.iter().enumerate() {
            let link = if at + 1 < rest.len() {
                self.pick(&[",", ",", ", then", "*, and"])
            } else if clause.gains == last.gains {
                self.pick(&[" and", " and", " and", " and then", ", then", ", and then", "*, and after that"])
            } else {
                self.pick(&[
                    " and",
                    " and",
                    " and",
                    " but",
                    ", but",
                    " and then",
                    ", then",
                    ", but then",
                    " but then",
                    "*, and after that",
                    "*, while",
                ])
            };
            let short = clause.own && last.own && clause.plural == first.plural && self.chance(80);
            // "while loses 5" is no English: the subject stays.
            let part =
                if short && !link.contains("while") { clause.predicate.clone() } else { clause.whole() };
            text += &format!("{link} {part}");
            last = clause;
        }
        text
    }
}
