//! Statements as PostgreSQL writes them.

use tokio_postgres::types::Type;

/// The same statement with `$1` for `?1`. No statement of the ledger has a question mark in a text.
pub(super) fn dollars(statement: &str) -> String {
    statement.replace('?', "$")
}

/// An `INSERT` of one row, whose values are all parameters, as one of many: each parameter becomes an
/// array of what it is in every row. None for any other statement.
pub(super) fn many_rows(statement: &str, types: &[Type]) -> Option<String> {
    let (head, rest) = statement.split_once("VALUES (")?;
    let (values, tail) = rest.split_once(')')?;
    let mut numbers = values.split(',').map(str::trim).zip(1..);
    let is_plain = numbers.all(|(value, number)| value == format!("?{number}"));
    let arrays: Vec<String> = types
        .iter()
        .zip(1..)
        .map(|(of, number)| format!("${number}::{}[]", of.name()))
        .collect();
    if !is_plain || tail.contains('?') || values.split(',').count() != types.len() {
        return None;
    }
    Some(format!(
        "{head}SELECT * FROM unnest({}){tail}",
        arrays.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_insert_of_one_row_becomes_one_of_many() {
        let insert = "INSERT INTO t (a, b) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        let many = many_rows(insert, &[Type::INT8, Type::BYTEA]);
        assert_eq!(
            many.as_deref(),
            Some(
                "INSERT INTO t (a, b) SELECT * FROM unnest($1::int8[], $2::bytea[]) ON CONFLICT DO NOTHING"
            )
        );
        for other in [
            "INSERT INTO t (a, b) VALUES (?1, 0)",
            "INSERT INTO t (a, b) VALUES (?2, ?1)",
            "INSERT INTO t (a, b) VALUES (?1, ?2) ON CONFLICT (a) DO UPDATE SET b = ?2",
            "DELETE FROM t WHERE a = ?1",
        ] {
            assert_eq!(many_rows(other, &[Type::INT8, Type::INT8]), None, "{other}");
        }
        assert_eq!(dollars("a = ?1 AND b = ?12"), "a = $1 AND b = $12");
    }
}
