//! A loaded model in Python.

use std::sync::{Arc, Mutex};

use demask::model::checkpoint::Dtype;
use demask::model::checkpoint::source::Progress as Downloads;
use demask::model::{LoadOptions, Precision};
use demask::{Loader, Prompt};
use demask_cli::host::Progress;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::answer::{Answer, bytes};
use crate::decoding::{Choices, Given};
use crate::error::{command, exception, library};
use crate::own::{Failure, with_strategies};
use crate::stream::Stream;
use crate::watch::{Stopper, Watch, watched};

/// Responses scored between two looks at Ctrl-C.
const SCORED_TOGETHER: usize = 8;

/// A checkpoint ready to use.
#[pyclass(frozen, module = "demask._native")]
pub(crate) struct Model {
    pub(crate) inner: demask::Model,
    pub(crate) failure: Failure,
}

/// Shows downloads as progress.
struct Bar<'w> {
    watch: &'w Watch,
    file: String,
    done: u64,
    total: u64,
}

impl Downloads for Bar<'_> {
    fn begin(&mut self, file: &str, bytes: u64) {
        (self.file, self.done, self.total) = (file.to_owned(), 0, bytes);
    }

    fn advance(&mut self, bytes: u64) {
        self.done += bytes;
        let message = self.file.clone();
        let _ = self.watch.show(&Progress { unit: "bytes", done: self.done, total: self.total, message });
    }

    fn finish(&mut self) {}

    fn warn(&mut self, sentence: &str) {
        let message = sentence.to_owned();
        let _ = self.watch.show(&Progress { unit: "bytes", done: self.done, total: self.total, message });
    }

    fn stopped(&mut self) -> bool {
        self.watch.flow().is_break()
    }
}

fn precision(name: &str) -> PyResult<Precision> {
    Ok(match name {
        "f32" => Precision::Float(Dtype::F32),
        "bf16" => Precision::Float(Dtype::Bf16),
        "f16" => Precision::Float(Dtype::F16),
        "int8" => Precision::INT8,
        "q4" => Precision::Q4,
        _ => return Err(exception(format!("dtype is {name:?}, must be f32, bf16, f16, int8 or q4"), true)),
    })
}

#[pymethods]
impl Model {
    /// Loads a model; the one inside the package where no name is given.
    #[staticmethod]
    #[pyo3(signature = (name, dtype, device, predictor, mapped, by_ids, progress))]
    #[allow(clippy::too_many_arguments, reason = "they have names on the other side")]
    fn load(
        py: Python<'_>,
        name: Option<String>,
        dtype: Option<&str>,
        device: Option<&str>,
        predictor: Option<String>,
        mapped: bool,
        by_ids: bool,
        progress: Option<PyObject>,
    ) -> PyResult<Self> {
        let dtype = dtype.map(precision).transpose()?;
        let devices = demask_cli::devices(device.unwrap_or("cpu")).map_err(|error| command(&error))?;
        let mut places =
            devices.into_iter().map(|(device, composed)| LoadOptions { mapped, device, composed, dtype });
        demask::kernels::reuse_freed_memory();
        let loaded = watched(py, progress, |watch| {
            let mut bar = Bar { watch, file: String::new(), done: 0, total: 0 };
            let loader = name.as_deref().map_or_else(Loader::embedded, Loader::new);
            let loader = places.next().into_iter().fold(loader, Loader::options);
            let loader = places.fold(loader, Loader::replica);
            let loader = match predictor {
                Some(file) => loader.predictor(file),
                None => loader,
            };
            let loader = if by_ids { loader.by_ids() } else { loader };
            loader.progress(&mut bar).load()
        })?;
        let inner = loaded.map_err(|error| library(&error))?;
        Ok(Self { inner, failure: Failure::default() })
    }

    #[getter]
    fn name(&self) -> &str {
        self.inner.name()
    }

    #[getter]
    fn architecture(&self) -> &str {
        self.inner.backbone().spec().architecture
    }

    #[getter]
    fn vocab(&self) -> usize {
        self.inner.backbone().spec().vocab
    }

    #[getter]
    fn hidden(&self) -> usize {
        self.inner.backbone().spec().hidden
    }

