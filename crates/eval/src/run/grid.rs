//! Grids of configurations as TOML: the paper's (appendix C), the laboratory's, or a file of your own.
//!
//! ```toml
//! baseline = "entropy"                # optional, the mark in the figure
//! [[grid]]
//! strategy = "demask"                 # any spelling, parameters may be fixed in it
//! tau = [0.04, 0.1]                   # every other key: values to try, all combinations
//! gamma = [0.9, 0.5]
//! label = "DEMASK"                    # optional, what tables and the figure call these [default: the strategy]
//! ```

use demask_decode::StrategySpec;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::report::frontier::Point;

/// Appendix C: 60 configurations of DEMASK and 45 of KLASS.
pub const PAPER: &str = include_str!("grid/paper.toml");
/// A few values of the main parameter of every strategy that has one.
pub const LAB: &str = include_str!("grid/lab.toml");
/// Every decoder over all its parameters, a few dozen configurations each, for a comparison of chosen ones.
pub const FAIR: &str = include_str!("grid/fair.toml");

/// Configurations of a grid: more would take longer to list than anybody waits, let alone to run.
const MOST: usize = 10_000;

/// Configurations to try.
///
/// ```
/// use demask_eval::run::grid::Grid;
/// let grid = Grid::parse("mine", "[[grid]]\nstrategy = \"eb\"\ngamma = [0.1, 0.2]")?;
/// assert_eq!(grid.configurations.iter().map(ToString::to_string).collect::<Vec<_>>(), ["eb:gamma=0.1", "eb:gamma=0.2"]);
/// # Ok::<(), demask_eval::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// The mark to compare with.
    pub baseline: StrategySpec,
    /// All configurations in order, the baseline not among them unless a grid names it.
    pub configurations: Vec<StrategySpec>,
    /// The configurations of each `[[grid]]` that has a label.
    labels: Vec<(String, Vec<StrategySpec>)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default = "one_token")]
    baseline: String,
    #[serde(default)]
    grid: Vec<toml::Table>,
}

fn one_token() -> String {
    "entropy".into()
}

