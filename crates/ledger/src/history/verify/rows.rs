//! All rows so far: ranges put together in order, each checked by itself (`range.rs`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use haft_contract::{
    TenantId,
    host::{LedgerError, Verification},
};

use super::{
    range::{self, CheckedRange, Finding, SessionCalls},
    signed::Signed,
    uses,
};
use crate::{
    chain::{Verifier, broken},
    reading::{column, failed, unsigned},
    store::{Connection, values},
};

/// What was seen of the rows so far.
#[derive(Default)]
pub(super) struct Rows {
    chains: BTreeMap<String, Verifier>,
    pub(super) position: i64,
    pub(super) count: u64,
    /// The rows that checkpoints name, by writer.
    met: BTreeMap<String, BTreeSet<u64>>,
    /// The calls of each session in each workspace.
    sessions: HashMap<(i64, String), SessionCalls>,
    /// The approvals that calls were started with.
    pub(super) approvals: HashSet<String>,
    /// The tools of calls that have not ended so far.
    tools: HashMap<Vec<u8>, String>,
    /// The providers that sessions have used, other than the built-in one.
    providers: HashSet<(i64, String)>,
}

impl Rows {
    /// Adds the next range. Returns the first row that is wrong, if there is one.
    pub(super) fn add(
        &mut self,
        tenant: &TenantId,
        range: CheckedRange,
    ) -> Result<Option<Finding>, LedgerError> {
        let mut first = range.finding;
        for (writer, chain) in range.chains {
            let row = &chain.first;
            let position = unsigned(column(row, "position")?);
            let link = range::link(tenant, column(row, "stored")?, row)?;
            let before = self.chains.entry(writer).or_insert_with(Verifier::new);
            match before.next(position, &link, column(row, "hash")?) {
                Ok(()) => *before = chain.rest,
                // Of what is wrong with one row, its chain counts.
                Err(found)
                    if first
                        .as_ref()
                        .is_none_or(|first| position <= first.position) =>
                {
                    let verdict = Ok(found);
                    first = Some(Finding { position, verdict });
                }
                Err(_) => {}
            }
        }
        for (approval, position) in range.approvals {
            if self.approvals.contains(&approval) {
                if first.as_ref().is_none_or(|first| position < first.position) {
                    first = Some(range::used_twice(position, &approval));
                }
            } else {
                self.approvals.insert(approval);
            }
        }
        self.position = self.position.max(range.position);
        self.count += range.count;
        for (writer, sequence) in range.met {
            self.met.entry(writer).or_default().insert(sequence);
        }
        for (session, calls) in range.sessions {
            match self.sessions.get_mut(&session) {
                Some(all) => all.add(&calls),
                None => {
                    self.sessions.insert(session, calls);
                }
            }
        }
        for (call, session) in range.starts {
            let tool = self.tools.get(&call).map(String::as_str);
            let provider = uses::provider_of(tool);
            let used = provider.map(|provider| (session, provider.to_owned()));
            self.providers.extend(used);
        }
        for (call, tool) in range.tools {
            match tool {
                Some(tool) => self.tools.insert(call, tool),
                None => self.tools.remove(&call),
            };
        }
        self.providers.extend(range.providers);
        Ok(first)
    }

    /// A session whose used providers are not those of its calls.
    pub(super) async fn provider_that_differs(
        &self,
        snapshot: &mut dyn Connection,
        tenant: &TenantId,
    ) -> Result<Option<String>, LedgerError> {
        let rows = snapshot
            .query(
                "SELECT session, provider FROM provider_used
                 WHERE tenant = (SELECT id FROM tenant WHERE name = ?1)",
                &values![tenant.as_str()],
            )
            .await
            .map_err(failed)?;
        let mut noted = HashSet::new();
        for row in &rows {
            noted.insert((column(row, "session")?, column::<String>(row, "provider")?));
        }
        let differs = self.providers.symmetric_difference(&noted).next();
        Ok(differs.map(|(_, provider)| {
            format!("what a session has read from differs from its calls (`{provider}`)")
        }))
    }

    /// Checks the ends of all chains.
    pub(super) fn end(&self, signed: &Signed) -> Result<(), Verification> {
        let after = unsigned(self.position) + 1;
        for (writer, chain) in &self.chains {
            chain.end(signed.ends.get(writer).copied())?;
        }
        for (writer, (end, _)) in &signed.ends {
            if !self.chains.contains_key(writer) && end.sequence > 0 {
                let reason = format!("{} rows of writer `{writer}` are missing", end.sequence);
                return Err(broken(after, reason));
            }
        }
        let is_met = |(writer, row): &(&str, u64)| {
            let met = self.met.get(*writer);
            met.is_some_and(|met| met.contains(row))
        };
        if let Some((writer, sequence)) = signed.named().find(|named| !is_met(named)) {
            let reason = format!("row {sequence} of writer `{writer}` is missing; it was signed");
            return Err(broken(after, reason));
        }
        match signed.forged_checkpoint {
            Some(number) => {
                let reason =
                    format!("checkpoint {number} is missing, or not signed by this ledger");
                Err(broken(after, reason))
            }
            None => Ok(()),
        }
    }