    #[getter]
    fn context(&self) -> usize {
        self.inner.backbone().spec().max_positions
    }

    #[getter]
    fn mask_id(&self) -> u32 {
        self.inner.ids().mask
    }

    #[getter]
    fn eos_ids(&self) -> Vec<u32> {
        self.inner.ids().eos.clone()
    }

    #[getter]
    fn has_predictor(&self) -> bool {
        self.inner.predictor().is_some()
    }

    /// What was made of the predictor's file.
    #[getter]
    fn predictor(&self) -> Option<String> {
        self.inner.understanding().map(ToString::to_string)
    }

    /// Which decoder runs instead of DEMASK where none is named, and why; `None` where DEMASK does.
    #[getter]
    fn without_predictor(&self) -> Option<String> {
        self.inner.without_predictor(&demask::Decoding::default())
    }

    #[getter]
    fn strategy(&self) -> String {
        self.inner.strategy(&demask::Decoding::default()).to_string()
    }

    /// The same with strategies written in Python.
    fn with_strategies(&self, strategies: Vec<(String, PyObject)>) -> PyResult<Self> {
        let failure = Failure::default();
        Ok(Self { inner: with_strategies(&self.inner, strategies, &failure)?, failure })
    }

    /// Ids of a prompt that a response follows.
    fn encode(&self, py: Python<'_>, prompt: Given) -> PyResult<Vec<u32>> {
        let prompt = prompt.prompt()?;
        py.allow_threads(|| self.inner.encode(&prompt)).map_err(|error| library(&error))
    }

    /// The text of ids, special tokens left out or not.
    fn decode(&self, ids: Vec<u32>, verbatim: bool) -> PyResult<String> {
        let tokenizer = self.inner.tokenizer();
        let text = if verbatim { tokenizer.decode_verbatim(&ids) } else { tokenizer.decode(&ids) };
        text.map_err(|error| library(&error.into()))
    }

    /// The text of a response: up to its end, then cut at every `until`.
    fn response(&self, ids: Vec<u32>, until: Vec<String>) -> PyResult<String> {
        self.inner.text().response(&ids, &until).map_err(|error| library(&error))
    }

    /// Messages (as JSON) through the chat template, as text.
    fn chat_text(&self, py: Python<'_>, messages: &str) -> PyResult<String> {
        let given = Given::Text("chat".into(), messages.into(), None).prompt()?;
        let Prompt::Chat(messages) = given else { return Ok(String::new()) };
        let text = py.allow_threads(|| self.inner.text().conversation(&messages));
        text.map(|(text, _)| text).map_err(|error| library(&error))
    }

    /// Decodes one prompt.
    #[pyo3(signature = (prompt, choices, recorded, progress))]
    fn generate(
        &self,
        py: Python<'_>,
        prompt: Given,
        choices: Choices,
        recorded: Option<bool>,
        progress: Option<PyObject>,
    ) -> PyResult<Answer> {
        let (prompt, decoding) = (prompt.prompt()?, choices.decoding(&self.inner)?);
        let answer = watched(py, progress, |watch| {
            let stopper = Stopper { watch: watch.clone(), done: Arc::default(), total: 1 };
            let model = self.inner.clone().behind(watch.gate());
            let generate = model.generate(prompt).decoding(decoding).observer(stopper);
            match recorded {
                Some(dependency) => generate.record(dependency).run(),
                None => generate.run(),
            }
        })?;
        self.answer(answer)
    }

