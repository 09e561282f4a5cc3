//! `demask serve`: the model behind an OpenAI-compatible HTTP service, and a page to watch it.

mod tasks;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use demask::Decoding;
use demask::decode::{CacheSpec, EosPolicy, StrategySpec};
use demask::serve::{Doors, Patience, Served, ServerSettings};
use tracing_subscriber::EnvFilter;

use crate::args::{ModelArgs, announce};

/// Where the key is read from when the flag is absent; flags are visible to other users of the machine.
const API_KEY: &str = "DEMASK_API_KEY";

/// Serves the model over HTTP, compatible with OpenAI's clients; RUST_LOG sets what is logged
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address to listen on; the default takes connections of this machine only
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_name = "IP")]
    pub host: IpAddr,
    /// Port to listen on; 0 takes a free one
    #[arg(long, short = 'p', default_value_t = 8080, value_name = "PORT")]
    pub port: u16,
    /// Key that clients must send [default: $DEMASK_API_KEY, else none]
    #[arg(long, value_name = "KEY")]
    pub api_key: Option<String>,
    /// Name of the model in the API [default: the checkpoint's]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Decoder of requests that name none [default: demask, or threshold without a predictor]
    #[arg(long, short = 's', value_name = "STRATEGY")]
    pub strategy: Option<StrategySpec>,
    /// What an end-of-sequence does in requests that do not say
    #[arg(long, default_value = "auto", value_name = "POLICY")]
    pub eos: EosPolicy,
    /// Decode requests that do not say in blocks of this many tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub block_length: Option<u32>,
    /// Keys and values kept between steps in requests that do not say, NAME[:key=value,…]
    #[arg(long, default_value = "auto", value_name = "CACHE")]
    pub cache: CacheSpec,
    /// Canvases decoded together
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub batch: u16,
    /// Canvases that may wait; more are refused with 429
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub queue: u16,
    /// Memory for finished blocks of block-causal models, which requests with the same beginning share, in MiB
    #[arg(long, default_value_t = 256, value_name = "MIB", value_parser = clap::value_parser!(u32).range(0..=1_048_576))]
    pub prefix_memory: u32,
    /// Longest response in tokens
    #[arg(long, default_value_t = 4096, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens: u32,
    /// Canvases of one request (prompts × n)
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub max_canvases: u16,
    /// Largest request body in KiB
    #[arg(long, default_value_t = 1024, value_name = "KIB", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub max_body: u32,
    /// Another name of this server in the header Host, where a proxy or a name in the network leads to it
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// A site whose pages may use this server, like https://example.org; * allows every site
    #[arg(long, value_name = "ORIGIN")]
    pub allow_origin: Vec<String>,
    /// Seconds that running requests get when the server is stopped
    #[arg(long, default_value_t = Patience::default().grace.as_secs(), value_name = "SECONDS")]
    pub grace: u64,
    /// Offer the evaluation's tasks on the page, for models trained on them [default: with the embedded model]
    #[arg(long)]
    pub tasks: bool,
    /// Write the log as JSON lines
    #[arg(long)]
    pub log_json: bool,
    #[command(flatten)]
    model: ModelArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    log(args.log_json);
    let api_key = api_key(args.api_key.as_deref())?;
    check_origins(&args.allow_origin)?;
    if api_key.is_none() && !args.host.is_loopback() {
        eprintln!(
            "warning: everybody who reaches {} may use this model; --api-key or {API_KEY} sets a key",
            args.host
        );
    }
    let model = args.model.open()?;
    let model = match &args.name {
        Some(name) => model.named(name),
        None => model,
    };
    let decoding = Decoding {
        strategy: args.strategy.clone(),
        eos: args.eos,
        block_length: args.block_length.map(|n| n as usize),
        cache: args.cache.clone(),
        ..Decoding::default()
    };
    announce(&model, &decoding);
    model.strategy(&decoding).build(model.context())?;
    let tasks = (args.tasks || args.model.model.is_none()).then(|| Arc::new(tasks::Offered) as _);
    let (name, served) = (model.name().to_owned(), Served { model, decoding, tasks });
    let settings = ServerSettings {
        api_key,
        batch: args.batch.into(),
        queue: args.queue.into(),
        prefix_memory: (args.prefix_memory as usize) << 20,
        max_tokens: args.max_tokens as usize,
        max_canvases: args.max_canvases.into(),
        max_body: args.max_body as usize * 1024,
        patience: Patience { grace: Duration::from_secs(args.grace), ..Patience::default() },
        doors: doors(args),
        ..ServerSettings::default()
    };
    demask::serve::run(served, settings, SocketAddr::new(args.host, args.port), |address| {
        eprintln!(
            "{name} · page http://{address}/ · API http://{address}/v1 · Ctrl-C finishes what runs and ends"
        );
    })?;
    Ok(())
}

/// The key of the flag, else of the environment; an empty one is a mistake, not the wish for none.
pub fn api_key(flag: Option<&str>) -> Result<Option<String>> {
    let key = flag.map(str::to_owned).or_else(|| std::env::var(API_KEY).ok());
    if key.as_ref().is_some_and(|key| key.trim().is_empty()) {
        usage!(
            "the API key is empty, which would let everybody in; leave --api-key and {API_KEY} out to have none"
        );
    }
    Ok(key)
}

/// On a loopback address only this machine's own names are answered: any site's name can be made to point there.
fn doors(args: &Args) -> Doors {
    let named = args.host.is_loopback() || !args.allow_host.is_empty();
    let mut hosts = Doors::loopback(&args.allow_host);
    hosts.push(args.host.to_string());
    hosts.push(format!("[{}]", args.host));
    Doors { hosts: named.then_some(hosts), origins: args.allow_origin.clone() }
}

fn check_origins(origins: &[String]) -> Result<()> {
    for origin in origins {
        let site = origin.split_once("://").map(|(_, site)| site);
        if origin != "*" && site.is_none_or(|site| site.is_empty() || site.contains('/')) {
            usage!(
                "--allow-origin {origin} is not a site; write it like https://example.org, without a path"
            );
        }
    }
    Ok(())
}

fn log(json: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second subscriber in one process would be refused; the first one stays.
    let _ = if json { log.json().try_init() } else { log.try_init() };
}
