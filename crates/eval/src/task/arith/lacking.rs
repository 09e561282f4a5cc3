//! Problems of one subtraction or addition that no chain of events tells: what is missing, what was taken, who is older.

use super::super::lexicon::{self, NounKind, capital};
use super::party::Party;
use super::story::{Op, Story};
use super::teller::Teller;

/// Tells the only step of the story.
pub(super) fn tell(teller: &mut Teller<'_>, story: &mut Story) -> String {
    let step = story.steps[0];
    let total = story.total();
    story.endings = vec![format!("The result is {total}."), format!("It is {total}.")];
    let pattern = teller.draw(if step.op == Op::Plus { "lacking/more" } else { "lacking/less" });
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
