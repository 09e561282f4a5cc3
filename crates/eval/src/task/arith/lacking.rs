//! Problems of one subtraction or addition that no chain of events tells: what is missing, what was taken, who is older.

use super::super::lexicon::{self, NounKind, capital};
use super::party::Party;
use super::story::{Op, Story};
use super::teller::Teller;

/// `{A}` less `{B}`. `{S}`: the hero, `{s}`: again, `{x}`: somebody else, `{many}`: things, `{people}`: people.
const LESS: [&str; 59] = [
    "{S} needs {A} {many}. {Sub} already has {B}. How many more does {s} need?",
    "{S} needs {A} {many} and has {B}. How many more must {s} buy?",
    "{S} needs {A} {many} but has only {B}. How many {many} are missing?",
    "{S} wants {A} {many} but has only {B}. How many more does {s} need?",
    "{S} wants to collect {A} {many}. {Sub} has {B}. How many are missing?",
    "{S} has {B} {many} and needs {A}. How many more does {s} need?",
    "{S} has {B} {many}. How many more does {s} need to have {A}?",
    "How many more {many} does {S} need if {s} has {B} and wants {A}?",
    "There were {A} birds in a tree, some flew off and {B} stayed. How many flew off?",
    "There were {A} {people} in a room. Some left and {B} stayed. How many left?",
    "There were {A} {people} at a party. Now there are {B}. How many went home?",
    "There were {A} {many} in a box. Now there are only {B}. How many were taken?",
    "There were {A} {many} on the table. After lunch {B} were left. How many were taken?",
    "There are {A} {people} on a bus. {B} of them are sitting. How many are standing?",
    "There are {A} {people} in a class. {B} are girls. How many are boys?",
    "There are {A} {many} in a box. {B} are red and the rest are blue. How many are blue?",
    "{B} of the {A} {many} are broken. How many are not broken?",
    "{B} of {A} {people} are sick. How many are not sick?",
    "Our class has {A} {people}. {B} are sick today. How many are here?",
    "Out of {A} {many}, {B} are sold. How many are not sold?",
    "Of {A} {many}, {B} are red. How many are not red?",
    "{S} had {A} {many}. {Sub} gave some away and now has {B}. How many did {s} give away?",
    "{S} had {A} {many}. {Sub} lost some and now has {B}. How many did {s} lose?",
    "{S} had {A} {many}. Now {s} has {B}. How many did {s} lose?",
    "{S} had {A} {many} and sold some. Now {s} has {B} left. How many did {s} sell?",
    "{S} had {B} {many}. {Sub} bought some more and now has {A}. How many did {s} buy?",
    "{S} had {B} {many}. Now {s} has {A}. How many did {s} get?",
    "{S} had {B} {many} and found some more. Now {s} has {A}. How many did {s} find?",
    "{S} gave {B} of {poss} {A} {many} to {x}. How many does {s} have left?",
    "{S} gave {B} of {poss} {A} {many} to {x}. How many did {s} keep?",
    "{S} sold {B} of {poss} {A} {many}. How many are left?",
    "{S} lost {B} of {poss} {A} {many}. How many {many} does {s} still have?",
    "{S} gives {x} {B} of {poss} {A} {many}. How many remain?",
    "{S} used {B} out of {A} {many}. How many are left?",
    "{x} takes {B} of {whose} {A} {many}. How many {many} does {S} have now?",
    "From {A} {many}, {B} are taken away. How many are left?",
    "A school ordered {A} {many}. {B} arrived. How many are missing?",
    "A shop ordered {A} {many} and {B} came on Monday. How many are still missing?",
    "{S} has read {B} of {A} pages. How many pages are left?",
    "A book has {A} pages. {S} has read {B}. How many pages are left?",
    "{S} is {A} years old. {X} is {B} years younger. How old is {x}?",
    "{S} is {A} years old and {x} is {B} years younger. How old is {x}?",
    "{S} is {A}. {X} is {B}. How many years older is {S}?",
    "{S} is {A} years old. How old was {s} {B} years ago?",
    "{X} is {A} years old and {S} is {B}. What is the difference?",
    "The red team has {A} points, the blue team {B}. By how many points did red win?",
    "The red team got {A} points and the blue team got {B}. How many more did the red team get?",
    "{S} scored {A} points and {x} scored {B}. By how many points did {S} win?",
    "Yesterday {S} read {A} pages and today {s} read {B} fewer. How many pages did {s} read today?",
    "{S} picked {A} {many}. {X} picked {B} fewer. How many did {x} pick?",
    "{S} paid with {A} dollars for something that costs {B} dollars. How much does {s} get back?",
    "Something costs {A} dollars. {S} has {B}. How many dollars are missing?",
    "A rope is {A} metres long and another is {B} metres long. How much longer is the first?",
    "A shop had {A} {many} and sold {B}. How many did it not sell?",
    "*{S} needs {A} {many}, and {B} are there. How many are missing?",
    "*Of {poss} {A} {many} {S} sold {B}. How many does {s} still have?",
    "*There were {A} {many}, and now there are {B}. How many are gone?",
    "*{A} {people} wanted to come, but {B} are sick. How many came?",
    "*Only {B} of {A} {many} are left. How many were taken?",
];
/// `{A}` and `{B}`.
const MORE: [&str; 22] = [
    "{S} is {A} years old. {X} is {B} years older. How old is {x}?",
    "{S} is {A} years old and {x} is {B} years older. How old is {x}?",
    "{S} is {A} years old. How old will {s} be in {B} years?",
    "How old will {S} be in {B} years if {s} is {A} now?",
    "{S} is {A}. How old will {s} be in {B} years?",
    "{S} gave {B} {many} to {x} and has {A} left. How many did {s} have at first?",
    "{S} lost {B} {many} and has {A} left. How many did {s} have before?",
    "{S} ate {B} cookies and {A} are left. How many were there at first?",
    "After {S} sold {B} {many}, {s} had {A} left. How many did {s} have at first?",
    "{S} picked {A} {many}. {X} picked {B} more. How many did {x} pick?",
    "Yesterday {S} read {A} pages and today {s} read {B} more than that. How many pages did {s} read today?",
    "{S} scored {A} points and {x} scored {B} more. How many points did {x} score?",
    "One parcel weighs {A} kilos and another weighs {B} kilos. What is the total weight?",
    "What is the total weight if one bag is {A} kilos and another one is {B} kilos?",
    "A hat costs {A} dollars and a scarf costs {B} dollars. How much do they cost together?",
    "{S} pays {A} dollars for a book and {B} for a pen. How much is that in total?",
    "The red team has {B} points more than the blue team, which has {A}. How many points does the red team have?",
    "The first wagon has {A} {many} and the second has {B}. How many {many} is that?",
    "{A} {people} came by bus and {B} by train. How many {people} came?",
    "*A cake costs {A} euros, a drink costs {B} euros. What do you pay?",
    "*{S}, who is {A}, has a sister who is {B} years older. How old is the sister?",
    "*In {B} years, how old will {S} be, who is {A} now?",
];

