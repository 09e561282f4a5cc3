//! CoDD's prior: a homogeneous hidden Markov model over the tokens of a block. Multiplied by the model's marginals it is
//! still one chain, so its partition, posteriors and samples take one pass with soft evidence
//! `e_i[s] = Σ_v B[s,v]·p_i(v)` (a known cell: `B[s,x_i]`): `α_0 = π∘e_0`, `α_i = (α_{i−1}·A)∘e_i`, `Z = Σ α_last`.

use std::path::Path;

use demask_model::Rows;
use demask_model::checkpoint::Store;

use crate::error::{Error, Result};
use crate::trained::{Named, PartHeader, matrix, write_part};

/// A hidden Markov model.
#[derive(Debug, Clone)]
pub struct Prior {
    header: PartHeader,
    /// `π`.
    initial: Vec<f32>,
    /// `A`, a row per state.
    transition: Rows,
    /// `B`, a row per state.
    emission: Rows,
}

/// The chain with evidence: scaled forward messages.
pub struct Chain<'a> {
    prior: &'a Prior,
    /// `α_i` over its sum.
    forward: Vec<Vec<f64>>,
    evidence: Vec<Vec<f64>>,
    /// `ln Z`.
    pub log_partition: f64,
}

impl Prior {
    /// From its parts; each distribution must sum to 1.
    pub fn new(header: PartHeader, initial: Vec<f32>, transition: Rows, emission: Rows) -> Result<Self> {
        let states = initial.len();
        let fits = states > 0
            && (transition.len(), transition.width) == (states, states)
            && emission.len() == states;
        let sums = |row: &[f32]| (row.iter().map(|&p| f64::from(p)).sum::<f64>() - 1.0).abs() < 1e-3;
        let proper = sums(&initial) && transition.iter().all(sums) && emission.iter().all(sums);
        if !fits || !proper {
            return Err(Error::Part(
                "a prior needs π, A and B with the same number of states, each row summing to 1".into(),
            ));
        }
        Ok(Self { header, initial, transition, emission })
    }

    /// Reads a prior's file.
    pub fn load(path: &Path) -> Result<Self> {
        let store = Store::open_file(path)?;
        let header = PartHeader::read(&store, "prior")?;
        let initial = matrix(&store, "initial")?.data;
        Self::new(header, initial, matrix(&store, "transition")?, matrix(&store, "emission")?)
    }

    /// Writes it, through a temporary neighbour.
    pub fn save(&self, path: &Path) -> Result<()> {
        let (states, vocab) = (self.initial.len(), self.vocab());
        let header = PartHeader { kind: "prior".into(), ..self.header.clone() };
        let header = header.sized("states", states).sized("vocab", vocab);
        let parts: [Named<'_>; 3] = [
            ("initial", &[1, states], &self.initial),
            ("transition", &[states, states], &self.transition.data),
            ("emission", &[states, vocab], &self.emission.data),
        ];
        write_part(path, &header, &parts)
    }

    /// What its file says.
    pub fn header(&self) -> &PartHeader {
        &self.header
    }

    /// Tokens it knows.
    pub fn vocab(&self) -> usize {
        self.emission.width
    }

    /// Evidence of probabilities.
    pub fn soft(&self, probabilities: &[f32]) -> Vec<f64> {
        let dot =
            |row: &[f32]| row.iter().zip(probabilities).map(|(b, p)| f64::from(*b) * f64::from(*p)).sum();
        self.emission.iter().map(dot).collect()
    }

    /// Evidence of a token that is known; one the prior does not know says nothing.
    pub fn hard(&self, token: u32) -> Vec<f64> {
        let of = |row: &[f32]| row.get(token as usize).map_or(1.0, |&b| f64::from(b));
        self.emission.iter().map(of).collect()
    }

    /// `ln B[state, token]`.
    pub fn log_emission(&self, state: usize, token: usize) -> f32 {
        self.emission.row(state).get(token).map_or(f32::NEG_INFINITY, |b| b.ln())
    }

