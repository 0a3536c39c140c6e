//! What the server's catalog says of a table whose rows are kept: its key, its columns, how a value of
//! each is read so that it comes back as it was, and what would keep rows from coming back exactly.

use haft_contract::ops::OpsError;
use mysql_async::{Conn, Row, prelude::Queryable as _};

use super::{MariaDbSource, failure::failed, names::identifier};
use crate::{
    kept_rows::{KeptColumns, TableColumn},
    sql::ChangeKind,
};

/// The columns of a table. Of a key the role may see less than all columns, so it is asked for apart.
const COLUMNS: &str = "SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_SET_NAME, COLLATION_NAME,
        CAST(NUMERIC_PRECISION AS UNSIGNED), CAST(NUMERIC_SCALE AS UNSIGNED), IS_GENERATED = 'ALWAYS',
        FIND_IN_SET('select', PRIVILEGES) > 0, COALESCE(CHARACTER_OCTET_LENGTH > 65535, 0)
    FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION";

/// The columns of the primary key, the first one first.
const KEY: &str = "SELECT COLUMN_NAME FROM information_schema.STATISTICS
    WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX";

/// Triggers, as far as the role sees them.
const TRIGGERS: &str = "SELECT COUNT(*) FROM information_schema.TRIGGERS
    WHERE EVENT_OBJECT_SCHEMA = ? AND EVENT_OBJECT_TABLE = ?";

/// Why rows of a table with triggers are not kept.
pub(super) const TRIGGERED: &str = "it has triggers, which may change more";

/// A table of which rows are kept or put back.
#[derive(Debug, Clone)]
pub(super) struct RowTable {
    schema: String,
    table: String,
    pub(super) kept: KeptColumns<RowColumn>,
}

/// A column.
#[derive(Debug, Clone)]
pub(super) struct RowColumn {
    pub(super) name: String,
    /// None if values of its type are not kept.
    pub(super) kind: Option<RowValueKind>,
    /// Whether the role may read it.
    readable: bool,
    /// Whether its values may be longer than a message is to be.
    long: bool,
}

/// How values of a column are read exactly, and written again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowValueKind {
    /// Whole numbers, and years.
    Integer,
    /// Numbers that the server's own writing rounds: their bits.
    Real,
    /// Bits, as a whole number.
    Bits,
    Decimal {
        digits: u64,
        decimals: u64,
    },
    /// A moment, whatever the session's time zone: seconds.
    Instant,
    /// Its bytes, which not every other character set has letters for.
    Text {
        characters: String,
        collation: String,
    },
    Bytes,
    /// What the server writes of it: days, times, words of a list, addresses.
    Written,
}

impl RowValueKind {
    /// The kind of a type; none if values of it are not kept.
    fn of(
        kind: &str,
        (characters, collation): (Option<String>, Option<String>),
        (digits, decimals): (Option<u64>, Option<u64>),
    ) -> Option<Self> {
        // They stand in a statement.
        let word = |name: Option<String>| {
            name.filter(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        };
        Some(match kind {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "year" => Self::Integer,
            "float" | "double" => Self::Real,
            "bit" => Self::Bits,
            "decimal" => Self::Decimal {
                digits: digits?,
                decimals: decimals?,
            },
            "timestamp" => Self::Instant,
            "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => Self::Text {
                characters: word(characters)?,
                collation: word(collation)?,
            },
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Self::Bytes,
            "date" | "datetime" | "time" | "enum" | "set" | "inet4" | "inet6" | "uuid" => {
                Self::Written
            }
            _ => return None,
        })
    }

    /// What stands for a value in a statement. Bytes go as digits: the server takes every parameter for a
    /// text of the connection's character set, and not all bytes are one.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Integer | Self::Real | Self::Bits | Self::Written => "?".to_owned(),
            Self::Decimal { digits, decimals } => {
                format!("CAST(? AS DECIMAL({digits}, {decimals}))")
            }
            Self::Instant => "FROM_UNIXTIME(CAST(? AS DECIMAL(20, 6)))".to_owned(),
            Self::Text {
                characters,
                collation,
            } => format!("CONVERT(UNHEX(?) USING {characters}) COLLATE {collation}"),
            Self::Bytes => "UNHEX(?)".to_owned(),
        }
    }
}

impl RowColumn {
    /// The expression that reads it.
    fn read(&self) -> String {
        let name = identifier(&self.name);
        match &self.kind {
            Some(RowValueKind::Bits) => format!("{name} + 0"),
            Some(RowValueKind::Decimal { .. } | RowValueKind::Written) => {
                format!("CAST({name} AS CHAR)")
            }
            Some(RowValueKind::Instant) => format!("CAST(UNIX_TIMESTAMP({name}) AS CHAR)"),
            Some(RowValueKind::Text { .. } | RowValueKind::Bytes) => {
                format!("CAST({name} AS BINARY)")
            }
            Some(RowValueKind::Integer | RowValueKind::Real) | None => name,
        }
    }

    /// `name = ?` in the column's own type.
    fn is_place(&self) -> String {
        let place = self.kind.as_ref().map(RowValueKind::place);
        format!("{} = {}", identifier(&self.name), place.unwrap_or_default())
    }
}

