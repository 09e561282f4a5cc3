//! A function of a text in English: "reverses a string and makes it upper case".

use super::super::text::Edit;
use super::{PHRASES, quoted, say};
use crate::task::Rng;
use crate::task::phrase::fill;

/// What becomes of a text as a noun phrase, where it cannot be misread.
pub(super) fn text_thing(rng: &mut Rng, edits: &[Edit], x: &str) -> Option<String> {
    let np = |edit: &Edit| PHRASES.has(&format!("{}.np", edit.section()));
    let top = |edit: &Edit| PHRASES.has(&format!("{}.top", edit.section()));
    match edits {
        [edit] => {
            let form = if top(edit) && (rng.coin() || !np(edit)) { "top" } else { "np" };
            Some(say_edit(rng, edit, form, x))
        }
        [inner, outer] => {
            let plain = [Edit::Upper, Edit::Lower, Edit::Reverse].contains(inner)
                || matches!(inner, Edit::First(_) | Edit::Last(_));
            let open =
                matches!(outer, Edit::Append(_) | Edit::Prepend(_) | Edit::Repeat(_) | Edit::Replace(..))
                    || matches!(outer, Edit::Remove(_) | Edit::Skip(_) | Edit::Trim(_) | Edit::Strip);
            if !plain || open {
                return None;
            }
            let inner = say_edit(rng, inner, "np", x);
            let form = if np(outer) { "np" } else { "top" };
            Some(say_edit(rng, outer, form, &inner))
        }
        _ => None,
    }
}

/// One step, in the form asked for.
pub(super) fn say_edit(rng: &mut Rng, edit: &Edit, form: &str, it: &str) -> String {
    let (piece, new) = edit.piece().unwrap_or_default();
    let quote = |text: &str| if text == " " { "\" \"".to_string() } else { quoted(text) };
    let single = rng.below(3) == 0;
    let style = |text: String| if single { text.replace('"', "'") } else { text };
    let (piece, new) = (style(quote(piece)), style(quote(new)));
    // A text in the prompt may hold what looks like a slot, so it comes last.
    let text = say(rng, &format!("{}.{form}", edit.section()), edit.constant(), &[("it", it), ("x", it)]);
    let piece = if matches!(edit, Edit::Append(_) | Edit::Prepend(_)) && rng.coin() {
        mark(edit.piece().unwrap_or_default().0).map_or(piece, String::from)
    } else {
        piece
    };
    fill(&text, &[("q", &piece), ("r", &new), ("l", edit.piece().unwrap_or_default().0)])
}

/// What a mark is called.
fn mark(piece: &str) -> Option<&'static str> {
    match piece {
        "!" => Some("an exclamation mark"),
        "?" => Some("a question mark"),
        "-" => Some("a dash"),
        "*" => Some("a star"),
        "." => Some("a full stop"),
        "..." => Some("three dots"),
        _ => None,
    }
}
