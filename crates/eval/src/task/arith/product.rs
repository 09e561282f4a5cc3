//! Problems of equal groups: "There are 3 boxes with 4 pens each. How many pens are there?", with steps after it or none.

use super::super::lexicon::{self, Noun, NounKind, capital};
use super::party::Party;
use super::story::Story;
use super::teller::Teller;
use super::words::{Tense, have};

const KINDS: [NounKind; 5] =
    [NounKind::Thing, NounKind::Thing, NounKind::Thing, NounKind::Food, NounKind::Food];
const GROUPS: [(&str, &str); 16] = [
    ("box", "boxes"),
    ("bag", "bags"),
    ("basket", "baskets"),
    ("jar", "jars"),
    ("shelf", "shelves"),
    ("pack", "packs"),
    ("tray", "trays"),
    ("plate", "plates"),
    ("row", "rows"),
    ("table", "tables"),
    ("drawer", "drawers"),
    ("packet", "packets"),
    ("crate", "crates"),
    ("pile", "piles"),
    ("bucket", "buckets"),
    ("bowl", "bowls"),
];

/// Tells of equal groups, and what happens after; returns the prompt and what the key needs beside the chain.
pub(super) fn tell(teller: &mut Teller<'_>, story: &mut Story) -> (String, String) {
    teller.tense = Tense::Present;
    let noun = lexicon::noun(teller.rng, teller.wording, &KINDS);
    let total = story.total();
    let word = if total == 1 { &noun.one } else { &noun.many };
    let are = if total == 1 { "is" } else { "are" };
    story.endings =
        vec![format!("So there {are} {total} {word}."), format!("In the end there {are} {total} {word}.")];
    let content = noun.one.clone();
    if story.steps.len() == 1 && teller.chance(18) {
        return (priced(teller, story), content);
    }
    let hero = Party::draw(teller);
    let (group, groups) = *teller.rng.pick(&GROUPS);
    let (g, e) = (teller.number(story.first), teller.number(story.steps[0].by));
    let told = teller
        .draw("product/told")
        .replace("{S}", &hero.first)
        .replace("{has}", have(Tense::Present, hero.plural))
        .replace("{groups}", groups)
        .replace("{group}", group)
        .replace("{g}", &g)
        .replace("{e}", &e)
        .replace("{many}", &noun.many);
    let question = teller.draw("product/asked").replace("{many}", &noun.many);
    if story.steps.len() == 1 {
        let prompt = match teller.rng.below(12) {
            0 => format!("How many {} are in {g} {groups} if each {group} has {e}?", noun.many),
            1 => format!("How many {} are there in {g} {groups} of {e}?", noun.many),
            2 if !told.contains('.') => format!("If {told}, {question}"),
            _ => format!("{}. {}", capital(&told), capital(&question)),
        };
        return (prompt, content);
    }
    let mut told = format!("{}.", capital(&told));
    for step in story.steps[1..].iter() {
        told += &format!(" {}.", capital(&after(teller, *step, &noun)));
    }
    let question = if story.ends_in_loss() && teller.coin() {
        teller
            .pick(&[
                "How many are left?",
                "How many {many} are left?",
                "How many remain?",
                "How many {many} remain?",
                "*How many of the {many} are left?",
            ])
            .replace("{many}", &noun.many)
    } else {
        teller
            .pick(&[
                "How many {many} are there now?",
                "How many are there now?",
                "How many {many} are there in the end?",
                "How many {many} is that?",
                "What is the total now?",
                "*Work out how many {many} there are now.",
            ])
            .replace("{many}", &noun.many)
    };
    (format!("{told} {question}"), content)
}

/// Something that happens to the things of a heap.
pub(super) fn after(teller: &mut Teller<'_>, step: super::story::Step, noun: &Noun) -> String {
    let amount = teller.amount(step, noun, "the");
    after_amount(teller, step, &amount)
}

/// The same with the amount in words.
pub(super) fn after_amount(teller: &mut Teller<'_>, step: super::story::Step, amount: &str) -> String {
    let be = if step.by == 1 { "is" } else { "are" };
    let patterns: &[&str] = if step.gains() {
        &[
            "{o} {be} added",
            "then {o} {be} added",
            "someone adds {o}",
            "I add {o}",
            "we get {o}",
            "{o} {be} bought",
            "then {o} come",
        ]
    } else {
        &[
            "{o} {be} taken away",
            "then {o} {be} taken",
            "someone takes {o}",
            "I use {o}",
            "{o} {be} lost",
            "{o} {be} sold",
            "then {o} {be} given away",
            "we remove {o}",
        ]
    };
    let pattern =
        teller.pick(patterns).replace("{o} come", if step.by == 1 { "{o} comes" } else { "{o} come" });
    pattern.replace("{o}", amount).replace("{be}", be)
}

/// "A pen costs 4 dollars. How much do 3 pens cost?", "Tom reads 4 pages a day for 3 days."
fn priced(teller: &mut Teller<'_>, story: &mut Story) -> String {
    let (g, e) = (teller.number(story.first), teller.number(story.steps[0].by));
    let total = story.total();
    let noun = lexicon::noun(teller.rng, teller.wording, &KINDS);
    if teller.coin() {
        let money = *teller.rng.pick(&["dollars", "euros", "coins", "pounds"]);
        story.endings = vec![format!("It costs {total} {money}."), format!("The price is {total} {money}.")];
        let one = capital(&lexicon::a(&noun.one));
        return match teller.rng.below(4) {
            0 => format!("{one} costs {e} {money}. How much do {g} {} cost?", noun.many),
            1 => format!("One {} costs {e} {money}. How many {money} do {g} {} cost?", noun.one, noun.many),
            2 => format!("How much do {g} {} cost if each costs {e} {money}?", noun.many),
            _ => format!("Each {} costs {e} {money}. What do {g} {} cost?", noun.one, noun.many),
        };
    }
    let hero = Party::draw(teller);
    let (verb, things) = *teller.rng.pick(&[
        ("read", "pages"),
        ("walk", "miles"),
        ("write", "letters"),
        ("make", "toys"),
        ("eat", "apples"),
        ("run", "laps"),
    ]);
    let time = *teller.rng.pick(&[("day", "days"), ("week", "weeks"), ("hour", "hours")]);
    let does = if hero.plural { verb.to_owned() } else { format!("{verb}s") };
    story.endings = vec![format!("In total that is {total} {things}."), format!("That is {total} {things}.")];
    let told = format!(
        "{} {does} {e} {things} {} {} for {g} {}",
        hero.opening(),
        teller.rng.pick(&["every", "each", "a"]).to_owned(),
        time.0,
        time.1
    )
    .replace("a hour", "an hour");
    let question = teller.pick(&[
        "How many {t} is that?",
        "How many {t} is that in total?",
        "How many {t} in all?",
        "What is the total?",
        "*What number of {t} is that?",
    ]);
    format!("{told}. {}", question.replace("{t}", things))
}
