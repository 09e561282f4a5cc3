//! Hub names, against a server of our own on loopback that speaks the Hub's paths.

#[path = "support/hub.rs"]
mod hub;

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use demask_model::checkpoint::Store;
use demask_model::checkpoint::source::{
    HubOptions, Progress, resolve, resolve_dataset, resolve_description, resolve_files, resolve_predictor,
};
use demask_model::checkpoint::synthetic::{self, Init};
use demask_model::checkpoint::write::Options;
use demask_model::checkpoint::{Dtype, INDEX};
use demask_model::text::Tokenizer;
use hub::{NAME, Server, etag};
use tempfile::TempDir;

/// The test fixture's text files with sharded weights.
fn repository() -> BTreeMap<String, Vec<u8>> {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/dream-toy");
    let mut files = BTreeMap::new();
    for name in ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"] {
        files.insert(name.to_owned(), fs::read(fixture.join(name)).unwrap());
    }
    files.insert("README.md".to_owned(), b"not needed".to_vec());
    files.insert("pytorch_model.bin".to_owned(), b"not wanted".to_vec());

    let folder = tempfile::tempdir().unwrap();
    let plan = ["a", "b", "c"].map(|name| synthetic::Tensor {
        name: name.to_owned(),
        shape: vec![40, 50],
        init: Init::Normal(1.0),
    });
    let options = Options { max_shard_bytes: 4000, ..Options::default() };
    synthetic::folder(folder.path(), &plan, Dtype::Bf16, 3, &options).unwrap();
    for entry in fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        files.insert(entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
    }
    files
}

fn options(server: &Server, home: &TempDir) -> HubOptions {
    HubOptions {
        home: home.path().to_path_buf(),
        endpoint: Some(server.address.clone()),
        token: None,
        offline: false,
        patience: HubOptions::PATIENCE,
    }
}

fn refusal(model: &str, options: &HubOptions) -> String {
    resolve(model, options, &mut ()).expect_err("must be refused").to_string()
}

