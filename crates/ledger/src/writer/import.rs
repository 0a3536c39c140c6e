//! Writes rows of another record into this one, all of them in one transaction or none.
//!
//! They are written as a process of its own would write them: under a name that nobody else holds, in
//! that name's chain, signed with this record's key. Positions are this record's, and with them where a
//! call is listed. Nothing of the other record is taken on trust: names, uses of approvals and
//! providers are read from the rows.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use haft_contract::{
    CallEvent, CallId, ErrorKind, Facts, Outcome, Principal, ProviderId, SessionId, TenantId,
    Terminal, event::RecordedEvent, host::Timestamp, outcome::Failure,
};
use uuid::Uuid;

use super::{
    chains::Chains,
    recover,
    write::{APPROVAL_USED, INSERT_ROW, PROVIDER_USED, WriteError, stored_sequence},
};
use crate::{
    body::Events,
    chain::{ChainName, Hash, Head, Link},
    checkpoint::{self, CheckpointBy},
    convert,
    directory::PrivateDirectory,
    high_water::HighWater,
    history::verify::uses::{self, Use},
    names::{Names, PrincipalIds},
    owner::{self, WriterLock},
    queue::unavailable,
    recorded_call::{self, FIRST_PART, LAST_PART},
    redact::Redactor,
    store::{Connection, Scope, Store, StoreError, Value, values},
    transfer_error::TransferError,
    transfer_row::{Imported, TransferRow},
    used_marks::UsedMarks,
};

/// The most calls of an import that are open at once: each is remembered until it ends.
const MAX_OPEN: usize = 1 << 20;

/// A row, and who asked.
pub(crate) type ImportRow = (TransferRow, Arc<Principal>);

/// Where an import goes.
pub(crate) struct ImportTarget {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) directory: Arc<PrivateDirectory>,
    pub(crate) key: [u8; 32],
    pub(crate) mark: Arc<HighWater>,
    pub(crate) used_marks: Arc<UsedMarks>,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) now: Timestamp,
}

/// An import under way. Dropping it undoes it.
pub(crate) struct RecordImport {
    target: ImportTarget,
    connection: Box<dyn Connection>,
    tenant: TenantId,
    /// The tenant's number, once a row has been written.
    tenant_number: Option<i64>,
    /// The name it writes under; nobody else has it meanwhile.
    _lock: WriterLock,
    chains: Chains,
    names: Names,
    /// The newest position before the import.
    base: i64,
    /// Positions for the next rows.
    positions: VecDeque<i64>,
    /// Calls that have not ended so far.
    open: HashMap<Uuid, OpenImport>,
    /// Sessions that have used a provider.
    sessions: HashSet<(TenantId, SessionId)>,
    /// The signed ends of the tenants that are done.
    heads: Vec<(TenantId, Head)>,
    imported: Imported,
}

/// A call that has not ended so far.
struct OpenImport {
    ids: PrincipalIds,
    listed: i64,
    tool: Option<String>,
}

/// A row in its place of this record.
struct NewRow<'a> {
    ids: PrincipalIds,
    position: i64,
    call: Uuid,
    part: i64,
    listed: i64,
    at: i64,
    terminal: Option<i64>,
    sequence: u64,
    form: i64,
    body: &'a [u8],
    hash: Hash,
}

impl RecordImport {
    /// Begins the transaction with the rows of a tenant, in a scope that has it. On an engine with one
    /// writer at a time it keeps every other one out.
    pub(crate) async fn begin(
        target: ImportTarget,
        tenant: &TenantId,
        scope: Scope<'_>,
    ) -> Result<Self, TransferError> {
        let locks = owner::free_writers(&target.directory);
        let mut locks = locks.map_err(|error| unavailable(&error.to_string()))?;
        let lock = locks.swap_remove(0);
        let mut opened = target.store.writer().await.map_err(failed)?;
        let connection = &mut *opened;
        connection.begin().await.map_err(failed)?;
        connection.act_for(scope).await.map_err(failed)?;
        let number = recover::register(connection, lock.name(), target.now)
            .await
            .map_err(failed)?;
        if !connection.hold_writer(number).await.map_err(failed)? {
            return Err(unavailable("another process writes under the same name").into());
        }
        let base = connection
            .number("SELECT coalesce(max(position), 0) FROM record", &[])
            .await
            .map_err(failed)?;
        Ok(Self {
            target,
            connection: opened,
            tenant: tenant.clone(),
            tenant_number: None,
            // A checkpoint is written at the end, and not in between.
            chains: Chains::new(lock.name().to_owned(), number, u64::MAX),
            _lock: lock,
            names: Names::default(),
            base,
            positions: VecDeque::new(),
            open: HashMap::new(),
            sessions: HashSet::new(),
            heads: Vec::new(),
            imported: Imported::default(),
        })
    }

