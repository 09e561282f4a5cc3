//! Sudoku of Dream's planning evaluation: 4×4 grids with 4 to 12 empty cells, the first eight rows of a file as shots.

use super::data::Row;
use super::{Check, Definition, Prompt, Protocol, Question, Setup};
use crate::error::Result;
use crate::sandbox::Sandbox;
use crate::task::Score;

const SIDE: usize = 4;
const ASKED: &str = "Fill the positions where the values are 0 in a 4x4 grid with digits 1-4 so that each column, each row, and \
                     each of the four 2x2 subgrids that compose the grid contains all of the digits from 1 to 4.\n\n";

pub(super) const DREAM: Definition = Definition {
    task: "sudoku",
    aliases: &[],
    protocol: Protocol::Dream,
    version: 1,
    source: "DreamLM/Dream@fac0a7f eval/eval_planning.py, sudoku",
    shots: 8,
    chat: false,
    until: &["<|endoftext|>", "\n\n"],
    max_new_tokens: 24,
    max_prompt_tokens: None,
    code: false,
    hub: None,
    tuning: None,
    build,
};

fn build(setup: &Setup<'_>) -> Result<Vec<Question>> {
    let rows = setup.rows()?;
    let (shots, questions) = rows.split_at(setup.shots.min(rows.len()));
    let shot =
        |row: &Row| Ok(format!("Input:\n{}\nOutput:\n{}\n\n", row.text("input")?, row.text("output")?));
    let shots = shots.iter().map(shot).collect::<Result<String>>()?;
    let item = |(doc_id, row): (usize, &Row)| {
        let input = row.text("input")?.to_owned();
        let user = format!("{ASKED}{shots}Input:\n{input}\nOutput:\n ");
        let target = row.text("output")?.to_owned();
        Ok(setup.item(doc_id, Prompt { user, ..Prompt::default() }, target, Puzzle { input }))
    };
    questions.iter().enumerate().map(item).collect()
}

struct Puzzle {
    input: String,
}

impl Check for Puzzle {
    fn check(&self, response: &str, _: Option<&Sandbox>) -> Result<Score> {
        let answer: String =
            response.chars().filter(|c| *c != ' ').take(self.input.chars().count()).collect();
        let correct = grid(&self.input).zip(grid(&answer)).is_some_and(|(given, full)| solves(&given, &full));
        Ok(Score { correct, strict: None, extracted: Some(answer) })
    }
}

type Grid = [[u8; SIDE]; SIDE];

fn grid(text: &str) -> Option<Grid> {
    let mut grid = Grid::default();
    let rows: Vec<&str> = text.trim().split('\n').collect();
    if rows.len() != SIDE {
        return None;
    }
    for (row, text) in grid.iter_mut().zip(rows) {
        let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(10).map(|d| d as u8)).collect();
        *row = digits?.try_into().ok()?;
    }
    Some(grid)
}

fn solves(given: &Grid, full: &Grid) -> bool {
    let cell = |place: usize| full[place / SIDE][place % SIDE];
    let kept = |place: usize| {
        let given = given[place / SIDE][place % SIDE];
        given == 0 || given == cell(place)
    };
    let complete = |places: [usize; SIDE]| {
        let seen = places.iter().fold(0_u32, |seen, &place| seen | 1 << cell(place).min(31));
        seen == 0b1_1110
    };
    (0..SIDE * SIDE).all(kept)
        && (0..SIDE).all(|k| {
            let corner = (k / 2) * 2 * SIDE + (k % 2) * 2;
            complete([0, 1, 2, 3].map(|i| k * SIDE + i))
                && complete([0, 1, 2, 3].map(|i| i * SIDE + k))
                && complete([0, 1, SIDE, SIDE + 1].map(|i| corner + i))
        })
}
