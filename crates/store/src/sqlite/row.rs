//! What comes out of a statement.

use rusqlite::types::ValueRef;

use super::{Error, Result};

/// A row, while its statement stands on it.
#[derive(Clone, Copy)]
pub(crate) struct Row<'r>(pub(super) &'r rusqlite::Row<'r>);

/// One column of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cell<'r> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'r str),
    Blob(&'r [u8]),
}

/// A type that columns hold.
pub(crate) trait FromCell<'r>: Sized {
    /// The value, or why the cell does not hold one.
    fn from_cell(cell: Cell<'r>) -> std::result::Result<Self, String>;
}

impl<'r> Row<'r> {
    pub(crate) fn get<T: FromCell<'r>>(&self, column: usize) -> Result<T> {
        let cell = match self.0.get_ref(column)? {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(number) => Cell::Integer(number),
            ValueRef::Text(text) => {
                Cell::Text(std::str::from_utf8(text).map_err(|_| self.wrong(column, "text that is not UTF-8"))?)
            }
            ValueRef::Blob(bytes) => Cell::Blob(bytes),
            ValueRef::Real(number) => Cell::Real(number),
        };
        T::from_cell(cell).map_err(|found| self.wrong(column, found))
    }

    /// Reads the columns from the first on.
    pub(crate) fn columns(self) -> Columns<'r> {
        Columns { row: self, next: 0 }
    }

    /// Says that a column does not hold what this crate writes into it.
    pub(crate) fn wrong(&self, column: usize, found: impl std::fmt::Display) -> Error {
        let name = self.0.as_ref().column_name(column).unwrap_or("?");
        Error::Value(format!("column {name} has {found}"))
    }
}

/// The columns of a row, one after the other.
pub(crate) struct Columns<'r> {
    row: Row<'r>,
    next: usize,
}

impl<'r> Columns<'r> {
    pub(crate) fn take<T: FromCell<'r>>(&mut self) -> Result<T> {
        self.next += 1;
        self.row.get(self.next - 1)
    }
}

impl<'r> Cell<'r> {
    /// Why this is not a `wanted`.
    pub(crate) fn is_not(self, wanted: &str) -> String {
        match self {
            Self::Null => format!("null instead of {wanted}"),
            Self::Integer(number) => format!("{number} instead of {wanted}"),
            Self::Real(number) => format!("{number} instead of {wanted}"),
            Self::Text(_) => format!("text instead of {wanted}"),
            Self::Blob(_) => format!("bytes instead of {wanted}"),
        }
    }
}

impl<'r> FromCell<'r> for i64 {
    fn from_cell(cell: Cell<'r>) -> std::result::Result<Self, String> {
        match cell {
            Cell::Integer(number) => Ok(number),
            other => Err(other.is_not("a number")),
        }
    }
}

impl<'r> FromCell<'r> for f64 {
    fn from_cell(cell: Cell<'r>) -> std::result::Result<Self, String> {
        match cell {
            Cell::Real(number) => Ok(number),
            other => Err(other.is_not("a floating-point number")),
        }
    }
}

/// What a `u64` was stored as.
impl<'r> FromCell<'r> for u64 {
    fn from_cell(cell: Cell<'r>) -> std::result::Result<Self, String> {
        i64::from_cell(cell).map(|number| Self::try_from(number).unwrap_or(0))
    }
}

impl<'r> FromCell<'r> for u32 {
    fn from_cell(cell: Cell<'r>) -> std::result::Result<Self, String> {
        Self::try_from(i64::from_cell(cell)?).map_err(|_| cell.is_not("a 32-bit number"))
    }
}

impl<'r> FromCell<'r> for bool {
    fn from_cell(cell: Cell<'r>) -> std::result::Result<Self, String> {
        i64::from_cell(cell).map(|number| number != 0)
    }
}

impl<'r> FromCell<'r> for &'r str {
    fn from_cell(cell: Cell<'r>) -> std::result::Result<Self, String> {
        match cell {
            Cell::Text(text) => Ok(text),
            other => Err(other.is_not("text")),
        }
    }
}

impl<'r> FromCell<'r> for String {
    fn from_cell(cell: Cell<'r>) -> std::result::Result<Self, String> {
        <&str>::from_cell(cell).map(Self::from)
    }
}

impl<'r> FromCell<'r> for &'r [u8] {
    fn from_cell(cell: Cell<'r>) -> std::result::Result<Self, String> {
        match cell {
            Cell::Blob(bytes) => Ok(bytes),
            other => Err(other.is_not("bytes")),
        }
    }
}

impl<'r, const N: usize> FromCell<'r> for [u8; N] {
    fn from_cell(cell: Cell<'r>) -> std::result::Result<Self, String> {
        let bytes = <&[u8]>::from_cell(cell)?;
        bytes.try_into().map_err(|_| format!("{} bytes instead of {N}", bytes.len()))
    }
}

impl<'r, T: FromCell<'r>> FromCell<'r> for Option<T> {
    fn from_cell(cell: Cell<'r>) -> std::result::Result<Self, String> {
        match cell {
            Cell::Null => Ok(None),
            other => T::from_cell(other).map(Some),
        }
    }
}
