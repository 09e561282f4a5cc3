//! Examples made into training canvases: EOS-padded responses, masks of eq. 1, next-token targets.
//!
//! Diffusion: of the `L` response positions of a canvas, `k = ⌈t·L⌉` are masked, `t` uniform, each with weight `L/k`.
//! Over `k` this is exactly eq. 1 with its Bernoulli masks integrated out (`∫ 1/t · Bin(k; L, t) dt = 1/k`), at a lower
//! variance; `t` is stratified over the batch.
//!
//! Three shares of a diffusion stage leave eq. 1's masks for those that decoding meets. `ordered` canvases know a prefix and
//! little of the rest: a random mask nearly always shows a result somewhere else in the answer, so it teaches to copy and
//! hardly ever to compute. `causal` canvases are next-token ones, a lesson in every row, and `prefix` canvases the same
//! with a prompt that sees itself both ways. None changes what a conditional should be, only how often it is asked for.
//!
//! Invariant: a batch is a function of (seed, position in the stream), so a run resumes from one number.

use demask_decode::batch::fitting;
use demask_decode::rng::{Purpose, Rng};
use demask_kernels::Segment;
use demask_model::{Packed, Spec};

use super::certainty::Certainty;
use super::config::{Data, Objective, Stage};
use crate::error::{Error, Result};

/// A prompt and one right response, as token ids without padding.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Example {
    /// What the user says, with the chat template around it; not empty.
    pub prompt: Vec<u32>,
    /// The answer, without its end.
    pub response: Vec<u32>,
}

/// The endless stream of examples.
pub trait ExampleSource {
    /// Example number `index` of a stage: the same at every call.
    fn example(&mut self, index: u64, stage: &Stage) -> Result<Example>;
}

/// Canvases whose loss is computed together.
#[derive(Debug, Clone)]
pub struct BatchPart {
    /// The canvases, masked.
    pub packed: Packed,
    /// Packed rows that predict, ascending.
    pub rows: Vec<u32>,
    /// The token each of them should predict.
    pub targets: Vec<u32>,
    /// Weight of each prediction; the loss of a batch is the weighted sum over all its parts.
    pub weights: Vec<f32>,
    /// What is to be certain as well as right, in a certainty stage.
    pub certainty: Option<Certainty>,
}

/// The work of one update.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Its canvases in parts of bounded size.
    pub parts: Vec<BatchPart>,
    /// Examples used.
    pub examples: u64,
    /// Tokens of all canvases.
    pub tokens: usize,
}

/// Makes batches from a stream.
pub struct Batches<'a> {
    spec: &'a Spec,
    data: &'a Data,
    seed: u64,
    /// Tokens of one part: small enough that a layer's activations stay in cache.
    part_tokens: usize,
}

struct Canvas {
    tokens: Vec<u32>,
    /// Positions to predict, ascending.
    positions: Vec<usize>,
    targets: Vec<u32>,
    weights: Vec<f32>,
    /// What this canvas adds to the normaliser.
    counted: usize,
    seen: Seen,
}

/// What the rows of a canvas see.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Every row.
    All,
    /// A prompt of so many rows sees itself, every later row what is before it; a prompt of none is plain causal attention.
    Before(usize),
}

/// How the masks of a canvas are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lesson {
    NextToken,
    Prefix,
    Ordered,
    Uniform,
    Halves,
}

impl<'a> Batches<'a> {
    /// Batches for a backbone of this shape.
    pub fn new(spec: &'a Spec, data: &'a Data, seed: u64, part_tokens: usize) -> Self {
        Self { spec, data, seed, part_tokens }
    }

