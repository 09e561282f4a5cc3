//! How deep a template's source may be nested, found before a parser that recurses sees it.
//!
//! A tag's expression becomes a tree at most as deep as it has words, so words are what is counted; a string is one word.

/// Bytes of a template.
const LONGEST: usize = 1 << 20;
/// Words of one tag.
const WORDS: usize = 2000;
/// Brackets inside brackets, and blocks inside blocks.
const DEPTH: usize = 100;
/// Alternatives of one `if`; each stands inside the one before.
const ALTERNATIVES: usize = 500;

/// Refuses a source that is too long or nested too deeply, as the end of a sentence.
pub(super) fn check(source: &str) -> Result<(), String> {
    if source.len() > LONGEST {
        return Err(format!("is longer than {LONGEST} bytes"));
    }
    let (mut rest, mut blocks, mut alternatives) = (source, 0_usize, 0_usize);
    while let Some(start) = rest.find('{') {
        let line = || 1 + source[..source.len() - rest.len() + start].matches('\n').count();
        let after = &rest[start + 1..];
        rest = match after.as_bytes().first() {
            Some(b'#') => after.find("#}").map_or("", |end| &after[end + 2..]),
            Some(b'{') => {
                tag(&after[1..], "}}").map_err(|problem| format!("{problem} in line {}", line()))?.1
            }
            Some(b'%') => {
                let (word, rest) =
                    tag(&after[1..], "%}").map_err(|problem| format!("{problem} in line {}", line()))?;
                match word {
                    "elif" | "else" => alternatives += 1,
                    word if word.starts_with("end") => blocks = blocks.saturating_sub(1),
                    "if" | "for" | "macro" | "call" | "filter" | "block" | "with" | "autoescape" => {
                        (blocks, alternatives) = (blocks + 1, 0);
                    }
                    _ => {}
                }
                if blocks > DEPTH || alternatives > ALTERNATIVES {
                    return Err(format!("nests its blocks too deeply in line {}", line()));
                }
                rest
            }
            _ => after,
        };
    }
    Ok(())
}

/// The first word of a tag and what follows its end.
fn tag<'a>(source: &'a str, end: &str) -> Result<(&'a str, &'a str), String> {
    let bytes = source.as_bytes();
    let (mut place, mut words, mut depth, mut first) = (0, 0, 0_usize, "");
    while place < bytes.len() {
        if depth == 0 && source[place..].starts_with(end) {
            return Ok((first, &source[place + end.len()..]));
        }
        let start = place;
        match bytes[place] {
            quote @ (b'\'' | b'"') => {
                place += 1;
                while place < bytes.len() && bytes[place] != quote {
                    place += if bytes[place] == b'\\' { 2 } else { 1 };
                }
                place = next_boundary(source, place + 1);
            }
            byte if is_word(byte) => {
                place += bytes[place..].iter().take_while(|&&byte| is_word(byte)).count();
                if first.is_empty() {
                    first = &source[start..place];
                }
            }
            byte => {
                match byte {
                    b'(' | b'[' | b'{' => depth += 1,
                    b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                place = next_boundary(source, place + 1);
                if byte.is_ascii_whitespace() {
                    continue;
                }
            }
        }
        words += 1;
        check_tag(words, depth)?;
    }
    Ok((first, ""))
}

fn check_tag(words: usize, depth: usize) -> Result<(), String> {
    if words > WORDS {
        return Err(format!("has a tag of more than {WORDS} words"));
    }
    if depth > DEPTH { Err(format!("has more than {DEPTH} brackets inside one another")) } else { Ok(()) }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The first place from `place` on where a character begins.
fn next_boundary(source: &str, place: usize) -> usize {
    (place..source.len()).find(|&place| source.is_char_boundary(place)).unwrap_or(source.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_templates_pass_and_towers_do_not() {
        let long_text = "x ".repeat(20_000);
        for source in [
            "no tags { at all }".to_owned(),
            "{% if a %}{{ {'b': [1, (2)]}['b'] }}{% elif c %}{% endif %}{# { #}".to_owned(),
            format!("{{{{ '{long_text}' }}}}"),
            "{% if x %}y{% endif %}".repeat(3000),
            "{{ 'é}}' ~ \"%}\" }}".to_owned(),
            "{{ unfinished".to_owned(),
        ] {
            assert_eq!(check(&source), Ok(()), "{}", &source[..source.len().min(60)]);
        }
        for (source, why) in [
            (format!("a\n{{{{ {} true }}}}", "not ".repeat(100_000)), "more than 2000 words in line 2"),
            (format!("{{{{ {}1 }}}}", "-".repeat(5000)), "words"),
            (format!("{{{{ {}1{} }}}}", "(".repeat(500), ")".repeat(500)), "brackets"),
            (format!("{{{{ x{} }}}}", ".a".repeat(5000)), "words"),
            (format!("{}{}", "{% if x %}".repeat(500), "{% endif %}".repeat(500)), "blocks"),
            (format!("{{% if x %}}{}{{% endif %}}", "{% elif y %}".repeat(5000)), "blocks"),
            (" ".repeat((1 << 20) + 1), "longer"),
        ] {
            assert!(check(&source).is_err_and(|problem| problem.contains(why)), "{why}");
        }
    }
}
