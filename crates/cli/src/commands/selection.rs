//! The options that say which calls a person means, for `haft undo` and `haft diff`. What they mean is
//! worked out in `haft_host::selected_calls`.

use std::time::Duration;

use clap::Args;
use haft_contract::{Principal, SessionId};
use haft_host::{config::Env, selected_calls::CallSelection};

use super::call::duration;
use crate::stop::Stop;

/// Which calls.
#[derive(Debug, Args)]
pub(crate) struct SelectionArgs {
    /// The call's id, the beginning of it, or `last` [default: the last that changed something]
    #[arg(conflicts_with_all = ["session", "since"])]
    call: Option<String>,
    /// Every call of this session [default: HAFT_SESSION, or main]
    #[arg(long, value_name = "NAME", num_args = 0..=1)]
    #[expect(
        clippy::option_option,
        reason = "clap's shape for an option whose value may be left out"
    )]
    session: Option<Option<SessionId>>,
    /// Only calls made within this time, such as 10m or 2h; without `--session`, from every session
    #[arg(long, value_name = "TIME", value_parser = duration)]
    since: Option<Duration>,
}

impl SelectionArgs {
    /// The calls that this principal means.
    pub(crate) fn of(&self, principal: &Principal) -> CallSelection {
        let own = || principal.session.clone();
        let session = self.session.as_ref();
        CallSelection {
            call: self.call.clone(),
            session: session.map(|named| named.clone().unwrap_or_else(own)),
            since: self.since,
        }
    }
}

/// The person at the command line, as a principal.
pub(crate) fn operator(env: &Env) -> Result<std::sync::Arc<Principal>, Stop> {
    crate::args::IdentityArgs::default().principal(env)
}
