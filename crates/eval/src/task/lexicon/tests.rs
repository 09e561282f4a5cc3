//! What the lexicon promises.

use std::collections::HashSet;

use super::*;

#[test]
fn there_are_enough_words_and_none_is_both_usual_and_fresh() {
    let names = |words: &Words| words.names.iter().map(|name| name.text.clone()).collect::<HashSet<_>>();
    let nouns = |words: &Words| words.nouns.iter().map(|noun| noun.one.clone()).collect::<HashSet<_>>();
    assert!(names(&USUAL).len() >= 300 && names(&FRESH).len() >= 60);
    assert_eq!(names(&USUAL).len(), USUAL.names.len(), "a name is listed twice");
    assert!(nouns(&USUAL).len() >= 300 && nouns(&FRESH).len() >= 60);
    let usual: HashSet<String> =
        USUAL.nouns.iter().flat_map(|noun| [noun.one.clone(), noun.many.clone()]).collect();
    for word in fresh_nouns() {
        assert!(!usual.contains(word), "{word}");
        assert!(categories().iter().all(|category| !category.members.iter().any(|m| m == word)), "{word}");
    }
    assert!(names(&USUAL).is_disjoint(&names(&FRESH)));
    for text in [include_str!("nouns.txt"), include_str!("nouns-fresh.txt")] {
        let groups: Vec<&str> = text.lines().filter_map(|line| line.split(": ").next()).collect();
        assert_eq!(groups, ["person", "animal", "bird", "food", "thing", "vehicle", "plant"]);
    }
}

#[test]
fn fresh_words_are_never_drawn_in_the_usual_wording() {
    let mut rng = Rng::new(1);
    let fresh: HashSet<&str> = fresh_names().chain(fresh_nouns()).collect();
    for _ in 0..50_000 {
        let (name, noun) = (name(&mut rng, Wording::Usual), noun(&mut rng, Wording::Usual, &NounKind::ALL));
        assert!(!fresh.contains(name.text.as_str()) && !fresh.contains(noun.one.as_str()));
        assert!(fresh.contains(super::name(&mut rng, Wording::Fresh).text.as_str()));
        assert!(fresh.contains(super::noun(&mut rng, Wording::Fresh, &NounKind::ALL).many.as_str()));
    }
}

#[test]
fn about_one_name_in_ten_is_made_up() {
    let mut rng = Rng::new(2);
    let listed: HashSet<&str> = USUAL.names.iter().map(|name| name.text.as_str()).collect();
    let drawn: Vec<Name> = (0..8000).map(|_| name(&mut rng, Wording::Usual)).collect();
    let made_up: Vec<&str> =
        drawn.iter().map(|name| name.text.as_str()).filter(|name| !listed.contains(name)).collect();
    assert!((700..900).contains(&made_up.len()), "{}", made_up.len());
    assert!(made_up.iter().collect::<HashSet<_>>().len() > 680, "made-up names repeat");
    assert!(made_up.iter().all(|name| name.starts_with(|c: char| c.is_ascii_uppercase())));
    let marked = made_up.iter().filter(|name| !name.is_ascii()).count();
    assert!((100..220).contains(&marked), "{marked} with a mark");
    assert_eq!(names(&mut rng, Wording::Fresh, 12).iter().map(|n| &n.text).collect::<HashSet<_>>().len(), 12);
}

#[test]
fn grammar_knows_its_exceptions() {
    for (one, many) in
        [("pen", "pens"), ("box", "boxes"), ("berry", "berries"), ("toy", "toys"), ("peach", "peaches")]
    {
        assert_eq!(plural(one), many);
    }
    for (word, with) in
        [("apple", "an apple"), ("unicycle", "a unicycle"), ("umbrella", "an umbrella"), ("Ann", "an Ann")]
    {
        assert_eq!(a(word), with);
    }
    let numbers =
        [(0, "zero"), (14, "fourteen"), (40, "forty"), (57, "fifty-seven"), (108, "one hundred and eight")];
    for (number, word) in numbers {
        assert_eq!(in_words(number), word);
    }
}

#[test]
fn a_category_word_belongs_to_one_category() {
    let mut seen = HashSet::new();
    for category in categories() {
        assert!(category.members.len() >= 4, "{}", category.one());
        for member in &category.members {
            assert!(seen.insert(member), "{member} is listed twice");
        }
        if let Some(wider) = &category.within {
            let wider =
                categories().iter().find(|other| other.one() == wider).expect("a wider category exists");
            assert!(wider.overlaps(category) && category.overlaps(wider));
            assert!(category.members.iter().all(|member| wider.contains(member)));
        }
    }
    assert!(categories().len() >= 25);
}

