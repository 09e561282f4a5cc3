//! `demask infill`: decides the gaps of a text; everything else stays as it is.

use std::io::Write;

use anyhow::Result;
use demask_decode::Canvas;
use demask_model::Backbone;
use serde_json::json;

use crate::args::{DecodeArgs, ModelArgs};
use crate::command::generate::ShowArgs;
use crate::decoding::decode;
use crate::loaded::Loaded;

/// Fills the gaps of a text: [MASK] is one token, [MASK:5] is five
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The text with its gaps
    pub text: String,
    /// A prompt in front, which stays fixed and is not printed
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    decode: DecodeArgs,
    #[command(flatten)]
    show: ShowArgs,
}

/// A stretch of the text.
#[derive(Debug, PartialEq)]
enum Piece<'a> {
    Text(&'a str),
    Gap(usize),
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let pieces = split(&args.text)?;
    let loaded = Loaded::open(&args.model)?;
    let ids = &loaded.ids;
    let mut tokens = match &args.prompt {
        Some(prompt) => loaded.encode_prompt(prompt, false)?,
        None => Vec::new(),
    };
    let start = tokens.len();
    for piece in pieces {
        match piece {
            Piece::Text(text) => tokens.extend(loaded.tokenizer.encode(text)?),
            Piece::Gap(length) => tokens.extend(std::iter::repeat_n(ids.mask, length)),
        }
    }
    let spec = loaded.backbone.spec();
    if tokens.len() > spec.max_positions {
        usage!(
            "the text has {} tokens, more than the model's context of {}; shorten it or its gaps",
            tokens.len(),
            spec.max_positions
        );
    }
    if tokens.first() == Some(&ids.mask) && spec.shift {
        usage!(
            "the text begins with a gap; this model predicts each token from the one before it: \
             put something in front, or give --prompt"
        );
    }
    let canvas = Canvas::infill(&tokens, ids)?;
    let options = loaded.options(&args.decode, start)?;
    let strategy = loaded.strategy(&args.decode);
    let finished = decode(&loaded, canvas, &strategy, options, &args.show.watching())?;
    if args.show.stats {
        finished.tell();
    }
    let canvas = finished.job.canvas();
    let text = loaded.tokenizer.decode(&canvas.tokens()[start..])?;
    let mut out = std::io::stdout().lock();
    if args.show.json {
        let totals = finished.job.totals();
        let object = json!({
            "text": text,
            "token_ids": &canvas.tokens()[start..],
            "canvas": &canvas.tokens()[canvas.response()],
            "steps": totals.steps,
            "forwards": totals.forwards,
            "strategy": strategy.to_string(),
            "seconds": finished.seconds,
        });
        writeln!(out, "{object}")?;
    } else {
        writeln!(out, "{text}")?;
    }
    Ok(())
}

fn split(text: &str) -> Result<Vec<Piece<'_>>> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some(start) = rest.find("[MASK") {
        let Some(length) = rest[start..].find(']') else {
            usage!("a gap is not closed: {:?}", &rest[start..])
        };
        let inside = &rest[start + "[MASK".len()..start + length];
        let count = match inside.strip_prefix(':') {
            None if inside.is_empty() => 1,
            Some(number) => match number.parse() {
                Ok(count) if (1..=65_536).contains(&count) => count,
                _ => usage!("a gap's length must be between 1 and 65536, not {number:?}"),
            },
            None => usage!("a gap is written [MASK] or [MASK:5], not [MASK{inside}]"),
        };
        if start > 0 {
            pieces.push(Piece::Text(&rest[..start]));
        }
        pieces.push(Piece::Gap(count));
        rest = &rest[start + length + 1..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    if !pieces.iter().any(|p| matches!(p, Piece::Gap(_))) {
        usage!("the text has no gap; write [MASK] or [MASK:5] where tokens are to be found");
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_cut_out() {
        let pieces = split("a [MASK] b[MASK:3]").unwrap();
        assert_eq!(pieces, [Piece::Text("a "), Piece::Gap(1), Piece::Text(" b"), Piece::Gap(3)]);
        for bad in ["no gap", "a [MASK", "a [MASK:0]", "a [MASK:x]", "a [MASKED]"] {
            assert!(split(bad).is_err(), "{bad}");
        }
    }
}
