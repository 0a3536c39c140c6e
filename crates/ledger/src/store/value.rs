//! The values that go into a statement, and the cells that come back.

use std::sync::Arc;

use super::StoreError;

/// A value of a statement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// None.
    Null,
    /// A number, or a yes (1) or no (0).
    Integer(i64),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// The values of a statement, each converted.
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$($crate::store::Value::from($value)),*] };
}
pub(crate) use values;

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<bool> for Value<'_> {
    fn from(is: bool) -> Self {
        Self::Integer(is.into())
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Value<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Value<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A stored value.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// None.
    Null,
    /// A number, or a yes (1) or no (0).
    Integer(i64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl From<Value<'_>> for Cell {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Integer(number) => Self::Integer(number),
            Value::Text(text) => Self::Text(text.to_owned()),
            Value::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
        }
    }
}

impl<'a> From<&'a Cell> for Value<'a> {
    fn from(cell: &'a Cell) -> Self {
        match cell {
            Cell::Null => Self::Null,
            Cell::Integer(number) => Self::Integer(*number),
            Cell::Text(text) => Self::Text(text),
            Cell::Bytes(bytes) => Self::Bytes(bytes),
        }
    }
}

/// One row of a query.
#[derive(Debug, Clone)]
pub struct Row {
    columns: Arc<[String]>,
    cells: Vec<Cell>,
}

impl Row {
    /// A row, with the names of its columns, which all rows of a query share.
    pub fn new(columns: Arc<[String]>, cells: Vec<Cell>) -> Self {
        Self { columns, cells }
    }

    /// The value of a column.
    pub fn get<'r, T: FromCell<'r>>(&'r self, name: &str) -> Result<T, StoreError> {
        let column = self.columns.iter().position(|column| column == name);
        let cell = column.and_then(|column| self.cells.get(column));
        let value = cell.and_then(T::from_cell);
        value.ok_or_else(|| StoreError::Unreadable(name.to_owned()))
    }

    /// The value of the first column.
    pub(super) fn first<T>(&self) -> Result<T, StoreError>
    where
        T: for<'r> FromCell<'r>,
    {
        let value = self.cells.first().and_then(T::from_cell);
        value.ok_or_else(|| StoreError::Unreadable("its first column".to_owned()))
    }
}

/// What a stored value is read as.
pub trait FromCell<'r>: Sized {
    /// None if it is of another type.
    fn from_cell(cell: &'r Cell) -> Option<Self>;
}

impl<'r> FromCell<'r> for &'r Cell {
    fn from_cell(cell: &'r Cell) -> Option<Self> {
        Some(cell)
    }
}

impl FromCell<'_> for i64 {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Integer(number) => Some(*number),
            Cell::Null | Cell::Text(_) | Cell::Bytes(_) => None,
        }
    }
}

impl FromCell<'_> for bool {
    fn from_cell(cell: &Cell) -> Option<Self> {
        i64::from_cell(cell).map(|number| number != 0)
    }
}

impl<'r> FromCell<'r> for &'r str {
    fn from_cell(cell: &'r Cell) -> Option<Self> {
        match cell {
            Cell::Text(text) => Some(text),
            Cell::Null | Cell::Integer(_) | Cell::Bytes(_) => None,
        }
    }
}

impl<'r> FromCell<'r> for String {
    fn from_cell(cell: &'r Cell) -> Option<Self> {
        <&str>::from_cell(cell).map(str::to_owned)
    }
}

impl<'r> FromCell<'r> for &'r [u8] {
    fn from_cell(cell: &'r Cell) -> Option<Self> {
        match cell {
            Cell::Bytes(bytes) => Some(bytes),
            Cell::Null | Cell::Integer(_) | Cell::Text(_) => None,
        }
    }
}

impl<'r> FromCell<'r> for Vec<u8> {
    fn from_cell(cell: &'r Cell) -> Option<Self> {
        <&[u8]>::from_cell(cell).map(<[u8]>::to_vec)
    }
}

impl<'r, T: FromCell<'r>> FromCell<'r> for Option<T> {
    fn from_cell(cell: &'r Cell) -> Option<Self> {
        match cell {
            Cell::Null => Some(None),
            Cell::Integer(_) | Cell::Text(_) | Cell::Bytes(_) => T::from_cell(cell).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_as_what_it_is_and_as_nothing_else() {
        let columns: Arc<[String]> = ["number", "text", "bytes", "none"]
            .map(str::to_owned)
            .into();
        let values = values![7_i64, "a", &[1_u8, 2], None::<i64>];
        let row = Row::new(columns, values.map(Cell::from).to_vec());
        assert_eq!(row.get::<i64>("number").unwrap(), 7);
        assert_eq!(row.get::<&str>("text").unwrap(), "a");
        assert_eq!(row.get::<&[u8]>("bytes").unwrap(), [1, 2]);
        assert_eq!(row.get::<Option<i64>>("none").unwrap(), None);
        assert_eq!(
            row.get::<Option<String>>("text").unwrap(),
            Some("a".to_owned())
        );
        assert!(row.get::<i64>("text").is_err());
        assert!(row.get::<String>("none").is_err());
        assert!(row.get::<i64>("other").is_err());
        assert!(row.get::<Option<i64>>("text").is_err());
    }
}
