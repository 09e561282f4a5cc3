//! A function in words and in code.

use super::recipe::{Edit, Fold, Join, Op, Recipe};
use crate::task::Rng;

/// The free choices of one answer; the prompt may fix the names of the parameters.
pub(super) struct Wording {
    params: &'static [&'static str],
    /// The name of an intermediate result; with none, the answer is one expression.
    local: Option<&'static str>,
    /// The name of a list's element.
    element: &'static str,
}

impl Wording {
    pub(super) fn draw(rng: &mut Rng, recipe: &Recipe) -> Self {
        let params: &[&[&str]] = match recipe {
            Recipe::Number(_) => &[&["x"], &["n"]],
            Recipe::Pair(..) => &[&["a", "b"], &["x", "y"]],
            Recipe::List { .. } => &[&["xs"], &["nums"]],
            Recipe::Text(_) => &[&["s"], &["t"]],
        };
        let params = *rng.pick(params);
        let local = *rng.pick(&[None, None, Some("r"), Some(params[0])]);
        Self { params, local, element: *rng.pick(&["v", "i"]) }
    }

    /// The prompt: a signature, a name alone, or a docstring.
    pub(super) fn ask(&self, rng: &mut Rng, function: &str, recipe: &Recipe) -> String {
        let task = describe(rng, recipe);
        let params = self.params.join(", ");
        match rng.below(3) {
            0 => format!("Write {function}({params}). Take {task}."),
            1 => format!("Write a function {function}. Take {task}."),
            _ => format!("def {function}({params}):\n    \"\"\"Take {task}.\"\"\""),
        }
    }

    /// The function.
    pub(super) fn answer(&self, function: &str, recipe: &Recipe) -> String {
        let steps = self.steps(recipe);
        let mut value = Code::atom(self.params[0]);
        let mut body = String::new();
        for (at, step) in steps.iter().enumerate() {
            value = step(value);
            if let (Some(local), true) = (self.local, at + 1 < steps.len()) {
                body += &format!("    {local} = {}\n", value.text);
                value = Code::atom(local);
            }
        }
        format!("def {function}({}):\n{body}    return {}", self.params.join(", "), value.text)
    }

    /// The operations of a recipe, each taking the code of its input to the code of its output.
    fn steps<'a>(&'a self, recipe: &'a Recipe) -> Vec<Box<dyn Fn(Code) -> Code + 'a>> {
        match recipe {
            Recipe::Number(ops) => ops.iter().map(|op| boxed(move |value| number(*op, value))).collect(),
            Recipe::Pair(join, op) => {
                let [a, b] = [self.params[0], self.params[1]];
                vec![boxed(move |_| pair(*join, a, b)), boxed(move |value| number(*op, value))]
            }
            Recipe::List { keep, map, fold } => {
                let selected = boxed(move |list| self.comprehension(*keep, *map, &list));
                let folded = fold.map(|fold| boxed(move |list| folding(fold, list)));
                std::iter::once(selected).chain(folded).collect()
            }
            Recipe::Text(edits) => {
                edits.iter().map(|edit| boxed(move |value| editing(edit, value))).collect()
            }
        }
    }

    fn comprehension(&self, keep: Option<Op>, map: Option<Op>, list: &Code) -> Code {
        let element = Code::atom(self.element);
        let mapped = map.map_or(element.clone(), |op| number(op, element.clone()));
        let condition = keep.map_or(String::new(), |op| format!(" if {}", number(op, element).text));
        Code::atom(format!("[{} for {} in {}{condition}]", mapped.text, self.element, list.text))
    }
}

fn boxed<'a>(step: impl Fn(Code) -> Code + 'a) -> Box<dyn Fn(Code) -> Code + 'a> {
    Box::new(step)
}

/// How tightly an expression binds.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Level {
    Comparison,
    Sum,
    Product,
    Sign,
    Power,
    Atom,
}

#[derive(Clone)]
struct Code {
    text: String,
    level: Level,
}

impl Code {
    fn atom(text: impl Into<String>) -> Self {
        Self { text: text.into(), level: Level::Atom }
    }

    fn new(level: Level, text: String) -> Self {
        Self { text, level }
    }

    /// The text, in brackets unless it binds at least as tightly as its place demands.
    fn within(&self, level: Level) -> String {
        if self.level >= level { self.text.clone() } else { format!("({})", self.text) }
    }
}

