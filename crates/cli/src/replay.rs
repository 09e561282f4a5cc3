//! Recorded decodings in the terminal: one or several canvases side by side, frame by frame, the newest tokens
//! highlighted.
//!
//! A panel knows no model: it is made of a trace (its header and its records), so a decoding is replayed exactly as it
//! went.

use std::io::{self, Write};
use std::time::Duration;

use crossterm::style::{Attribute, Color, ResetColor, SetAttribute, SetForegroundColor};
use crossterm::terminal::{self, Clear, ClearType};
use crossterm::{QueueableCommand, cursor};
use demask::decode::replay::{Place, Replay};
use demask::decode::trace::Trace;
use demask::model::text::Tokenizer;

use crate::view::{Shown, besides, pieces};

/// One recorded decoding.
pub struct Panel {
    /// First line.
    pub title: String,
    /// The response after each step, and the step's number.
    frames: Vec<(usize, Vec<Place>)>,
    /// Forward passes up to and with each step.
    passes: Vec<usize>,
    /// What to say of each step.
    lines: Vec<String>,
    eos: Vec<u32>,
}

impl Panel {
    /// Replays a trace.
    pub fn new(title: String, trace: &Trace, eos: &[u32]) -> Result<Self, String> {
        let (start, end) = trace.header.response;
        let mut replay = Replay::new(&trace.header);
        let (mut frames, mut passes, mut lines, mut forwards) = (Vec::new(), Vec::new(), Vec::new(), 0);
        let mut beside = (0, 0, 0.0);
        for record in &trace.steps {
            replay.step(record)?;
            let places = replay.places()[start..end].to_vec();
            forwards += record.forwards;
            beside.0 += record.assistant_rows;
            beside.1 += record.inner_calls;
            beside.2 += record.seconds.extra;
            let beside = besides(beside.0, beside.1, beside.2);
            let budget = record.budget.map_or(String::new(), |b| format!(" · {:.3} of {}", b.used, b.limit));
            let masked = places.iter().filter(|p| p.is_masked()).count();
            lines.push(format!(
                "step {} · +{} · {masked} masked · NFE {forwards}{beside}{budget}",
                record.step + 1,
                record.commits.len()
            ));
            frames.push((record.step, places));
            passes.push(forwards);
        }
        Ok(Self { title, frames, passes, lines, eos: eos.to_vec() })
    }

    /// Every step as plain text, for where there is no terminal.
    pub fn story(&self, tokenizer: &Tokenizer) -> String {
        let mut story = format!("{}\n", self.title);
        for (step, line) in self.lines.iter().enumerate() {
            let page = self.page(step, tokenizer, usize::MAX);
            let text = |pieces: &Vec<Piece>| pieces.iter().map(|p| p.text.as_str()).collect::<String>();
            let body: Vec<String> = page[1..page.len() - 1].iter().map(text).collect();
            story += &format!("{line}\n  {}\n", body.join("\n  "));
        }
        story
    }

    /// The response as it ends, up to its end of sequence: the text of every token, and after how many passes it was written
    /// for good (0 of what was given).
    pub fn written(&self, tokenizer: &Tokenizer) -> Vec<(String, usize)> {
        let Some((_, places)) = self.frames.last() else { return Vec::new() };
        let (mut written, mut previous) = (Vec::new(), None);
        for place in places {
            let (token, passes) = match *place {
                Place::Given { token } => (token, 0),
                Place::Committed { token, step, .. } => {
                    let at = self.frames.iter().position(|(number, _)| *number == step);
                    (token, at.map_or(0, |at| self.passes[at]))
                }
                Place::Masked { .. } | Place::Filled { .. } => break,
            };
            if self.eos.contains(&token) {
                break;
            }
            written.push((tokenizer.piece(previous, token), passes));
            previous = Some(token);
        }
        written
    }

    /// Forward passes of the whole decoding.
    pub fn forwards(&self) -> usize {
        self.passes.last().copied().unwrap_or(0)
    }

    /// The last frame that has come at `step`.
    fn at(&self, step: usize) -> Option<(usize, &[Place], &str)> {
        let step = step.min(self.frames.len().checked_sub(1)?);
        let (number, places) = &self.frames[step];
        Some((*number, places, &self.lines[step]))
    }

    /// A frame as lines of coloured pieces, at most `width` columns wide.
    fn page(&self, step: usize, tokenizer: &Tokenizer, width: usize) -> Vec<Vec<Piece>> {
        let mut page = vec![vec![Piece::new(&self.title, Some(Color::Cyan), true, width)]];
        let Some((number, places, line)) = self.at(step) else { return page };
        let mut wrap = Wrap { lines: vec![Vec::new()], column: 0, width };
        let shown = places.iter().map(|place| {
            let newest = place.is_written_by(number);
            match *place {
                Place::Masked { .. } => Shown::Masked,
                Place::Filled { .. } => Shown::End { newest: false },
                Place::Given { token } | Place::Committed { token, .. } if self.eos.contains(&token) => {
                    Shown::End { newest }
                }
                Place::Given { token } | Place::Committed { token, .. } => Shown::Token { token, newest },
            }
        });
        for (text, color, bold) in pieces(shown, tokenizer) {
            wrap.put(&text, color, bold);
        }
        page.extend(wrap.lines);
        page.push(vec![Piece::new(line, Some(Color::Cyan), false, width)]);
        page
    }
}

