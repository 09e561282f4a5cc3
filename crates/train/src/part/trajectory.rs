//! Decodings of the frozen backbone, one token at a time: which cell was decided when, and what was finally written.
//! ADJUST learns the states between them, a policy what the most probable tokens became, a distilled model the answers.
//!
//! They are kept in a file of JSON lines, written as they are made, so a killed run repeats at most one group.
//! Invariant: a file belongs to one backbone, one source of prompts and one way to decode.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use demask_decode::observer::Recorder;
use demask_decode::registry::Context;
use demask_decode::{Canvas, Decoder, Job, Options, Sampling, StrategySpec, Suppression};
use demask_model::Backbone;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::tv_cache::ResponseSource;

/// Canvases that are decoded together, and lines that a killed run makes again.
const GROUP: usize = 32;

/// A decoding, one token after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trajectory {
    /// The prompt.
    pub prompt: Vec<u32>,
    /// What the response finally is, filled up behind its end.
    pub response: Vec<u32>,
    /// Offsets in the order of decision, up to the one that ended the response; what follows it was filled.
    pub order: Vec<usize>,
}

impl Trajectory {
    /// The canvas after this many decisions.
    pub fn state(&self, decided: usize, mask: u32) -> Vec<u32> {
        let mut tokens = self.prompt.clone();
        tokens.resize(self.prompt.len() + self.response.len(), mask);
        for &offset in &self.order[..decided] {
            tokens[self.prompt.len() + offset] = self.response[offset];
        }
        tokens
    }

    /// Length of the response's text: what is behind its first end of sequence was filled.
    pub fn written(&self, eos: &[u32]) -> usize {
        let end = self.response.iter().position(|token| eos.contains(token));
        end.map_or(self.response.len(), |end| end + 1)
    }
}

/// How trajectories are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// How many.
    pub count: usize,
    /// Cells of a response.
    pub length: usize,
    /// One token per pass, in which order.
    pub strategy: String,
    /// Sampling temperature.
    pub temperature: f32,
    /// Nucleus.
    pub top_p: Option<f32>,
    /// Seed of the draws.
    pub seed: u64,
}

/// The first line of a file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct TrajectoryHeader {
    backbone: String,
    source: String,
    recording: Recording,
}

