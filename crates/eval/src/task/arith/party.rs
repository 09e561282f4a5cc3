//! The hero of a story, how they are mentioned again, and the other people around.

use super::super::lexicon::{self, Name, capital};
use super::teller::Teller;

/// Somebody or something that has things.
#[derive(Clone, Debug)]
pub(super) struct Party {
    /// "A farmer", at first.
    pub(super) first: String,
    /// "the farmer", from then on.
    pub(super) again: String,
    /// "she".
    pub(super) sub: String,
    /// "her".
    pub(super) obj: String,
    /// "her", as in "her brother".
    pub(super) poss: String,
    /// "Tom's".
    pub(super) whose: String,
    /// Whether the verb after `first` and `again` is a plural one.
    pub(super) plural: bool,
    /// Whether the verb after `sub` is a plural one.
    pub(super) sub_plural: bool,
    /// Whether it is a shop or the like.
    pub(super) shop: bool,
}

/// A party as a sentence names it.
pub(super) struct Mention {
    pub(super) text: String,
    pub(super) plural: bool,
}

impl Party {
    /// A named person.
    pub(super) fn person(name: &Name) -> Self {
        let (text, pronoun) = (&name.text, name.pronoun);
        let forms = [pronoun.subject(), pronoun.object(), pronoun.possessive()];
        Self::new(text, text, forms, pronoun.plural())
    }

    fn new(first: &str, again: &str, [sub, obj, poss]: [&str; 3], sub_plural: bool) -> Self {
        let whose = if again.ends_with('s') { format!("{again}'") } else { format!("{again}'s") };
        let [sub, obj, poss] = [sub, obj, poss].map(str::to_owned);
        Self {
            first: first.into(),
            again: again.into(),
            sub,
            obj,
            poss,
            whose,
            plural: false,
            sub_plural,
            shop: false,
        }
    }

    /// I, you or we.
    fn speaker([sub, obj, poss]: [&str; 3]) -> Self {
        let mut party = Self::new(sub, sub, [sub, obj, poss], true);
        party.whose = poss.into();
        party.plural = true;
        party
    }

    /// Somebody who is called by what they are: "a farmer", then "the farmer".
    fn role(phrase: &str, forms: [&str; 3]) -> Self {
        let again = phrase.strip_prefix("a ").map_or(phrase.to_owned(), |rest| format!("the {rest}"));
        Self::new(phrase, &again, forms, forms[0] == "they")
    }

    /// Anybody who may have things.
    pub(super) fn draw(teller: &mut Teller<'_>) -> Self {
        const SHE: [&str; 3] = ["she", "her", "her"];
        const HE: [&str; 3] = ["he", "him", "his"];
        match teller.rng.below(100) {
            0..60 => Self::person(&lexicon::name(teller.rng, teller.wording)),
            60..72 => Self::speaker(["I", "me", "my"]),
            72..75 => Self::speaker(["you", "you", "your"]),
            75..79 => Self::speaker(["we", "us", "our"]),
            79..83 => Self::role(teller.draw("party/women"), SHE),
            83..87 => Self::role(teller.draw("party/men"), HE),
            87..91 => {
                let role = teller.draw("party/roles");
                Self::role(role, *teller.rng.pick(&[SHE, HE, ["they", "them", "their"]]))
            }
            _ => {
                let mut shop = Self::role(teller.draw("party/shops"), ["it", "it", "its"]);
                shop.shop = true;
                shop
            }
        }
    }

    pub(super) fn named(&self) -> Mention {
        Mention { text: self.again.clone(), plural: self.plural }
    }

    pub(super) fn pronoun(&self) -> Mention {
        Mention { text: self.sub.clone(), plural: self.sub_plural }
    }

    /// By name or by pronoun.
    pub(super) fn mention(&self, teller: &mut Teller<'_>) -> Mention {
        if teller.chance(45) { self.named() } else { self.pronoun() }
    }

    /// Somebody else, as a sentence about this party names them.
    pub(super) fn other(&self, teller: &mut Teller<'_>) -> String {
        if self.shop {
            return teller.draw("party/customers").to_owned();
        }
        match teller.rng.below(10) {
            0..5 => loop {
                let name = lexicon::name(teller.rng, teller.wording).text;
                if name != self.first {
                    return name;
                }
            },
            5..8 => format!("{} {}", self.poss, teller.draw("party/relatives")),
            _ => teller.draw("party/strangers").to_owned(),
        }
    }

    /// Whom others give things to: "her" or "Ann"; a shop is always named.
    pub(super) fn object(&self, teller: &mut Teller<'_>) -> String {
        let speaker = self.plural;
        if !speaker && (self.shop || teller.chance(35)) { self.again.clone() } else { self.obj.clone() }
    }

    /// The party at the head of a sentence.
    pub(super) fn opening(&self) -> String {
        capital(&self.first)
    }
}
