//! `demask strategies`: every decoder, its parameters and where it comes from.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Result;
use demask_decode::strategy::{ALL, Cost, Entry};

/// Lists the decoders, their parameters and defaults
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show only this one
    pub name: Option<String>,
    /// As Markdown, the form of docs/strategies.md
    #[arg(long)]
    pub markdown: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let entries: Vec<&Entry> = match &args.name {
        Some(name) => vec![demask_decode::strategy::find(name)?],
        None => ALL.iter().collect(),
    };
    let text = if args.markdown { markdown(&entries)? } else { plain(&entries)? };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

fn cost(cost: Cost) -> &'static str {
    match cost {
        Cost::Logits => "one forward pass",
        Cost::Predictor => "one forward pass and one d×d product over the masked rows",
        Cost::Attention => "one forward pass and the attention maps of its last layers",
        Cost::ExtraForwards => "more forward passes",
    }
}

fn plain(entries: &[&Entry]) -> Result<String> {
    let mut out = String::new();
    for entry in entries {
        writeln!(out, "{}\n  {}", entry.name, entry.summary)?;
        writeln!(out, "  from {}; a step costs {}", entry.source, cost(entry.cost))?;
        if !entry.aliases.is_empty() {
            writeln!(out, "  also called {}", entry.aliases.join(", "))?;
        }
        for param in entry.params {
            let default = if param.default.is_empty() { "-" } else { param.default };
            writeln!(out, "    {:<12} {:<10} {}", param.key, default, param.help)?;
        }
        writeln!(out)?;
    }
    writeln!(out, "Spelled NAME[:key=value,…], for example demask:tau=0.04,gamma=0.9 or entropy:k=2.")?;
    Ok(out)
}

fn markdown(entries: &[&Entry]) -> Result<String> {
    let mut out = String::from("# Strategies\n\nWritten by `demask strategies --markdown`.\n");
    for entry in entries {
        writeln!(out, "\n## `{}`\n\n{}.\n", entry.name, capitalised(entry.summary))?;
        writeln!(out, "Source: {}. A step costs {}.\n", entry.source, cost(entry.cost))?;
        if !entry.params.is_empty() {
            writeln!(out, "| parameter | default | meaning |\n|---|---|---|")?;
        }
        for param in entry.params {
            let default =
                if param.default.is_empty() { "–".into() } else { format!("`{}`", param.default) };
            writeln!(out, "| `{}` | {default} | {} |", param.key, param.help.replace('|', "\\|"))?;
        }
    }
    Ok(out)
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}