    /// Runs the chain over evidence, one vector per cell. Impossible evidence counts as none.
    pub fn chain(&self, evidence: Vec<Vec<f64>>) -> Chain<'_> {
        let mut forward: Vec<Vec<f64>> = Vec::with_capacity(evidence.len());
        let mut log_partition = 0.0;
        for own in &evidence {
            let before: Vec<f64> = match forward.last() {
                None => self.initial.iter().map(|&p| f64::from(p)).collect(),
                Some(last) => self.advance(last),
            };
            let mut now: Vec<f64> = before.iter().zip(own).map(|(a, e)| a * e).collect();
            let mut sum: f64 = now.iter().sum();
            log_partition += sum.ln();
            if sum <= 0.0 {
                (now, sum) = (before.clone(), before.iter().sum());
            }
            now.iter_mut().for_each(|a| *a /= sum);
            forward.push(now);
        }
        Chain { prior: self, forward, evidence, log_partition }
    }

    /// `α·A`.
    fn advance(&self, alpha: &[f64]) -> Vec<f64> {
        let mut next = vec![0.0; alpha.len()];
        for (a, row) in alpha.iter().zip(self.transition.iter()) {
            next.iter_mut().zip(row).for_each(|(n, &t)| *n += a * f64::from(t));
        }
        next
    }
}

