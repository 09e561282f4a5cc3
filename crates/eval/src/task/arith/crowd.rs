//! Stories of things at a place: "There are 18 birds in a tree. 12 of them fly away. How many are left?"

use super::super::lexicon::{self, Noun, NounKind, capital};
use super::owner::{happening, uncapital};
use super::party::Party;
use super::story::{Step, Story};
use super::teller::{Clause, Teller};
use super::words::{PLACES, Tense, be, have};

struct Scene {
    kind: &'static str,
    noun: Noun,
    /// "in a tree".
    first: String,
    /// "in the tree".
    again: String,
}

const SCENES: [(&str, &[NounKind]); 12] = [
    ("bird", &[NounKind::Bird]),
    ("bird", &[NounKind::Bird]),
    ("animal", &[NounKind::Animal, NounKind::Animal, NounKind::Bird]),
    ("ride", &[NounKind::Person]),
    ("ride", &[NounKind::Person]),
    ("person", &[NounKind::Person]),
    ("person", &[NounKind::Person]),
    ("vehicle", &[NounKind::Vehicle]),
    ("thing", &[NounKind::Thing]),
    ("thing", &[NounKind::Thing]),
    ("food", &[NounKind::Food]),
    ("plant", &[NounKind::Plant]),
];

/// Tells the story and gives it its endings.
pub(super) fn tell(teller: &mut Teller<'_>, story: &mut Story) -> String {
    let (kind, kinds) = *teller.rng.pick(&SCENES);
    let mut noun = lexicon::noun(teller.rng, teller.wording, kinds);
    // The commonest words of all are commoner than a draw among hundreds makes them.
    let common = match kind {
        "ride" => Some(*teller.rng.pick(&[("passenger", "passengers"), ("person", "people")])),
        "person" => Some(*teller.rng.pick(&[
            ("person", "people"),
            ("child", "children"),
            ("student", "students"),
            ("guest", "guests"),
        ])),
        "bird" => Some(("bird", "birds")),
        "vehicle" => Some(("car", "cars")),
        _ => None,
    };
    if let Some((one, many)) = common.filter(|_| teller.chance(40)) {
        noun = Noun { one: one.into(), many: many.into(), ..noun };
    }
    let places = PLACES.iter().find(|(of, _)| of == kind).map_or(&[][..], |(_, places)| places);
    let place = teller.rng.pick(places).clone();
    let definite = place.replacen(" a ", " the ", 1).replacen(" an ", " the ", 1);
    let first = if teller.chance(25) { definite.clone() } else { place };
    let scene = Scene { kind, noun, first, again: definite };
    story.endings = scene.endings(story.total());
    match teller.rng.below(100) {
        0..78 => scene.plainly(teller, story),
        78..86 => scene.conditionally(teller, story),
        86..92 => scene.in_short(teller, story),
        _ => scene.in_one(teller, story),
    }
}

impl Scene {
    fn endings(&self, total: i64) -> Vec<String> {
        let noun = if total == 1 { &self.noun.one } else { &self.noun.many };
        let are = be(Tense::Present, total != 1);
        vec![
            format!("In the end there {are} {total} {noun}."),
            format!("So there {are} {total} {noun} {} now.", self.again),
            format!("There {are} {total} {noun}."),
        ]
    }

    /// "the tree" of "in the tree".
    fn place(&self, phrase: &str) -> String {
        phrase.split_once(' ').map_or(phrase, |(_, place)| place).to_owned()
    }

    fn opening(&self, teller: &mut Teller<'_>, n: i64) -> String {
        let tense = teller.tense;
        let alive = ["bird", "animal", "ride", "person"].contains(&self.kind);
        let pattern = if alive && teller.chance(20) {
            teller.draw("crowd/busy")
        } else {
            teller.draw("crowd/openings")
        };
        let verb = |base: &str, third: &str, past: &str| match (tense, n == 1) {
            (Tense::Past, _) => past.to_owned(),
            (_, true) => third.to_owned(),
            (_, false) => base.to_owned(),
        };
        let count = teller.count(n, &self.noun);
        pattern
            .replace("{are}", be(tense, n != 1))
            .replace("{has}", have(tense, false))
            .replace("{see}", if tense == Tense::Past { "saw" } else { "see" })
            .replace("{sit}", &verb("sit", "sits", "sat"))
            .replace("{wait}", &verb("wait", "waits", "waited"))
            .replace("{rest}", &verb("rest", "rests", "rested"))
            .replace("{live}", &verb("live", "lives", "lived"))
            .replace("{holds}", if tense == Tense::Past { "held" } else { "holds" })
            .replace("{contains}", if tense == Tense::Past { "contained" } else { "contains" })
            .replace("{c}", &count)
            .replace("{in}", &self.first)
            .replace("{place}", &self.place(&self.first))
    }

