//! Carries a whole record from one store to another: every tenant's rows, and everything else it has.
//!
//! It is one transaction, so a database that it is carried to has all of it or nothing, however the
//! process ends. What was carried is read again and compared, and both records are checked, before
//! anybody is told to use the other one.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fmt,
    fs::File,
};

use haft_contract::{CallId, TenantId, host::Verification};
use serde::Serialize;
use uuid::Uuid;

use super::{
    TransferCheck, TransferError,
    source::TransferSource,
    tables::{self, ACCEPTED, GRANTS, QUESTIONS, SEEN, TABLES, TableDigest, failed},
};
use crate::{
    ledger::StoredLedger,
    open_error::OpenError,
    owner,
    queue::unavailable,
    reading::corrupt,
    store::{Connection, Scope, Store, values},
    transfer_row::{MigrationSource, TransferRow},
    writer::{self, import::RecordImport},
};

/// How many calls or processes an error names.
const MAX_NAMED: i64 = 5;

/// What is being done, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationStep {
    /// The record is checked.
    CheckingSource,
    /// It is written to where it is carried.
    Carrying,
    /// What arrived is checked.
    CheckingTarget,
}

/// What was carried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Migrated {
    /// Whose records.
    pub tenants: u64,
    /// Rows of the record.
    pub records: u64,
    /// Calls.
    pub calls: u64,
    /// Questions to people, open and answered.
    pub questions: u64,
    /// Standing approvals.
    pub grants: u64,
    /// Calls that were accepted for whoever claims them.
    pub accepted: u64,
    /// Versions of files that were seen in a session.
    pub seen: u64,
    /// Whether all of it was there already, because an earlier run had carried it.
    pub was_there: bool,
}

impl fmt::Display for Migrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |number: u64, what: &str| match number {
            1 => format!("1 {what}"),
            _ => format!("{number} {what}s"),
        };
        write!(
            f,
            "{} in {}, {}, {}, {} and {}",
            count(self.calls, "call"),
            count(self.records, "record"),
            count(self.questions, "question"),
            count(self.grants, "standing approval"),
            count(self.accepted, "accepted call"),
            count(self.seen, "seen file version"),
        )?;
        if self.tenants > 1 {
            write!(f, " of {} tenants", self.tenants)?;
        }
        f.write_str(if self.was_there {
            " were carried before and are unchanged"
        } else {
            " were carried and checked"
        })
    }
}

/// Tells how far it is: what is being done, what was reached, and where that ends.
type Progress<'a> = &'a (dyn Fn(MigrationStep, u64, u64) + Send + Sync);

impl StoredLedger {
    /// Carries this whole record to another ledger, which must be empty or have the same from an earlier
    /// run, and must sign with the same key. Nobody else may use this record meanwhile; processes that
    /// open it wait.
    ///
    /// All of it is carried or nothing, and this record stays as it is. Artifacts are files beside both.
    pub async fn migrate_to(
        &self,
        target: &Self,
        progress: Progress<'_>,
    ) -> Result<Migrated, TransferError> {
        // What was appended here is in the store before anybody looks.
        self.settled_store().await;
        let (from, to) = (self.migration_source(), target.migration_source());
        if from.names.path() == to.names.path() {
            return Err(TransferError::SameRecord);
        }
        if from.key != to.key {
            return Err(TransferError::DifferentKeys);
        }
        let mut held = HeldRecord::hold(&from).await?;
        let tenants = tenants(&*from.store).await?;
        for tenant in &tenants {
            verified(self, tenant, MigrationStep::CheckingSource, progress).await?;
        }
        let expect = RecordDigest::of(&*from.store, &tenants).await?;
        let was_there = !is_empty(&*to.store).await?;
        if !was_there {
            carry(&from, target, &tenants, progress).await?;
        }
        // Those of the target may be others, if it was not empty.
        let arrived = self::tenants(&*to.store).await?;
        let there = RecordDigest::of(&*to.store, &arrived).await?;
        if let Some(difference) = expect.difference(&there) {
            return Err(if was_there {
                TransferError::NotEmpty(difference)
            } else {
                TransferError::Differs(difference)
            });
        }
        for tenant in &arrived {
            verified(target, tenant, MigrationStep::CheckingTarget, progress).await?;
        }
        held.check_again().await?;
        Ok(expect.migrated(tenants.len() as u64, was_there))
    }
}

