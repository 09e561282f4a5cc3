//! `demask infill`: decides the gaps of a text; everything else stays as it is.

use anyhow::Result;
use demask::engine::gaps;
use demask::{Error, Prompt};

use crate::Usage;
use crate::args::{DecodeArgs, ModelArgs};
use crate::command::generate::{ShowArgs, show};

/// Fills the gaps of a text: [MASK] is one token, [MASK:5] is five
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The text with its gaps
    pub text: String,
    /// A prompt in front, which stays fixed and is not printed
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    decode: DecodeArgs,
    #[command(flatten)]
    show: ShowArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    // A misspelt gap is told before anything is loaded.
    gaps::split(&args.text).map_err(demask::Error::from)?;
    let model = args.model.open()?;
    let prompt = Prompt::infill(&args.text);
    let prompt = match &args.prompt {
        Some(before) => prompt.behind(before),
        None => prompt,
    };
    let generate = model.generate(prompt).decoding(args.decode.decoding_with(&model));
    let answer = args.show.watched(generate, &model).run().map_err(hint)?;
    show(&answer, &args.show)
}

fn hint(error: Error) -> anyhow::Error {
    match error {
        Error::NothingBefore => Usage(
            "the text begins with a gap; this model predicts each token from the one before it: put something in front, \
             or give --prompt"
                .into(),
        )
        .into(),
        other => other.into(),
    }
}
