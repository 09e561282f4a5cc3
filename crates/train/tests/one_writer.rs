//! A folder that is written to has one writer: a second one is told the first one's number and touches nothing.

mod support;

use std::path::Path;

use demask_engine::Shard;
use demask_model::HiddenRow;
use demask_model::files::Lock;
use demask_train::compute::Compute;
use demask_train::fit::{Config, Fit};
use demask_train::tv_cache::{Cache, Claim, Generator};
use support::{backbone, contents, generate, responses, settings};

fn holder() -> String {
    format!("process {}", std::process::id())
}

#[test]
fn a_second_maker_of_a_tv_cache_is_refused_and_another_share_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (source, settings, backbone) = (responses(12), settings(), backbone());
    let of = |folder: &Path, shard: Shard| {
        let generator = Generator {
            backbone: &backbone,
            source: &source,
            settings: &settings,
            folder,
            token_budget: 2000,
            shard,
            context: None,
            claim: Claim::Lock,
        };
        generator.run(&mut ()).map(drop).map_err(|error| error.to_string())
    };
    let held = Lock::take_named(folder.path(), ".demask-0-of-2.lock").unwrap();
    let before = contents(folder.path());
    let refused = of(folder.path(), "0/2".parse().unwrap()).unwrap_err();
    assert!(refused.contains(&holder()), "{refused}");
    assert_eq!(contents(folder.path()), before);
    of(folder.path(), "1/2".parse().unwrap()).unwrap();
    drop(held);
    of(folder.path(), "0/2".parse().unwrap()).unwrap();
    Cache::open(folder.path()).unwrap();
}

#[test]
fn a_second_training_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, run) = (folder.path().join("cache"), folder.path().join("run"));
    generate(&responses(24), &settings(), &cache, 2000, Shard::WHOLE);
    let (cache, config) = (Cache::open(&cache).unwrap(), Config { epochs: 1, batch: 8, ..Config::default() });
    let fit = Fit {
        cache: &cache,
        config: &config,
        row: HiddenRow::I,
        backbone: None,
        folder: &run,
        trained_on: "a test",
        compute: Compute::CPU,
    };
    let held = Lock::take(&run).unwrap();
    let before = contents(&run);
    let refused = fit.run(&mut ()).map(drop).unwrap_err().to_string();
    assert!(refused.contains(&holder()), "{refused}");
    assert_eq!(contents(&run), before);
    drop(held);
    assert!(fit.run(&mut ()).unwrap().is_some());
}
