//! What a stranger's file, a second process or a crowd of clients can do to the program: get a sentence.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use support::{Folder, PROMPT, demask, fixture, signal, wait_for};

/// After this much time something is not slow but hangs.
const HANGS: Duration = Duration::from_secs(300);

/// The toy with a chat template.
fn with_template(template: &str) -> Folder {
    let folder = Folder::copy_of(&fixture());
    folder.write("chat_template.jinja", template.as_bytes());
    folder
}

#[test]
fn template_bombs_are_one_sentence() {
    let doubled = |start: &str, step: &str| {
        let lines: String = (0..60).map(|_| format!("{{% set x = {step} %}}")).collect();
        format!("{{% set x = {start} %}}{lines}{{{{ x }}}}")
    };
    for (name, template) in [
        ("deep not", format!("{{{{ {} true }}}}", "not ".repeat(100_000))),
        ("deep brackets", format!("{{{{ {}1{} }}}}", "(".repeat(50_000), ")".repeat(50_000))),
        ("wide indent", "{{ 'x'|indent(99999999999) }}".to_owned()),
        ("list doubled", doubled("[1]", "x + x")),
        ("list doubled and counted", doubled("[1]", "x + x").replace("{{ x }}", "{{ x|length }}")),
        ("text doubled", doubled("'xxxxxxxxxxxxxxxx'", "x ~ x")),
        ("long date", "{{ strftime_now('%s'*1000000) }}".to_owned()),
        (
            "replaced",
            "{% set x = 'a' * 90000 %}{% set y = x|replace('a', x) %}{{ y|replace('a', x) }}".to_owned(),
        ),
        ("formatted", "{{ '%999999999999d'|format(1) }}".to_owned()),
        (
            "endless",
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}".to_owned(),
        ),
        ("recursive", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".to_owned()),
    ] {
        let folder = with_template(&template);
        let run = demask(&["generate", "--model", &folder.root(), "-n", "4", "-s", "entropy", "hello"]);
        assert_eq!(run.code, 1, "{name}: {} {}", run.out, run.err);
        assert!(run.err.contains("chat template") && run.err.lines().count() == 1, "{name}: {}", run.err);
    }
    // An ordinary one goes through the same process.
    let folder = with_template("{% for m in messages %}{{ m.content }} {% endfor %}<sep>");
    let plain = PROMPT.strip_suffix(" <sep>").unwrap();
    let run = demask(&["generate", "--model", &folder.root(), "-n", "40", "-s", "entropy", plain]);
    assert_eq!((run.code, run.out.trim()), (0, "7 + 19 = 28 . so eva has 28 shells ."), "{}", run.err);
}

#[test]
fn fifos_and_devices_are_refused_by_name() {
    for file in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        let folder = Folder::copy_of(&fixture());
        fs::remove_file(folder.path(file)).unwrap();
        assert!(Command::new("mkfifo").arg(folder.path(file)).status().unwrap().success());
        let mut child = Command::new(env!("CARGO_BIN_EXE_demask"))
            .args(["generate", "--model", &folder.root(), "--raw", "-n", "4", "-s", "entropy", PROMPT])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() && start.elapsed() < HANGS {
            thread::sleep(Duration::from_millis(20));
        }
        let hung = child.try_wait().unwrap().is_none();
        child.kill().unwrap_or_default();
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!hung, "{file}: it waits for a writer");
        assert!(output.status.code() == Some(1) && err.contains(file), "{file}: {err}");
    }
}

/// Everything up to the last end of a line.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1)]
}

#[test]
fn a_second_evaluation_of_a_folder_is_refused_and_nothing_is_lost() {
    let folder = Folder::new();
    let out = folder.path("run");
    let call = |limit: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_demask"));
        command.args(["eval", "--model", &fixture(), "-s", "entropy", "--tasks", "arith", "-n", "24"]);
        command.args(["--limit", limit, "--out", &out]).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    // So many problems that it cannot be over, and held up, so that the others find it alive however fast they are.
    let mut long = call("3000").spawn().unwrap();
    let records = Path::new(&out).join("records.jsonl");
    let lines = || fs::read_to_string(&records).unwrap_or_default().lines().count();
    wait_for(&mut long, "the first records", || lines() > 3);
    signal("STOP", long.id());
    for _ in 0..7 {
        let short = call("1").output().unwrap();
        let err = String::from_utf8_lossy(&short.stderr);
        assert!(!short.status.success(), "a second writer was let in");
        assert!(err.contains(&format!("process {}", long.id())), "{err}");
    }
    let seen = lines();
    signal("CONT", long.id());
    wait_for(&mut long, "records after the refusals", || lines() > seen);
    long.kill().unwrap();
    long.wait().unwrap();
    // The same command goes on: what was there stays, line by line, and what is missing is added once.
    let kept = whole_lines(&fs::read(&records).unwrap()).to_vec();
    let count = kept.iter().filter(|&&byte| byte == b'\n').count() - 1;
    let more = (count + 3).to_string();
    for _ in 0..2 {
        assert!(call(&more).output().unwrap().status.success());
        assert!(fs::read(&records).unwrap().starts_with(&kept));
        assert_eq!(lines(), 1 + count + 3);
    }
    // A line torn inside a character is cut off, and made again.
    let whole = fs::read(&records).unwrap();
    fs::write(&records, [&whole[..], b"{\"x\":\"\xc3"].concat()).unwrap();
    assert!(call(&more).output().unwrap().status.success());
    assert_eq!(fs::read(&records).unwrap(), whole);
}