impl Chain<'_> {
    /// Draws the states from the last to the first; `uniform` gives a draw for each cell.
    pub fn sample(&self, uniform: impl Fn(usize) -> f64) -> Vec<usize> {
        let mut states = vec![0; self.forward.len()];
        for cell in (0..self.forward.len()).rev() {
            let weight = |s: usize| match states.get(cell + 1) {
                None => self.forward[cell][s],
                Some(&next) => self.forward[cell][s] * f64::from(self.prior.transition.row(s)[next]),
            };
            let weights: Vec<f64> = (0..self.forward[cell].len()).map(weight).collect();
            let mut left = uniform(cell) * weights.iter().sum::<f64>();
            let pick = weights.iter().position(|w| {
                left -= w;
                left < 0.0
            });
            states[cell] = pick.unwrap_or(weights.len() - 1);
        }
        states
    }

    /// Posterior of the states of every cell.
    pub fn posteriors(&self) -> Vec<Vec<f64>> {
        let states = self.prior.initial.len();
        let mut backward = vec![1.0; states];
        let mut out = vec![Vec::new(); self.forward.len()];
        for cell in (0..self.forward.len()).rev() {
            let mut own: Vec<f64> = self.forward[cell].iter().zip(&backward).map(|(a, b)| a * b).collect();
            let sum: f64 = own.iter().sum();
            own.iter_mut().for_each(|p| *p /= sum);
            out[cell] = own;
            let seen: Vec<f64> = backward.iter().zip(&self.evidence[cell]).map(|(b, e)| b * e).collect();
            let from = |s: usize| {
                self.prior.transition.row(s).iter().zip(&seen).map(|(&t, b)| f64::from(t) * b).sum()
            };
            backward = (0..states).map(from).collect();
            let largest = backward.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
            backward.iter_mut().for_each(|b| *b /= largest);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, numbers, rows};

    #[test]
    fn partitions_posteriors_and_marginals_are_those_of_enumeration() {
        for case in fixture("rivals-toy/codd.json")["cases"].as_array().unwrap() {
            let (initial, transition) = (numbers(&case["initial"]), rows(&case["transition"]));
            let prior =
                Prior::new(PartHeader::default(), initial, transition, rows(&case["emission"])).unwrap();
            let p = rows(&case["token_probabilities"]);
            let known = |cell: usize| case["known"][cell.to_string()].as_u64();
            let evidence = (0..p.len()).map(|cell| match known(cell) {
                Some(token) => prior.hard(token as u32),
                None => prior.soft(p.row(cell)),
            });
            let chain = prior.chain(evidence.collect());
            let want = case["partition"].as_f64().unwrap();
            assert!((chain.log_partition.exp() - want).abs() < 1e-6 * want.max(1e-3), "{want}");
            let posteriors = chain.posteriors();
            for (cell, want) in rows(&case["state_posterior"]).iter().enumerate() {
                let pairs = posteriors[cell].iter().zip(want);
                pairs.for_each(|(got, want)| assert!((got - f64::from(*want)).abs() < 1e-5, "{got} {want}"));
            }
            for (cell, want) in rows(&case["token_marginals"]).iter().enumerate() {
                let marginal = |token: usize| match known(cell) {
                    Some(known) => f64::from(u8::from(known == token as u64)),
                    None => posteriors[cell]
                        .iter()
                        .enumerate()
                        .map(|(s, q)| {
                            let b = f64::from(prior.emission.row(s)[token]);
                            q * b * f64::from(p.row(cell)[token]) / prior.soft(p.row(cell))[s]
                        })
                        .sum(),
                };
                for (token, want) in want.iter().enumerate() {
                    assert!((marginal(token) - f64::from(*want)).abs() < 1e-5, "cell {cell} token {token}");
                }
            }
        }
    }

    /// Every sequence scored by the chain with its tokens clamped, times what the model says of each.
    #[test]
    fn the_joint_and_its_most_probable_sequence_are_those_of_enumeration() {
        for case in fixture("rivals-toy/codd.json")["cases"].as_array().unwrap() {
            let (initial, transition) = (numbers(&case["initial"]), rows(&case["transition"]));
            let prior =
                Prior::new(PartHeader::default(), initial, transition, rows(&case["emission"])).unwrap();
            let p = rows(&case["token_probabilities"]);
            let known = |cell: usize| case["known"][cell.to_string()].as_u64().map(|t| t as usize);
            let partition = case["partition"].as_f64().unwrap();
            let (mut best, mut sum) = ((0.0, Vec::new()), 0.0);
            for number in 0..p.width.pow(p.len() as u32) {
                let digit = |cell: usize| number / p.width.pow(cell as u32) % p.width;
                let tokens: Vec<usize> = (0..p.len()).map(digit).collect();
                if (0..p.len()).any(|cell| known(cell).is_some_and(|t| t != tokens[cell])) {
                    continue;
                }
                let evidence = tokens.iter().map(|&t| prior.hard(t as u32)).collect();
                let free = (0..p.len()).filter(|&cell| known(cell).is_none());
                let own: f64 = free.map(|cell| f64::from(p.row(cell)[tokens[cell]])).product();
                let joint = prior.chain(evidence).log_partition.exp() * own / partition;
                sum += joint;
                if joint > best.0 {
                    best = (joint, tokens.clone());
                }
                let name = tokens.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
                if let Some(want) = case["joint"][&name].as_f64() {
                    assert!((joint - want).abs() < 1e-6, "{name}: {joint} {want}");
                }
            }
            assert!((sum - 1.0).abs() < 1e-5, "{sum}");
            let want: Vec<usize> = case["most_probable"]
                .as_array()
                .unwrap()
                .iter()
                .map(|t| t.as_u64().unwrap() as usize)
                .collect();
            assert_eq!(best.1, want);
        }
    }

    #[test]
    fn states_are_drawn_together() {
        let case = fixture("rivals-toy/codd.json")["cases"][0].clone();
        let (initial, transition) = (numbers(&case["initial"]), rows(&case["transition"]));
        let prior = Prior::new(PartHeader::default(), initial, transition, rows(&case["emission"])).unwrap();
        let p = rows(&case["token_probabilities"]);
        let chain = prior.chain(p.iter().map(|row| prior.soft(row)).collect());
        let rng = crate::rng::Rng::new(3, 0);
        let mut first = 0;
        for draw in 0..4000 {
            let states = chain.sample(|cell| rng.uniform(crate::rng::Purpose::Noise, draw, cell as u64));
            assert_eq!(states[0], states[1], "New goes with York");
            first += usize::from(states[0] == 0);
        }
        assert!((first as f64 / 4000.0 - 0.6468).abs() < 0.025, "{first}");
    }

    #[test]
    fn a_prior_is_saved_and_read_and_a_broken_one_refused() {
        let uniform =
            |rows: usize, width: usize| Rows { data: vec![1.0 / width as f32; rows * width], width };
        let header = PartHeader { backbone: Some("x".into()), ..PartHeader::default() };
        let prior = Prior::new(header, vec![0.5, 0.5], uniform(2, 2), uniform(2, 5)).unwrap();
        let folder = std::env::temp_dir().join(format!("demask-prior-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("prior.safetensors");
        prior.save(&path).unwrap();
        let read = Prior::load(&path).unwrap();
        assert_eq!((read.vocab(), read.header().backbone.as_deref()), (5, Some("x")));
        assert!(crate::trained::Policy::load(&path).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(Prior::new(PartHeader::default(), vec![0.5, 0.6], uniform(2, 2), uniform(2, 5)).is_err());
    }
}
