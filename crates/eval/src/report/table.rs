//! A table of text in the forms reports need: for people, Markdown, CSV and LaTeX.

use std::fmt::Write as _;
use std::path::Path;

use demask_model::checkpoint::write::replace;

use crate::error::Result;

/// Cells of text; the first column names the rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows, one line.
    pub caption: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<Text>>,
}

/// A cell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text {
    /// Its text.
    pub text: String,
    /// Whether it stands out.
    pub bold: bool,
}

impl<S: Into<String>> From<S> for Text {
    fn from(text: S) -> Self {
        Self { text: text.into(), bold: false }
    }
}

impl Table {
    /// An empty table.
    pub fn new(caption: &str, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            caption: caption.into(),
            columns: columns.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    /// Aligned columns for a terminal.
    pub fn plain(&self) -> String {
        let cells = |text: &Text| if text.bold { format!("{}*", text.text) } else { text.text.clone() };
        let mut out = String::new();
        for row in self.aligned(cells) {
            let _ = writeln!(out, "{}", row.join("  ").trim_end());
        }
        out
    }

    /// A Markdown table, its source readable too.
    pub fn markdown(&self) -> String {
        let cells = |text: &Text| {
            let text_ = text.text.replace('|', "\\|");
            if text.bold { format!("**{text_}**") } else { text_ }
        };
        let rows = self.aligned(cells);
        let mut out = if self.caption.is_empty() { String::new() } else { format!("{}\n\n", self.caption) };
        for (number, row) in rows.iter().enumerate() {
            let _ = writeln!(out, "| {} |", row.join(" | "));
            if number == 0 {
                // A colon may only stand at the end of a cell's dashes, or Markdown sees no table.
                let rule = row.iter().enumerate().map(|(column, cell)| {
                    let width = cell.chars().count();
                    if column == 0 { "-".repeat(width + 2) } else { format!("{}:", "-".repeat(width + 1)) }
                });
                let _ = writeln!(out, "|{}|", rule.collect::<Vec<_>>().join("|"));
            }
        }
        out
    }

    /// Comma-separated values for programs: a cell of several numbers, such as `97.0±0.5 (3.2×)`, becomes a column each,
    /// named after the cell's column with `_se`, `_low`, `_high` or `_times`.
    pub fn csv(&self) -> String {
        let quote = |text: &str| {
            if text.contains([',', '"', '\n']) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.to_owned()
            }
        };
        let mut columns = Vec::new();
        for (at, name) in self.columns.iter().enumerate() {
            let cells: Vec<Numbers> = self.rows.iter().map(|row| Numbers::of(&row[at].text)).collect();
            let used = |of: fn(&Numbers) -> &str| cells.iter().any(|cell| !of(cell).is_empty());
            for (ending, of) in Numbers::PARTS {
                if ending.is_empty() || used(of) {
                    let values: Vec<String> = cells.iter().map(|cell| quote(of(cell))).collect();
                    columns.push((quote(&format!("{name}{ending}")), values));
                }
            }
        }
        let mut out = columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(",") + "\n";
        for row in 0..self.rows.len() {
            let cells: Vec<&str> = columns.iter().map(|(_, cells)| cells[row].as_str()).collect();
            out += &(cells.join(",") + "\n");
        }
        out
    }

    /// A LaTeX table in the paper's style (booktabs).
    pub fn latex(&self) -> String {
        let mut out = String::from("\\begin{table*}[t]\n\\centering\n");
        let _ = writeln!(
            out,
            "\\caption{{{}}}\n\\small\n\\setlength{{\\tabcolsep}}{{4pt}}",
            escape(&self.caption)
        );
        let _ = writeln!(
            out,
            "\\begin{{tabular}}{{@{{}}l{}@{{}}}}\n\\toprule",
            "c".repeat(self.columns.len().max(1) - 1)
        );
        let header: Vec<String> = self.columns.iter().map(|c| escape(c)).collect();
        let _ = writeln!(out, "{} \\\\\n\\midrule", header.join(" & "));
        for row in &self.rows {
            let cells = row.iter().map(|cell| {
                let text = escape(&cell.text);
                if cell.bold { format!("\\textbf{{{text}}}") } else { text }
            });
            let _ = writeln!(out, "{} \\\\", cells.collect::<Vec<_>>().join(" & "));
        }
        out + "\\bottomrule\n\\end{tabular}\n\\end{table*}\n"
    }

    /// Writes `path` with the endings `.md`, `.csv` and `.tex`.
    pub fn write(&self, path: &Path) -> Result<()> {
        for (ending, text) in [("md", self.markdown()), ("csv", self.csv()), ("tex", self.latex())] {
            replace(&path.with_extension(ending), |out| out.write_all(text.as_bytes()))?;
        }
        Ok(())
    }