#[test]
fn a_checkpoint_cut_short_while_it_is_used_is_a_sentence() {
    let folder = Folder::copy_of(&fixture());
    let weights = folder.path("model.safetensors");
    let mut server = Server::start(&["--model", &folder.root(), "--strategy", "entropy"]);
    let body = json!({ "prompt": PROMPT, "max_tokens": 8 }).to_string();
    assert!(server.post("/v1/completions", &body).contains("200 OK"));
    fs::OpenOptions::new().write(true).open(&weights).unwrap().set_len(4096).unwrap();
    let answer = server.post("/v1/completions", &body);
    // Either the change was seen in time, or the reading of what is gone ended the server with a sentence.
    if answer.contains("HTTP/1.1") {
        assert!(answer.contains("500"), "{answer}");
    } else {
        let status = server.child.wait().unwrap();
        let mut err = String::new();
        server.errors.read_to_string(&mut err).unwrap();
        assert!(
            status.code() == Some(1) && err.contains("model.safetensors") && err.contains("cut short"),
            "{err}"
        );
    }
}

#[test]
fn an_empty_key_is_a_mistake() {
    for key in ["", "  "] {
        let run = demask(&["serve", "--port", "0", "--model", &fixture(), "--api-key", key]);
        assert_eq!(run.code, 2, "{}", run.err);
        assert!(run.err.contains("API key is empty"), "{}", run.err);
    }
    assert_eq!(demask(&["serve", "--port", "0", "--allow-origin", "evil.example"]).code, 2);
}

/// A server on a free port.
struct Server {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
    address: String,
}

impl Server {
    fn start(more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_demask"))
            .args(["serve", "--port", "0"])
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).expect(&line);
        let address = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Self { child, errors, address }
    }

    fn post(&self, path: &str, body: &str) -> String {
        let mut socket = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            self.address,
            body.len()
        );
        let _ = socket.write_all(format!("{head}{body}").as_bytes());
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Resident memory now and at its peak, in MiB.
    fn memory(&self) -> (u64, u64) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
        };
        (field("VmRSS:"), field("VmHWM:"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn sixteen_large_bodies_at_once_take_little_memory_and_give_it_back() {
    // One token per byte, the dearest tokenizer, and a context so large that the length is no reason to refuse.
    let folder = Folder::new();
    let config = json!({
        "model_type": "Dream", "vocab_size": 300, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 2_000_000, "rms_norm_eps": 1e-6,
        "rope_theta": 1e6, "tie_word_embeddings": false, "mask_token_id": 299, "eos_token_id": 298,
        "pad_token_id": 298, "bos_token_id": 298,
    });
    let (config, model) = (folder.write("shape.json", config.to_string().as_bytes()), folder.path("model"));
    let made = demask(&["synthesize", &model, "--config", &config, "--dtype", "f32"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let server = Server::start(&["--model", &model, "--strategy", "entropy"]);
    let text = "The quick brown fox jumps over the lazy dog, 12 times. ".repeat(19_000);
    let body = json!({ "text": text }).to_string();
    assert!(body.len() < 1 << 20);
    server.post("/v1/tokenize", &json!({ "text": "warm" }).to_string());
    let (before, _) = server.memory();
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let answer = server.post("/v1/tokenize", &body);
                assert!(answer.contains("200 OK"), "{}", &answer[..answer.len().min(300)]);
            });
        }
    });
    let (_, peak) = server.memory();
    let (start, mut after) = (Instant::now(), u64::MAX);
    while after >= before + 150 && start.elapsed() < HANGS {
        thread::sleep(Duration::from_millis(200));
        after = server.memory().0;
    }
    eprintln!("resident: {before} MiB before, {peak} at the peak, {after} after");
    assert!(peak < before + 900, "{before} MiB before, {peak} at the peak");
    assert!(after < before + 150, "{before} MiB before, {after} after");
}

#[test]
fn an_evaluation_goes_on_with_the_same_model_and_settings_only() {
    let model = Folder::copy_of(&fixture());
    let out = model.path("run");
    let eval = |more: &[&str]| {
        let call = [
            "eval",
            "--model",
            &model.root(),
            "-s",
            "entropy",
            "--tasks",
            "arith",
            "--limit",
            "2",
            "-n",
            "12",
        ];
        demask(&[&call[..], &["--out", &out], more].concat())
    };
    assert_eq!(eval(&[]).code, 0);
    assert_eq!(eval(&[]).code, 0);
    for (more, named) in [
        (&["--hold-eos", "logits"][..], "hold_eos"),
        (&["--dtype", "bf16"], "precision"),
        (&["--dtype", "int8"], "precision"),
        (&["--temperature", "0.7"], "sampling"),
        (&["--sampler", "gumbel", "--temperature", "0.7"], "sampling"),
        (&["--block-length", "4"], "block_length"),
        (&["--cache", "prefix", "--block-length", "4"], "cache"),
        (&["--eos", "none"], "eos"),
        (&["--cfg", "1"], "guidance"),
        (&["--eos-penalty", "1"], "eos_penalty"),
        (&["--min-new-tokens", "2"], "min_new_tokens"),
        (&["--seed", "5"], "seed"),
    ] {
        let run = eval(more);
        assert!(
            run.code != 0 && run.err.contains(&format!("{named} is")),
            "{more:?}: {} {}",
            run.code,
            run.err
        );
    }
    // Another model whose final norm is the same: one matrix of one layer is zero.
    let mut bytes = model.read("model.safetensors");
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let up = header.as_object().unwrap().keys().find(|name| name.contains("up_proj")).unwrap();
    let place = |i: usize| 8 + length + header[up]["data_offsets"][i].as_u64().unwrap() as usize;
    bytes[place(0)..place(1)].fill(0);
    model.write("model.safetensors", &bytes);
    let run = eval(&[]);
    assert!(run.code == 1 && run.err.contains("backbone is"), "{} {}", run.code, run.err);
}
