//! The flat table as a Parquet file: optional columns of text, whole numbers, numbers and truths.
//!
//! Always true: names, order and meaning are those of the CSV; what is missing is null. Values that
//! repeat are stored once (dictionary encoding), without further compression, which needs another
//! dependency and saves little beside it. At most [`ROWS_MAX`] rows are held in memory.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use crate::dataset::flat::{COLUMNS, Column, Holds, Line, Value};

/// The table of these lines as a Parquet file in memory.
///
/// # Errors
///
/// That of the Parquet library, which has no reason to give one.
pub fn to_parquet<'a>(lines: impl IntoIterator<Item = Line<'a>>) -> Result<Vec<u8>, ParquetError> {
    let mut rows = Rows::new(Vec::new())?;
    for line in lines {
        rows.push(&line)?;
    }
    rows.finish()
}

/// Takes rows and writes them in groups.
pub(super) struct Rows<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    /// The values of each column that are not written yet.
    columns: Vec<Vec<Value>>,
}

impl<W: Write + Send> Rows<W> {
    pub(super) fn new(out: W) -> Result<Self, ParquetError> {
        let properties = WriterProperties::builder()
            .set_created_by(concat!("nearcall ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer = SerializedFileWriter::new(out, schema()?, Arc::new(properties))?;
        Ok(Self { writer, columns: vec![Vec::new(); COLUMNS.len()] })
    }

    pub(super) fn push(&mut self, line: &Line<'_>) -> Result<(), ParquetError> {
        for (column, value) in self.columns.iter_mut().zip(line.values()) {
            column.push(value);
        }
        if self.columns[0].len() >= ROWS_MAX { self.write_group() } else { Ok(()) }
    }

    pub(super) fn finish(mut self) -> Result<W, ParquetError> {
        if !self.columns[0].is_empty() {
            self.write_group()?;
        }
        self.writer.into_inner()
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for (column, values) in COLUMNS.iter().zip(&mut self.columns) {
            let Some(mut writer) = group.next_column()? else { break };
            write_column(&mut writer, column, &std::mem::take(values))?;
            writer.close()?;
        }
        group.close().map(drop)
    }
}

fn write_column(
    writer: &mut SerializedColumnWriter<'_>,
    column: &Column,
    values: &[Value],
) -> Result<(), ParquetError> {
    // 1 where there is a value, 0 where there is none.
    macro_rules! write {
        ($kind:ty, $take:expr) => {{
            let taken: Vec<_> = values.iter().map($take).collect();
            let levels: Vec<i16> = taken.iter().map(|value| i16::from(value.is_some())).collect();
            let present: Vec<_> = taken.into_iter().flatten().collect();
            writer.typed::<$kind>().write_batch(&present, Some(&levels), None).map(drop)
        }};
    }
    match column.holds {
        Holds::Text => write!(ByteArrayType, |value| match value {
            Value::Text(text) => Some(ByteArray::from(text.as_str())),
            _ => None,
        }),
        Holds::Whole => write!(Int64Type, |value| match value {
            // Beyond 2^63 nanoseconds or bytes nothing was measured.
            Value::Whole(number) => i64::try_from(*number).ok(),
            _ => None,
        }),
        Holds::Real => write!(DoubleType, |value| match value {
            Value::Real(number) => Some(*number),
            _ => None,
        }),
        Holds::Truth => write!(BoolType, |value| match value {
            Value::Truth(truth) => Some(*truth),
            _ => None,
        }),
    }
}

fn schema() -> Result<TypePtr, ParquetError> {
    let field = |column: &Column| -> Result<TypePtr, ParquetError> {
        let (physical, logical) = match column.holds {
            Holds::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Holds::Whole => (Physical::INT64, None),
            Holds::Real => (Physical::DOUBLE, None),
            Holds::Truth => (Physical::BOOLEAN, None),
        };
        let field = Type::primitive_type_builder(column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()?;
        Ok(Arc::new(field))
    };
    let fields = COLUMNS.iter().map(field).collect::<Result<_, _>>()?;
    Ok(Arc::new(Type::group_type_builder("cells").with_fields(fields).build()?))
}

/// Rows of one group: of about 80 values each, some 100 MB while they are collected.
const ROWS_MAX: usize = 32_768;