    /// The batch of a stage that starts at example `cursor`.
    pub fn at(&self, source: &mut dyn ExampleSource, cursor: u64, stage: &Stage) -> Result<Batch> {
        let (mut tokens, mut examples) = (0, Vec::new());
        while tokens < self.data.batch_tokens || examples.is_empty() {
            let index = cursor + examples.len() as u64;
            let example = self.checked(index, source.example(index, stage)?)?;
            let lesson = self.lesson(index, stage);
            let length = self.length(index, &example, lesson);
            tokens += example.prompt.len() + length;
            examples.push((index, example, lesson, length));
        }
        let strata = self.strata(cursor, examples.len());
        let count = examples.len() as u64;
        let canvases =
            examples.into_iter().zip(strata).flat_map(|((index, example, lesson, length), t)| match lesson {
                Lesson::NextToken => vec![self.next_token(example, stage.prompt)],
                Lesson::Prefix => vec![self.after_prompt(example)],
                Lesson::Ordered => vec![self.ordered(index, example, length, t)],
                Lesson::Uniform => vec![self.masked(index, example, length, t)],
                Lesson::Halves => self.halves(index, example, length, stage.block).into(),
            });
        // A next token is always predicted by the row before it, a masked one as the backbone does.
        let (next, masked): (Vec<Canvas>, Vec<Canvas>) =
            canvases.partition(|canvas| canvas.seen != Seen::All);
        let sure = (stage.objective == Objective::Certainty).then_some(stage.entropy);
        let normaliser = next.iter().chain(&masked).map(|canvas| canvas.counted).sum::<usize>() as f32;
        let shift = self.spec.shift.is_some();
        let first = split(&next, self.part_tokens).map(|some| part(some, true, normaliser, None));
        let then = split(&masked, self.part_tokens).map(|some| part(some, shift, normaliser, sure));
        Ok(Batch { parts: first.chain(then).collect(), examples: count, tokens })
    }

    fn lesson(&self, index: u64, stage: &Stage) -> Lesson {
        let drawn = self.rng(index).uniform(Purpose::Position, 1 << 32, 0) as f32;
        match stage.objective {
            Objective::Autoregressive => Lesson::NextToken,
            Objective::Certainty => Lesson::Halves,
            Objective::Diffusion if drawn < stage.causal => Lesson::NextToken,
            Objective::Diffusion if drawn < stage.causal + stage.ordered => Lesson::Ordered,
            Objective::Diffusion if drawn < stage.causal + stage.ordered + stage.prefix => Lesson::Prefix,
            Objective::Diffusion => Lesson::Uniform,
        }
    }

    fn checked(&self, index: u64, example: Example) -> Result<Example> {
        let problem = |problem: String| Err(Error::Example { index, problem });
        if example.prompt.is_empty() {
            return problem("has an empty prompt".into());
        }
        if let Some(token) =
            example.prompt.iter().chain(&example.response).find(|&&t| t as usize >= self.spec.vocab)
        {
            return problem(format!("has token {token} outside the vocabulary of {}", self.spec.vocab));
        }
        let longest = self.data.lengths.last().copied().unwrap_or(0);
        if example.response.len() >= longest {
            let length = example.response.len();
            return problem(format!("has a response of {length} tokens; raise data.lengths above {length}"));
        }
        if example.prompt.len() + longest > self.spec.max_positions {
            let (prompt, most) = (example.prompt.len(), self.spec.max_positions);
            return problem(format!(
                "has a prompt of {prompt} tokens; with {longest} more it leaves the context of {most}"
            ));
        }
        Ok(example)
    }

    /// Length of the response part of a canvas, with at least one EOS.
    fn length(&self, index: u64, example: &Example, lesson: Lesson) -> usize {
        let least = example.response.len() + 1;
        if matches!(lesson, Lesson::NextToken | Lesson::Prefix) {
            return least;
        }
        let fitting: Vec<usize> =
            self.data.lengths.iter().copied().filter(|&length| length >= least).collect();
        let rng = self.rng(index);
        let enough =
            |&(step, _): &(usize, &usize)| rng.uniform(Purpose::Position, step as u64, 0) < self.data.tight;
        let chosen = fitting.iter().enumerate().find(enough).map(|(_, &length)| length);
        chosen.or(fitting.last().copied()).unwrap_or(least)
    }

