//! Problems about two or three heaps: how many together, how many more.

use super::super::lexicon::{self, Noun, NounKind, capital};
use super::party::Party;
use super::story::{Op, Step, Story};
use super::teller::Teller;
use super::words::{PLACES, Tense, be, have};

const KINDS: [NounKind; 8] = [
    NounKind::Thing,
    NounKind::Thing,
    NounKind::Thing,
    NounKind::Food,
    NounKind::Food,
    NounKind::Plant,
    NounKind::Animal,
    NounKind::Vehicle,
];
const COLOURS: [&str; 9] = ["red", "blue", "green", "yellow", "white", "black", "brown", "pink", "grey"];

/// Two or three heaps put together.
pub(super) fn together(teller: &mut Teller<'_>, story: &mut Story) -> String {
    let noun = lexicon::noun(teller.rng, teller.wording, &KINDS);
    if teller.chance(35) { heaps(teller, story, &noun) } else { people(teller, story, &noun) }
}

fn people(teller: &mut Teller<'_>, story: &mut Story, noun: &Noun) -> String {
    let counts: Vec<i64> = numbers(story);
    let mut parties: Vec<Party> =
        lexicon::names(teller.rng, teller.wording, counts.len()).iter().map(Party::person).collect();
    let speaker = teller.chance(12);
    if speaker {
        parties[0].first = "I".into();
        parties[0].plural = true;
        let relatives = ["my brother", "my sister", "my friend", "my mum", "my dad", "my cousin"];
        if teller.coin() {
            parties[1].first = teller.pick(&relatives).into();
        }
    }
    let total = story.total();
    let word = if total == 1 { &noun.one } else { &noun.many };
    let they = if speaker { "you" } else { "they" };
    story.endings = vec![
        format!("Together {they} have {total} {word}."),
        format!("In total {they} have {total} {word}."),
        format!("So {they} have {total} {word}."),
    ];
    let mut clauses: Vec<String> = Vec::new();
    for (at, (party, count)) in parties.iter().zip(&counts).enumerate() {
        let full = at == 0 || teller.coin();
        let amount = if full { teller.count(*count, noun) } else { teller.number(*count) };
        clauses.push(format!("{} {} {amount}", party.first, have(teller.tense, party.plural)));
    }
    if !speaker && teller.chance(10) {
        return labelled(teller, &parties, &counts, noun);
    }
    let told = list(teller, &clauses);
    let question = teller.draw("pairs/together").replace("{many}", &noun.many);
    let question = if speaker { question.replace("they", "we") } else { question };
    let names: Vec<&str> = parties.iter().map(|party| party.first.as_str()).collect();
    match teller.rng.below(10) {
        0 => format!("If {told}, {question}"),
        1 if !speaker => {
            let open = teller.pick(&[
                "How many {many} do {who} have together",
                "How many {many} do {who} have in total",
                "*What is the total of {who}",
            ]);
            let open = if open.starts_with("What") { "How many {many} do {who} have in all" } else { open };
            let who = and(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
            format!("{} if {told}?", open.replace("{many}", &noun.many).replace("{who}", &who))
        }
        _ => format!("{}. {}", capital(&told), capital(&question)),
    }
}

/// "Ann: 8 stamps. Ben: 13 stamps. Total?"
fn labelled(teller: &mut Teller<'_>, parties: &[Party], counts: &[i64], noun: &Noun) -> String {
    let amounts: Vec<(String, String)> = parties
        .iter()
        .zip(counts)
        .map(|(party, count)| (party.first.clone(), teller.count(*count, noun)))
        .collect();
    let with = |form: fn(&(String, String)) -> String| amounts.iter().map(form).collect::<Vec<_>>();
    let question = capital(
        &teller
            .pick(&[
                "total?",
                "how many together?",
                "how many in total?",
                "together?",
                "how many {many} in all?",
            ])
            .replace("{many}", &noun.many),
    );
    match teller.rng.below(4) {
        0 => format!("{}. {question}", with(|(who, amount)| format!("{who}: {amount}")).join(". ")),
        1 => format!("{}. {question}", with(|(who, amount)| format!("{who}: {amount}")).join(", ")),
        2 => format!(
            "{} have how many {} together?",
            and(&with(|(who, amount)| format!("{who} ({amount})"))),
            noun.many
        ),
        _ => format!("{}. {question}", with(|(who, amount)| format!("{amount} from {who}")).join(" and ")),
    }
}

/// "Ann has 21 apples and Ben has 8 fewer. How many do they have together?"
pub(super) fn changed(teller: &mut Teller<'_>, story: &mut Story) -> String {
    let noun = lexicon::noun(teller.rng, teller.wording, &KINDS);
    let people = lexicon::names(teller.rng, teller.wording, 2);
    let step = story.steps[0];
    let more = if step.op == Op::Plus { "more" } else { *teller.rng.pick(&["fewer", "fewer", "less"]) };
    let total = story.total();
    story.endings = vec![
        format!("Together they have {total} {}.", noun.many),
        format!("In total they have {total} {}.", noun.many),
    ];
    let told = teller.pick(&[
        "{a} has {c} and {b} has {n} {more}.",
        "{a} has {c}. {b} has {n} {more} than {a}.",
        "{a} has {c} and {b} has {n} {more} than {a}.",
        "{a} has {c}. {b} has {n} {more}.",
        "*{b} has {n} {more} than {a}, who has {c}.",
    ]);
    let start = teller.count(story.first, &noun);
    let told = told.replace("{c}", &start).replace("{n}", &teller.number(step.by)).replace("{more}", more);
    let told = told.replace("{a}", &people[0].text).replace("{b}", &people[1].text);
    let question = teller.pick(&[
        "How many {many} do they have together?",
        "How many do they have together?",
        "How many do they have in total?",
        "How many {many} do they have in all?",
        "How many {many} do both have together?",
        "*What do they have together?",
    ]);
    format!("{told} {}", question.replace("{many}", &noun.many))
}

/// "A farmer has 9 cows and 14 sheep. He sells 6 sheep. How many animals are left?"
pub(super) fn mixed(teller: &mut Teller<'_>, story: &mut Story) -> String {
    teller.tense = Tense::Present;
    let mut first = Story::new(story.first, story.steps[..1].to_vec());
    let noun = lexicon::noun(teller.rng, teller.wording, &KINDS);
    let told = heaps(teller, &mut first, &noun);
    // The heaps are told before their question.
    let heaps = told.split_once(". ").map_or(told.as_str(), |(heaps, _)| heaps).to_owned();
    let total = story.total();
    story.endings = vec![format!("In the end there are {total}."), format!("There are {total} in all.")];
    if total == 1 {
        story.endings.clear();
    }
    let step = story.steps[1];
    let amount = if step.gains() {
        teller.pick(&["{n} more", "{n} more", "another {n}"])
    } else {
        teller.pick(&["{n} of them", "{n} of them", "{n}"])
    };
    let amount = amount.replace("{n}", &teller.number(step.by));
    let change = super::product::after_amount(teller, step, &amount);
    let question = if story.ends_in_loss() {
        teller.pick(&[
            "How many are left?",
            "How many are left in total?",
            "How many remain?",
            "How many are there now?",
            "How many are left altogether?",
            "*In the end, how many are left?",
        ])
    } else {
        teller.pick(&[
            "How many are there now?",
            "How many are there in total now?",
            "How many is that in all?",
            "What is the total now?",
            "*In the end, how many are there?",
        ])
    };
    format!("{heaps}. {}. {question}", capital(&change))
}

/// "a and b", "a. b", "a, b and c".
fn list(teller: &mut Teller<'_>, clauses: &[String]) -> String {
    match teller.rng.below(6) {
        0 if clauses.len() == 2 => format!("{}, {}", clauses[0], clauses[1]),
        1 if clauses.len() == 2 => format!("{}, and {}", clauses[0], clauses[1]),
        2 if clauses.len() == 2 => format!("{} while {}", clauses[0], clauses[1]),
        _ => and(clauses),
    }
}

fn and(items: &[String]) -> String {
    match items.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        Some((last, _)) => last.clone(),
        None => String::new(),
    }
}

