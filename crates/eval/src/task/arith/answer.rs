//! Responses: the chain worked out in one wording, and the parser that judges any other text.
//!
//! A response draws one form of its equations, one pair of openers and one conclusion, and keeps them. `strict` accepts
//! a text whose equations are all true, each taking up the result of the last, that uses every number of the story once,
//! and keeps one wording to its conclusion. Where numbers have to be worked out first, equations take up any results, each once.

use super::super::Rng;
use super::story::{Op, Step, Story};

/// How an equation is written: plus, minus, times, over, equals.
const FORMS: [[&str; 5]; 5] = [
    ["+", "-", "x", "/", "="],
    ["plus", "minus", "times", "divided by", "is"],
    ["plus", "minus", "times", "divided by", "makes"],
    ["plus", "minus", "times", "divided by", "equals"],
    ["and", "less", "times", "divided by", "gives us"],
];
/// How the first step and every later step open. A chain of one step and a longer one open alike: a word that only a longer
/// chain begins with would commit the reader of a story, from the left, to more steps before the first is worked out.
const OPENERS: [[&str; 2]; 6] =
    [["", "Then"], ["", "Next"], ["", "Now"], ["", "After that"], ["We have", "Then we have"], ["", ""]];
/// Conclusions of any story.
const CONCLUSIONS: [&str; 4] =
    ["The answer is {n}.", "So the total is {n}.", "So the answer is {n}.", "That makes {n}."];

/// One equation as a text states it.
#[derive(Debug, PartialEq)]
struct Equation<'a> {
    opener: &'a str,
    form: usize,
    left: i64,
    step: Step,
    result: i64,
}

impl Story {
    /// The worked solution in one wording. `named` allows a conclusion that says who and what.
    pub(super) fn solve(&self, rng: &mut Rng, named: bool) -> String {
        // The plain form is what most people expect.
        let form = if rng.coin() { 0 } else { rng.below(FORMS.len()) };
        let openers = loop {
            let openers = *rng.pick(&OPENERS);
            // "We have 12 plus 7 is 19" has one verb too many.
            if form == 0 || openers[0] != "We have" {
                break openers;
            }
        };
        let conclusion = if named && !self.endings.is_empty() && rng.coin() {
            rng.pick(&self.endings).clone()
        } else {
            // What is left of one number is no total.
            let total = self.equations() > 1 || self.only_gains();
            let plain: Vec<&str> =
                CONCLUSIONS.into_iter().filter(|text| total || !text.contains("total")).collect();
            rng.pick(&plain).replace("{n}", &self.total().to_string())
        };
        self.worked(form, openers) + &conclusion
    }

    fn worked(&self, form: usize, openers: [&str; 2]) -> String {
        let mut text = String::new();
        self.write(form, openers, &mut text);
        text
    }

    /// Adds this chain's equations, those of a number within it before the step that takes it up.
    fn write(&self, form: usize, openers: [&str; 2], text: &mut String) {
        let words = FORMS[form];
        let mut total = self.first;
        if let Some(story) = self.inner_at(0) {
            story.write(form, openers, text);
        }
        for (at, step) in self.steps.iter().enumerate() {
            if let Some(story) = self.inner_at(at + 1) {
                story.write(form, openers, text);
            }
            let opener = openers[usize::from(!text.is_empty())];
            let after = step.op.apply(total, step.by).unwrap_or(total);
            if !opener.is_empty() {
                *text += opener;
                text.push(' ');
            }
            *text += &format!("{total} {} {} {} {after}. ", words[step.op as usize], step.by, words[4]);
            total = after;
        }
    }

    /// Whether the whole text is a true working of this story in one wording.
    pub(super) fn is_worked_by(&self, text: &str) -> bool {
        let mut rest = text;
        let mut equations = Vec::new();
        for _ in 0..self.equations() {
            let Some((sentence, more)) = rest.split_once(". ") else { return false };
            let Some(equation) = equation(sentence) else { return false };
            equations.push(equation);
            rest = more;
        }
        let plain = CONCLUSIONS.iter().map(|pattern| pattern.replace("{n}", &self.total().to_string()));
        let concluded = plain.chain(self.endings.iter().cloned()).any(|conclusion| conclusion == rest);
        let follows = if self.inner.is_empty() {
            chained(&equations) && self.uses_its_numbers(&equations)
        } else {
            self.is_gathered_by(&equations)
        };
        concluded && one_wording(&equations) && follows
    }

