//! What a role may do. One that may do too much is refused on every connection: a transaction that only
//! reads does not keep a role with `FILE` from the server's files.

use haft_contract::{ErrorKind, ops::OpsError};
use mysql_async::{Conn, prelude::Queryable as _};

use super::{MariaDbSource, failure::failed};
use crate::{halt::Halt, source_finding::SourceFinding};

/// Privileges of the whole server that leave the fences standing. Any other is refused, also one that a
/// newer server has.
const HARMLESS: [&str; 12] = [
    "USAGE",
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "EXECUTE",
    "SHOW DATABASES",
    "SHOW VIEW",
    "CREATE TEMPORARY TABLES",
    "LOCK TABLES",
    "REFERENCES",
    "INDEX",
];

/// Privileges with which a role does to tables what their owner does.
const OWNERS: [&str; 11] = [
    "CREATE",
    "ALTER",
    "DROP",
    "INDEX",
    "TRIGGER",
    "CREATE VIEW",
    "CREATE ROUTINE",
    "ALTER ROUTINE",
    "EVENT",
    "REFERENCES",
    "DELETE HISTORY",
];

/// Privileges with which a role changes rows.
const CHANGES: [&str; 3] = ["INSERT", "UPDATE", "DELETE"];

/// What `SHOW GRANTS` says, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
struct Grants {
    /// Because of these no statement runs.
    too_much: Vec<String>,
    /// These are an owner's.
    of_owners: Vec<String>,
    /// Where rows may be changed.
    changes: Vec<String>,
    /// Whether the server's own tables may be read, with what others log in with.
    reads_system: bool,
}

impl Grants {
    async fn of(conn: &mut Conn) -> Result<Self, OpsError> {
        let lines: Vec<String> = conn
            .query("SHOW GRANTS")
            .await
            .map_err(|error| failed(&error))?;
        let mut grants = Self::default();
        for line in &lines {
            grants.add(line);
        }
        Ok(grants)
    }

    /// Adds what one line grants. The line may end with a hash of the password.
    fn add(&mut self, line: &str) {
        let Some(granted) = line.strip_prefix("GRANT ") else {
            // `SET DEFAULT ROLE …` grants nothing.
            return;
        };
        let (granted, rest) = split_outside_quotes(granted, " TO ");
        if outside_quotes(rest).contains("WITH GRANT OPTION")
            || outside_quotes(rest).contains("WITH ADMIN OPTION")
        {
            self.too_much
                .push("may grant what it was granted to others".to_owned());
        }
        let (privileges, object) = split_outside_quotes(granted, " ON ");
        if object.is_empty() {
            // A role: what it may is in lines of its own.
            return;
        }
        let everywhere = object == "*.*";
        for privilege in privileges_of(privileges) {
            let (what, found) = (privilege.as_str(), format!("{privilege} on {object}"));
            self.reads_system |= what == "SELECT" && (everywhere || object.starts_with("`mysql`."));
            if what == "ALL PRIVILEGES" || what == "ALL" || what == "PROXY" {
                self.too_much.push(format!("has {found}"));
            } else if OWNERS.contains(&what) {
                self.of_owners.push(found);
            } else if CHANGES.contains(&what) {
                self.changes.push(found);
            } else if everywhere && !HARMLESS.contains(&what) {
                self.too_much.push(format!("has {found}"));
            }
        }
    }
}

/// Refuses a role that no fence holds.
pub(super) async fn check(conn: &mut Conn) -> Result<(), OpsError> {
    let grants = Grants::of(conn).await?;
    match grants.too_much.first() {
        None => Ok(()),
        Some(what) => Err(OpsError::new(
            ErrorKind::Denied,
            format!(
                "the database's role {what}, so no statement runs with it; its operator can give \
                 Haft a role of its own"
            ),
        )),
    }
}

impl MariaDbSource {
    /// What is wrong with the source, for its operator.
    pub(crate) async fn check(&self, halt: &Halt) -> Result<Vec<SourceFinding>, OpsError> {
        let look = async {
            let mut conn = self.connector.connect().await?;
            let grants = Grants::of(&mut conn).await;
            drop(conn.disconnect().await);
            grants.map(findings)
        };
        tokio::select! {
            biased;
            found = look => found,
            stop = halt.reached() => Err(stop),
        }
    }
}

