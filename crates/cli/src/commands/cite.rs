//! `haft cite`: proves from the record that a page which was fetched says these words.

use clap::Args;
use haft_contract::host::Ledger as _;
use haft_host::{call_lookup, cite};
use serde_json::json;

use super::{App, scope::WorkspaceArgs};
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
    view::time,
};

/// Prove that a page which was fetched says these words
#[derive(Debug, Args)]
#[command(after_help = "\
The bytes of the page are those that the call fetched, kept by their hash, or the text
that it returned where that is the whole page; the page is not asked again.
Ends with 1 if it does not say these words.

Examples:
  haft cite last \"borrowed value does not live long enough\"
  haft cite 019f2c \"Boil fresh water.\" --json")]
pub(crate) struct CiteArgs {
    /// The call: its id, the beginning of its id, or `last`
    id: String,
    /// The words; runs of spaces and line breaks count as one space
    quotation: String,
    #[command(flatten)]
    workspaces: WorkspaceArgs,
}

/// Runs the command.
pub(crate) async fn run(args: &CiteArgs, app: &App) -> Result<Exit, Stop> {
    let (ledger, scope) = app.record_of(args.workspaces).await?;
    let call = call_lookup::call(&ledger, &args.id, scope.filter()).await?;
    let citation = cite::cite(&ledger, &*ledger.artifacts(), &call, &args.quotation).await?;
    let fetched = time::rfc3339(call.opened);
    let exit = match citation.found_at {
        Some(_) => Exit::Ok,
        None => Exit::Failed,
    };
    if app.output.format() == Format::Json {
        app.output.json(&json!({
            "call": call.id.to_string(),
            "url": citation.url,
            "fetched": fetched,
            "blake3": citation.bytes.map(|kept| kept.hex()),
            "bytes": citation.size,
            "found": citation.found_at.is_some(),
            "found_at": citation.found_at,
            "found_in": citation.found_in,
        }))?;
        return Ok(exit);
    }
    let mut page = Page::new();
    page = match (citation.found_at, citation.found_in) {
        (Some(at), Some("result")) => page
            .styled(Style::Good, "found")
            .text(format!(" at character {at} of what the call returned")),
        (Some(at), Some(form)) => page
            .styled(Style::Good, "found")
            .text(format!(" at character {at} of the page as {form}")),
        _ => page
            .styled(Style::Bad, "not found")
            .text(" in the page as it was fetched"),
    };
    page = page.end().text(format!("url      {}", citation.url)).end();
    page = page
        .text(format!("fetched  {fetched} by call {}", call.id))
        .end();
    page = page
        .text(match citation.bytes {
            Some(kept) => format!("bytes    {} of BLAKE3 {}", kept.bytes, kept.hex()),
            None => format!(
                "bytes    {}, whose text the record has whole",
                citation.size
            ),
        })
        .end();
    app.output.page(&page)?;
    Ok(exit)
}
