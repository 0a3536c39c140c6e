//! A memory as a row: its columns, their signature, and what they mean.

use haft_contract::{
    AgentId, Label, Labels, SessionId, TenantId, UserId,
    host::Timestamp,
    memory::{Memory, MemoryId, MemoryOwner},
};
use uuid::Uuid;

use crate::{
    seal::Seal,
    store::{Connection, Row, StoreError, values},
};

/// Names the signed form below. Other columns or another order need another name.
const FORM: &str = "haft-ledger-memory-1";

/// Reads a row; `None` if this ledger did not sign it, or it cannot be understood.
pub(crate) fn read(row: &Row, key: &[u8; 32]) -> Result<Option<Memory>, StoreError> {
    let text = |name: &str| row.get::<String>(name);
    let (tenant, person, agent) = (text("tenant")?, text("person")?, text("agent")?);
    let (id, labels, session) = (text("id")?, text("labels")?, text("session")?);
    let kept = text("text")?;
    let call: &[u8] = row.get("call")?;
    let saved = Timestamp(row.get("at")?);
    let understood = || {
        Some(Memory {
            id: MemoryId::parse(&id)?,
            owner: MemoryOwner {
                tenant: TenantId::parse(&tenant).ok()?,
                user: UserId::parse(&person).ok()?,
                agent: AgentId::parse(&agent).ok()?,
            },
            text: kept,
            read_from: labels
                .lines()
                .map(|label| Label::parse(label).ok())
                .collect::<Option<Labels>>()?,
            session: SessionId::parse(&session).ok()?,
            call: Uuid::from_slice(call).ok()?.into(),
            saved,
        })
    };
    let mac: &[u8] = row.get("mac")?;
    Ok(understood().filter(|memory| seal(memory, key).is(mac)))
}

/// Inserts a new memory; returns whether its id was free.
pub(super) async fn insert(
    connection: &mut dyn Connection,
    key: &[u8; 32],
    memory: &Memory,
) -> Result<bool, StoreError> {
    let inserted = connection
        .execute(
            "INSERT INTO memory (tenant, id, person, agent, text, labels, session, call, at, mac)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING",
            values![
                memory.owner.tenant.as_str(),
                &memory.id.to_string(),
                memory.owner.user.as_str(),
                memory.owner.agent.as_str(),
                &memory.text,
                &labels(memory),
                memory.session.as_str(),
                memory.call.as_uuid().as_bytes(),
                memory.saved.0,
                seal(memory, key).sign().as_slice()
            ],
        )
        .await?;
    Ok(inserted == 1)
}

/// The labels, one a line, as they are stored and signed.
fn labels(memory: &Memory) -> String {
    let labels: Vec<&str> = memory.read_from.iter().map(Label::as_str).collect();
    labels.join("\n")
}

fn seal(memory: &Memory, key: &[u8; 32]) -> Seal {
    Seal::new(FORM, key)
        .text(memory.owner.tenant.as_str())
        .text(&memory.id.to_string())
        .text(memory.owner.user.as_str())
        .text(memory.owner.agent.as_str())
        .text(&memory.text)
        .text(&labels(memory))
        .text(memory.session.as_str())
        .bytes(memory.call.as_uuid().as_bytes())
        .number(memory.saved.0)
}
