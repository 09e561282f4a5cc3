//! `demask strategies`: every decoder and cache, its parameters, cost and source; also writes docs/strategies.md.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Result;
use demask::decode::registry::{Cost, Entry, Kind, Param, Registry};
use demask::decode::strategy::ALL;
use demask::decode::{StrategySpec, cache};
use demask::engine::Defaults;
use demask::model::checkpoint::source;
use demask::{Model, hub_options};

use crate::downloads::Downloads;

/// Lists the decoders and caches, their parameters and defaults
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show only this one
    pub name: Option<String>,
    /// As Markdown, the form of docs/strategies.md
    #[arg(long)]
    pub markdown: bool,
    /// Whose own choices to tell besides the papers' [default: the small model inside this program]
    #[arg(long, short = 'm', value_name = "DIR|NAME", conflicts_with = "markdown")]
    pub model: Option<String>,
}

/// What a model chose for itself.
struct Chosen {
    model: String,
    strategy: StrategySpec,
}

impl Chosen {
    /// Of the model that was named, or of the one inside; nothing where it chose nothing.
    fn of(named: Option<&str>) -> Result<Option<Self>> {
        let (model, defaults) = match named {
            Some(name) => {
                let folder = source::resolve_description(name, &hub_options(), &mut Downloads::default())?;
                (name.to_owned(), Defaults::open(&folder)?)
            }
            None => {
                let model = Model::embedded()?;
                (model.name().to_owned(), model.defaults().clone())
            }
        };
        Ok(defaults.strategy.map(|strategy| Self { model, strategy }))
    }

