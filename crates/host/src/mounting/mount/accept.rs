//! Asks a mounted server what it offers, and accepts it.

use std::sync::Arc;

use haft_contract::surface::NextStep;
use haft_mcp::{
    client::Clients,
    pin::{Item, PinStatus, Store as _},
    upstream::{
        connection::RequestError,
        supervise::{Fleet, UnseenServer},
    },
};
use haft_runtime::registry::Registry;

use super::{
    MountPlan,
    known_definitions::{known, store_failed},
    origin,
};
use crate::{
    config::mcp::ServerSettings,
    error::{HostError, HostErrorKind},
    state::pins::FilePins,
};

/// Starts the one server of a plan so that it says what it offers, and stops it again.
pub async fn fetch(plan: &MountPlan, server: &ServerSettings) -> Result<(), HostError> {
    let registry = Arc::new(Registry::new());
    let fleet = plan.start(&registry, &Arc::<Clients>::default(), UnseenServer::Leave)?;
    let reached = reach(plan, &fleet, server).await;
    plan.keep_failures(&fleet);
    fleet.stop().await;
    reached
}

/// Starts a server, or says why it cannot be started.
async fn reach(plan: &MountPlan, fleet: &Fleet, server: &ServerSettings) -> Result<(), HostError> {
    let id = &server.id;
    fleet.reach(id).await.map_err(|error| {
        let hint = match error {
            RequestError::LoginNeeded => NextStep::LogIn(id.as_str()).text(),
            _ => plan.remedy(id.as_str()).unwrap_or_else(|| {
                "correct its entry in haft.toml, or start it by hand to see why".to_owned()
            }),
        };
        // Nothing retries here, so leave out when the next try would be.
        let error = match error {
            RequestError::Down { reason, .. } => reason,
            other => other.to_string(),
        };
        let message = format!("the server `{id}` cannot be asked: {error}");
        HostError::new(HostErrorKind::Unavailable, message, hint)
    })
}

/// Accepts definitions of a server that a person was shown: all of them or none, because what was
/// seen together is accepted together.
pub fn accept(store: &FilePins, server: &ServerSettings, wanted: &[Item]) -> Result<(), HostError> {
    change(store, server, wanted, ShownToPerson::Before)
}

/// Whether a person saw what is being accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ShownToPerson {
    /// They did: `haft mcp review` recorded it.
    Before,
    /// The author of the program vouches for it.
    Now,
}

fn change(
    store: &FilePins,
    server: &ServerSettings,
    wanted: &[Item],
    shown: ShownToPerson,
) -> Result<(), HostError> {
    let mut refused = None;
    store
        .change(&server.id, &origin(server), wanted, &mut |pins| {
            let mut next = pins.clone();
            if shown == ShownToPerson::Now {
                next.review(wanted.iter());
            }
            match wanted.iter().try_for_each(|item| next.accept(item)) {
                Ok(()) => *pins = next,
                Err(not_shown) => refused = Some(not_shown),
            }
        })
        .map_err(|error| store_failed(error.to_string()))?;
    match refused {
        None => Ok(()),
        Some(not_shown) => Err(HostError::new(
            HostErrorKind::Refused,
            format!("{not_shown}, so nothing was accepted"),
            NextStep::ReviewServer(server.id.as_str()).text(),
        )),
    }
}

/// Asks a mounted server what it offers and accepts all of it; returns how much of that is new.
pub(crate) async fn everything(
    plan: &MountPlan,
    fleet: &Fleet,
    id: &str,
) -> Result<usize, HostError> {
    let Some(server) = plan.servers.iter().find(|one| one.id.as_str() == id) else {
        return Err(HostError::new(
            HostErrorKind::NotFound,
            format!("no server `{id}` is mounted"),
            "name it as it was mounted",
        ));
    };
    reach(plan, fleet, server).await?;
    let store = FilePins::new(&plan.defaults.owner_dir());
    let Some(known) = known(server, &store).map_err(store_failed)? else {
        return Ok(0);
    };
    let standings = known.standings();
    let wanted = standings.filter(|(_, standing)| *standing != PinStatus::Accepted);
    let wanted: Vec<Item> = wanted.map(|(item, _)| item.clone()).collect();
    change(&store, server, &wanted, ShownToPerson::Now)?;
    fleet.refresh(&server.id).await;
    Ok(wanted.len())
}
