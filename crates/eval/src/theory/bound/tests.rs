//! The estimates against a joint whose distances are summed exactly.

use demask_decode::rng::{Purpose, Rng};
use demask_model::Tabular;

use super::*;

fn joint() -> Tabular {
    let rng = Rng::new(8, 1);
    let weight = |index: u64| (3.0 * rng.uniform(Purpose::Mask, 1, index)).exp();
    Tabular::new(4, 2, (0..16).map(weight).collect()).unwrap()
}

fn settings(chains: usize, taus: &[f32], strategy: &str) -> BoundSettings {
    BoundSettings {
        strategy: strategy.parse().unwrap(),
        taus: taus.to_vec(),
        chains,
        length: 4,
        options: Options { seed: 9, ..Options::default() },
        token_budget: 256,
    }
}

/// TV(P, Q) and the telescoping sum of a set, by enumeration.
fn exact(joint: &Tabular, canvas: &[u32], set: &[usize]) -> (f64, f64) {
    let tv = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f64>() / 2.0;
    let bit = |index: usize, at: usize, count: usize| (index >> (count - 1 - at)) as u32 & 1;
    let marginals: Vec<Vec<f64>> = set.iter().map(|&p| joint.conditional(canvas, &[p])).collect();
    let all = joint.conditional(canvas, set);
    let product: Vec<f64> = (0..all.len())
        .map(|i| marginals.iter().enumerate().map(|(at, m)| m[bit(i, at, set.len()) as usize]).product())
        .collect();
    let mut telescoped = 0.0;
    for t in 1..set.len() {
        for (index, weight) in joint.conditional(canvas, &set[..t]).iter().enumerate() {
            let mut canvas = canvas.to_vec();
            (0..t).for_each(|at| canvas[set[at]] = bit(index, at, t));
            telescoped += weight * tv(&marginals[t], &joint.conditional(&canvas, &set[t..=t]));
        }
    }
    (tv(&all, &product), telescoped)
}

#[test]
fn chains_estimate_the_exact_distances() {
    let joint = joint();
    let mask = joint.spec().ids.mask;
    let sets = [vec![0, 1], vec![0, 3, 1], vec![0, 2, 3, 1]].map(|set| Selected {
        prompt: set.len(),
        step: 0,
        canvas: vec![mask; 4],
        set,
        used: 0.0,
    });
    let settings = settings(4000, &[1.0], "demask:dependency=oracle");
    let estimates =
        chain::estimate(&joint, &sets, &settings, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    for (set, estimate) in sets.iter().zip(estimates) {
        let (distance, telescoped) = exact(&joint, &set.canvas, &set.set);
        assert!(distance > 0.001 && distance <= telescoped + 1e-12, "{distance} {telescoped}");
        let tolerance = 5.0 * estimate.error + 1e-9;
        assert!((estimate.distance - distance).abs() < tolerance, "{estimate:?} {distance}");
        assert!((estimate.telescoped - telescoped).abs() < 0.02, "{estimate:?} {telescoped}");
    }
}

#[test]
fn a_pair_is_estimated_without_chance_in_the_batch() {
    let joint = joint();
    let canvas = vec![joint.spec().ids.mask; 4];
    let one = |prompt| Selected { prompt, step: 1, canvas: canvas.clone(), set: vec![0, 2], used: 0.0 };
    let settings = settings(16, &[1.0], "demask:dependency=oracle");
    let together =
        chain::estimate(&joint, &[one(0), one(1)], &settings, &mut |_| std::ops::ControlFlow::Continue(()))
            .unwrap();
    let alone =
        chain::estimate(&joint, &[one(1)], &settings, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    assert_eq!(together[1], alone[0]);
    assert_ne!(together[0], together[1], "prompts have chains of their own");
}

#[test]
fn the_report_holds_the_selections_of_the_strategy() {
    let joint = joint();
    let prompts = vec![Vec::new(); 3];
    let settings = settings(64, &[0.0, 10.0], "demask:gamma=0,dependency=oracle,draws=8");
    let mut seen = Vec::new();
    let report = run(&joint, &Context::default(), &prompts, &settings, &mut |p| {
        seen.push(p);
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    let [none, all] = report.taus.as_slice() else { panic!("two values of tau") };
    assert_eq!((none.steps, none.sets, none.distance), (12, 0, 0.0));
    assert_eq!((all.steps, all.tokens, all.sets), (3, 12, 3), "one step per prompt");
    let (distance, _) = exact(&joint, &[joint.spec().ids.mask; 4], &[0, 1, 2, 3]);
    assert!((all.distance - distance).abs() < 0.12, "{} {distance}", all.distance);
    assert!((all.per_response - all.distance).abs() < 1e-12, "one set per response");
    assert_eq!(seen.last().unwrap().done, 3);
    let folder = tempfile::tempdir().unwrap();
    report.write(folder.path()).unwrap();
    let sets = std::fs::read_to_string(folder.path().join("sets.csv")).unwrap();
    assert_eq!(sets.lines().count(), 4);
    assert!(report.to_string().contains("TV(P,Q)"));
    let nothing =
        run(&joint, &Context::default(), &[], &settings, &mut |_| std::ops::ControlFlow::Continue(()));
    assert!(nothing.is_err());
}
