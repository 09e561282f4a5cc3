//! What the stability head reads of a masked position besides its hidden row: how sure the model is, how the position
//! depends on others, and what was so in the step before.
//!
//! Invariant: decoding and training compute them with the one function here.

use demask_kernels::{SoftmaxStats, softmax_stats};
use demask_model::Rows;

use crate::dependency::Dependency;
use crate::marginals::Marginal;
use crate::rule::Before;

/// Before a logarithm, so that nothing is minus infinity.
const FLOOR: f32 = 1e-4;

/// What a head reads of a position besides its hidden row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// Probability of the most probable token.
    Top1,
    /// What it has before the second.
    Margin,
    /// Entropy in nats.
    Entropy,
    /// `ln(p/(1−p))` of the most probable token.
    Logit,
    /// `ln |M|`.
    Masks,
    /// How far to the right it is among the masks, from 0 to 1.
    Rank,
    /// Mean of all masks' top-1 probabilities.
    MeanTop1,
    /// Logarithm of the sum of its row of D̂: how much it depends on the other masks.
    Depends,
    /// Logarithm of the sum of its column: how much they depend on it.
    Decides,
    /// The largest entry of its row.
    DependsMost,
    /// Logarithm of the sum of its row over the sure positions: those that will be revealed.
    DependsOnSure,
    /// 1 if the most probable token is that of the step before.
    Kept,
    /// Its probability then.
    Before,
    /// How much that changed.
    Moved,
    /// 1 if there was a step before.
    HadBefore,
}

impl Feature {
    /// All, in the order they are computed.
    pub const ALL: [Self; 15] = [
        Self::Top1,
        Self::Margin,
        Self::Entropy,
        Self::Logit,
        Self::Masks,
        Self::Rank,
        Self::MeanTop1,
        Self::Depends,
        Self::Decides,
        Self::DependsMost,
        Self::DependsOnSure,
        Self::Kept,
        Self::Before,
        Self::Moved,
        Self::HadBefore,
    ];

    /// What a predictor of dependency may read besides hidden rows: how sure the model is, now.
    pub const OF_MARGINALS: [Self; 7] =
        [Self::Top1, Self::Margin, Self::Entropy, Self::Logit, Self::Masks, Self::Rank, Self::MeanTop1];

    /// Those of a head that stands alone, without a dependency matrix.
    pub fn without_dependency() -> Vec<Self> {
        Self::ALL.into_iter().filter(|feature| !feature.reads_dependency()).collect()
    }

    /// Whether it is made of D̂.
    pub fn reads_dependency(self) -> bool {
        matches!(self, Self::Depends | Self::Decides | Self::DependsMost | Self::DependsOnSure)
    }

    /// How files name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Top1 => "top1",
            Self::Margin => "margin",
            Self::Entropy => "entropy",
            Self::Logit => "logit",
            Self::Masks => "masks",
            Self::Rank => "rank",
            Self::MeanTop1 => "mean_top1",
            Self::Depends => "depends",
            Self::Decides => "decides",
            Self::DependsMost => "depends_most",
            Self::DependsOnSure => "depends_on_sure",
            Self::Kept => "kept",
            Self::Before => "before",
            Self::Moved => "moved",
            Self::HadBefore => "had_before",
        }
    }

    /// The features that a list of names names; the first name that is of none.
    pub fn listed(names: &str) -> Result<Vec<Self>, &str> {
        let names = names.split(',').filter(|name| !name.is_empty());
        names.map(|name| Self::named(name).ok_or(name)).collect()
    }

    /// The list of names of features.
    pub fn list(features: &[Self]) -> String {
        features.iter().map(|feature| feature.name()).collect::<Vec<_>>().join(",")
    }

    /// The feature of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|feature| feature.name() == name)
    }
}

/// What the model thinks of one masked position, now and in the step before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Opinion {
    /// Probability of the most probable token.
    pub top1: f32,
    /// Of the second.
    pub top2: f32,
    /// Entropy in nats.
    pub entropy: f32,
    /// The step before, if it looked at this position.
    pub before: Option<Before>,
}

impl Opinion {
    /// Of a marginal's own distribution.
    pub fn new(marginal: &Marginal, before: Option<Before>) -> Self {
        let raw = &marginal.raw;
        Self { top1: raw.top1, top2: raw.top2, entropy: raw.entropy, before }
    }

    /// Of a row of logits, which cannot be the mask.
    pub fn of_logits(row: &[f32], mask: u32) -> Self {
        let mut row = row.to_vec();
        if let Some(mask) = row.get_mut(mask as usize) {
            *mask = f32::NEG_INFINITY;
        }
        let SoftmaxStats { top1, top2, entropy, .. } = softmax_stats(&row);
        Self { top1, top2, entropy, before: None }
    }
}

