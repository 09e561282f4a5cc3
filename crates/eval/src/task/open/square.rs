//! Latin squares of two to four symbols with few cells given, or none.

use serde::{Deserialize, Serialize};

use super::demand::Family;
use super::told;
use crate::task::{Rng, Wording};

/// A square to be filled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Square {
    symbols: Vec<String>,
    /// Cells in reading order, by number of symbol.
    clues: Vec<Option<usize>>,
}

impl Square {
    fn side(&self) -> usize {
        self.symbols.len()
    }

    /// Whether `symbol` may stand at `at` among the cells filled so far.
    fn allows(&self, cells: &[usize], at: usize, symbol: usize) -> bool {
        let side = self.side();
        let clash =
            |other: usize| (other / side == at / side || other % side == at % side) && cells[other] == symbol;
        self.clues[at].is_none_or(|clue| clue == symbol)
            && !(0..cells.len()).any(|other| other != at && clash(other))
    }

    /// Every way to fill it.
    fn completions(&self) -> Vec<Vec<usize>> {
        let mut found = vec![Vec::new()];
        for at in 0..self.side() * self.side() {
            let extended = found.iter().flat_map(|cells: &Vec<usize>| {
                let fitting = (0..self.side()).filter(move |symbol| self.allows(cells, at, *symbol));
                fitting.map(move |symbol| cells.iter().copied().chain([symbol]).collect())
            });
            found = extended.collect();
        }
        found
    }

    fn lines(&self, cells: &[Option<usize>]) -> Vec<String> {
        let cell = |cell: &Option<usize>| cell.map_or("_", |symbol| self.symbols[symbol].as_str());
        cells.chunks(self.side()).map(|row| row.iter().map(cell).collect::<Vec<_>>().join(" ")).collect()
    }
}

impl Family for Square {
    fn draw(rng: &mut Rng, wording: Wording) -> (Self, String) {
        let side = *rng.pick(&[2, 3, 3, 3, 4, 4]);
        let symbols: Vec<String> = match rng.below(3) {
            0 => (1..=side).map(|number| number.to_string()).collect(),
            1 => {
                let first = rng.between(0, 22) as u8;
                (0..side as u8).map(|at| char::from(b'A' + first + at).to_string()).collect()
            }
            _ => {
                let digits: Vec<i64> = (1..=9).collect();
                let mut chosen = rng.sample(&digits, side);
                chosen.sort_unstable();
                chosen.iter().map(ToString::to_string).collect()
            }
        };
        let mut square = Self { symbols, clues: vec![None; side * side] };
        let full = rng.pick(&square.completions()).clone();
        let most = if side == 4 { 6 } else { side };
        let places: Vec<usize> = (0..side * side).collect();
        let given = rng.below(most + 1);
        for at in rng.sample(&places, given) {
            square.clues[at] = Some(full[at]);
        }
        let clues =
            if given == 0 { String::new() } else { format!("\n{}", square.lines(&square.clues).join("\n")) };
        let (last, before) =
            square.symbols.split_last().map_or(("", &[][..]), |(last, rest)| (last.as_str(), rest));
        let listed = format!("{} and {last}", before.join(", "));
        let size =
            rng.pick(&["{n}x{n}", "{n}x{n}", "{n} by {n}", "{n} x {n}"]).replace("{n}", &side.to_string());
        let slots = [("side", size.as_str()), ("symbols", &listed), ("clues", &clues)];
        let prompt = told(rng, wording, "square", side, &slots);
        (square, prompt)
    }

    fn key(&self) -> String {
        format!(
            "{}:{:?}",
            self.symbols.join(","),
            self.clues.iter().map(|clue| clue.map_or(-1, |c| c as i64)).collect::<Vec<_>>()
        )
    }

    fn answer(&self, rng: &mut Rng, _wording: Wording) -> Vec<String> {
        let cells: Vec<Option<usize>> = rng.pick(&self.completions()).iter().copied().map(Some).collect();
        self.lines(&cells)
    }

    fn read(&self, response: &str, _parts: &[&str]) -> Option<String> {
        let rows: Vec<&str> = response.lines().filter(|line| !line.trim().is_empty()).collect();
        let mut cells = Vec::new();
        for row in &rows {
            let symbols: Vec<usize> = row
                .split_whitespace()
                .map(|cell| self.symbols.iter().position(|s| s == cell))
                .collect::<Option<_>>()?;
            if symbols.len() != self.side() {
                return None;
            }
            cells.extend(symbols);
        }
        let whole = rows.len() == self.side();
        let right = whole && (0..cells.len()).all(|at| self.allows(&cells, at, cells[at]));
        right.then(|| rows.join("\n"))
    }
}