    /// Header and rows, each cell as wide as its column; names to the left, numbers to the right.
    fn aligned(&self, text: impl Fn(&Text) -> String) -> Vec<Vec<String>> {
        let mut rows = vec![self.columns.clone()];
        rows.extend(self.rows.iter().map(|row| row.iter().map(&text).collect::<Vec<_>>()));
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        for row in &mut rows {
            for (column, cell) in row.iter_mut().enumerate() {
                let width = widths[column];
                *cell = if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
            }
        }
        rows
    }
}

/// The numbers of a cell; a cell that is not made of numbers is its own value.
#[derive(Default)]
struct Numbers {
    value: String,
    error: String,
    low: String,
    high: String,
    times: String,
}

/// The ending of a column's name, and what stands in it.
type NumberColumn = (&'static str, fn(&Numbers) -> &str);

impl Numbers {
    /// What each column of a cell is called and holds.
    const PARTS: [NumberColumn; 5] = [
        ("", |n| &n.value),
        ("_se", |n| &n.error),
        ("_low", |n| &n.low),
        ("_high", |n| &n.high),
        ("_times", |n| &n.times),
    ];

    fn of(text: &str) -> Self {
        let whole =
            || Self { value: if text == "–" { String::new() } else { text.to_owned() }, ..Self::default() };
        Self::read(text).unwrap_or_else(whole)
    }

    /// `value[±error][ [low, high]][ (times×)]`.
    fn read(text: &str) -> Option<Self> {
        let mut numbers = Self::default();
        let (rest, times) = match text.split_once(" (") {
            Some((rest, times)) => (rest, times.strip_suffix("×)")?),
            None => (text, ""),
        };
        let (rest, interval) = match rest.split_once(" [") {
            Some((rest, interval)) => (rest, interval.strip_suffix(']')?.split_once(", ")?),
            None => (rest, ("", "")),
        };
        let (value, error) = rest.split_once('±').unwrap_or((rest, ""));
        for (part, text) in [
            (&mut numbers.value, value),
            (&mut numbers.error, error),
            (&mut numbers.low, interval.0),
            (&mut numbers.high, interval.1),
            (&mut numbers.times, times),
        ] {
            if !text.is_empty() {
                text.parse::<f64>().ok()?;
                *part = text.trim_start_matches('+').to_owned();
            }
        }
        (!numbers.value.is_empty()).then_some(numbers)
    }
}

fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '±' => out.push_str("$\\pm$"),
            '×' => out.push_str("$\\times$"),
            'τ' => out.push_str("$\\tau$"),
            'γ' => out.push_str("$\\gamma$"),
            '≥' => out.push_str("$\\geq$"),
            '–' => out.push_str("--"),
            '%' | '&' | '_' | '#' | '$' | '{' | '}' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("100 % of a_b", ["method", "a, b"]);
        table.rows.push(vec!["x".into(), "1.0±0.1 (2.0×)".into()]);
        table.rows.push(vec!["longer|".into(), Text { text: "2".into(), bold: true }]);
        table
    }

    #[test]
    fn each_form_keeps_every_cell() {
        let table = table();
        assert_eq!(table.csv(), "method,\"a, b\",\"a, b_se\",\"a, b_times\"\nx,1.0,0.1,2.0\nlonger|,2,,\n");
        let markdown = table.markdown();
        assert!(
            markdown.contains("| x        | 1.0±0.1 (2.0×) |") && markdown.contains("**2**"),
            "{markdown}"
        );
        assert!(markdown.contains("longer\\|"));
        assert!(markdown.contains("|----------|---------------:|"), "{markdown}");
        let latex = table.latex();
        assert!(
            latex.contains("1.0$\\pm$0.1 (2.0$\\times$)") && latex.contains("100 \\% of a\\_b"),
            "{latex}"
        );
        assert!(table.plain().lines().all(|line| line.chars().count() <= 23));
    }

    #[test]
    fn csv_has_one_number_a_cell() {
        let mut table = Table::new("", ["method", "accuracy", "NFE"]);
        table.rows.push(vec!["a".into(), "100.0 [96.3, 100.0]".into(), "7.1 + 3.0 assistant rows".into()]);
        table.rows.push(vec!["b".into(), "97.5±1.1".into(), "–".into()]);
        let expected = "method,accuracy,accuracy_se,accuracy_low,accuracy_high,NFE\n\
                        a,100.0,,96.3,100.0,7.1 + 3.0 assistant rows\nb,97.5,1.1,,,\n";
        assert_eq!(table.csv(), expected);
    }
}