    /// The transaction, for what is not a row of the record.
    pub(crate) fn connection(&mut self) -> &mut dyn Connection {
        &mut *self.connection
    }

    /// Goes on with the rows of another tenant.
    pub(crate) async fn turn_to(&mut self, tenant: &TenantId) -> Result<(), TransferError> {
        self.end_tenant().await?;
        self.tenant = tenant.clone();
        Ok(())
    }

    /// Leaves these calls open, because somebody will claim them. Returns the others that have no end.
    pub(crate) fn leave_open(&mut self, claimable: &HashSet<Uuid>) -> Vec<Uuid> {
        self.open.retain(|call, _| !claimable.contains(call));
        self.open.keys().copied().collect()
    }

    /// Writes rows, which were checked. `may_begin_before` if calls may have begun before the first
    /// row of all: what is left of those is left out.
    pub(crate) async fn write(
        &mut self,
        rows: &[ImportRow],
        may_begin_before: bool,
    ) -> Result<(), TransferError> {
        let mut new = Vec::with_capacity(rows.len());
        self.take_positions(rows.len()).await?;
        for (row, asked) in rows {
            let listed = if row.part == FIRST_PART {
                self.positions.front().copied()
            } else if let Some(open) = self.open.get(&row.call) {
                Some(open.listed)
            } else {
                // What it follows may be among those that are to be inserted.
                self.insert(&new).await?;
                new.clear();
                self.listed(row, may_begin_before).await?
            };
            let Some(listed) = listed else {
                self.imported.left_out += 1;
                continue;
            };
            let ids = self.names.of(&mut *self.connection, asked).await;
            let ids = ids.map_err(failed)?;
            new.push(self.placed(ids.clone(), row, listed).await?);
            if let Err(error) = self.note(row, asked, &ids, listed).await {
                // That a call is here already says more than that its approval is.
                self.insert(&new).await?;
                return Err(error);
            }
        }
        self.insert(&new).await
    }

    /// Takes positions for this many rows. All rows before are inserted by then.
    async fn take_positions(&mut self, rows: usize) -> Result<(), TransferError> {
        let positions = self.connection.next_positions(rows).await;
        self.positions = positions.map_err(failed)?.into();
        Ok(())
    }

    /// Where the call of a later row is listed, if it is over; none if it is left out.
    async fn listed(
        &mut self,
        row: &TransferRow,
        may_begin_before: bool,
    ) -> Result<Option<i64>, TransferError> {
        let listed: Option<i64> = self
            .connection
            .scalar(
                "SELECT listed FROM record
                 WHERE tenant = (SELECT id FROM tenant WHERE name = ?1) AND call = ?2 AND part = 0",
                &values![self.tenant.as_str(), row.call.as_bytes()],
            )
            .await
            .map_err(failed)?;
        match listed {
            Some(listed) if listed <= self.base => Err(recorded_already(row.call)),
            Some(listed) if row.part > LAST_PART => Ok(Some(listed)),
            Some(_) => Err(bad(row, "it follows the end of its call")),
            // What a claim that was superseded reports may be of a call that is not there.
            None if may_begin_before || row.part > LAST_PART => Ok(None),
            None => Err(bad(row, "its call does not begin before it")),
        }
    }

