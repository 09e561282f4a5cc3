//! Sentence patterns kept as data: sections of lines, each line a small grammar.
//!
//! A file has sections `@name`; every other line is a pattern. `[a|b|]` is a choice, which may nest and may be
//! empty; `{slot}` is filled by the caller. A line that begins with `~` is for fresh wording alone: it never occurs
//! in training. Invariant: fresh wording is drawn from the `~` lines where a section has some.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::Rng;
use super::lexicon::Wording;

/// The patterns of one file.
pub(super) struct Phrases {
    sections: HashMap<&'static str, Section>,
}

#[derive(Default)]
struct Section {
    usual: Vec<&'static str>,
    fresh: Vec<&'static str>,
}

impl Phrases {
    /// Reads a file of patterns.
    pub(super) fn parse(text: &'static str) -> Self {
        let mut sections: HashMap<&'static str, Section> = HashMap::new();
        let mut current = "";
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('@') {
                current = name.trim();
                continue;
            }
            let section = sections.entry(current).or_default();
            match line.strip_prefix('~') {
                Some(fresh) => section.fresh.push(fresh.trim()),
                None => section.usual.push(line),
            }
        }
        Self { sections }
    }

    /// Whether there is such a section.
    pub(super) fn has(&self, section: &str) -> bool {
        self.sections.contains_key(section)
    }

    /// One pattern of a section with its choices made and its slots still open.
    ///
    /// # Panics
    /// If there is no such section: the files are part of the program.
    pub(super) fn draw(&self, rng: &mut Rng, wording: Wording, section: &str) -> String {
        let known = self.sections.get(section).unwrap_or_else(|| panic!("no section {section} of patterns"));
        let fresh = wording == Wording::Fresh && !known.fresh.is_empty();
        let lines = if fresh { &known.fresh } else { &known.usual };
        let line = *rng.pick(lines);
        expand(rng, line).replace("\\n", "\n")
    }

    /// Whether a text holds every fixed piece of a pattern that only fresh wording uses, for tests.
    #[cfg(test)]
    pub(super) fn is_fresh(&self, text: &str) -> bool {
        let mut fresh = self.sections.values().flat_map(|section| &section.fresh);
        fresh.any(|line| {
            line.split('{')
                .flat_map(|part| part.split('}').skip(usize::from(part.contains('}'))))
                .all(|piece| text.contains(&piece.replace("\\n", "\n")))
        })
    }

    /// The share of the patterns of a section that only fresh wording uses, for tests.
    #[cfg(test)]
    pub(super) fn fresh_share(&self, section: &str) -> f64 {
        let known = &self.sections[section];
        known.fresh.len() as f64 / (known.fresh.len() + known.usual.len()) as f64
    }
}

static CHATTER: LazyLock<Phrases> =
    LazyLock::new(|| Phrases::parse(crate::task::wordings::text("chatter.txt")));

/// The prompt with, in a few per cent of all cases, a greeting before it or thanks after it. `topic` may add a section of
/// its own to the general ones.
pub(super) fn chatter(rng: &mut Rng, wording: Wording, topic: &str, prompt: String) -> String {
    let section = |rng: &mut Rng, place: &str| {
        let own = format!("{place}.{topic}");
        if CHATTER.has(&own) && rng.coin() { own } else { place.to_string() }
    };
    let mut prompt = prompt;
    if rng.below(100) < 6 {
        let section = section(rng, "before");
        prompt = format!("{} {prompt}", CHATTER.draw(rng, wording, &section));
    }
    if rng.below(100) < 6 {
        let section = section(rng, "after");
        let stop = if prompt.ends_with(['.', '?', '!', ':', ',']) { "" } else { "." };
        prompt = format!("{prompt}{stop} {}", CHATTER.draw(rng, wording, &section));
    }
    prompt
}

/// Makes the choices of a pattern.
pub(super) fn expand(rng: &mut Rng, pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(start) = rest.find('[') {
        text += &rest[..start];
        let (options, length) = options(&rest[start..]);
        let option = *rng.pick(&options);
        text += &expand(rng, option);
        rest = &rest[start + length..];
    }
    text += rest;
    text
}

/// The options of the choice `pattern` begins with, and how long it is.
fn options(pattern: &str) -> (Vec<&str>, usize) {
    let (mut depth, mut from, mut found) = (0, 1, Vec::new());
    for (at, c) in pattern.char_indices() {
        match c {
            '[' => depth += 1,
            '|' if depth == 1 => {
                found.push(&pattern[from..at]);
                from = at + 1;
            }
            ']' => {
                depth -= 1;
                if depth == 0 {
                    found.push(&pattern[from..at]);
                    return (found, at + 1);
                }
            }
            _ => {}
        }
    }
    panic!("a choice is not closed: {pattern}")
}

/// Fills the slots of a text; each value may hold slots filled by a later pair.
pub(super) fn fill(text: &str, slots: &[(&str, &str)]) -> String {
    slots.iter().fold(text.to_string(), |text, (slot, value)| text.replace(&format!("{{{slot}}}"), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_for_fresh_wording_are_its_own() {
        let mut rng = Rng::new(3);
        for topic in ["program", "open"] {
            for _ in 0..20_000 {
                let said = chatter(&mut rng, Wording::Usual, topic, "Do it.".into());
                assert!(!CHATTER.is_fresh(&said), "{said}");
            }
        }
    }

    #[test]
    fn choices_nest_and_slots_are_left_to_the_caller() {
        let mut rng = Rng::new(1);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..300 {
            seen.insert(expand(&mut rng, "a[ b[c|d]|] {x}"));
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["a bc {x}", "a bd {x}", "a {x}"]);
        assert_eq!(fill("{a} {b}", &[("a", "<{b}>"), ("b", "1")]), "<1> 1");
    }

    #[test]
    fn fresh_lines_are_for_fresh_wording_alone() {
        let phrases = Phrases::parse("@s\n# a remark\nold\n~ new\n@t\nonly");
        let mut rng = Rng::new(2);
        for _ in 0..50 {
            assert_eq!(phrases.draw(&mut rng, Wording::Usual, "s"), "old");
            assert_eq!(phrases.draw(&mut rng, Wording::Fresh, "s"), "new");
            assert!(phrases.is_fresh("a new one") && !phrases.is_fresh("an old one"));
            assert_eq!(phrases.draw(&mut rng, Wording::Fresh, "t"), "only");
        }
    }
}
