//! Examples for measurements: rows of conversation files, or held-out problems of the tasks.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::Result;
use demask::eval::run::names;
use demask::eval::task;
use demask::eval::theory::example::Example;
use demask::train::data::{self, Encoded, Encoder};
use demask::train::tv_cache::ResponseSource;
use demask::{Model, Shard};

use crate::command::tv_cache::data::Data;

/// Rows read at a time.
const ROWS: usize = 64;

/// Examples in a fixed order.
pub(super) struct Examples {
    rows: Box<dyn Rows>,
    next: usize,
    len: usize,
    read: std::vec::IntoIter<Example>,
    refused: Rc<RefCell<Vec<String>>>,
    eos: Vec<u32>,
    shard: Shard,
}

/// Examples by number.
trait Rows {
    fn len(&self) -> usize;
    /// A range of them, and sentences on rows that cannot be used.
    fn read(&self, range: std::ops::Range<usize>) -> Result<(Vec<Example>, Vec<String>)>;
}

impl Examples {
    /// The first `limit` examples of what `--data` names.
    pub(super) fn open(data: &str, model: &Model, limit: usize) -> Result<Self> {
        let encoder = Encoder::new(model.tokenizer().clone(), model.text().chat().cloned());
        let rows: Box<dyn Rows> = match data.strip_prefix("task:") {
            Some(names) => Box::new(Problems::open(names, model, limit)?),
            None => match Data::open(data, None, 0)? {
                Data::Files(records) => Box::new(Files { records, encoder, path: data.to_owned() }),
                Data::Tasks { .. } => unreachable!("tasks begin with task:"),
            },
        };
        let len = rows.len().min(limit);
        let eos = model.ids().eos.clone();
        Ok(Self {
            rows,
            next: 0,
            len,
            read: Vec::new().into_iter(),
            refused: Rc::default(),
            eos,
            shard: Shard::WHOLE,
        })
    }

    /// Only those of a share: rows by their number in the data.
    pub(super) fn of(self, shard: Shard) -> Self {
        Self { shard, ..self }
    }

    /// How many there are at most.
    pub(super) fn len(&self) -> usize {
        (0..self.len).filter(|&row| self.shard.has(row)).count()
    }

    /// Sentences on rows that could not be used so far.
    pub(super) fn refused(&self) -> Rc<RefCell<Vec<String>>> {
        self.refused.clone()
    }
}

impl Iterator for Examples {
    type Item = demask::eval::error::Result<Example>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(mut example) = self.read.next() {
                // The end belongs to the response.
                if example.response.last().is_some_and(|last| !self.eos.contains(last)) {
                    example.response.extend(self.eos.first());
                }
                return Some(Ok(example));
            }
            // Rows of a share lie apart and are read one by one.
            let end = match self.shard == Shard::WHOLE {
                true => (self.next + ROWS).min(self.len),
                false => (self.next + 1).min(self.len),
            };
            if self.next == end {
                return None;
            }
            if !self.shard.has(self.next) && self.shard != Shard::WHOLE {
                self.next = end;
                continue;
            }
            match self.rows.read(self.next..end) {
                Err(error) => return Some(Err(demask::eval::error::Error::Data(format!("{error:#}")))),
                Ok((read, refused)) => {
                    self.read = read.into_iter();
                    self.refused.borrow_mut().extend(refused);
                    self.next = end;
                }
            }
        }
    }
}

struct Files {
    records: Box<dyn data::Records>,
    encoder: Encoder,
    path: String,
}

impl Rows for Files {
    fn len(&self) -> usize {
        self.records.len()
    }

    fn read(&self, range: std::ops::Range<usize>) -> Result<(Vec<Example>, Vec<String>)> {
        let source = Encoded { records: self.records.as_ref(), encoder: &self.encoder };
        let (mut examples, mut refused) = (Vec::new(), Vec::new());
        for row in source.read(range)? {
            match row {
                Ok(row) => examples.push(Example { id: row.id, prompt: row.prompt, response: row.response }),
                Err(bad) => refused.push(format!("{}: row {} {}", self.path, bad.row, bad.why)),
            }
        }
        Ok((examples, refused))
    }
}

/// Validation problems of some tasks, one task after another by turns.
struct Problems(Vec<Example>);

impl Problems {
    fn open(listed: &str, model: &Model, limit: usize) -> Result<Self> {
        let tasks = names::tasks(listed)?;
        let each = limit.div_ceil(tasks.len());
        let sets: Vec<_> = tasks.iter().map(|task| task::validation_set(task.as_ref(), each)).collect();
        let mut examples = Vec::new();
        for turn in 0..each {
            for (task, problems) in tasks.iter().zip(&sets) {
                let Some(problem) = problems.get(turn) else { continue };
                examples.push(Example {
                    id: format!("{}/{turn}", task.name()),
                    prompt: model.text().user(&problem.prompt)?.1,
                    response: model.tokenizer().encode(&problem.response)?,
                });
            }
        }
        Ok(Self(examples))
    }
}

impl Rows for Problems {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn read(&self, range: std::ops::Range<usize>) -> Result<(Vec<Example>, Vec<String>)> {
        Ok((self.0[range].to_vec(), Vec::new()))
    }
}