    fn step(&self, teller: &mut Teller<'_>, step: Step) -> Clause {
        let objects = ["thing", "food"].contains(&self.kind);
        if objects && teller.chance(35) {
            return self.by_somebody(teller, step);
        }
        let amount = teller.amount(step, &self.noun, "the");
        let kind = if self.noun.one == "balloon" && !step.gains() && teller.chance(60) {
            "balloon"
        } else {
            self.kind
        };
        loop {
            if let Some(clause) = happening(teller, kind, step, &amount, &[]) {
                return clause;
            }
        }
    }

    /// "Ann puts in 4 more", "I take out 3".
    fn by_somebody(&self, teller: &mut Teller<'_>, step: Step) -> Clause {
        let mut hero = Party::draw(teller);
        if teller.chance(20) {
            hero.first = teller
                .pick(&[
                    "the children",
                    "customers",
                    "the workers",
                    "some kids",
                    "visitors",
                    "two friends",
                    "*some students",
                ])
                .to_owned();
            hero.plural = true;
        } else if teller.chance(12) {
            hero.first = teller
                .pick(&["the janitor", "the guard", "the cook", "a fox", "a dog", "the wind", "*a thief"])
                .to_owned();
            hero.plural = false;
        }
        let amount = teller.amount(step, &self.noun, "the");
        let templates: &[&str] = match (step.gains(), self.kind) {
            (true, _) => &["{add} {o}", "{put} in {o}", "{put} {o} {in}", "{bring} {o}", "{put} back {o}"],
            (false, "food") => {
                &["{take} {o}", "{take} out {o}", "{eat} {o}", "{eat} {o}", "{remove} {o}", "{use} {o}"]
            }
            _ => &[
                "{take} {o}",
                "{take} out {o}",
                "{take} {o} away",
                "{remove} {o}",
                "{use} {o}",
                "{borrow} {o}",
                "{break} {o}",
            ],
        };
        let verbs = [
            ("{add}", ["add", "adds", "added"]),
            ("{put}", ["put", "puts", "put"]),
            ("{bring}", ["bring", "brings", "brought"]),
            ("{take}", ["take", "takes", "took"]),
            ("{eat}", ["eat", "eats", "ate"]),
            ("{remove}", ["remove", "removes", "removed"]),
            ("{use}", ["use", "uses", "used"]),
            ("{borrow}", ["borrow", "borrows", "borrowed"]),
            ("{break}", ["break", "breaks", "broke"]),
        ];
        let form = if teller.tense == Tense::Past { 2 } else { usize::from(!hero.plural) };
        let mut predicate = teller.pick(templates).to_owned();
        for (mark, forms) in verbs {
            predicate = predicate.replace(mark, forms[form]);
        }
        let there = self.again.clone();
        // The room "on the table" is no "in it".
        let predicate =
            if self.again.starts_with("on") { predicate.replace(" in {o}", " down {o}") } else { predicate };
        let predicate = predicate.replace("{o}", &amount).replace("{in}", &there);
        Clause {
            subject: hero.first,
            predicate,
            own: false,
            plural: hero.plural,
            timed: false,
            gains: step.gains(),
        }
    }

    fn steps(&self, teller: &mut Teller<'_>, steps: &[Step]) -> Vec<Clause> {
        let mut clauses = Vec::new();
        let mut at = 0;
        while at < steps.len() {
            let step = steps[at];
            let next = steps.get(at + 1).filter(|next| next.op == step.op && next.by > 1 && step.by > 1);
            let mut clause = self.step(teller, step);
            at += 1;
            if let Some(next) = next.filter(|_| teller.chance(15)) {
                let [one, two] = teller.twice();
                clause.predicate += &format!(" {one} and {} {two}", teller.number(next.by));
                clause.timed = true;
                at += 1;
            }
            clauses.push(clause);
        }
        clauses
    }

