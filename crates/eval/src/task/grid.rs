//! `grid`: 4×4 Sudoku and Latin squares with one completion or with several.
//!
//! A grid with several completions is a dependency case: a cell may hold any of its candidates, but the cells
//! of one answer must agree.

use std::sync::{LazyLock, OnceLock};

use serde::{Deserialize, Serialize};

use super::phrase::{Phrases, fill as fill_slots};
use super::{Facts, Problem, Rng, Score, Task, Wording};

static PATTERNS: LazyLock<Phrases> =
    LazyLock::new(|| Phrases::parse(crate::task::wordings::text("grid/patterns.txt")));

const SIDE: usize = 4;
const KINDS: [&str; 4] = ["grid/sudoku", "grid/sudoku-open", "grid/latin", "grid/latin-open"];

type Cells = [u8; SIDE * SIDE];

/// The `grid` task.
pub(super) struct Grid;

/// What must not repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Rows, columns and 2×2 boxes.
    Sudoku,
    /// Rows and columns.
    Latin,
}

/// The content of a `grid` problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Puzzle {
    /// What must not repeat.
    pub rule: Rule,
    /// Cells in reading order, 0 where empty.
    pub cells: [u8; SIDE * SIDE],
}

impl Task for Grid {
    fn name(&self) -> &'static str {
        "grid"
    }

    fn version(&self) -> u32 {
        5
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn generate(&self, rng: &mut Rng, wording: Wording) -> Problem {
        let kind = *rng.pick(&KINDS);
        let rule = if kind.starts_with("grid/sudoku") { Rule::Sudoku } else { Rule::Latin };
        let open = kind.ends_with("-open");
        let (puzzle, completions) = loop {
            let empty = match open {
                true => rng.between(8, 14),
                false if rng.below(6) == 0 => rng.between(3, 5),
                false => rng.between(6, 10),
            };
            let full = *rng.pick(full_grids(rule));
            let puzzle = Puzzle { rule, cells: blank(rng, full, empty as usize) };
            let completions = puzzle.completions(usize::MAX);
            if (completions.len() > 1) == open {
                break (puzzle, completions);
            }
        };
        let section = if rule == Rule::Sudoku { "sudoku" } else { "latin" };
        let gap = *rng.pick(&["_", "_", "_", "_", ".", "?", "0", "-", "x"]);
        let grid = draw(&puzzle.cells).replace('_', gap);
        let pattern = PATTERNS.draw(rng, wording, section);
        Problem {
            task: self.name().into(),
            kind: kind.into(),
            prompt: fill_slots(&pattern, &[("note", gap_note(rng, gap)), ("grid", &grid)]),
            response: draw(rng.pick(&completions)),
            key: format!("{rule:?}:{}", draw(&puzzle.cells).replace(['\n', ' '], "")),
            facts: Facts::Grid(puzzle),
        }
    }

    fn score(&self, problem: &Problem, response: &str) -> Score {
        let Facts::Grid(puzzle) = &problem.facts else { return Score::default() };
        let Some(cells) = read(response) else { return Score::default() };
        Score { correct: puzzle.accepts(&cells), strict: None, extracted: Some(draw(&cells)) }
    }
}

impl Puzzle {
    /// How many cells are to be filled.
    pub fn empty(&self) -> usize {
        self.cells.iter().filter(|&&cell| cell == 0).count()
    }

    /// Whether `cells` fills this puzzle, keeps what was given and breaks no rule.
    pub fn accepts(&self, cells: &[u8; SIDE * SIDE]) -> bool {
        let kept = self.cells.iter().zip(cells).all(|(given, cell)| *given == 0 || given == cell);
        kept && (0..cells.len())
            .all(|at| (1..=SIDE as u8).contains(&cells[at]) && self.rule.allows(cells, at, cells[at]))
    }

    /// Up to `limit` completions.
    pub fn completions(&self, limit: usize) -> Vec<[u8; SIDE * SIDE]> {
        let mut found = Vec::new();
        fill(self.rule, self.cells, limit, &[1, 2, 3, 4], &mut found);
        found
    }
}

impl Rule {
    /// Whether `digit` at `at` meets no equal digit in another cell it must differ from.
    fn allows(self, cells: &Cells, at: usize, digit: u8) -> bool {
        let (row, column) = (at / SIDE, at % SIDE);
        (0..cells.len()).filter(|&other| other != at && cells[other] == digit).all(|other| {
            let (other_row, other_column) = (other / SIDE, other % SIDE);
            let same_box = row / 2 == other_row / 2 && column / 2 == other_column / 2;
            row != other_row && column != other_column && !(self == Self::Sudoku && same_box)
        })
    }
}