fn number(op: Op, x: Code) -> Code {
    use Level::{Atom, Comparison, Power, Product, Sign, Sum};
    match op {
        Op::Add(k) => Code::new(Sum, format!("{} + {k}", x.within(Sum))),
        Op::Sub(k) => Code::new(Sum, format!("{} - {k}", x.within(Sum))),
        Op::Mul(k) => Code::new(Product, format!("{} * {k}", x.within(Product))),
        Op::Mod(k) => Code::new(Product, format!("{} % {k}", x.within(Product))),
        Op::AtMost(k) => Code::atom(format!("min({}, {k})", x.text)),
        Op::AtLeast(k) => Code::atom(format!("max({}, {k})", x.text)),
        Op::Square => Code::new(Power, format!("{} ** 2", x.within(Atom))),
        Op::Abs => Code::atom(format!("abs({})", x.text)),
        Op::Negate => Code::new(Sign, format!("-{}", x.within(Power))),
        Op::Above(k) => Code::new(Comparison, format!("{} > {k}", x.within(Sum))),
        Op::Below(k) => Code::new(Comparison, format!("{} < {k}", x.within(Sum))),
        Op::Even => Code::new(Comparison, format!("{} % 2 == 0", x.within(Product))),
        Op::Odd => Code::new(Comparison, format!("{} % 2 == 1", x.within(Product))),
        Op::Divisible(k) => Code::new(Comparison, format!("{} % {k} == 0", x.within(Product))),
    }
}

fn pair(join: Join, a: &str, b: &str) -> Code {
    match join {
        Join::Sum => Code::new(Level::Sum, format!("{a} + {b}")),
        Join::Product => Code::new(Level::Product, format!("{a} * {b}")),
        Join::Difference => Code::new(Level::Sum, format!("{a} - {b}")),
        Join::Larger => Code::atom(format!("max({a}, {b})")),
        Join::Smaller => Code::atom(format!("min({a}, {b})")),
    }
}

fn folding(fold: Fold, list: Code) -> Code {
    Code::atom(match fold {
        Fold::Sum => format!("sum({})", list.text),
        Fold::Largest => format!("max({})", list.text),
        Fold::Smallest => format!("min({})", list.text),
        Fold::Count => format!("len({})", list.text),
        Fold::Sort => format!("sorted({})", list.text),
        Fold::Reverse => format!("{}[::-1]", list.text),
    })
}

fn editing(edit: &Edit, text: Code) -> Code {
    use Level::{Atom, Product, Sum};
    match edit {
        Edit::Append(word) => Code::new(Sum, format!("{} + \"{word}\"", text.within(Sum))),
        Edit::Prepend(word) => Code::new(Sum, format!("\"{word}\" + {}", text.within(Sum))),
        Edit::Repeat(count) => Code::new(Product, format!("{} * {count}", text.within(Product))),
        Edit::First(count) => Code::atom(format!("{}[:{count}]", text.within(Atom))),
        Edit::Last(count) => Code::atom(format!("{}[-{count}:]", text.within(Atom))),
        Edit::Skip(count) => Code::atom(format!("{}[{count}:]", text.within(Atom))),
        Edit::Upper => Code::atom(format!("{}.upper()", text.within(Atom))),
        Edit::Lower => Code::atom(format!("{}.lower()", text.within(Atom))),
        Edit::Reverse => Code::atom(format!("{}[::-1]", text.within(Atom))),
    }
}

/// The function in words: what it takes, then each step in one of its phrasings.
fn describe(rng: &mut Rng, recipe: &Recipe) -> String {
    let (what, steps): (_, Vec<String>) = match recipe {
        Recipe::Number(ops) => ("a number", ops.iter().map(|op| say_op(rng, *op)).collect()),
        Recipe::Pair(join, op) => ("two numbers", vec![say_join(rng, *join), say_op(rng, *op)]),
        Recipe::List { keep, map, fold } => {
            let parts = [
                keep.map(|op| say_keep(rng, op)),
                map.map(|op| say_map(rng, op)),
                fold.map(|fold| say_fold(rng, fold)),
            ];
            ("a list", parts.into_iter().flatten().collect())
        }
        Recipe::Text(edits) => ("a text", edits.iter().map(|edit| say_edit(rng, edit)).collect()),
    };
    format!("{what}, {}", steps.join(", then "))
}

fn say(rng: &mut Rng, phrasings: [&str; 2], constant: i64) -> String {
    rng.pick(&phrasings).replace("{k}", &constant.to_string())
}

