//! Singular and plural, for sentences that count something.

/// A number with its noun: `1 forward pass`, `2 forward passes`.
///
/// ```
/// use demask_engine::counted;
/// assert_eq!([counted(1, "token"), counted(2, "pass"), counted(0, "canvas")], ["1 token", "2 passes", "0 canvases"]);
/// assert_eq!([counted(1, "trajectory"), counted(2, "trajectory"), counted(2, "key")], ["1 trajectory", "2 trajectories", "2 keys"]);
/// ```
pub fn counted(n: usize, noun: &str) -> String {
    let stem = noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']));
    match (n, stem) {
        (1, _) => format!("1 {noun}"),
        (n, Some(stem)) => format!("{n} {stem}ies"),
        (n, None) if noun.ends_with('s') => format!("{n} {noun}es"),
        (n, None) => format!("{n} {noun}s"),
    }
}
