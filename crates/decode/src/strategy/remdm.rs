//! ReMDM: the noise schedule's own sampler, with remasking. Time runs from t = 1 to 0 in `steps` steps,
//! `α_t = 1 − t`. In a step from t to s, a committed token is masked again with probability σ and a
//! mask is unmasked with probability `(α_s − (1 − σ)·α_t) / (1 − α_t)`; the last step unmasks all and
//! masks nothing, so it ends after exactly `steps` steps a block.
//!
//! With `σ_max = min(1, (1 − α_s)/α_t)`: `cap` is `min(η, σ_max)`; `rescale` is `η·σ_max`; `conf` is
//! `σ_max` shared out over the committed tokens by `softmax(−confidence when committed)`, with σ = 0 in
//! the rate of the masks. Quirk of the reference's nucleus filter (it keeps the tokens up to, not
//! over, top-p): not kept, the engine's sampler is used. Its `loop` schedule is left out. An end of
//! sequence stays, because what follows it is already filled (ours).

use crate::canvas::Cell;
use crate::error::Result;
use crate::registry::{Cost, Entry, Kind, Param};
use crate::rng::Purpose;
use crate::strategy::{Selection, Step, Stop, Strategy};

pub(super) const ENTRY: Entry = Entry {
    name: "remdm",
    aliases: &[],
    summary: "unmask at the rate of the noise schedule and mask committed tokens again at random",
    source: "ReMDM (Wang et al. 2025)",
    cost: Cost::Logits,
    params: &[
        Param {
            key: "steps",
            default: "",
            kind: Kind::Count,
            help: "forward passes (as many as masked tokens if not given)",
        },
        Param {
            key: "sigma",
            default: "cap",
            kind: Kind::Choice(&["cap", "rescale", "conf"]),
            help: "how the chance of masking again is set",
        },
        Param {
            key: "eta",
            default: "0.008",
            kind: Kind::Number(0.0, 1.0),
            help: "that chance per step (cap), or its part of the largest possible (rescale)",
        },
    ],
    build: |values| {
        let sigma = match values.text("sigma") {
            "rescale" => Sigma::Rescale,
            "conf" => Sigma::Conf,
            _ => Sigma::Cap,
        };
        let (steps, eta) = (values.count("steps"), values.number("eta"));
        Ok(Box::new(ReMdm { steps, sigma, eta, block: Vec::new() }))
    },
};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Sigma {
    Cap,
    Rescale,
    Conf,
}

struct ReMdm {
    steps: Option<usize>,
    sigma: Sigma,
    eta: f64,
    /// Masks of the block when it was entered.
    block: Vec<usize>,
}

/// The chances of one step.
#[derive(Debug, Clone, PartialEq)]
struct Rates {
    /// That a mask is unmasked.
    unmask: f64,
    /// That each of the committed tokens is masked again.
    remask: Vec<f64>,
}

impl Strategy for ReMdm {
    fn reads_logits(&self) -> bool {
        false
    }

    fn revises(&self) -> bool {
        true
    }

    fn select(&mut self, step: &Step<'_>) -> Result<Selection> {
        if step.block.step == 0 {
            self.block = step.masked.to_vec();
        }
        let steps = self.steps.map_or(step.block.entered_with, |s| (s / step.block.count).max(1));
        if step.block.step + 1 >= steps {
            let chosen = (0..step.masked.len()).collect();
            return Ok(Selection { chosen, stop: Some(Stop::AllTaken), ..Selection::default() });
        }
        let committed = self.committed(step);
        let confidence: Vec<f32> = committed.iter().map(|c| c.1).collect();
        let rates = self.rates(step.block.step, steps, &confidence);
        let draw = |purpose, position: usize| step.rng.uniform(purpose, step.index as u64, position as u64);
        let chosen: Vec<usize> = (0..step.masked.len())
            .filter(|&i| draw(Purpose::Position, step.masked[i]) < rates.unmask)
            .collect();
        let again = committed
            .iter()
            .zip(&rates.remask)
            .filter(|((p, _), chance)| draw(Purpose::Remask, *p) < **chance);
        let remask: Vec<usize> = again.map(|((p, _), _)| *p).collect();
        let stop = if chosen.len() == step.masked.len() { Stop::AllTaken } else { Stop::Count };
        Ok(Selection { chosen, remask, stop: Some(stop), ..Selection::default() })
    }
}

