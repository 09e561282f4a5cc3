//! A model in this process.

use std::cell::RefCell;

use anyhow::Result;
use demask::decode::StrategySpec;
use demask::{Decoding, Message, Model, Prompt};

use super::{Args, Partner, joined, once};
use crate::command::generate::{remark, tell};

pub(super) struct Local<'a> {
    model: Model,
    args: &'a Args,
    /// What was said of the chat template, which is said once.
    told: RefCell<Vec<String>>,
}

impl<'a> Local<'a> {
    /// Loads the model the flags name.
    pub(super) fn open(args: &'a Args) -> Result<Self> {
        let model = args.model.open()?;
        args.decode.decoding_with(&model);
        Ok(Self { model, args, told: RefCell::default() })
    }
}

impl Partner for Local<'_> {
    fn name(&self) -> String {
        self.model.text().source().display().to_string()
    }

    fn default_strategy(&self) -> String {
        self.model.strategy(&self.args.decode.decoding()).to_string()
    }

    fn check(&self, strategy: &StrategySpec) -> Result<()> {
        strategy.build(self.model.context())?;
        Ok(())
    }

    fn answer(&self, messages: &[Message], strategy: Option<&StrategySpec>, seed: u64) -> Result<String> {
        let prompt = match self.model.text().chat() {
            Some(_) => {
                once(&self.told, self.model.text().left_out(messages));
                Prompt::from(messages)
            }
            None => Prompt::Raw(joined(messages)),
        };
        remark(&self.model, &prompt)?;
        let usual = self.args.decode.decoding();
        let decoding = Decoding { seed, strategy: strategy.cloned().or(usual.strategy.clone()), ..usual };
        let generate = self.model.generate(prompt).decoding(decoding);
        let answer = self.args.show.watched(generate, &self.model).run()?;
        println!("{}", answer.text);
        if self.args.show.stats {
            tell(&answer);
        }
        Ok(answer.text)
    }
}
