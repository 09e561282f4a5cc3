//! `demask train prior`: the hidden Markov model of the strategy codd.

use anyhow::{Result, bail};
use demask::train::optimizer::AdamW;
use demask::train::part::Training;
use demask::train::part::prior::{Answer, PriorObjective, PriorShape};
use demask::train::schedule::Schedule;
use demask::train::tv_cache::ResponseSource;

use super::source::{Pace, Source, identity};
use super::terminal::{folder_of, train};

/// Trains a prior of text, for the strategy codd; continues by itself where it was stopped
#[derive(Debug, clap::Args)]
pub(super) struct PriorArgs {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    pace: Pace,
    /// Hidden states
    #[arg(long, value_name = "N", default_value_t = 64)]
    states: usize,
    /// Cells of a block
    #[arg(long, value_name = "N", default_value_t = 32)]
    block: usize,
    /// Blocks per update
    #[arg(long, value_name = "N", default_value_t = 32)]
    batch: usize,
    /// Rounds of Baum–Welch on the answers before the first update
    #[arg(long, value_name = "N", default_value_t = 20)]
    rounds: usize,
    /// Temperature of the model's marginals
    #[arg(long, value_name = "T", default_value_t = 1.0)]
    tau: f32,
}

/// Trains the prior.
pub(super) fn run(args: &PriorArgs) -> Result<()> {
    let folder = args.pace.folder();
    args.source.with(|model, source| {
        let seed = args.source.seed;
        let eos = model.ids().eos.first().copied();
        let room = model.backbone().spec().max_positions;
        let answers = answers(source, args.source.limit, args.source.length, eos, room)?;
        let shape = PriorShape {
            states: args.states,
            block: args.block,
            batch: args.batch,
            held: 8 * args.batch,
            rounds: args.rounds,
            tau: args.tau,
        };
        let optimizer = AdamW { beta2: 0.99, weight_decay: 0.0, ..AdamW::default() };
        let settings =
            args.pace.settings(400, Schedule { peak: 2e-2, warmup: 20, floor: 0.1 }, optimizer, seed);
        let identity = identity(model, source, &(shape, args.source.length, answers.len()));
        let mut objective = PriorObjective::new(model.backbone(), &answers, shape, seed)?;
        let training = Training { settings: &settings, folder: &folder, identity: &identity };
        if let Some(outcome) = train(&training, &mut objective)? {
            folder_of(&args.pace.out)?;
            objective.save(&args.pace.out, &source.identity(), &outcome)?;
            println!("{}: use it with -s codd --prior", args.pace.out.display());
        }
        Ok(())
    })
}

/// Answers that fit into `length` cells, filled up with their end.
fn answers(
    source: &dyn ResponseSource,
    limit: usize,
    length: usize,
    eos: Option<u32>,
    room: usize,
) -> Result<Vec<Answer>> {
    let rows = source.read(0..source.len().min(limit))?;
    let mut answers = Vec::new();
    for row in rows.into_iter().flatten() {
        let mut response = row.response;
        if response.len() >= length || row.prompt.is_empty() || row.prompt.len() + length > room {
            continue;
        }
        match eos {
            Some(eos) => response.resize(length, eos),
            None if response.is_empty() => continue,
            None => {}
        }
        answers.push(Answer { prompt: row.prompt, response });
    }
    if answers.len() < 2 {
        bail!("fewer than two answers fit into {length} cells; raise --length");
    }
    Ok(answers)
}
