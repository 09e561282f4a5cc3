//! Strategies on a task with checked answers: the runner that makes the paper's tables, in a few lines.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::ops::ControlFlow;

use demask::eval::report::summary::Summary;
use demask::eval::run::suite::{Generated, Suite};
use demask::eval::run::{self, Plan, Records, RunHeader};
use demask::eval::task::{self, Split};
use demask::{Decoding, Model, Shard};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Model::embedded()?;
    let task = task::by_name("arith").ok_or("no such task")?;
    let suites: Vec<Box<dyn Suite>> =
        vec![Box::new(Generated::new(task, Split::Test, 20, model.text(), None)?)];
    let strategies =
        [model.strategy(&Decoding::default()), "entropy".parse()?, "threshold:threshold=0.9".parse()?];
    let plan =
        Plan { decoding: Decoding::default(), token_budget: 4096, shard: Shard::default(), traces: false };
    let out = std::env::temp_dir().join(format!("demask-evaluate-{}", std::process::id()));
    let mut records = Records::open(&out, &RunHeader::new(&model, "test", &plan.decoding)?)?;
    let _ = run::run(&model, &suites, &strategies, &plan, &mut records, &mut |progress| {
        if progress.finished {
            println!(
                "{} on {}: {} of {} right",
                progress.strategy, progress.suite, progress.right, progress.items
            );
        }
        ControlFlow::Continue(())
    })?;
    println!("{}", Summary::new(records.samples(), None)?.table().plain());
    std::fs::remove_dir_all(&out)?;
    Ok(())
}