    /// One `t` in (0, 1] per canvas: one in each of `count` equal intervals, in random order.
    fn strata(&self, cursor: u64, count: usize) -> Vec<f64> {
        let rng = self.rng(cursor);
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|&i| (rng.bits(Purpose::Remask, 0, i as u64), i));
        let offset = rng.uniform(Purpose::Remask, 1, 0);
        order.into_iter().map(|stratum| (stratum as f64 + offset) / count as f64).collect()
    }

    fn masked(&self, index: u64, example: Example, length: usize, t: f64) -> Canvas {
        let (start, rng) = (example.prompt.len(), self.rng(index));
        let tokens = self.padded(example, length);
        let masked = ((t * length as f64).ceil() as usize).clamp(1, length);
        let mut positions: Vec<usize> = (start..start + length).collect();
        positions.sort_by_key(|&p| (rng.bits(Purpose::Mask, 0, p as u64), p));
        positions.truncate(masked);
        positions.sort_unstable();
        let weights = vec![length as f32 / masked as f32; masked];
        self.hidden(tokens, positions, weights, length)
    }

    /// A prefix of the response is known, up to a place that `t` chooses between its start and its end, and of what
    /// follows few tokens or none. The nearer a mask is to that place the more it weighs (`1/(1 + distance)`): what is far
    /// off cannot be known yet.
    fn ordered(&self, index: u64, example: Example, length: usize, t: f64) -> Canvas {
        let (start, rng) = (example.prompt.len(), self.rng(index));
        let places = example.response.len() + 1;
        let first = start + ((t * places as f64) as usize).min(places - 1);
        let tokens = self.padded(example, length);
        let share = (2.0 * rng.uniform(Purpose::Remask, 2, 0) - 1.0).max(0.0) * 0.6;
        let known = |p: usize| p > first && rng.uniform(Purpose::Remask, 3, p as u64) < share;
        let positions: Vec<usize> = (first..start + length).filter(|&p| !known(p)).collect();
        let near = |p: usize| 1.0 / (1 + p - first) as f32;
        let all: f32 = positions.iter().map(|&p| near(p)).sum();
        let weights = positions.iter().map(|&p| near(p) * length as f32 / all).collect();
        self.hidden(tokens, positions, weights, length)
    }

    /// Prompt, response and ends up to `length`.
    fn padded(&self, example: Example, length: usize) -> Vec<u32> {
        let (start, mut tokens) = (example.prompt.len(), example.prompt);
        tokens.extend(example.response);
        tokens.resize(start + length, self.eos());
        tokens
    }

    /// The canvas that hides `positions`.
    fn hidden(
        &self,
        mut tokens: Vec<u32>,
        positions: Vec<usize>,
        weights: Vec<f32>,
        counted: usize,
    ) -> Canvas {
        let mut hide = |&p: &usize| std::mem::replace(&mut tokens[p], self.spec.ids.mask);
        let targets = positions.iter().map(&mut hide).collect();
        Canvas { tokens, positions, targets, weights, counted, seen: Seen::All }
    }

    /// The same example twice: half of its response masked, then the other half. In blocks, one of them is trained, what is
    /// before it is known and what follows it is masked without loss.
    fn halves(&self, index: u64, example: Example, length: usize, block: usize) -> [Canvas; 2] {
        let (start, rng) = (example.prompt.len(), self.rng(index));
        let tokens = self.padded(example, length);
        let trained = match block {
            0 => start..start + length,
            _ => {
                let blocks = length.div_ceil(block) as u64;
                let first = (rng.bits(Purpose::Position, 1, 0) % blocks) as usize * block;
                start + first..start + (first + block).min(length)
            }
        };
        let first_half = |p: &usize| rng.uniform(Purpose::Mask, 1, *p as u64) < 0.5;
        let (one, other): (Vec<usize>, Vec<usize>) = trained.clone().partition(first_half);
        [(one, 1), (other, 0)].map(|(positions, counted)| {
            let weights = vec![1.0 / positions.len().max(1) as f32; positions.len()];
            let mut canvas = self.hidden(tokens.clone(), positions, weights, counted);
            canvas.tokens[trained.end..].fill(self.spec.ids.mask);
            canvas
        })
    }

    /// Predicts every response token and its end, and the prompt's after the first where they weigh anything.
    fn next_token(&self, example: Example, prompt: f32) -> Canvas {
        let (start, length) = (example.prompt.len(), example.response.len() + 1);
        let mut tokens = example.prompt;
        tokens.extend(example.response);
        let first = if prompt > 0.0 { 1 } else { start };
        let targets: Vec<u32> = tokens[first..].iter().copied().chain([self.eos()]).collect();
        let positions: Vec<usize> = (first..start + length).collect();
        let weights = positions.iter().map(|&p| if p < start { prompt } else { 1.0 }).collect();
        Canvas { tokens, positions, targets, weights, counted: length, seen: Seen::Before(0) }
    }

    /// Next-token targets of the response alone, behind a prompt that sees itself both ways.
    fn after_prompt(&self, example: Example) -> Canvas {
        let seen = Seen::Before(example.prompt.len());
        Canvas { seen, ..self.next_token(example, 0.0) }
    }

    fn eos(&self) -> u32 {
        self.spec.ids.eos.first().copied().unwrap_or(self.spec.ids.mask)
    }

    fn rng(&self, index: u64) -> Rng {
        Rng::new(self.seed, index)
    }
}

