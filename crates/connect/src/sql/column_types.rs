//! Types that a value may be turned into.

use sqlparser::ast::{ArrayElemTypeDef, DataType};

use super::{ReadingRules, RefusedStatement, SqlDialect, Walked};

impl ReadingRules {
    /// Refuses types that look something up in the database, or that no database here has.
    pub(super) fn check_type(&self, kind: &DataType) -> Walked {
        match kind {
            DataType::Custom(name, _) => {
                let parts = self.parts(name)?;
                let last = parts.last().map_or("", String::as_str);
                let looks_up = last.starts_with("reg") && self.dialect == SqlDialect::Postgres;
                if looks_up || last == "refcursor" {
                    return Err(RefusedStatement::unlisted(&format!("the type `{last}`")));
                }
                Ok(())
            }
            DataType::Array(of) => match of {
                ArrayElemTypeDef::None => Ok(()),
                ArrayElemTypeDef::AngleBracket(kind)
                | ArrayElemTypeDef::SquareBracket(kind, _)
                | ArrayElemTypeDef::Parenthesis(kind)
                | ArrayElemTypeDef::Qualified(kind, _) => self.check_type(kind),
            },
            DataType::Regclass
            | DataType::Table(_)
            | DataType::NamedTable { .. }
            | DataType::Map(..)
            | DataType::Tuple(_)
            | DataType::Nested(_)
            | DataType::Struct(..)
            | DataType::Union(_)
            | DataType::Nullable(_)
            | DataType::LowCardinality(_)
            | DataType::Unspecified
            | DataType::Trigger
            | DataType::AnyType
            | DataType::Enum(..)
            | DataType::Set(_) => Err(RefusedStatement::unlisted("such a type")),
            // The others are names of plain values, and the database knows which it has.
            _ => Ok(()),
        }
    }
}
