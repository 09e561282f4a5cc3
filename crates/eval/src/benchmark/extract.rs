//! Finding an answer in a response and comparing it, as lm-evaluation-harness's `regex` filter and `exact_match` do.

use std::sync::LazyLock;

use regex::Regex;

/// Which of the matches counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    First,
    Last,
}

/// The first group that matched something in the first or last match, trimmed.
pub(super) fn find(pattern: &Regex, response: &str, which: Which) -> Option<String> {
    let mut matches = pattern.captures_iter(response);
    let found = match which {
        Which::First => matches.next(),
        Which::Last => matches.last(),
    }?;
    let group = found.iter().skip(1).flatten().find(|group| !group.is_empty())?;
    Some(group.as_str().trim().to_owned())
}

/// A pattern of this crate.
pub(super) fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|cause| unreachable!("{text}: {cause}"))
}

/// GSM8K's flexible extraction: any number, amounts of money included.
pub(super) static NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern(r"(-?[$0-9.,]{2,})|(-?[0-9]+)"));

/// A number as GSM8K compares it: without thousands separators, currency, working or a full stop at the end.
pub(super) fn number(text: &str) -> String {
    let text = text.replace([',', '$'], "");
    let text = text.rfind("#### ").map_or(text.as_str(), |place| &text[place + 5..]);
    // Python's `$` also stands before a last line end.
    let (text, end) = text.strip_suffix('\n').map_or((text, ""), |text| (text, "\n"));
    let text = text.strip_suffix('.').unwrap_or(text);
    format!("{text}{end}").to_lowercase()
}

/// A letter as MMLU-Pro compares it: without punctuation, in any case.
pub(super) fn bare(text: &str) -> String {
    text.to_lowercase().chars().filter(|c| !c.is_ascii_punctuation()).collect()
}