    /// Notes what a row says: whether its call is open, and what it has used.
    async fn note(
        &mut self,
        row: &TransferRow,
        asked: &Principal,
        ids: &PrincipalIds,
        listed: i64,
    ) -> Result<(), TransferError> {
        self.tenant_number = Some(ids.tenant);
        let known = self.open.get(&row.call);
        let mut tool = known.and_then(|open| open.tool.clone());
        for used in uses::of(row.form, Timestamp(row.at), &row.body) {
            match used {
                Use::Workspace(_) => {}
                Use::Tool(named) => tool = Some(named),
                Use::Started { approval } => {
                    if let Some(provider) = uses::provider_of(tool.as_deref()) {
                        self.note_provider(row, asked, ids, provider).await?;
                    }
                    if let Some(approval) = approval {
                        self.note_approval(row, &approval).await?;
                    }
                }
            }
        }
        if row.part == FIRST_PART {
            self.imported.calls += 1;
        }
        if row.terminal.is_some() {
            self.open.remove(&row.call);
        } else if let Some(open) = self.open.get_mut(&row.call) {
            open.tool = tool;
        } else if row.part == FIRST_PART {
            if self.open.len() >= MAX_OPEN {
                return Err(bad(row, "too many calls are open at once"));
            }
            let ids = ids.clone();
            let open = OpenImport { ids, listed, tool };
            self.open.insert(row.call, open);
        }
        Ok(())
    }

    async fn note_provider(
        &mut self,
        row: &TransferRow,
        asked: &Principal,
        ids: &PrincipalIds,
        provider: &str,
    ) -> Result<(), TransferError> {
        if ProviderId::parse(provider).is_err() {
            return Err(bad(row, "its tool is not valid"));
        }
        let values = values![ids.tenant, ids.session, provider];
        let noted = self.connection.execute(PROVIDER_USED, values).await;
        noted.map_err(failed)?;
        let session = (self.tenant.clone(), asked.session.clone());
        self.sessions.insert(session);
        Ok(())
    }

    /// An approval starts one call, whichever record it was given in.
    async fn note_approval(
        &mut self,
        row: &TransferRow,
        approval: &str,
    ) -> Result<(), TransferError> {
        if Uuid::parse_str(approval).is_err() {
            return Err(bad(row, "its approval is not valid"));
        }
        let tenant = self.tenant.as_str();
        let known = self
            .connection
            .number(
                "SELECT (SELECT count(*) FROM approval_used WHERE tenant = ?1 AND approval = ?2)
                      + (SELECT count(*) FROM approval WHERE tenant = ?1 AND id = ?2)",
                &values![tenant, approval],
            )
            .await
            .map_err(failed)?;
        if known > 0 {
            let message = format!("approval `{approval}` is of this record, or was used twice");
            return Err(TransferError::Conflict(message));
        }
        let values = values![tenant, approval, row.call.as_bytes()];
        let noted = self.connection.execute(APPROVAL_USED, values).await;
        noted.map_err(failed)?;
        Ok(())
    }

