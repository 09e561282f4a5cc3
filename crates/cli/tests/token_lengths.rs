//! The tasks and the tokenizer together: the only place that may import both.

use demask::eval::task::{Split, all, mixture, problems};
use demask::train::tokenizer;

const LONGEST_EXAMPLE: usize = 112;

/// What the chat template adds around a prompt and a response.
const TEMPLATE: usize = 6;

#[test]
fn examples_are_short_and_made_of_whole_words() {
    let texts =
        mixture(&[], Split::Train, 0).take(8000).flat_map(|problem| [problem.prompt, problem.response]);
    let tokenizer = tokenizer::train(texts, 2048).expect("the tasks' text is plain");
    let length = |text: &str| tokenizer.encode(text, false).expect("every text is encodable").len();
    let mut report = format!("vocabulary {}\n", tokenizer.get_vocab_size(true));
    for task in all() {
        let lengths: Vec<[usize; 2]> = problems(task.as_ref(), Split::Test, 1)
            .take(1000)
            .map(|problem| {
                for text in [&problem.prompt, &problem.response] {
                    assert!(length(text) <= words(text), "a word is split in {text:?}");
                }
                [length(&problem.prompt), length(&problem.response)]
            })
            .collect();
        let mean =
            |part: usize| lengths.iter().map(|pair| pair[part] as f64).sum::<f64>() / lengths.len() as f64;
        let most = |part: usize| lengths.iter().map(|pair| pair[part]).max().unwrap_or(0);
        let whole = lengths.iter().map(|pair| pair[0] + pair[1] + TEMPLATE).max().unwrap_or(0);
        assert!(whole <= LONGEST_EXAMPLE, "{}: {whole} tokens", task.name());
        report += &format!(
            "{:8} prompt mean {:.1} max {}, response mean {:.1} max {}, example max {whole}\n",
            task.name(),
            mean(0),
            most(0),
            mean(1),
            most(1)
        );
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
