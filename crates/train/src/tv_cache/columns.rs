//! Columns of a cache file: the schema, and a row group written or read column by column.
//!
//! Every column is required and every list is a plain three-level LIST, so that any parquet reader opens the files.
//! Invariant: `write` and `read` name the columns in one order, that of `schema`.

use std::io::Write;

use demask_model::HiddenRow;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, FloatType, Int32Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::RowGroupReader;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;

use super::format::{Example, Numbers, Stored};
use super::read::Columns;
use super::settings::{HiddenRows, TvCacheSettings};

const ID: &str = "id";
const MASK: &str = "mask";
const DRAW: &str = "draw";
const RATIO: &str = "ratio";
const PROMPT: &str = "prompt_length";
const TOKENS: &str = "tokens";
const POSITIONS: &str = "positions";
const REVEALED: &str = "revealed";
const DEPENDENCY: &str = "dependency";
const DIVERGENCE: &str = "divergence";
const OPINIONS: &str = "opinions";
const CHANGES: &str = "changes";
const HIDDEN_I: &str = "hidden_i";
const HIDDEN_I_MINUS_1: &str = "hidden_i_minus_1";

/// What a file stores besides what every file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) hidden: HiddenRows,
    pub(super) divergence: bool,
    pub(super) labels: bool,
}

impl Kept {
    pub(super) fn of(settings: &TvCacheSettings) -> Self {
        let TvCacheSettings { hidden, divergence, stability, .. } = settings;
        Self { hidden: *hidden, divergence: *divergence, labels: stability.is_some() }
    }
}

/// The columns of a file that stores these.
pub(super) fn schema(Kept { hidden, divergence, labels }: Kept) -> Result<Type> {
    let list = |name| {
        format!("required group {name} (LIST) {{ repeated group list {{ required int32 element; }} }}\n")
    };
    let matrix = |name| format!("required binary {name};\n");
    let mut text = format!("message cache {{\nrequired binary {ID} (UTF8);\n");
    text += &format!("required int32 {MASK};\nrequired int32 {DRAW};\nrequired float {RATIO};\n");
    text += &format!("required int32 {PROMPT};\n");
    text += &[TOKENS, POSITIONS, REVEALED].map(list).concat();
    text += &matrix(DEPENDENCY);
    if divergence {
        text += &matrix(DIVERGENCE);
    }
    if hidden.has(HiddenRow::I) {
        text += &matrix(HIDDEN_I);
    }
    if hidden.has(HiddenRow::IMinusOne) {
        text += &matrix(HIDDEN_I_MINUS_1);
    }
    if labels {
        text += &(matrix(OPINIONS) + &list(CHANGES));
    }
    parse_message_type(&(text + "}"))
}

/// Writes rows as one row group.
pub(super) fn write<W: Write + Send>(
    out: &mut SerializedFileWriter<W>,
    rows: &[Example],
    Kept { hidden, divergence, labels }: Kept,
) -> Result<()> {
    let mut group = out.next_row_group()?;
    let numbers = |value: fn(&Example) -> u32| rows.iter().map(|row| value(row) as i32).collect::<Vec<_>>();
    let ids: Vec<ByteArray> = rows.iter().map(|row| row.id.as_str().into()).collect();
    let ratios: Vec<f32> = rows.iter().map(|row| row.ratio).collect();
    plain::<ByteArrayType, W>(&mut group, &ids)?;
    plain::<Int32Type, W>(&mut group, &numbers(|row| row.mask))?;
    plain::<Int32Type, W>(&mut group, &numbers(|row| row.draw))?;
    plain::<FloatType, W>(&mut group, &ratios)?;
    plain::<Int32Type, W>(&mut group, &numbers(|row| row.prompt as u32))?;
    lists(&mut group, rows, |row| row.tokens.iter().map(|&t| t as i32).collect())?;
    lists(&mut group, rows, |row| row.positions.iter().map(|&p| p as i32).collect())?;
    lists(&mut group, rows, |row| row.revealed.iter().map(|&t| t as i32).collect())?;
    matrices(&mut group, rows, |row| Some(&row.dependency))?;
    if divergence {
        matrices(&mut group, rows, |row| row.divergence.as_ref())?;
    }
    if hidden.has(HiddenRow::I) {
        matrices(&mut group, rows, |row| row.hidden_i.as_ref())?;
    }
    if hidden.has(HiddenRow::IMinusOne) {
        matrices(&mut group, rows, |row| row.hidden_i_minus_1.as_ref())?;
    }
    if labels {
        matrices(&mut group, rows, |row| row.opinions.as_ref())?;
        lists(&mut group, rows, |row| row.changes.iter().map(|&c| c as i32).collect())?;
    }
    group.close()?;
    Ok(())
}

fn plain<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
) -> Result<()> {
    column::<T, W>(group, values, None, None)
}

fn matrices<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[Example],
    value: fn(&Example) -> Option<&Numbers>,
) -> Result<()> {
    let bytes = rows.iter().map(|row| value(row).map_or(Vec::new(), |numbers| numbers.bytes.clone()));
    plain::<ByteArrayType, W>(group, &bytes.map(ByteArray::from).collect::<Vec<_>>())
}

/// An element's repetition level is 0 where a list begins; its definition level is 1, and that of an empty list 0.
fn lists<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[Example],
    value: fn(&Example) -> Vec<i32>,
) -> Result<()> {
    let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let list = value(row);
        let levels = list.len().max(1);
        defined.extend(std::iter::repeat_n(i16::from(!list.is_empty()), levels));
        repeated.extend((0..levels).map(|index| i16::from(index > 0)));
        values.extend(list);
    }
    column::<Int32Type, W>(group, &values, Some(&defined), Some(&repeated))
}

fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    defined: Option<&[i16]>,
    repeated: Option<&[i16]>,
) -> Result<()> {
    let missing = || ParquetError::General("the schema has fewer columns than a row".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, defined, repeated)?;
    column.close()
}

/// Reads the wanted columns of one row group. `None` if the group does not have the documented columns.
pub(super) fn read(
    group: &dyn RowGroupReader,
    wanted: Columns,
    hidden: Stored,
) -> Result<Option<Vec<Example>>> {
    let group = Group { group, rows: group.metadata().num_rows().max(0) as usize };
    let columns = (
        group.plain::<ByteArrayType>(ID)?,
        group.plain::<Int32Type>(MASK)?,
        group.plain::<Int32Type>(DRAW)?,
        group.plain::<FloatType>(RATIO)?,
        group.plain::<Int32Type>(PROMPT)?,
        group.lists(POSITIONS)?,
    );
    let (Some(ids), Some(masks), Some(draws), Some(ratios), Some(prompts), Some(positions)) = columns else {
        return Ok(None);
    };
    let tokens = if wanted.tokens { group.lists(TOKENS)? } else { None };
    let revealed = if wanted.tokens { group.lists(REVEALED)? } else { None };
    let dependency = if wanted.dependency { group.plain::<ByteArrayType>(DEPENDENCY)? } else { None };
    let divergence = if wanted.divergence { group.plain::<ByteArrayType>(DIVERGENCE)? } else { None };
    let hidden_i = if wanted.hidden_i { group.plain::<ByteArrayType>(HIDDEN_I)? } else { None };
    let before = if wanted.hidden_i_minus_1 { group.plain::<ByteArrayType>(HIDDEN_I_MINUS_1)? } else { None };
    let opinions = if wanted.labels { group.plain::<ByteArrayType>(OPINIONS)? } else { None };
    let changes = if wanted.labels { group.lists(CHANGES)? } else { None };
    let list =
        |lists: &Option<Vec<Vec<u32>>>, row: usize| lists.as_ref().map_or_else(Vec::new, |l| l[row].clone());
    let matrix = |column: &Option<Vec<ByteArray>>, row: usize, dtype| {
        column.as_ref().map(|column| Numbers { dtype, bytes: column[row].data().to_vec() })
    };
    let example = |row: usize| {
        Some(Example {
            id: ids[row].as_utf8().ok()?.to_owned(),
            mask: masks[row] as u32,
            draw: draws[row] as u32,
            ratio: ratios[row],
            prompt: prompts[row] as usize,
            tokens: list(&tokens, row),
            positions: positions[row].iter().map(|&p| p as usize).collect(),
            revealed: list(&revealed, row),
            dependency: matrix(&dependency, row, Stored::F16).unwrap_or_default(),
            divergence: matrix(&divergence, row, Stored::F16),
            hidden_i: matrix(&hidden_i, row, hidden),
            hidden_i_minus_1: matrix(&before, row, hidden),
            opinions: matrix(&opinions, row, Stored::F32),
            changes: list(&changes, row),
        })
    };
    Ok((0..group.rows).map(example).collect())
}

/// A row group that is read.
struct Group<'a> {
    group: &'a dyn RowGroupReader,
    rows: usize,
}

impl Group<'_> {
    /// The number of the column, if it holds values of type `T`.
    fn find<T: DataType>(&self, name: &str) -> Option<usize> {
        let columns = self.group.metadata().columns();
        let index = columns
            .iter()
            .position(|column| column.column_path().parts().first().is_some_and(|part| part == name))?;
        (columns[index].column_type() == T::get_physical_type()).then_some(index)
    }

    /// A required column without lists; `None` if there is no such column.
    fn plain<T: DataType>(&self, name: &str) -> Result<Option<Vec<T::T>>> {
        let Some(index) = self.find::<T>(name) else { return Ok(None) };
        if self.group.metadata().column(index).column_descr().max_def_level() != 0 {
            return Ok(None);
        }
        let mut values = Vec::new();
        let mut reader = get_typed_column_reader::<T>(self.group.get_column_reader(index)?);
        reader.read_records(self.rows, None, None, &mut values)?;
        Ok((values.len() == self.rows).then_some(values))
    }

    /// A column of lists; `None` if there is no such column.
    fn lists(&self, name: &str) -> Result<Option<Vec<Vec<u32>>>> {
        let Some(index) = self.find::<Int32Type>(name) else { return Ok(None) };
        let descriptor = self.group.metadata().column(index).column_descr();
        if (descriptor.max_def_level(), descriptor.max_rep_level()) != (1, 1) {
            return Ok(None);
        }
        let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
        let mut reader = get_typed_column_reader::<Int32Type>(self.group.get_column_reader(index)?);
        reader.read_records(self.rows, Some(&mut defined), Some(&mut repeated), &mut values)?;
        let mut lists: Vec<Vec<u32>> = Vec::new();
        let mut values = values.into_iter();
        for (defined, repeated) in defined.into_iter().zip(repeated) {
            if repeated == 0 {
                lists.push(Vec::new());
            }
            if defined == 1 {
                let (Some(list), Some(value)) = (lists.last_mut(), values.next()) else { return Ok(None) };
                list.push(value as u32);
            }
        }
        Ok((lists.len() == self.rows).then_some(lists))
    }
}
