//! Checks the rows of a range of positions by themselves, so that ranges can be checked at the same
//! time. A row's hash covers the one before it, whose hash is stored: only the first row of each chain
//! in a range has to wait for what lies before (`rows.rs`).

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use haft_contract::{
    TenantId,
    host::{LedgerError, Timestamp, Verification},
};

use super::{
    signed::Signed,
    uses::{self, Use},
};
use crate::{
    chain::{ChainName, Head, Link, Verifier, broken},
    reading::{column, failed, unsigned},
    recorded_call,
    row::StoredPrincipal,
    store::{Connection, Row, values},
};

/// Rows read and checked at a time.
const ROWS_A_PAGE: i64 = 500;

/// Calls that begin in one range: so few that what is noted of them is little, so many that little
/// waits for what lies before.
const CALLS_A_RANGE: i64 = 4_096;

/// Positions to check: those above `after`, up to `until`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    after: i64,
    pub(super) until: i64,
}

/// Cuts a tenant's rows into ranges.
#[derive(Debug)]
pub(super) struct Ranges {
    after: i64,
    /// The newest position.
    end: i64,
}

impl Ranges {
    /// All rows up to this position.
    pub(super) fn up_to(end: i64) -> Self {
        Self { after: 0, end }
    }

    /// The next range. It is cut by calls, because positions may be far apart.
    pub(super) async fn next(
        &mut self,
        snapshot: &mut dyn Connection,
        tenant: &TenantId,
    ) -> Result<Option<Range>, LedgerError> {
        if self.after >= self.end {
            return Ok(None);
        }
        let cut: Option<i64> = snapshot
            .scalar(
                "SELECT position FROM record
                 WHERE tenant = (SELECT id FROM tenant WHERE name = ?1) AND part = 0 AND position > ?2
                 ORDER BY position LIMIT 1 OFFSET ?3",
                &values![tenant.as_str(), self.after, CALLS_A_RANGE - 1],
            )
            .await
            .map_err(failed)?;
        let until = cut.unwrap_or(self.end).min(self.end);
        let after = std::mem::replace(&mut self.after, until);
        Ok(Some(Range { after, until }))
    }
}

/// What is wrong, and where. The lowest position is what `verify` reports.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) position: u64,
    /// An error if something there cannot be read at all.
    pub(super) verdict: Result<Verification, LedgerError>,
}

impl Finding {
    pub(super) fn new(position: u64, reason: impl Into<String>) -> Self {
        let verdict = Ok(broken(position, reason));
        Self { position, verdict }
    }
}

/// A chain's rows in a range.
#[derive(Debug)]
pub(super) struct RangeChain {
    /// The first, which is checked once it is known what lies before.
    pub(super) first: Row,
    /// The others, checked.
    pub(super) rest: Verifier,
}

/// The calls of one session, as the list of sessions has them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SessionCalls {
    pub(super) kind: String,
    pub(super) agent: String,
    pub(super) calls: i64,
    pub(super) first: i64,
    pub(super) last: i64,
}

impl SessionCalls {
    /// Adds calls that came later.
    pub(super) fn add(&mut self, later: &Self) {
        self.calls += later.calls;
        self.first = self.first.min(later.first);
        self.last = self.last.max(later.last);
    }
}

/// What the rows of a range say.
#[derive(Debug)]
pub(super) struct CheckedRange {
    tenant: TenantId,
    signed: Arc<Signed>,
    /// The newest row; 0 if there is none.
    pub(super) position: i64,
    pub(super) count: u64,
    pub(super) chains: BTreeMap<String, RangeChain>,
    /// The rows that checkpoints name.
    pub(super) met: Vec<(String, u64)>,
    /// By session and workspace.
    pub(super) sessions: HashMap<(i64, String), SessionCalls>,
    /// The approvals that calls were started with, and where.
    pub(super) approvals: HashMap<String, u64>,
    /// The tools of calls; none for a call that ended.
    pub(super) tools: HashMap<Vec<u8>, Option<String>>,
    /// Calls that were started, and whose tool was named before this range, with their sessions.
    pub(super) starts: Vec<(Vec<u8>, i64)>,
    /// The providers that sessions have used, other than the built-in one.
    pub(super) providers: HashSet<(i64, String)>,
    /// The first row that is wrong. Nothing after it was looked at.
    pub(super) finding: Option<Finding>,
    /// Who asked for the row before, because most rows have the same.
    asked: Option<(String, Option<StoredPrincipal>)>,
}