impl Recording {
    /// The trajectories of a file, made as far as they are missing; `progress` hears how many there are.
    pub fn open(
        &self,
        path: &Path,
        backbone: &dyn Backbone,
        source: &dyn ResponseSource,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Vec<Trajectory>> {
        let header = TrajectoryHeader {
            backbone: backbone.fingerprint(),
            source: source.identity(),
            recording: self.clone(),
        };
        let mut made = read(path, &header)?;
        let mut file = OpenOptions::new().append(true).create(true).open(path).map_err(Error::write(path))?;
        let mut row = made.iter().map(|(row, _)| row + 1).max().unwrap_or(0);
        while made.len() < self.count && row < source.len() {
            let rows = row..(row + GROUP).min(source.len());
            let prompts = source.read(rows.clone())?.into_iter().zip(rows.clone());
            let prompts: Vec<(usize, Vec<u32>)> =
                prompts.filter_map(|(found, row)| Some((row, found.ok()?.prompt))).collect();
            let prompts: Vec<(usize, Vec<u32>)> = prompts
                .into_iter()
                .filter(|(_, prompt)| {
                    !prompt.is_empty() && prompt.len() + self.length <= backbone.spec().max_positions
                })
                .take(self.count - made.len())
                .collect();
            let decoded = self.decode(backbone, &prompts)?;
            let mut lines = String::new();
            for (row, trajectory) in decoded {
                lines += &(serde_json::to_string(&(row, &trajectory)).unwrap_or_default() + "\n");
                made.push((row, trajectory));
            }
            file.write_all(lines.as_bytes()).and_then(|()| file.sync_data()).map_err(Error::write(path))?;
            row = rows.end;
            progress(made.len());
        }
        if made.is_empty() {
            let problem = format!("has no prompt that fits beside {} tokens", self.length);
            return Err(Error::Data { path: path.to_owned(), problem });
        }
        Ok(made.into_iter().map(|(_, trajectory)| trajectory).collect())
    }

    fn decode(
        &self,
        backbone: &dyn Backbone,
        prompts: &[(usize, Vec<u32>)],
    ) -> Result<Vec<(usize, Trajectory)>> {
        let strategy: StrategySpec = self.strategy.parse()?;
        let (mut jobs, mut recorders) = (Vec::new(), Vec::new());
        for (row, prompt) in prompts {
            let canvas = Canvas::generate(prompt, self.length, &backbone.spec().ids)?;
            let sampling =
                Sampling { temperature: self.temperature, top_p: self.top_p, ..Sampling::default() };
            let suppression = Suppression { ids: vec![backbone.spec().ids.mask], ..Suppression::default() };
            let (seed, stream) = (self.seed, *row as u64);
            let options = Options { sampling, suppression, seed, stream, ..Options::default() };
            let recorder = Arc::new(Mutex::new(Recorder::default()));
            recorders.push(recorder.clone());
            jobs.push(Job::new(canvas, &strategy, &Context::default(), options, Box::new(recorder))?);
        }
        Decoder::new(backbone).run(&mut jobs)?;
        let trajectory = |((job, recorder), (row, prompt)): ((&Job, _), &(usize, Vec<u32>))| {
            let recorder: &Arc<Mutex<Recorder>> = recorder;
            let records = &recorder.lock().unwrap_or_else(PoisonError::into_inner).records;
            // One that fills is the last whose state is a canvas with masks behind it.
            let before = records.iter().position(|r| !r.filled.is_empty()).map_or(records.len(), |at| at + 1);
            let commits = records[..before].iter().flat_map(|record| &record.commits);
            let order = commits.map(|commit| commit.position - prompt.len()).collect();
            let response = job.canvas().tokens()[prompt.len()..].to_vec();
            (*row, Trajectory { prompt: prompt.clone(), response, order })
        };
        Ok(jobs.iter().zip(&recorders).zip(prompts).map(trajectory).collect())
    }
}

/// The trajectories of a file, a broken last line left out; a file of another run is refused.
fn read(path: &Path, header: &TrajectoryHeader) -> Result<Vec<(usize, Trajectory)>> {
    if !path.exists() {
        let line = serde_json::to_string(header).unwrap_or_default() + "\n";
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(Error::write(folder))?;
        }
        demask_model::file::replace(path, |out| out.write_all(line.as_bytes()))?;
    }
    let text = std::fs::read_to_string(path).map_err(Error::read(path))?;
    let mut lines = text.split_inclusive('\n');
    let found: Option<TrajectoryHeader> = lines.next().and_then(|line| serde_json::from_str(line).ok());
    if found.as_ref() != Some(header) {
        let problem =
            "was made by another model, from other prompts or in another way; delete it or use another output"
                .into();
        return Err(Error::Data { path: path.to_owned(), problem });
    }
    let whole: Vec<&str> = lines.take_while(|line| line.ends_with('\n')).collect();
    let kept: Vec<(usize, Trajectory)> =
        whole.iter().map_while(|line| serde_json::from_str(line).ok()).collect();
    if text.len()
        != text.find('\n').map_or(0, |at| at + 1) + whole[..kept.len()].iter().map(|l| l.len()).sum::<usize>()
    {
        // What a killed run left half written is dropped before more is appended.
        let lines: Vec<&str> = text.split_inclusive('\n').take(1 + kept.len()).collect();
        demask_model::file::replace(path, |out| out.write_all(lines.concat().as_bytes()))?;
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use demask_model::{LoadOptions, Transformer};

    use super::*;
    use crate::tv_cache::{Generated, Response};

    #[test]
    fn trajectories_are_made_once_and_a_broken_line_is_made_again() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/dream-toy");
        let backbone = Transformer::load(&fixtures, &LoadOptions::default()).unwrap();
        let make = |row: usize| {
            Ok(Response { id: row.to_string(), prompt: vec![5 + row as u32, 7], response: vec![9] })
        };
        let source = Generated { identity: "made up".into(), len: 40, make };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trajectories.jsonl");
        let recording = Recording {
            count: 35,
            length: 8,
            strategy: "entropy:k=1".into(),
            temperature: 0.7,
            top_p: None,
            seed: 1,
        };
        let all = recording.open(&path, &backbone, &source, &mut |_| {}).unwrap();
        assert_eq!(all.len(), 35);
        let (mask, eos) = (backbone.spec().ids.mask, &backbone.spec().ids.eos);
        for t in &all {
            let end = t.state(t.order.len(), mask);
            let decided = end[2..].iter().filter(|&&token| token != mask).count();
            assert_eq!(decided, t.order.len());
            assert!(decided == 8 || t.written(eos) <= 8 && t.response[t.written(eos) - 1] == eos[0]);
        }
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 9]).unwrap();
        assert_eq!(recording.open(&path, &backbone, &source, &mut |_| {}).unwrap(), all);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        let other = Recording { length: 9, ..recording };
        let error = other.open(&path, &backbone, &source, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("in another way"), "{error}");
    }
}
