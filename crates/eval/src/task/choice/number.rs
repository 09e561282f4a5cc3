//! Questions about numbers: compared, divided, computed, and told as word problems.

use std::sync::LazyLock;

use super::super::Rng;
use super::super::book::{Book, closed, expand, fill};
use super::super::lexicon::{self, NounKind, Pronoun, Wording, capital};
use super::draw::{Draw, ask};
use super::layout::Stem;

static STORIES: LazyLock<Book> =
    LazyLock::new(|| Book::read(crate::task::wordings::text("choice/stories.txt")));

fn texts(numbers: &[i64]) -> Vec<String> {
    numbers.iter().map(ToString::to_string).collect()
}

/// One number of those that are meant among others that are not.
fn among(rng: &mut Rng, inside: &[i64], outside: &[i64], count: usize) -> (String, Vec<String>) {
    (rng.pick(inside).to_string(), texts(&rng.sample(outside, count - 1)))
}

/// The one number above or below a bound, or between two.
pub(super) fn bound(rng: &mut Rng, wording: Wording, count: usize) -> Draw {
    let bound = rng.between(14, 84);
    let section = *rng.pick(&["above", "above", "below", "below", "between"]);
    let upper = bound + rng.between(5, 12);
    let holds = |number: i64| match section {
        "above" => number > bound,
        "below" => number < bound,
        _ => number > bound && number < upper,
    };
    let (inside, outside): (Vec<i64>, Vec<i64>) =
        (1..=99).filter(|&number| number != bound && number != upper).partition(|&number| holds(number));
    let (answer, others) = among(rng, &inside, &outside, count);
    let (n, m) = (bound.to_string(), upper.to_string());
    let stem = ask(rng, wording, section, &[("n", &n), ("m", &m)]);
    let draw = Draw::new("choice/bound", stem, answer, others, format!("{section} {bound} {upper}"));
    match section {
        "above" => draw.facts(&[format!("{{v}} is larger than {n}"), format!("{{v}} > {n}")], &[]),
        "below" => draw.facts(&[format!("{{v}} is smaller than {n}"), format!("{{v}} < {n}")], &[]),
        _ => draw.facts(&[format!("{{v}} is between {n} and {m}")], &[]),
    }
}

/// The largest or the smallest.
pub(super) fn extreme(rng: &mut Rng, wording: Wording, count: usize) -> Draw {
    let pool: Vec<i64> = (1..=99).collect();
    let mut numbers = rng.sample(&pool, count);
    // 14 and 41, 17 and 71: pairs people like to ask about.
    if rng.below(6) == 0 {
        let mirrored = numbers[0] % 10 * 10 + numbers[0] / 10;
        if mirrored > 9 && !numbers.contains(&mirrored) {
            numbers[1] = mirrored;
        }
    }
    let large = rng.below(5) < 3;
    let pick = if large { numbers.iter().max() } else { numbers.iter().min() };
    let answer = *pick.expect("there are options");
    let others: Vec<i64> = numbers.into_iter().filter(|&number| number != answer).collect();
    let word = if large { "largest" } else { "smallest" };
    let two = if large { "larger" } else { "smaller" };
    let section = if count == 2 && rng.below(4) > 0 { two } else { word };
    let stem = ask(rng, wording, section, &[]);
    let said = if count == 2 { two } else { word };
    Draw::new("choice/extreme", stem, answer.to_string(), texts(&others), word.into())
        .facts(&[format!("{{v}} is the {said} one")], &[format!("The {said} number is {{v}}")])
}

/// The one multiple of a number, or the one that is none.
pub(super) fn multiple(rng: &mut Rng, wording: Wording, count: usize) -> Draw {
    let of = *rng.pick(&[2, 2, 3, 4, 5, 5, 5, 10, 10]);
    let top = if of == 3 || of == 4 { 48 } else { 99 };
    let (inside, outside): (Vec<i64>, Vec<i64>) = (1..=top).partition(|number| number % of == 0);
    let negated = rng.below(4) == 0 && inside.len() >= count;
    let (answer, others) =
        if negated { among(rng, &outside, &inside, count) } else { among(rng, &inside, &outside, count) };
    let parity = of == 2 && rng.coin();
    let section = match (parity, negated) {
        (true, true) => "uneven",
        (true, false) => "even",
        (false, true) => "indivisible",
        (false, false) => "multiple",
    };
    let stem = ask(rng, wording, section, &[("n", &of.to_string())]);
    let fact = match section {
        "uneven" => "{v} is odd".into(),
        "even" => "{v} is even".into(),
        "indivisible" => format!("{{v}} is not divisible by {of}"),
        _ => format!("{{v}} is divisible by {of}"),
    };
    Draw::new("choice/multiple", stem, answer, others, format!("{of} {negated}")).facts(&[fact], &[])
}

/// Wrong numbers people fall for: near misses, a slip in the tens, and any others.
fn misses(rng: &mut Rng, value: i64, count: usize) -> Vec<String> {
    let mut found: Vec<i64> = Vec::new();
    let mut spread = 3;
    while found.len() < count {
        let miss = match rng.below(6) {
            0..3 => value + rng.between(-spread, spread),
            3 => value + *rng.pick(&[-10, 10]),
            _ => rng.between(0, 99),
        };
        if miss != value && (0..200).contains(&miss) && !found.contains(&miss) {
            found.push(miss);
        }
        spread += 1;
    }
    texts(&found)
}

