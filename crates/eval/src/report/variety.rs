//! How broad the answers are where a problem was asked several times: of each problem's draws, the share that is valid and
//! the share that is valid and says something new, averaged over the problems.
//!
//! A decoder that always gives the same right answer has all of the first and one draw's worth of the second; sampling
//! from a product of marginals loses the first.

use std::collections::HashMap;

use demask_decode::StrategySpec;

use crate::report::table::Table;
use crate::run::Sample;
use crate::run::suite::Generated;
use crate::task::Variety;

/// One row per strategy and suite whose problems were asked several times; nothing where none was.
pub fn table(samples: &[Sample]) -> Option<Table> {
    let columns = ["strategy", "task", "problems", "draws each", "valid", "valid and new", "NFE"];
    let mut table = Table::new(
        "Problems asked several times: of the draws, the share in % that is valid, and that is valid and differs from \
         the other draws of its problem.",
        columns,
    );
    for ((strategy, task), samples) in cells(samples) {
        let problems = by_problem(&samples);
        let draws = problems.iter().map(|found| found.answers).max().unwrap_or(0);
        if draws < 2 {
            continue;
        }
        let n = problems.len() as f64;
        let mean = |of: &dyn Fn(&Variety) -> usize| {
            let shares = problems.iter().map(|found| of(found) as f64 / found.answers.max(1) as f64);
            format!("{:.1}", 100.0 * shares.sum::<f64>() / n)
        };
        let forwards = samples.iter().map(|s| s.forwards as f64).sum::<f64>() / samples.len() as f64;
        let row = [
            strategy.to_string(),
            task.to_owned(),
            problems.len().to_string(),
            draws.to_string(),
            mean(&|found| found.valid),
            mean(&|found| found.distinct),
            format!("{forwards:.1}"),
        ];
        table.rows.push(row.into_iter().map(Into::into).collect());
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Records of each strategy and suite, in the order they were first met.
fn cells(samples: &[Sample]) -> Vec<((&StrategySpec, &str), Vec<&Sample>)> {
    let mut cells: Vec<((&StrategySpec, &str), Vec<&Sample>)> = Vec::new();
    for sample in samples {
        let key = (&sample.strategy, sample.task.as_str());
        match cells.iter_mut().find(|(known, _)| *known == key) {
            Some((_, all)) => all.push(sample),
            None => cells.push((key, vec![sample])),
        }
    }
    cells
}

fn by_problem(samples: &[&Sample]) -> Vec<Variety> {
    let mut draws: HashMap<&str, Vec<&Sample>> = HashMap::new();
    for sample in samples {
        draws.entry(Generated::problem_of(&sample.id)).or_default().push(sample);
    }
    let judged = |all: &Vec<&Sample>| Variety::of(all.iter().map(|s| (s.correct, s.extracted.as_deref())));
    draws.values().map(judged).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Spent;

    fn draw(id: &str, said: Option<&str>) -> Sample {
        Sample {
            strategy: "entropy".parse().unwrap(),
            task: "open".into(),
            version: 1,
            protocol: None,
            index: 0,
            id: id.into(),
            kind: None,
            prompt: String::new(),
            response: String::new(),
            extracted: said.map(Into::into),
            correct: said.is_some(),
            strict: None,
            prompt_tokens: 1,
            canvas: 8,
            tokens: 4,
            steps: 2,
            forwards: 2,
            rounds: 0,
            assistant_rows: 0,
            inner_calls: 0,
            seconds: Spent::default(),
        }
    }

    #[test]
    fn draws_of_one_problem_are_counted_together() {
        let samples = [
            draw("0", Some("a")),
            draw("0#1", Some("a")),
            draw("0#2", Some("b")),
            draw("0#3", None),
            draw("1", Some("a")),
            draw("1#1", None),
            draw("1#2", None),
            draw("1#3", None),
        ];
        let row = table(&samples).unwrap().csv();
        // Valid: (3/4 + 1/4) / 2; new: (2/4 + 1/4) / 2.
        assert!(row.contains("entropy,open,2,4,50.0,37.5,2.0"), "{row}");
        assert!(table(&[draw("0", Some("a")), draw("1", Some("a"))]).is_none());
    }
}