    fn question(&self, teller: &mut Teller<'_>, story: &Story) -> String {
        let pattern = if story.ends_in_loss() && teller.coin() {
            teller.draw("crowd/left")
        } else {
            teller.draw("crowd/questions")
        };
        let past = teller.tense == Tense::Past && !pattern.contains("now") && teller.chance(40);
        let pattern = if past { pattern.replace(" are ", " were ") } else { pattern.to_owned() };
        capital(&pattern)
            .replace("{there}", &self.again)
            .replace("{theplace}", &self.place(&self.again))
            .replace("{many}", &self.noun.many)
            .replace("{Many}", &capital(&self.noun.many))
    }

    fn plainly(&self, teller: &mut Teller<'_>, story: &Story) -> String {
        let opening = capital(&self.opening(teller, story.first));
        let steps = self.steps(teller, &story.steps);
        let steps = teller.sentences(&steps);
        format!("{opening}. {steps}. {}", self.question(teller, story))
    }

    /// "If there are 18 birds in a tree and 12 fly away, how many are left?"
    fn conditionally(&self, teller: &mut Teller<'_>, story: &Story) -> String {
        teller.tense = Tense::Present;
        let state = format!(
            "there {} {} {}",
            be(Tense::Present, story.first != 1),
            teller.count(story.first, &self.noun),
            self.first
        );
        let mut clauses = vec![Clause {
            subject: state,
            predicate: String::new(),
            own: false,
            plural: true,
            timed: false,
            gains: true,
        }];
        clauses.extend(self.steps(teller, &story.steps));
        let one = clauses.len().min(3);
        let told = teller.joined(&clauses[..one]).replace("  ", " ").replace(" ,", ",");
        let question = self.question(teller, story);
        if one < clauses.len() {
            let rest = teller.sentences(&clauses[one..]);
            return format!("{}. {rest}. {question}", capital(&told));
        }
        if teller.chance(25) {
            let asked = teller.pick(&[
                "How many {many} are there",
                "How many {many} are {there}",
                "How many {many} are left",
                "*What number of {many} are there",
            ]);
            let asked = if story.ends_in_loss() { asked } else { "How many {many} are there" };
            let asked = asked.replace("{many}", &self.noun.many).replace("{there}", &self.again);
            return format!("{asked} if {told}?");
        }
        let pattern = teller.pick(&[
            "If {told}, {q}",
            "If {told}, {q}",
            "If {told}, then {q}",
            "Suppose {told}. {Q}",
            "*Let's say {told}, {q}",
            "*Imagine {told}. {Q}",
        ]);
        pattern.replace("{told}", &told).replace("{q}", &uncapital(&question)).replace("{Q}", &question)
    }

    /// "40 fish in a pond, 13 leave, 6 come. Fish now?"
    fn in_short(&self, teller: &mut Teller<'_>, story: &Story) -> String {
        let count = teller.count(story.first, &self.noun);
        let place = teller.pick(&[&self.first, &self.first, &self.first, ""]).to_owned();
        let mut parts = vec![format!("{count} {place}").trim_end().to_owned()];
        for step in &story.steps {
            parts.push(self.step(teller, *step).whole());
        }
        let link = teller.pick(&[", ", ", ", ". ", ", then ", "; "]);
        let parts: Vec<String> =
            if link == ". " { parts.iter().map(|part| capital(part)).collect() } else { parts };
        format!("{}. {}", capital(&parts.join(link)), self.question(teller, story))
    }

    /// "18 birds are in a tree, 12 fly away, how many are left?"
    fn in_one(&self, teller: &mut Teller<'_>, story: &Story) -> String {
        let opening = capital(&self.opening(teller, story.first));
        let steps = self.steps(teller, &story.steps);
        let question = self.question(teller, story);
        if steps.len() > 3 {
            let steps = teller.sentences(&steps);
            return format!("{opening}. {steps}. {question}");
        }
        let told = teller.joined(&steps);
        match teller.rng.below(3) {
            0 => format!("{opening} and {told}. {question}"),
            1 => format!("{opening}, {told}. {question}"),
            _ => format!("{opening} and {told}, {}", uncapital(&question)),
        }
    }
}
