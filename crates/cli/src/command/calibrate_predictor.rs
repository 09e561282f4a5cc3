//! `demask calibrate-predictor`: which hidden row a predictor was trained on, measured where its file does not say.

use anyhow::{Result, bail};
use demask::counted;
use demask::decode::dependency::Calibrated;
use demask::train::calibrate::Calibration;

use crate::args::ModelArgs;
use crate::measured::MeasuredArgs;

/// Measures which hidden row a predictor was trained on, and writes the answer beside it
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    measured: MeasuredArgs,
    /// Responses to measure, two masks each
    #[arg(long, default_value_t = 24, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let model = args.model.open()?;
    let (Some(predictor), Some(understanding)) = (model.predictor(), model.understanding()) else {
        usage!("there is no predictor to calibrate; name one with --predictor FILE|DIR|NAME");
    };
    let examples = args.measured.examples(&model, args.limit, 0.0)?;
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
    if understanding.says_hidden_row() {
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