/// Groups canvases in order so that a part has at most `tokens` tokens, or one canvas.
fn split(canvases: &[Canvas], tokens: usize) -> impl Iterator<Item = &[Canvas]> {
    let mut rest = canvases;
    std::iter::from_fn(move || {
        let count = fitting(rest.iter().map(|canvas| [canvas.tokens.len()]), [tokens]);
        let (part, left) = rest.split_at(count.min(rest.len()));
        rest = left;
        (!part.is_empty()).then_some(part)
    })
}

/// Canvases one after another, each seeing of itself what its lesson lets it see.
fn packed(canvases: &[Canvas]) -> Packed {
    let mut packed = Packed::new(canvases.iter().map(|canvas| canvas.tokens.as_slice()), false);
    let mut segments = Vec::with_capacity(2 * canvases.len());
    let mut start = 0;
    for canvas in canvases {
        let rows = start..start + canvas.tokens.len();
        start = rows.end;
        let Seen::Before(prompt) = canvas.seen else {
            segments.push(Segment { q: rows.clone(), k: rows, causal_offset: None });
            continue;
        };
        let (asked, later) = (rows.start..rows.start + prompt, rows.start + prompt..rows.end);
        if prompt > 0 {
            segments.push(Segment { q: asked.clone(), k: asked, causal_offset: None });
        }
        segments.push(Segment { q: later, k: rows, causal_offset: Some(prompt) });
    }
    packed.segments = segments.into();
    packed
}

