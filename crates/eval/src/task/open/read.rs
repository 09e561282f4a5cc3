//! Reading the parts of an answer.

/// The parts of an answer: its lines where it has several, else what stands between commas.
pub(super) fn parts(response: &str) -> Vec<&str> {
    let text = response.trim();
    let separator = if text.contains('\n') { '\n' } else { ',' };
    let parts = text.split(separator).map(|part| part.trim().trim_end_matches([',', '.', ';']).trim());
    parts.filter(|part| !part.is_empty()).collect()
}

/// The words of a list, without what may lead up to it ("Here it is:", "The new order is") and with "and" as a comma.
pub(super) fn listed(response: &str) -> Vec<&str> {
    let text = response.trim();
    let opening = text.split([',', '\n']).next().unwrap_or(text);
    let lead = [":", " is ", " are "].iter().find_map(|mark| opening.find(mark).map(|at| at + mark.len()));
    let words = parts(&text[lead.unwrap_or(0)..]).into_iter().flat_map(|part| part.split(" and "));
    words.map(|word| word.trim_start_matches("and ").trim()).collect()
}

/// A number of at most four digits.
pub(super) fn number(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits = !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// A part `left SIGN right`, with the sign; the first sign that is found counts.
pub(super) fn couple<'a>(part: &'a str, signs: &[&'static str]) -> Option<(&'a str, &'static str, &'a str)> {
    signs.iter().find_map(|sign| {
        let (left, right) = part.split_once(sign)?;
        Some((left.trim(), *sign, right.trim()))
    })
}

/// Reads every part with one function; nothing where one cannot be read, or where they are not `count`.
pub(super) fn every<'a, T>(
    parts: &[&'a str],
    count: usize,
    read: impl Fn(&'a str) -> Option<T>,
) -> Option<Vec<T>> {
    (parts.len() == count).then(|| parts.iter().map(|part| read(part)).collect()).flatten()
}

/// Whether no item occurs twice.
pub(super) fn distinct<T: PartialEq>(items: &[T]) -> bool {
    items.iter().enumerate().all(|(at, item)| !items[..at].contains(item))
}

/// Whether all items are the same.
pub(super) fn uniform<T: PartialEq>(items: &[T]) -> bool {
    items.windows(2).all(|pair| pair[0] == pair[1])
}