fn numbers(story: &Story) -> Vec<i64> {
    std::iter::once(story.first).chain(story.steps.iter().map(|step| step.by)).collect()
}

fn placed(teller: &mut Teller<'_>, kind: &str) -> String {
    let places = PLACES.iter().find(|(of, _)| of == kind).map_or(&[][..], |(_, places)| places);
    teller.rng.pick(places).clone()
}

/// Heaps before they are told: the parts of the list, what they are together, where they are.
struct Heaps {
    parts: Vec<String>,
    many: String,
    place: String,
    people: bool,
}

/// "5 red balls", "7 blue balls": one noun in several colours.
fn coloured(teller: &mut Teller<'_>, counts: &[i64], noun: &Noun) -> Vec<String> {
    let colours = teller.rng.sample(&COLOURS, counts.len());
    let short = teller.chance(40);
    let part = |(at, (count, colour)): (usize, (&i64, &str))| {
        let word = if *count == 1 { &noun.one } else { &noun.many };
        if short && at + 1 < counts.len() {
            format!("{} {colour}", teller.number(*count))
        } else {
            format!("{} {colour} {word}", teller.number(*count))
        }
    };
    counts.iter().zip(colours).enumerate().map(part).collect()
}

/// "12 boys", "14 girls": different nouns of one sort.
fn of_one_sort(teller: &mut Teller<'_>, counts: &[i64]) -> Heaps {
    let sorts: [(&str, NounKind); 4] = [
        ("people", NounKind::Person),
        ("animals", NounKind::Animal),
        ("vehicles", NounKind::Vehicle),
        ("things", NounKind::Thing),
    ];
    let (many, kind) = *teller.rng.pick(&sorts);
    let place = placed(
        teller,
        match kind {
            NounKind::Person => "person",
            NounKind::Animal => "animal",
            NounKind::Vehicle => "vehicle",
            _ => "thing",
        },
    );
    let mut found: Vec<Noun> = Vec::new();
    while found.len() < counts.len() {
        let next = lexicon::noun(teller.rng, teller.wording, &[kind]);
        if found.iter().all(|other| other.one != next.one) {
            found.push(next);
        }
    }
    let parts = counts.iter().zip(&found).map(|(count, noun)| teller.count(*count, noun)).collect();
    Heaps { parts, many: many.into(), place, people: kind == NounKind::Person }
}

