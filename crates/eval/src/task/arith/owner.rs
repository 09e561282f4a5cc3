//! Stories of somebody who has things: "Tom has 12 pens. He buys 7 more. His sister takes 5. How many are left?"

use super::super::lexicon::{self, Noun, NounKind, capital};
use super::party::{Mention, Party};
use super::story::{Step, Story};
use super::teller::{Clause, Teller};
use super::words::{EVENTS, Tense, VERBS, Verb, aux, have, things};

const KINDS: [NounKind; 10] = [
    NounKind::Thing,
    NounKind::Thing,
    NounKind::Thing,
    NounKind::Thing,
    NounKind::Thing,
    NounKind::Food,
    NounKind::Food,
    NounKind::Food,
    NounKind::Plant,
    NounKind::Animal,
];

/// The words of one story.
pub(super) struct Scene {
    pub(super) hero: Party,
    pub(super) noun: Noun,
    things: String,
    /// Whether the last clause was about somebody else, so that "she" would be taken for them.
    stranger: bool,
}

/// Tells the story and gives it its endings.
pub(super) fn tell(teller: &mut Teller<'_>, story: &mut Story) -> String {
    let hero = Party::draw(teller);
    let kinds: &[NounKind] =
        if hero.shop { &[NounKind::Thing, NounKind::Food, NounKind::Vehicle] } else { &KINDS };
    let noun = lexicon::noun(teller.rng, teller.wording, kinds);
    let mut scene = Scene { things: things(&noun), hero, noun, stranger: false };
    story.endings = scene.endings(story.total());
    match teller.rng.below(100) {
        0..66 => scene.plainly(teller, story),
        66..80 => scene.begun_with_the_first_step(teller, story),
        80..89 => scene.conditionally(teller, story),
        89..94 => scene.question_first(teller, story),
        _ => scene.in_short(teller, story),
    }
}

impl Scene {
    fn endings(&self, total: i64) -> Vec<String> {
        let noun = if total == 1 { &self.noun.one } else { &self.noun.many };
        // The problem says "I", the answer "you".
        let (who, has) = match self.hero.sub.as_str() {
            "I" => ("you".to_owned(), "have"),
            "you" => ("you".to_owned(), "have"),
            "we" => ("you".to_owned(), "have"),
            _ => {
                let ours = self.hero.again.strip_prefix("my ").or(self.hero.again.strip_prefix("our "));
                (ours.map_or(self.hero.again.clone(), |rest| format!("your {rest}")), "has")
            }
        };
        let patterns = [
            "In the end {who} {has} {n} {noun}.",
            "So {who} {has} {n} {noun} now.",
            "{Who} {has} {n} {noun}.",
        ];
        let fill = |pattern: &str| {
            let text = pattern.replace("{who}", &who).replace("{Who}", &capital(&who)).replace("{has}", has);
            text.replace("{n}", &total.to_string()).replace("{noun}", noun)
        };
        patterns.into_iter().map(fill).collect()
    }

    pub(super) fn opening(&self, teller: &mut Teller<'_>, n: i64) -> String {
        let tense = teller.tense;
        // "Tom picks 12 apples" begins a story as well as "Tom has 12 apples".
        if teller.chance(12)
            && let Some((verb, template)) = self.verb(teller, "gain")
        {
            let count = teller.count(n, &self.noun);
            let mention = Mention { text: self.hero.first.clone(), plural: self.hero.plural };
            return self.clause(teller, &mention, verb, &template, &count, true).whole();
        }
        let pattern = teller.draw("owner/openings");
        let count = teller.count(n, &self.noun);
        let be = super::words::be(tense, n != 1);
        let regular = |base: &str, past: &str| match (tense, self.hero.plural) {
            (Tense::Past, _) => past.to_owned(),
            (_, true) => base.to_owned(),
            (_, false) => format!("{base}s"),
        };
        let whose = if self.hero.plural { self.hero.poss.clone() } else { self.possessive_at_first() };
        pattern
            .replace("{S}", &self.hero.first)
            .replace("{has}", have(tense, self.hero.plural))
            .replace("{start}", &regular("start", "started"))
            .replace("{begin}", &regular("begin", "began"))
            .replace("{keep}", &regular("keep", "kept"))
            .replace("{own}", &regular("own", "owned"))
            .replace("{are}", be)
            .replace("{whose}", &whose)
            .replace("{c}", &count)
    }

