//! `demask train adjust`: the layer of the strategy adjust, taught by the model's own decodings.

use anyhow::Result;
use demask::train::optimizer::AdamW;
use demask::train::part::Training;
use demask::train::part::adjust::{AdjustObjective, Shape, save};
use demask::train::schedule::Schedule;

use super::source::{Pace, SourceArgs, identity};
use super::terminal::{folder_of, train};

/// Trains ADJUST's layer, for the strategy adjust; continues by itself where it was stopped
#[derive(Debug, clap::Args)]
pub(super) struct AdjustArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    pace: Pace,
    /// Deepest chain of the layer on itself; it is meant for one token more per pass
    #[arg(long, value_name = "N", default_value_t = 3)]
    depth: usize,
    /// Windows of states per update
    #[arg(long, value_name = "N", default_value_t = 32)]
    batch: usize,
    /// Temperature of the decodings it learns from
    #[arg(long, value_name = "T", default_value_t = 0.1)]
    temperature: f32,
    /// Nucleus of the decodings it learns from
    #[arg(long, value_name = "P", default_value_t = 0.9)]
    top_p: f32,
}

/// Trains the layer.
pub(super) fn run(args: &AdjustArgs) -> Result<()> {
    let folder = args.pace.folder();
    args.source.with(|model, source| {
        let seed = args.source.seed;
        let trajectories =
            args.source.trajectories(model, source, &folder, args.temperature, Some(args.top_p))?;
        let shape = Shape { depth: args.depth, batch: args.batch, held: 4 * args.batch };
        let optimizer = AdamW { beta2: 0.999, weight_decay: 0.0, ..AdamW::default() };
        let rate = Schedule { peak: 3e-4, warmup: 250, floor: 1.0 };
        let settings = args.pace.settings(2000, rate, optimizer, seed);
        let identity = identity(model, source, &(shape, args.source.length, trajectories.len()));
        let mut objective = AdjustObjective::new(model.backbone(), &trajectories, shape, seed)?;
        let training = Training { settings: &settings, folder: &folder, identity: &identity };
        if let Some(outcome) = train(&training, &mut objective)? {
            folder_of(&args.pace.out)?;
            save(&args.pace.out, model.backbone(), &source.identity(), &outcome)?;
            println!("{}: use it with -s adjust --sampler-layer", args.pace.out.display());
        }
        Ok(())
    })
}
