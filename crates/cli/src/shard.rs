//! `--shard I/N`, or `--shard auto`: the share that the cluster's scheduler gave this process.

use demask::Shard;

/// How schedulers tell: the variable of the index, those of the count, and the first index.
struct Scheduler {
    index: &'static str,
    count: &'static [&'static str],
    first: &'static str,
    step: &'static str,
}

const SCHEDULERS: [Scheduler; 3] = [
    Scheduler {
        index: "SLURM_ARRAY_TASK_ID",
        count: &["SLURM_ARRAY_TASK_COUNT"],
        first: "SLURM_ARRAY_TASK_MIN",
        step: "SLURM_ARRAY_TASK_STEP",
    },
    // Kubernetes tells an indexed job's pod its index, but not how many there are: the manifest has to.
    Scheduler { index: "JOB_COMPLETION_INDEX", count: &["JOB_COMPLETIONS"], first: "", step: "" },
    Scheduler { index: "SKYPILOT_NODE_RANK", count: &["SKYPILOT_NUM_NODES"], first: "", step: "" },
];

/// Reads the flag.
pub fn read(text: &str) -> Result<Shard, String> {
    if text == "auto" { from(&|name| std::env::var(name).ok()) } else { text.parse() }
}

/// The share that these variables tell.
fn from(variable: &dyn Fn(&str) -> Option<String>) -> Result<Shard, String> {
    let number = |name: &str| variable(name).and_then(|text| text.trim().parse::<usize>().ok());
    let Some(scheduler) = SCHEDULERS.iter().find(|s| variable(s.index).is_some()) else {
        let names: Vec<&str> = SCHEDULERS.iter().map(|s| s.index).collect();
        return Err(format!(
            "no scheduler says which share this is (none of {} is set); write i/n",
            names.join(", ")
        ));
    };
    let missing =
        |name: &str| format!("{} is set but {name} is not a number; set it, or write i/n", scheduler.index);
    let index = number(scheduler.index).ok_or_else(|| missing(scheduler.index))?;
    let count = scheduler.count.iter().find_map(|name| number(name));
    let count = count.ok_or_else(|| missing(scheduler.count[0]))?;
    let first = number(scheduler.first).unwrap_or(0);
    let step = number(scheduler.step).unwrap_or(1).max(1);
    format!("{}/{count}", index.saturating_sub(first) / step).parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(variables: &[(&str, &str)]) -> Result<Shard, String> {
        from(&|name| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn each_scheduler_is_understood() {
        let slurm = [("SLURM_ARRAY_TASK_ID", "7"), ("SLURM_ARRAY_TASK_COUNT", "4")];
        let from_one = [("SLURM_ARRAY_TASK_MIN", "1"), ("SLURM_ARRAY_TASK_STEP", "2")];
        assert_eq!(shard(&[&slurm[..], &from_one].concat()), Ok(Shard { index: 3, count: 4 }));
        assert!(shard(&slurm).is_err(), "index 7 of 4");
        let indexed = [("JOB_COMPLETION_INDEX", "0"), ("JOB_COMPLETIONS", "8")];
        assert_eq!(shard(&indexed), Ok(Shard { index: 0, count: 8 }));
        let sky = [("SKYPILOT_NODE_RANK", "1"), ("SKYPILOT_NUM_NODES", "2")];
        assert_eq!(shard(&sky), Ok(Shard { index: 1, count: 2 }));
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(shard(&[]).unwrap_err().contains("JOB_COMPLETION_INDEX"));
        let error = shard(&[("JOB_COMPLETION_INDEX", "0")]).unwrap_err();
        assert!(error.contains("JOB_COMPLETIONS"), "{error}");
    }
}
