//! Self-speculation writes the text of decoding without it, token for token, whatever the strategy, the sampler and the
//! blocks; where it guesses right there are fewer rounds; and what it cannot be combined with is refused.

mod support;

use demask_decode::registry::Context;
use demask_decode::strategy::ALL;
use demask_decode::{Canvas, Decoder, Editing, EosPolicy, Job, Options, Sampling};
use demask_model::{Backbone, Transformer};

fn canvases(backbone: &Transformer) -> Vec<Canvas> {
    let expected = support::expected();
    let prompts = expected["prompts"].as_array().unwrap();
    let canvas = |i: usize| {
        let prompt = support::ids(&prompts[i % prompts.len()]);
        Canvas::generate(&prompt, 9 + 5 * i, &backbone.spec().ids).unwrap()
    };
    (0..3).map(canvas).collect()
}

fn settings() -> Vec<Options> {
    let hot = Sampling { temperature: 0.7, top_p: Some(0.95), top_k: None, ..Sampling::default() };
    vec![
        Options { seed: 1, ..Options::default() },
        Options { seed: 2, sampling: hot, eos: EosPolicy::None, ..Options::default() },
        Options { seed: 3, block_length: Some(5), eos: EosPolicy::BlockFill, ..Options::default() },
    ]
}

fn decoded(backbone: &Transformer, strategy: &str, options: &Options, context: &Context) -> Vec<Job> {
    let spec = support::spelled(strategy).parse().unwrap();
    let job = |(stream, canvas): (usize, Canvas)| {
        let options = Options { stream: stream as u64, ..options.clone() };
        Job::new(canvas, &spec, context, options, Box::new(())).unwrap()
    };
    let mut jobs: Vec<Job> = canvases(backbone).into_iter().enumerate().map(job).collect();
    Decoder::new(backbone).run(&mut jobs).unwrap();
    jobs
}

#[test]
fn no_token_differs_and_no_round_is_added() {
    let (backbone, context) = (support::backbone(), support::context());
    let mut saved = 0;
    for options in settings() {
        for strategy in ALL.iter().map(|entry| entry.name) {
            let needs = support::spelled(strategy).parse::<demask_decode::StrategySpec>().unwrap();
            let Ok(built) = needs.build(&context) else { continue };
            if built.needs().window.is_some() || built.check(&options).is_err() {
                continue;
            }
            let plain = decoded(&backbone, strategy, &options, &context);
            for width in [1, 3] {
                let options = Options { speculate: width, ..options.clone() };
                for (plain, ahead) in plain.iter().zip(decoded(&backbone, strategy, &options, &context)) {
                    let (was, is) = (plain.totals(), ahead.totals());
                    assert_eq!(plain.canvas().tokens(), ahead.canvas().tokens(), "{strategy} {options:?}");
                    assert_eq!(was.steps, is.steps, "{strategy}");
                    assert_eq!(was.assistant_rows, is.assistant_rows, "{strategy}");
                    assert!(is.rounds <= was.rounds && is.forwards >= is.rounds, "{strategy}: {is:?}");
                    saved += was.rounds - is.rounds;
                }
            }
        }
    }
    assert!(saved > 100, "guesses come true: {saved} rounds saved");
}

#[test]
fn a_plain_order_is_foreseen_and_every_canvas_counted() {
    let (backbone, context) = (support::backbone(), support::context());
    // Left to right, one token a step: which position comes next is certain, and its token nearly so.
    let options = Options { speculate: 4, eos: EosPolicy::None, ..Options::default() };
    let (mut steps, mut rounds) = (0, 0);
    for job in decoded(&backbone, "token-order", &options, &context) {
        let totals = job.totals();
        assert!(totals.forwards <= totals.rounds * 5 && totals.forwards > totals.rounds, "{totals:?}");
        (steps, rounds) = (steps + totals.steps, rounds + totals.rounds);
    }
    assert!(rounds < steps, "{rounds} rounds of {steps} steps");
}

#[test]
fn what_it_cannot_be_combined_with_is_refused() {
    let (backbone, context) = (support::backbone(), support::context());
    let canvas = canvases(&backbone).remove(0);
    let refused = |strategy: &str, options: Options| {
        let job = Job::new(canvas.clone(), &strategy.parse().unwrap(), &context, options, Box::new(()));
        job.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let with = || Options { speculate: 2, ..Options::default() };
    let editing = Some(Editing { threshold: 0.9, post_steps: 2 });
    for (options, word) in [
        (Options { cache: "dual".parse().unwrap(), ..with() }, "cache"),
        (Options { guidance: 1.0, ..with() }, "guidance"),
        (Options { editing, ..with() }, "editing"),
    ] {
        assert!(refused("entropy", options.clone()).contains(word), "{}", refused("entropy", options));
    }
    assert_eq!(refused("entropy", with()), "");
    assert!(refused("entropy", Options { speculate: 65, ..with() }).contains("at most 64"));
}
