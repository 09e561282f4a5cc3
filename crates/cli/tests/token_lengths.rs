//! The tasks and the tokenizer together: the only place that may import both.

use demask::eval::task::{Split, all, mixture, problems};
use demask::train::tokenizer;

/// The longest response the embedded model is trained to write, with its end of sequence.
const LONGEST_RESPONSE: usize = 128;
/// Room that fresh names may take beyond it: they are cut into more tokens than any in training.
const FRESH_ROOM: usize = 16;
/// What its positions leave for prompt and response together.
const LONGEST_EXAMPLE: usize = 384;
/// Made-up and fresh words are split (a fifth of all names are made up), the others are whole.
const TOKENS_PER_WORD: f64 = 1.4;
/// In lists everyday words by the thousand are split as well: copying them piece by piece is what they teach.
const TOKENS_PER_LISTED_WORD: f64 = 1.7;

/// What the chat template adds around a prompt and a response.
const TEMPLATE: usize = 6;

#[test]
fn examples_are_short_and_made_of_whole_words() {
    let texts =
        mixture(&[], Split::Train, 0).take(8000).flat_map(|problem| [problem.prompt, problem.response]);
    let tokenizer = tokenizer::train(texts, 3072, 1024).expect("the tasks' text is plain");
    let length = |text: &str| tokenizer.encode(text, false).expect("every text is encodable").len();
    for number in 0..=199 {
        assert_eq!(length(&format!(" {number}")), 1, "{number} is split");
    }
    let mut report = format!("vocabulary {}\n", tokenizer.get_vocab_size(true));
    for (task, split) in all().iter().flat_map(|task| [(task, Split::Test), (task, Split::Fresh)]) {
        let (mut most, mut tokens, mut words_in_all) = ([0; 3], 0, 0);
        for problem in problems(task.as_ref(), split, 1).take(500) {
            let [prompt, response] = [&problem.prompt, &problem.response].map(|text| length(text));
            let counts = [prompt, response + 1, prompt + response + TEMPLATE];
            most = std::array::from_fn(|i| most[i].max(counts[i]));
            tokens += prompt + response;
            words_in_all += words(&problem.prompt) + words(&problem.response);
        }
        let ratio = tokens as f64 / words_in_all as f64;
        report += &format!(
            "{:8} {split:?}: prompt at most {}, response {}, both {}; {ratio:.2} tokens a word\n",
            task.name(),
            most[0],
            most[1],
            most[2]
        );
        let room = if split == Split::Fresh { FRESH_ROOM } else { 0 };
        assert!(most[1] <= LONGEST_RESPONSE + room && most[2] <= LONGEST_EXAMPLE, "{report}");
        // Fresh words are split by intent.
        let limit = if task.name() == "lines" { TOKENS_PER_LISTED_WORD } else { TOKENS_PER_WORD };
        assert!(split == Split::Fresh || ratio < limit, "{report}");
    }
    // Shown with `--nocapture`, and whenever the test fails.
    eprint!("{report}");
}

/// Words, numbers, signs and line breaks of a text: the most tokens it may take if none of them is split.
fn words(text: &str) -> usize {
    let mut count = 0;
    let mut inside = false;
    for c in text.chars() {
        let part = c.is_alphanumeric();
        let continues = part && inside;
        count += usize::from(!c.is_whitespace() && !continues) + usize::from(c == '\n');
        inside = part;
    }
    count
}
