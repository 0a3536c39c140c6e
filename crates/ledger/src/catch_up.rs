//! What is only needed to search, to list sessions and to count is not written with a call: it is caught up
//! with when somebody asks, and while the writer has nothing else to do.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use haft_contract::{TenantId, host::Timestamp};

use crate::{
    call_fact::{self, CallFact},
    change::{Change, ChangeContext},
    recorded_call::{self, RecordedCall},
    row::StoredPrincipal,
    search_words::search_text,
    store::{Connection, Lock, Row, StoreError, values},
};

/// How many rows one transaction catches up with when somebody waits for it.
pub(crate) const ROWS_AT_ONCE: i64 = 500;

/// The same while nobody waits: few, because a call that comes meanwhile does.
pub(crate) const ROWS_WHILE_IDLE: i64 = 100;

/// How many calls are in memory whole, and made searchable together.
const CALLS_AT_ONCE: usize = 20;

const COUNT_SESSION: &str =
    "INSERT INTO session_calls (session, workspace, tenant, kind, agent, first_at, last_at, calls)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
     ON CONFLICT (session, workspace) DO UPDATE SET
         first_at = CASE WHEN excluded.first_at < session_calls.first_at
             THEN excluded.first_at ELSE session_calls.first_at END,
         last_at = CASE WHEN excluded.last_at > session_calls.last_at
             THEN excluded.last_at ELSE session_calls.last_at END,
         calls = session_calls.calls + excluded.calls";

/// Catches up with some rows; returns how many are left.
pub(crate) struct CatchUp {
    /// How many rows at most.
    pub(crate) rows: i64,
}

impl Change for CatchUp {
    type Output = u64;

    const IS_ABOUT_CALLS: bool = false;

    const LOCK: Option<Lock> = Some(Lock::CatchUp);

    fn tenant(&self) -> Option<&TenantId> {
        None
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
        let connection = &mut *changing.connection;
        let begin = connection
            .number("SELECT position FROM caught_up WHERE id = 1", &[])
            .await?;
        let newest = connection.settled_position().await?;
        let rows = connection
            .query(
                "SELECT r.position, r.tenant, r.session, r.part, r.listed, r.at, r.terminal,
                     t.name, p.stored
                 FROM record r JOIN tenant t ON t.id = r.tenant JOIN principal p ON p.id = r.principal
                 WHERE r.position > ?1 AND r.position <= ?2 ORDER BY r.position LIMIT ?3",
                &values![begin, newest, self.rows],
            )
            .await?;
        let Some(last) = rows.last() else {
            return Ok(0);
        };
        let end: i64 = last.get("position")?;
        let facts = derive(connection, &rows).await?;
        let workspaces = call_fact::note(connection, &facts).await?;
        count_sessions(connection, &rows, &facts, &workspaces).await?;
        connection
            .execute(
                "UPDATE caught_up SET position = ?1 WHERE id = 1",
                values![end],
            )
            .await?;
        Ok(u64::try_from(newest - end).unwrap_or(0))
    }
}

/// Makes the words of calls that ended in these rows searchable, and returns the facts of those that began
/// or ended, by where they are listed.
async fn derive(
    connection: &mut dyn Connection,
    rows: &[Row],
) -> Result<BTreeMap<i64, CallFact>, StoreError> {
    let mut changed: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    let mut ended: BTreeSet<i64> = BTreeSet::new();
    let mut numbers: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for row in rows {
        let listed: i64 = row.get("listed")?;
        let has_ended = row.get::<Option<i64>>("terminal")?.is_some();
        if has_ended || row.get::<i64>("part")? == recorded_call::FIRST_PART {
            changed.entry(row.get("name")?).or_default().insert(listed);
            numbers.insert(listed, (row.get("tenant")?, row.get("session")?));
        }
        if has_ended {
            ended.insert(listed);
        }
    }
    let mut facts = BTreeMap::new();
    for (tenant, listed) in changed {
        let listed: Vec<i64> = listed.into_iter().collect();
        for listed in listed.chunks(CALLS_AT_ONCE) {
            let calls = recorded_call::load_listed(connection, tenant, listed).await?;
            for call in &calls {
                let mut fact = CallFact::of(call);
                (fact.tenant, fact.session) = numbers.get(&call.listed).copied().unwrap_or((0, 0));
                facts.insert(call.listed, fact);
            }
            let calls = calls.iter().filter(|call| ended.contains(&call.listed));
            index(connection, tenant, calls).await?;
        }
    }
    Ok(facts)
}

/// Makes the words of calls searchable.
async fn index<'c>(
    connection: &mut dyn Connection,
    tenant: &str,
    calls: impl Iterator<Item = &'c RecordedCall>,
) -> Result<(), StoreError> {
    let mut texts = Vec::new();
    for call in calls {
        match words(call) {
            Ok(words) => texts.push((call.listed, words)),
            // `verify` names it; that it cannot be found must not keep others from being found.
            Err(_) => {
                tracing::warn!(call = %call.id, "a call cannot be read, nor made searchable");
            }
        }
    }
    connection.index_texts(tenant, &texts).await
}

fn words(call: &RecordedCall) -> Result<String, StoreError> {
    let events = call.events.iter().map(|entry| &entry.event);
    Ok(search_text(&call.entry()?, events))
}

/// The calls of one session in one workspace that were listed.
struct SessionCount {
    tenant: i64,
    who: StoredPrincipal,
    first: Timestamp,
    last: Timestamp,
    calls: i64,
}

async fn count_sessions(
    connection: &mut dyn Connection,
    rows: &[Row],
    facts: &BTreeMap<i64, CallFact>,
    workspaces: &BTreeMap<(i64, String), i64>,
) -> Result<(), StoreError> {
    let mut sessions: BTreeMap<(i64, i64), SessionCount> = BTreeMap::new();
    for row in rows {
        if row.get::<i64>("part")? != recorded_call::FIRST_PART {
            continue;
        }
        let at = Timestamp(row.get("at")?);
        let tenant: i64 = row.get("tenant")?;
        let fact = facts.get(&row.get::<i64>("listed")?);
        let workspace = fact.and_then(|fact| workspaces.get(&(tenant, fact.workspace.clone())));
        let place = (row.get("session")?, workspace.copied().unwrap_or(0));
        let count = match sessions.entry(place) {
            Entry::Occupied(count) => count.into_mut(),
            Entry::Vacant(place) => {
                let Ok(who) = serde_json::from_str(row.get("stored")?) else {
                    // `verify` names it.
                    continue;
                };
                place.insert(SessionCount {
                    tenant,
                    who,
                    first: at,
                    last: at,
                    calls: 0,
                })
            }
        };
        count.first = count.first.min(at);
        count.last = count.last.max(at);
        count.calls += 1;
    }
    for ((session, workspace), count) in &sessions {
        let values = values![
            *session,
            *workspace,
            count.tenant,
            &count.who.session_kind,
            &count.who.agent,
            count.first.0,
            count.last.0,
            count.calls,
        ];
        connection.execute(COUNT_SESSION, values).await?;
    }
    Ok(())
}
