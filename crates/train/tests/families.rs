//! The whole path on block-causal models: TV cache, predictor, decoding with it.

mod support;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use demask_decode::audit::Audit;
use demask_decode::dependency::Predictor;
use demask_decode::observer::Recorder;
use demask_decode::{Canvas, Context, Decoder, EosPolicy, Job, Observers, Options, Suppression};
use demask_engine::Shard;
use demask_model::{Backbone as _, HiddenRow, LoadOptions, Transformer};
use demask_train::compute::Compute;
use demask_train::fit::{Config, Fit};
use demask_train::tv_cache::{Cache, Claim, Columns, Generated, Generator, Response};
use support::settings;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

/// Made-up responses of the toys' vocabulary.
fn responses(count: usize) -> Generated<impl Fn(usize) -> Result<Response, String>> {
    let make = |index: usize| {
        let token = |place: usize| ((index * 31 + place * place * 17) % 149) as u32;
        let prompt = (0..3 + index % 9).map(token).collect();
        let response = (20..32 + index % 13).map(token).collect();
        Ok(Response { id: format!("made-up-{index}"), prompt, response })
    };
    Generated { identity: format!("made-up:{count}"), len: count, make }
}

#[test]
fn cache_training_and_decoding_work_block_by_block() {
    for name in ["llada2-toy", "sdar-toy"] {
        let model = Transformer::load(&fixture(name), &LoadOptions::default()).unwrap();
        let spec = model.spec();
        let (data, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (source, settings) = (responses(40), settings());
        let generator = Generator {
            backbone: &model,
            source: &source,
            settings: &settings,
            folder: data.path(),
            token_budget: 8000,
            shard: Shard::WHOLE,
            context: None,
            claim: Claim::Lock,
        };
        generator.run(&mut ()).unwrap();
        let cache = Cache::open(data.path()).unwrap();
        let grid = spec.grid(0, None).unwrap();
        let files = (0..cache.manifest().files.len()).map(|file| cache.read(file, Columns::ALL).unwrap());
        for example in files.flatten() {
            let blocks: Vec<usize> = example.positions.iter().map(|&p| grid.index(p)).collect();
            assert!(
                blocks.windows(2).all(|w| w[0] == w[1]),
                "{name}: masked in one block, not in {blocks:?}"
            );
        }
        let config = Config { epochs: 4, batch: 8, rate: 1e-2, validation: 0.2, ..Config::default() };
        let fit = Fit {
            cache: &cache,
            config: &config,
            row: HiddenRow::I,
            backbone: None,
            folder: out.path(),
            trained_on: "a test",
            compute: Compute::CPU,
        };
        let fitted = fit.run(&mut ()).unwrap().unwrap();
        assert!(fitted.report.validation_mse.is_finite());
        let predictor = Predictor::new(fitted.parts).unwrap();
        predictor.check_fit(&model).unwrap();
        let context = Context { predictor: Some(predictor.into()), ..Context::default() };
        let decode = |cache: &str| {
            let canvas = Canvas::in_blocks(&[7, 19, 4], 30, None, spec, &spec.ids).unwrap();
            let audit = Arc::new(Mutex::new(Audit::new(&canvas, spec)));
            let recorder = Arc::new(Mutex::new(Recorder::default()));
            let observers = Observers(vec![Box::new(audit.clone()), Box::new(recorder.clone())]);
            let options = Options {
                cache: cache.parse().unwrap(),
                eos: EosPolicy::None,
                suppression: Suppression { ids: vec![spec.ids.mask], ..Suppression::default() },
                ..Options::default()
            };
            let strategy = "demask:tau=0.3,gamma=0.05".parse().unwrap();
            let mut jobs = [Job::new(canvas, &strategy, &context, options, Box::new(observers)).unwrap()];
            Decoder::new(&model).run(&mut jobs).unwrap();
            assert_eq!(audit.lock().unwrap().wrong(), None, "{name} {cache}");
            // One token after another would need no predictor.
            let most = recorder.lock().unwrap().records.iter().map(|step| step.commits.len()).max();
            assert!(most > Some(1), "{name} {cache}: at most {most:?} tokens in a step");
            jobs[0].canvas().tokens().to_vec()
        };
        let exact = decode("none");
        assert!(!exact.contains(&spec.ids.mask));
        assert_eq!(exact, decode("blocks"), "{name}");
    }
}
