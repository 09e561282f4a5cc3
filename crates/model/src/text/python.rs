//! Values printed as Python prints them, because chat templates were written for Jinja on Python.
//!
//! `tojson` is transformers' filter (`json.dumps` without ASCII escapes and without HTML escapes), [`text`] is `str()`.

use std::fmt::Write;

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, Value};

/// Nesting at which a value is refused instead of the stack being used up.
const DEEPEST: usize = 100;

/// `json.dumps` with its defaults, except that only control characters are escaped.
struct Layout {
    ensure_ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    sort_keys: bool,
}

/// The `tojson` filter: `tojson(ensure_ascii=false, indent=none, separators=none, sort_keys=false)`.
pub(super) fn tojson(value: &Value, positional: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let mut positional = positional.iter().cloned();
    let mut argument = |name| -> Result<Option<Value>, Error> {
        let value = match positional.next() {
            Some(value) => Some(value),
            None => named.get::<Option<Value>>(name)?,
        };
        Ok(value.filter(|value| !value.is_none() && !value.is_undefined()))
    };
    let ensure_ascii = argument("ensure_ascii")?.is_some_and(|value| value.is_true());
    let indent = argument("indent")?.map(|value| match value.as_str() {
        Some(text) => text.to_owned(),
        None => " ".repeat(value.as_usize().unwrap_or(0).min(16)),
    });
    let separators = argument("separators")?;
    let sort_keys = argument("sort_keys")?.is_some_and(|value| value.is_true());
    named.assert_all_used()?;

    let (item, key) = match separators {
        Some(pair) => (pair.get_item_by_index(0)?.to_string(), pair.get_item_by_index(1)?.to_string()),
        None if indent.is_some() => (",".to_owned(), ": ".to_owned()),
        None => (", ".to_owned(), ": ".to_owned()),
    };
    let mut out = String::new();
    json(&mut out, value, &Layout { ensure_ascii, indent, item, key, sort_keys }, 0)?;
    Ok(out)
}

fn json(out: &mut String, value: &Value, layout: &Layout, depth: usize) -> Result<(), Error> {
    if depth > DEEPEST {
        return Err(Error::new(ErrorKind::BadSerialization, "the value is nested too deeply for tojson"));
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&number(value)),
        ValueKind::String => json_string(out, value.as_str().unwrap_or_default(), layout.ensure_ascii),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            json_items(out, layout, depth, ['[', ']'], items.len(), |out, place| {
                json(out, &items[place], layout, depth + 1)
            })?;
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if layout.sort_keys {
                keys.sort();
            }
            json_items(out, layout, depth, ['{', '}'], keys.len(), |out, place| {
                let key = &keys[place];
                json_string(out, &json_key(key)?, layout.ensure_ascii);
                out.push_str(&layout.key);
                json(out, &value.get_item(key)?, layout, depth + 1)
            })?;
        }
        kind => {
            let problem = format!("tojson cannot write a value of type {kind}");
            return Err(Error::new(ErrorKind::BadSerialization, problem));
        }
    }
    Ok(())
}

fn json_items(
    out: &mut String,
    layout: &Layout,
    depth: usize,
    brackets: [char; 2],
    count: usize,
    mut item: impl FnMut(&mut String, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let line = |out: &mut String, depth: usize| {
        if let Some(indent) = &layout.indent {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str(indent));
        }
    };
    out.push(brackets[0]);
    for place in 0..count {
        if place > 0 {
            out.push_str(&layout.item);
        }
        line(out, depth + 1);
        item(out, place)?;
    }
    if count > 0 {
        line(out, depth);
    }
    out.push(brackets[1]);
    Ok(())
}

fn json_key(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_owned()),
        ValueKind::None => Ok("null".to_owned()),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.to_owned()),
        ValueKind::Number => Ok(number(key)),
        kind => {
            Err(Error::new(ErrorKind::BadSerialization, format!("tojson cannot write a key of type {kind}")))
        }
    }
}

fn json_string(out: &mut String, text: &str, ensure_ascii: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if u32::from(c) < 0x20 || (ensure_ascii && !c.is_ascii()) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    push(out, format_args!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Python's `str()`: what `{{ value }}` prints.
pub(super) fn text(value: &Value) -> String {
    match value.kind() {
        ValueKind::String => value.as_str().unwrap_or_default().to_owned(),
        ValueKind::Undefined => String::new(),
        _ => {
            let mut out = String::new();
            repr(&mut out, value, 0);
            out
        }
    }
}

/// Python's `repr()`.
fn repr(out: &mut String, value: &Value, depth: usize) {
    match value.kind() {
        _ if depth > DEEPEST => out.push_str("..."),
        ValueKind::None => out.push_str("None"),
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => out.push_str(&number(value)),
        ValueKind::String => repr_string(out, value.as_str().unwrap_or_default()),
        ValueKind::Seq => {
            out.push('[');
            for (place, item) in value.try_iter().into_iter().flatten().enumerate() {
                out.push_str(if place > 0 { ", " } else { "" });
                repr(out, &item, depth + 1);
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (place, key) in value.try_iter().into_iter().flatten().enumerate() {
                out.push_str(if place > 0 { ", " } else { "" });
                repr(out, &key, depth + 1);
                out.push_str(": ");
                repr(out, &value.get_item(&key).unwrap_or_default(), depth + 1);
            }
            out.push('}');
        }
        _ => push(out, format_args!("{value}")),
    }
}

fn repr_string(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => match u32::from(c) {
                code @ ..0x100 => push(out, format_args!("\\x{code:02x}")),
                code @ ..0x1_0000 => push(out, format_args!("\\u{code:04x}")),
                code => push(out, format_args!("\\U{code:08x}")),
            },
        }
    }
    out.push(quote);
}

/// The common part of Python's `isprintable`: no controls, no separators but the space, no invisible format characters.
fn is_printable(c: char) -> bool {
    let invisible = matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    c == ' ' || !(c.is_control() || c.is_whitespace() || invisible)
}

/// An integer, or a float as Python's shortest form.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    let Ok(float) = f64::try_from(value.clone()) else {
        return value.to_string();
    };
    if float.is_nan() {
        return "NaN".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent @ (..=-5 | 16..)) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => format!("{float:?}"),
    }
}

/// Writing to a string does not fail.
fn push(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(arguments);
}
