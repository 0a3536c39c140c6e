//! A call as its rows have it: who asked, and its events in order.

use std::sync::Arc;

use haft_contract::{CallId, Principal, Terminal, WorkspaceId, host::Timestamp};
use haft_contract::{SessionId, SessionKind, host::StoredCall};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    body::{self, BodyEvent},
    convert,
    listed::ListedCall,
    row::StoredPrincipal,
    store::{Connection, Row, Statement, StoreError, Value as Bound, values},
};

/// The number of a call's first row.
pub(crate) const FIRST_PART: i64 = 0;

/// The number of its last row, if that is not the first: a call ends once. More than a call ever has.
pub(crate) const LAST_PART: i64 = 1 << 30;

/// From here on, the numbers of rows that are evidence only.
const FIRST_EVIDENCE: i64 = LAST_PART + 1;

/// How many calls one statement names.
const CALLS_A_STATEMENT: usize = 250;

/// The columns of a row that are read.
const COLUMNS: &str = "r.position, r.call, r.part, r.listed, r.at, r.terminal, r.form, r.body, p.stored \
     FROM record r JOIN principal p ON p.id = r.principal";

/// A call, read back.
#[derive(Debug, Clone)]
pub(crate) struct RecordedCall {
    pub(crate) id: CallId,
    pub(crate) listed: i64,
    /// The number that its next row gets.
    pub(crate) next_part: i64,
    pub(crate) terminal: Option<Terminal>,
    /// Who asked, in stored form.
    pub(crate) stored_principal: String,
    pub(crate) events: Vec<RecordedEntry>,
    /// Whether some of its rows cannot be understood: another version wrote them, or somebody changed
    /// them. Their events are missing then.
    pub(crate) is_damaged: bool,
}

/// An event, and the position of the row that has it.
#[derive(Debug, Clone)]
pub(crate) struct RecordedEntry {
    pub(crate) position: i64,
    pub(crate) event: BodyEvent,
}

impl RecordedCall {
    /// Who asked.
    pub(crate) fn principal(&self) -> Result<Arc<Principal>, StoreError> {
        let stored: Option<StoredPrincipal> = serde_json::from_str(&self.stored_principal).ok();
        let principal = stored.and_then(|stored| convert::principal_from(&stored));
        let principal = principal.ok_or_else(|| StoreError::Unreadable("who asked".to_owned()))?;
        Ok(Arc::new(principal))
    }

    /// Its events of a kind, in order.
    pub(crate) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a BodyEvent> {
        let events = self.events.iter().map(|entry| &entry.event);
        events.filter(move |event| event.kind == kind)
    }

    /// The body of its first event.
    pub(crate) fn opened(&self) -> Option<&BodyEvent> {
        self.of_kind("opened").next()
    }

    /// When it started, if it did.
    pub(crate) fn started(&self) -> Option<Timestamp> {
        self.of_kind("started").last().map(|event| event.at)
    }

    /// What its last plan says of its effects; false where there is none, to be safe.
    pub(crate) fn has_effect(&self, name: &str) -> bool {
        let planned = self.of_kind("planned").last();
        let effect = planned.and_then(|event| event.body.get("effects")?.get(name)?.as_bool());
        effect.unwrap_or(false)
    }

    /// Its list entry.
    pub(crate) fn entry(&self) -> Result<ListedCall, StoreError> {
        if self.is_damaged {
            return Err(unreadable("a call's events"));
        }
        let opened = self.opened().ok_or_else(|| unreadable("its beginning"))?;
        let mut listed = ListedCall::new(&opened.body, opened.at);
        for entry in &self.events {
            let event = &entry.event;
            listed.absorb(&event.kind, event.at, &event.body);
        }
        Ok(listed)
    }