fn apply(sign: char, left: i64, right: i64) -> i64 {
    match sign {
        '+' => left + right,
        '-' => left - right,
        _ => left * right,
    }
}

/// Operands for a row of signs, every result within 0..=150 and every number within 2..=99.
fn operands(rng: &mut Rng, signs: &str) -> Vec<i64> {
    loop {
        let mut value = if signs == "*" { rng.between(2, 12) } else { rng.between(2, 80) };
        let mut found = vec![value];
        for sign in signs.chars() {
            let next = match sign {
                '*' => rng.between(2, 12),
                _ if rng.coin() => rng.between(2, 20),
                _ => rng.between(2, 60),
            };
            value = apply(sign, value, next);
            found.push(next);
            if !(0..=150).contains(&value) {
                break;
            }
        }
        if found.len() == signs.len() + 1 && (0..=150).contains(&value) {
            return found;
        }
    }
}

/// The steps of a computation: "15 - 6 = 9, 9 + 4 = 13", the last result left as `{v}`.
fn steps(signs: &str, numbers: &[i64]) -> (String, i64) {
    let mut value = numbers[0];
    let mut said = Vec::new();
    for (at, sign) in signs.chars().enumerate() {
        let next = apply(sign, value, numbers[at + 1]);
        let result = if at + 2 == numbers.len() { "{v}".to_owned() } else { next.to_string() };
        said.push(format!("{value} {sign} {} = {result}", numbers[at + 1]));
        value = next;
    }
    (said.join(", "), value)
}

/// A bare sum: "What is 12 + 7?"
pub(super) fn sum(rng: &mut Rng, wording: Wording, count: usize) -> Draw {
    let signs = *rng.pick(&["+", "+", "+", "-", "-", "-", "*"]);
    let numbers = operands(rng, signs);
    let section = match signs {
        "+" => "plus",
        "-" => "minus",
        _ => "times",
    };
    let (x, y) = (numbers[0].to_string(), numbers[1].to_string());
    let stem = ask(rng, wording, section, &[("x", &x), ("y", &y)]);
    computed(rng, "choice/sum", stem, signs, &numbers, count)
}

/// A word problem of one or two steps.
pub(super) fn story(rng: &mut Rng, wording: Wording, count: usize) -> Draw {
    let pattern = STORIES.find(rng, wording, "tales", |_| true).expect("there are word problems");
    let (signs, sort) = pattern.tag.split_once('/').expect("the tag of a word problem has two parts");
    let kinds: &[NounKind] = match sort {
        "f" => &[NounKind::Food],
        "p" => &[NounKind::Person],
        "b" => &[NounKind::Bird],
        _ => &[NounKind::Thing, NounKind::Thing, NounKind::Food, NounKind::Vehicle, NounKind::Plant],
    };
    let noun = lexicon::noun(rng, wording, kinds);
    let people = loop {
        let people = lexicon::names(rng, wording, 2);
        // "How many do they have" would be about both.
        if people[0].pronoun != Pronoun::They {
            break people;
        }
    };
    let he = people[0].pronoun.subject();
    let numbers = operands(rng, signs);
    // A few numbers are told in words; the answer computes with digits.
    let in_words = rng.below(25) == 0;
    let shown: Vec<String> =
        numbers.iter().map(|&number| lexicon::shown(number, in_words && number <= 12)).collect();
    let text = fill(
        &expand(rng, pattern.text),
        &[
            ("N", &people[0].text),
            ("o", &people[1].text),
            ("he", he),
            ("He", &capital(he)),
            ("his", people[0].pronoun.possessive()),
            ("one", &noun.one),
            ("things", &noun.many),
            ("x", &shown[0]),
            ("y", &shown[1]),
            ("z", shown.last().map_or("", String::as_str)),
        ],
    );
    computed(rng, "choice/story", Stem { text: capital(&closed(&text)), mark: "" }, signs, &numbers, count)
}

fn computed(
    rng: &mut Rng,
    kind: &'static str,
    stem: Stem,
    signs: &str,
    numbers: &[i64],
    count: usize,
) -> Draw {
    let (said, value) = steps(signs, numbers);
    let others = misses(rng, value, count - 1);
    Draw::new(kind, stem, value.to_string(), others, format!("{signs}{numbers:?}")).facts(&[], &[said])
}

/// "A: 5 + 8. B: 6 + 6. Which is bigger?"
pub(super) fn sums(rng: &mut Rng, wording: Wording) -> Draw {
    let (left, right) = loop {
        let pair = [operands(rng, "+"), operands(rng, "+")];
        if pair.iter().all(|numbers| numbers.iter().all(|&number| number <= 30))
            && pair[0][0] + pair[0][1] != pair[1][0] + pair[1][1]
        {
            let [one, two] = pair;
            break if one[0] + one[1] > two[0] + two[1] { (one, two) } else { (two, one) };
        }
    };
    let shown = |numbers: &[i64]| format!("{} + {}", numbers[0], numbers[1]);
    let stem = ask(rng, wording, "sums", &[]);
    let fact = format!("{{v}} = {} and {} = {}", left[0] + left[1], shown(&right), right[0] + right[1]);
    let mut draw = Draw::new("choice/sum", stem, shown(&left), vec![shown(&right)], "larger sum".into());
    draw.numeric = true;
    draw.labelled = Some(true);
    draw.facts(&[fact], &[])
}