fn fill(rule: Rule, cells: Cells, limit: usize, digits: &[u8; SIDE], found: &mut Vec<Cells>) {
    let Some(at) = cells.iter().position(|&cell| cell == 0) else {
        found.push(cells);
        return;
    };
    for &digit in digits {
        if found.len() < limit && rule.allows(&cells, at, digit) {
            let mut next = cells;
            next[at] = digit;
            fill(rule, next, limit, digits, found);
        }
    }
}

/// Every full grid of a rule: 288 Sudokus, 576 Latin squares.
fn full_grids(rule: Rule) -> &'static [Cells] {
    static SUDOKU: OnceLock<Vec<Cells>> = OnceLock::new();
    static LATIN: OnceLock<Vec<Cells>> = OnceLock::new();
    let known = match rule {
        Rule::Sudoku => &SUDOKU,
        Rule::Latin => &LATIN,
    };
    known.get_or_init(|| Puzzle { rule, cells: [0; SIDE * SIDE] }.completions(usize::MAX))
}

/// A remark on what stands for an empty cell; mostly none.
fn gap_note(rng: &mut Rng, gap: &str) -> &'static str {
    let notes: &[&str] = match gap {
        "." => &[" Dots are empty.", " The dots are empty cells.", " A dot is an empty cell."],
        "?" => &[" The question marks are empty.", " Replace the question marks."],
        "0" => &[" 0 means empty.", " A zero is an empty cell.", " Zeros are empty."],
        "x" => &[" The x's are empty.", " An x is an empty cell.", " x means unknown."],
        "-" => &[" A dash is an empty cell.", " Dashes are empty."],
        _ => &[" The gaps are marked with _.", " _ is an empty cell.", " Underscores are empty."],
    };
    if rng.below(4) > 0 {
        return "";
    }
    let note: &&str = rng.pick(notes);
    note
}

fn blank(rng: &mut Rng, mut cells: Cells, empty: usize) -> Cells {
    let places: Vec<usize> = (0..cells.len()).collect();
    for at in rng.sample(&places, empty) {
        cells[at] = 0;
    }
    cells
}

/// Four lines of four cells, `_` where empty.
fn draw(cells: &Cells) -> String {
    let cell = |digit: &u8| if *digit == 0 { "_".to_string() } else { digit.to_string() };
    let row = |row: &[u8]| row.iter().map(cell).collect::<Vec<_>>().join(" ");
    cells.chunks(SIDE).map(row).collect::<Vec<_>>().join("\n")
}

/// The grid in a response: exactly four lines of four digits, blank lines apart.
fn read(response: &str) -> Option<Cells> {
    let mut cells = [0; SIDE * SIDE];
    let mut rows = response.lines().filter(|line| !line.trim().is_empty());
    for row in 0..SIDE {
        let mut words = rows.next()?.split_whitespace();
        for column in 0..SIDE {
            cells[row * SIDE + column] = words.next()?.parse().ok()?;
        }
        if words.next().is_some() {
            return None;
        }
    }
    rows.next().is_none().then_some(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOLVED: Cells = [1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1];

    #[test]
    fn there_are_288_sudokus_and_576_latin_squares() {
        assert_eq!((full_grids(Rule::Sudoku).len(), full_grids(Rule::Latin).len()), (288, 576));
    }

    #[test]
    fn accepts_demands_the_givens_and_the_rules() {
        let mut cells = SOLVED;
        cells[5] = 0;
        let puzzle = Puzzle { rule: Rule::Sudoku, cells };
        assert!(puzzle.accepts(&SOLVED));
        assert!(!puzzle.accepts(&cells), "an empty cell");
        for at in 0..16 {
            let mut wrong = SOLVED;
            wrong[at] = wrong[at] % 4 + 1;
            assert!(!puzzle.accepts(&wrong), "cell {at}");
        }
        let other = Puzzle { rule: Rule::Latin, cells: [0; 16] };
        let latin = [1, 2, 3, 4, 2, 1, 4, 3, 3, 4, 1, 2, 4, 3, 2, 1];
        assert!(
            other.accepts(&latin) && !Puzzle { rule: Rule::Sudoku, cells: [0; 16] }.accepts(&latin),
            "boxes count in Sudoku alone"
        );
    }

    #[test]
    fn only_a_four_by_four_grid_is_read() {
        assert_eq!(read(&draw(&SOLVED)), Some(SOLVED));
        assert_eq!(read(&format!("\n{}\n\n", draw(&SOLVED))), Some(SOLVED));
        for text in [
            "",
            "1 2 3 4",
            "1 2 3 4 5\n1 2 3 4\n1 2 3 4\n1 2 3 4",
            "1 2 3 4\n1 2 3 4\n1 2 3 4\n1 2 3 x",
            "1 2 3 4\n1 2 3 4\n1 2 3 4\n1 2 3 4\n1",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
