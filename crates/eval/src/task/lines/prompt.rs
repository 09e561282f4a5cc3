//! A prompt of the `lines` task: an order in some wording, a list in some layout, and a frame around both.

use std::sync::LazyLock;

use super::super::Rng;
use super::super::book::{Book, Pattern, closed, expand, fill};
use super::super::lexicon::{Wording, capital, untidy};
use super::items::{Items, Sort, block, inline};
use super::operation::Operation;

static ORDERS: LazyLock<Book> = LazyLock::new(|| Book::read(crate::task::wordings::text("lines/orders.txt")));
static FRAMES: LazyLock<Book> = LazyLock::new(|| Book::read(crate::task::wordings::text("lines/frames.txt")));

/// Tells the problem.
pub(super) fn tell(rng: &mut Rng, wording: Wording, items: &Items, operation: &Operation) -> String {
    // Commands are the commonest form; a story needs people and something that happens to them.
    let form = match rng.below(100) {
        0..54 => 'C',
        54..70 => 'Q',
        70..87 => 'I',
        _ => 'N',
    };
    let form = if has(operation.section, form, items.sort) { form } else { 'C' };
    let (b, c) =
        (by_place(rng, items, operation, &operation.b), by_place(rng, items, operation, &operation.c));
    let operation = &Operation { b, c, ..operation.clone() };
    let text = match form {
        'I' => {
            let pattern = order(rng, wording, operation, items.sort, form);
            let said = slots(rng, &pattern, items, operation, &References::default());
            place(rng, wording, &said, items, &[])
        }
        'N' => story(rng, wording, items, operation),
        _ => framed(rng, wording, items, operation, form),
    };
    // A letter alone is a word people write in either case: there it is part of the content.
    if items.sort == Sort::Letters { text } else { untidy(rng, text) }
}

/// Whether a tag is of the form and suits the items.
fn suits(tag: &str, form: char, sort: Sort) -> bool {
    let mut letters = tag.chars();
    letters.next() == Some(form)
        && match letters.next() {
            Some('p' | 'g') => sort == Sort::People,
            Some('w') => sort == Sort::Words,
            Some('a') => sort != Sort::Numbers,
            Some('n') => sort == Sort::Numbers,
            _ => true,
        }
}

/// Whether a section has an order of the form for such items.
fn has(section: &str, form: char, sort: Sort) -> bool {
    ORDERS.section(section).iter().any(|pattern| !pattern.fresh && suits(pattern.tag, form, sort))
}

/// An order in some wording, its slots open.
fn order(rng: &mut Rng, wording: Wording, operation: &Operation, sort: Sort, form: char) -> String {
    if let Some((first, then)) = operation.double {
        let part = |rng: &mut Rng, section: &str, wanted: &str| {
            let pattern = FRAMES.find(rng, wording, section, |tag| {
                tag == wanted || (sort != Sort::Numbers && tag.strip_suffix('a') == Some(wanted))
            });
            expand(rng, pattern.expect("every half of a double order has wordings").text)
        };
        let (x, y) = (part(rng, "double first", first), part(rng, "double then", then));
        return fill(&FRAMES.draw(rng, wording, "double"), &[("x", &x), ("y", &y)]);
    }
    let pattern = find(rng, wording, operation, sort, form);
    expand(rng, pattern.text)
}

fn find(rng: &mut Rng, wording: Wording, operation: &Operation, sort: Sort, form: char) -> Pattern {
    // The ends of a line have names of their own.
    let end = match (operation.section, operation.p.as_str(), rng.below(4)) {
        ("pick", "first", 0) => Some("pick first"),
        ("pick", "last", 0) => Some("pick last"),
        _ => None,
    };
    let section = end.filter(|section| has(section, form, sort)).unwrap_or(operation.section);
    let pattern = ORDERS.find(rng, wording, section, |tag| suits(tag, form, sort));
    pattern.expect("every section has a wording of the form")
}

/// A member as an order names it: now and then by its place, "the first one".
fn by_place(rng: &mut Rng, items: &Items, operation: &Operation, member: &String) -> String {
    let suited = matches!(operation.section, "remove" | "replace" | "swap" | "before" | "after");
    let at = items.list.iter().position(|item| item == member);
    let at = at.filter(|_| suited && rng.below(5) == 0);
    let title = match at {
        Some(0) => "first",
        Some(at) if at + 1 == items.list.len() => "last",
        Some(1) => "second",
        Some(2) => "third",
        _ => return member.clone(),
    };
    let thing = if items.thing == "name" || rng.coin() { "one" } else { items.thing.as_str() };
    format!("the {title} {thing}")
}

/// How an order refers to the list.
#[derive(Default)]
struct References {
    any: String,
    singular: String,
}

impl References {
    fn draw(rng: &mut Rng, items: &Items, before: bool) -> Self {
        let people = items.sort == Sort::People;
        let (mut singular, plural) = if before {
            (
                vec!["this list", "the list", "the following list", "this list", "this row"],
                vec!["these {things}", "these {things}", "the following {things}", "the {things}", "these"],
            )
        } else {
            (
                vec!["it", "the list", "this list", "that list", "the row"],
                vec!["them", "these {things}", "the {things}", "them"],
            )
        };
        if people {
            let lines: &[&str] = if before {
                &["this line", "the line", "this queue"]
            } else {
                &["the line", "the queue", "this line"]
            };
            singular.extend(lines);
        }
        let one = (*rng.pick::<&str>(&singular)).to_owned();
        let any = if rng.coin() { one.clone() } else { (*rng.pick::<&str>(&plural)).to_owned() };
        let named = |text: String| fill(&text, &[("things", &items.things)]);
        Self { any: named(any), singular: named(one) }
    }
}