/// What keeps others from a record while it is carried: whoever opens it on this machine waits for the
/// turn, and names of writers are held that a database tells other machines of.
struct HeldRecord {
    _turn: File,
    connection: Box<dyn Connection>,
    /// The name of the one that carries it.
    own: String,
    writers: Vec<OtherWriter>,
}

/// Somebody else who writes the record, or did.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OtherWriter {
    id: i64,
    name: String,
    pid: i64,
    opened_at: i64,
}

impl HeldRecord {
    /// Refuses if somebody uses the record.
    async fn hold(record: &MigrationSource) -> Result<Self, TransferError> {
        let turn = writer::opening_turn(&record.directory).await;
        let turn = turn.map_err(|error| match error {
            OpenError::Busy => TransferError::InUse("another process is opening it".to_owned()),
            other => unavailable(&other.to_string()).into(),
        })?;
        let held = owner::held_writers(&record.names, &record.writer);
        let held: HashSet<String> = held
            .map_err(|error| unavailable(&error.to_string()))?
            .into_iter()
            .collect();
        let mut connection = record.store.writer().await.map_err(failed)?;
        connection.act_for(Scope::Every).await.map_err(failed)?;
        let writers = other_writers(&mut *connection, &record.writer).await?;
        let mut users = Vec::new();
        for OtherWriter { id, name, pid, .. } in &writers {
            if held.contains(name) || !connection.hold_writer(*id).await.map_err(failed)? {
                users.push(format!("by process {pid}"));
            }
        }
        let running = running_calls(&mut *connection).await?;
        if !users.is_empty() {
            let more = if running.is_empty() {
                String::new()
            } else {
                format!("; calls that are running: {running}")
            };
            return Err(TransferError::InUse(format!("{}{more}", users.join(", "))));
        }
        if !running.is_empty() {
            return Err(TransferError::StillRunning(running));
        }
        Ok(Self {
            _turn: turn,
            connection,
            own: record.writer.clone(),
            writers,
        })
    }

    /// Whether somebody has opened the record meanwhile: another machine does not see whose turn it is.
    async fn check_again(&mut self) -> Result<(), TransferError> {
        let writers = other_writers(&mut *self.connection, &self.own).await?;
        match writers.iter().find(|writer| !self.writers.contains(writer)) {
            Some(OtherWriter { pid, .. }) => {
                let said = format!("process {pid} has opened it meanwhile");
                Err(TransferError::Differs(said))
            }
            None => Ok(()),
        }
    }
}

/// Everybody else who writes a record, or did.
async fn other_writers(
    connection: &mut dyn Connection,
    own: &str,
) -> Result<Vec<OtherWriter>, TransferError> {
    let rows = connection
        .query(
            "SELECT id, name, pid, opened_at FROM writer WHERE name <> ?1 ORDER BY id",
            &values![own],
        )
        .await
        .map_err(failed)?;
    let mut writers = Vec::with_capacity(rows.len());
    for row in &rows {
        writers.push(OtherWriter {
            id: row.get("id").map_err(failed)?,
            name: row.get("name").map_err(failed)?,
            pid: row.get("pid").map_err(failed)?,
            opened_at: row.get("opened_at").map_err(failed)?,
        });
    }
    Ok(writers)
}

/// Calls that a process runs, for people.
async fn running_calls(connection: &mut dyn Connection) -> Result<String, TransferError> {
    let rows = connection
        .query(
            "SELECT call FROM open_call ORDER BY listed LIMIT ?1",
            &values![MAX_NAMED + 1],
        )
        .await
        .map_err(failed)?;
    let mut calls = Vec::with_capacity(rows.len());
    for row in &rows {
        let call = Uuid::from_slice(row.get("call").map_err(failed)?);
        calls.push(call.map_err(|_| corrupt("a call's id"))?);
    }
    Ok(named(&calls))
}

