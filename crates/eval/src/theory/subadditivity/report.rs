//! What the records say: by size of the set, how often and by how much the assumption fails.

use std::fmt;
use std::fmt::Write as _;
use std::path::Path;

use demask_model::checkpoint::write::replace;

use super::Record;
use super::figure::Cdf;
use crate::error::Result;

/// A target violates the assumption when its slack is below minus this: f32 sums of the two sides can
/// differ by less although they are equal.
pub const TOLERANCE: f32 = 1e-6;
const QUANTILES: [f64; 7] = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99];

/// The assumption over all sets of one size, or over all sets.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeReport {
    /// `|S|`; `None` is all sizes from 2.
    pub size: Option<usize>,
    /// Sets.
    pub sets: usize,
    /// Targets of all sets.
    pub targets: usize,
    /// Targets whose slack is negative.
    pub violations: usize,
    /// Targets whose slack is below −0.01.
    pub large_violations: usize,
    /// Mean of `RHS − LHS`.
    pub mean_slack: f64,
    /// Mean of the left side.
    pub mean_lhs: f64,
    /// Mean of the right side.
    pub mean_rhs: f64,
    /// Smallest slack.
    pub worst: f64,
    /// Slack at 1, 5, 25, 50, 75, 95 and 99 %.
    pub quantiles: [f64; 7],
    /// All slacks, ascending.
    pub slack: Vec<f32>,
}

impl SizeReport {
    fn new<'a>(size: Option<usize>, records: impl Iterator<Item = &'a Record>) -> Option<Self> {
        let (mut sets, mut slack, mut lhs, mut rhs) = (0, Vec::new(), 0.0, 0.0);
        for record in records {
            sets += 1;
            slack.extend(record.slack());
            lhs += record.lhs.iter().map(|&v| f64::from(v)).sum::<f64>();
            rhs += record.rhs.iter().map(|&v| f64::from(v)).sum::<f64>();
        }
        slack.sort_by(f32::total_cmp);
        let (&worst, targets) = (slack.first()?, slack.len());
        let count = targets as f64;
        Some(Self {
            size,
            sets,
            targets,
            violations: slack.partition_point(|&s| s < -TOLERANCE),
            large_violations: slack.partition_point(|&s| s < -0.01),
            mean_slack: (rhs - lhs) / count,
            mean_lhs: lhs / count,
            mean_rhs: rhs / count,
            worst: f64::from(worst),
            quantiles: QUANTILES.map(|q| f64::from(slack[(q * (count - 1.0)).round() as usize])),
            slack,
        })
    }

    /// Share of targets that violate the assumption.
    pub fn violation_rate(&self) -> f64 {
        self.violations as f64 / self.targets as f64
    }

    fn name(&self) -> String {
        self.size.map_or("2+".into(), |size| size.to_string())
    }
}

/// The assumption by size of the set.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// By ascending size; the last is all sizes from 2, if there are any.
    pub sizes: Vec<SizeReport>,
}

impl Report {
    /// Sums records up.
    pub fn new(records: &[Record]) -> Self {
        let largest = records.iter().map(|r| r.set.len()).max().unwrap_or(0);
        let of = |size: usize| SizeReport::new(Some(size), records.iter().filter(|r| r.set.len() == size));
        let mut sizes: Vec<SizeReport> = (1..=largest).filter_map(of).collect();
        sizes.extend(SizeReport::new(None, records.iter().filter(|r| r.set.len() > 1)));
        Self { sizes }
    }

    /// Writes `summary.csv`, `targets.csv`, `slack.svg` and `slack.png`.
    pub fn write(&self, folder: &Path, records: &[Record]) -> Result<()> {
        let mut summary = String::from(
            "size,sets,targets,violations,violation_rate,violations_above_0.01,mean_slack,mean_lhs,mean_rhs,worst_slack,\
             q01,q05,q25,q50,q75,q95,q99\n",
        );
        for s in &self.sizes {
            let _ = write!(
                summary,
                "{},{},{},{},{:.6},{},{:.6},{:.6},{:.6},{:.6}",
                s.name(),
                s.sets,
                s.targets,
                s.violations,
                s.violation_rate(),
                s.large_violations,
                s.mean_slack,
                s.mean_lhs,
                s.mean_rhs,
                s.worst
            );
            s.quantiles.iter().for_each(|q| _ = write!(summary, ",{q:.6}"));
            summary.push('\n');
        }
        replace(&folder.join("summary.csv"), |out| out.write_all(summary.as_bytes()))?;
        replace(&folder.join("targets.csv"), |out| {
            writeln!(out, "example,mask,size,position,lhs,rhs,slack")?;
            for r in records {
                let id = if r.id.contains([',', '"', '\n']) {
                    format!("\"{}\"", r.id.replace('"', "\"\""))
                } else {
                    r.id.clone()
                };
                for (((position, lhs), rhs), slack) in r.targets.iter().zip(&r.lhs).zip(&r.rhs).zip(r.slack())
                {
                    writeln!(out, "{id},{},{},{position},{lhs},{rhs},{slack}", r.mask, r.set.len())?;
                }
            }
            Ok(())
        })?;
        Ok(demask_plot::write(&folder.join("slack"), &Cdf { report: self })?)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>4} {:>8} {:>10} {:>11} {:>9} {:>11} {:>9} {:>9} {:>9}",
            "|S|", "sets", "targets", "violated", "by >0.01", "mean slack", "mean LHS", "mean RHS", "worst"
        )?;
        for s in &self.sizes {
            writeln!(
                f,
                "{:>4} {:>8} {:>10} {:>10.2}% {:>8.2}% {:>11.4} {:>9.4} {:>9.4} {:>9.4}",
                s.name(),
                s.sets,
                s.targets,
                100.0 * s.violation_rate(),
                100.0 * s.large_violations as f64 / s.targets as f64,
                s.mean_slack,
                s.mean_lhs,
                s.mean_rhs,
                s.worst
            )?;
        }
        Ok(())
    }
}
