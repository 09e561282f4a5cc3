//! The builder of answers: what is chosen, for one prompt or for many, and how it is run.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use demask_decode::observer::Metrics;
use demask_decode::{EosPolicy, Job, Observer, Observers, Strategy};

use crate::answer::Answer;
use crate::batch::Batch;
use crate::decoding::Decoding;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::prompt::{Prompt, Shown};
use crate::steps::{Own, Steps};
use crate::trace::{Recording, header};

/// Tokens of all canvases of a batch that are decoded at once.
const TOKEN_BUDGET: usize = 4096;

/// One prompt.
pub struct One {
    prompt: Prompt,
    observers: Observers,
    trace: Option<(PathBuf, bool)>,
    own: Option<Own>,
}

/// Several prompts, decoded together.
pub struct Many {
    prompts: Vec<Prompt>,
    streams: Vec<u64>,
    token_budget: usize,
    observer: Option<ObserverOf>,
}

/// Makes the observer of the prompt with a number.
type ObserverOf = Box<dyn FnMut(usize) -> Box<dyn Observer>>;

/// What is to be decoded and how; nothing happens before it is run.
///
/// ```
/// use demask_engine::Model;
///
/// let model = Model::embedded()?;
/// let answer = model.generate("Say hello.").strategy("entropy:k=4").length(16).seed(7).run()?;
/// assert_eq!((answer.response().len(), answer.strategy.as_str()), (16, "entropy:k=4"));
/// # Ok::<(), demask_engine::Error>(())
/// ```
#[must_use = "nothing is decoded before it is run"]
pub struct Generate<'m, P> {
    model: &'m Model,
    prompt: P,
    decoding: Decoding,
    /// Whether steps are kept for [`Answer::trace`], and with their dependency matrices.
    recorded: Option<bool>,
    /// The first mistake in a choice; told when it is run.
    mistake: Option<Error>,
}

impl<P> Generate<'_, P> {
    /// Everything at once; what was chosen before is forgotten.
    pub fn decoding(mut self, decoding: Decoding) -> Self {
        self.decoding = decoding;
        self
    }

    /// The strategy, `NAME[:key=value,…]`.
    pub fn strategy(mut self, spelling: impl AsRef<str>) -> Self {
        let parsed = self.model.parse_strategy(spelling.as_ref());
        self.decoding.strategy = self.keep(parsed);
        self
    }

    /// Keys and values kept between steps, `NAME[:key=value,…]`.
    pub fn cache(mut self, spelling: impl AsRef<str>) -> Self {
        let parsed = spelling.as_ref().parse().map_err(Error::from);
        self.decoding.cache = self.keep(parsed).unwrap_or_default();
        self
    }

    /// Length of the response canvas.
    pub fn length(mut self, tokens: usize) -> Self {
        self.decoding.length = Some(tokens);
        self
    }

    /// 0 takes the most probable tokens.
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.decoding.temperature = Some(temperature);
        self
    }

    /// Keep the smallest set of tokens with this much probability.
    pub fn top_p(mut self, probability: f32) -> Self {
        self.decoding.top_p = Some(probability);
        self
    }

    /// Keep this many tokens.
    pub fn top_k(mut self, tokens: usize) -> Self {
        self.decoding.top_k = Some(tokens);
        self
    }

    /// Seed of all randomness.
    pub fn seed(mut self, seed: u64) -> Self {
        self.decoding.seed = seed;
        self
    }

    /// What happens after an end of sequence.
    pub fn eos(mut self, policy: EosPolicy) -> Self {
        self.decoding.eos = policy;
        self
    }

    /// Decode left to right in blocks of this many tokens.
    pub fn block_length(mut self, tokens: usize) -> Self {
        self.decoding.block_length = Some(tokens);
        self
    }

    /// Keeps every step for [`Answer::trace`], with the dependency matrices if wanted.
    pub fn record(mut self, dependency: bool) -> Self {
        self.recorded = Some(dependency);
        self
    }

    /// The first mistake is kept until it is run.
    fn keep<T>(&mut self, parsed: Result<T>) -> Option<T> {
        parsed.map_err(|mistake| self.mistake.get_or_insert(mistake)).ok()
    }
}

impl<'m> Generate<'m, One> {
    pub(crate) fn one(model: &'m Model, prompt: Prompt) -> Self {
        let prompt = One { prompt, observers: Observers::default(), trace: None, own: None };
        Self { model, prompt, decoding: Decoding::default(), recorded: None, mistake: None }
    }

