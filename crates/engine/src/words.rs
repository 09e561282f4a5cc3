//! Singular and plural, for sentences that count something.

/// A number with its noun: `1 forward pass`, `2 forward passes`.
///
/// ```
/// use demask_engine::counted;
/// assert_eq!([counted(1, "token"), counted(2, "pass"), counted(0, "canvas")], ["1 token", "2 passes", "0 canvases"]);
/// ```
pub fn counted(n: usize, noun: &str) -> String {
    match n {
        1 => format!("1 {noun}"),
        n if noun.ends_with('s') => format!("{n} {noun}es"),
        n => format!("{n} {noun}s"),
    }
}