    /// Whether true equations use each number of the story and each result but the last once.
    fn is_gathered_by(&self, equations: &[Equation<'_>]) -> bool {
        let mut known = self.numbers();
        let take = |number: i64, known: &mut Vec<i64>| {
            known.iter().position(|k| *k == number).map(|at| known.swap_remove(at)).is_some()
        };
        let holds = equations.iter().all(|equation| {
            let Equation { left, step, result, .. } = *equation;
            let used = take(left, &mut known) && take(step.by, &mut known);
            known.push(result);
            used && step.op.apply(left, step.by) == Some(result)
        });
        holds && known == [self.total()]
    }

    /// Whether the equations use each number of the story once, in whatever order.
    fn uses_its_numbers(&self, equations: &[Equation<'_>]) -> bool {
        let terms = |first: i64, steps: Vec<Step>| -> Vec<Step> {
            // A product has no first factor, nor has a sum a first term.
            let op =
                if steps.first().is_some_and(|step| step.op == Op::Times) { Op::Times } else { Op::Plus };
            let mut terms: Vec<Step> = std::iter::once(Step::new(op, first)).chain(steps).collect();
            terms.sort_unstable();
            terms
        };
        let Some(begin) = equations.first() else { return false };
        let found = terms(begin.left, equations.iter().map(|equation| equation.step).collect());
        found == terms(self.first, self.steps.clone())
    }
}

/// Reads "Then 12 + 7 = 19" in any of the forms; the opener is whatever stands before.
fn equation(sentence: &str) -> Option<Equation<'_>> {
    FORMS.iter().enumerate().find_map(|(form, words)| {
        let (sum, result) = sentence.rsplit_once(&format!(" {} ", words[4]))?;
        [Op::Plus, Op::Minus, Op::Times, Op::Over].into_iter().find_map(|op| {
            let (before, by) = sum.rsplit_once(&format!(" {} ", words[op as usize]))?;
            let (opener, left) = match before.rsplit_once(' ') {
                Some(("", _)) => return None,
                Some(parts) => parts,
                None => ("", before),
            };
            let step = Step::new(op, number(by)?);
            Some(Equation { opener, form, left: number(left)?, step, result: number(result)? })
        })
    })
}

/// A number in plain digits.
fn number(text: &str) -> Option<i64> {
    let plain = !text.is_empty() && text.len() < 10 && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

fn one_wording(equations: &[Equation<'_>]) -> bool {
    let Some((first, later)) = equations.split_first() else { return false };
    let form = later.iter().all(|equation| equation.form == first.form);
    form && OPENERS
        .iter()
        .any(|[open, next]| first.opener == *open && later.iter().all(|equation| equation.opener == *next))
}

fn chained(equations: &[Equation<'_>]) -> bool {
    let mut last = None;
    equations.iter().all(|equation| {
        let holds = last.is_none_or(|total| total == equation.left)
            && equation.step.op.apply(equation.left, equation.step.by) == Some(equation.result);
        last = Some(equation.result);
        holds
    })
}

/// The last run of digits in a text, with its sign.
pub(super) fn last_integer(text: &str) -> Option<i64> {
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
    use std::collections::HashSet;

    use super::*;

    fn story() -> Story {
        let steps = vec![Step::new(Op::Plus, 7), Step::new(Op::Minus, 5)];
        Story { endings: vec!["In the end Tom has 14 pens.".into()], ..Story::new(12, steps) }
    }

    #[test]
    fn a_number_within_the_chain_is_worked_out_first() {
        let oranges = Story::new(6, vec![Step::new(Op::Times, 7)]);
        let story = Story { inner: vec![(1, oranges)], ..Story::new(50, vec![Step::new(Op::Minus, 42)]) };
        assert_eq!((story.total(), story.key().as_str(), story.equations()), (8, "50-(6x7)", 2));
        assert_eq!(story.worked(0, OPENERS[0]), "6 x 7 = 42. Then 50 - 42 = 8. ");
        let right = "7 x 6 = 42. Then 50 - 42 = 8. The answer is 8.";
        assert!(story.is_worked_by(right));
        let wrong = [
            "50 - 42 = 8. Then 6 x 7 = 42. The answer is 8.",
            "6 x 7 = 42. Then 6 x 7 = 42. The answer is 8.",
            "6 x 7 = 42. Then 42 - 34 = 8. The answer is 8.",
            "6 x 7 = 41. Then 50 - 42 = 8. The answer is 8.",
        ];
        for text in wrong {
            assert!(!story.is_worked_by(text), "{text}");
        }
    }

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
    fn wordings_are_many_and_all_accepted() {
        let mut rng = Rng::new(1);
        let texts: HashSet<String> = (0..4000).map(|_| story().solve(&mut rng, true)).collect();
        assert_eq!(texts.len(), (FORMS.len() * (OPENERS.len() - 1) + 1) * (CONCLUSIONS.len() + 1));
        assert!(texts.contains("12 + 7 = 19. Then 19 - 5 = 14. The answer is 14."));
        assert!(texts.iter().all(|text| story().is_worked_by(text)));
    }

    #[test]
    fn strict_refuses_what_is_false_unchained_or_mixed() {
        let right = [
            "12 + 7 = 19. Then 19 - 5 = 14. The answer is 14.",
            "12 - 5 = 7. Then 7 + 7 = 14. The answer is 14.",
            "7 plus 12 is 19. 19 minus 5 is 14. In the end Tom has 14 pens.",
        ];
        for text in right {
            assert!(story().is_worked_by(text), "{text}");
        }
        let wrong = [
            ("12 + 7 = 18. Then 19 - 5 = 14. The answer is 14.", "a false equation"),
            ("12 + 7 = 19. Then 18 - 5 = 14. The answer is 14.", "a broken chain"),
            ("12 + 7 = 19. Then 19 minus 5 is 14. The answer is 14.", "two forms"),
            ("We have 12 + 7 = 19. Now 19 - 5 = 14. The answer is 14.", "two openers"),
            ("12 + 7 = 19.  19 - 5 = 14. The answer is 14.", "an opener left out"),
            ("10 + 9 = 19. Then 19 - 5 = 14. The answer is 14.", "numbers of no story"),
            ("12 + 7 = 19. Then 19 - 5 = 14. The answer is 15.", "another answer"),
            ("12 + 7 = 19. Then 19 - 5 = 14. In the end Ann has 14 pens.", "another person"),
            ("12 + 7 = 19. The answer is 14.", "a step left out"),
            ("12 + 7 = 19. Then 19 - 5 = 14.", "no conclusion"),
        ];
        for (text, why) in wrong {
            assert!(!story().is_worked_by(text), "{why}: {text}");
        }
    }
}