    /// As the list shows it.
    pub(crate) fn stored_call(&self) -> Result<StoredCall, StoreError> {
        let listed = self.entry()?;
        let who: StoredPrincipal =
            serde_json::from_str(&self.stored_principal).map_err(|_| unreadable("who asked"))?;
        let kind: Option<SessionKind> = convert::session_kind(&who.session_kind);
        Ok(StoredCall {
            position: u64::try_from(self.listed).unwrap_or(0),
            id: self.id,
            user: who.user,
            agent: who.agent,
            session: SessionId::parse(&who.session).map_err(|_| unreadable("its session"))?,
            session_kind: kind.ok_or_else(|| unreadable("its kind of session"))?,
            workspace: WorkspaceId::parse(&listed.workspace)
                .map_err(|_| unreadable("its workspace"))?,
            workspace_shown: listed.workspace_shown,
            asked_tool: listed.asked_tool,
            tool: listed.tool,
            opened: listed.opened,
            terminal: listed.settled.map(|(terminal, _)| terminal),
            settled: listed.settled.map(|(_, at)| at),
            summary: listed.summary,
        })
    }

    /// The body of its first event with who asked, as it is shown and replayed.
    pub(crate) fn opened_with_principal(&self, opened: &Value) -> Value {
        let mut opened = opened.clone();
        let who = serde_json::from_str(&self.stored_principal).unwrap_or(Value::Null);
        if let Value::Object(fields) = &mut opened {
            fields.insert("principal".to_owned(), who);
        }
        opened
    }
}

/// One call of a tenant, if there is one.
pub(crate) async fn load(
    connection: &mut dyn Connection,
    tenant: &str,
    call: CallId,
) -> Result<Option<RecordedCall>, StoreError> {
    Ok(load_all(connection, tenant, &[call]).await?.pop())
}

/// Calls of a tenant, in the order they are listed.
pub(crate) async fn load_all(
    connection: &mut dyn Connection,
    tenant: &str,
    calls: &[CallId],
) -> Result<Vec<RecordedCall>, StoreError> {
    let mut found = Vec::with_capacity(calls.len());
    for calls in calls.chunks(CALLS_A_STATEMENT) {
        let ids: Vec<Uuid> = calls.iter().map(|call| call.as_uuid()).collect();
        let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
        let first = rows_of(connection, tenant, &ids, "r.part = 0").await?;
        let later = rows_of(connection, tenant, &ids, "r.part > 0").await?;
        found.extend(together(&first, &later)?);
    }
    found.sort_by_key(|call| call.listed);
    // A call that was named twice counts once.
    found.dedup_by_key(|call| call.listed);
    Ok(found)
}

/// The calls of a tenant that are listed at these positions, in order.
pub(crate) async fn load_listed(
    connection: &mut dyn Connection,
    tenant: &str,
    positions: &[i64],
) -> Result<Vec<RecordedCall>, StoreError> {
    let mut found = Vec::with_capacity(positions.len());
    for positions in positions.chunks(CALLS_A_STATEMENT) {
        let mut select = Statement::new("SELECT ");
        select
            .text(COLUMNS)
            // The sum keeps an index of tenants from being used: without statistics, as of a new month, a
            // database would go through all calls of the tenant instead of to these positions.
            .text(" WHERE r.part = 0 AND r.tenant + 0 = (SELECT id FROM tenant WHERE name = ")
            .value(tenant)
            .text(") AND r.position IN (0");
        for position in positions {
            select.text(", ").value(*position);
        }
        select.text(")");
        let first = select.query(connection).await?;
        // A call that ended in its first row has no other, but for evidence.
        let mut open: Vec<&[u8]> = Vec::new();
        for row in &first {
            if row.get::<Option<i64>>("terminal")?.is_none() {
                open.push(row.get("call")?);
            }
        }
        let later = if open.is_empty() {
            Vec::new()
        } else {
            rows_of(connection, tenant, &open, "r.part > 0").await?
        };
        found.extend(together(&first, &later)?);
    }
    found.sort_by_key(|call| call.listed);
    Ok(found)
}

