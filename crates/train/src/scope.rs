//! Trains a [`Scope`]: logistic regression on the tokens of prompts, on task against off task, by AdaGrad.
//!
//! Invariant: the result depends on the examples and their order alone.

use demask_engine::Scope;

/// Passes over the examples.
const PASSES: usize = 6;
/// Largest step of a weight; a thirtieth of it for the bias, which belongs to no feature and moves with every example.
const RATE: f32 = 0.3;
const BIAS_RATE: f32 = 0.01;
/// Pull of every weight towards zero.
const DECAY: f32 = 1e-5;
/// Added to the bias in the end: a prompt is told to be outside where the odds are `e` to one or better. Chosen on the list of typed
/// prompts for development, where it takes two thirds of the false alarms away and no hit.
const BENEFIT_OF_DOUBT: f32 = 1.0;

/// One prompt and whether it is of a kind the model is trained on.
#[derive(Debug, Clone)]
pub struct Prompted {
    /// Its tokens, without the chat template.
    pub tokens: Vec<u32>,
    /// Whether it is.
    pub inside: bool,
}

/// A trained classifier and how well it separates what it was trained on.
#[derive(Debug)]
pub struct TrainedScope {
    /// The classifier.
    pub scope: Scope,
    /// Mean log loss of the last pass over the examples, in nats.
    pub loss: f64,
    /// The same of the best constant.
    pub baseline: f64,
}

/// Fits a classifier over a vocabulary of this size; `remark` is what it will say of prompts outside.
///
/// # Panics
/// If there are no examples.
pub fn fit(examples: &[Prompted], vocabulary: usize, remark: &str) -> TrainedScope {
    assert!(!examples.is_empty(), "a scope needs examples");
    let features: Vec<_> = examples.iter().map(|e| Scope::features(&e.tokens, vocabulary)).collect();
    let mut weights = vec![0f32; Scope::features_of(vocabulary)];
    let mut squares = vec![1e-3f32; weights.len()];
    let (mut bias, mut loss) = (0f32, 0f64);
    for pass in 0..PASSES {
        loss = 0.0;
        for turn in 0..examples.len() {
            let at = visited(pass, turn, examples.len());
            let sum = features[at].iter().fold(bias, |sum, &(f, count)| sum + weights[f] * count);
            let inside = 1.0 / (1.0 + (-sum).exp());
            let right = if examples[at].inside { inside } else { 1.0 - inside };
            loss -= f64::from(right.max(1e-9).ln());
            let error = inside - f32::from(u8::from(examples[at].inside));
            for &(f, count) in &features[at] {
                let slope = error * count + DECAY * weights[f];
                squares[f] += slope * slope;
                weights[f] -= RATE * slope / squares[f].sqrt();
            }
            bias -= BIAS_RATE * error;
        }
    }
    let share = examples.iter().filter(|e| e.inside).count() as f64 / examples.len() as f64;
    let part = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
    TrainedScope {
        scope: Scope::new(remark, bias + BENEFIT_OF_DOUBT, &weights),
        loss: loss / examples.len() as f64,
        baseline: part(share) + part(1.0 - share),
    }
}

/// Which example is visited: a stride coprime to their number mixes both kinds, another one in each pass.
fn visited(pass: usize, turn: usize, examples: usize) -> usize {
    let golden = (examples as f64 * 0.618) as usize + pass;
    let stride = (golden.max(1)..).find(|&s| gcd(s, examples) == 1).unwrap_or(1);
    (turn * stride + pass) % examples
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_separates_what_can_be_separated() {
        let examples: Vec<Prompted> = (0..400)
            .map(|i| Prompted { tokens: vec![i % 7, 7 + i % 2, i % 5], inside: i % 2 == 0 })
            .collect();
        let trained = fit(&examples, 10, "no");
        assert!(trained.loss < 0.1 * trained.baseline, "{} of {}", trained.loss, trained.baseline);
        let wrong = examples.iter().filter(|e| (trained.scope.score(&e.tokens) > 0.0) != e.inside).count();
        assert_eq!(wrong, 0);
        assert_eq!(trained.scope, fit(&examples, 10, "no").scope);
    }

    #[test]
    fn every_example_is_visited_once_in_a_pass() {
        for pass in 0..3 {
            let mut seen: Vec<usize> = (0..30).map(|turn| visited(pass, turn, 30)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..30).collect::<Vec<_>>());
        }
    }
}
