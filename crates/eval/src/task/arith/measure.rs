//! Stories of amounts with a unit: water, rope, points, degrees, pages.

use super::super::lexicon::{self, a, capital};
use super::party::Party;
use super::story::Story;
use super::teller::Teller;
use super::words::{Tense, aux};

/// What is measured: how it is told at first, what adds, what takes away, what is asked, what is concluded. `{n}` is the
/// number, `{u}` its unit, `{q}` number and unit.
struct Scale {
    units: &'static [&'static str],
    first: &'static [&'static str],
    gains: &'static [&'static str],
    losses: &'static [&'static str],
    asked: &'static [&'static str],
    endings: &'static [&'static str],
}

const SCALES: [Scale; 5] = [
    Scale {
        units: &["litres", "litres", "liters", "gallons", "cups"],
        first: &[
            "there {are} {q} of water in {a}",
            "{a} {holds} {q} of water",
            "{a} {has} {q} of water",
            "{a} {holds} {q}",
            "{a} {has} {q} in it",
            "*{q} of water {are} in {a}",
        ],
        gains: &[
            "{q} {are} added",
            "{n} more {u} {are} poured in",
            "the rain {adds} {q}",
            "we {add} {n} more {u}",
            "{n} more {u} {flow} in",
            "*another {q} {flow} in",
        ],
        losses: &[
            "{q} {are} used",
            "we {use} {q} for the garden",
            "{q} {leak} out",
            "{q} {are} taken out",
            "{q} {flow} out",
            "someone {drinks} {q}",
            "I {use} {q}",
            "*{q} of it {are} used",
        ],
        asked: &[
            "how many {u} are in {the} now?",
            "how much water is in {the} now?",
            "how much water is left?",
            "how many {u} are left?",
            "how many {u} are there now?",
            "how much is in {the} now?",
            "*how many {u} does {the} hold in the end?",
        ],
        endings: &["There are {n} {u} in {the}.", "In the end there are {n} {u}."],
    },
    Scale {
        units: &["cm", "metres", "m", "feet", "meters", "inches"],
        first: &[
            "{a} {is} {q} long",
            "I {have} {a} of {q}",
            "{the} {is} {q} long",
            "*the length of {the} {is} {q}",
        ],
        gains: &["we {add} a piece of {q}", "I {add} {q}", "{q} {are} added", "*another {q} {are} added"],
        losses: &[
            "I {cut} off {q}",
            "{q} {are} cut off",
            "we {cut} off {q}",
            "someone {cut} off {q}",
            "*{q} of it {are} cut off",
        ],
        asked: &[
            "how long is {the} now?",
            "how long is it now?",
            "how many {u} are left?",
            "what is the length of {the} now?",
            "*how long is {the} in the end?",
        ],
        endings: &["{The} is {n} {u} long.", "Now {the} is {n} {u} long."],
    },
    Scale {
        units: &["degrees"],
        first: &[
            "the temperature {is} {q}",
            "it {is} {q}",
            "in the morning it {is} {q}",
            "*the day {begins} at {q}",
        ],
        gains: &[
            "it {rises} by {n}",
            "it {gets} {n} degrees warmer",
            "the temperature {rises} by {q}",
            "*it {goes} up by {n}",
        ],
        losses: &[
            "it {falls} by {n}",
            "it {drops} by {q}",
            "it {gets} {n} degrees colder",
            "the temperature {falls} by {n}",
            "*it {goes} down by {n}",
        ],
        asked: &[
            "what is the temperature now?",
            "how many degrees is it now?",
            "what is the temperature?",
            "*what is the temperature in the end?",
        ],
        endings: &["It is {n} degrees.", "The temperature is {n} degrees."],
    },
    Scale {
        units: &["points"],
        first: &[
            "{S} {has} {q}",
            "{S} {scores} {q}",
            "{S} {scores} {q} in the first round",
            "{S} {gets} {q} in round one",
            "*in round one {S} {scores} {q}",
        ],
        gains: &[
            "{s} {scores} {n} more",
            "{s} {wins} {q}",
            "{s} {gets} {q} in the next round",
            "{s} {earns} {n} more {u}",
            "*in the next round {s} {gets} {n}",
        ],
        losses: &[
            "{s} {loses} {n}",
            "{s} {loses} {q}",
            "{s} {loses} {q} in the next round",
            "*in the next round {s} {loses} {n}",
        ],
        asked: &[
            "what is the score now?",
            "what is {poss} score?",
            "how many points {do} {s} have?",
            "how many points {do} {s} have now?",
            "*what is {poss} score in the end?",
        ],
        endings: &["The score is {n}.", "The score is {n} points."],
    },
    Scale {
        units: &["pages", "kilometres", "miles", "metres"],
        first: &[
            "{S} {does} {q} on Monday",
            "{S} {does} {q} in the morning",
            "{S} {does} {q}",
            "*on Monday {S} {does} {q}",
        ],
        gains: &[
            "{s} {does} {n} more",
            "{s} {does} {n} more {u}",
            "{s} {does} another {n}",
            "{s} {does} {q} on Tuesday",
            "*the next day {s} {does} {n} {u}",
        ],
        losses: &[],
        asked: &[
            "how many {u} is that?",
            "how many {u} is that in total?",
            "how many {u} in all?",
            "what is the total?",
            "*what is the total number of {u}?",
        ],
        endings: &["In total that is {n} {u}.", "That is {n} {u}."],
    },
];
const TANKS: [&str; 10] = ["tank", "barrel", "bucket", "pool", "bottle", "jug", "bath", "pot", "can", "bowl"];
const LINES: [&str; 8] = ["rope", "string", "ribbon", "board", "stick", "wire", "pipe", "cable"];
/// Base, third person, past.
const VERBS: [[&str; 3]; 27] = [
    ["are", "is", "were"],
    ["is", "is", "was"],
    ["holds", "holds", "held"],
    ["has", "has", "had"],
    ["have", "has", "had"],
    ["adds", "adds", "added"],
    ["add", "adds", "added"],
    ["flow", "flows", "flowed"],
    ["use", "uses", "used"],
    ["leak", "leaks", "leaked"],
    ["drinks", "drinks", "drank"],
    ["cut", "cut", "cut"],
    ["begins", "begins", "began"],
    ["rises", "rises", "rose"],
    ["gets", "gets", "got"],
    ["goes", "goes", "went"],
    ["falls", "falls", "fell"],
    ["drops", "drops", "dropped"],
    ["scores", "scores", "scored"],
    ["wins", "wins", "won"],
    ["earns", "earns", "earned"],
    ["loses", "loses", "lost"],
    ["reads", "reads", "read"],
    ["walks", "walks", "walked"],
    ["runs", "runs", "ran"],
    ["rides", "rides", "rode"],
    ["swims", "swims", "swam"],
];