    fn possessive_at_first(&self) -> String {
        format!("{}'s", self.hero.first)
    }

    /// A verb of a role that suits hero and thing, with one of its templates.
    fn verb(&self, teller: &mut Teller<'_>, role: &str) -> Option<(&'static Verb, String)> {
        let subject = if self.hero.shop { 'S' } else { 'P' };
        let fits = |verb: &&Verb| {
            verb.role == role
                && verb.subjects.contains(subject)
                && verb.things.chars().any(|letter| self.things.contains(letter))
        };
        let verbs: Vec<&'static Verb> = VERBS.iter().filter(fits).collect();
        if verbs.is_empty() {
            return None;
        }
        let verb = *teller.rng.pick(&verbs);
        Some((verb, teller.rng.pick(&verb.templates).clone()))
    }

    fn clause(
        &self,
        teller: &mut Teller<'_>,
        subject: &Mention,
        verb: &Verb,
        template: &str,
        amount: &str,
        gains: bool,
    ) -> Clause {
        let mut predicate = verb.conjugate(template, teller.tense, subject.plural).replace("{o}", amount);
        if predicate.contains("{x}") {
            predicate = predicate.replace("{x}", &self.hero.other(teller));
        }
        if predicate.contains("{obj}") {
            predicate = predicate.replace("{obj}", &self.hero.object(teller));
        }
        let predicate = predicate.replace("{poss}", &self.hero.poss);
        Clause {
            subject: subject.text.clone(),
            predicate,
            own: true,
            plural: subject.plural,
            timed: false,
            gains,
        }
    }

    /// One step, as something the hero does, something another does, or something that happens.
    pub(super) fn step(&mut self, teller: &mut Teller<'_>, step: Step, pronoun: bool) -> Clause {
        let amount = teller.amount(step, &self.noun, &self.hero.poss);
        let way = teller.rng.below(100);
        if way < 18 {
            if let Some(clause) = self.by_another(teller, step, &amount) {
                self.stranger = true;
                return clause;
            }
        } else if way < 30
            && let Some(clause) = self.by_itself(teller, step, &amount)
        {
            return clause;
        }
        let mention = if pronoun {
            self.hero.pronoun()
        } else if self.stranger {
            self.hero.named()
        } else {
            self.hero.mention(teller)
        };
        self.stranger = false;
        let role = if step.gains() { "gain" } else { "loss" };
        // Every thing can be bought and lost, by whomever.
        let (verb, template) =
            self.verb(teller, role).unwrap_or_else(|| (&VERBS[0], VERBS[0].templates[0].clone()));
        self.clause(teller, &mention, verb, &template, &amount, step.gains())
    }

    fn by_another(&self, teller: &mut Teller<'_>, step: Step, amount: &str) -> Option<Clause> {
        let (verb, template) = self.verb(teller, if step.gains() { "givers" } else { "takers" })?;
        let mention = Mention { text: self.hero.other(teller), plural: false };
        let clause = self.clause(teller, &mention, verb, &template, amount, step.gains());
        Some(Clause { own: false, ..clause })
    }

    fn by_itself(&self, teller: &mut Teller<'_>, step: Step, amount: &str) -> Option<Clause> {
        let kind = match self.noun.kind {
            _ if self.things.contains('m') => return None,
            _ if self.things.contains('o') && !step.gains() && teller.chance(70) => "balloon",
            NounKind::Thing => "thing",
            NounKind::Food => "food",
            NounKind::Plant => "plant",
            NounKind::Animal | NounKind::Bird | NounKind::Person => "animal",
            NounKind::Vehicle => "vehicle",
        };
        // What comes by itself comes to a place, not to a person: only live things do.
        if step.gains() && !["animal", "plant"].contains(&kind) {
            return None;
        }
        happening(teller, kind, step, amount, &["there", "next to", "in", "out"])
    }

