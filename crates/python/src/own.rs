//! Strategies written in Python: a decoder's rule that asks an object of class `demask.Strategy`.
//!
//! Invariants: every canvas has a copy of the object, so that what it remembers is of one decoding; what it returns is
//! checked before anything is written; an exception in it ends the decoding and reaches the caller as it was raised.

use std::sync::{Arc, Mutex, PoisonError};

use demask::decode::dependency::{Opinion, Predictor};
use demask::decode::marginals::LogitRows;
use demask::decode::registry::{Cost, Entry, Registry};
use demask::decode::strategy::{Budget, Needs, Selection, Step, TokenRule};
use demask::decode::{Error, Result};
use demask::model::HiddenRow;
use demask::{Model, Strategy};
use pyo3::prelude::*;
use pyo3::sync::GILOnceCell;
use pyo3::types::{PyBytes, PyDict};

use crate::answer::bytes;
use crate::error::library;

/// The exception that ended a decoding, kept until the call returns.
#[derive(Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<PyErr>>>);

impl Failure {
    /// The exception, once.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn keep(&self, strategy: &str, exception: PyErr) -> Error {
        let error = Error::Own { strategy: strategy.into(), problem: exception.to_string() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(exception);
        error
    }
}

/// The model with Python's strategies beside the standard ones.
pub(crate) fn with_strategies(
    model: &Model,
    strategies: Vec<(String, PyObject)>,
    failure: &Failure,
) -> PyResult<Model> {
    let mut registry: Registry = model.context().registry.clone();
    for (name, object) in strategies {
        // An entry lives as long as the program; there is one for each name and model, not for each call.
        let name: &'static str = Box::leak(name.into_boxed_str());
        let entry = Entry {
            name,
            aliases: &[],
            summary: "a strategy written in Python",
            source: "the calling program",
            cost: Cost::Logits,
            params: &[],
            build: |_| Err(Error::Canvas("a strategy of a program is made by that program".into())),
        };
        let (predictor, failure) = (model.context().predictor.clone(), failure.clone());
        let maker = move |_: &demask::decode::registry::Values<'_>| -> Result<Box<dyn Strategy>> {
            Own::new(name, &object, predictor.clone(), failure.clone()).map(|own| Box::new(own) as _)
        };
        registry = registry.with_maker(entry, Arc::new(maker)).map_err(|error| library(&error.into()))?;
    }
    Ok(model.clone().with_registry(registry))
}

/// What Python says of a strategy.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Wishes {
    hidden: Option<String>,
    attention_layers: usize,
    logits: bool,
    dependency: bool,
    revises: bool,
}

/// What Python chose: indices into the masks, positions to mask again, whether the most probable token is taken, budget.
type Chosen = (Vec<usize>, Vec<usize>, bool, Option<(f32, f32)>);

/// One canvas's copy of a Python strategy.
struct Own {
    name: &'static str,
    object: PyObject,
    wishes: Wishes,
    needs: Needs,
    predictor: Option<Arc<Predictor>>,
    logits: Vec<f32>,
    failure: Failure,
}

static GLUE: GILOnceCell<Py<PyModule>> = GILOnceCell::new();

fn glue(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    GLUE.get_or_try_init(py, || Ok(py.import("demask._glue")?.unbind())).map(|module| module.bind(py))
}

impl Own {
    fn new(
        name: &'static str,
        object: &PyObject,
        predictor: Option<Arc<Predictor>>,
        failure: Failure,
    ) -> Result<Self> {
        let made = Python::with_gil(|py| {
            let (copy, wishes) =
                glue(py)?.call_method1("fresh", (object,))?.extract::<(PyObject, Wishes)>()?;
            PyResult::Ok((copy, wishes))
        });
        let (object, wishes) = made.map_err(|exception| failure.keep(name, exception))?;
        let own = match wishes.hidden.as_deref() {
            None => None,
            Some("i") => Some(HiddenRow::I),
            Some("i-1") => Some(HiddenRow::IMinusOne),
            Some(other) => {
                let problem = format!("hidden is {other:?}, must be \"i\", \"i-1\" or None");
                return Err(Error::Own { strategy: name.into(), problem });
            }
        };
        if wishes.dependency && predictor.is_none() {
            return Err(Error::NoPredictor { strategy: name.into() });
        }
        let read = predictor.as_ref().filter(|_| wishes.dependency).map(|p| p.metadata().hidden_row);
        let hidden = match (own, read) {
            (Some(own), Some(read)) if own != read => {
                let problem =
                    "its hidden rows and its dependency are of different rows; ask for one of them".into();
                return Err(Error::Own { strategy: name.into(), problem });
            }
            (own, read) => own.or(read),
        };
        let needs = Needs { hidden, attention_layers: wishes.attention_layers, ..Needs::default() };
        Ok(Self { name, object, wishes, needs, predictor, logits: Vec::new(), failure })
    }

