//! Accepts what a mounted server offers, for a program whose author answers for it.

use haft_mcp::{
    pin::{Item, Standing, Store as _},
    upstream::supervise::Fleet,
};

use super::{
    MountPlan,
    known::{known, store_failed},
    origin,
};
use crate::{
    error::{HostError, HostErrorKind},
    state::pins::FilePins,
};

/// Asks a server what it offers and accepts all of it; how much of that is new.
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
    let unanswered = |why: String| {
        let hint = plan.remedy(id).unwrap_or_else(|| {
            "correct how it is started, or start it by hand to see why".to_owned()
        });
        let message = format!("the server `{id}` cannot be asked: {why}");
        HostError::new(HostErrorKind::Unavailable, message, hint)
    };
    let reached = fleet.reach(&server.id).await;
    reached.map_err(|error| unanswered(error.to_string()))?;
    let store = FilePins::new(&plan.defaults.data_dir);
    let known = known(server, &store).map_err(store_failed)?;
    let known = known.ok_or_else(|| unanswered("it offers nothing".to_owned()))?;
    let standings = known.standings();
    let wanted = standings.filter(|(_, standing)| *standing != Standing::Accepted);
    let wanted: Vec<Item> = wanted.map(|(item, _)| item.clone()).collect();
    let mut refused = None;
    store
        .change(&server.id, &origin(server), &wanted, &mut |pins| {
            let mut next = pins.clone();
            next.review(wanted.iter());
            match wanted.iter().try_for_each(|item| next.accept(item)) {
                Ok(()) => *pins = next,
                Err(not_shown) => refused = Some(not_shown),
            }
        })
        .map_err(|error| store_failed(error.to_string()))?;
    if let Some(not_shown) = refused {
        return Err(unanswered(not_shown.to_string()));
    }
    fleet.refresh(&server.id).await;
    Ok(wanted.len())
}