fn findings(grants: Grants) -> Vec<SourceFinding> {
    let Grants {
        too_much,
        of_owners,
        changes,
        reads_system,
    } = grants;
    let mut found = Vec::new();
    let mut find = |refused: bool, text: String| found.push(SourceFinding { refused, text });
    for what in too_much {
        find(
            true,
            format!(
                "its role {what}: make a role of its own, and grant it `SELECT` on what agents may read"
            ),
        );
    }
    if !of_owners.is_empty() {
        find(
            false,
            format!(
                "its role may do what an owner does ({}); the reader of statements alone keeps it from that",
                of_owners.join(", ")
            ),
        );
    }
    if !changes.is_empty() {
        find(
            false,
            format!(
                "its role may change rows ({}); the transaction alone keeps it from that",
                changes.join(", ")
            ),
        );
    }
    if reads_system {
        find(
            false,
            "its role may read the server's own tables: grant it `SELECT` on databases by name"
                .to_owned(),
        );
    }
    found
}

/// `SELECT, UPDATE (`a`, `b`)` as names of privileges, without columns.
fn privileges_of(text: &str) -> Vec<String> {
    let (mut depth, mut plain) = (0_usize, String::new());
    for c in outside_quotes(text).chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            c if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    let names = plain.split(',').map(str::trim);
    let names = names.filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// The text with what is quoted left out.
fn outside_quotes(text: &str) -> String {
    let mut quoted_by = None;
    let mut outside = String::new();
    for c in text.chars() {
        match (quoted_by, c) {
            (None, '`' | '\'') => quoted_by = Some(c),
            (None, c) => outside.push(c),
            (Some(quote), c) if quote == c => quoted_by = None,
            (Some(_), _) => {}
        }
    }
    outside
}

/// What stands before and after a word that is not quoted; all before it if there is none.
fn split_outside_quotes<'a>(text: &'a str, word: &str) -> (&'a str, &'a str) {
    let mut quoted_by = None;
    for (at, c) in text.char_indices() {
        match (quoted_by, c) {
            (None, '`' | '\'') => quoted_by = Some(c),
            (None, _) => {
                if let Some((before, rest)) = text.split_at_checked(at)
                    && let Some(after) = rest.strip_prefix(word)
                {
                    return (before, after);
                }
            }
            (Some(quote), c) if quote == c => quoted_by = None,
            (Some(_), _) => {}
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> Grants {
        let mut grants = Grants::default();
        for line in lines {
            grants.add(line);
        }
        grants
    }

    #[test]
    fn what_is_granted_is_told_from_what_it_is_called() {
        let plain = of(&[
            "GRANT USAGE ON *.* TO `haft`@`localhost` IDENTIFIED BY PASSWORD '*6C8989366EAF75BB670AD8EA7A7FC1176A95CEF4'",
            "GRANT SELECT (`a TO b`, `SUPER, FILE`), SHOW VIEW ON `crm`.`a ON b` TO `haft`@`localhost`",
            "GRANT `reader` TO `haft`@`localhost`",
            "SET DEFAULT ROLE `reader` FOR `haft`@`localhost`",
        ]);
        assert_eq!(plain, Grants::default());
        for (line, what) in [
            (
                "GRANT ALL PRIVILEGES ON *.* TO `a`@`%` WITH GRANT OPTION",
                "may grant",
            ),
            (
                "GRANT ALL PRIVILEGES ON `crm`.* TO `a`@`%`",
                "ALL PRIVILEGES on `crm`.*",
            ),
            ("GRANT SELECT, FILE ON *.* TO `a`@`%`", "FILE on *.*"),
            ("GRANT SUPER ON *.* TO `a`@`%`", "SUPER"),
            ("GRANT PROCESS ON *.* TO `a`@`%`", "PROCESS"),
            ("GRANT CREATE USER ON *.* TO `a`@`%`", "CREATE USER"),
            ("GRANT READ_ONLY ADMIN ON *.* TO `a`@`%`", "READ_ONLY ADMIN"),
            ("GRANT SOMETHING NEW ON *.* TO `a`@`%`", "SOMETHING NEW"),
            (
                "GRANT SELECT ON `crm`.* TO `a`@`%` WITH GRANT OPTION",
                "may grant",
            ),
            ("GRANT `r` TO `a`@`%` WITH ADMIN OPTION", "may grant"),
            (
                "GRANT PROXY ON ''@'%' TO 'root'@'localhost' WITH GRANT OPTION",
                "may grant",
            ),
        ] {
            let found = of(&[line]).too_much.join("; ");
            assert!(found.contains(what), "{line}: {found}");
        }
        let owner = of(&["GRANT SELECT, INSERT, DROP, ALTER ON `crm`.* TO `a`@`%`"]);
        assert!(owner.too_much.is_empty());
        assert_eq!(owner.of_owners, ["DROP on `crm`.*", "ALTER on `crm`.*"]);
        assert_eq!(owner.changes, ["INSERT on `crm`.*"]);
        assert!(of(&["GRANT SELECT ON *.* TO `a`@`%`"]).reads_system);
    }
}