    /// The steps as clauses; now and then two of them in one: "sells 9 in the morning and 8 in the afternoon".
    pub(super) fn steps(&mut self, teller: &mut Teller<'_>, steps: &[Step], pronoun: bool) -> Vec<Clause> {
        let mut clauses = Vec::new();
        let mut at = 0;
        while at < steps.len() {
            let step = steps[at];
            let alike = |next: &&Step| next.op == step.op && next.by > 1 && step.by > 1;
            let run = steps[at..].iter().take(3).take_while(alike).count();
            if run > 1 && teller.chance(22) {
                clauses.push(self.repeated(teller, &steps[at..at + run]));
                at += run;
            } else {
                clauses.push(self.step(teller, step, pronoun));
                at += 1;
            }
        }
        clauses
    }

    /// Two or three steps of a kind under one verb.
    fn repeated(&mut self, teller: &mut Teller<'_>, steps: &[Step]) -> Clause {
        let mut clause = loop {
            let clause = self.step(teller, steps[0], false);
            // Some verbs end in a time or a place of their own.
            if !clause.predicate.contains(" in the ") && !clause.predicate.contains(" at ") {
                break clause;
            }
        };
        let more = if steps[0].gains() && teller.coin() { " more" } else { "" };
        let numbers: Vec<String> = steps.iter().map(|step| teller.number(step.by) + more).collect();
        clause.predicate += &match &numbers[1..] {
            [second, third] => {
                let [one, two, three] = teller.thrice();
                format!(" {one}, {second} {two} and {third} {three}")
            }
            rest => {
                let [one, two] = teller.twice();
                format!(" {one} and {} {two}", rest.join(" and "))
            }
        };
        clause.timed = true;
        clause
    }

    pub(super) fn question(&self, teller: &mut Teller<'_>, story: &Story, pronoun: bool) -> String {
        let left = story.ends_in_loss() || (!story.only_gains() && teller.chance(20));
        let pattern =
            if left && teller.coin() { teller.draw("owner/left") } else { teller.draw("owner/questions") };
        self.asked(teller, pattern, pronoun)
    }

    pub(super) fn asked(&self, teller: &mut Teller<'_>, pattern: &str, pronoun: bool) -> String {
        let mention = if pronoun || (teller.coin() && !self.stranger) {
            self.hero.pronoun()
        } else {
            self.hero.named()
        };
        // "How many does she have now?" ends a story of the past too.
        let past = teller.tense == Tense::Past && !pattern.contains("now") && teller.coin();
        let tense = if past { Tense::Past } else { Tense::Present };
        let has = if pattern.contains("got") {
            have(Tense::Present, mention.plural)
        } else {
            have(tense, mention.plural)
        };
        capital(&pattern.replace("{do}", aux(tense, mention.plural)).replace("{has}", has))
            .replace("{s}", &mention.text)
            .replace("{many}", &self.noun.many)
            .replace("{Many}", &capital(&self.noun.many))
    }
}

/// Something that happens to so many things; templates with one of the words are left out.
pub(super) fn happening(
    teller: &mut Teller<'_>,
    kind: &str,
    step: Step,
    amount: &str,
    without: &[&str],
) -> Option<Clause> {
    let role = if step.gains() { "gain" } else { "loss" };
    let events: Vec<&'static Verb> =
        EVENTS.iter().filter(|event| event.role == role && event.things == kind).collect();
    if events.is_empty() {
        return None;
    }
    let event = *teller.rng.pick(&events);
    let template = teller.rng.pick(&event.templates).clone();
    if template.split(' ').any(|word| without.contains(&word)) {
        return None;
    }
    let predicate = event.conjugate(&template, teller.tense, step.by != 1);
    Some(Clause {
        subject: amount.to_owned(),
        predicate,
        own: false,
        plural: true,
        timed: false,
        gains: step.gains(),
    })
}

/// The text with a small first letter.
pub(super) fn uncapital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}
