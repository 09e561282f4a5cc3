//! Plurals, articles, pronouns and numbers in words: as much of English as the stories need.

/// The pronoun of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pronoun {
    /// she, her, her.
    She,
    /// he, him, his.
    He,
    /// they, them, their.
    They,
}

impl Pronoun {
    /// The pronoun of a group of `names.txt`.
    pub(super) fn read(group: &str) -> Self {
        match group {
            "she" => Self::She,
            "he" => Self::He,
            _ => Self::They,
        }
    }

    /// "she".
    pub fn subject(self) -> &'static str {
        ["she", "he", "they"][self as usize]
    }

    /// "her".
    pub fn object(self) -> &'static str {
        ["her", "him", "them"][self as usize]
    }

    /// "her", as in "her brother".
    pub fn possessive(self) -> &'static str {
        ["her", "his", "their"][self as usize]
    }

    /// Whether its verb is a plural one: "they have".
    pub fn plural(self) -> bool {
        self == Self::They
    }
}

/// The regular plural of a noun.
pub fn plural(one: &str) -> String {
    let ends = |endings: &[&str]| endings.iter().any(|ending| one.ends_with(ending));
    if ends(&["s", "x", "z", "ch", "sh"]) {
        return format!("{one}es");
    }
    match one.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{one}s"),
    }
}

/// The word with its indefinite article: "an apple", "a uniform".
pub fn a(word: &str) -> String {
    let lower = word.to_lowercase();
    let starts = |beginnings: &[&str]| beginnings.iter().any(|beginning| lower.starts_with(beginning));
    let vowel = starts(&["a", "e", "i", "o", "u", "hour", "honest", "heir"])
        && !starts(&["uni", "use", "usu", "eu", "one", "once", "ukr", "uran"]);
    format!("{} {word}", if vowel { "an" } else { "a" })
}

/// The text with a capital first letter.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// A number of 0..=199 in words: "twenty-three".
///
/// # Panics
/// If the number is out of that range.
pub fn in_words(number: i64) -> String {
    const SMALL: [&str; 20] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ];
    const TENS: [&str; 10] =
        ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
    match number {
        0..=19 => SMALL[number as usize].into(),
        20..=99 if number % 10 == 0 => TENS[number as usize / 10].into(),
        20..=99 => format!("{}-{}", TENS[number as usize / 10], SMALL[number as usize % 10]),
        100 => "one hundred".into(),
        101..=199 => format!("one hundred and {}", in_words(number - 100)),
        _ => panic!("{number} has no words here"),
    }
}

/// A number as people type it: in digits, or in words where `words` says so.
pub fn shown(number: i64, words: bool) -> String {
    if words { in_words(number) } else { number.to_string() }
}
