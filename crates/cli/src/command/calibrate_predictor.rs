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
    /// Most responses to measure, two masks each; 16 first, then more until the answer is certain
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// What helps where an answer is not certain.
const MORE: &str = "measure responses of the kind it was trained on (--data), or more of them (--limit)";
/// Responses that are measured before the first look.
const FIRST: usize = 16;

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let model = args.model.open()?;
    let (Some(predictor), Some(understanding)) = (model.predictor(), model.understanding()) else {
        usage!("there is no predictor to calibrate; name one with --predictor FILE|DIR|NAME");
    };
    let ends = &model.backbone().spec().ids.eos;
    let examples = args.measured.until(&model, FIRST, args.limit as usize, 0.0, |examples| {
        // Too few pairs to compare are no reason to stop before the last response.
        Ok(Calibration::of(predictor, examples, ends).is_ok_and(|calibration| calibration.is_certain()))
    })?;
    let calibration = Calibration::of(predictor, &examples, ends)?;
    let answer = calibration.answer();
    print!("{calibration}");
    if !calibration.beats_a_constant() {
        eprintln!(
            "warning: this predictor is worse than a constant here (MSE {:.6}); is it of this model?",
            answer.mse
        );
    }
    // A file that says it needs nothing beside it.
    let said = understanding.metadata.hidden_row;
    if understanding.says_hidden_row() {
        println!("the file says hidden row {said}, measured is {}", answer.row);
        if !calibration.is_certain() {
            eprintln!("warning: this is not certain; {MORE}");
        }
        if said != answer.row && calibration.is_certain() {
            bail!(
                "the file of the predictor says hidden row {said}, but hidden row {} fits better",
                answer.row
            );
        }
        return Ok(());
    }
    // A guess beside the file would pass for an answer.
    if !calibration.is_certain() {
        bail!("these responses do not tell the two hidden rows apart, so nothing is written; {MORE}");
    }
    let measured = format!(
        "demask calibrate-predictor: covariance {:+.2e} with row i and {:+.2e} with row i-1, {}; by chance with probability {:.1e}",
        calibration.conventions[0].covariance,
        calibration.conventions[1].covariance,
        counted(calibration.pairs, "pair"),
        calibration.chance()
    );
    let path = Calibrated { hidden_row: answer.row, measured }.write(&understanding.path)?;
    println!("hidden row {}, written to {}", answer.row, path.display());
    Ok(())
}