/// Tells the only step of the story.
pub(super) fn tell(teller: &mut Teller<'_>, story: &mut Story) -> String {
    let step = story.steps[0];
    let total = story.total();
    story.endings = vec![format!("The result is {total}."), format!("It is {total}.")];
    let pattern = teller.pick(if step.op == Op::Plus { &MORE[..] } else { &LESS[..] });
    let hero = Party::person(&lexicon::name(teller.rng, teller.wording));
    let noun = lexicon::noun(teller.rng, teller.wording, &[NounKind::Thing, NounKind::Thing, NounKind::Food]);
    let people = match teller.chance(60) {
        true => {
            (*teller.rng.pick(&["people", "children", "students", "kids", "guests", "pupils"])).to_owned()
        }
        false => lexicon::noun(teller.rng, teller.wording, &[NounKind::Person]).many,
    };
    let other = loop {
        let other = lexicon::name(teller.rng, teller.wording).text;
        if other != hero.first {
            break other;
        }
    };
    let other = if teller.chance(40) {
        format!(
            "{} {}",
            hero.poss,
            teller.pick(&["brother", "sister", "friend", "cousin", "mother", "*little sister"])
        )
    } else {
        other
    };
    // A singular "they" would need other verbs: the name is said again.
    let again = if hero.sub_plural || teller.chance(35) { hero.again.clone() } else { hero.sub.clone() };
    let text = pattern
        .replace("{S}", &hero.first)
        .replace("{Sub}", &capital(&again))
        .replace("{s}", &again)
        .replace("{poss}", &hero.poss)
        .replace("{whose}", &hero.whose)
        .replace("{x}", &other)
        .replace("{X}", &capital(&other))
        .replace("{many}", &noun.many)
        .replace("{people}", &people)
        .replace("{A}", &teller.number(story.first))
        .replace("{B}", &teller.number(step.by));
    let singular = |text: String| {
        text.replace(" 1 years", " 1 year")
            .replace(" 1 dollars", " 1 dollar")
            .replace(" 1 points", " 1 point")
    };
    capital(&singular(text))
}
