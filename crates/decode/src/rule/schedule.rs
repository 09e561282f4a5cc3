//! How many tokens a step unmasks, for strategies that rank positions.

use crate::error::{Error, Result};
use crate::registry::{Kind, Param, Values};
use crate::rule::top_k;
use crate::strategy::{Selection, Step, Stop};

/// A fixed number of tokens a step.
pub const TOKENS_PER_STEP: Param =
    Param { key: "k", default: "", kind: Kind::Count, help: "tokens per step (1 if steps is not given)" };

/// LLaDA's schedule instead of a fixed number.
pub const EVEN_STEPS: Param = Param {
    key: "steps",
    default: "",
    kind: Kind::Count,
    help: "forward passes for the whole response, shared out evenly, instead of k",
};

/// Dream's schedule instead of a fixed number.
pub const TIMESTEPS: Param = Param {
    key: "steps",
    default: "",
    kind: Kind::Count,
    help: "forward passes for the whole response (Dream's timestep schedule) instead of k",
};

/// Which of the two schedules `steps` means.
pub const SHARING: Param = Param {
    key: "schedule",
    default: "timestep",
    kind: Kind::Choice(&["timestep", "even"]),
    help: "how steps are shared out: Dream's timestep or LLaDA's even",
};

/// Where Dream's time axis ends.
pub const EPS: Param = Param {
    key: "eps",
    default: "0.001",
    kind: Kind::Number(0.0, 0.5),
    help: "end of the timestep schedule",
};

/// Transfer counts per step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Schedule {
    /// The same number every step.
    Fixed(usize),
    /// Dream's: at step i of n, `trunc(|M|·(1 − t_{i+1}/t_i))` with `t` evenly spaced from 1 to
    /// eps, everything at the last step. With as many steps as tokens the first step commits nothing.
    Timestep {
        /// Forward passes for the whole response.
        steps: usize,
        /// End of the time axis.
        eps: f64,
    },
    /// LLaDA's: the block's masks divided evenly, the remainder to the first steps.
    Even {
        /// Forward passes for the whole response.
        steps: usize,
    },
}

impl Schedule {
    /// As the parameters say: `k` tokens per step, or `steps` passes in all, shared out as [`SHARING`] says where a
    /// strategy has it and evenly otherwise.
    pub fn of(values: &Values<'_>) -> Result<Self> {
        match (values.count("k"), values.count("steps")) {
            (Some(k), Some(_)) => Err(Error::BadValue {
                what: format!("{}:k", values.name()),
                value: k.to_string(),
                why: "give k (tokens per step) or steps (passes in all), not both".into(),
            }),
            (k, None) => Ok(Self::Fixed(k.unwrap_or(1))),
            (None, Some(steps)) if values.text("schedule") == "timestep" => {
                Ok(Self::Timestep { steps, eps: values.number("eps") })
            }
            (None, Some(steps)) => Ok(Self::Even { steps }),
        }
    }

    /// The best positions by score, as many as this step takes.
    pub fn best(&self, step: &Step<'_>, scores: &[f32]) -> Selection {
        self.first(step, top_k(scores, scores.len()))
    }

    /// The first of an order of all positions, as many as this step takes.
    pub fn first(&self, step: &Step<'_>, mut order: Vec<usize>) -> Selection {
        let all = order.len();
        order.truncate(self.count(step));
        let stop = if order.len() == all { Stop::AllTaken } else { Stop::Count };
        Selection { chosen: order, stop: Some(stop), ..Selection::default() }
    }

    /// Whether this is the last step of the block. With a fixed number per step there is none: the
    /// block ends when its masks do.
    pub fn is_last(&self, step: &Step<'_>) -> bool {
        match *self {
            Self::Fixed(_) => false,
            Self::Timestep { steps, .. } | Self::Even { steps } => {
                step.block.step + 1 >= (steps / step.block.count).max(1)
            }
        }
    }

    /// How many positions this step takes.
    pub fn count(&self, step: &Step<'_>) -> usize {
        let masked = step.masked.len();
        let per_block = |steps: usize| (steps / step.block.count).max(1);
        match *self {
            Self::Fixed(k) => k.min(masked),
            Self::Timestep { steps, eps } => timestep(masked, step.block.step, per_block(steps), eps),
            Self::Even { steps } => {
                let (total, steps) = (step.block.entered_with, per_block(steps));
                let count = total / steps + usize::from(step.block.step < total % steps);
                // With more steps than masks the last ones take nothing; past its end a schedule never stalls.
                let least = usize::from(step.block.step >= steps);
                count.max(least).min(masked)
            }
        }
    }
}

/// Dream's transfer ratio between two neighbouring times, in f32 as `linspace` computes it.
pub fn timestep_ratio(step: usize, steps: usize, eps: f64) -> f64 {
    if step + 1 >= steps {
        return 1.0;
    }
    let time = |i: usize| linspace(i, steps, eps as f32);
    f64::from(1.0 - time(step + 1) / time(step))
}

/// Point `i` of `linspace(1, eps, steps + 1)` as PyTorch computes it: from both ends, in f32.
fn linspace(i: usize, steps: usize, eps: f32) -> f32 {
    let increment = (eps - 1.0) / steps as f32;
    if i < steps.div_ceil(2) { 1.0 + increment * i as f32 } else { eps - increment * (steps - i) as f32 }
}

fn timestep(masked: usize, step: usize, steps: usize, eps: f64) -> usize {
    if step + 1 >= steps {
        return masked;
    }
    let time = |i: usize| linspace(i, steps, eps as f32);
    let ratio = 1.0 - time(step + 1) / time(step);
    (masked as f32 * ratio) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(length: usize, steps: usize) -> Vec<usize> {
        let mut left = length;
        (0..steps)
            .map(|i| {
                let k = timestep(left, i, steps, 1e-3);
                left -= k;
                k
            })
            .collect()
    }

    #[test]
    fn as_many_steps_as_tokens_wastes_the_first_and_doubles_the_last() {
        let counts = counts(40, 40);
        assert_eq!((counts[0], counts[39]), (0, 2));
        assert!(counts[1..39].iter().all(|&k| k == 1));
    }

    #[test]
    fn half_the_steps_take_two_at_a_time() {
        let counts = counts(40, 20);
        assert_eq!((counts[0], counts[19]), (1, 3));
        assert!(counts[1..19].iter().all(|&k| k == 2));
    }

    #[test]
    fn the_last_step_takes_everything() {
        assert_eq!(timestep(17, 4, 5, 1e-3), 17);
        assert_eq!(timestep_ratio(4, 5, 1e-3), 1.0);
    }
}