    /// A row in its place, at the end of the chain.
    async fn placed<'a>(
        &mut self,
        ids: PrincipalIds,
        row: &'a TransferRow,
        listed: i64,
    ) -> Result<NewRow<'a>, TransferError> {
        let writer = self.chains.name().to_owned();
        let key = &self.target.key;
        let connection = &mut *self.connection;
        let chain = self.chains.of(connection, &self.tenant, ids.tenant, key);
        let chain = chain
            .await
            .map_err(|error| unavailable(&super::reason(&error)))?;
        let sequence = chain.head.next();
        let link = Link {
            chain: ChainName {
                tenant: self.tenant.as_str(),
                writer: &writer,
            },
            sequence,
            call: row.call.as_bytes(),
            part: row.part,
            listed,
            principal: &ids.stored,
            at: row.at,
            terminal: row.terminal.unwrap_or(0),
            form: row.form,
            body: &row.body,
        };
        chain.head.advance(&link);
        let hash = chain.head.hash;
        let position = self.positions.pop_front();
        let position = position.ok_or_else(|| unavailable("a row has no position"))?;
        self.imported.records += 1;
        Ok(NewRow {
            ids,
            position,
            call: row.call,
            part: row.part,
            listed,
            at: row.at,
            terminal: row.terminal,
            sequence,
            form: row.form,
            body: &row.body,
            hash,
        })
    }

    async fn insert(&mut self, rows: &[NewRow<'_>]) -> Result<(), TransferError> {
        if rows.is_empty() {
            return Ok(());
        }
        let writer = self.chains.writer();
        let values: Vec<Vec<Value<'_>>> = rows
            .iter()
            .map(|row| {
                values![
                    row.position,
                    row.ids.tenant,
                    row.ids.session,
                    row.ids.principal,
                    row.call.as_bytes(),
                    row.part,
                    row.listed,
                    row.at,
                    row.terminal,
                    writer,
                    stored_sequence(row.sequence),
                    row.form,
                    row.body,
                    &row.hash,
                ]
                .to_vec()
            })
            .collect();
        let inserted = self.connection.execute_all(INSERT_ROW, &values).await;
        if inserted.map_err(failed)? == rows.len() as u64 {
            return Ok(());
        }
        for row in rows {
            let there = self
                .connection
                .number(
                    "SELECT count(*) FROM record WHERE position = ?1",
                    &values![row.position],
                )
                .await
                .map_err(failed)?;
            if there == 0 {
                return Err(recorded_already(row.call));
            }
        }
        Err(unavailable("a row is missing").into())
    }

    /// Ends calls of the last tenant that have no end in the import, and commits.
    pub(crate) async fn commit(mut self) -> Result<Imported, TransferError> {
        self.end_open_calls().await?;
        self.end_tenant().await?;
        self.connection.commit().await.map_err(failed)?;
        if self.heads.is_empty() {
            return Ok(self.imported);
        }
        if let Err(error) = self.target.mark.raise(self.chains.name(), &self.heads) {
            tracing::warn!(%error, "the record's high-water mark could not be written");
        }
        for (tenant, session) in &self.sessions {
            if let Err(error) = self.target.used_marks.change(tenant, session) {
                tracing::error!(%error, "what a session has read from is not announced");
            }
        }
        Ok(self.imported)
    }

    /// Signs the end of the tenant's chain, if something was written to it.
    async fn end_tenant(&mut self) -> Result<(), TransferError> {
        let Some(number) = self.tenant_number.take() else {
            return Ok(());
        };
        let (connection, key) = (&mut *self.connection, &self.target.key);
        let heads = self.chains.sign(connection, key).await.map_err(failed)?;
        self.heads.extend(heads);
        let by = CheckpointBy {
            writer: (self.chains.name(), self.chains.writer()),
            tenant: (&self.tenant, number),
        };
        checkpoint::write(connection, by, key).await.map_err(failed)
    }

    /// Nobody is left to say how they ended.
    async fn end_open_calls(&mut self) -> Result<(), TransferError> {
        let mut open: Vec<(Uuid, OpenImport)> = self.open.drain().collect();
        open.sort_by_key(|(_, open)| open.listed);
        self.take_positions(open.len()).await?;
        for (call, open) in open {
            let (form, body) = unknown_end(call, self.target.now, &self.target.redactor);
            let row = TransferRow {
                position: 0,
                writer: Arc::from(""),
                sequence: 0,
                call,
                part: LAST_PART,
                listed: open.listed,
                principal: Arc::clone(&open.ids.stored),
                at: self.target.now.0,
                terminal: Some(recorded_call::terminal_number(Terminal::Unknown)),
                form,
                body,
                hash: [0; 32],
            };
            let new = self.placed(open.ids, &row, open.listed).await?;
            self.insert(&[new]).await?;
            self.imported.unknown += 1;
        }
        Ok(())
    }
}

/// The body of the last row of a call whose end was not exported.
fn unknown_end(call: Uuid, at: Timestamp, redactor: &Redactor) -> (i64, Vec<u8>) {
    let call = CallId::from(call);
    let outcome = Outcome {
        call,
        tool: None,
        terminal: Terminal::Unknown,
        content: Vec::new(),
        structured: None,
        error: Some(Failure {
            kind: ErrorKind::Unavailable,
            message: "this call was imported, and was still open when it was exported".to_owned(),
            at: None,
            hint: Some("the record it was exported from has its end".to_owned()),
        }),
        facts: Facts::default(),
    };
    let mut events = Events::default();
    let settled = RecordedEvent {
        call,
        at,
        event: CallEvent::Settled {
            outcome: Arc::new(outcome),
        },
    };
    convert::event(&mut events, "settled", &settled, redactor);
    let (form, body) = events.body();
    (form.number(), body)
}

fn bad(row: &TransferRow, reason: &str) -> TransferError {
    TransferError::Broken {
        position: u64::try_from(row.position).unwrap_or(0),
        reason: reason.to_owned(),
    }
}

fn recorded_already(call: Uuid) -> TransferError {
    let call = CallId::from(call);
    TransferError::Conflict(format!("call {call} is recorded already"))
}

fn failed(error: StoreError) -> TransferError {
    unavailable(&super::reason(&WriteError::Database(error))).into()
}
