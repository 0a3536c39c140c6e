//! Nobody overwrites what they have not seen: a file that changed since this session last read it
//! is a conflict. A file the session never read is not, because there is nothing to be out of date.

use haft_contract::{CallContext, ErrorKind, NoProgress, ToolError, WorkPath, ops::FileStat};

use crate::text::display::one_line;

/// Refuses if the file at a path differs from what this session last saw there. `hint` says what to
/// do.
///
/// Uses `stat` rather than an open file: opening counts as having read it.
pub(super) async fn refuse_if_changed(
    cx: &CallContext<NoProgress>,
    path: &WorkPath,
    present: &FileStat,
    hint: &'static str,
) -> Result<(), ToolError> {
    match cx.seen().last_seen(path).await? {
        Some(seen) if seen != present.version => Err(ToolError::new(
            ErrorKind::Conflict,
            format!(
                "`{}` changed since this session last read it; nothing was written",
                one_line(path.as_str())
            ),
        )
        .at("/path")
        .hint(hint)),
        Some(_) | None => Ok(()),
    }
}
