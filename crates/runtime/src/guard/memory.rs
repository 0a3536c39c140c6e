//! What an agent keeps beyond a session. A memory gets the labels of the session that saves it, and
//! they become labels of a session before it sees the text, so that no text loses where it came
//! from by a detour through the store.

use haft_contract::{
    BoxFuture, ErrorKind, ProviderId, ToolError,
    context::{AgentMemory, FoundMemories},
    host::{LedgerError, LedgerErrorKind},
    memory::{MAX_FOUND_MEMORIES, Memory, MemoryId, MemoryOwner},
    ops::OpsError,
    surface::NextStep,
};

use super::Guard;

impl Guard {
    /// Whose memories this call may reach. Rules and people know such a call by the name of its
    /// tool, so no other tool may reach them.
    fn memory_owner(&self) -> Result<MemoryOwner, ToolError> {
        self.still_wanted()?;
        if self.plan.tool().provider != ProviderId::builtin() {
            return Err(not_in_plan("only Haft's own memory tools reach memories"));
        }
        Ok(MemoryOwner::of(&self.principal))
    }

    /// The same for a call that changes them.
    fn changing_memory_owner(&self) -> Result<MemoryOwner, ToolError> {
        if !self.plan.effects().is_mutating() {
            return Err(not_in_plan("the call's plan only reads"));
        }
        self.memory_owner()
    }

    /// Counts the sources of memories as read by this session, in the record first: from here on
    /// their text may reach the agent.
    async fn note_memories_read(&self, memories: &[Memory]) -> Result<(), ToolError> {
        let labels = memories.iter().flat_map(|memory| memory.read_from.iter());
        self.note_read(labels).await.map_err(unavailable)
    }
}

impl AgentMemory for Guard {
    fn save<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Memory, ToolError>> {
        Box::pin(async move {
            let memory = Memory {
                id: MemoryId::new(),
                owner: self.changing_memory_owner()?,
                text: text.to_owned(),
                read_from: self.read_from(),
                session: self.principal.session.clone(),
                call: self.recording.call(),
                saved: self.engine.clock.now(),
            };
            let saved = self.ledger().memories().save(memory).await;
            saved.map_err(unavailable)
        })
    }

    fn get(&self, id: MemoryId) -> BoxFuture<'_, Result<Memory, ToolError>> {
        Box::pin(async move {
            let owner = self.memory_owner()?;
            let all = self.ledger().memories().of(&owner).await;
            let mut all = all.map_err(unavailable)?.into_iter();
            let memory = all
                .find(|memory| memory.id == id)
                .ok_or_else(|| no_such_memory(id))?;
            self.note_memories_read(std::slice::from_ref(&memory))
                .await?;
            Ok(memory)
        })
    }

    fn search<'a>(
        &'a self,
        words: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<FoundMemories, ToolError>> {
        Box::pin(async move {
            let owner = self.memory_owner()?;
            let all = self.ledger().memories().of(&owner).await;
            let mut memories = all.map_err(unavailable)?;
            memories.retain(|memory| memory.has_words(words));
            memories.reverse();
            let total = memories.len();
            memories.truncate(limit.min(MAX_FOUND_MEMORIES));
            self.note_memories_read(&memories).await?;
            Ok(FoundMemories { memories, total })
        })
    }

    fn forget(&self, id: MemoryId) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(async move {
            let owner = self.changing_memory_owner()?;
            let had = self.ledger().memories().forget(&owner, id).await;
            if had.map_err(unavailable)? {
                return Ok(());
            }
            Err(no_such_memory(id))
        })
    }
}

fn not_in_plan(message: &str) -> ToolError {
    OpsError::new(ErrorKind::NotInPlan, message).into()
}

fn no_such_memory(id: MemoryId) -> ToolError {
    let message = format!("this agent has no memory `{id}`");
    ToolError::new(ErrorKind::NotFound, message)
        .at("/id")
        .hint("`memory_search` lists what there is")
}

fn unavailable(error: LedgerError) -> ToolError {
    if error.kind() == LedgerErrorKind::LimitExceeded {
        return ToolError::new(ErrorKind::LimitExceeded, error.to_string())
            .hint("forget what is no longer needed with `memory_forget`");
    }
    ToolError::new(ErrorKind::Unavailable, error.to_string()).hint(NextStep::CheckRecord.text())
}
