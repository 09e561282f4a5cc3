//! A strategy of one's own, registered by name and evaluated beside those that demask ships: `dice` unmasks every
//! position whose top-1 probability beats a fresh draw.

use std::ops::ControlFlow;

use demask::decode::registry::{Cost, Entry, Kind, Param, Registry};
use demask::decode::rng::Purpose;
use demask::decode::strategy::{Selection, Step};
use demask::decode::{Result as Decoded, Strategy};
use demask::eval::report::summary::Summary;
use demask::eval::run::suite::{Generated, Suite};
use demask::eval::run::{self, Plan, Records, RunHeader};
use demask::eval::task::{self, Split};
use demask::{Decoding, Model, Shard};

struct Dice(f64);

impl Strategy for Dice {
    fn select(&mut self, step: &Step<'_>) -> Decoded<Selection> {
        let sure = |&i: &usize| {
            let draw = step.rng.uniform(Purpose::Position, step.index as u64, step.masked[i] as u64);
            f64::from(step.marginals[i].raw.top1) > self.0 * draw
        };
        let mut chosen: Vec<usize> = (0..step.masked.len()).filter(sure).collect();
        chosen.is_empty().then(|| chosen.push(0)); // a step always takes something
        Ok(Selection { chosen, ..Selection::default() })
    }
}

const DICE: Entry = Entry {
    name: "dice",
    aliases: &[],
    summary: "unmask a position with the probability of its best token",
    source: "this example",
    cost: Cost::Logits,
    params: &[Param { key: "stakes", kind: Kind::Number(0.0, 2.0), default: "1", help: "scale of the draw" }],
    build: |values| Ok(Box::new(Dice(values.number("stakes")))),
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Model::embedded()?.with_registry(Registry::standard().with(DICE)?);
    let question = "Tom has 12 pens. Tom buys 7 more. How many pens does Tom have now?";
    let answer = model.generate(question).strategy("dice:stakes=1.5").run()?;
    println!("{} ({}: {} forward passes)", answer.text, answer.strategy, answer.metrics.forwards);

    let task = task::by_name("arith").ok_or("no such task")?;
    let suites: Vec<Box<dyn Suite>> =
        vec![Box::new(Generated::new(task, Split::Test, 20, model.text(), None)?)];
    let names = ["dice", "dice:stakes=1.5", "entropy"];
    let strategies = names.iter().map(|name| model.parse_strategy(name)).collect::<Result<Vec<_>, _>>()?;
    let plan = Plan { decoding: Decoding::default(), token_budget: 4096, shard: Shard::WHOLE, traces: false };
    let out = std::env::temp_dir().join(format!("own-strategy-{}", std::process::id()));
    let mut records = Records::open(&out, &RunHeader::new(&model, "test", &plan.decoding)?)?;
    let _ = run::run(&model, &suites, &strategies, &plan, &mut records, &mut |_| ControlFlow::Continue(()))?;
    println!("{}", Summary::new(records.samples(), None)?.table().plain());
    std::fs::remove_dir_all(&out)?;
    Ok(())
}
