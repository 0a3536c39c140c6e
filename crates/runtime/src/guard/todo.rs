//! The list of things to do, for a running tool: read from the record, and kept by the record of the
//! call that sets it.

use haft_contract::{
    BoxFuture, ErrorKind, ToolError,
    context::SessionTodo,
    host::{Durability, LedgerError},
    surface::NextStep,
    todo::TodoItem,
};

use super::Guard;
use crate::todo_list;

impl SessionTodo for Guard {
    fn list(&self) -> BoxFuture<'_, Result<Vec<TodoItem>, ToolError>> {
        Box::pin(async move {
            let Some(history) = self.engine.ledger.history() else {
                return Err(ToolError::new(
                    ErrorKind::Unavailable,
                    "this record cannot be read back, so the list is not known",
                )
                .hint("set the whole list again"));
            };
            let list = todo_list::newest(&*history, &self.principal, self.recording.call());
            list.await.map_err(unavailable)
        })
    }

    fn keep(&self) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(async move {
            let kept = self.recording.commit(Durability::Durable);
            kept.await.map_err(unavailable)
        })
    }
}

fn unavailable(error: LedgerError) -> ToolError {
    ToolError::new(ErrorKind::Unavailable, error.to_string()).hint(NextStep::CheckRecord.text())
}