impl ReMdm {
    /// Committed positions of the block that may be masked again, with their confidence.
    fn committed(&self, step: &Step<'_>) -> Vec<(usize, f32)> {
        let canvas = step.canvas;
        let committed = |&p: &usize| match canvas.cells()[p] {
            Cell::Committed { confidence, .. } if !canvas.is_eos(canvas.tokens()[p]) => Some((p, confidence)),
            _ => None,
        };
        self.block.iter().filter_map(committed).collect()
    }

    /// Of step `index` of `steps`, not the last, given the confidence of the committed tokens.
    fn rates(&self, index: usize, steps: usize, confidence: &[f32]) -> Rates {
        let (alpha_t, alpha_s) = (index as f64 / steps as f64, (index + 1) as f64 / steps as f64);
        let most = ((1.0 - alpha_s) / alpha_t).min(1.0);
        let unmask = |sigma: f64| (alpha_s - (1.0 - sigma) * alpha_t) / (1.0 - alpha_t);
        let same = |sigma: f64| Rates { unmask: unmask(sigma), remask: vec![sigma; confidence.len()] };
        match self.sigma {
            Sigma::Cap => same(self.eta.min(most)),
            Sigma::Rescale => same(self.eta * most),
            Sigma::Conf => {
                let weights: Vec<f64> = confidence.iter().map(|&c| (-f64::from(c)).exp()).collect();
                let total: f64 = weights.iter().sum();
                Rates { unmask: unmask(0.0), remask: weights.iter().map(|w| most * w / total).collect() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{EOS, Scene, build};

    fn rates(sigma: Sigma, eta: f64, index: usize, confidence: &[f32]) -> Rates {
        ReMdm { steps: None, sigma, eta, block: Vec::new() }.rates(index, 4, confidence)
    }

    #[test]
    fn rates_of_the_schedule() {
        // From α = ¼ to ½: σ_max = min(1, ½/¼) = 1; (½ − ¾·¼)/¾ = 5/12 at σ = ¼.
        assert_eq!(rates(Sigma::Cap, 0.25, 1, &[0.5]), Rates { unmask: 0.3125 / 0.75, remask: vec![0.25] });
        // From ½ to ¾: σ_max = ½; capped there, the unmask rate is (¾ − ½·½)/½ = 1.
        assert_eq!(rates(Sigma::Cap, 0.75, 2, &[0.5]), Rates { unmask: 1.0, remask: vec![0.5] });
        assert_eq!(rates(Sigma::Rescale, 0.5, 2, &[0.5]), Rates { unmask: 0.75, remask: vec![0.25] });
        // Equal confidences share σ_max; masks go at the plain rate (¾ − ½)/½.
        assert_eq!(rates(Sigma::Conf, 0.1, 2, &[0.5, 0.5]), Rates { unmask: 0.5, remask: vec![0.25, 0.25] });
        let unequal = rates(Sigma::Conf, 0.1, 2, &[0.9, 0.1]).remask;
        assert!(unequal[0] < unequal[1]);
        // At the start nothing is committed and α_t = 0: the plain rate, whatever σ.
        assert_eq!(rates(Sigma::Cap, 1.0, 0, &[]), Rates { unmask: 0.25, remask: vec![] });
    }

    #[test]
    fn the_last_step_takes_everything_and_masks_nothing() {
        let mut strategy = build("remdm:steps=2,eta=1");
        let mut scene = Scene::new(&[0.5; 8]);
        scene.select(&mut *strategy);
        scene.commit(3, 7, 0.5);
        scene.block.step = 1;
        let last = scene.select(&mut *strategy);
        assert_eq!((last.chosen.len(), last.stop, last.remask.len()), (7, Some(Stop::AllTaken), 0));
    }

    #[test]
    fn committed_tokens_go_back_at_their_rate_but_an_end_of_sequence_stays() {
        let (mut masked_again, mut ends) = (0, 0);
        for seed in 0..2000 {
            let mut strategy = build("remdm:steps=4,eta=0.25");
            let mut scene = Scene::new(&[0.5; 8]);
            scene.seed = seed;
            scene.select(&mut *strategy);
            scene.commit(3, 7, 0.5);
            scene.commit(4, EOS, 0.5);
            (scene.block.step, scene.index) = (1, 1);
            let remask = scene.select(&mut *strategy).remask;
            masked_again += usize::from(remask.contains(&3));
            ends += usize::from(remask.contains(&4));
        }
        assert!((400..600).contains(&masked_again), "{masked_again}");
        assert_eq!(ends, 0);
    }
}
