//! The text files beside this one, which the build script packs and the program unpacks when a task first asks for its words.

use std::collections::HashMap;
use std::io::Read;
use std::sync::LazyLock;

use flate2::read::DeflateDecoder;

static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/wordings.deflate"));

static FILES: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| {
    let mut text = String::new();
    let unpacked = DeflateDecoder::new(PACKED).read_to_string(&mut text);
    assert!(unpacked.is_ok(), "the build packed the words of the tasks");
    // Kept for the life of the program, as text that is compiled in is.
    split(text.leak())
});

fn split(mut rest: &'static str) -> HashMap<&'static str, &'static str> {
    let mut files = HashMap::new();
    while let Some((head, after)) = rest.split_once('\n') {
        let found = head.rsplit_once(' ').and_then(|(name, length)| Some((name, length.parse().ok()?)));
        let (name, length): (_, usize) = found.expect("the build wrote a name and a length");
        let (text, next) = after.split_at(length);
        files.insert(name, text);
        rest = next;
    }
    files
}

/// A text file by its path below this folder.
///
/// # Panics
/// If there is no such file, which every test of its task would notice.
pub(super) fn text(name: &str) -> &'static str {
    FILES.get(name).copied().unwrap_or_else(|| panic!("no words are packed under {name}"))
}

/// Every text file.
pub(super) fn texts() -> impl Iterator<Item = &'static str> {
    FILES.values().copied()
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_unpacked_is_what_the_files_say() {
        assert_eq!(super::text("arith/told.txt"), include_str!("arith/told.txt"));
        assert_eq!(super::text("lexicon/words.txt"), include_str!("lexicon/words.txt"));
        assert_eq!(super::text("off_task.txt"), include_str!("off_task.txt"));
    }
}
