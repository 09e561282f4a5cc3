//! `demask train prior`: the hidden Markov model of the strategy codd.

use anyhow::Result;
use demask::train::optimizer::AdamW;
use demask::train::part::Training;
use demask::train::part::prior::{PriorObjective, PriorShape, answers};
use demask::train::schedule::Schedule;

use super::source::{Pace, SourceArgs, identity};
use super::terminal::{folder_of, train};

/// Trains a prior of text, for the strategy codd; continues by itself where it was stopped
#[derive(Debug, clap::Args)]
pub(super) struct PriorArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    pace: Pace,
    /// Hidden states
    #[arg(long, value_name = "N", default_value_t = 64)]
    states: usize,
    /// Cells of a block
    #[arg(long = "block-length", alias = "block", value_name = "N", default_value_t = 32)]
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