/// Fills the slots of an order.
fn slots(
    rng: &mut Rng,
    pattern: &str,
    items: &Items,
    operation: &Operation,
    references: &References,
) -> String {
    let list = inline(rng, &items.list);
    // "Mix it up", and not "mix up it"; "in the list", and not "in them".
    let mut pattern = pattern.to_owned();
    if matches!(references.any.as_str(), "it" | "them" | "these") {
        for (verb, particle) in [("mix", "up"), ("write", "out"), ("write", "down"), ("copy", "out")] {
            pattern =
                pattern.replace(&format!("{verb} {particle} {{r}}"), &format!("{verb} {{r}} {particle}"));
        }
        for word in ["in", "of", "from", "off", "on", "to"] {
            pattern = pattern.replace(&format!(" {word} {{r}}"), &format!(" {word} the list"));
        }
    }
    fill(
        &pattern,
        &[
            ("r", &references.any),
            ("s", &references.singular),
            ("L", &list),
            ("a", &operation.a),
            ("b", &operation.b),
            ("c", &operation.c),
            ("p", &operation.p),
            ("thing", &items.thing),
            ("things", &items.things),
        ],
    )
}

/// A command or a question in a frame.
fn framed(rng: &mut Rng, wording: Wording, items: &Items, operation: &Operation, form: char) -> String {
    let before = rng.coin();
    let section = match (form, before) {
        ('Q', true) => "question before",
        ('Q', false) => "question after",
        (_, true) => "command before",
        (_, false) => "command after",
    };
    let references = References::draw(rng, items, before);
    let pattern = order(rng, wording, operation, items.sort, form);
    let said = slots(rng, &pattern, items, operation, &references);
    let people = items.sort == Sort::People;
    let frame = FRAMES.find(rng, wording, section, |tag| people || !tag.ends_with('p'));
    let frame = expand(rng, frame.expect("there are frames for every order").text);
    let large = capital(&said);
    place(rng, wording, &frame, items, &[("C", &large), ("c", &said), ("Q", &large), ("q", &said)])
}

/// Groups of people, with the word for being part of them; the last two are for fresh wording.
const GROUPS: [(&str, &str); 15] = [
    ("on", "the team"),
    ("on", "my team"),
    ("in", "the club"),
    ("in", "the group"),
    ("in", "the room"),
    ("on", "the bus"),
    ("in", "the band"),
    ("in", "the class"),
    ("in", "the car"),
    ("at", "the party"),
    ("at", "the table"),
    ("on", "the guest list"),
    ("on", "the list"),
    ("in", "the choir"),
    ("on", "the ferry"),
];

/// People in a line or a group, or things on a list; what happens, and what is asked.
fn story(rng: &mut Rng, wording: Wording, items: &Items, operation: &Operation) -> String {
    let pattern = find(rng, wording, operation, items.sort, 'N');
    let event = expand(rng, pattern.text);
    let event = capital(&slots(rng, &event, items, operation, &References::default()));
    let (frame, then) = match pattern.tag {
        "Ng" => ("group", "group then"),
        "Nw" => ("things", "things then"),
        _ => ("story", "then"),
    };
    let known = if wording == Wording::Fresh { GROUPS.len() } else { GROUPS.len() - 2 };
    let (within, group) = GROUPS[rng.below(known)];
    let named = [("i", within), ("G", group), ("I", &capital(within))];
    let asked = FRAMES.draw(rng, wording, then);
    let frame = FRAMES.draw(rng, wording, frame);
    let asked = fill(&asked, &named);
    place(
        rng,
        wording,
        &fill(&frame, &named),
        items,
        &[("N", &event), ("W", &asked), ("V", &asked), ("U", &asked)],
    )
}

/// Puts the list and what is said of it into a frame; a list over several lines goes where a line may break.
fn place(rng: &mut Rng, wording: Wording, frame: &str, items: &Items, said: &[(&str, &str)]) -> String {
    let mut frame = frame.replace("\\n", "\n");
    let mut list = block(rng, wording, &items.list);
    if list.starts_with('\n') {
        let breaks = [": {B}", "? {B}", "! {B}", ". {B}", "\n{B}"].iter().any(|place| frame.contains(place));
        if breaks || frame.starts_with("{B}") {
            for (from, to) in
                [(" {B}", "{B}"), ("\n{B}", "{B}"), ("{B}. ", "{B}\n"), ("{B}: {c}", "{B}\n{C}")]
            {
                frame = frame.replace(from, to);
            }
            for (from, to) in
                [("{B} - {c}", "{B}\n{C}"), ("{B}, {c}", "{B}\n{C}"), ("{B}.", "{B}"), ("{B}?", "{B}")]
            {
                frame = frame.replace(from, to);
            }
        } else {
            list = items.list.join(", ");
        }
    }
    let within = inline(rng, &items.list);
    let mut slots =
        vec![("B", list.as_str()), ("L", &within), ("T", &items.label), ("things", &items.things)];
    slots.extend(said);
    let text = closed(&fill(&frame, &slots));
    // No sentence opens with a small letter but a list of words may.
    if frame.starts_with("{B}") || frame.starts_with("{L}") {
        text.trim_start().to_owned()
    } else {
        capital(&text)
    }
}