/// The features of every mask of a step, `[|M|, features]`; without a matrix those made of one are 0.
pub fn features(
    wanted: &[Feature],
    opinions: &[Opinion],
    dependency: Option<&Dependency>,
    gamma: f32,
) -> Rows {
    let size = opinions.len();
    let mean = opinions.iter().map(|o| o.top1).sum::<f32>() / size.max(1) as f32;
    let sums = Sums::of(opinions, dependency, gamma);
    let mut out = Rows::zeros(size, wanted.len());
    for (i, opinion) in opinions.iter().enumerate() {
        let Opinion { top1, top2, entropy, before } = *opinion;
        let value = |feature: &Feature| match feature {
            Feature::Top1 => top1,
            Feature::Margin => top1 - top2,
            Feature::Entropy => entropy,
            Feature::Logit => {
                let p = top1.clamp(FLOOR, 1.0 - FLOOR);
                (p / (1.0 - p)).ln()
            }
            Feature::Masks => (size as f32).ln(),
            Feature::Rank => i as f32 / (size - 1).max(1) as f32,
            Feature::MeanTop1 => mean,
            Feature::Depends => sums.depends[i],
            Feature::Decides => sums.decides[i],
            Feature::DependsMost => sums.most[i],
            Feature::DependsOnSure => sums.on_sure[i],
            Feature::Kept => before.map_or(0.0, |b| f32::from(b.kept)),
            Feature::Before => before.map_or(0.0, |b| b.top1),
            Feature::Moved => before.map_or(0.0, |b| (top1 - b.top1).abs()),
            Feature::HadBefore => f32::from(before.is_some()),
        };
        let row = &mut out.data[i * wanted.len()..(i + 1) * wanted.len()];
        row.iter_mut().zip(wanted).for_each(|(cell, feature)| *cell = value(feature));
    }
    out
}

/// What the features take from a dependency matrix.
struct Sums {
    depends: Vec<f32>,
    decides: Vec<f32>,
    most: Vec<f32>,
    on_sure: Vec<f32>,
}

impl Sums {
    fn of(opinions: &[Opinion], dependency: Option<&Dependency>, gamma: f32) -> Self {
        let size = opinions.len();
        let zeros = || vec![0.0_f32; size];
        let mut sums = Self { depends: zeros(), decides: zeros(), most: zeros(), on_sure: zeros() };
        let Some(dependency) = dependency else { return sums };
        for (i, row) in dependency.data().chunks_exact(size.max(1)).enumerate() {
            for (j, &d) in row.iter().enumerate() {
                sums.depends[i] += d;
                sums.decides[j] += d;
                sums.most[i] = sums.most[i].max(d);
                if opinions[j].top1 > gamma {
                    sums.on_sure[i] += d;
                }
            }
        }
        for sum in [&mut sums.depends, &mut sums.decides, &mut sums.on_sure] {
            sum.iter_mut().for_each(|s| *s = (*s + FLOOR).ln());
        }
        sums
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::dependency) fn opinions() -> Vec<Opinion> {
        let opinion = |top1, top2, before| Opinion { top1, top2, entropy: 1.0 - top1, before };
        vec![
            opinion(0.5, 0.25, None),
            opinion(0.95, 0.0, Some(Before { kept: true, top1: 0.75 })),
            opinion(0.25, 0.125, Some(Before { kept: false, top1: 0.75 })),
        ]
    }

    #[test]
    fn features_by_hand() {
        let d = Dependency::from_rows(vec![0.0, 0.5, 0.25, 0.1, 0.0, 0.0, 0.2, 0.3, 0.0], 3);
        let got = features(&Feature::ALL, &opinions(), Some(&d), 0.9);
        let mean = (0.5 + 0.95 + 0.25) / 3.0;
        let ln = |x: f32| (x + 1e-4).ln();
        let expected = [
            [0.5, 0.25, 0.5, 0.0, 3_f32.ln(), 0.0, mean, ln(0.75), ln(0.3), 0.5, ln(0.5), 0.0, 0.0, 0.0, 0.0],
            [
                0.95,
                0.95,
                0.05,
                19_f32.ln(),
                3_f32.ln(),
                0.5,
                mean,
                ln(0.1),
                ln(0.8),
                0.1,
                ln(0.0),
                1.0,
                0.75,
                0.2,
                1.0,
            ],
            [
                0.25,
                0.125,
                0.75,
                (1.0 / 3.0_f32).ln(),
                3_f32.ln(),
                1.0,
                mean,
                ln(0.5),
                ln(0.25),
                0.3,
                ln(0.3),
                0.0,
                0.75,
                0.5,
                1.0,
            ],
        ];
        for (i, row) in expected.iter().enumerate() {
            for ((&ours, &expected), feature) in got.row(i).iter().zip(row).zip(Feature::ALL) {
                assert!((ours - expected).abs() < 1e-5, "{} of {i}: {ours} {expected}", feature.name());
            }
        }
        // A step with one mask has a rank, and one without a matrix its zeros.
        let alone = features(&[Feature::Rank, Feature::Depends], &opinions()[..1], None, 0.9);
        assert_eq!(alone.data, [0.0, 0.0]);
    }

    #[test]
    fn names_come_back_and_nothing_is_named_twice() {
        for feature in Feature::ALL {
            assert_eq!(Feature::named(feature.name()), Some(feature));
        }
        assert!(Feature::without_dependency().iter().all(|f| !f.reads_dependency()));
        assert_eq!(Feature::without_dependency().len(), 11);
    }
}
