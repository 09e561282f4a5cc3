//! Parts against the numbers of published code, finite differences, and their promise to resume bit for bit.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use demask_decode::trained::{Adjust, Policy, Prior};
use demask_model::checkpoint::Store;
use demask_model::{Backbone, LoadOptions, Transformer};
use serde_json::Value;

use super::adjust::{AdjustObjective, Shape, Window};
use super::grpo::{Environment, Grpo, GrpoObjective, Rollout, log_likelihood, loss, reward};
use super::imitation::Imitation;
use super::network::{Inputs, Network, PolicyShape};
use super::prior::{Answer, BlockCell, PriorObjective, PriorShape};
use super::trajectory::{Recording, Trajectory};
use super::*;
use crate::error::Result;
use crate::optimizer::AdamW;
use crate::schedule::Schedule;
use crate::tv_cache::{Generated, Response};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

fn backbone() -> Transformer {
    Transformer::load(&fixtures().join("dream-toy"), &LoadOptions::default()).unwrap()
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(fixtures().join(name)).unwrap()).unwrap()
}

fn floats(store: &Store, name: &str) -> Vec<f32> {
    store.tensor(name).unwrap().to_f32().to_vec()
}

fn ints(store: &Store, name: &str) -> Vec<u32> {
    let (_, _, bytes) = store.bytes(name).unwrap();
    bytes.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap()) as u32).collect()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

fn prompts(count: usize) -> Vec<Vec<u32>> {
    json("dream-toy/expected.json")["prompts"].as_array().unwrap()[..count].iter().map(ids).collect()
}

/// Largest difference over the largest value.
fn far(got: &[f32], want: &[f32]) -> f32 {
    assert_eq!(got.len(), want.len());
    let largest = want.iter().fold(1e-12_f32, |m, v| m.max(v.abs()));
    got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / largest
}

#[test]
fn adjusts_loss_and_gradient_are_those_of_the_review_code() {
    let backbone = backbone();
    let store = Store::open_file(fixtures().join("adjust-toy/expected.safetensors")).unwrap();
    let (last, states) = (ints(&store, "loss.final"), ints(&store, "loss.states"));
    let states: Vec<Vec<u32>> = states.chunks_exact(last.len()).map(<[u32]>::to_vec).collect();
    assert_eq!(states.len(), 5);
    let ids = &backbone.spec().ids;
    let prompt = (0..last.len()).find(|&p| states[0][p] == ids.mask).unwrap();
    let end = last[prompt..].iter().position(|t| Some(*t) == ids.pad).map_or(last.len(), |e| prompt + e);
    let windows = [Window { states, counted: (0..end).collect() }];
    let slots = adjust::slots(backbone.spec());
    let parameters = slots.read(&fixtures().join("adjust-toy/drafter.safetensors")).unwrap();
    // Any trajectories will do: the windows are given.
    let some = Trajectory { prompt: vec![5], response: vec![6; 8], order: (0..8).collect() };
    let (some, shape) = ([some.clone(), some], Shape { depth: 3, batch: 1, held: 1 });
    let objective = AdjustObjective::new(&backbone, &some, shape, 0).unwrap();
    let mut gradient = vec![0.0; slots.len()];
    let parts = objective.gradient_of(&parameters, &windows, &[1.0; 3], &mut gradient).unwrap();
    let want = json("adjust-toy/expected.json")["loss"]["per_depth"].clone();
    for (got, want) in parts.iter().zip(want.as_array().unwrap()) {
        assert!((got - want.as_f64().unwrap()).abs() < 1e-4, "{parts:?} {want}");
    }
    let (sum, want) = (parts.iter().sum::<f64>(), json("adjust-toy/expected.json")["loss"]["value"].as_f64());
    assert!((sum - want.unwrap()).abs() < 1e-4, "{sum} {want:?}");
    let want = Store::open_file(fixtures().join("adjust-toy/grad.safetensors")).unwrap();
    for slot in slots.all() {
        let want = floats(&want, &format!("grad.{}", slot.name));
        let worst = far(&gradient[slot.range.clone()], &want);
        assert!(worst < 5e-3, "{}: {worst}", slot.name);
    }
}

