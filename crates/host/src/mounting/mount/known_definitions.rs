//! What is known about mounted servers without asking them.

use haft_mcp::pin::{Item, Kind, PinStatus, Pins, RefusedDefinition, Store as _, StoreError, vet};

use super::origin;
use crate::{
    config::{Settings, file::nearest, mcp::ServerSettings},
    error::{HostError, HostErrorKind},
    state::pins::FilePins,
};

/// A server's stored definitions, and what was accepted of them.
pub struct KnownDefinitions {
    /// What can be accepted.
    pub items: Vec<Item>,
    /// What cannot be accepted.
    pub refused: Vec<RefusedDefinition>,
    /// What was accepted.
    pub pins: Pins,
}

impl KnownDefinitions {
    /// Every definition, compared with what was accepted.
    pub fn standings(&self) -> impl Iterator<Item = (&Item, PinStatus)> {
        self.items
            .iter()
            .map(|item| (item, self.pins.standing(item)))
    }

    /// How many nobody accepted yet.
    pub fn unaccepted(&self) -> usize {
        let standings = self.standings();
        standings
            .filter(|(_, standing)| *standing == PinStatus::New)
            .count()
    }

    /// How many changed since they were accepted.
    pub fn changed(&self) -> usize {
        let standings = self.standings();
        standings
            .filter(|(_, standing)| matches!(standing, PinStatus::Changed { .. }))
            .count()
    }

    /// How many tools are accepted, and so offered.
    pub fn accepted_tools(&self) -> usize {
        let accepted = self.standings().filter(|(item, standing)| {
            *standing == PinStatus::Accepted && item.key.kind == Kind::Tool
        });
        accepted.count()
    }
}

/// What a server last offered, compared with what was accepted; `None` if it never ran.
pub fn known(
    server: &ServerSettings,
    store: &FilePins,
) -> Result<Option<KnownDefinitions>, String> {
    let failed = |error: StoreError| error.to_string();
    let Some(seen) = store.seen(&server.id, &origin(server)).map_err(failed)? else {
        return Ok(None);
    };
    let vetted = vet(&server.id, server.naming, &server.tools, &seen.definitions);
    let vetted = vetted.map_err(|unfit| unfit.to_string())?;
    Ok(Some(KnownDefinitions {
        items: vetted.items,
        refused: vetted.refused,
        pins: store.pins(&server.id, &origin(server)).map_err(failed)?,
    }))
}

/// The server with an id.
pub fn configured<'s>(settings: &'s Settings, id: &str) -> Result<&'s ServerSettings, HostError> {
    let servers = &settings.mcp.servers;
    let found = servers.iter().find(|server| server.id.as_str() == id);
    found.ok_or_else(|| {
        let ids: Vec<&str> = servers.iter().map(|server| server.id.as_str()).collect();
        let hint = match (nearest(id, &ids), ids.is_empty()) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            // For example because a `haft.toml` is not trusted yet.
            (None, true) if !settings.notes.is_empty() => settings.notes.join("; "),
            (None, true) => "add [[mcp.servers]] to haft.toml first".to_owned(),
            (None, false) => format!("mounted are: {}", ids.join(", ")),
        };
        HostError::new(
            HostErrorKind::NotFound,
            format!("no server `{id}` is mounted"),
            hint,
        )
    })
}

/// The error for a store that could not be used.
pub fn store_failed(why: String) -> HostError {
    HostError::config(
        why,
        "make `mcp` in the data directory yours alone (`chmod -R go-w`), or move it away and accept again",
    )
}
