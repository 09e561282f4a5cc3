//! Rows of every layout, and rows that are refused.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use demask_model::text::{ChatTemplate, Tokenizer, TokenizerSettings};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::*;

fn pair(prompt: &str, response: &str) -> Content {
    Content::Pair { prompt: prompt.into(), response: response.into() }
}

#[test]
fn lines_are_read_by_number_and_bad_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.jsonl");
    let text = "{\"id\":\"a\",\"prompt\":\"p\",\"response\":\"r\"}\n\nnot json\n{\"prompt\":\"q\",\"response\":\"s\"}\n{}\n\
                {\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":\"v\"}]}";
    std::fs::write(&path, text).unwrap();
    let records = open(&path).unwrap();
    assert_eq!(records.len(), 5);
    let rows = records.read(0..5).unwrap();
    assert_eq!(rows[0].as_ref().unwrap(), &Record { id: "a".into(), content: pair("p", "r") });
    assert!(rows[1].as_ref().unwrap_err().why.contains("JSON"));
    assert_eq!(rows[2].as_ref().unwrap(), &Record { id: "2".into(), content: pair("q", "s") });
    assert_eq!(rows[3].as_ref().unwrap_err().row, 3);
    assert!(matches!(&rows[4].as_ref().unwrap().content, Content::Messages(m) if m.len() == 2));
    assert_eq!(records.read(2..3).unwrap(), rows[2..3]);
    let before = records.identity();
    std::fs::write(&path, text.replace('q', "Q")).unwrap();
    assert_ne!(open(&path).unwrap().identity(), before);
}

/// Rows of a question and an answer each, two to a row group, laid out as pyarrow does.
fn write_messages(path: &Path, turns: &[(&str, &str)]) {
    let schema =
        "message schema { optional group messages (LIST) { repeated group list { optional group element {
        optional binary content (UTF8); optional binary role (UTF8); } } } }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer =
        SerializedFileWriter::new(File::create(path).unwrap(), schema, Default::default()).unwrap();
    for rows in turns.chunks(2) {
        let texts = rows.iter().flat_map(|(question, answer)| [*question, *answer]);
        let roles = rows.iter().flat_map(|_| ["user", "assistant"]);
        let mut group = writer.next_row_group().unwrap();
        for values in [texts.collect::<Vec<_>>(), roles.collect()] {
            let values: Vec<ByteArray> = values.into_iter().map(ByteArray::from).collect();
            let repeated: Vec<i16> = [0, 1].repeat(rows.len());
            let mut column = group.next_column().unwrap().unwrap();
            let defined = vec![4; values.len()];
            column.typed::<ByteArrayType>().write_batch(&values, Some(&defined), Some(&repeated)).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
}

#[test]
fn parquet_rows_are_read_across_row_groups_and_files() {
    let folder = tempfile::tempdir().unwrap();
    write_messages(&folder.path().join("b.parquet"), &[("q5", "a5")]);
    let first = [("q0", "a0"), ("q1", "a1"), ("q2", "a2"), ("q3", "a3"), ("q4", "a4")];
    write_messages(&folder.path().join("a.parquet"), &first);
    let records = open(folder.path()).unwrap();
    assert_eq!(records.len(), 6);
    let answers: Vec<String> = records
        .read(1..6)
        .unwrap()
        .into_iter()
        .map(|row| match row.unwrap().content {
            Content::Messages(messages) => messages[1].text().unwrap().to_owned(),
            Content::Pair { .. } => panic!("the file has messages"),
        })
        .collect();
    assert_eq!(answers, ["a1", "a2", "a3", "a4", "a5"]);
}

#[test]
fn files_of_another_kind_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("data.txt");
    std::fs::write(&text, "x").unwrap();
    let parquet = folder.path().join("data.parquet");
    std::fs::write(&parquet, "not parquet").unwrap();
    for path in [text, parquet, folder.path().join("absent.jsonl")] {
        let error = open(&path).err().unwrap().to_string();
        assert!(error.contains(path.file_name().unwrap().to_str().unwrap()), "{error}");
    }
}

#[test]
fn the_template_ends_the_prompt_where_the_answer_begins() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/dream-toy");
    let tokenizer = Tokenizer::open(&folder, 258).unwrap();
    let template = r#"{"chat_template": "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }} <sep> {% else %}{{ m.content }} <eos>{% endif %}{% endfor %}"}"#;
    let settings = TokenizerSettings::from_bytes("inline", template.as_bytes()).unwrap();
    let template = ChatTemplate::from_settings(&settings).unwrap();
    let turns = Content::Messages(vec![Message::new("user", "a b"), Message::new("assistant", "c")]);
    let encoder = Encoder::new(tokenizer.clone(), template);
    assert_eq!(encoder.text(&turns).unwrap(), ("a b <sep> ".to_owned(), "c <eos>".to_owned()));
    assert_eq!(encoder.text(&pair("a b", "c")).unwrap().1, "c <eos>");
    let open = encoder.with_end_of_turn(false);
    assert_eq!(open.text(&turns).unwrap(), ("a b <sep> ".to_owned(), "c".to_owned()));
    let plain = Encoder::new(tokenizer, None);
    assert_eq!(plain.text(&pair("a", "c")).unwrap(), ("a".to_owned(), "c".to_owned()));
    assert!(plain.encode(&pair("a", "  ")).unwrap_err().contains("empty response"));
    assert!(plain.encode(&Content::Messages(vec![Message::new("assistant", "c")])).is_err());
}
