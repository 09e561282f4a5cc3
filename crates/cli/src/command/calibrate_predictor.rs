//! `demask calibrate-predictor`: which hidden row a predictor was trained on, measured where its file does not say.

use anyhow::{Result, bail};
use demask::decode::dependency::Calibrated;
use demask::train::calibrate::Calibration;
use demask::train::data::Encoder;
use demask::train::tv_cache::{Generator, HiddenRows, Stored, TvCacheSettings};
use demask::{Shard, counted};

use crate::args::ModelArgs;
use crate::command::tv_cache::data::Data;

/// Measures which hidden row a predictor was trained on, and writes the answer beside it
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Responses: a .jsonl or .parquet file, a folder of them, a Hub dataset (org/name[@revision]), or task:NAME,…
    #[arg(long, default_value = "task:all", value_name = "DATA")]
    data: String,
    /// Take texts as they are, without the chat template
    #[arg(long)]
    raw: bool,
    /// Fill responses up with EOS to one of these lengths, as the canvas is when decoding
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pad_to: Vec<usize>,
    /// Responses to measure, two masks each
    #[arg(long, default_value_t = 24, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Tokens that go through the model at once; bounds the memory
    #[arg(long, default_value_t = 8192, value_name = "N")]
    token_budget: usize,
    /// Seed of masks and draws
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let model = args.model.open()?;
    let (Some(predictor), Some(understanding)) = (model.predictor(), model.understanding()) else {
        usage!("there is no predictor to calibrate; name one with --predictor FILE|DIR|NAME");
    };
    let data = Data::open(&args.data, Some(args.limit as usize), args.seed)?;
    let template = model.text().chat().filter(|_| !args.raw).cloned();
    let end_of_turn = matches!(data, Data::Files(_));
    let encoder = Encoder::new(model.tokenizer().clone(), template).with_end_of_turn(end_of_turn);
    let settings = TvCacheSettings {
        seed: args.seed,
        masks_per_response: 2,
        pad_to: args.pad_to.clone(),
        repeat_share: 0.0,
        limit: args.limit as usize,
        hidden: HiddenRows::Both,
        hidden_dtype: Stored::F32,
        ..TvCacheSettings::default()
    };
    let examples = Generator {
        backbone: model.backbone(),
        source: &*data.source(&encoder),
        settings: &settings,
        folder: std::path::Path::new(""),
        token_budget: args.token_budget,
        shard: Shard::WHOLE,
    }
    .examples()?;
    let calibration = Calibration::of(predictor, &examples)?;
    let answer = calibration.answer();
    print!("{calibration}");
    if !calibration.beats_a_constant() {
        eprintln!(
            "warning: this predictor is worse than a constant here (MSE {:.6}); is it of this model?",
            answer.mse
        );
    }
    if !calibration.is_certain() {
        eprintln!("warning: the two errors are too close to be sure; measure more responses with --limit");
    }
    // A file that says it needs nothing beside it.
    let said = understanding.metadata.hidden_row;
    let assumed = understanding.assumed.iter().any(|what| what.contains("hidden row"));
    if !assumed && understanding.beside.is_none() {
        println!("the file says hidden row {said}, measured is {}", answer.row);
        if said != answer.row {
            bail!(
                "the file of the predictor says hidden row {said}, but hidden row {} fits better",
                answer.row
            );
        }
        return Ok(());
    }
    let measured = format!(
        "demask calibrate-predictor: MSE {:.6} with row i and {:.6} with row i-1, {}",
        calibration.conventions[0].mse,
        calibration.conventions[1].mse,
        counted(calibration.pairs, "pair")
    );
    let path = Calibrated { hidden_row: answer.row, measured }.write(&understanding.path)?;
    println!("hidden row {}, written to {}", answer.row, path.display());
    Ok(())
}