/// Reads and checks the rows of a range.
pub(super) async fn check(
    connection: &mut dyn Connection,
    tenant: &TenantId,
    signed: &Arc<Signed>,
    range: Range,
) -> Result<CheckedRange, LedgerError> {
    let mut checked = CheckedRange::new(tenant.clone(), Arc::clone(signed));
    let mut after = range.after;
    loop {
        let page = connection
            .query(
                "SELECT r.position, r.session, r.call, r.part, r.listed, r.at, r.terminal, r.sequence,
                     r.form, r.body, r.hash, coalesce(w.name, '') AS writer, p.stored, s.name AS session_name
                 FROM record r LEFT JOIN writer w ON w.id = r.writer
                 LEFT JOIN principal p ON p.id = r.principal AND p.tenant = r.tenant
                 LEFT JOIN session s ON s.id = r.session AND s.tenant = r.tenant
                 WHERE r.tenant = (SELECT id FROM tenant WHERE name = ?1)
                     AND r.position > ?2 AND r.position <= ?3
                 ORDER BY r.position LIMIT ?4",
                &values![tenant.as_str(), after, range.until, ROWS_A_PAGE],
            )
            .await
            .map_err(failed)?;
        let Some(last) = page.last() else {
            return Ok(checked);
        };
        after = column(last, "position")?;
        // Hashing does not belong on the threads that serve others.
        let hashed = tokio::task::spawn_blocking(move || {
            checked.add(&page);
            checked
        });
        checked = hashed.await.map_err(|_| super::gave_up())?;
        if checked.finding.is_some() {
            return Ok(checked);
        }
    }
}

/// A row in hashed form.
pub(super) fn link<'a>(
    tenant: &'a TenantId,
    stored: &'a str,
    row: &'a Row,
) -> Result<Link<'a>, LedgerError> {
    Ok(Link {
        chain: ChainName {
            tenant: tenant.as_str(),
            writer: column(row, "writer")?,
        },
        sequence: unsigned(column(row, "sequence")?),
        call: column(row, "call")?,
        part: column(row, "part")?,
        listed: column(row, "listed")?,
        principal: stored,
        at: column(row, "at")?,
        terminal: column::<Option<i64>>(row, "terminal")?.unwrap_or(0),
        form: column(row, "form")?,
        body: column(row, "body")?,
    })
}

impl CheckedRange {
    pub(super) fn new(tenant: TenantId, signed: Arc<Signed>) -> Self {
        Self {
            tenant,
            signed,
            position: 0,
            count: 0,
            chains: BTreeMap::new(),
            met: Vec::new(),
            sessions: HashMap::new(),
            approvals: HashMap::new(),
            tools: HashMap::new(),
            starts: Vec::new(),
            providers: HashSet::new(),
            finding: None,
            asked: None,
        }
    }

    /// Checks rows, up to the first that is wrong.
    fn add(&mut self, page: &[Row]) {
        for row in page {
            let before = self.position;
            let added = self.next(row).unwrap_or_else(|error| {
                // A position that cannot be read is above the one before.
                let position = unsigned(self.position.max(before + 1));
                let verdict = Err(error);
                Err(Finding { position, verdict })
            });
            if let Err(finding) = added {
                self.finding = Some(finding);
                return;
            }
        }
    }