/// Some calls, for people.
fn named(calls: &[Uuid]) -> String {
    let most = usize::try_from(MAX_NAMED).unwrap_or_default();
    let mut named: Vec<String> = calls
        .iter()
        .take(most)
        .map(|call| CallId::from(*call).to_string())
        .collect();
    if calls.len() > most {
        named.push("and more".to_owned());
    }
    named.join(", ")
}

/// Everybody who has something in a record.
async fn tenants(store: &dyn Store) -> Result<Vec<TenantId>, TransferError> {
    let mut reader = store.reader(Scope::Every).await.map_err(failed)?;
    let rows = reader
        .query(
            "SELECT name FROM tenant UNION SELECT tenant FROM approval UNION SELECT tenant FROM grant_rule
             UNION SELECT tenant FROM accepted UNION SELECT tenant FROM seen
             UNION SELECT tenant FROM memory UNION SELECT tenant FROM memory_source",
            &[],
        )
        .await
        .map_err(failed)?;
    let mut tenants = BTreeSet::new();
    for row in &rows {
        let name: &str = row.get("name").map_err(failed)?;
        tenants.insert(TenantId::parse(name).map_err(|_| corrupt("a tenant's name"))?);
    }
    Ok(tenants.into_iter().collect())
}

/// Whether a record has nothing that would be mixed with what is carried.
async fn is_empty(store: &dyn Store) -> Result<bool, TransferError> {
    let mut reader = store.reader(Scope::Every).await.map_err(failed)?;
    for table in TABLES.iter().map(|table| table.name()).chain(["record"]) {
        let row = reader
            .optional(&format!("SELECT tenant FROM {table} LIMIT 1"), &[])
            .await
            .map_err(failed)?;
        if row.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Checks a tenant's record as `verify` does.
async fn verified(
    ledger: &StoredLedger,
    tenant: &TenantId,
    step: MigrationStep,
    progress: Progress<'_>,
) -> Result<(), TransferError> {
    let reached = |reached, newest| progress(step, reached, newest);
    match ledger.verify_with(tenant, &reached).await? {
        Verification::Intact { .. } => Ok(()),
        Verification::Broken { sequence, reason } => Err(TransferError::Broken {
            position: sequence,
            reason,
        }),
    }
}

/// Writes everything in one transaction.
async fn carry(
    from: &MigrationSource,
    target: &StoredLedger,
    tenants: &[TenantId],
    progress: Progress<'_>,
) -> Result<(), TransferError> {
    let Some(first) = tenants.first() else {
        return Ok(());
    };
    let into = target.import_target();
    let mut import = RecordImport::begin(into, first, Scope::Every).await?;
    for tenant in tenants {
        import.turn_to(tenant).await?;
        let (mut source, begin) = TransferSource::open(&*from.store, tenant, None).await?;
        let newest = u64::try_from(source.newest).unwrap_or(0);
        let mut check = TransferCheck::new(&begin)?;
        loop {
            let rows = source.next().await?;
            let Some(last) = rows.last() else {
                break;
            };
            let reached = u64::try_from(last.position).unwrap_or(0);
            let mut checked = Vec::with_capacity(rows.len());
            for row in rows {
                let asked = check.row(&row)?;
                checked.push((row, asked));
            }
            import.write(&checked, false).await?;
            progress(MigrationStep::Carrying, reached, newest);
        }
        check.end(&source.end().await?, Some(&from.key))?;
        let open = import.leave_open(&claimable(&*from.store, tenant).await?);
        if !open.is_empty() {
            return Err(TransferError::StillRunning(named(&open)));
        }
    }
    for table in TABLES {
        tables::carry(&*from.store, table, &from.key, import.connection()).await?;
    }
    import.commit().await?;
    Ok(())
}

/// Calls that were accepted, and that somebody will claim.
async fn claimable(store: &dyn Store, tenant: &TenantId) -> Result<HashSet<Uuid>, TransferError> {
    let mut reader = store.reader(Scope::Every).await.map_err(failed)?;
    let rows = reader
        .query(
            "SELECT call FROM accepted WHERE tenant = ?1 AND request IS NOT NULL",
            &values![tenant.as_str()],
        )
        .await
        .map_err(failed)?;
    let mut calls = HashSet::with_capacity(rows.len());
    for row in &rows {
        let call = Uuid::from_slice(row.get("call").map_err(failed)?);
        calls.insert(call.map_err(|_| corrupt("a call's id"))?);
    }
    Ok(calls)
}

/// Everything a record has, without the numbers that are a database's own.
struct RecordDigest {
    rows: BTreeMap<TenantId, RowsDigest>,
    tables: [TableDigest; TABLES.len()],
}

#[derive(Default, PartialEq, Eq)]
struct RowsDigest {
    rows: u64,
    calls: u64,
    hash: [u8; 32],
}

impl RecordDigest {
    async fn of(store: &dyn Store, tenants: &[TenantId]) -> Result<Self, TransferError> {
        let mut digest = Self {
            rows: BTreeMap::new(),
            tables: Default::default(),
        };
        for tenant in tenants {
            let rows = RowsDigest::of(store, tenant).await?;
            if rows.rows > 0 {
                digest.rows.insert(tenant.clone(), rows);
            }
        }
        for (table, found) in TABLES.iter().zip(&mut digest.tables) {
            *found = tables::digest(store, table).await?;
        }
        Ok(digest)
    }

    /// What the other one has that differs, for people.
    fn difference(&self, other: &Self) -> Option<String> {
        let count = |digest: &Self| digest.rows.values().map(|rows| rows.rows).sum::<u64>();
        if self.rows != other.rows {
            let (here, there) = (count(self), count(other));
            return Some(format!("{there} records are there, {here} should be"));
        }
        let tables = TABLES.iter().zip(self.tables.iter().zip(&other.tables));
        let differs =
            |(table, (here, there)): (&&tables::CarriedTable, (&TableDigest, &TableDigest))| {
                (here != there).then(|| format!("{} is not the same", table.what()))
            };
        tables.into_iter().find_map(differs)
    }

    fn migrated(&self, tenants: u64, was_there: bool) -> Migrated {
        let rows = |wanted: &tables::CarriedTable| {
            let mut tables = TABLES.iter().zip(&self.tables);
            tables
                .find(|(table, _)| table.what() == wanted.what())
                .map_or(0, |(_, digest)| digest.rows)
        };
        Migrated {
            tenants,
            records: self.rows.values().map(|tenant| tenant.rows).sum(),
            calls: self.rows.values().map(|tenant| tenant.calls).sum(),
            questions: rows(&QUESTIONS),
            grants: rows(&GRANTS),
            accepted: rows(&ACCEPTED),
            seen: rows(&SEEN),
            was_there,
        }
    }
}

impl RowsDigest {
    async fn of(store: &dyn Store, tenant: &TenantId) -> Result<Self, TransferError> {
        let (mut source, _) = TransferSource::open(store, tenant, None).await?;
        let mut hasher = blake3::Hasher::new();
        let mut digest = Self::default();
        loop {
            let rows = source.next().await?;
            if rows.is_empty() {
                break;
            }
            for row in &rows {
                digest.rows += 1;
                digest.calls += u64::from(row.part == 0);
                add(&mut hasher, row);
            }
        }
        digest.hash = *hasher.finalize().as_bytes();
        Ok(digest)
    }
}

/// What stays of a row wherever it is written: not its place there, nor its chain.
fn add(hasher: &mut blake3::Hasher, row: &TransferRow) {
    hasher.update(row.call.as_bytes());
    for number in [row.part, row.at, row.terminal.unwrap_or(0), row.form] {
        hasher.update(&number.to_be_bytes());
    }
    for text in [row.principal.as_bytes(), &row.body] {
        hasher.update(&(text.len() as u64).to_be_bytes());
        hasher.update(text);
    }
}