    /// Its value of a parameter, where it chose this strategy.
    fn value(&self, about: &About, key: &str) -> Option<&str> {
        let given = self.strategy.given().iter().find(|(k, _)| k == key)?;
        (self.strategy.name() == about.name).then_some(&given.1)
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let text = match &args.name {
        None if args.markdown => markdown()?,
        None => plain(Chosen::of(args.model.as_deref())?.as_ref())?,
        Some(name) if args.markdown => one(name, None)?,
        Some(name) => one(name, Some(Chosen::of(args.model.as_deref())?.as_ref()))?,
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

/// What is said of a strategy or of a cache.
struct About {
    name: &'static str,
    aliases: &'static [&'static str],
    summary: &'static str,
    source: &'static str,
    cost: String,
    params: &'static [Param],
}

impl From<&Entry> for About {
    fn from(e: &Entry) -> Self {
        let (name, aliases, params) = (e.name, e.aliases, e.params);
        Self { name, aliases, summary: e.summary, source: e.source, cost: cost(e.cost).into(), params }
    }
}

impl From<&cache::Entry> for About {
    fn from(e: &cache::Entry) -> Self {
        let (name, aliases, params) = (e.name, e.aliases, e.params);
        Self {
            name,
            aliases,
            summary: e.summary,
            source: e.source,
            cost: format!("a pass over {}", e.cost),
            params,
        }
    }
}

/// One of them: as Markdown where nobody's choices are asked for.
fn one(name: &str, chosen: Option<Option<&Chosen>>) -> Result<String> {
    let about = match cache::find(name) {
        Ok(cache) => About::from(cache),
        Err(_) => About::from(Registry::standard().find(name)?),
    };
    let mut out = String::new();
    match chosen {
        None => section(&mut out, &about)?,
        Some(chosen) => paragraph(&mut out, &about, chosen)?,
    }
    Ok(out)
}

/// How the paper's strategy is used: the page a practitioner reads.
const DEMASK: &str = include_str!("strategies/demask.md");
/// How published loops are spelt.
const PUBLISHED: &str = include_str!("strategies/published.md");

fn cost(cost: Cost) -> &'static str {
    match cost {
        Cost::Logits => "one forward pass",
        Cost::Predictor => "one forward pass and one d×d product over the masked rows",
        Cost::Attention => "one forward pass and the attention maps of its last layers",
        Cost::Shadow => "one forward pass with a second copy of the block",
        Cost::ExtraForwards => "more forward passes",
        Cost::Assistant => "one or two forward passes, and rows of a second, causal model",
        Cost::Part => "one forward pass and a small trained part",
    }
}

fn plain(chosen: Option<&Chosen>) -> Result<String> {
    let mut out = String::from(
        "Values are the defaults of each strategy's paper. A name alone takes what the model chose for that strategy, \
         if it chose it;\na name with parameters takes the rest from the paper.\n",
    );
    if let Some(Chosen { model, strategy }) = chosen {
        writeln!(
            out,
            "{model} chose {strategy}, so that is what no -s and -s {} mean there.",
            strategy.name()
        )?;
    }
    writeln!(out)?;
    ALL.iter().try_for_each(|entry| paragraph(&mut out, &entry.into(), chosen))?;
    writeln!(out, "Spelled NAME[:key=value,…], for example demask:tau=0.04,gamma=0.9 or entropy:k=2.\n")?;
    writeln!(out, "Caches (--cache):\n")?;
    cache::ALL.iter().try_for_each(|entry| paragraph(&mut out, &entry.into(), None))?;
    Ok(out)
}

fn paragraph(out: &mut String, about: &About, chosen: Option<&Chosen>) -> Result<()> {
    writeln!(out, "{}\n  {}", about.name, about.summary)?;
    writeln!(out, "  from {}; a step costs {}", about.source, about.cost)?;
    if !about.aliases.is_empty() {
        writeln!(out, "  also called {}", about.aliases.join(", "))?;
    }
    for param in about.params {
        let default = if param.default.is_empty() { "-" } else { param.default };
        write!(out, "    {:<12} {:<10} {}", param.key, default, param.help)?;
        let own = chosen.and_then(|chosen| Some((chosen, chosen.value(about, param.key)?)));
        match own {
            Some((chosen, own)) => writeln!(out, " (the paper's; {own} for {})", chosen.model)?,
            None => writeln!(out)?,
        }
    }
    writeln!(out)?;
    Ok(())
}

fn markdown() -> Result<String> {
    let mut out = String::from(
        "# Strategies and caches\n\nWritten by `demask strategies --markdown`. A strategy chooses which masks a step \
         unmasks; a cache chooses which\nrows it computes. Any strategy works with any cache, on the whole canvas or in \
         blocks (`--block-length`), unless it\nrefuses with a sentence. Defaults are those of each strategy's paper; a name alone takes what the checkpoint's\n\
         `generation_config.json` chose for it (its field `strategy`), a name with parameters takes the rest from the paper. `apd` and `copula` need a second model (`--assistant DIR`), \
         for example\n`-s apd:r=0.7,window=16,lookahead=100 --assistant DIR`; the others of this kind a trained part:\n\n\
         | strategy | flag, or the file in the checkpoint's folder | made by |\n|---|---|---|\n\
         | `apd`, `copula` | `--assistant DIR`, `assistant/` | `demask pretrain` (its folder `causal`), or any causal model of the same tokenizer |\n\
         | `demask` | `--predictor FILE`, `predictor.safetensors` | `demask train predictor`; `demask train stability` adds the head of `start=stable` to it |\n\
         | `mi` | `--information FILE`, `information.safetensors` | `demask tv-cache generate --divergence`, `demask train predictor --target kl` |\n\
         | `adjust` | `--sampler-layer FILE`, `sampler.safetensors` | `demask train adjust` |\n\
         | `policy` | `--policy FILE`, `policy.safetensors` | `demask train policy`; `--target final` for `mode=threshold` (Learn2PD) |\n\
         | `codd` | `--prior FILE`, `prior.safetensors` | `demask train prior` |\n\n\
         An assistant is refused if its tokenizer, its ends of sequence or its mask are not the model's. A config cannot say whether \
         a model\nof a diffusion family was trained causally, so one that is named is remarked on.\n\n\
         A part is refused on another backbone than its own. `demask train distill` changes the model itself (dParallel); any strategy \
         decodes it,\n`entropy-threshold` as published. ADAS is `discount=` of the ranked strategies. Position contrastive guidance is known \
         by its abstract\nonly, so `pcg-like` is a reconstruction and says so.\n\n",
    );
    writeln!(
        out,
        "{}\n\n| strategy | meaning | a step costs | source |\n|---|---|---|---|",
        PUBLISHED.trim()
    )?;
    let row = |out: &mut String, about: &About| {
        let (name, link) = (about.name, about.name.replace(' ', "-"));
        writeln!(
            out,
            "| [`{name}`](#{link}) | {} | {} | {} |",
            about.summary.replace('|', "\\|"),
            about.cost,
            about.source
        )
    };
    ALL.iter().try_for_each(|entry| row(&mut out, &entry.into()))?;
    writeln!(out, "\n| cache | meaning | a step costs | source |\n|---|---|---|---|")?;
    cache::ALL.iter().try_for_each(|entry| row(&mut out, &entry.into()))?;
    ALL.iter().try_for_each(|entry| section(&mut out, &entry.into()))?;
    cache::ALL.iter().try_for_each(|entry| section(&mut out, &entry.into()))?;
    Ok(out)
}

fn section(out: &mut String, about: &About) -> Result<()> {
    writeln!(out, "\n## `{}`\n\n{}.\n", about.name, capitalised(about.summary))?;
    if about.name == "demask" {
        writeln!(out, "{}", DEMASK.trim())?;
        writeln!(out)?;
    }
    writeln!(out, "Source: {}. A step costs {}.", about.source, about.cost)?;
    if !about.aliases.is_empty() {
        let names: Vec<String> = about.aliases.iter().map(|a| format!("`{a}`")).collect();
        writeln!(out, "Also called {}.", names.join(", "))?;
    }
    if !about.params.is_empty() {
        writeln!(out, "\n| parameter | default | values | meaning |\n|---|---|---|---|")?;
    }
    for param in about.params {
        let default = if param.default.is_empty() { "–".into() } else { format!("`{}`", param.default) };
        let help = param.help.replace('|', "\\|");
        writeln!(out, "| `{}` | {default} | {} | {help} |", param.key, values(param.kind))?;
    }
    Ok(())
}

fn values(kind: Kind) -> String {
    match kind {
        Kind::Count => "whole, from 1".into(),
        Kind::Whole => "whole, from 0".into(),
        Kind::Number(low, f64::INFINITY) => format!("from {low}"),
        Kind::Number(low, high) => format!("{low} to {high}"),
        Kind::Choice(words) | Kind::Open(words) => {
            words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
        }
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}
