//! `demask predictor train`: TV cache and training with the paper's settings, as one run that continues where it was
//! stopped. Before it begins it says how long it will take, from a pass it measures.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use demask::model::HiddenRow;
use demask::train::compute::Compute;
use demask::train::estimate::{Estimate, Plan};
use demask::train::fit::Config;
use demask::train::tv_cache::{Cache, Claim, Generator, Outcome, TvCacheSettings};
use demask::{Model, Shard, counted};

use super::plan::{self, Asked, Kept};
use crate::args::ModelArgs;
use crate::command::train::predictor::fit_and_save;
use crate::command::tv_cache::data::Data;
use crate::command::tv_cache::{WIDEST_STORED, Watched, clock, hidden_rows};
use crate::host::Host;

/// Responses of the paper's cache.
const RESPONSES: usize = 100_000;

/// Makes a dependency predictor for a model: measures dependency on responses, then fits it; continues by itself
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Responses: a .jsonl or .parquet file, a folder of them, a Hub dataset (org/name[@revision]), or
    /// task:NAME,… (task:all) for generated problems
    #[arg(long, value_name = "DATA")]
    data: String,
    /// Folder for the cache, the run and predictor.safetensors
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Time it may take, like 30m, 2h or 1d: fewer responses and masks are measured, and it says which [default: the paper's settings]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    budget: Option<Duration>,
    /// At most this many responses [default: 100000 as in the paper, or all there are]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Settings of the training as a TOML file [default: the paper's]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Take texts as they are, without the chat template
    #[arg(long)]
    raw: bool,
    /// Fill responses up with EOS to one of these lengths, as the canvas is when decoding
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pad_to: Vec<usize>,
    /// Tokens that go through the model at once; bounds the memory
    #[arg(long, default_value_t = 8192, value_name = "N")]
    token_budget: usize,
    /// Say how long it will take and stop
    #[arg(long)]
    dry_run: bool,
    /// Seed of masks, draws, starting weights and order
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Runs the command.
pub fn run(args: &Args, host: &mut Host<'_>) -> Result<()> {
    let model = host.open(&args.model)?;
    let wanted = args.limit.unwrap_or(RESPONSES);
    let data = Data::open(&args.data, Some(wanted), args.seed)?;
    let encoder = data.encoder(&model, args.raw);
    let source = data.source(&encoder);
    let config = Config {
        seed: args.seed,
        ..args.config.as_deref().map_or_else(|| Ok(Config::default()), Config::read)?
    };
    let responses = source.len().min(wanted);
    let (folder, paper) = (args.out.join("cache"), args.settings(&model, responses));
    let generator = Generator {
        backbone: model.backbone(),
        source: &*source,
        settings: &paper,
        folder: &folder,
        token_budget: args.token_budget,
        shard: Shard::WHOLE,
        context: None,
        claim: Claim::Lock,
    };
    let compute = args.model.compute(true)?;
    let full = Plan { responses, masks: paper.masks_per_response };
    let plan = args.plan(full, &generator, &config, &compute, host)?;
    let mut settings = paper.clone();
    (settings.limit, settings.masks_per_response) = (plan.responses, plan.masks);
    if args.dry_run {
        return Ok(());
    }
    let outcome = Generator { settings: &settings, ..generator }.run(&mut Watched(host));
    host.clear();
    match outcome? {
        Outcome::Finished(_) => {}
        Outcome::Stopped => return host.say("stopped; the same command continues\n"),
        Outcome::Waiting { files, all_files } => {
            let folder = folder.display();
            return host.say(&format!(
                "{folder}: {files} of {all_files} files are there; the other shards are missing\n"
            ));
        }
    }
    let cache = Cache::open(&folder)?;
    let rows = [(HiddenRow::I, "row-i"), (HiddenRow::IMinusOne, "row-i-minus-1")];
    let out = args.out.join("predictor.safetensors");
    fit_and_save(&cache, &config, &rows, Some(model.backbone()), &compute, &out, host)
}

impl Args {
    /// How much is measured, which is said: all of it, what fits a budget, or what an earlier run in the same folder
    /// decided.
    fn plan(
        &self,
        full: Plan,
        generator: &Generator<'_>,
        config: &Config,
        compute: &Compute,
        host: &mut Host<'_>,
    ) -> Result<Plan> {
        let asked = self.budget.map(|budget| Asked {
            budget_milliseconds: budget.as_millis() as u64,
            backbone: generator.backbone.fingerprint(),
            data: generator.source.identity(),
            seed: self.seed,
            all_responses: full.responses,
            all_masks: full.masks,
        });
        let kept = asked.as_ref().map(|asked| Kept::of(&self.out, generator.folder, asked)).transpose()?;
        if let Some(kept) = kept.flatten() {
            host.note(&format!(
                "the plan of before is kept ({}): {}",
                self.out.join(plan::FILE_NAME).display(),
                given_up(kept.plan(), full, kept.time())
            ));
            return Ok(kept.plan());
        }
        let start = Instant::now();
        let estimate = Estimate::measure(generator, config, compute)?;
        host.note(&format!(
            "measured {} in {}: {} of {} each and {} take about {}",
            counted(estimate.examples, "example"),
            clock(start.elapsed()),
            counted(full.responses, "response"),
            counted(full.masks as usize, "mask"),
            counted(config.epochs as usize, "epoch"),
            clock(estimate.time(full))
        ));
        let (Some(budget), Some(asked)) = (self.budget, asked) else { return Ok(full) };
        let plan = estimate.within(full, budget);
        if plan != full {
            let given_up = given_up(plan, full, estimate.time(plan));
            host.note(&format!("within {}: {given_up}", clock(budget)));
        }
        if self.dry_run {
            return Ok(plan);
        }
        Ok(Kept::new(asked, plan, estimate.time(plan)).write(&self.out)?.plan())
    }

    /// The paper's settings.
    fn settings(&self, model: &Model, responses: usize) -> TvCacheSettings {
        let width = model.backbone().spec().hidden;
        TvCacheSettings {
            seed: self.seed,
            pad_to: self.pad_to.clone(),
            limit: responses,
            hidden: hidden_rows(None, width, WIDEST_STORED),
            ..TvCacheSettings::default()
        }
    }
}

/// A plan in words, with what it leaves out.
fn given_up(plan: Plan, full: Plan, time: Duration) -> String {
    let (responses, masks) = (counted(plan.responses, "response"), counted(plan.masks as usize, "mask"));
    let planned = format!("{responses} of {masks} each, about {}", clock(time));
    if plan == full {
        return planned;
    }
    format!(
        "{planned}; given up: {} of {} examples, so rare dependencies are seen less often and the predictor will be less \
         exact",
        full.examples() - plan.examples(),
        full.examples()
    )
}

/// A time like 90s, 30m, 2h or 1d.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a time; write it like 30m, 2h or 1d");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1.0,
        'm' => 60.0,
        'h' => 3600.0,
        'd' => 86400.0,
        _ => return Err(wrong()),
    };
    let number: f64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    if number > 0.0 && number.is_finite() {
        Ok(Duration::from_secs_f64(number * seconds))
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(duration("2h").unwrap(), Duration::from_secs(7200));
        assert_eq!(duration("1.5m").unwrap(), Duration::from_secs(90));
        for bad in ["", "2", "h", "-1h", "2w"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
