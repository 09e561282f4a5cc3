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

const OPENINGS: [&str; 31] = [
    "{S} {has} {c}",
    "{S} {has} {c}",
    "{S} {has} {c}",
    "{S} {has} {c}",
    "{S} {has} {c}",
    "{S} {has} {c}",
    "{S} {has} {c}",
    "{S} {has} {c}",
    "{S} {has} {c}",
    "{S} {start} with {c}",
    "{S} {start} out with {c}",
    "{S} {begin} with {c}",
    "{S} {has} {c} to start with",
    "at first {S} {has} {c}",
    "at first, {S} {has} {c}",
    "in the morning {S} {has} {c}",
    "{S} {own} {c}",
    "{S} {keep} {c}",
    "{S} {has} {c} in a bag",
    "{S} {has} {c} at home",
    "{S} {has} {c} in total",
    "{S} {has} exactly {c}",
    "there {are} {c} in {whose} bag",
    "there {are} {c} in {whose} room",
    "{S} {has} a box with {c}",
    "{S} {has} a total of {c}",
    "{S} {has} a bag of {c}",
    "*to begin with, {S} {has} {c}",
    "*in {whose} bag there {are} {c}",
    "*let us say {S} {has} {c}",
    "*{S} {has} {c} on the table",
];

const QUESTIONS: [&str; 47] = [
    "how many {many} {do} {s} have now?",
    "how many {many} {do} {s} have now?",
    "how many {many} {do} {s} have now?",
    "how many {many} {do} {s} have?",
    "how many {many} {do} {s} have?",
    "how many {do} {s} have now?",
    "how many {do} {s} have now?",
    "how many {do} {s} have?",
    "how many {do} {s} have in the end?",
    "how many {many} {do} {s} have in the end?",
    "how many {many} {do} {s} have in total?",
    "how many {many} {do} {s} have altogether?",
    "how many {many} {do} {s} have in all?",
    "how many {do} {s} have in all?",
    "how many {do} {s} have at the end?",
    "how many {many} {do} {s} have at the end?",
    "how many {many} {do} {s} end up with?",
    "now how many {many} {do} {s} have?",
    "so how many {many} {do} {s} have now?",
    "how many are there now?",
    "how many {many} are there now?",
    "how many {many} is that?",
    "how many is that?",
    "what is the total?",
    "what's the total now?",
    "how many now?",
    "how many {many} now?",
    "{Many} now?",
    "so, how many {many}?",
    "total?",
    "how many?",
    "how many {many}?",
    "how many {many} will {s} have?",
    "how many {many} {has} {s} got now?",
    "how many {has} {s} got?",
    "tell me how many {many} {s} {has} now.",
    "find how many {many} {s} {has}.",
    "find the number of {many} {s} {has} now.",
    "say how many {many} {s} {has} in the end.",
    "can you tell me how many {many} {s} {has} now?",
    "what is the number of {many} now?",
    "calculate how many {many} {s} {has} now.",
    "*work out how many {many} {s} {has} at the end.",
    "*after all that, how many {many} {do} {s} have?",
    "*what number of {many} {do} {s} have in the end?",
    "*how many {many} {do} {s} have after that?",
    "*in the end, how many {many} {do} {s} have?",
];
/// Asked where something was taken away last.
const LEFT: [&str; 26] = [
    "how many are left?",
    "how many are left?",
    "how many are left?",
    "how many {many} are left?",
    "how many {many} are left?",
    "how many {many} are left?",
    "how many remain?",
    "how many {many} remain?",
    "how many {do} {s} have left?",
    "how many {do} {s} have left?",
    "how many {many} {do} {s} have left?",
    "how many {many} {do} {s} have left?",
    "how many {many} does that leave?",
    "how many {do} {s} still have?",
    "how many {many} {do} {s} still have?",
    "how many {many} are still there?",
    "how many left?",
    "what is left?",
    "what's left?",
    "are there any left, and how many?",
    "{Many} left?",
    "how many {many} {do} {s} keep?",
    "how many {many} {has} {s} got left?",
    "*how many of the {many} remain?",
    "*how many of the {many} are left?",
    "*in the end, how many are left?",
];

/// The words of one story.
struct Scene {
    hero: Party,
    noun: Noun,
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

    fn opening(&self, teller: &mut Teller<'_>, n: i64) -> String {
        let tense = teller.tense;
        // "Tom picks 12 apples" begins a story as well as "Tom has 12 apples".
        if teller.chance(12) {
            if let Some((verb, template)) = self.verb(teller, "gain") {
                let count = teller.count(n, &self.noun);
                let mention = Mention { text: self.hero.first.clone(), plural: self.hero.plural };
                return self.clause(teller, &mention, verb, &template, &count, true).whole();
            }
        }
        let pattern = teller.pick(&OPENINGS);
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
    fn step(&mut self, teller: &mut Teller<'_>, step: Step, pronoun: bool) -> Clause {
        let amount = teller.amount(step, &self.noun, &self.hero.poss);
        let way = teller.rng.below(100);
        if way < 18 {
            if let Some(clause) = self.by_another(teller, step, &amount) {
                self.stranger = true;
                return clause;
            }
        } else if way < 30 {
            if let Some(clause) = self.by_itself(teller, step, &amount) {
                return clause;
            }
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
    fn steps(&mut self, teller: &mut Teller<'_>, steps: &[Step], pronoun: bool) -> Vec<Clause> {
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

    fn question(&self, teller: &mut Teller<'_>, story: &Story, pronoun: bool) -> String {
        let left = story.ends_in_loss() || (!story.only_gains() && teller.chance(20));
        let pattern = if left && teller.coin() { teller.pick(&LEFT) } else { teller.pick(&QUESTIONS) };
        self.asked(teller, pattern, pronoun)
    }

    fn asked(&self, teller: &mut Teller<'_>, pattern: &str, pronoun: bool) -> String {
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

    fn plainly(&mut self, teller: &mut Teller<'_>, story: &Story) -> String {
        let opening = capital(&self.opening(teller, story.first));
        let steps = self.steps(teller, &story.steps, false);
        let steps = teller.sentences(&steps);
        let question = self.question(teller, story, false);
        format!("{opening}. {steps}. {question}")
    }

    /// "Tom has 12 pens and buys 7 more."
    fn begun_with_the_first_step(&mut self, teller: &mut Teller<'_>, story: &Story) -> String {
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
    fn conditionally(&mut self, teller: &mut Teller<'_>, story: &Story) -> String {
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
    fn question_first(&mut self, teller: &mut Teller<'_>, story: &Story) -> String {
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
    fn in_short(&mut self, teller: &mut Teller<'_>, story: &Story) -> String {
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