    /// A listed session that does not match the rows, as far as the list has caught up with them.
    pub(super) async fn session_that_differs(
        &self,
        snapshot: &mut dyn Connection,
        tenant: &TenantId,
    ) -> Result<Option<String>, LedgerError> {
        let caught_up = snapshot
            .number("SELECT position FROM caught_up WHERE id = 1", &[])
            .await
            .map_err(failed)?;
        if caught_up < self.position {
            // What is not caught up with is counted again by then.
            return Ok(None);
        }
        let rows = snapshot
            .query(
                "SELECT c.session, s.name, w.name AS workspace, c.kind, c.agent, c.calls, c.first_at,
                     c.last_at, f.calls AS facts, f.first_at AS first_fact, f.last_at AS last_fact
                 FROM session_calls c LEFT JOIN session s ON s.id = c.session
                 LEFT JOIN workspace w ON w.id = c.workspace AND w.tenant = c.tenant
                 LEFT JOIN (SELECT session, workspace, count(*) AS calls, min(opened_at) AS first_at,
                         max(opened_at) AS last_at FROM call_fact
                     WHERE tenant = (SELECT id FROM tenant WHERE name = ?1) AND listed > 0
                     GROUP BY session, workspace) AS f
                     ON f.session = c.session AND f.workspace = c.workspace
                 WHERE c.tenant = (SELECT id FROM tenant WHERE name = ?1)",
                &values![tenant.as_str()],
            )
            .await
            .map_err(failed)?;
        let mut listed = HashSet::new();
        for row in &rows {
            let workspace: Option<String> = column(row, "workspace")?;
            let session = (column(row, "session")?, workspace.unwrap_or_default());
            let calls = SessionCalls {
                kind: column(row, "kind")?,
                agent: column(row, "agent")?,
                calls: column(row, "calls")?,
                first: column(row, "first_at")?,
                last: column(row, "last_at")?,
            };
            if self.sessions.get(&session) != Some(&calls) {
                let name: Option<&str> = column(row, "name")?;
                let name = name.unwrap_or("?");
                return Ok(Some(format!(
                    "the list of sessions differs from the calls of `{name}`"
                )));
            }
            let facts: [Option<i64>; 3] = [
                column(row, "facts")?,
                column(row, "first_fact")?,
                column(row, "last_fact")?,
            ];
            if facts != [calls.calls, calls.first, calls.last].map(Some) {
                let name: Option<&str> = column(row, "name")?;
                let name = name.unwrap_or("?");
                return Ok(Some(format!(
                    "the list of calls differs from the calls of `{name}`"
                )));
            }
            listed.insert(session);
        }
        let missing = self
            .sessions
            .keys()
            .any(|session| !listed.contains(session));
        Ok(missing.then(|| "a session is missing in the list of sessions".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn range(approvals: &[(&str, u64)], bad: Option<u64>) -> CheckedRange {
        let mut range = CheckedRange::new(TenantId::local(), Arc::new(Signed::default()));
        let approvals = approvals.iter();
        range.approvals = approvals.map(|(id, at)| ((*id).to_owned(), *at)).collect();
        range.finding = bad.map(|position| Finding::new(position, "bad"));
        range
    }

    /// What is wrong with a range by itself and what is wrong next to those before it: the first row
    /// counts.
    #[test]
    fn an_approval_of_two_ranges_is_named_where_it_is_used_again() {
        for (second, bad, expect) in [
            (&[("b", 12)][..], None, None),
            (&[("a", 12)], None, Some(12)),
            (&[("b", 11), ("a", 12)], Some(15), Some(12)),
            (&[("a", 12)], Some(12), Some(12)),
            (&[("a", 12)], Some(11), Some(11)),
        ] {
            let mut rows = Rows::default();
            let tenant = TenantId::local();
            assert!(
                rows.add(&tenant, range(&[("a", 3)], None))
                    .unwrap()
                    .is_none()
            );
            let found = rows.add(&tenant, range(second, bad)).unwrap();
            assert_eq!(found.map(|found| found.position), expect, "{second:?}");
        }
    }
}
