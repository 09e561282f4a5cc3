//! A decoder's parameter that was given as a flag: the error says where it goes. Knows the decoders' entries, and asks clap
//! which flags there are.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use demask::decode::StrategySpec;
use demask::decode::registry::Entry;
use demask::decode::strategy::ALL;

/// The decoder that is meant where none is named.
const USUAL: &str = "demask";

/// The sentence for a flag that clap does not know and that is a parameter of a decoder; `args` are the whole call.
pub fn parameter(error: &clap::Error, args: &[OsString], program: clap::Command) -> Option<String> {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(flag))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return None;
    };
    let wanted = key(flag)?.0;
    let args: Vec<&str> = args.iter().skip(1).filter_map(|arg| arg.to_str()).collect();
    let command = args.iter().find_map(|name| program.find_subcommand(name))?;
    if !command.get_arguments().any(|argument| argument.get_long() == Some("strategy")) {
        return None;
    }
    let spelled = spelled(&args);
    let has = |entry: &&Entry, key: &str| entry.params.iter().any(|param| param.key == key);
    let entry = |name: &str| ALL.iter().find(|entry| entry.name == name || entry.aliases.contains(&name));
    let named = spelled.as_ref().and_then(|spec| entry(spec.name()));
    let candidates = named.into_iter().chain(entry(USUAL)).chain(ALL);
    let entry = candidates.into_iter().find(|entry| has(entry, &wanted))?;
    // What was said of this decoder already stays, and what else was given as a flag comes along.
    let kept = spelled.filter(|spec| entry.name == spec.name() || entry.aliases.contains(&spec.name()));
    let mut values: Vec<(String, String)> = kept.map_or_else(Vec::new, |spec| spec.given().to_vec());
    let known = |key: &str| command.get_arguments().any(|argument| argument.get_long() == Some(key));
    for (at, arg) in args.iter().enumerate() {
        let Some((key, value)) = key(arg).filter(|(key, _)| has(&entry, key) && !known(key)) else {
            continue;
        };
        let next = args.get(at + 1).filter(|next| !next.starts_with('-'));
        let value = value.or_else(|| next.map(|next| (*next).to_owned())).unwrap_or_else(|| "…".into());
        values.retain(|(before, _)| *before != key);
        values.push((key, value));
    }
    let values: Vec<String> = values.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let others: Vec<&str> =
        ALL.iter().filter(|other| other.name != entry.name && has(other, &wanted)).map(|e| e.name).collect();
    let others =
        if others.is_empty() { String::new() } else { format!(" ({} have one too)", others.join(", ")) };
    let others = if others.contains(", ") { others } else { others.replace("have one", "has one") };
    Some(format!(
        "--{wanted} is no flag but a parameter of the decoder {}{others}; write it behind its name: -s {}:{}",
        entry.name,
        entry.name,
        values.join(",")
    ))
}

/// The name of a flag as a parameter's, and its value where `=` stands behind it.
fn key(flag: &str) -> Option<(String, Option<String>)> {
    let flag = flag.strip_prefix("--")?;
    let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
    Some((name.replace('-', "_"), value.map(str::to_owned)))
}

/// The decoder that the call names.
fn spelled(args: &[&str]) -> Option<StrategySpec> {
    let at =
        args.iter().position(|arg| ["-s", "--strategy"].contains(arg)).map(|at| args.get(at + 1).copied());
    let joined =
        args.iter().find_map(|arg| arg.strip_prefix("--strategy=").or_else(|| arg.strip_prefix("-s")));
    at.flatten().or(joined)?.parse().ok()
}