/// Plays panels side by side on standard output, each frame after a pause.
pub fn play(panels: &[Panel], tokenizer: &Tokenizer, pause: Duration) -> io::Result<()> {
    let steps = panels.iter().map(|p| p.frames.len()).max().unwrap_or(0);
    let mut out = io::stdout().lock();
    let mut drawn = 0;
    for step in 0..steps {
        let columns = terminal::size().map_or(80, |(w, _)| w.max(40)) as usize;
        let width = (columns - 3 * (panels.len() - 1)) / panels.len().max(1) - 1;
        if drawn > 0 {
            out.queue(cursor::MoveUp(drawn))?.queue(cursor::MoveToColumn(0))?;
            out.queue(Clear(ClearType::FromCursorDown))?;
        }
        let pages: Vec<_> = panels.iter().map(|p| p.page(step, tokenizer, width)).collect();
        let height = pages.iter().map(Vec::len).max().unwrap_or(0);
        for row in 0..height {
            for (number, page) in pages.iter().enumerate() {
                let line = page.get(row).map_or(&[][..], Vec::as_slice);
                draw(&mut out, line, if number + 1 < pages.len() { width } else { 0 })?;
                if number + 1 < pages.len() {
                    write!(out, " │ ")?;
                }
            }
            write!(out, "\r\n")?;
        }
        drawn = height as u16;
        out.flush()?;
        std::thread::sleep(pause);
    }
    Ok(())
}

/// Writes a line and fills it up to `width`.
fn draw(out: &mut impl Write, line: &[Piece], width: usize) -> io::Result<()> {
    let mut used = 0;
    for piece in line {
        if let Some(color) = piece.color {
            out.queue(SetForegroundColor(color))?;
        }
        if piece.bold {
            out.queue(SetAttribute(Attribute::Bold))?;
        }
        write!(out, "{}", piece.text)?;
        out.queue(ResetColor)?.queue(SetAttribute(Attribute::Reset))?;
        used += piece.text.chars().count();
    }
    write!(out, "{}", " ".repeat(width.saturating_sub(used)))
}

/// Text of one look.
struct Piece {
    text: String,
    color: Option<Color>,
    bold: bool,
}

impl Piece {
    fn new(text: &str, color: Option<Color>, bold: bool, width: usize) -> Self {
        Self { text: text.chars().take(width).collect(), color, bold }
    }
}

/// Breaks pieces into lines.
struct Wrap {
    lines: Vec<Vec<Piece>>,
    column: usize,
    width: usize,
}

impl Wrap {
    fn put(&mut self, text: &str, color: Option<Color>, bold: bool) {
        let mut piece = String::new();
        for c in text.chars() {
            if c == '\n' || self.column >= self.width {
                self.push(std::mem::take(&mut piece), color, bold);
                self.lines.push(Vec::new());
                self.column = 0;
            }
            if !c.is_control() {
                piece.push(c);
                self.column += 1;
            }
        }
        self.push(piece, color, bold);
    }

    fn push(&mut self, text: String, color: Option<Color>, bold: bool) {
        if let (false, Some(line)) = (text.is_empty(), self.lines.last_mut()) {
            line.push(Piece { text, color, bold });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panel_tells_every_step() {
        let text = r#"{"demask_trace":1,"strategy":"entropy","tokens":[5,1,1,1],"response":[1,4],"mask":1,"seed":0}
{"step":0,"block":0,"masked":3,"commits":[{"position":1,"token":7,"confidence":0.9,"probability":0.9}],"stop":null,"forwards":2,"computed_rows":4,"seconds":{"forward":0,"marginals":0,"select":0}}
{"step":1,"block":0,"masked":2,"commits":[{"position":2,"token":9,"confidence":0.9,"probability":0.9}],"filled":[3],"stop":null,"forwards":2,"computed_rows":4,"seconds":{"forward":0,"marginals":0,"select":0}}"#;
        let panel = Panel::new("t".into(), &Trace::parse(text).unwrap(), &[9]).unwrap();
        assert!(panel.frames[0].1[0].is_written_by(0) && panel.frames[0].1[1].is_masked());
        assert!(panel.lines[1].contains("NFE 4") && panel.lines[0].contains("2 masked"));
        assert_eq!(panel.at(99).unwrap().1, panel.frames[1].1);
    }
}
