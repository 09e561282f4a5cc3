//! `demask serve` as a process, `demask chat --url` against it, and the problems it is asked.

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use support::{Folder, PROMPT, demask, demask_with, fixture};

const ANSWER: &str = "7 + 19 = 28 . so eva has 28 shells .";

/// A server on a free port, ended when dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(model: &str, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_demask"))
            .args(["serve", "--port", "0", "--model", model, "--strategy", "entropy"])
            .args(more)
            .env("HF_HUB_OFFLINE", "1")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).expect(&line);
        Self { url: url.trim_end_matches('/').to_owned(), child }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_chat_with_a_server_is_the_chat_with_its_model() {
    let server = Server::start(&fixture(), &[]);
    let input = format!("{PROMPT}\n/strategy top1:k=2\n{PROMPT}\n/strategy nonsense\n/history\n");
    let local = demask_with(&["chat", "--model", &fixture(), "-n", "40"], &input);
    let remote = demask_with(&["chat", "--url", &server.url, "-n", "40"], &input);
    assert_eq!(local.code, 0, "{}", local.err);
    assert_eq!((remote.code, &remote.out), (0, &local.out), "{}", remote.err);
    assert!(local.out.starts_with(ANSWER), "{}", local.out);
    assert!(remote.err.contains("nonsense"), "{}", remote.err);
}

#[test]
fn a_chat_goes_through_the_servers_template_and_key() {
    let folder = Folder::copy_of(&fixture());
    let config = String::from_utf8(folder.read("tokenizer_config.json")).unwrap();
    let template = "{% for m in messages %}{{ m.content }} {% endfor %}<sep>";
    folder.write(
        "tokenizer_config.json",
        config.replacen('{', &format!("{{\"chat_template\": \"{template}\", "), 1).as_bytes(),
    );
    let server = Server::start(&folder.root(), &["--api-key", "hush"]);
    let question = PROMPT.strip_suffix(" <sep>").unwrap();
    let ask = |more: &[&str]| {
        let args = [&["chat", "--url", &server.url, "-n", "40", "--stats"], more].concat();
        demask_with(&args, &format!("{question}\n"))
    };
    let answered = ask(&["--api-key", "hush"]);
    assert_eq!((answered.code, answered.out.trim()), (0, ANSWER), "{}", answered.err);
    let told = answered.err.trim();
    assert!(told.contains(" steps, ") && told.ends_with("forward passes") && !told.contains('"'), "{told}");
    let locked = ask(&["--api-key", "wrong"]);
    assert_eq!(locked.code, 1);
    assert!(locked.err.contains("401") && !locked.err.contains("hush"), "{}", locked.err);
}

#[test]
fn wrong_addresses_are_one_sentence() {
    for (url, code, word) in
        [("http://127.0.0.1:9", 1, "cannot reach"), ("ftp://x", 2, "http://"), ("127.0.0.1:80", 2, "http://")]
    {
        let run = demask(&["chat", "--url", url]);
        assert_eq!(run.code, code, "{url}: {}", run.err);
        assert!(run.err.contains(word), "{url}: {}", run.err);
    }
    assert_eq!(demask(&["chat", "--url", "http://127.0.0.1:9", "--watch"]).code, 2);
    assert_eq!(demask(&["chat", "--url", "http://127.0.0.1:9", "--model", "x"]).code, 2);
}

#[test]
fn problems_come_in_gsm8ks_format() {
    let run = demask(&["problems", "arith", "--limit", "20", "--format", "gsm8k"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let lines: Vec<serde_json::Value> = run.out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len(), 20);
    for line in &lines {
        let (worked, number) = line["answer"].as_str().unwrap().split_once("\n#### ").unwrap();
        assert!(worked.contains(number), "{line}");
        assert!(!line["question"].as_str().unwrap().is_empty(), "{line}");
    }
    assert_eq!(demask(&["problems", "arith", "--limit", "20", "--format", "gsm8k"]).out, run.out);
    assert_eq!(demask(&["problems", "lines", "--format", "gsm8k"]).code, 2);
    assert_eq!(demask(&["problems", "absent"]).code, 2);
    assert_eq!(demask(&["problems", "grid", "--limit", "2", "--split", "train"]).out.lines().count(), 2);
}
