//! The shapes in which a story of somebody who has things is told: sentence by sentence, in one breath, question first.

use super::super::lexicon::capital;
use super::owner::{Scene, uncapital};
use super::party::Mention;
use super::story::Story;
use super::teller::{Clause, Teller};
use super::words::{Tense, aux, have};

impl Scene {
    /// "Tom has 12 pens. He buys 7 more. How many does he have now?"
    pub(super) fn plainly(&mut self, teller: &mut Teller<'_>, story: &Story) -> String {
        let opening = capital(&self.opening(teller, story.first));
        let steps = self.steps(teller, &story.steps, false);
        let steps = teller.sentences(&steps);
        let question = self.question(teller, story, false);
        format!("{opening}. {steps}. {question}")
    }

    /// "Tom has 12 pens and buys 7 more."
    pub(super) fn begun_with_the_first_step(&mut self, teller: &mut Teller<'_>, story: &Story) -> String {
        let mut clauses = vec![self.state(teller, story.first, false)];
        clauses.extend(self.steps(teller, &story.steps, true));
        let taken = if clauses.len() > 2 && teller.chance(30) { 3 } else { 2 }.min(clauses.len());
        let begun = capital(&teller.joined(&clauses[..taken]));
        let rest = if taken < clauses.len() {
            format!(". {}", teller.sentences(&clauses[taken..]))
        } else {
            String::new()
        };
        let question = self.question(teller, story, false);
        if rest.is_empty() && teller.chance(20) {
            return format!("{begun}, {}", uncapital(&question));
        }
        format!("{begun}{rest}. {question}")
    }

    /// What there is at first, as a clause of the hero.
    fn state(&self, teller: &mut Teller<'_>, n: i64, pronoun: bool) -> Clause {
        let mention = if pronoun {
            self.hero.pronoun()
        } else {
            Mention { text: self.hero.first.clone(), plural: self.hero.plural }
        };
        let count = teller.count(n, &self.noun);
        let predicate = format!("{} {count}", have(teller.tense, mention.plural));
        Clause {
            subject: mention.text,
            predicate,
            own: true,
            plural: mention.plural,
            timed: false,
            gains: true,
        }
    }

    /// "If Tom has 12 pens and buys 7 more, how many pens does he have?"
    pub(super) fn conditionally(&mut self, teller: &mut Teller<'_>, story: &Story) -> String {
        teller.tense = Tense::Present;
        let mut clauses = vec![self.state(teller, story.first, false)];
        clauses.extend(self.steps(teller, &story.steps, true));
        let one = clauses.len().min(4);
        let told = teller.joined(&clauses[..one]);
        if one < clauses.len() {
            let rest = teller.sentences(&clauses[one..]);
            let question = self.question(teller, story, false);
            return format!("{}. {rest}. {question}", capital(&told));
        }
        let question = uncapital(&self.question(teller, story, true));
        let pattern = teller.pick(&[
            "If {told}, {q}",
            "If {told}, {q}",
            "If {told}, {q}",
            "If {told}, then {q}",
            "Suppose {told}. {Q}",
            "Say {told}. {Q}",
            "When {told}, {q}",
            "*Let's say {told}, {q}",
            "*Imagine {told}. {Q}",
        ]);
        pattern.replace("{told}", &told).replace("{q}", &question).replace("{Q}", &capital(&question))
    }

    /// "How many pens does Tom have if he starts with 12 and buys 7 more?"
    pub(super) fn question_first(&mut self, teller: &mut Teller<'_>, story: &Story) -> String {
        let pattern = teller.pick(&[
            "How many {many} {do} {s} have",
            "How many {many} {do} {s} have now",
            "How many {many} will {s} have",
            "How many {many} {do} {s} have in the end",
            "*What number of {many} {do} {s} have",
        ]);
        let asked = pattern
            .replace("{do}", aux(Tense::Present, self.hero.plural))
            .replace("{s}", &self.hero.first)
            .replace("{many}", &self.noun.many);
        if teller.coin() {
            let mut clauses = vec![self.state(teller, story.first, true)];
            clauses.extend(self.steps(teller, &story.steps, false));
            let (state, steps) = (capital(&clauses[0].whole()), teller.sentences(&clauses[1..]));
            return format!("{asked}? {state}. {steps}.");
        }
        teller.tense = Tense::Present;
        let number = teller.number(story.first);
        let pattern = if self.hero.sub_plural {
            teller.pick(&["start with {n}", "have {n}", "begin with {n}"])
        } else {
            teller.pick(&["starts with {n}", "has {n}", "begins with {n}"])
        };
        let predicate = pattern.replace("{n}", &number);
        let mut clauses = vec![Clause {
            subject: self.hero.sub.clone(),
            predicate,
            own: true,
            plural: self.hero.sub_plural,
            timed: false,
            gains: true,
        }];
        clauses.extend(self.steps(teller, &story.steps, true));
        let told = teller.joined(&clauses);
        if teller.chance(35) {
            let ask = teller.pick(&[
                "tell me how many {many} {s} {has}:",
                "find out how many {many} {s} {has}:",
                "please tell me how many {many} {s} {has} in the end:",
                "calculate how many {many} {s} {has}:",
                "count the {many} {s} {has} at the end:",
                "I wonder how many {many} {s} {has}:",
                "*work out how many {many} {s} {has} after this:",
            ]);
            let ask = ask.replace("{many}", &self.noun.many).replace("{s}", &self.hero.first);
            return capital(&format!(
                "{} {told}.",
                ask.replace("{has}", have(Tense::Present, self.hero.plural))
            ));
        }
        let link = teller.pick(&["if", "if", "if", "when", "*in case"]);
        format!("{asked} {link} {told}?")
    }

    /// "Tom: 12 pens, buys 7, loses 5. How many?"
    pub(super) fn in_short(&mut self, teller: &mut Teller<'_>, story: &Story) -> String {
        teller.tense = Tense::Present;
        let state = self.state(teller, story.first, false);
        let mut parts = vec![capital(&state.whole())];
        for step in &story.steps {
            let clause = self.step(teller, *step, true);
            parts.push(if clause.own && !self.hero.sub_plural { clause.predicate } else { clause.whole() });
        }
        let question = self.question(teller, story, false);
        format!("{}. {question}", parts.join(", "))
    }
}