    /// Somebody who watches; may be given several times.
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        self.prompt.observers.0.push(Box::new(observer));
        self
    }

    /// A strategy made elsewhere instead of one by name; `name` stands for it in traces and messages.
    pub fn own_strategy(mut self, name: impl Into<String>, strategy: Box<dyn Strategy>) -> Self {
        self.prompt.own = Some((name.into(), strategy));
        self
    }

    /// Writes every step into this file as JSON lines, with the dependency matrices if wanted.
    pub fn trace(mut self, file: impl Into<PathBuf>, dependency: bool) -> Self {
        self.prompt.trace = Some((file.into(), dependency));
        self
    }

    /// The decoding step by step.
    pub fn steps(self) -> Result<Steps> {
        let Self { model, prompt: One { prompt, mut observers, trace, own }, decoding, recorded, mistake } =
            self;
        mistake.map_or(Ok(()), Err)?;
        let (canvas, shown) = model.draft(&prompt, &decoding)?;
        let recording = Recording::watch(recorded, &mut observers);
        Ok(Steps::begin(model, (canvas, shown), (&decoding, own), observers, trace)?.recorded(recording))
    }

    /// Decodes to the end.
    pub fn run(self) -> Result<Answer> {
        let mut steps = self.steps()?;
        let outcome = steps.by_ref().try_for_each(|step| step.map(drop));
        // Also after a failure the trace tells how far it came.
        let answer = steps.finish();
        outcome.and(answer)
    }
}

impl<'m> Generate<'m, Many> {
    pub(crate) fn many(model: &'m Model, prompts: Vec<Prompt>) -> Self {
        let prompt = Many { prompts, streams: Vec::new(), token_budget: TOKEN_BUDGET, observer: None };
        Self { model, prompt, decoding: Decoding::default(), recorded: None, mistake: None }
    }

    /// Tokens of all canvases that are decoded at once; one canvas always is.
    pub fn token_budget(mut self, tokens: usize) -> Self {
        self.prompt.token_budget = tokens;
        self
    }

    /// The stream of each prompt's randomness, instead of one after the other from [`Decoding::stream`] on; prompts beyond
    /// the last have those.
    pub fn streams(mut self, streams: Vec<u64>) -> Self {
        self.prompt.streams = streams;
        self
    }

    /// Somebody who watches each prompt, by its number.
    pub fn observers(mut self, observer_of: impl FnMut(usize) -> Box<dyn Observer> + 'static) -> Self {
        self.prompt.observer = Some(Box::new(observer_of));
        self
    }

    /// Decodes all of them to the end; answers stand in the order of the prompts. Randomness differs from prompt to
    /// prompt, and that of the first is what it would be alone.
    pub fn run(self) -> Result<Vec<Answer>> {
        let Self {
            model,
            prompt: Many { prompts, streams, token_budget, mut observer },
            decoding,
            recorded,
            mistake,
        } = self;
        mistake.map_or(Ok(()), Err)?;
        let mut answers: Vec<Option<Answer>> = prompts.iter().map(|_| None).collect();
        let mut waiting = prompts.iter().enumerate().map(|(number, prompt)| {
            let stream =
                streams.get(number).copied().unwrap_or_else(|| decoding.stream.wrapping_add(number as u64));
            let decoding = Decoding { stream, ..decoding.clone() };
            let watch = observer.as_mut().map_or_else(|| Box::new(()) as Box<dyn Observer>, |of| of(number));
            let mut observers = Observers(vec![watch]);
            let recording = Recording::watch(recorded, &mut observers);
            let (owner, job) = begin(model, prompt, &decoding, observers)?;
            let recording = recording.map(|recording| (header(model, &job), recording));
            Ok::<_, Error>(((number, owner, recording), job))
        });
        let mut batch = Batch::new(model.backbone(), token_budget);
        while let Some(done) = batch.advance(&mut waiting)? {
            for member in done {
                let (number, (shown, metrics), recording) = member.owner;
                let metrics = metrics.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let answer = Answer::new(model, &member.job, shown, metrics, member.seconds)?;
                let trace = recording.map(|(header, recording)| recording.trace(header));
                answers[number] = Some(Answer { trace, ..answer });
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }
}

type Watched = (Shown, Arc<Mutex<Metrics>>);

fn begin(
    model: &Model,
    prompt: &Prompt,
    decoding: &Decoding,
    mut observers: Observers,
) -> Result<(Watched, Job)> {
    let (canvas, shown) = model.draft(prompt, decoding)?;
    let metrics = Arc::new(Mutex::new(Metrics::default()));
    observers.0.push(Box::new(metrics.clone()));
    Ok(((shown, metrics), model.job(canvas, decoding, Box::new(observers))?))
}