fn say_op(rng: &mut Rng, op: Op) -> String {
    match op {
        Op::Add(k) => say(rng, ["add {k}", "increase it by {k}"], k),
        Op::Sub(k) => say(rng, ["subtract {k}", "decrease it by {k}"], k),
        Op::Mul(k) => say(rng, ["multiply by {k}", "multiply it by {k}"], k),
        Op::Mod(k) => say(rng, ["take the remainder by {k}", "take it modulo {k}"], k),
        Op::AtMost(k) => say(rng, ["cap it at {k}", "make it at most {k}"], k),
        Op::AtLeast(k) => say(rng, ["raise it to at least {k}", "make it at least {k}"], k),
        Op::Square => say(rng, ["square it", "take the square"], 0),
        Op::Abs => say(rng, ["drop its sign", "take the absolute value"], 0),
        Op::Negate => say(rng, ["negate it", "flip its sign"], 0),
        Op::Above(k) => say(rng, ["check if it is above {k}", "test if it is more than {k}"], k),
        Op::Below(k) => say(rng, ["check if it is below {k}", "test if it is less than {k}"], k),
        Op::Even => say(rng, ["check if it is even", "test if it is even"], 0),
        Op::Odd => say(rng, ["check if it is odd", "test if it is odd"], 0),
        Op::Divisible(k) => say(rng, ["check if {k} divides it", "test if it is divisible by {k}"], k),
    }
}

fn say_join(rng: &mut Rng, join: Join) -> String {
    match join {
        Join::Sum => say(rng, ["add them", "take the sum"], 0),
        Join::Product => say(rng, ["multiply them", "take the product"], 0),
        Join::Difference => say(rng, ["subtract them", "take the difference"], 0),
        Join::Larger => say(rng, ["take the larger", "take the largest"], 0),
        Join::Smaller => say(rng, ["take the smaller", "take the smallest"], 0),
    }
}

fn say_keep(rng: &mut Rng, op: Op) -> String {
    match op {
        Op::Above(k) => say(rng, ["keep numbers above {k}", "select numbers above {k}"], k),
        Op::Below(k) => say(rng, ["keep numbers below {k}", "select numbers below {k}"], k),
        Op::Even => say(rng, ["keep even numbers", "select even numbers"], 0),
        Op::Odd => say(rng, ["keep odd numbers", "select odd numbers"], 0),
        Op::Divisible(k) => say(rng, ["keep numbers divisible by {k}", "select numbers divisible by {k}"], k),
        other => say_op(rng, other),
    }
}

fn say_map(rng: &mut Rng, op: Op) -> String {
    match op {
        Op::Add(k) => say(rng, ["add {k} to each", "increase each by {k}"], k),
        Op::Sub(k) => say(rng, ["subtract {k} from each", "decrease each by {k}"], k),
        Op::Mul(k) => say(rng, ["multiply each by {k}", "multiply all by {k}"], k),
        Op::Square => say(rng, ["square each", "square all"], 0),
        other => say_op(rng, other),
    }
}

fn say_fold(rng: &mut Rng, fold: Fold) -> String {
    match fold {
        Fold::Sum => say(rng, ["add them", "take the sum"], 0),
        Fold::Largest => say(rng, ["take the largest", "find the largest"], 0),
        Fold::Smallest => say(rng, ["take the smallest", "find the smallest"], 0),
        Fold::Count => say(rng, ["count them", "take the count"], 0),
        Fold::Sort => say(rng, ["sort it", "sort them"], 0),
        Fold::Reverse => say(rng, ["reverse it", "reverse them"], 0),
    }
}

fn say_edit(rng: &mut Rng, edit: &Edit) -> String {
    match edit {
        Edit::Append(word) => {
            say(rng, ["add {w} at the end", "put {w} at the end"], 0).replace("{w}", &format!("\"{word}\""))
        }
        Edit::Prepend(word) => say(rng, ["add {w} at the start", "put {w} at the start"], 0)
            .replace("{w}", &format!("\"{word}\"")),
        Edit::Repeat(count) => say(rng, ["repeat it {k} times", "say it {k} times"], *count as i64),
        Edit::First(count) => {
            say(rng, ["take the first {k} letters", "keep the first {k} letters"], *count as i64)
        }
        Edit::Last(count) => {
            say(rng, ["take the last {k} letters", "keep the last {k} letters"], *count as i64)
        }
        Edit::Skip(count) => {
            say(rng, ["drop the first {k} letters", "cut the first {k} letters"], *count as i64)
        }
        Edit::Upper => say(rng, ["make it upper case", "turn it to upper case"], 0),
        Edit::Lower => say(rng, ["make it lower case", "turn it to lower case"], 0),
        Edit::Reverse => say(rng, ["reverse it", "turn it around"], 0),
    }
}
