//! `demask train policy`: the network of the strategy policy, by the reward of its decodings or by what decoding one token
//! at a time finally writes.
//!
//! The only place where the checkers of `eval` meet the policy's training.

use anyhow::Result;
use clap::ValueEnum;
use demask::Model;
use demask::eval::task::{self, Problem, Split, Task};
use demask::train::data::{Content, Encoder};
use demask::train::error::Error;
use demask::train::optimizer::AdamW;
use demask::train::part::Training;
use demask::train::part::grpo::{Environment, Grpo, GrpoObjective};
use demask::train::part::imitation::Imitation;
use demask::train::part::network::PolicyShape;
use demask::train::schedule::Schedule;

use super::source::{Pace, SourceArgs, identity};
use super::terminal::{folder_of, train};
use crate::command::tv_cache::data::Data;

/// Trains an unmasking policy, for the strategy policy; continues by itself where it was stopped
#[derive(Debug, clap::Args)]
pub(super) struct PolicyArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    pace: Pace,
    /// What it is taught by
    #[arg(long, value_enum, default_value_t = TargetArg::Reward)]
    target: TargetArg,
    /// Width of the network
    #[arg(long, value_name = "N", default_value_t = 128)]
    hidden: usize,
    /// Decodings of each prompt, for rewards
    #[arg(long, value_name = "N", default_value_t = 8)]
    group: usize,
    /// Problems held out, which the reward is told on
    #[arg(long, default_value_t = 64, value_name = "N")]
    held: usize,
    /// Prompts per update, for rewards; states per update, for what is finally written
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// How much speed is worth: reward = right · ((N − passes + 1)/N)^alpha
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    alpha: f64,
    /// Length of blocks; the whole response if not given
    #[arg(long, value_name = "N")]
    block_length: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TargetArg {
    /// The reward of its own decodings of tasks (GRPO); --data must be task:NAME,…
    Reward,
    /// Whether the most probable token is the one finally written (Learn2PD)
    Final,
}

/// Trains the policy.
pub(super) fn run(args: &PolicyArgs) -> Result<()> {
    match args.target {
        TargetArg::Reward => by_reward(args),
        TargetArg::Final => by_what_is_written(args),
    }
}

impl PolicyArgs {
    fn shape(&self) -> PolicyShape {
        PolicyShape { hidden: self.hidden, feed_forward: 4 * self.hidden, ..PolicyShape::default() }
    }
}

fn by_what_is_written(args: &PolicyArgs) -> Result<()> {
    let folder = args.pace.folder();
    args.source.with(|model, source| {
        let (seed, batch) = (args.source.seed, args.batch.unwrap_or(32));
        let trajectories = args.source.trajectories(model, source, &folder, 0.0, None)?;
        let optimizer = AdamW { beta2: 0.999, ..AdamW::default() };
        let settings =
            args.pace.settings(1000, Schedule { peak: 1e-3, warmup: 50, floor: 0.1 }, optimizer, seed);
        let identity =
            identity(model, source, &(args.shape(), batch, args.source.length, trajectories.len()));
        let mut objective =
            Imitation::new(model.backbone(), &trajectories, args.shape(), batch, 8 * batch, seed)?;
        let training = Training { settings: &settings, folder: &folder, identity: &identity };
        if let Some(outcome) = train(&training, &mut objective)? {
            folder_of(&args.pace.out)?;
            objective.network.save(&args.pace.out, model.backbone(), &source.identity(), &outcome)?;
            println!("{}: use it with -s policy:mode=threshold --policy", args.pace.out.display());
        }
        Ok(())
    })
}

fn by_reward(args: &PolicyArgs) -> Result<()> {
    if !args.source.data.starts_with("task:") {
        usage!("rewards need answers that can be checked; give --data task:NAME,…, or --target final");
    }
    let (model, folder, seed) = (args.source.model.open()?, args.pace.folder(), args.source.seed);
    let data = Data::open(&args.source.data, Some(args.source.limit), seed)?;
    let encoder = data.encoder(&model, args.source.raw);
    let Data::Tasks { tasks, .. } = data else { usage!("--data task:NAME,… names tasks") };
    let mut problems = Problems { tasks, model: &model, encoder, seed };
    let settings = Grpo {
        group: args.group,
        prompts: args.batch.unwrap_or(4),
        length: args.source.length,
        block: args.block_length,
        alpha: args.alpha,
        epsilon: 0.5,
        uses: 2,
        held: args.held,
        first_held: args.source.limit as u64,
    };
    let names: Vec<String> = problems.tasks.iter().map(|t| format!("{}-{}", t.name(), t.version())).collect();
    let trained_on = format!("task:{}:{seed}, alpha {}", names.join(","), args.alpha);
    let identity = format!("{} {trained_on} {settings:?} {:?}", model.backbone().fingerprint(), args.shape());
    let optimizer = AdamW { beta2: 0.99, weight_decay: 0.1, clip: 0.2, ..AdamW::default() };
    let pace = args.pace.settings(200, Schedule { peak: 3e-4, warmup: 10, floor: 0.0 }, optimizer, seed);
    let mut objective = GrpoObjective::new(model.backbone(), &mut problems, args.shape(), settings, seed)?;
    let training = Training { settings: &pace, folder: &folder, identity: &identity };
    if let Some(outcome) = train(&training, &mut objective)? {
        folder_of(&args.pace.out)?;
        objective.network.save(&args.pace.out, model.backbone(), &trained_on, &outcome)?;
        println!("{}: use it with -s policy --policy", args.pace.out.display());
    }
    Ok(())
}

/// Generated problems, the tasks in turn.
struct Problems<'a> {
    tasks: Vec<Box<dyn Task>>,
    model: &'a Model,
    encoder: Encoder,
    seed: u64,
}

impl Problems<'_> {
    fn problem(&self, index: u64) -> (&dyn Task, Problem) {
        let task = self.tasks[index as usize % self.tasks.len()].as_ref();
        (task, task::problem_at(task, Split::Train, self.seed, index))
    }
}

impl Environment for Problems<'_> {
    fn prompt(&mut self, index: u64) -> demask::train::error::Result<Vec<u32>> {
        let problem = self.problem(index).1;
        let content = Content::Pair { prompt: problem.prompt, response: problem.response };
        let encoded = self.encoder.encode(&content);
        encoded.map(|(prompt, _)| prompt).map_err(|problem| Error::Example { index, problem })
    }

    fn is_right(&mut self, index: u64, response: &[u32]) -> demask::train::error::Result<bool> {
        let text = self.model.tokenizer().decode_response(response, &self.model.ids().eos)?;
        let (task, problem) = self.problem(index);
        let score = task.score(&problem, &text);
        Ok(score.correct && score.strict.unwrap_or(true))
    }
}
