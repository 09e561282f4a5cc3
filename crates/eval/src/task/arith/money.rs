//! Stories of somebody's money: what is earned, spent and left.

use super::super::lexicon::{self, NounKind, a, capital};
use super::party::Party;
use super::story::{Step, Story};
use super::teller::Teller;
use super::words::{Tense, aux, have};

const VERBS: [(&str, [&str; 3]); 12] = [
    ("{get}", ["get", "gets", "got"]),
    ("{find}", ["find", "finds", "found"]),
    ("{earn}", ["earn", "earns", "earned"]),
    ("{win}", ["win", "wins", "won"]),
    ("{save}", ["save", "saves", "saved"]),
    ("{spend}", ["spend", "spends", "spent"]),
    ("{pay}", ["pay", "pays", "paid"]),
    ("{buy}", ["buy", "buys", "bought"]),
    ("{give}", ["give", "gives", "gave"]),
    ("{lose}", ["lose", "loses", "lost"]),
    ("{lend}", ["lend", "lends", "lent"]),
    ("{gives}", ["gives", "gives", "gave"]),
];

/// Tells of somebody's money.
pub(super) fn tell(teller: &mut Teller<'_>, story: &mut Story) -> String {
    let hero = loop {
        let hero = Party::draw(teller);
        if !hero.shop {
            break hero;
        }
    };
    let unit = *teller.rng.pick(&["dollars", "euros", "pounds", "coins", "cents"]);
    let (n, has) = (teller.number(story.first), have(teller.tense, hero.plural));
    let first = teller.pick(&[
        "{S} {has} {n} {u}",
        "{S} {has} {n} {u}",
        "{S} {has} {n} {u} in {poss} pocket",
        "{S} {has} got {n} {u}",
        "{S} {has} {n} {u} to spend",
        "*in {poss} pocket {S} {has} {n} {u}",
    ]);
    let first = if teller.tense == Tense::Past { first.replace(" got", "") } else { first.to_owned() };
    let first = first
        .replace("{S}", &hero.first)
        .replace("{has}", has)
        .replace("{n}", &n)
        .replace("{u}", unit)
        .replace("{poss}", &hero.poss);
    let mut sentences = vec![capital(&first)];
    let mut at = 0;
    while at < story.steps.len() {
        let run = story.steps[at..].iter().take(3).take_while(|step| !step.gains()).count();
        let clause = if run > 1 && teller.chance(35) {
            at += run;
            shopping(teller, &hero, &story.steps[at - run..at], unit)
        } else {
            at += 1;
            payment(teller, &hero, story.steps[at - 1], unit)
        };
        sentences.push(capital(&format!("{}{clause}", teller.before())));
    }
    let total = story.total();
    let word = if total == 1 { unit.trim_end_matches('s') } else { unit };
    story.endings = vec![format!("In the end there are {total} {unit}."), format!("That is {total} {word}.")];
    if total == 1 {
        story.endings.remove(0);
    }
    let mention = hero.mention(teller);
    let asked = if story.ends_in_loss() && teller.coin() {
        teller.pick(&[
            "how much is left?",
            "how much money is left?",
            "what's left?",
            "how much money {do} {s} have left?",
            "how many {u} are left?",
            "how many {u} {do} {s} have left?",
            "*how much of the money is left?",
        ])
    } else {
        teller.pick(&[
            "how much money {do} {s} have now?",
            "how much money {do} {s} have?",
            "how much {do} {s} have now?",
            "how many {u} {do} {s} have now?",
            "how many {u} {do} {s} have in the end?",
            "how much is that?",
            "*how much money {do} {s} have in the end?",
        ])
    };
    let asked = asked
        .replace("{do}", aux(Tense::Present, mention.plural))
        .replace("{s}", &mention.text)
        .replace("{u}", unit);
    format!("{}. {}", sentences.join(". "), capital(&asked))
}

fn payment(teller: &mut Teller<'_>, hero: &Party, step: Step, unit: &str) -> String {
    let mention = hero.mention(teller);
    let mut text = teller.draw(if step.gains() { "money/earn" } else { "money/spend" }).to_owned();
    let form = if teller.tense == Tense::Past { 2 } else { usize::from(!mention.plural) };
    for (mark, forms) in VERBS {
        text = text.replace(mark, forms[form]);
    }
    if text.contains("{t}") {
        text = text.replace("{t}", &bought(teller));
    }
    if text.contains("{x}") {
        let other = hero.other(teller);
        text = text.replace("{x}", &other);
    }
    let unit = if step.by == 1 { unit.trim_end_matches('s') } else { unit };
    text.replace("{s}", &mention.text)
        .replace("{o}", &hero.obj)
        .replace("{n}", &teller.number(step.by))
        .replace("{u}", unit)
}

/// "spends 13 on lunch, 8 on a ticket and 11 on a book".
fn shopping(teller: &mut Teller<'_>, hero: &Party, steps: &[Step], unit: &str) -> String {
    let mention = hero.mention(teller);
    let form = if teller.tense == Tense::Past { 2 } else { usize::from(!mention.plural) };
    let (verb, on) = if teller.coin() {
        (["spend", "spends", "spent"][form], "on")
    } else {
        (["pay", "pays", "paid"][form], "for")
    };
    let parts: Vec<String> =
        steps.iter().map(|step| format!("{} {on} {}", teller.number(step.by), bought(teller))).collect();
    let (last, rest) = parts.split_last().map_or(("", &[][..]), |(last, rest)| (last.as_str(), rest));
    let text = format!("{} {verb} {} and {last}", mention.text, rest.join(", "));
    // The unit is said once, if at all.
    let first = teller.number(steps[0].by);
    let unit = if steps[0].by == 1 { unit.trim_end_matches('s') } else { unit };
    if teller.coin() {
        text.replacen(&format!("{first} {on}"), &format!("{first} {unit} {on}"), 1)
    } else {
        text
    }
}

/// What money is spent on.
fn bought(teller: &mut Teller<'_>) -> String {
    const USUAL: [&str; 10] = [
        "lunch",
        "a book",
        "a ticket",
        "food",
        "a bus ticket",
        "shoes",
        "a present",
        "dinner",
        "a game",
        "a hat",
    ];
    if teller.coin() {
        return (*teller.rng.pick::<&str>(&USUAL)).to_owned();
    }
    a(&lexicon::noun(teller.rng, teller.wording, &[NounKind::Thing, NounKind::Food]).one)
}