impl Grid {
    /// Parses TOML; `name` is what an error calls it.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let wrong = |problem: String| Error::Data(format!("{name}: {problem}"));
        let file: File = toml::from_str(text).map_err(|e| wrong(e.to_string().trim().to_owned()))?;
        let spec = |text: &str| text.parse::<StrategySpec>().map_err(|e| wrong(e.to_string()));
        let (mut configurations, mut labels) = (Vec::new(), Vec::new());
        for table in &file.grid {
            let Some(strategy) = table.get("strategy").and_then(toml::Value::as_str) else {
                return Err(wrong("a [[grid]] needs strategy = \"NAME\"".into()));
            };
            let mut specs = vec![spec(strategy)?];
            // In the order the strategy lists its parameters, so that a configuration has one spelling.
            let params = specs[0].params();
            let place = |key: &str| params.iter().position(|p| p.key == key);
            let values = |key: &str| key != "strategy" && key != "label";
            let mut lists: Vec<_> = table.iter().filter(|(key, _)| values(key)).collect();
            lists.sort_by_key(|(key, _)| place(key));
            for (key, values) in lists {
                let Some(values) = values.as_array().filter(|v| !v.is_empty()) else {
                    return Err(wrong(format!("{key} of {strategy} must be a list of values")));
                };
                let product = specs.len().saturating_mul(values.len());
                if product.saturating_add(configurations.len()) > MOST {
                    return Err(wrong(format!("it has more than {MOST} configurations")));
                }
                let mut more = Vec::with_capacity(product);
                for spec in &specs {
                    for value in values {
                        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                        more.push(spec.clone().with(key, value).map_err(|e| wrong(e.to_string()))?);
                    }
                }
                specs = more;
            }
            if let Some(label) = table.get("label") {
                let Some(label) = label.as_str() else {
                    return Err(wrong(format!("label of {strategy} must be a text")));
                };
                labels.push((label.to_owned(), specs.clone()));
            }
            configurations.extend(specs);
        }
        if configurations.is_empty() {
            return Err(wrong("it has no [[grid]]".into()));
        }
        let mut unique: Vec<StrategySpec> = Vec::new();
        for configuration in configurations {
            if !unique.contains(&configuration) {
                unique.push(configuration);
            }
        }
        Ok(Self { baseline: spec(&file.baseline)?, configurations: unique, labels })
    }

    /// Adds the configurations of another grid.
    pub fn extend(&mut self, other: Self) {
        self.configurations.extend(other.configurations);
        self.labels.extend(other.labels);
    }

    /// Names each point after the label of the first `[[grid]]` that holds it.
    pub fn label(&self, mut points: Vec<Point>) -> Vec<Point> {
        for point in &mut points {
            if let Some(label) = self.labelled(&point.strategy) {
                point.method = label.into();
            }
        }
        points
    }

    /// The method that a configuration is one of: its label, else the strategy's name.
    pub fn method<'a>(&'a self, configuration: &'a StrategySpec) -> &'a str {
        self.labelled(configuration).unwrap_or_else(|| configuration.name())
    }

    fn labelled(&self, configuration: &StrategySpec) -> Option<&str> {
        let (label, _) = self.labels.iter().find(|(_, specs)| specs.contains(configuration))?;
        Some(label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_grids_have_the_papers_sizes() {
        let paper = Grid::parse("paper", PAPER).unwrap();
        let count = |name: &str| paper.configurations.iter().filter(|c| c.name() == name).count();
        assert_eq!((count("demask"), count("klass"), paper.configurations.len()), (60, 45, 105));
        assert!(paper.configurations.contains(&"demask:tau=0.04,gamma=0.9".parse().unwrap()));
        assert!(paper.configurations.contains(&"klass:conf=0.9,kl=0.0003".parse().unwrap()));
        assert!(Grid::parse("lab", LAB).unwrap().configurations.len() > 30);
        let fair = Grid::parse("fair", FAIR).unwrap();
        for (label, configurations) in &fair.labels {
            assert_eq!(configurations.len(), 12, "{label}");
        }
        assert_eq!(fair.labels.len(), 27);
    }

    /// Appendix C value by value, and what section 5.2 selects.
    #[test]
    fn the_papers_grids_have_the_papers_values() {
        let taus =
            ["0.5", "0.4", "0.3", "0.2", "0.1", "0.08", "0.06", "0.04", "0.02", "0.01", "0.003", "0.001"];
        let gammas = ["0.9", "0.7", "0.5", "0.3", "0.1"];
        let kls = ["0.02", "0.015", "0.01", "0.005", "0.001", "0.0003", "0.0001", "0.00003", "0.00001"];
        let confs = ["0.5", "0.6", "0.7", "0.8", "0.9"];
        let mut expected: Vec<StrategySpec> = Vec::new();
        for tau in taus {
            expected.extend(gammas.map(|gamma| format!("demask:tau={tau},gamma={gamma}").parse().unwrap()));
        }
        for kl in kls {
            expected.extend(confs.map(|conf| format!("klass:conf={conf},kl={kl}").parse().unwrap()));
        }
        let number = |spec: &StrategySpec| {
            let mut given: Vec<(String, f64)> =
                spec.given().iter().map(|(key, value)| (key.clone(), value.parse().unwrap())).collect();
            given.sort_by(|a, b| a.0.cmp(&b.0));
            (spec.name().to_owned(), given)
        };
        let mut ours: Vec<_> =
            Grid::parse("paper", PAPER).unwrap().configurations.iter().map(number).collect();
        let mut theirs: Vec<_> = expected.iter().map(number).collect();
        let order =
            |a: &(String, Vec<(String, f64)>), b: &(String, Vec<(String, f64)>)| a.partial_cmp(b).unwrap();
        ours.sort_by(order);
        theirs.sort_by(order);
        assert_eq!(ours, theirs);
        // The defaults of both are what the paper selects.
        let default = |name: &str, key: &str| {
            let params = name.parse::<StrategySpec>().unwrap().params();
            params.iter().find(|param| param.key == key).unwrap().default
        };
        assert_eq!((default("demask", "tau"), default("demask", "gamma")), ("0.04", "0.9"));
        assert_eq!(
            (default("klass", "kl"), default("klass", "conf"), default("klass", "history")),
            ("0.0003", "0.9", "2")
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (text, hint) in [
            ("", "no [[grid]]"),
            ("[[grid]]\ntau = [1]", "strategy"),
            ("[[grid]]\nstrategy = \"demask\"\ntua = [1]", "tau"),
            ("[[grid]]\nstrategy = \"demask\"\ntau = 1", "list"),
            ("[[grid]]\nstrategy = \"demask\"\ngamma = [2.0]", "between 0 and 1"),
        ] {
            let error = Grid::parse("g.toml", text).unwrap_err().to_string();
            assert!(error.contains(hint) && error.starts_with("g.toml"), "{error}");
        }
    }
}