#[test]
fn an_untidy_prompt_keeps_its_names_and_numbers() {
    let mut rng = Rng::new(3);
    let tidy = "Then Will finds 12 pens and Zorvik has 7. How many do they have together?";
    let mut changed = 0;
    for _ in 0..4000 {
        let text = untidy(&mut rng, tidy.into());
        for word in ["Will", "Zorvik", "12", "7", "pens"] {
            assert!(text.contains(word), "{text}");
        }
        changed += usize::from(text != tidy);
    }
    assert!((350..700).contains(&changed), "{changed}");
}

#[test]
fn a_marked_pattern_is_for_fresh_wording_alone() {
    let mut rng = Rng::new(4);
    let patterns = ["a", "b", "*c"];
    let drawn = |wording: Wording, rng: &mut Rng| -> HashSet<&str> {
        (0..100).map(|_| wording.pick(rng, &patterns)).collect()
    };
    assert_eq!(drawn(Wording::Usual, &mut rng), HashSet::from(["a", "b"]));
    assert_eq!(drawn(Wording::Fresh, &mut rng), HashSet::from(["a", "b", "c"]));
}

#[test]
fn everyday_words_are_many_different_and_never_fresh() {
    let mut rng = Rng::new(9);
    let mut seen = HashSet::new();
    for _ in 0..400 {
        let (words, _) = everyday(&mut rng, 40);
        let names = other_names(&mut rng, 40);
        for list in [words, names] {
            assert_eq!(list.len(), 40);
            assert_eq!(list.iter().collect::<HashSet<_>>().len(), 40, "{list:?}");
            seen.extend(list);
        }
    }
    assert!(seen.len() > 4000, "{} words", seen.len());
    let fresh: HashSet<String> = fresh_names().chain(fresh_nouns()).map(str::to_lowercase).collect();
    assert!(seen.iter().all(|word| !fresh.contains(&word.to_lowercase())));
}

#[test]
fn what_is_known_best_is_drawn_most_and_the_rest_at_times() {
    let mut rng = Rng::new(4);
    let fruit = categories().iter().find(|category| category.one() == "fruit").expect("there is fruit");
    let drawn: Vec<String> = (0..4000).map(|_| fruit.member(&mut rng).to_owned()).collect();
    let of = |words: &[String]| drawn.iter().filter(|word| words.contains(word)).count();
    let (head, tail) = fruit.members.split_at(fruit.members.len() / 4);
    // Uniform among the first k of n, k uniform: a quarter of the words gets 1/4 (1 + ln 4) of the draws.
    assert!((2250..2550).contains(&of(head)), "{}", of(head));
    assert!(tail.iter().all(|word| drawn.contains(word)));
    for count in [1, 5, fruit.members.len(), fruit.members.len() + 3] {
        let sample: HashSet<String> = fruit.sample(&mut rng, count).into_iter().collect();
        assert_eq!(sample.len(), count.min(fruit.members.len()));
    }
}

#[test]
fn familiar_names_and_nouns_are_a_few_dozen_of_the_usual_ones() {
    let mut rng = Rng::new(5);
    let names: HashSet<&str> = (0..5000).map(|_| familiar_name(&mut rng).text.as_str()).collect();
    let nouns: HashSet<&str> =
        (0..5000).map(|_| familiar_noun(&mut rng, &NounKind::ALL).one.as_str()).collect();
    assert!((40..120).contains(&names.len()), "{}", names.len());
    assert!((40..160).contains(&nouns.len()), "{}", nouns.len());
    let fresh: HashSet<&str> = fresh_names().chain(fresh_nouns()).collect();
    assert!(names.is_disjoint(&fresh) && nouns.is_disjoint(&fresh));
}

#[test]
fn any_words_are_thousands_different_the_same_in_every_run_and_never_fresh() {
    let mut rng = Rng::new(6);
    let drawn: Vec<String> = (0..500).flat_map(|_| any_words(&mut rng, 30)).collect();
    let seen: HashSet<&String> = drawn.iter().collect();
    assert!(seen.len() > 6000, "{} words", seen.len());
    assert!(drawn.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())));
    let fresh: HashSet<String> = fresh_names().chain(fresh_nouns()).map(str::to_lowercase).collect();
    assert!(seen.iter().all(|word| !fresh.contains(*word)));
    assert_eq!(any_words(&mut Rng::new(6), 30), drawn[..30]);
}