/// Tells of an amount and what becomes of it.
pub(super) fn tell(teller: &mut Teller<'_>, story: &mut Story) -> String {
    let scales: Vec<&Scale> =
        SCALES.iter().filter(|scale| story.only_gains() || !scale.losses.is_empty()).collect();
    let scale = *teller.rng.pick(&scales);
    let unit = *teller.rng.pick(scale.units);
    let thing = *teller.rng.pick(if unit.starts_with("lit") || ["gallons", "cups"].contains(&unit) {
        &TANKS[..]
    } else {
        &LINES[..]
    });
    let (an, the) = (a(thing), format!("the {thing}"));
    let hero = Party::person(&lexicon::name(teller.rng, teller.wording));
    let motion = if unit == "pages" {
        "{reads}"
    } else {
        *teller.rng.pick(&["{walks}", "{runs}", "{rides}", "{swims}"])
    };
    let tense = teller.tense;
    let say = |teller: &Teller<'_>, pattern: &str, n: i64, subject: &str, plural: bool| {
        let mut text = pattern.replace("{does}", motion).replace("{S}", subject).replace("{s}", subject);
        text = text
            .replace("{a}", &an)
            .replace("{the}", &the)
            .replace("{The}", &capital(&the))
            .replace("{poss}", &hero.poss);
        let number = teller.number(n);
        let unit = if n == 1 { unit.strip_suffix('s').unwrap_or(unit) } else { unit };
        let unit = if unit == "feet" && n == 1 { "foot" } else { unit };
        text = text.replace("{q}", &format!("{number} {unit}")).replace("{n}", &number).replace("{u}", unit);
        for [mark, third, past] in VERBS {
            let present = if mark == "are" && n == 1 { third.to_owned() } else { plain(mark, plural) };
            text = text.replace(
                &format!("{{{mark}}}"),
                if mark == "are" && n == 1 && tense == Tense::Past {
                    "was"
                } else if tense == Tense::Past {
                    past
                } else {
                    &present
                },
            );
        }
        text
    };
    let pattern = teller.pick(scale.first);
    let mut sentences = vec![say(teller, pattern, story.first, &hero.first, false)];
    for step in &story.steps {
        let pattern = teller.pick(if step.gains() { scale.gains } else { scale.losses });
        let mention = hero.mention(teller);
        let clause = say(teller, pattern, step.by, &mention.text, mention.plural);
        sentences.push(format!("{}{clause}", teller.before()));
    }
    let total = story.total();
    story.endings = scale
        .endings
        .iter()
        .map(|text| {
            text.replace("{n}", &total.to_string())
                .replace("{u}", unit)
                .replace("{the}", &the)
                .replace("{The}", &capital(&the))
        })
        .collect();
    if total == 1 {
        story.endings.clear();
    }
    let mention = hero.mention(teller);
    // Of an amount that only grew nothing is "left".
    let asked = loop {
        let asked = teller.pick(scale.asked);
        if story.ends_in_loss() || !asked.contains("left") {
            break asked;
        }
    };
    let asked = asked.replace("{do}", aux(Tense::Present, mention.plural)).replace("{s}", &mention.text);
    let asked = capital(&asked.replace("{u}", unit).replace("{the}", &the).replace("{poss}", &hero.poss));
    let told: Vec<String> = sentences.iter().map(|sentence| capital(sentence)).collect();
    format!("{}. {asked}", told.join(". "))
}

/// The verb of a plural subject: "they score"; marks name the form after a singular one.
fn plain(mark: &str, plural: bool) -> String {
    match mark {
        "has" | "is" | "are" | "have" => mark.to_owned(),
        "goes" if plural => "go".to_owned(),
        _ if plural => mark.strip_suffix('s').unwrap_or(mark).to_owned(),
        _ => mark.to_owned(),
    }
}
