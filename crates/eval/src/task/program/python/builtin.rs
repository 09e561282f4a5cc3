//! Built-in functions, methods, indexing and slicing of the Python subset.

use super::{Error, Value};

const LONGEST_RANGE: i64 = 10_000;

/// Calls a built-in function.
pub(super) fn call(name: &str, args: Vec<Value>) -> Result<Value, Error> {
    match (name, <[Value; 1]>::try_from(args)) {
        ("len", Ok([value])) => Ok(Value::Int(value.items()?.len() as i64)),
        ("abs", Ok([value])) => value.int()?.checked_abs().map(Value::Int).ok_or(Error::Limit("number size")),
        ("sum", Ok([value])) => sum(&value.items()?),
        ("max", Ok([value])) => best(value.items()?, true),
        ("min", Ok([value])) => best(value.items()?, false),
        ("sorted", Ok([value])) => sorted(value.items()?),
        ("reversed", Ok([value])) => Ok(Value::List(value.items()?.into_iter().rev().collect())),
        ("list", Ok([value])) => Ok(Value::List(value.items()?)),
        ("any", Ok([value])) => Ok(Value::Bool(value.items()?.iter().any(Value::truth))),
        ("all", Ok([value])) => Ok(Value::Bool(value.items()?.iter().all(Value::truth))),
        ("bool", Ok([value])) => Ok(Value::Bool(value.truth())),
        ("int", Ok([value])) => match value {
            Value::Str(text) => text
                .trim()
                .parse()
                .map(Value::Int)
                .map_err(|_| Error::Runtime(format!("{text:?} is no number"))),
            other => other.int().map(Value::Int),
        },
        ("str", Ok([value])) => Ok(Value::Str(match value {
            Value::Str(text) => text,
            other => other.to_string(),
        })),
        ("range", Ok([end])) => range(&[Value::Int(0), end]),
        ("range", Err(args)) => range(&args),
        ("max", Err(args)) => best(args, true),
        ("min", Err(args)) => best(args, false),
        _ => Err(Error::Runtime(format!("there is no function {name} for these arguments"))),
    }
}

/// Calls a method.
pub(super) fn method(object: Value, name: &str, args: Vec<Value>) -> Result<Value, Error> {
    match (object, name, args.as_slice()) {
        (Value::Str(text), "upper", []) => Ok(Value::Str(text.to_uppercase())),
        (Value::Str(text), "lower", []) => Ok(Value::Str(text.to_lowercase())),
        (Value::Str(text), "capitalize", []) => Ok(Value::Str(capitalized(&text))),
        (Value::Str(text), "title", []) => {
            let words = text.split_inclusive(|c: char| !c.is_alphabetic());
            Ok(Value::Str(words.map(capitalized).collect()))
        }
        (Value::Str(text), "strip", []) => Ok(Value::Str(text.trim().into())),
        (Value::Str(text), "startswith", [Value::Str(start)]) => {
            Ok(Value::Bool(text.starts_with(start.as_str())))
        }
        (Value::Str(text), "endswith", [Value::Str(end)]) => Ok(Value::Bool(text.ends_with(end.as_str()))),
        (Value::Str(text), "count", [Value::Str(part)]) if !part.is_empty() => {
            Ok(Value::Int(text.matches(part.as_str()).count() as i64))
        }
        (Value::Str(text), "replace", [Value::Str(old), Value::Str(new)])
            if !old.is_empty() && new.len() <= old.len() =>
        {
            Ok(Value::Str(text.replace(old.as_str(), new)))
        }
        (Value::Str(text), "split", []) => {
            Ok(Value::List(text.split_whitespace().map(|word| Value::Str(word.into())).collect()))
        }
        (Value::Str(glue), "join", [Value::List(items)]) => join(&glue, items),
        (Value::List(items), "count", [wanted]) => {
            Ok(Value::Int(items.iter().filter(|item| *item == wanted).count() as i64))
        }
        (Value::List(items), "index", [wanted]) => match items.iter().position(|item| item == wanted) {
            Some(at) => Ok(Value::Int(at as i64)),
            None => Err(Error::Runtime("the value is not in the list".into())),
        },
        (object, name, _) => {
            Err(Error::Runtime(format!("a {} has no method {name} for these arguments", object.kind())))
        }
    }
}