async fn rows_of(
    connection: &mut dyn Connection,
    tenant: &str,
    calls: &[&[u8]],
    parts: &str,
) -> Result<Vec<Row>, StoreError> {
    let mut select = Statement::new("SELECT ");
    select.text(COLUMNS).text(" WHERE ").text(parts);
    select.text(" AND r.tenant = (SELECT id FROM tenant WHERE name = ");
    select.value(tenant).text(") AND r.call IN (NULL");
    for call in calls {
        select.text(", ").value(Bound::Bytes(call));
    }
    select.text(") ORDER BY r.position");
    select.query(connection).await
}

/// Puts the later rows of calls to their first.
fn together(first: &[Row], later: &[Row]) -> Result<Vec<RecordedCall>, StoreError> {
    let mut calls = Vec::with_capacity(first.len());
    for row in first {
        let id: &[u8] = row.get("call")?;
        let id = Uuid::from_slice(id).map_err(|_| unreadable("a call's id"))?;
        let mut call = RecordedCall {
            id: id.into(),
            listed: row.get("listed")?,
            next_part: FIRST_PART,
            terminal: None,
            stored_principal: row.get("stored")?,
            events: Vec::new(),
            is_damaged: false,
        };
        call.add(row)?;
        calls.push(call);
    }
    for row in later {
        let listed: i64 = row.get("listed")?;
        if let Some(call) = calls.iter_mut().find(|call| call.listed == listed) {
            call.add(row)?;
        }
    }
    Ok(calls)
}

impl RecordedCall {
    fn add(&mut self, row: &Row) -> Result<(), StoreError> {
        let (position, part): (i64, i64) = (row.get("position")?, row.get("part")?);
        let at = Timestamp(row.get("at")?);
        let events = body::events(row.get("form")?, at, row.get("body")?);
        self.is_damaged |= events.is_none();
        if part < LAST_PART {
            self.next_part = self.next_part.max(part + 1);
        }
        if let Some(number) = row.get::<Option<i64>>("terminal")? {
            let terminal = terminal_from(number);
            self.is_damaged |= terminal.is_none();
            // Whatever it was, the call has ended.
            self.terminal = terminal.or(Some(Terminal::Unknown));
        }
        let events = events.unwrap_or_default();
        let entry = |event| RecordedEntry { position, event };
        self.events.extend(events.into_iter().map(entry));
        Ok(())
    }
}

/// Where a row goes that is kept as evidence only: its part, and where its call is listed.
pub(crate) async fn place_of_evidence(
    connection: &mut dyn Connection,
    tenant: i64,
    call: CallId,
) -> Result<(i64, i64), StoreError> {
    let id = call.as_uuid();
    let row = connection
        .optional(
            "SELECT coalesce(max(part), 0) AS part, coalesce(max(listed), 0) AS listed FROM
                 (SELECT part, listed FROM record WHERE tenant = ?1 AND call = ?2 AND part = 0
                  UNION ALL
                  SELECT part, listed FROM record WHERE tenant = ?1 AND call = ?2 AND part > 0) AS parts",
            &values![tenant, id.as_bytes()],
        )
        .await?;
    let Some(row) = row else {
        return Ok((FIRST_EVIDENCE, 0));
    };
    let part: i64 = row.get("part")?;
    Ok((FIRST_EVIDENCE.max(part + 1), row.get("listed")?))
}

/// The number of an outcome in a row.
pub(crate) fn terminal_number(terminal: Terminal) -> i64 {
    match terminal {
        Terminal::Succeeded => 1,
        Terminal::Failed => 2,
        Terminal::Denied => 3,
        Terminal::TimedOut => 4,
        Terminal::Cancelled => 5,
        Terminal::Unknown => 6,
    }
}

/// The outcome with this number; none if there is no such outcome.
pub(crate) fn terminal_from(number: i64) -> Option<Terminal> {
    let mut all = Terminal::ALL.into_iter();
    all.find(|terminal| terminal_number(*terminal) == number)
}

fn unreadable(what: &str) -> StoreError {
    StoreError::Unreadable(what.to_owned())
}