    /// Decodes several prompts together.
    #[pyo3(signature = (prompts, choices, recorded, token_budget, streams, progress))]
    #[allow(clippy::too_many_arguments, reason = "they have names on the other side")]
    fn generate_all(
        &self,
        py: Python<'_>,
        prompts: Vec<Given>,
        choices: Choices,
        recorded: Option<bool>,
        token_budget: usize,
        streams: Vec<u64>,
        progress: Option<PyObject>,
    ) -> PyResult<Vec<Answer>> {
        let prompts = prompts.iter().map(Given::prompt).collect::<PyResult<Vec<_>>>()?;
        let (decoding, total) = (choices.decoding(&self.inner)?, prompts.len() as u64);
        let answers = watched(py, progress, |watch| {
            let model = self.inner.clone().behind(watch.gate());
            let (watch, done) = (watch.clone(), Arc::new(Mutex::new(0)));
            let stopper = move |_| {
                let (watch, done) = (watch.clone(), done.clone());
                Box::new(Stopper { watch, done, total }) as Box<dyn demask::Observer>
            };
            let generate = model.generate_all(prompts).decoding(decoding);
            let generate = generate.streams(streams).token_budget(token_budget).observers(stopper);
            match recorded {
                Some(dependency) => generate.record(dependency).run(),
                None => generate.run(),
            }
        })?;
        let answers = answers.map_err(|error| self.failure.take().unwrap_or_else(|| library(&error)))?;
        Ok(answers.into_iter().map(|answer| Answer { answer, model: self.inner.clone() }).collect())
    }

    /// The decoding step by step.
    fn stream(&self, py: Python<'_>, prompt: Given, choices: Choices, dependency: bool) -> PyResult<Stream> {
        let (prompt, decoding) = (prompt.prompt()?, choices.decoding(&self.inner)?);
        let watch = Arc::<Watch>::default();
        let model = self.inner.clone().behind(watch.gate());
        let steps = py.allow_threads(|| model.generate(prompt).decoding(decoding).record(dependency).steps());
        match steps {
            Ok(steps) => Ok(Stream::new(steps, self, watch)),
            Err(error) => Err(self.failure.take().unwrap_or_else(|| library(&error))),
        }
    }

    /// Hidden rows and logits at positions: both as bytes of f32.
    fn forward<'py>(
        &self,
        py: Python<'py>,
        ids: Vec<u32>,
        positions: Vec<usize>,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let pass =
            watched(py, None, |watch| self.inner.clone().behind(watch.gate()).forward_at(&ids, &positions))?;
        let pass = pass.map_err(|error| library(&error))?;
        Ok((bytes(py, &pass.hidden.data), bytes(py, &pass.logits.data)))
    }

    /// A lower bound on the log-likelihood of each response behind its prompt, both as ids.
    #[pyo3(signature = (pairs, samples, seed, progress))]
    fn log_likelihood(
        &self,
        py: Python<'_>,
        pairs: Vec<(Vec<u32>, Vec<u32>)>,
        samples: usize,
        seed: u64,
        progress: Option<PyObject>,
    ) -> PyResult<Vec<f64>> {
        let total = pairs.len() as u64;
        let found = watched(py, progress, |watch| {
            let model = self.inner.clone().behind(watch.gate());
            let mut all = Vec::with_capacity(pairs.len());
            for some in pairs.chunks(SCORED_TOGETHER) {
                all.extend(model.log_likelihood(some, samples, seed)?);
                let (done, message) = (all.len() as u64, String::new());
                if watch.show(&Progress { unit: "responses", done, total, message }).is_break() {
                    break;
                }
            }
            Ok(all)
        })?;
        found.map_err(|error| library(&error))
    }

    /// The dependency matrix over positions, as bytes of f32: predicted, or measured with so many draws.
    #[pyo3(signature = (ids, positions, draws, seed, progress))]
    fn dependency<'py>(
        &self,
        py: Python<'py>,
        ids: Vec<u32>,
        positions: Vec<usize>,
        draws: Option<usize>,
        seed: u64,
        progress: Option<PyObject>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let passes = 1 + draws.unwrap_or(0) as u64 * positions.len() as u64;
        let map = watched(py, progress, |watch| {
            let model = self.inner.clone().behind(watch.counting(passes));
            match draws {
                None => model.dependency_at(&ids, &positions),
                Some(draws) => model.measured_dependency(&ids, &positions, draws, seed),
            }
        })?;
        Ok(bytes(py, map.map_err(|error| library(&error))?.matrix.data()))
    }
}

impl Model {
    fn answer(&self, answer: demask::Result<demask::Answer>) -> PyResult<Answer> {
        match answer {
            Ok(answer) => Ok(Answer { answer, model: self.inner.clone() }),
            Err(error) => Err(self.failure.take().unwrap_or_else(|| library(&error))),
        }
    }
}