#[test]
fn the_networks_logits_are_the_policys() {
    let path = fixtures().join("policy-toy/policy.safetensors");
    let network = Network::new(PolicyShape { hidden: 32, feed_forward: 64, heads: 2, time: 16 }).unwrap();
    let parameters = network.slots().read(&path).unwrap();
    assert_eq!(parameters.len(), 16_705);
    network.set(&parameters).unwrap();
    let policy = Policy::load(&path).unwrap();
    let masked: Vec<bool> = (0..18).map(|i| i % 3 != 1).collect();
    let confidence: Vec<f32> = (0..18).map(|i| ((i * 7) % 10) as f32 / 10.0).collect();
    let time = vec![0.2, 0.9];
    let inputs = Inputs { length: 9, masked: masked.clone(), confidence: confidence.clone(), time };
    let got = network.logits(&inputs).unwrap().to_vec2::<f32>().unwrap();
    for (step, time) in [0.2, 0.9].into_iter().enumerate() {
        let cells = step * 9..(step + 1) * 9;
        let want = policy.logits(&masked[cells.clone()], &confidence[cells], time);
        assert!(far(&got[step], &want) < 1e-5);
    }
    assert_eq!(Network::new(PolicyShape::default()).unwrap().slots().len(), 331_265);
}

#[test]
fn grpos_loss_and_gradient_are_those_of_the_published_code() {
    let expected = json("policy-toy/expected.json");
    for case in expected["log_likelihoods"].as_array().unwrap() {
        let logits: Vec<f32> =
            case["logits"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect();
        let open: Vec<bool> = ids(&case["mask"]).iter().map(|&m| m == 1).collect();
        let want = case["value"].as_f64().unwrap();
        let got = if case["kind"] == "dpls" {
            grpo::in_turn(&logits, &open, &ids(&case["sequence"]), case["stop_logit"].as_f64().unwrap())
        } else {
            let fired: Vec<bool> = ids(&case["sample"]).iter().map(|&m| m == 1).collect();
            let logits = candle_core::Tensor::from_vec(logits, (1, 5), &candle_core::Device::Cpu).unwrap();
            f64::from(log_likelihood(&logits, &open, &fired).unwrap().to_vec1::<f32>().unwrap()[0])
        };
        assert!((got - want).abs() < 1e-5, "{case} {got}");
    }
    let store = Store::open_file(fixtures().join("policy-toy/grpo.safetensors")).unwrap();
    let network = Network::new(PolicyShape { hidden: 32, feed_forward: 64, heads: 2, time: 16 }).unwrap();
    let all = |prefix: &str| -> Vec<f32> {
        network
            .slots()
            .all()
            .iter()
            .flat_map(|slot| floats(&store, &format!("{prefix}.{}", slot.name)))
            .collect()
    };
    network.set(&all("weights")).unwrap();
    let case = &expected["grpo"];
    let numbers = |name: &str| -> Vec<f64> {
        case[name].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    };
    let (steps, right) = (ids(&case["steps"]), numbers("correct"));
    let rewards: Vec<f64> = steps
        .iter()
        .zip(&right)
        .map(|(&steps, &right)| reward(right == 1.0, steps as usize, 40, case["alpha"].as_f64().unwrap()))
        .collect();
    for (got, want) in rewards.iter().zip(numbers("rewards")) {
        assert!((got - want).abs() < 1e-6, "{rewards:?}");
    }
    let mean = rewards.iter().sum::<f64>() / rewards.len() as f64;
    for (reward, want) in rewards.iter().zip(numbers("advantages")) {
        assert!((reward - mean - want).abs() < 1e-6, "{} {want}", reward - mean);
    }
    let rollout = |group: usize| {
        let get = |part: &str| format!("rollout.{group}.{part}");
        let bits = |part: &str| -> Vec<bool> { ints(&store, &get(part)).iter().map(|&b| b == 1).collect() };
        Rollout {
            inputs: Inputs {
                length: 40,
                masked: bits("mask"),
                confidence: floats(&store, &get("confidence")),
                time: floats(&store, &get("timestep")),
            },
            open: bits("sampling_mask"),
            fired: bits("sample"),
            old: floats(&store, &get("old_logp")),
            advantage: rewards[group] - mean,
        }
    };
    let rollouts: Vec<Rollout> = (0..4).map(rollout).collect();
    // How undecided the masks are that could be taken: the mean over each decoding's, then over the decodings.
    let undecided = |rollout: &Rollout| {
        let logits = network.logits(&rollout.inputs).unwrap().to_vec2::<f32>().unwrap().concat();
        let open = logits.iter().zip(&rollout.open).filter(|(_, open)| **open);
        let each = open.map(|(&b, _)| 1.0 / (1.0 + f64::from(-b).exp()));
        let each: Vec<f64> = each.map(|s| -s * s.ln() - (1.0 - s) * (1.0 - s).ln()).collect();
        each.iter().sum::<f64>() / each.len() as f64
    };
    let entropy = rollouts.iter().map(undecided).sum::<f64>() / rollouts.len() as f64;
    assert!((entropy - numbers("entropy")[0]).abs() < 1e-6, "{entropy}");
    let loss = loss(&network, &rollouts, 0.5).unwrap();
    let want = case["loss"].as_f64().unwrap();
    assert!((f64::from(loss.to_scalar::<f32>().unwrap()) - want).abs() < 1e-5, "{loss} {want}");
    let (mut gradient, want) = (vec![0.0; network.slots().len()], all("grad"));
    network.backward(&loss, &mut gradient).unwrap();
    for slot in network.slots().all() {
        let worst = far(&gradient[slot.range.clone()], &want[slot.range.clone()]);
        let small = want[slot.range.clone()].iter().all(|g| g.abs() < 1e-7);
        assert!(worst < 5e-3 || small, "{}: {worst}", slot.name);
    }
    // By hand: one half everywhere is |M|·ln 2, and one pass is worth everything.
    let flat =
        candle_core::Tensor::zeros((1, 4), candle_core::DType::F32, &candle_core::Device::Cpu).unwrap();
    let half = log_likelihood(&flat, &[true, true, false, true], &[true, false, false, false]).unwrap();
    assert!((half.to_vec1::<f32>().unwrap()[0] + 3.0 * 2.0_f32.ln()).abs() < 1e-6);
    assert_eq!((reward(true, 1, 40, 3.0), reward(false, 1, 40, 0.0)), (1.0, 0.0));
}

fn settings(steps: u64, rate: f64) -> PartSettings {
    PartSettings {
        steps,
        rate: Schedule { peak: rate, warmup: 2, floor: 1.0 },
        optimizer: AdamW { weight_decay: 0.0, ..AdamW::default() },
        seed: 3,
        validate: 4,
    }
}

/// Trains without and with a stop: the same weights, bit for bit; another run's folder is refused.
fn resumes<'a>(make: &mut dyn FnMut() -> Box<dyn Objective + 'a>, settings: &PartSettings) -> Outcome {
    let (whole, cut) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let run = |folder: &Path,
               objective: &mut dyn Objective,
               identity: &str,
               stop: u64|
     -> Result<Option<Outcome>> {
        Training { settings, folder, identity }.run(objective, &mut |progress| {
            if progress.step == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    };
    let once = run(whole.path(), make().as_mut(), "one", u64::MAX).unwrap().unwrap();
    assert!(run(cut.path(), make().as_mut(), "one", settings.steps / 2 + 1).unwrap().is_none());
    let error = run(cut.path(), make().as_mut(), "another", u64::MAX).unwrap_err().to_string();
    assert!(error.contains("another"), "{error}");
    let twice = run(cut.path(), make().as_mut(), "one", u64::MAX).unwrap().unwrap();
    let bits = |outcome: &Outcome| outcome.parameters.iter().map(|p| p.to_bits()).collect::<Vec<u32>>();
    assert!(bits(&once) == bits(&twice) && once == twice);
    assert!(whole.path().join("report.json").exists() && once.baseline.is_finite());
    once
}

fn trajectories(backbone: &Transformer, length: usize) -> Vec<Trajectory> {
    let prompts = prompts(12);
    let make = move |row: usize| {
        Ok(Response { id: row.to_string(), prompt: prompts[row].clone(), response: vec![9] })
    };
    let source = Generated { identity: "prompts of the fixture".into(), len: 12, make };
    let strategy = "entropy:k=1".into();
    let recording = Recording { count: 12, length, strategy, temperature: 0.3, top_p: None, seed: 1 };
    let folder = tempfile::tempdir().unwrap();
    recording.open(&folder.path().join("t.jsonl"), backbone, &source, &mut |_| {}).unwrap()
}

#[test]
fn adjust_starts_at_its_baseline_learns_and_resumes() {
    let backbone = backbone();
    let trajectories = trajectories(&backbone, 16);
    let shape = Shape { depth: 2, batch: 4, held: 6 };
    let mut make = || {
        Box::new(AdjustObjective::new(&backbone, &trajectories, shape, 3).unwrap()) as Box<dyn Objective + '_>
    };
    let mut first = make();
    let start = first.initial(3).unwrap();
    let (was, baseline) = (first.validate(&start).unwrap(), first.baseline().unwrap().1);
    assert!((was - baseline).abs() < 1e-9, "{was} {baseline}");
    let outcome = resumes(&mut make, &settings(16, 3e-3));
    assert!(outcome.validation < outcome.baseline, "{outcome:?}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sampler.safetensors");
    adjust::save(&path, &backbone, "a test", &outcome).unwrap();
    let layer = Adjust::load(&path, backbone.spec()).unwrap();
    assert!(layer.header().check_fit(&backbone).is_ok() && layer.header().sizes["hidden"] == 64);
    let other = Transformer::load(&fixtures().join("apd-toy/verifier"), &LoadOptions::default()).unwrap();
    let refused = layer.header().check_fit(&other).unwrap_err().to_string();
    assert!(refused.contains("was trained on backbone"), "{refused}");
}

#[test]
fn what_is_finally_written_is_learned_and_resumes() {
    let backbone = backbone();
    let trajectories = trajectories(&backbone, 12);
    let shape = PolicyShape { hidden: 16, feed_forward: 32, heads: 2, time: 8 };
    let mut make = || {
        Box::new(Imitation::new(&backbone, &trajectories, shape, 6, 12, 3).unwrap())
            as Box<dyn Objective + '_>
    };
    // Against finite differences, at a few parameters of every tensor.
    let mut objective = make();
    objective.gather(&[], 0).unwrap();
    let mut parameters = objective.initial(5).unwrap();
    parameters.iter_mut().enumerate().for_each(|(i, p)| *p += ((i * 37) % 11) as f32 * 0.02 - 0.1);
    let mut gradient = vec![0.0; parameters.len()];
    objective.gradient(&parameters, &mut gradient).unwrap();
    let slots = objective.slots().clone();
    for slot in slots.all() {
        let index = slot.range.start + slot.range.len() / 2;
        let mut at = |by: f32| {
            let mut moved = parameters.clone();
            moved[index] += by;
            objective.gradient(&moved, &mut vec![0.0; moved.len()]).unwrap().unwrap()
        };
        let slope = (at(1e-2) - at(-1e-2)) / 2e-2;
        let own = f64::from(gradient[index]);
        assert!((slope - own).abs() < 2e-3 + 0.05 * own.abs(), "{}: {slope} {own}", slot.name);
    }
    let outcome = resumes(&mut make, &settings(24, 1e-2));
    let first = make().validate(&make().initial(3).unwrap()).unwrap();
    assert!(outcome.validation < first, "{outcome:?} {first}");
}

/// Every response that begins with the right token is right.
struct Begins;

impl Environment for Begins {
    fn prompt(&mut self, index: u64) -> Result<Vec<u32>> {
        Ok(prompts(12)[index as usize % 12].clone())
    }

    fn is_right(&mut self, _: u64, response: &[u32]) -> Result<bool> {
        Ok(response[0].is_multiple_of(2))
    }
}

#[test]
fn a_policy_learns_from_rewards_and_resumes() {
    let backbone = backbone();
    let shape = PolicyShape { hidden: 16, feed_forward: 32, heads: 2, time: 8 };
    let grpo = Grpo {
        group: 3,
        prompts: 2,
        length: 8,
        block: None,
        alpha: 1.0,
        epsilon: 0.5,
        uses: 2,
        held: 3,
        first_held: 9,
    };
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(6, 1e-2);
    let run = |folder: &Path, stop: u64| {
        let mut environment = Begins;
        let mut objective = GrpoObjective::new(&backbone, &mut environment, shape, grpo, 3).unwrap();
        let training = Training { settings: &settings, folder, identity: "one" };
        let outcome = training.run(&mut objective, &mut |progress| {
            if progress.step == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        (outcome.unwrap(), objective.network)
    };
    let (once, network) = run(&folder.path().join("whole"), u64::MAX);
    assert!(run(&folder.path().join("cut"), 3).0.is_none());
    let (once, twice) = (once.unwrap(), run(&folder.path().join("cut"), u64::MAX).0.unwrap());
    assert_eq!(once, twice);
    // A reward is at most 1, and losses are its negative.
    assert!((-1.0..=0.0).contains(&once.validation) && (-1.0..=0.0).contains(&once.baseline), "{once:?}");
    let path = folder.path().join("policy.safetensors");
    network.save(&path, &backbone, "a test", &once).unwrap();
    let policy = Policy::load(&path).unwrap();
    assert!(policy.header().check_fit(&backbone).is_ok());
    assert_eq!(
        (policy.header().sizes["hidden"], policy.header().loss),
        (16, Some((once.validation, once.baseline)))
    );
}

fn answers() -> Vec<Answer> {
    let answer = |(index, prompt): (usize, Vec<u32>)| {
        let word = [7, 8, 9][index % 3];
        Answer { prompt, response: (0..10).map(|i| word + 30 * (i % 2) + u32::from(i > 7)).collect() }
    };
    prompts(24).into_iter().enumerate().map(answer).collect()
}

#[test]
fn a_priors_gradient_is_the_slope_and_uniform_emissions_are_the_baseline() {
    let (backbone, answers) = (backbone(), answers());
    let shape = PriorShape { states: 3, block: 5, batch: 2, held: 3, rounds: 0, tau: 1.0 };
    let mut objective = PriorObjective::new(&backbone, &answers, shape, 1).unwrap();
    let vocab = backbone.spec().vocab;
    let marginal = |seed: usize| -> Vec<f32> {
        let weights: Vec<f32> = (0..vocab).map(|t| 0.1 + ((t * 31 + seed * 17) % 13) as f32).collect();
        let sum: f32 = weights.iter().sum();
        weights.into_iter().map(|w| w / sum).collect()
    };
    let blocks = vec![
        vec![
            BlockCell::Known(4),
            BlockCell::Masked { marginal: marginal(0), truth: 6 },
            BlockCell::Masked { marginal: marginal(1), truth: 7 },
            BlockCell::Known(8),
        ],
        vec![BlockCell::Masked { marginal: marginal(2), truth: 9 }, BlockCell::Known(3)],
    ];
    let mut parameters: Vec<f32> =
        (0..objective.slots().len()).map(|i| ((i * 29) % 17) as f32 * 0.15 - 1.0).collect();
    let mut gradient = vec![0.0; parameters.len()];
    let loss = objective.gradient_of(&parameters, &blocks, &mut gradient);
    let (first, second) = (objective.slots().range("transition"), objective.slots().range("emission"));
    let some: Vec<usize> = (0..first.end).chain((second.start..second.end).step_by(41)).collect();
    let truths = [4, 6, 7, 8, 9, 3].map(|t| second.start + t);
    for index in some.into_iter().chain(truths) {
        let mut at = |by: f32| {
            let kept = parameters[index];
            parameters[index] += by;
            let loss = objective.gradient_of(&parameters, &blocks, &mut vec![0.0; gradient.len()]);
            parameters[index] = kept;
            loss
        };
        let slope = (at(1e-2) - at(-1e-2)) / 2e-2;
        assert!((slope - f64::from(gradient[index])).abs() < 1e-4, "{index}: {slope} {}", gradient[index]);
    }
    assert!(loss.is_finite());
    let nothing = vec![0.0; gradient.len()];
    let alone: f64 = [(0, 6), (1, 7), (2, 9)].iter().map(|&(m, t)| -f64::from(marginal(m)[t]).ln()).sum();
    let uniform = objective.gradient_of(&nothing, &blocks, &mut gradient);
    assert!((uniform - alone / 3.0).abs() < 1e-5, "{uniform} {alone}");
    assert!((objective.baseline().unwrap().1 - objective.validate(&nothing).unwrap()).abs() < 1e-12);
}

#[test]
fn a_prior_learns_what_the_marginals_do_not_know_and_resumes() {
    let (backbone, answers) = (backbone(), answers());
    let shape = PriorShape { states: 6, block: 10, batch: 6, held: 8, rounds: 5, tau: 1.0 };
    let mut make =
        || Box::new(PriorObjective::new(&backbone, &answers, shape, 1).unwrap()) as Box<dyn Objective + '_>;
    let outcome = resumes(&mut make, &settings(12, 5e-2));
    // The answers are strange to the model and simple to a chain.
    assert!(outcome.validation < outcome.baseline - 0.5, "{outcome:?}");
    let objective = PriorObjective::new(&backbone, &answers, shape, 1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prior.safetensors");
    objective.save(&path, "a test", &outcome).unwrap();
    let prior = Prior::load(&path).unwrap();
    assert!(prior.header().check_fit(&backbone).is_ok());
    assert_eq!((prior.vocab(), prior.header().sizes["states"]), (258, 6));
}