    /// Checks one row; the inner error is what `verify` reports.
    fn next(&mut self, row: &Row) -> Result<Result<(), Finding>, LedgerError> {
        self.position = column(row, "position")?;
        let position = unsigned(self.position);
        let bad = |reason: &str| Ok(Err(Finding::new(position, reason)));
        let stored: Option<&str> = column(row, "stored")?;
        let Some(stored) = stored else {
            return bad("who asked is missing");
        };
        let terminal: Option<i64> = column(row, "terminal")?;
        if terminal.is_some_and(|number| recorded_call::terminal_from(number).is_none()) {
            return bad("its outcome is not a known one");
        }
        let tenant = self.tenant.clone();
        let link = link(&tenant, stored, row)?;
        let hash: &[u8] = column(row, "hash")?;
        let writer = link.chain.writer;
        if let Some(chain) = self.chains.get_mut(writer) {
            if let Err(found) = chain.rest.next(position, &link, hash) {
                let verdict = Ok(found);
                return Ok(Err(Finding { position, verdict }));
            }
        } else {
            let head = Head {
                sequence: link.sequence,
                // One of the wrong length is not the row's; that is noticed when it is checked.
                hash: hash.try_into().unwrap_or_default(),
            };
            let chain = RangeChain {
                first: row.clone(),
                rest: Verifier::after(head, position),
            };
            self.chains.insert(writer.to_owned(), chain);
        }
        if let Some(expect) = self.signed.at(writer, link.sequence) {
            if expect != hash {
                return bad("it differs from what was signed in a checkpoint");
            }
            self.met.push((writer.to_owned(), link.sequence));
        }
        self.count += 1;
        // What is not in the hash must agree with what is.
        let session: Option<&str> = column(row, "session_name")?;
        if session != self.asked(stored).map(|who| who.session.as_str()) {
            return bad("its session is not the one that was written");
        }
        self.fold(&link, row)
    }

    /// Who asked, in stored form; none if it cannot be understood.
    fn asked(&mut self, stored: &str) -> Option<&StoredPrincipal> {
        if self.asked.as_ref().is_none_or(|(text, _)| text != stored) {
            self.asked = Some((stored.to_owned(), serde_json::from_str(stored).ok()));
        }
        self.asked.as_ref().and_then(|(_, who)| who.as_ref())
    }

    fn fold(&mut self, link: &Link<'_>, row: &Row) -> Result<Result<(), Finding>, LedgerError> {
        let position = unsigned(self.position);
        let session: i64 = column(row, "session")?;
        let used = uses::of(link.form, Timestamp(link.at), link.body);
        if link.part == recorded_call::FIRST_PART {
            if link.listed != self.position {
                let reason = "it was moved after it was written";
                return Ok(Err(Finding::new(position, reason)));
            }
            let Some(who) = self.asked(link.principal) else {
                let reason = "it is not clear who asked";
                return Ok(Err(Finding::new(position, reason)));
            };
            let (kind, agent) = (who.session_kind.clone(), who.agent.clone());
            let workspace = used.iter().find_map(|used| match used {
                Use::Workspace(workspace) => Some(workspace.clone()),
                Use::Tool(_) | Use::Started { .. } => None,
            });
            let calls = self
                .sessions
                .entry((session, workspace.unwrap_or_default()));
            let calls = calls.or_insert_with(|| SessionCalls {
                kind,
                agent,
                calls: 0,
                first: link.at,
                last: link.at,
            });
            calls.calls += 1;
            calls.first = calls.first.min(link.at);
            calls.last = calls.last.max(link.at);
        }
        for used in used {
            match used {
                Use::Workspace(_) => {}
                Use::Tool(tool) => {
                    self.tools.insert(link.call.to_vec(), Some(tool));
                }
                Use::Started { approval } => {
                    match self.tools.get(link.call) {
                        Some(tool) => {
                            let provider = uses::provider_of(tool.as_deref());
                            let used = provider.map(|provider| (session, provider.to_owned()));
                            self.providers.extend(used);
                        }
                        None => self.starts.push((link.call.to_vec(), session)),
                    }
                    let Some(approval) = approval else {
                        continue;
                    };
                    if self.approvals.contains_key(&approval) {
                        return Ok(Err(used_twice(position, &approval)));
                    }
                    self.approvals.insert(approval, position);
                }
            }
        }
        if link.terminal > 0 {
            if link.part == recorded_call::FIRST_PART {
                self.tools.remove(link.call);
            } else {
                self.tools.insert(link.call.to_vec(), None);
            }
        }
        Ok(Ok(()))
    }
}

/// An approval starts one call.
pub(super) fn used_twice(position: u64, approval: &str) -> Finding {
    let reason = format!("more than one call was started with approval `{approval}`");
    Finding::new(position, reason)
}
