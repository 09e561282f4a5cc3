//! A model in this process.

use anyhow::Result;
use demask_decode::StrategySpec;
use demask_model::text::Message;

use super::{Args, Partner, joined};
use crate::decoding::decode;
use crate::loaded::Loaded;

pub(super) struct Local<'a> {
    loaded: Loaded,
    args: &'a Args,
}

impl<'a> Local<'a> {
    /// Loads the model the flags name.
    pub(super) fn open(args: &'a Args) -> Result<Self> {
        Ok(Self { loaded: Loaded::open(&args.model)?, args })
    }
}

impl Partner for Local<'_> {
    fn name(&self) -> String {
        self.loaded.folder.display().to_string()
    }

    fn default_strategy(&self) -> String {
        self.loaded.strategy(&self.args.decode).to_string()
    }

    fn check(&self, strategy: &StrategySpec) -> Result<()> {
        strategy.build(&self.loaded.context)?;
        Ok(())
    }

    fn answer(&self, messages: &[Message], strategy: Option<&StrategySpec>, seed: u64) -> Result<String> {
        let ids = match self.loaded.chat {
            Some(_) => self.loaded.encode_chat(messages)?,
            None => self.loaded.encode_prompt(&joined(messages), true)?,
        };
        let canvas = self.loaded.canvas(&ids, &self.args.decode)?;
        let mut options = self.loaded.options(&self.args.decode, ids.len())?;
        options.seed = seed;
        let strategy = strategy.cloned().unwrap_or_else(|| self.loaded.strategy(&self.args.decode));
        let finished = decode(&self.loaded, canvas, &strategy, options, &self.args.show.watching())?;
        let text = self.loaded.text(finished.job.canvas())?;
        println!("{text}");
        if self.args.show.stats {
            finished.tell();
        }
        Ok(text)
    }
}