/// How heaps are told, by what they are of.
fn heap_patterns(people: bool, anywhere: bool) -> &'static [&'static str] {
    match (people, anywhere) {
        // Nobody has nurses, and no pony stands on a desk.
        (true, _) => &[
            "There {are} {l} {in}.",
            "There {are} {l} {in}.",
            "There {are} {l}.",
            "{L} {are} {in}.",
            "*{In} there {are} {l}.",
        ],
        (_, false) => &["There {are} {l}.", "{hero} {has} {l}.", "{hero} {has} {l}.", "*I see {l}."],
        _ => &[
            "There {are} {l} {in}.",
            "There {are} {l} {in}.",
            "There {are} {l}.",
            "{hero} {has} {l}.",
            "{hero} {has} {l}.",
            "{Thing} {have} {l}.",
            "{L} {are} {in}.",
            "*I see {l} {in}.",
            "*{In} there {are} {l}.",
        ],
    }
}

/// "There are 12 boys and 14 girls in a class." "A box has 5 red balls and 7 blue balls."
fn heaps(teller: &mut Teller<'_>, story: &mut Story, noun: &Noun) -> String {
    let counts = numbers(story);
    // Drawn whether or not it is told: the order of draws is part of the task's version.
    let place = placed(teller, "thing");
    let Heaps { parts, many, place, people } = if teller.chance(50) {
        Heaps { parts: coloured(teller, &counts, noun), many: noun.many.clone(), place, people: false }
    } else {
        of_one_sort(teller, &counts)
    };
    let total = story.total();
    story.endings = vec![
        format!("In total there {} {total}.", be(Tense::Present, total != 1)),
        format!("There {} {total} in all.", be(Tense::Present, total != 1)),
    ];
    let listed = and(&parts);
    let hero = capital(&Party::draw(teller).first);
    let speaker = ["I", "You", "We"].contains(&hero.as_str());
    let has = have(teller.tense, speaker);
    let are = be(teller.tense, counts[0] != 1);
    let thing = place.split_once(' ').map_or("", |(_, thing)| thing);
    let anywhere = matches!(noun.kind, NounKind::Thing | NounKind::Food) || many != noun.many;
    let told = teller
        .pick(heap_patterns(people, anywhere))
        .replace("{are}", are)
        .replace("{l}", &listed)
        .replace("{L}", &capital(&listed))
        .replace("{hero}", &hero)
        .replace("{has}", has)
        .replace("{have}", have(teller.tense, false))
        .replace("{Thing}", &capital(thing))
        .replace("{in}", &place)
        .replace("{In}", &capital(&place));
    let question = teller.draw("pairs/heaps").replace("{many}", &many);
    format!("{told} {}", capital(&question))
}

