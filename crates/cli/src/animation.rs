//! Recorded decodings as a moving picture for a page that runs no script: an SVG in which every token appears when its
//! pass ends, decodings one below the other against one clock.
//!
//! Invariant: the picture shows what the traces say; a token that was taken back appears when it was written for good.

use std::fmt::Write as _;

use demask::counted;
use demask::model::text::Tokenizer;

use crate::replay::Panel;

/// Seconds of a pass, and of the rest at the end.
const PASS: f64 = 0.3;
const REST: f64 = 4.0;
/// Seconds that a new token is marked.
const FLASH: f64 = 0.6;
/// Pixels of a character and of a line, and the margin around.
const ADVANCE: f64 = 8.5;
const LINE: f64 = 24.0;
const MARGIN: f64 = 16.0;
/// Characters of a line.
const COLUMNS: usize = 76;

const STYLE: &str = "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1c1c1c;white-space:pre}\
.p{fill:#555}.t{font-weight:bold}.m{fill:#d9d9d9}.back{fill:#fff}\
@media(prefers-color-scheme:dark){text{fill:#e8e8e8}.p{fill:#aaa}.m{fill:#4a4a4a}.back{fill:#161616}}";

/// The picture of some decodings of one prompt.
pub fn animation(prompt: &str, panels: &[Panel], tokenizer: &Tokenizer) -> String {
    let longest = panels.iter().map(Panel::forwards).max().unwrap_or(0);
    let clock = Clock { seconds: longest as f64 * PASS + REST };
    let (mut body, mut top) = (String::new(), MARGIN + LINE * 0.7);
    for line in lines(prompt) {
        let _ = writeln!(body, "<text class=\"p\" x=\"{MARGIN}\" y=\"{top:.1}\">{}</text>", escaped(&line));
        top += LINE;
    }
    let mut moments = std::collections::BTreeSet::new();
    for panel in panels {
        top += LINE * 0.5;
        let said = format!("{}: {}", panel.title, counted(panel.forwards(), "forward pass"));
        let _ = writeln!(body, "<text class=\"t\" x=\"{MARGIN}\" y=\"{top:.1}\">{}</text>", escaped(&said));
        top += LINE;
        let mut column = 0;
        for (text, passes) in panel.written(tokenizer) {
            moments.insert(passes);
            for (number, part) in text.split('\n').enumerate() {
                let width = part.chars().count();
                if number > 0 || (column + width > COLUMNS && column > 0) {
                    (column, top) = (0, top + LINE);
                }
                let part = if column == 0 { part.trim_start() } else { part };
                draw(&mut body, part, column, top, passes);
                column += part.chars().count();
            }
        }
        top += LINE;
    }
    let mut style = STYLE.to_owned();
    moments.iter().filter(|passes| **passes > 0).for_each(|passes| clock.write(&mut style, *passes));
    let (width, height) = (2.0 * MARGIN + ADVANCE * COLUMNS as f64, top + MARGIN - LINE * 0.5);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         role=\"img\" aria-label=\"{}\">\n<style>{style}</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\" \
         rx=\"8\"/>\n{body}</svg>\n",
        escaped(prompt)
    )
}

/// One token: a grey box until its pass ends, then a flash and its text.
fn draw(body: &mut String, text: &str, column: usize, base: f64, passes: usize) {
    let (spaces, word) = (text.len() - text.trim_start().len(), text.trim());
    if word.is_empty() {
        return;
    }
    let (left, width) = (MARGIN + ADVANCE * (column + spaces) as f64, ADVANCE * word.chars().count() as f64);
    if passes > 0 {
        let top = base - LINE * 0.62;
        let _ = write!(
            body,
            "<rect class=\"m b{passes}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"18\" rx=\"3\"/>"
        );
    }
    let class = if passes > 0 { format!(" class=\"a{passes}\"") } else { String::new() };
    let _ = writeln!(
        body,
        "<text{class} x=\"{left:.1}\" y=\"{base:.1}\" textLength=\"{width:.1}\">{}</text>",
        escaped(word)
    );
}

/// When things happen, as shares of the whole loop.
struct Clock {
    seconds: f64,
}

impl Clock {
    /// The rules of what appears after so many passes: `a` is text, `b` the box in its place.
    fn write(&self, style: &mut String, passes: usize) {
        let at = 100.0 * passes as f64 * PASS / self.seconds;
        let after = (at + 100.0 * FLASH / self.seconds).min(99.99);
        // In steps: nothing is between a mask and a token.
        let _ = write!(
            style,
            ".a{passes}{{animation:a{passes} {0:.1}s step-end infinite}}.b{passes}{{animation:b{passes} {0:.1}s step-end \
             infinite}}@keyframes a{passes}{{0%{{visibility:hidden}}{at:.2}%,100%{{visibility:visible}}}}\
             @keyframes b{passes}{{0%{{visibility:visible}}{at:.2}%{{visibility:visible;fill:#d55e00;fill-opacity:.45}}\
             {after:.2}%,100%{{visibility:hidden}}}}",
            self.seconds
        );
    }
}

/// A text in lines of whole words.
fn lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut current = String::new();
        for word in line.split(' ') {
            if !current.is_empty() && current.chars().count() + 1 + word.chars().count() > COLUMNS {
                lines.push(std::mem::take(&mut current));
            }
            if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
        lines.push(current);
    }
    lines
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        let broken = lines(&"word ".repeat(40));
        assert!(broken.len() == 3 && broken.iter().all(|line| line.chars().count() <= COLUMNS));
        assert_eq!(lines("a\nb c"), ["a", "b c"]);
    }

    #[test]
    fn a_token_appears_when_its_pass_ends() {
        let mut style = String::new();
        Clock { seconds: 10.0 * PASS }.write(&mut style, 5);
        assert!(style.contains("0%{visibility:hidden}50.00%,100%{visibility:visible}"), "{style}");
        let mut body = String::new();
        draw(&mut body, " <b", 2, 40.0, 5);
        assert!(body.contains("class=\"a5\"") && body.contains("class=\"m b5\"") && body.contains("&lt;b"));
        let mut given = String::new();
        draw(&mut given, "x", 0, 40.0, 0);
        assert!(!given.contains("rect"), "what was given has no box");
    }
}