impl MariaDbSource {
    /// A table, or why its rows are not kept. With an `UPDATE` the columns are those it sets.
    pub(super) async fn row_table(
        &self,
        conn: &mut Conn,
        table: &str,
        kind: &ChangeKind,
    ) -> Result<Result<RowTable, String>, OpsError> {
        let triggers: Option<u64> = conn
            .exec_first(TRIGGERS, self.of(table))
            .await
            .map_err(|error| failed(&error))?;
        if triggers != Some(0) {
            return Ok(Err(format!("`{table}`: {TRIGGERED}")));
        }
        let key: Vec<String> = conn
            .exec(KEY, self.of(table))
            .await
            .map_err(|error| failed(&error))?;
        let rows: Vec<Row> = conn
            .exec(COLUMNS, self.of(table))
            .await
            .map_err(|error| failed(&error))?;
        let columns: Vec<TableColumn<RowColumn>> =
            rows.iter().map(|row| column(row, &key)).collect();
        let seen = columns
            .iter()
            .filter(|column| column.place_in_key.is_some());
        if seen.count() != key.len() {
            return Ok(Err(format!(
                "the database's role may not read the whole primary key of `{table}`"
            )));
        }
        Ok(RowTable::with(&self.database, table, &columns, kind))
    }
}

/// A column as the catalog has it.
fn column(row: &Row, key: &[String]) -> TableColumn<RowColumn> {
    let text = |place: usize| {
        let text = row.get_opt::<Option<String>, _>(place);
        text.and_then(Result::ok).flatten()
    };
    let number = |place: usize| {
        let number = row.get_opt::<Option<u64>, _>(place);
        number.and_then(Result::ok).flatten()
    };
    let name = text(0).unwrap_or_default();
    let kind = text(1).unwrap_or_default();
    let place = key.iter().position(|column| *column == name);
    TableColumn {
        called: name.to_lowercase(),
        place_in_key: place.and_then(|place| i64::try_from(place).ok()),
        generated: number(6) != Some(0),
        column: RowColumn {
            kind: RowValueKind::of(&kind, (text(2), text(3)), (number(4), number(5))),
            readable: number(7) == Some(1),
            long: number(8) != Some(0),
            name,
        },
    }
}

impl RowTable {
    fn with(
        schema: &str,
        table: &str,
        columns: &[TableColumn<RowColumn>],
        kind: &ChangeKind,
    ) -> Result<Self, String> {
        let kept = KeptColumns::of(table, columns, kind)?;
        for column in kept.key.iter().chain(&kept.columns) {
            let name = &column.name;
            if !column.readable {
                return Err(format!(
                    "the database's role may not read `{name}` of `{table}`"
                ));
            }
            if column.kind.is_none() {
                return Err(format!("values such as those of `{name}` are not kept"));
            }
        }
        if kept.key.iter().any(|column| column.long) {
            return Err(format!("the primary key of `{table}` may be very long"));
        }
        Ok(Self {
            schema: schema.to_owned(),
            table: table.to_owned(),
            kept,
        })
    }

    /// The table in a statement.
    fn written(&self) -> String {
        format!("{}.{}", identifier(&self.schema), identifier(&self.table))
    }

    /// What is read of a row: its key, its columns, and whether it is too large, in whose place there is
    /// nothing then.
    pub(super) fn read(&self, most: usize) -> String {
        let long = self.kept.columns.iter().filter(|column| column.long);
        let sizes: Vec<String> = long
            .map(|column| format!("COALESCE(OCTET_LENGTH({}), 0)", identifier(&column.name)))
            .collect();
        let too_large = match sizes.as_slice() {
            [] => "0".to_owned(),
            sizes => format!("{} > {most}", sizes.join(" + ")),
        };
        let mut read: Vec<String> = self.kept.key.iter().map(RowColumn::read).collect();
        read.extend(self.kept.columns.iter().map(|column| {
            if column.long {
                format!("IF({too_large}, NULL, {})", column.read())
            } else {
                column.read()
            }
        }));
        read.push(too_large);
        read.join(", ")
    }

    /// The statement that reads rows by so many keys.
    pub(super) fn select(&self, most: usize, keys: usize) -> String {
        let same = vec![format!("({})", self.same_key()); keys];
        format!(
            "SELECT {} FROM {} WHERE {}",
            self.read(most),
            self.written(),
            same.join(" OR ")
        )
    }

    /// The statement that removes one row by its key.
    pub(super) fn delete(&self) -> String {
        format!("DELETE FROM {} WHERE {}", self.written(), self.same_key())
    }

    /// The statement that sets the columns of one row: their values, then the key. All of them, so that
    /// the server sets none by itself.
    pub(super) fn update(&self) -> String {
        let set: Vec<String> = self.kept.columns.iter().map(RowColumn::is_place).collect();
        format!(
            "UPDATE {} SET {} WHERE {}",
            self.written(),
            set.join(", "),
            self.same_key()
        )
    }

    /// The statement that adds one row.
    pub(super) fn insert(&self) -> String {
        let columns = self.kept.columns.iter();
        let names: Vec<String> = columns
            .clone()
            .map(|column| identifier(&column.name))
            .collect();
        let places: Vec<String> = columns
            .filter_map(|column| column.kind.as_ref().map(RowValueKind::place))
            .collect();
        format!(
            "INSERT INTO {} ({}) VALUES ({})",
            self.written(),
            names.join(", "),
            places.join(", ")
        )
    }

    fn same_key(&self) -> String {
        let same: Vec<String> = self.kept.key.iter().map(RowColumn::is_place).collect();
        same.join(" AND ")
    }
}
