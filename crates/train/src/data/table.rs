//! Parquet by row number, as the Hub ships datasets.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use demask_model::text::Message;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};

use super::{Content, HASH, Record, Records, Refused, hash};
use crate::error::{Error, Result};

/// Bytes at the end of the file that tell it from another: the footer with its offsets and statistics.
const FOOTER: u64 = 1 << 16;

/// A parquet file with `messages`, or with `prompt` and `response`.
pub(super) struct Table {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
    rows: usize,
    hash: u64,
}

impl Table {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let mut file = File::open(path).map_err(Error::read(path))?;
        let bad = |problem: String| Error::Data { path: path.to_owned(), problem };
        let metadata = ArrowReaderMetadata::load(&file, Default::default())
            .map_err(|cause| bad(format!("is not a readable parquet file ({cause})")))?;
        let has = |name: &str| metadata.schema().column_with_name(name).is_some();
        let has_pair = has("prompt") && has("response");
        if !has("messages") && !has_pair {
            return Err(bad("has neither a column messages nor columns prompt and response".into()));
        }
        let length = file.seek(SeekFrom::End(0)).map_err(Error::read(path))?;
        file.seek(SeekFrom::Start(length.saturating_sub(FOOTER))).map_err(Error::read(path))?;
        let mut footer = Vec::new();
        file.read_to_end(&mut footer).map_err(Error::read(path))?;
        let rows = metadata.metadata().file_metadata().num_rows() as usize;
        let hash = hash(&footer, hash(&length.to_le_bytes(), HASH));
        Ok(Self { path: path.to_owned(), metadata, rows, hash })
    }

    /// The row groups that hold a range, and the range's start within them.
    fn groups(&self, range: &Range<usize>) -> (Vec<usize>, usize) {
        let (mut groups, mut skip, mut start) = (Vec::new(), 0, 0);
        for (index, group) in self.metadata.metadata().row_groups().iter().enumerate() {
            let end = start + group.num_rows() as usize;
            if start < range.end && end > range.start {
                if groups.is_empty() {
                    skip = range.start - start;
                }
                groups.push(index);
            }
            start = end;
        }
        (groups, skip)
    }
}

impl Records for Table {
    fn len(&self) -> usize {
        self.rows
    }

    fn identity(&self) -> String {
        format!("parquet:{}:{:016x}", self.rows, self.hash)
    }

    fn read(&self, range: Range<usize>) -> Result<Vec<Result<Record, Refused>>> {
        let file = File::open(&self.path).map_err(Error::read(&self.path))?;
        let (groups, skip) = self.groups(&range);
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone());
        let schema = builder.parquet_schema();
        let mask = ProjectionMask::columns(schema, ["id", "messages", "prompt", "response"]);
        let reader = builder
            .with_projection(mask)
            .with_row_groups(groups)
            .with_offset(skip)
            .with_limit(range.len())
            .build()
            .map_err(Error::parquet(&self.path))?;
        let mut rows = Vec::with_capacity(range.len());
        for batch in reader {
            let problem = |cause| format!("cannot be decoded ({cause})");
            let batch =
                batch.map_err(|cause| Error::Data { path: self.path.clone(), problem: problem(cause) })?;
            let columns = Columns::new(&batch);
            for index in 0..batch.num_rows() {
                let row = range.start + rows.len();
                rows.push(columns.record(row, index).map_err(|why| Refused { row: row as u64, why }));
            }
        }
        Ok(rows)
    }
}

struct Columns {
    id: Option<ArrayRef>,
    prompt: Option<ArrayRef>,
    response: Option<ArrayRef>,
    messages: Option<ArrayRef>,
}

impl Columns {
    fn new(batch: &RecordBatch) -> Self {
        let text =
            |name: &str| batch.column_by_name(name).and_then(|column| cast(column, &DataType::Utf8).ok());
        Self {
            id: text("id"),
            prompt: text("prompt"),
            response: text("response"),
            messages: batch.column_by_name("messages").cloned(),
        }
    }

    fn record(&self, row: usize, index: usize) -> Result<Record, String> {
        let text = |column: &Option<ArrayRef>| column.as_ref().and_then(|column| text(column, index));
        let id = text(&self.id).unwrap_or_else(|| row.to_string());
        let content = match &self.messages {
            Some(column) => Content::Messages(messages(column, index)?),
            None => match (text(&self.prompt), text(&self.response)) {
                (Some(prompt), Some(response)) => Content::Pair { prompt, response },
                _ => return Err("has an empty prompt or response".into()),
            },
        };
        Ok(Record { id, content })
    }
}

fn text(column: &ArrayRef, index: usize) -> Option<String> {
    column.is_valid(index).then(|| column.as_string::<i32>().value(index).to_owned())
}

/// A list of structs with `role` and `content`.
fn messages(column: &ArrayRef, index: usize) -> Result<Vec<Message>, String> {
    let unusable = || "has unusable messages".to_owned();
    if column.is_null(index) {
        return Err("has no messages".into());
    }
    let turns = match column.data_type() {
        DataType::List(_) => column.as_list::<i32>().value(index),
        DataType::LargeList(_) => column.as_list::<i64>().value(index),
        _ => return Err(unusable()),
    };
    let turns = turns.as_struct_opt().ok_or_else(unusable)?;
    let field = |name: &str| turns.column_by_name(name).and_then(|column| cast(column, &DataType::Utf8).ok());
    let (roles, contents) = (field("role").ok_or_else(unusable)?, field("content").ok_or_else(unusable)?);
    let turn = |i: usize| Some(Message::new(&text(&roles, i)?, text(&contents, i)?));
    (0..turns.len()).map(turn).collect::<Option<_>>().ok_or_else(unusable)
}
