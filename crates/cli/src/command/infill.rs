//! `demask infill`: decides the gaps of a text; everything else stays as it is.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use demask::decode::observer::Recorder;
use demask::engine::gaps;
use demask::{Error, Prompt};

use crate::Usage;
use crate::args::{DecodeArgs, ModelArgs};
use crate::command::generate::{Ids, ShowArgs, remark, show, show_ids};

/// Fills the gaps of a text: [MASK] is one token, [MASK:5] is five
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The text with its gaps
    #[arg(required_unless_present = "ids")]
    pub text: Option<String>,
    /// The text as token ids, the mask's own id for every gap; a checkpoint folder without a tokenizer will do
    #[arg(long, value_name = "ID,…", conflicts_with_all = ["text", "prompt"])]
    pub ids: Option<Ids>,
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
    let (model, prompt) = match (&args.ids, &args.text) {
        (Some(ids), _) => (args.model.open_by_ids()?, Prompt::Gaps(ids.0.clone())),
        (None, text) => {
            let text = text.as_deref().unwrap_or_default();
            // A misspelt gap is told before anything is loaded.
            gaps::split(text).map_err(demask::Error::from)?;
            let prompt = Prompt::infill(text);
            let prompt = match &args.prompt {
                Some(before) => prompt.behind(before),
                None => prompt,
            };
            (args.model.open()?, prompt)
        }
    };
    remark(&model, &prompt)?;
    let decoding = args.decode.decoding_with(&model);
    let recorder = Arc::new(Mutex::new(Recorder::default()));
    let generate = model.generate(prompt).decoding(decoding.clone()).observer(recorder.clone());
    let answer = args.show.watched(generate, &model).run().map_err(hint)?;
    if args.ids.is_none() || !args.show.json {
        return show(&answer, &args.show);
    }
    let recorder = recorder.lock().unwrap_or_else(PoisonError::into_inner);
    show_ids(&answer, &recorder.records, &model, decoding.block_length, &args.show)
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
