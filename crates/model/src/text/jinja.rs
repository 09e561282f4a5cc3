//! Jinja as transformers sets it up, compiled and run with a bound on everything that can be bounded from inside:
//! nesting, instructions, recursion and output.

use std::io;

use minijinja::value::{Kwargs, StringInput, ValueKind};
use minijinja::{AutoEscape, Environment, ErrorKind, Output, State, Value as Jinja, filters};
use serde_json::Value;

use super::{nesting, python};

/// Template instructions before a rendering counts as endless.
const FUEL: u64 = 10_000_000;
/// Bytes before a prompt counts as endless.
pub(super) const LONGEST: usize = 64 << 20;
/// Nested macro calls before a rendering counts as endless.
const RECURSION: usize = 200;
/// Stack for compiling what [`nesting`] lets through.
const STACK: usize = 64 << 20;
/// Bytes of a date's format.
const LONGEST_DATE: usize = 256;
/// Spaces a line may be indented by.
const WIDEST: usize = 1000;

/// Templates, compiled. Errors are what a template does, as the end of a sentence.
#[derive(Clone)]
pub(super) struct Renderer {
    environment: Environment<'static>,
}

impl Renderer {
    /// Compiles templates given by name and source.
    pub(super) fn compile(templates: &[(&str, &str)]) -> Result<Self, String> {
        let compile = || {
            let mut environment = environment();
            for (name, source) in templates {
                nesting::check(source)?;
                let source = without_generation_tags(source);
                environment
                    .add_template_owned((*name).to_owned(), source)
                    .map_err(|error| failure(&error))?;
            }
            Ok(Self { environment })
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, compile);
            let failed = || "cannot be compiled".to_owned();
            thread.map_err(|_| failed())?.join().map_err(|_| failed())?
        })
    }

    /// The text of a template.
    pub(super) fn render(&self, name: &str, variables: &Value) -> Result<String, String> {
        let template = self.environment.get_template(name).map_err(|error| failure(&error))?;
        let mut out = Bounded(Vec::new());
        let context = Jinja::from_serialize(variables);
        template.render_captured_to(context, &mut out).map_err(|error| failure(&error))?;
        String::from_utf8(out.0).map_err(|_| "does not write UTF-8".to_owned())
    }
}

/// What a template did, as the end of a sentence.
fn failure(error: &minijinja::Error) -> String {
    let line = error.line().map(|line| format!(" in line {line}")).unwrap_or_default();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(Refusal(message)) = error.downcast_ref() {
            return format!("refuses these messages: {message}");
        }
        if error.downcast_ref::<minijinja::Error>().is_some_and(|error| error.kind() == ErrorKind::OutOfFuel)
        {
            return format!("does not end: it was stopped{line} after {FUEL} instructions");
        }
        cause = error.source();
    }
    let detail = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    match error.kind() {
        ErrorKind::SyntaxError => format!("does not parse{line}: {detail}"),
        ErrorKind::WriteFailure => format!("does not end: it was stopped{line} after {LONGEST} bytes"),
        _ => format!("fails{line}: {detail}"),
    }
}

/// Jinja as transformers sets it up.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_formatter(format_value);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION);
    environment.add_filter("tojson", python::tojson);
    environment.add_filter("string", |value: &Jinja| python::text(value));
    environment.add_function("raise_exception", raise_exception);
    environment.add_filter("indent", indent);
    environment.add_function("strftime_now", strftime_now);
    environment
}

fn format_value(out: &mut Output<'_>, _: &State<'_, '_>, value: &Jinja) -> Result<(), minijinja::Error> {
    match value.kind() {
        ValueKind::String => out.write_str(value.as_str().unwrap_or_default())?,
        _ => out.write_str(&python::text(value))?,
    }
    Ok(())
}

/// What a template says with `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refusal(String);

fn raise_exception(message: String) -> Result<Jinja, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Refusal(message)))
}

/// The built-in filter, for widths that a prompt can have.
fn indent(
    value: StringInput<'_>,
    width: Option<usize>,
    first: Option<bool>,
    blank: Option<bool>,
    named: Kwargs,
) -> Result<Jinja, minijinja::Error> {
    let asked = width.or(named.peek::<Option<usize>>("width").ok().flatten()).unwrap_or(0);
    if asked > WIDEST {
        let problem = format!("indent is asked for {asked} spaces, more than {WIDEST}");
        return Err(minijinja::Error::new(ErrorKind::InvalidOperation, problem));
    }
    filters::indent(value, width, first, blank, named)
}

fn strftime_now(format: &str) -> Result<String, minijinja::Error> {
    use std::fmt::Write;
    if format.len() > LONGEST_DATE {
        let problem = format!("strftime_now is given a format of {} bytes", format.len());
        return Err(minijinja::Error::new(ErrorKind::InvalidOperation, problem));
    }
    let mut out = String::new();
    write!(out, "{}", chrono::Local::now().format(format)).map_err(|_| {
        minijinja::Error::new(ErrorKind::InvalidOperation, format!("strftime_now does not know `{format}`"))
    })?;
    Ok(out)
}

/// `{% generation %}` marks what an assistant wrote, for training; it prints nothing, so it becomes a block that always runs.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start + 2..].find("%}").map(|length| length + 2) else { break };
        let tag = &rest[start + 2..start + length];
        out.push_str(&rest[..start]);
        match tag.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+') {
            "generation" => out.push_str(&format!("{{%{}%}}", tag.replace("generation", "if true"))),
            "endgeneration" => out.push_str(&format!("{{%{}%}}", tag.replace("endgeneration", "endif"))),
            _ => out.push_str(&rest[start..start + length + 2]),
        }
        rest = &rest[start + length + 2..];
    }
    out + rest
}

/// A buffer that refuses to grow without end.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > LONGEST {
            return Err(io::Error::other("the prompt is too long"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