/// The snapshot is the repository, as far as it is wanted.
fn assert_complete(folder: &Path, files: &BTreeMap<String, Vec<u8>>) {
    for (name, contents) in files {
        let wanted = name != "README.md" && name != "pytorch_model.bin";
        match fs::read(folder.join(name)) {
            Ok(found) => assert!(wanted && found == *contents, "{name}"),
            Err(_) => assert!(!wanted, "{name} is missing"),
        }
    }
    let store = Store::open(folder).unwrap();
    assert_eq!(store.names().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(Tokenizer::open(folder, 10_000).is_ok());
}

#[derive(Default)]
struct Recorder {
    files: BTreeMap<String, (u64, u64)>,
    current: String,
    finished: usize,
    warnings: Vec<String>,
    /// Stops once this many bytes of a file are there.
    patience: Option<u64>,
}

impl Progress for Recorder {
    fn begin(&mut self, file: &str, bytes: u64) {
        self.current = file.to_owned();
        self.files.insert(file.to_owned(), (bytes, 0));
    }
    fn advance(&mut self, bytes: u64) {
        self.files.get_mut(&self.current).unwrap().1 += bytes;
    }
    fn finish(&mut self) {
        self.finished += 1;
    }
    fn warn(&mut self, sentence: &str) {
        self.warnings.push(sentence.to_owned());
    }
    fn stopped(&mut self) -> bool {
        self.patience.is_some_and(|most| self.files.get(&self.current).is_some_and(|&(_, seen)| seen >= most))
    }
}

#[test]
fn a_name_is_downloaded_once_and_then_served_from_the_cache() {
    let (server, home) = (Server::start(repository()), tempfile::tempdir().unwrap());
    let mut options = options(&server, &home);
    let mut progress = Recorder::default();
    let folder = resolve(NAME, &options, &mut progress).unwrap();
    assert_complete(&folder, &repository());
    assert!(folder.ends_with("hub/models--Dream-org--Toy/snapshots/c0ffee01"), "{}", folder.display());
    let reference = home.path().join("hub/models--Dream-org--Toy/refs/main");
    assert_eq!(fs::read_to_string(reference).unwrap(), "c0ffee01");

    // config, generation_config, tokenizer, tokenizer_config, index, three shards
    assert_eq!((progress.files.len(), progress.finished), (8, 8));
    for (name, (promised, seen)) in &progress.files {
        assert_eq!((*promised, *seen), (repository()[name].len() as u64, *promised), "{name}");
    }
    let log = server.take_log();
    assert!(!log.iter().any(|line| line.contains("README") || line.contains("pytorch")), "{log:?}");

    let again = resolve(NAME, &options, &mut Recorder::default()).unwrap();
    assert_eq!(again, folder);
    assert_eq!(
        server.take_log(),
        [format!("GET /api/models/{NAME}/revision/main -")],
        "only the commit is asked for"
    );

    options.offline = true;
    assert_eq!(resolve(NAME, &options, &mut ()).unwrap(), folder);
    assert_eq!(resolve(&format!("{NAME}@c0ffee01"), &options, &mut ()).unwrap(), folder);
    assert_eq!(server.take_log(), [""; 0], "offline means no request at all");
    let missing = refusal("Dream-org/Other@v2", &options);
    assert!(
        missing.starts_with("Dream-org/Other@v2: it is not (or not completely) in the cache"),
        "{missing}"
    );
    assert!(missing.contains("HF_HUB_OFFLINE"), "{missing}");
}

#[test]
fn a_broken_cache_entry_is_completed() {
    let (server, home) = (Server::start(repository()), tempfile::tempdir().unwrap());
    let mut options = options(&server, &home);
    let folder = resolve(NAME, &options, &mut ()).unwrap();
    fs::remove_file(folder.join("model-00002-of-00003.safetensors")).unwrap();
    options.offline = true;
    assert!(refusal(NAME, &options).contains("not completely"));
    options.offline = false;
    assert_complete(&resolve(NAME, &options, &mut ()).unwrap(), &repository());
}

#[test]
fn a_branch_that_moved_is_followed() {
    let (server, home) = (Server::start(repository()), tempfile::tempdir().unwrap());
    let options = options(&server, &home);
    let old = resolve(NAME, &options, &mut ()).unwrap();
    let mut files = repository();
    files.insert("generation_config.json".to_owned(), b"{\"steps\": 9}".to_vec());
    server.push("main", "c0ffee02", files.clone());
    server.take_log();
    let new = resolve(NAME, &options, &mut ()).unwrap();
    assert_complete(&new, &files);
    assert_complete(&old, &repository());
    assert_eq!(resolve(&format!("{NAME}@c0ffee01"), &options, &mut ()).unwrap(), old);
    server.push("refs/pr/1", "c0ffee03", files.clone());
    assert_complete(&resolve(&format!("{NAME}@refs/pr/1"), &options, &mut ()).unwrap(), &files);
}

#[test]
fn without_a_network_the_cache_stands_in_with_a_warning() {
    let (server, home) = (Server::start(repository()), tempfile::tempdir().unwrap());
    let mut options = options(&server, &home);
    let folder = resolve(NAME, &options, &mut ()).unwrap();
    // A port nobody listens on: bound for a moment, so that it is free.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    options.endpoint = Some(format!("http://{closed}/"));
    let mut progress = Recorder::default();
    assert_eq!(resolve(NAME, &options, &mut progress).unwrap(), folder);
    assert!(progress.warnings[0].ends_with("using the copy in the cache"), "{:?}", progress.warnings);
    let error = refusal("Dream-org/Other", &options);
    assert!(error.contains("cannot be reached") && error.contains("check the network"), "{error}");

    options.endpoint = Some(server.address.clone());
    server.with(|hub| hub.status = Some(503));
    assert_eq!(resolve(NAME, &options, &mut ()).unwrap(), folder);
    let error = refusal("Dream-org/Other", &options);
    assert!(error.contains("HTTP status 503"), "{error}");

    for endpoint in ["nonsense", "ftp://x", "http://", ""] {
        options.endpoint = Some(endpoint.to_owned());
        assert!(refusal("Dream-org/Other", &options).starts_with("Dream-org/Other: "));
    }
}

#[test]
fn refusals_say_what_to_do() {
    let (server, home) = (Server::start(repository()), tempfile::tempdir().unwrap());
    let mut options = options(&server, &home);
    let error = refusal("Dream-org/Nothing", &options);
    assert!(
        error.contains("does not exist, is private, or is gated") && error.contains("HF_TOKEN"),
        "{error}"
    );
    let error = refusal(&format!("{NAME}@v9"), &options);
    assert!(
        error.starts_with(&format!("{NAME}@v9: ")) && error.contains("no such repository, revision"),
        "{error}"
    );

    server.with(|hub| hub.token = Some("secret".to_owned()));
    let error = refusal(NAME, &options);
    assert!(error.contains("HF_TOKEN"), "{error}");
    options.token = Some("secret".to_owned());
    assert_complete(&resolve(NAME, &options, &mut ()).unwrap(), &repository());
}

#[test]
fn the_login_of_the_home_folder_is_used() {
    let (server, home) = (Server::start(repository()), tempfile::tempdir().unwrap());
    server.with(|hub| hub.token = Some("from a login".to_owned()));
    fs::write(home.path().join("token"), "from a login\n").unwrap();
    assert_complete(&resolve(NAME, &options(&server, &home), &mut ()).unwrap(), &repository());
}

#[test]
fn a_repository_without_a_model_is_refused() {
    let without = |name: &str| {
        let mut files = repository();
        files.remove(name);
        let (server, home) = (Server::start(files), tempfile::tempdir().unwrap());
        refusal(NAME, &options(&server, &home))
    };
    assert!(without("config.json").ends_with("main of this repository has no config.json"));
    assert!(without(INDEX).ends_with("has no model.safetensors.index.json"));
    assert!(without("model-00003-of-00003.safetensors").ends_with("has no model-00003-of-00003.safetensors"));
}

#[test]
fn an_endpoint_without_listings_is_probed() {
    let (server, home) = (Server::start(repository()), tempfile::tempdir().unwrap());
    server.with(|hub| hub.unlisted = true);
    assert_complete(&resolve(NAME, &options(&server, &home), &mut ()).unwrap(), &repository());
}

#[test]
fn a_tokenizer_in_its_older_form_is_taken_too() {
    let mut files = repository();
    files.remove("tokenizer.json");
    files.insert("vocab.json".to_owned(), br#"{"a":0,"b":1,"ab":2}"#.to_vec());
    files.insert("merges.txt".to_owned(), b"#version: 0.2\na b\n".to_vec());
    files.insert("tokenizer_config.json".to_owned(), br#"{"tokenizer_class":"Qwen2Tokenizer"}"#.to_vec());
    let (server, home) = (Server::start(files.clone()), tempfile::tempdir().unwrap());
    let folder = resolve(NAME, &options(&server, &home), &mut ()).unwrap();
    assert_complete(&folder, &files);
    assert_eq!(Tokenizer::open(&folder, 3).unwrap().encode("abba").unwrap(), [2, 1, 0]);
}

#[test]
fn a_download_that_breaks_off_is_resumed() {
    let (server, home) = (Server::start(repository()), tempfile::tempdir().unwrap());
    server.with(|hub| hub.broken = 3);
    assert_complete(&resolve(NAME, &options(&server, &home), &mut ()).unwrap(), &repository());
    let resumed = |line: &String| line.split("bytes=").nth(1).is_some_and(|range| !range.starts_with('0'));
    assert!(server.take_log().iter().any(resumed), "the second request must start where the first broke off");

    let home = tempfile::tempdir().unwrap();
    server.with(|hub| hub.broken = 1000);
    let error = refusal(NAME, &options(&server, &home));
    assert!(error.contains("run the command again to resume it"), "{error}");
    server.with(|hub| hub.broken = 0);
    assert_complete(&resolve(NAME, &options(&server, &home), &mut ()).unwrap(), &repository());
}

#[test]
fn a_download_that_is_stopped_ends_at_once_and_is_continued() {
    let (server, home) = (Server::start(repository()), tempfile::tempdir().unwrap());
    server.with(|hub| hub.pieces = Some((10, Duration::from_millis(100))));
    let mut hasty = Recorder { patience: Some(1), ..Recorder::default() };
    let error = resolve(NAME, &options(&server, &home), &mut hasty).expect_err("stopped").to_string();
    assert!(error.contains("the download was stopped; the same call continues it"), "{error}");
    assert!(!server.take_log().iter().any(|line| line.contains("safetensors")), "nothing more is asked for");
    // Before any byte of a server that says nothing, too.
    server.with(|hub| hub.silent = Some("/api/models"));
    let mut never = Recorder { patience: Some(0), ..Recorder::default() };
    never.files.insert(String::new(), (0, 0));
    let start = Instant::now();
    assert!(resolve(NAME, &options(&server, &home), &mut never).is_err());
    assert!(start.elapsed() < HubOptions::PATIENCE / 2, "{:?}", start.elapsed());

    server.with(|hub| (hub.pieces, hub.silent) = (None, None));
    assert_complete(&resolve(NAME, &options(&server, &home), &mut ()).unwrap(), &repository());
}

#[test]
fn a_server_that_falls_silent_is_given_up() {
    let server = Server::start(repository());
    for silent in ["/api/models", "tokenizer.json", "safetensors"] {
        server.with(|hub| hub.silent = Some(silent));
        let home = tempfile::tempdir().unwrap();
        let hasty = HubOptions { patience: Duration::from_millis(200), ..options(&server, &home) };
        let error = refusal(NAME, &hasty);
        assert!(error.contains("has sent nothing for 0.2 s"), "{silent}: {error}");
    }
    // A copy in the cache stands in.
    server.with(|hub| hub.silent = None);
    let home = tempfile::tempdir().unwrap();
    let hasty = HubOptions { patience: Duration::from_millis(200), ..options(&server, &home) };
    let folder = resolve(NAME, &options(&server, &home), &mut ()).unwrap();
    server.with(|hub| hub.silent = Some("/"));
    assert_eq!(resolve(NAME, &hasty, &mut ()).unwrap(), folder);
}

#[test]
fn a_slow_download_is_not_a_silent_one() {
    let (server, home) = (Server::start(repository()), tempfile::tempdir().unwrap());
    let (patience, start) = (Duration::from_secs(2), Instant::now());
    server.with(|hub| hub.pieces = Some((6, Duration::from_millis(60))));
    let patient = HubOptions { patience, ..options(&server, &home) };
    assert_complete(&resolve(NAME, &patient, &mut ()).unwrap(), &repository());
    assert!(start.elapsed() > patience, "all of it together took longer than silence may");
}

/// Where a partial download of this file lies.
fn part_of(home: &TempDir, file: &[u8]) -> PathBuf {
    let blobs = home.path().join("hub/models--Dream-org--Toy/blobs");
    fs::create_dir_all(&blobs).unwrap();
    blobs.join(format!("{}.part", etag(file)))
}

#[test]
fn partial_downloads_that_cannot_be_continued_are_started_again() {
    let files = repository();
    let config = &files["config.json"];
    for (ignores_ranges, part) in [
        // complete but not renamed; longer than the file; half of it, from a server that then ignores ranges
        (false, config.clone()),
        (false, [&config[..], b"more"].concat()),
        (true, config[..config.len() / 2].to_vec()),
    ] {
        let (server, home) = (Server::start(files.clone()), tempfile::tempdir().unwrap());
        server.with(|hub| hub.ignores_ranges = ignores_ranges);
        fs::write(part_of(&home, config), part).unwrap();
        assert_complete(&resolve(NAME, &options(&server, &home), &mut ()).unwrap(), &files);
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let (server, home) = (Server::start(repository()), tempfile::tempdir().unwrap());
    fs::write(home.path().join("hub"), "a file where a folder should be").unwrap();
    let error = refusal(NAME, &options(&server, &home));
    assert!(
        error.contains("the cache") && error.contains("cannot be written") && error.contains("HF_HOME"),
        "{error}"
    );
}

#[test]
fn a_description_is_fetched_without_weights_and_completed_later() {
    let mut files = repository();
    files.insert("predictor.safetensors".to_owned(), b"weights too".to_vec());
    let (server, home) = (Server::start(files.clone()), tempfile::tempdir().unwrap());
    let online = options(&server, &home);
    let folder = resolve_description(NAME, &online, &mut ()).unwrap();
    for (name, contents) in &files {
        let wanted = name.ends_with(".json") && !name.contains("index");
        assert_eq!(fs::read(folder.join(name)).ok(), wanted.then(|| contents.clone()), "{name}");
    }
    assert!(server.take_log().iter().all(|line| !line.contains("safetensors")));
    let offline = HubOptions { offline: true, ..online.clone() };
    assert_eq!(resolve_description(NAME, &offline, &mut ()).unwrap(), folder);
    assert!(refusal(NAME, &offline).contains("not completely"));
    assert_eq!(resolve(NAME, &online, &mut ()).unwrap(), folder);
    assert_complete(&folder, &files);
}

#[test]
fn a_dataset_is_fetched_with_its_training_files_only() {
    let file = |name: &str| (name.to_owned(), format!("contents of {name}").into_bytes());
    let files =
        ["README.md", "data/train-00000.parquet", "data/train-00001.parquet", "data/test-00000.parquet"];
    let (server, home) = (Server::start(files.map(file).into()), tempfile::tempdir().unwrap());
    let folder = resolve_dataset(NAME, &options(&server, &home), &mut ()).unwrap();
    for name in files {
        let wanted = name.contains("train");
        assert_eq!(fs::read(folder.join(name)).ok(), wanted.then(|| file(name).1), "{name}");
    }
    server.take_log();
    let offline = HubOptions { offline: true, ..options(&server, &home) };
    assert_eq!(resolve_dataset(NAME, &offline, &mut ()).unwrap(), folder);
    assert!(server.take_log().is_empty());

    let empty = Server::start(["README.md"].map(file).into());
    let home = tempfile::tempdir().unwrap();
    let error = resolve_dataset(NAME, &options(&empty, &home), &mut ()).unwrap_err().to_string();
    assert!(error.contains("no .parquet or .jsonl file"), "{error}");
}

#[test]
fn of_a_dataset_only_the_wanted_files_are_fetched() {
    let file = |name: &str| (name.to_owned(), format!("contents of {name}").into_bytes());
    let files = [
        "README.md",
        "main/train-0.parquet",
        "main/test-0.parquet",
        "socratic/test-0.parquet",
        "main/notes.txt",
    ];
    let (server, home) = (Server::start(files.map(file).into()), tempfile::tempdir().unwrap());
    let wanted = |file: &str| file.starts_with("main/");
    let folder = resolve_files(NAME, &wanted, &options(&server, &home), &mut ()).unwrap();
    for name in files {
        let expected = (name.starts_with("main/") && name.ends_with("parquet")).then(|| file(name).1);
        assert_eq!(fs::read(folder.join(name)).ok(), expected, "{name}");
    }
    let offline = HubOptions { offline: true, ..options(&server, &home) };
    assert_eq!(resolve_files(NAME, &wanted, &offline, &mut ()).unwrap(), folder);
    let other = |file: &str| file.starts_with("socratic/");
    let error = resolve_files(NAME, &other, &offline, &mut ()).unwrap_err().to_string();
    assert!(error.contains("HF_HUB_OFFLINE"), "{error}");
}

#[test]
fn a_predictor_of_its_own_repository_is_fetched_under_any_name() {
    let file = |name: &str| (name.to_owned(), format!("contents of {name}").into_bytes());
    // What a repository holds, and which of it a predictor is looked for in.
    let cases: [(&[&str], &[&str]); 4] = [
        (
            &["README.md", "predictor.safetensors", "predictor.json"],
            &["predictor.safetensors", "predictor.json"],
        ),
        (&["config.json", "model.safetensors"], &["model.safetensors"]),
        (&["model.safetensors", "dependency_head.safetensors"], &["dependency_head.safetensors"]),
        (&["README.md"], &[]),
    ];
    for (files, wanted) in cases {
        let files: BTreeMap<_, _> = files.iter().map(|name| file(name)).collect();
        let (server, home) = (Server::start(files.clone()), tempfile::tempdir().unwrap());
        let online = options(&server, &home);
        match resolve_predictor(Path::new(NAME), &online, &mut ()) {
            Err(error) => {
                assert!(wanted.is_empty() && error.to_string().contains("no .safetensors"), "{error}")
            }
            Ok(folder) => {
                for name in files.keys() {
                    assert_eq!(folder.join(name).exists(), wanted.contains(&name.as_str()), "{name}");
                }
                let offline = HubOptions { offline: true, ..online };
                assert_eq!(resolve_predictor(Path::new(NAME), &offline, &mut ()).unwrap(), folder);
            }
        }
    }
}

#[test]
fn a_model_brings_its_predictor_along_whatever_its_name() {
    let mut files = repository();
    let taken = [
        "row_predictor.safetensors",
        "row_predictor.json",
        "learned-for-the-toy.safetensors",
        "learned-for-the-toy.json",
        "predictor.json",
    ];
    let left = [
        "consolidated.safetensors",
        "fp32/model.safetensors",
        "model.fp16-00001-of-00002.safetensors",
        "a.json",
    ];
    for name in taken.iter().chain(&left) {
        files.insert((*name).to_owned(), format!("contents of {name}").into_bytes());
    }
    let (server, home) = (Server::start(files.clone()), tempfile::tempdir().unwrap());
    // All weights once more, in one file.
    server.with(|hub| hub.heavy = Some(etag(&files["consolidated.safetensors"])));
    let folder = resolve(NAME, &options(&server, &home), &mut ()).unwrap();
    for name in taken {
        assert!(folder.join(name).exists(), "{name} is missing");
    }
    for name in left {
        assert!(!folder.join(name).exists(), "{name} is not wanted");
    }
}