/// The first letter upper case, the others lower case.
fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters.flat_map(char::to_lowercase)).collect()
}

/// `object[at]`, negative from the end.
pub(super) fn index(object: Value, at: i64) -> Result<Value, Error> {
    let mut items = object.items()?;
    let length = items.len() as i64;
    let place = if at < 0 { at.saturating_add(length) } else { at };
    if !(0..length).contains(&place) {
        return Err(Error::Runtime(format!("index {at} is outside a list of {length}")));
    }
    Ok(items.swap_remove(place as usize))
}

/// `object[low:high:step]`.
pub(super) fn slice(object: Value, [low, high, step]: [Option<i64>; 3]) -> Result<Value, Error> {
    let is_text = matches!(object, Value::Str(_));
    let items = object.items()?;
    let length = items.len() as i64;
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(Error::Runtime("a slice step is zero".into()));
    }
    // Bounds as Python clamps them: within the list going up, one before its start going down.
    let (least, most) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let clamp =
        |bound: i64| (if bound < 0 { bound.saturating_add(length) } else { bound }).clamp(least, most);
    let (first, last) = if step > 0 { (least, most) } else { (most, least) };
    let end = high.map_or(last, clamp);
    let mut at = low.map_or(first, clamp);
    let mut taken = Vec::new();
    while if step > 0 { at < end } else { at > end } {
        taken.push(items[at as usize].clone());
        at = at.saturating_add(step);
    }
    if is_text { join("", &taken) } else { Ok(Value::List(taken)) }
}

/// `item in container`.
pub(super) fn contains(container: &Value, item: &Value) -> Result<bool, Error> {
    match (container, item) {
        (Value::List(items), item) => Ok(items.contains(item)),
        (Value::Str(text), Value::Str(part)) => Ok(text.contains(part.as_str())),
        (container, item) => {
            Err(Error::Runtime(format!("a {} is never in a {}", item.kind(), container.kind())))
        }
    }
}

fn sum(items: &[Value]) -> Result<Value, Error> {
    let mut total = 0i64;
    for item in items {
        total = total.checked_add(item.int()?).ok_or(Error::Limit("number size"))?;
    }
    Ok(Value::Int(total))
}

/// The first greatest or least item.
fn best(items: Vec<Value>, greatest: bool) -> Result<Value, Error> {
    let mut items = items.into_iter();
    let mut best =
        items.next().ok_or_else(|| Error::Runtime("an empty list has no greatest or least item".into()))?;
    for item in items {
        let order = item.order(&best)?;
        if (greatest && order.is_gt()) || (!greatest && order.is_lt()) {
            best = item;
        }
    }
    Ok(best)
}

fn sorted(mut items: Vec<Value>) -> Result<Value, Error> {
    for pair in items.windows(2) {
        pair[0].order(&pair[1])?;
    }
    // Neighbours are comparable, hence of one kind; a list inside may still hide two kinds that never meet.
    items.sort_by(|a, b| a.order(b).unwrap_or(std::cmp::Ordering::Equal));
    Ok(Value::List(items))
}

fn range(args: &[Value]) -> Result<Value, Error> {
    let mut bounds = [0, 0, 1];
    if !(2..=3).contains(&args.len()) {
        return Err(Error::Runtime("range takes one to three numbers".into()));
    }
    for (bound, arg) in bounds.iter_mut().zip(args) {
        *bound = arg.int()?;
    }
    let [mut at, end, step] = bounds;
    if step == 0 {
        return Err(Error::Runtime("a range step is zero".into()));
    }
    let mut items = Vec::new();
    while if step > 0 { at < end } else { at > end } {
        if items.len() as i64 >= LONGEST_RANGE {
            return Err(Error::Limit("value size"));
        }
        items.push(Value::Int(at));
        at = at.saturating_add(step);
    }
    Ok(Value::List(items))
}

fn join(glue: &str, items: &[Value]) -> Result<Value, Error> {
    let mut parts = Vec::with_capacity(items.len());
    for item in items {
        let Value::Str(text) = item else { return Err(Error::Runtime("only strings can be joined".into())) };
        parts.push(text.as_str());
    }
    let size = parts.iter().map(|part| part.len() + glue.len()).sum::<usize>();
    if size as i64 > 2 * LONGEST_RANGE {
        return Err(Error::Limit("value size"));
    }
    Ok(Value::Str(parts.join(glue)))
}