    /// The step as plain values.
    fn describe<'py>(&self, py: Python<'py>, step: &Step<'_>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let column = |value: &dyn Fn(&demask::decode::marginals::Marginal) -> f32| -> Bound<'py, PyBytes> {
            bytes(py, &step.marginals.iter().map(value).collect::<Vec<f32>>())
        };
        dict.set_item("index", step.index)?;
        dict.set_item(
            "block",
            (step.block.index, step.block.count, step.block.step, step.block.entered_with),
        )?;
        dict.set_item("masked", step.masked)?;
        dict.set_item("tokens", step.canvas.tokens())?;
        dict.set_item("top1", column(&|m| m.raw.top1))?;
        dict.set_item("top2", column(&|m| m.raw.top2))?;
        dict.set_item("entropy", column(&|m| m.raw.entropy))?;
        dict.set_item("argmax", step.marginals.iter().map(|m| m.raw.argmax).collect::<Vec<_>>())?;
        dict.set_item("candidate", step.marginals.iter().map(|m| m.candidate.token).collect::<Vec<_>>())?;
        dict.set_item("candidate_probability", column(&|m| m.candidate.probability))?;
        if let (Some(rows), true) = (step.hidden, self.wishes.hidden.is_some()) {
            dict.set_item("hidden", (rows.width, bytes(py, &rows.data)))?;
        }
        if let (Some(rows), Some(predictor), true) = (step.hidden, &self.predictor, self.wishes.dependency) {
            let opinions: Vec<Opinion> = step.marginals.iter().map(|m| Opinion::new(m, None)).collect();
            let predicted = predictor.predict(rows, &opinions).map_err(|error| library(&error.into()))?;
            dict.set_item("dependency", bytes(py, predicted.data()))?;
        }
        if let Some(rows) = step.attention {
            dict.set_item("attention", (rows.width, bytes(py, &rows.data)))?;
        }
        if self.wishes.logits {
            dict.set_item("logits", bytes(py, &self.logits))?;
        }
        Ok(dict)
    }

    fn refuse(&self, problem: String) -> Error {
        Error::Own { strategy: self.name.into(), problem }
    }

    fn check(&self, step: &Step<'_>, chosen: &[usize], remask: &[usize]) -> Result<()> {
        let mut seen = vec![false; step.masked.len()];
        for &index in chosen {
            match seen.get_mut(index) {
                None => {
                    let masks = step.masked.len();
                    return Err(
                        self.refuse(format!("select chose index {index}, but there are {masks} masks"))
                    );
                }
                Some(true) => return Err(self.refuse(format!("select chose index {index} twice"))),
                Some(seen) => *seen = true,
            }
        }
        let response = step.canvas.response();
        let picked = |p: &usize| chosen.iter().any(|&index| step.masked[index] == *p);
        let open = |p: &usize| !response.contains(p) || (step.masked.contains(p) && !picked(p));
        match remask.iter().find(|p| open(p)) {
            Some(p) => {
                Err(self.refuse(format!("select masks position {p} again, which no step has written")))
            }
            None => Ok(()),
        }
    }
}

impl Strategy for Own {
    fn needs(&self) -> Needs {
        self.needs
    }

    fn revises(&self) -> bool {
        self.wishes.revises
    }

    fn on_logits(&mut self, _: usize, rows: LogitRows<'_>) {
        if self.wishes.logits {
            self.logits.extend_from_slice(rows.logits);
        }
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        let asked = Python::with_gil(|py| {
            let described = self.describe(py, step)?;
            glue(py)?.call_method1("select", (&self.object, described))?.extract::<Chosen>()
        });
        self.logits.clear();
        let (chosen, remask, argmax, budget) =
            asked.map_err(|exception| self.failure.keep(self.name, exception))?;
        self.check(step, &chosen, &remask)?;
        Ok(Selection {
            chosen,
            tokens: if argmax { TokenRule::Argmax } else { TokenRule::Sampled },
            remask,
            budget: budget.map(|(limit, used)| Budget { limit, used }),
            ..Selection::default()
        })
    }
}
