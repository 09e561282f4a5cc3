//! Parquet by row number, as the Hub ships datasets.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use demask_model::files;
use demask_model::guard::caught;
use demask_model::hash::Hash;
use demask_model::text::Message;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use parquet::schema::types::Type;

use super::{Content, Record, Records, Refused};
use crate::error::{Error, Result};

/// Bytes at the end of the file that tell it from another: the footer with its offsets and statistics.
const FOOTER: u64 = 1 << 16;

/// The columns that are read.
const COLUMNS: [&str; 4] = ["id", "messages", "prompt", "response"];

/// A parquet file with `messages`, or with `prompt` and `response`.
pub(super) struct Table {
    path: PathBuf,
    /// Rows of each row group.
    groups: Vec<usize>,
    hash: u64,
}

impl Table {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let mut file = files::open(path).map_err(Error::read(path))?;
        let length = file.seek(SeekFrom::End(0)).map_err(Error::read(path))?;
        file.seek(SeekFrom::Start(length.saturating_sub(FOOTER))).map_err(Error::read(path))?;
        let mut footer = Vec::new();
        file.read_to_end(&mut footer).map_err(Error::read(path))?;
        let hash = Hash::new().bytes(&length.to_le_bytes()).bytes(&footer).value();

        let bad = |problem: String| Error::Data { path: path.to_owned(), problem };
        let reader = caught(|| SerializedFileReader::new(file))
            .map_err(|why| bad(format!("cannot be read: {why}")))?
            .map_err(|cause| bad(format!("is not a readable parquet file ({cause})")))?;
        let schema = reader.metadata().file_metadata().schema();
        let has = |name: &str| schema.get_fields().iter().any(|field| field.name() == name);
        let pair = has("prompt") && has("response");
        if !has("messages") && !pair {
            return Err(bad("has neither a column messages nor columns prompt and response".into()));
        }
        let groups =
            reader.metadata().row_groups().iter().map(|group| group.num_rows().max(0) as usize).collect();
        Ok(Self { path: path.to_owned(), groups, hash })
    }

    /// Reads `take` rows after the first `skip` of one row group.
    fn group(
        &self,
        reader: &SerializedFileReader<File>,
        group: usize,
        skip: usize,
        take: usize,
    ) -> Result<Vec<Row>, ParquetError> {
        let columns = columns(reader.metadata().file_metadata().schema())?;
        reader.get_row_group(group)?.get_row_iter(Some(columns))?.skip(skip).take(take).collect()
    }
}

impl Records for Table {
    fn len(&self) -> usize {
        self.groups.iter().sum()
    }

    fn identity(&self) -> String {
        format!("parquet:{}:{:016x}", self.len(), self.hash)
    }

    fn read(&self, range: Range<usize>) -> Result<Vec<Result<Record, Refused>>> {
        let damaged =
            |why| Error::Data { path: self.path.clone(), problem: format!("cannot be read: {why}") };
        caught(|| self.rows(range)).map_err(damaged)?
    }
}

impl Table {
    fn rows(&self, range: Range<usize>) -> Result<Vec<Result<Record, Refused>>> {
        let file = files::open(&self.path).map_err(Error::read(&self.path))?;
        let reader = SerializedFileReader::new(file).map_err(Error::parquet(&self.path))?;
        let undecodable =
            |cause| Error::Data { path: self.path.clone(), problem: format!("cannot be decoded ({cause})") };
        let mut rows = Vec::new();
        let mut start = 0;
        for (group, &length) in self.groups.iter().enumerate() {
            let from = range.start.clamp(start, start + length);
            let to = range.end.clamp(start, start + length);
            if from < to {
                let read = self.group(&reader, group, from - start, to - from).map_err(undecodable)?;
                let numbered = (from..).zip(&read);
                rows.extend(numbered.map(|(number, row)| {
                    record(number, row).map_err(|why| Refused { row: number as u64, why })
                }));
            }
            start += length;
        }
        Ok(rows)
    }
}

/// The part of the file's schema that is read.
fn columns(schema: &Type) -> Result<Type, ParquetError> {
    let wanted = schema.get_fields().iter().filter(|field| COLUMNS.contains(&field.name()));
    Type::group_type_builder(schema.name()).with_fields(wanted.cloned().collect()).build()
}

fn record(number: usize, row: &Row) -> Result<Record, String> {
    let id = match find(row, "id") {
        None | Some(Field::Null) => number.to_string(),
        Some(Field::Str(id)) => id.clone(),
        Some(id) => id.to_string(),
    };
    let content = match find(row, "messages") {
        Some(messages) => Content::Messages(turns(messages)?),
        None => match (text(row, "prompt"), text(row, "response")) {
            (Some(prompt), Some(response)) => Content::Pair { prompt, response },
            _ => return Err("has an empty prompt or response".into()),
        },
    };
    Ok(Record { id, content })
}

/// A list of structs with `role` and `content`.
fn turns(messages: &Field) -> Result<Vec<Message>, String> {
    let list = match messages {
        Field::Null => return Err("has no messages".into()),
        Field::ListInternal(list) => list.elements(),
        _ => return Err("has unusable messages".into()),
    };
    let turn = |field: &Field| match field {
        Field::Group(row) => Some(Message::new(&text(row, "role")?, text(row, "content")?)),
        _ => None,
    };
    list.iter().map(turn).collect::<Option<_>>().ok_or_else(|| "has unusable messages".into())
}

fn text(row: &Row, name: &str) -> Option<String> {
    match find(row, name)? {
        Field::Str(text) => Some(text.clone()),
        _ => None,
    }
}

fn find<'a>(row: &'a Row, name: &str) -> Option<&'a Field> {
    row.get_column_iter().find(|(known, _)| *known == name).map(|(_, field)| field)
}