fn part(canvases: &[Canvas], shift: bool, normaliser: f32, sure: Option<f32>) -> BatchPart {
    let packed = packed(canvases);
    let (mut rows, mut targets, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    let (mut start, mut passes) = (0, Vec::new());
    for canvas in canvases {
        passes.push(targets.len()..targets.len() + canvas.targets.len());
        rows.extend(canvas.positions.iter().map(|&p| (start + p - usize::from(shift)) as u32));
        targets.extend_from_slice(&canvas.targets);
        weights.extend(canvas.weights.iter().map(|weight| weight / normaliser));
        start += canvas.tokens.len();
    }
    let certainty = sure.map(|weight| Certainty { passes, weight: weight / normaliser });
    BatchPart { packed, rows, targets, weights, certainty }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pretrain::config::{Config, tests::SMALL};
    use crate::pretrain::tests::{Sums, spec};

    fn batch(objective: Objective, cursor: u64) -> Batch {
        let config = Config::parse(SMALL).unwrap();
        let stage = config.stage.iter().find(|stage| stage.objective == objective).unwrap();
        Batches::new(&spec(), &config.data, 5, 64).at(&mut Sums, cursor, stage).unwrap()
    }

    #[test]
    fn prompts_are_predicted_with_their_own_weight() {
        let mut config = Config::parse(SMALL).unwrap();
        config.stage[0].prompt = 0.25;
        let spec = spec();
        let at = |stage| Batches::new(&spec, &config.data, 5, 64).at(&mut Sums, 0, stage).unwrap();
        let (with, without) = (at(&config.stage[0]), batch(Objective::Autoregressive, 0));
        let sum = |batch: &Batch| -> f32 { batch.parts.iter().flat_map(|part| &part.weights).sum() };
        let count = |batch: &Batch| -> usize { batch.parts.iter().map(|part| part.rows.len()).sum() };
        let added = (count(&with) - count(&without)) as f32;
        let responses = count(&without) as f32;
        assert!(added > 0.0);
        assert!((sum(&without) - 1.0).abs() < 1e-4);
        assert!((sum(&with) - 1.0 - 0.25 * added / responses).abs() < 1e-4);
        let part = &with.parts[0];
        let lasts: Vec<usize> = part.packed.segments.iter().map(|segment| segment.q.end - 1).collect();
        for (&row, &target) in part.rows.iter().zip(&part.targets) {
            if !lasts.contains(&(row as usize)) {
                assert_eq!(part.packed.tokens[row as usize + 1], target);
            }
        }
    }

    #[test]
    fn diffusion_masks_responses_and_weighs_them_to_one() {
        let spec = spec();
        let (mut weight, mut masked) = (0.0, 0);
        for cursor in 0..200 {
            let batch = batch(Objective::Diffusion, cursor * 100);
            assert!(batch.tokens >= 160 && batch.parts.iter().all(|part| part.packed.tokens.len() <= 64));
            for part in &batch.parts {
                for ((&row, &target), &w) in part.rows.iter().zip(&part.targets).zip(&part.weights) {
                    // The row before a masked position predicts it, and never a mask.
                    assert_eq!(part.packed.tokens[row as usize + 1], spec.ids.mask);
                    assert!(target != spec.ids.mask && w > 0.0);
                    weight += f64::from(w);
                }
                masked += part.rows.len();
                let hidden = part.packed.tokens.iter().filter(|&&t| t == spec.ids.mask).count();
                assert_eq!(hidden, part.rows.len());
            }
        }
        // Every canvas contributes its response length, whatever its t: the weights of a batch sum to one.
        assert!((weight / 200.0 - 1.0).abs() < 1e-4, "{weight}");
        assert!(masked > 0);
    }

    /// Canvases of a diffusion stage with these shares, batch by batch: attention, tokens, rows and weights.
    fn lessons(ordered: f32, causal: f32, prefix: f32) -> Vec<BatchPart> {
        let mut config = Config::parse(SMALL).unwrap();
        let stage = config.stage.iter_mut().find(|stage| stage.objective == Objective::Diffusion).unwrap();
        (stage.ordered, stage.causal, stage.prefix) = (ordered, causal, prefix);
        let (stage, spec) = (stage.clone(), spec());
        let batches = Batches::new(&spec, &config.data, 5, 64);
        let at = |cursor: u64| batches.at(&mut Sums, cursor * 100, &stage).unwrap();
        (0..40)
            .map(at)
            .flat_map(|batch| {
                let sum: f32 = batch.parts.iter().flat_map(|part| &part.weights).sum();
                assert!(
                    (sum - 1.0).abs() < 1e-4,
                    "whatever its lessons, the weights of a batch sum to one: {sum}"
                );
                batch.parts
            })
            .collect()
    }

    #[test]
    fn ordered_canvases_know_a_prefix_and_ask_first_for_what_follows_it() {
        let mask = spec().ids.mask;
        let mut known_later = 0;
        for part in lessons(1.0, 0.0, 0.0) {
            for segment in part.packed.segments.iter() {
                let tokens = &part.packed.tokens[segment.q.clone()];
                let first = tokens.iter().position(|&token| token == mask).unwrap();
                let of = |row: u32| {
                    segment.q.contains(&(row as usize)).then(|| row as usize - segment.q.start + 1)
                };
                let asked: Vec<(usize, f32)> = part
                    .rows
                    .iter()
                    .zip(&part.weights)
                    .filter_map(|(&row, &w)| Some((of(row)?, w)))
                    .collect();
                assert_eq!(asked[0].0, first);
                for &(position, weight) in &asked {
                    let ratio = asked[0].1 / weight;
                    assert!((ratio - (1 + position - first) as f32).abs() < 1e-3, "{asked:?}");
                }
                known_later += tokens[first..].iter().filter(|&&token| token != mask).count();
            }
        }
        assert!(known_later > 0, "now and then something after the frontier is known");
    }

    #[test]
    fn a_share_of_a_diffusion_stage_is_causal() {
        let parts = lessons(0.0, 0.5, 0.0);
        let count = |causal: bool| -> usize {
            let some = parts.iter().filter(|part| part.packed.segments[0].causal_offset.is_some() == causal);
            some.map(|part| part.packed.segments.len()).sum()
        };
        let (causal, both) = (count(true), count(false));
        assert!((0.35..0.65).contains(&(causal as f64 / (causal + both) as f64)), "{causal} {both}");
        for part in parts {
            let masks = part.packed.tokens.iter().any(|&token| token == spec().ids.mask);
            assert_ne!(
                masks,
                part.packed.segments[0].causal_offset.is_some(),
                "next tokens are predicted without masks"
            );
        }
    }

    #[test]
    fn behind_a_prefix_every_row_predicts_the_next_and_the_prompt_sees_itself() {
        for part in lessons(0.0, 0.0, 1.0) {
            let mut rows = part.rows.iter().zip(&part.targets).peekable();
            for pair in part.packed.segments.chunks(2) {
                let [prompt, response] = pair else { panic!("a prompt and its response: {pair:?}") };
                assert_eq!((&prompt.q, prompt.causal_offset), (&prompt.k, None));
                assert_eq!(response.k, prompt.q.start..response.q.end);
                assert_eq!((response.q.start, response.causal_offset), (prompt.q.end, Some(prompt.q.len())));
                // From the last row of the prompt to the end, which predicts the end of sequence.
                for row in prompt.q.end - 1..response.q.end {
                    let next = part.packed.tokens.get(row + 1).filter(|_| row + 1 < response.q.end);
                    let expected = next.copied().unwrap_or(spec().ids.eos[0]);
                    assert_eq!(rows.next(), Some((&(row as u32), &expected)));
                }
            }
            assert!(rows.next().is_none());
        }
    }

    #[test]
    fn the_halves_of_certainty_partition_what_is_trained() {
        let (spec, config) = (spec(), Config::parse(SMALL).unwrap());
        for (index, block) in (0..60).flat_map(|index| [0, 3].map(|block| (index, block))) {
            let example = Sums.example(index, &config.stage[0]).unwrap();
            let (start, whole) =
                (example.prompt.len(), [example.prompt.clone(), example.response.clone()].concat());
            let batches = Batches::new(&spec, &config.data, 5, 64);
            let [one, other] = batches.halves(index, example, 8, block);
            let mut both: Vec<usize> = one.positions.iter().chain(&other.positions).copied().collect();
            both.sort_unstable();
            let (first, end) = (both[0], both[both.len() - 1] + 1);
            assert_eq!(both, (first..end).collect::<Vec<_>>(), "no cell twice and none left out");
            assert!(if block == 0 { (first, end) == (start, start + 8) } else { (first - start) % 3 == 0 });
            for canvas in [&one, &other] {
                for position in start..start + 8 {
                    let known = whole.get(position).copied().unwrap_or(spec.ids.eos[0]);
                    let masked = canvas.positions.contains(&position) || position >= end;
                    assert_eq!(canvas.tokens[position], if masked { spec.ids.mask } else { known });
                }
                let sum: f32 = canvas.weights.iter().sum();
                assert!(canvas.positions.is_empty() || (sum - 1.0).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn strata_cover_the_interval() {
        let (spec, config) = (spec(), Config::parse(SMALL).unwrap());
        let mut t = Batches::new(&spec, &config.data, 5, 64).strata(9, 50);
        t.sort_by(f64::total_cmp);
        assert!(t.iter().enumerate().all(|(i, &t)| (t * 50.0).floor() == i as f64 && t > 0.0 && t < 1.0));
    }

    #[test]
    fn next_token_targets_end_with_eos_and_are_causal() {
        let batch = batch(Objective::Autoregressive, 0);
        let part = &batch.parts[0];
        assert!(part.packed.segments.iter().all(|segment| segment.causal_offset == Some(0)));
        let segment = &part.packed.segments[0];
        let own: Vec<usize> =
            (0..part.rows.len()).filter(|&i| segment.q.contains(&(part.rows[i] as usize))).collect();
        let (last, rest) = own.split_last().unwrap();
        assert_eq!(part.targets[*last], spec().ids.eos[0]);
        for &i in rest {
            assert_eq!(part.packed.tokens[part.rows[i] as usize + 1], part.targets[i]);
        }
    }

    #[test]
    fn a_batch_depends_on_its_place_alone() {
        let (a, b) = (batch(Objective::Diffusion, 7), batch(Objective::Diffusion, 7));
        assert_eq!(a.parts[0].packed.tokens, b.parts[0].packed.tokens);
        assert_ne!(a.parts[0].packed.tokens, batch(Objective::Diffusion, 8).parts[0].packed.tokens);
    }

    #[test]
    fn examples_that_do_not_fit_are_named() {
        struct Long;
        impl ExampleSource for Long {
            fn example(&mut self, _: u64, _: &Stage) -> Result<Example> {
                Ok(Example { prompt: vec![4], response: vec![5; 40] })
            }
        }
        let (spec, config) = (spec(), Config::parse(SMALL).unwrap());
        let error = Batches::new(&spec, &config.data, 5, 64).at(&mut Long, 3, &config.stage[1]).unwrap_err();
        assert!(error.to_string().contains("example 3") && error.to_string().contains("40"), "{error}");
    }
}
