//! What follows `--data`: files of conversations, a dataset of the Hub, or problems of the tasks.

use std::path::Path;

use anyhow::Result;
use demask::Model;
use demask::eval::run::names;
use demask::eval::task::{self, Split, Task};
use demask::hub_options;
use demask::model::checkpoint::source;
use demask::train::data::{self, Content, Encoded, Encoder, Records};
use demask::train::tv_cache::{Generated, Response, ResponseSource};

use crate::downloads::Downloads;

/// Generated problems taken when no limit is given.
const PROBLEMS: usize = 2000;

/// Where responses come from.
pub(crate) enum Data {
    /// Rows of files.
    Files(Box<dyn Records>),
    /// Problems of the training split, the tasks in turn.
    Tasks {
        /// The tasks.
        tasks: Vec<Box<dyn Task>>,
        /// How many problems.
        count: usize,
        /// Seed of the problems.
        seed: u64,
    },
}

impl Data {
    /// Opens what the flag names.
    pub(crate) fn open(text: &str, limit: Option<usize>, seed: u64) -> Result<Self> {
        if let Some(listed) = text.strip_prefix("task:") {
            return Ok(Self::Tasks { tasks: names::tasks(listed)?, count: limit.unwrap_or(PROBLEMS), seed });
        }
        let path = Path::new(text);
        if path.exists() {
            return Ok(Self::Files(data::open(path)?));
        }
        let folder = source::resolve_dataset(text, &hub_options(), &mut Downloads::default())?;
        Ok(Self::Files(data::open(&folder)?))
    }

    /// How its texts become the model's tokens. Small models pre-trained on the tasks end a response with EOS alone, so
    /// their problems are not given the template's end of turn.
    pub(crate) fn encoder(&self, model: &Model, raw: bool) -> Encoder {
        let template = model.text().chat().filter(|_| !raw).cloned();
        Encoder::new(model.tokenizer().clone(), template).with_end_of_turn(matches!(self, Self::Files(_)))
    }

    /// The responses as token ids.
    pub(crate) fn source<'a>(&'a self, encoder: &'a Encoder) -> Box<dyn ResponseSource + 'a> {
        match self {
            Self::Files(records) => Box::new(Encoded { records: records.as_ref(), encoder }),
            Self::Tasks { tasks, count, seed } => {
                let names: Vec<String> =
                    tasks.iter().map(|t| format!("{}-{}", t.name(), t.version())).collect();
                let identity = format!("task:{}:{seed}:{count}", names.join(","));
                let make = move |index: usize| problem(tasks, *seed, index, encoder);
                Box::new(Generated { identity, len: *count, make })
            }
        }
    }
}

fn problem(tasks: &[Box<dyn Task>], seed: u64, index: usize, encoder: &Encoder) -> Result<Response, String> {
    let task = tasks[index % tasks.len()].as_ref();
    let problem = task::problem_at(task, Split::Train, seed, index as u64);
    let content = Content::Pair { prompt: problem.prompt, response: problem.response };
    let (prompt, response) = encoder.encode(&content)?;
    Ok(Response { id: format!("{}/{seed}/{index}", task.name()), prompt, response })
}
