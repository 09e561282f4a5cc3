//! The canvas in a terminal while it denoises: masks as dots, the newest tokens highlighted, one
//! line of progress. Draws in place; knows nothing of how positions are chosen.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::time::Duration;

use crossterm::style::{Attribute, Color, ResetColor, SetAttribute, SetForegroundColor};
use crossterm::terminal::{self, Clear, ClearType};
use crossterm::{QueueableCommand, cursor};
use demask::counted;
use demask::decode::{Canvas, Observer, StepRecord};
use demask::model::text::Tokenizer;

/// Draws each step on standard output.
pub struct TerminalView {
    tokenizer: Tokenizer,
    /// Terminal rows of the last frame.
    drawn: u16,
    forwards: usize,
    besides: (usize, usize, f64),
    seconds: f64,
    /// Pause after a frame, so that a fast model can be watched.
    pause: Duration,
    /// Whether the last frame is wiped away at the end.
    fleeting: bool,
}

impl TerminalView {
    /// A view that decodes tokens with this tokenizer.
    pub fn new(tokenizer: Tokenizer, pause: Duration) -> Self {
        Self { tokenizer, drawn: 0, forwards: 0, besides: (0, 0, 0.0), seconds: 0.0, pause, fleeting: false }
    }

    /// The same, but gone when the text is there.
    pub fn fleeting(mut self) -> Self {
        self.fleeting = true;
        self
    }

    /// Goes back to where the last frame began and wipes it away.
    fn wipe(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.drawn > 0 {
            out.queue(cursor::MoveUp(self.drawn))?.queue(cursor::MoveToColumn(0))?;
            out.queue(Clear(ClearType::FromCursorDown))?;
            self.drawn = 0;
        }
        Ok(())
    }

    fn draw(&mut self, record: &StepRecord, canvas: &Canvas) -> io::Result<()> {
        let mut out = io::stdout().lock();
        // A terminal that does not know its width says 0.
        let width = terminal::size().map_or(80, |(w, _)| if w == 0 { 80 } else { w.max(20) });
        self.wipe(&mut out)?;
        let mut page = Page { out: &mut out, width, column: 0, rows: 0 };
        let shown = canvas.response().map(|position| {
            let token = canvas.tokens()[position];
            let newest = record.commits.iter().any(|c| c.position == position);
            match token == canvas.ids().mask {
                true => Shown::Masked,
                false if canvas.is_eos(token) => Shown::End { newest },
                false => Shown::Token { token, newest },
            }
        });
        for (text, color, bold) in pieces(shown, &self.tokenizer) {
            page.put(&text, color, bold)?;
        }
        page.end_line()?;
        let left = canvas.masked(canvas.response()).len();
        let budget =
            record.budget.map_or(String::new(), |b| format!(" · dependency {:.3} of {}", b.used, b.limit));
        let besides = besides(self.besides.0, self.besides.1, self.besides.2);
        let line = format!(
            "step {} · {} new · {left} masked · {}{besides} · {:.2} s{budget}",
            record.step + 1,
            record.commits.len(),
            counted(self.forwards, "forward pass"),
            self.seconds
        );
        page.put(&line, Some(Color::Cyan), false)?;
        page.end_line()?;
        self.drawn = page.rows;
        out.flush()
    }
}

/// What is seen of a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Nothing yet.
    Masked,
    /// An end of the text.
    End {
        /// Whether this step wrote it.
        newest: bool,
    },
    /// A token.
    Token {
        /// Which.
        token: u32,
        /// Whether this step wrote it.
        newest: bool,
    },
}

/// Positions as text with colour and weight. An end of the text takes one place, however many tokens it fills.
pub fn pieces(
    positions: impl Iterator<Item = Shown>,
    tokenizer: &Tokenizer,
) -> Vec<(String, Option<Color>, bool)> {
    let (mut pieces, mut previous, mut ended) = (Vec::new(), None, false);
    for position in positions {
        match position {
            Shown::Masked => {
                pieces.push(("░".to_owned(), Some(Color::DarkGrey), false));
                previous = None;
            }
            Shown::End { newest } if !ended => pieces.push(("·".to_owned(), Some(Color::DarkGrey), newest)),
            Shown::End { .. } => {}
            Shown::Token { token, newest } => {
                pieces.push((tokenizer.piece(previous, token), newest.then_some(Color::Green), newest));
                previous = Some(token);
            }
        }
        ended = matches!(position, Shown::End { .. });
    }
    pieces
}

/// What was computed besides forward passes: " + 31 assistant rows + 2 inner calls (0.004 s)"; nothing where it is nothing.
pub fn besides(assistant_rows: usize, inner_calls: usize, seconds: f64) -> String {
    let mut text = String::new();
    for (count, what) in [(assistant_rows, "assistant row"), (inner_calls, "inner call")] {
        if count > 0 {
            text += &format!(" + {}", counted(count, what));
        }
    }
    if text.is_empty() { text } else { format!("{text} ({seconds:.3} s)") }
}

impl Observer for TerminalView {
    fn on_step(&mut self, record: &StepRecord, canvas: &Canvas) -> ControlFlow<()> {
        self.forwards += record.forwards;
        self.besides.0 += record.assistant_rows;
        self.besides.1 += record.inner_calls;
        self.besides.2 += record.seconds.extra;
        self.seconds += record.seconds.total();
        // A terminal that went away is no reason to lose the answer.
        let _ = self.draw(record, canvas);
        std::thread::sleep(self.pause);
        ControlFlow::Continue(())
    }
}

impl Drop for TerminalView {
    fn drop(&mut self) {
        if self.fleeting {
            let mut out = io::stdout().lock();
            let _ = self.wipe(&mut out).and_then(|()| out.flush());
        }
    }
}

/// Counts terminal rows while writing, so that the next frame can go back to the first.
struct Page<'a, W: Write> {
    out: &'a mut W,
    width: u16,
    column: u16,
    rows: u16,
}

impl<W: Write> Page<'_, W> {
    fn put(&mut self, text: &str, color: Option<Color>, bold: bool) -> io::Result<()> {
        if let Some(color) = color {
            self.out.queue(SetForegroundColor(color))?;
        }
        if bold {
            self.out.queue(SetAttribute(Attribute::Bold))?;
        }
        for c in text.chars() {
            if c == '\n' || self.column >= self.width {
                self.end_line()?;
            }
            if !c.is_control() {
                write!(self.out, "{c}")?;
                self.column += 1;
            }
        }
        self.out.queue(ResetColor)?.queue(SetAttribute(Attribute::Reset))?;
        Ok(())
    }

    fn end_line(&mut self) -> io::Result<()> {
        write!(self.out, "\r\n")?;
        self.column = 0;
        self.rows += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_of_the_text_takes_one_place() {
        let tokenizer = demask::Loader::embedded().text().unwrap().tokenizer().clone();
        let token = tokenizer.encode("7").unwrap()[0];
        let end = |newest| Shown::End { newest };
        let canvas = [
            Shown::Token { token, newest: true },
            end(false),
            end(true),
            Shown::Masked,
            end(true),
            end(true),
        ];
        let texts: Vec<String> = pieces(canvas.into_iter(), &tokenizer).into_iter().map(|p| p.0).collect();
        assert_eq!(texts, ["7", "·", "░", "·"]);
    }
}