/// How many more one has than the other, or how many one has who has so many more or fewer.
pub(super) fn difference(teller: &mut Teller<'_>, story: &mut Story) -> String {
    teller.tense = Tense::Present;
    let noun = lexicon::noun(teller.rng, teller.wording, &KINDS);
    let people = lexicon::names(teller.rng, teller.wording, 2);
    let (a, b) = (people[0].text.as_str(), people[1].text.as_str());
    if story.steps[0].op == Op::Plus || teller.chance(30) {
        return relative(teller, story, &noun, [a, b]);
    }
    let total = story.total();
    let word = if total == 1 { &noun.one } else { &noun.many };
    story.endings = vec![
        format!("So {a} has {total} more {word}."),
        format!("{a} has {total} more {word} than {b}."),
        format!("The difference is {total}."),
    ];
    let (large, small) = (story.first, story.steps[0].by);
    let pairs = if teller.chance(70) { [(a, large), (b, small)] } else { [(b, small), (a, large)] };
    let first = format!("{} has {}", pairs[0].0, teller.count(pairs[0].1, &noun));
    let amount = if teller.coin() { teller.count(pairs[1].1, &noun) } else { teller.number(pairs[1].1) };
    let link = teller.pick(&[" and", " and", ".", ", and", ",", " but", ", but", " while", "*, whereas"]);
    let told = format!("{first}{link} {} has {amount}", pairs[1].0);
    let question =
        teller.draw("pairs/more").replace("{a}", a).replace("{b}", b).replace("{many}", &noun.many);
    if !told.contains('.') && teller.chance(8) {
        return format!("If {told}, {question}");
    }
    format!("{told}. {}", capital(&question))
}

/// "Ann has 3 apples. Ben has 5 more than Ann. How many does Ben have?"
fn relative(teller: &mut Teller<'_>, story: &mut Story, noun: &Noun, [a, b]: [&str; 2]) -> String {
    let Step { op, by } = story.steps[0];
    let total = story.total();
    let word = if total == 1 { &noun.one } else { &noun.many };
    story.endings = vec![format!("So {b} has {total} {word}."), format!("{b} has {total} {word}.")];
    let more = if op == Op::Plus { "more" } else { *teller.rng.pick(&["fewer", "fewer", "less"]) };
    let amount = if teller.coin() {
        format!("{} {more}", teller.number(by))
    } else {
        format!("{} {more} {}", teller.number(by), if by == 1 { &noun.one } else { &noun.many })
    };
    let start = teller.count(story.first, noun);
    let told = teller.pick(&[
        "{a} has {c}. {b} has {m} than {a}.",
        "{a} has {c}. {b} has {m} than {a}.",
        "{a} has {c} and {b} has {m}.",
        "{b} has {m} than {a}. {a} has {c}.",
        "{a} has {c}, and {b} has {m} than {a}.",
        "*{b} has {m} than {a}, who has {c}.",
    ]);
    let told = told.replace("{a}", a).replace("{b}", b).replace("{c}", &start).replace("{m}", &amount);
    let question = teller.pick(&[
        "How many {many} does {b} have?",
        "How many does {b} have?",
        "How many {many} does {b} have?",
        "What is {b}'s number of {many}?",
        "How many {many} has {b} got?",
        "*So how many {many} does {b} have?",
    ]);
    format!("{told} {}", question.replace("{b}", b).replace("{many}", &noun.many))
}
