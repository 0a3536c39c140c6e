//! The state a client carries from one round of a call to the next: which call, and which round. It
//! is signed, bound to the caller and the request, and expires. That it is good only once is
//! enforced where the call waits (`parked.rs`).
//!
//! The state holds nothing worth reading. It is a claim to a call that waits in this process, so
//! its key lives only as long as the process.

use std::{borrow::Cow, time::Duration};

use haft_contract::{Arguments, CallId, CallRequest, Principal, SessionKind};
use haft_runtime::digest_of;
use rmcp::model::{RequestStateCodec, SealOptions};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The longest state that is read; ours are far shorter.
const MAX_STATE_BYTES: usize = 1024;

/// How many fresh ids make a key. Each holds 74 random bits from the operating system.
const IDS_IN_A_KEY: usize = 8;

/// The key that seals states. Generated once and never shared.
#[derive(Clone)]
pub(super) struct StateKey([u8; 32]);

impl StateKey {
    pub(super) fn fresh() -> Self {
        let ids = std::iter::repeat_with(|| CallId::new().to_string()).take(IDS_IN_A_KEY);
        Self(digest_of(&json!(ids.collect::<Vec<_>>())).0)
    }
}

/// Who owns a call: everything that identifies a principal, and its session, which ends as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CallOwner {
    principal: [u8; 32],
    session: [u8; 32],
}

impl CallOwner {
    pub(crate) fn of(principal: &Principal) -> Self {
        let Principal {
            tenant,
            user,
            agent,
            ancestors,
            session,
            session_kind,
            narrowed_from,
            channel,
            scopes,
        } = principal;
        let names = |names: &mut dyn Iterator<Item = String>| names.collect::<Vec<_>>();
        let form = json!({
            "tenant": tenant.as_str(),
            "user": user.as_str(),
            "agent": agent.as_str(),
            "ancestors": names(&mut ancestors.iter().map(ToString::to_string)),
            "session": session.as_str(),
            "kind": session_kind.as_str(),
            "narrowed_from": narrowed_from.map(SessionKind::as_str),
            "channel": channel.as_ref().map(|channel| channel.as_str().to_owned()),
            "scopes": names(&mut scopes.iter().map(ToString::to_string)),
        });
        let session = json!([tenant.as_str(), user.as_str(), session.as_str()]);
        Self {
            principal: digest_of(&form).0,
            session: digest_of(&session).0,
        }
    }

    /// Whether both made their calls in one session: a client that narrowed itself for a request is
    /// another owner in the same one.
    pub(crate) fn is_in_session_of(self, other: Self) -> bool {
        self.session == other.session
    }
}

/// Identifies a request: the method, and the digest of its name and arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RequestDigest([u8; 32]);

impl RequestDigest {
    /// The digest of a call request.
    pub(crate) fn call(method: &str, call: &CallRequest) -> Self {
        let arguments = match &call.arguments {
            Arguments::Value(arguments) => Cow::Borrowed(arguments),
            Arguments::Text(text) => Cow::Owned(json!({"text": text})),
        };
        let form = json!({
            "method": method,
            "workspace": call.workspace.as_str(),
            "name": call.tool,
            "arguments": arguments,
        });
        Self(digest_of(&form).0)
    }
}

/// A waiting call, and the round that is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) call: CallId,
    pub(super) round: u64,
}

/// A claim as serialized.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SealedClaim {
    call: String,
    round: u64,
}

/// Seals claims and opens them again.
pub(super) struct Seals(RequestStateCodec);

impl Seals {
    pub(super) fn new(key: &StateKey) -> Self {
        // The type fixes the length, so there is nothing to check.
        Self(RequestStateCodec::new_unchecked(key.0))
    }

    /// Seals a claim that only this owner can redeem, for the same request, until it expires.
    pub(super) fn seal(
        &self,
        claim: Claim,
        owner: CallOwner,
        wanted: RequestDigest,
        good: Duration,
    ) -> String {
        let bound = bound(owner, wanted);
        let options = SealOptions::new().associated_data(&bound).ttl(good);
        let travelling = json!({"call": claim.call.to_string(), "round": claim.round});
        self.0
            .seal_with(travelling.to_string().as_bytes(), &options)
    }

    /// The claim, if it was sealed here for this owner and request and has not expired. The reason
    /// for a refusal goes to the log, not to the sender.
    pub(super) fn open(
        &self,
        state: &str,
        owner: CallOwner,
        wanted: RequestDigest,
    ) -> Option<Claim> {
        if state.len() > MAX_STATE_BYTES {
            tracing::warn!(
                bytes = state.len(),
                "a request state is too long to be ours"
            );
            return None;
        }
        let opened = self
            .0
            .open_json_with::<SealedClaim>(state, &bound(owner, wanted));
        match opened {
            Ok(SealedClaim { call, round }) => Some(Claim {
                call: CallId::parse(&call)?,
                round,
            }),
            Err(error) => {
                tracing::warn!(%error, "a request state was refused");
                None
            }
        }
    }
}

fn bound(owner: CallOwner, wanted: RequestDigest) -> [u8; 64] {
    let mut bytes = [0; 64];
    let (first, second) = bytes.split_at_mut(32);
    first.copy_from_slice(&owner.principal);
    second.copy_from_slice(&wanted.0);
    bytes
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use haft_contract::{AgentId, SessionId, UserId};
    use serde_json::Value;

    use super::*;

    const GOOD: Duration = Duration::from_mins(1);

    fn owner(agent: &str, session: &str) -> CallOwner {
        CallOwner::of(&principal(agent, session))
    }

    fn principal(agent: &str, session: &str) -> Principal {
        Principal::local(
            UserId::parse("ada").unwrap(),
            AgentId::parse(agent).unwrap(),
            SessionId::parse(session).unwrap(),
        )
    }

    fn wanted_as(method: &str, tool: &str, arguments: Value) -> RequestDigest {
        let whoever = Arc::new(principal("a", "s"));
        RequestDigest::call(method, &CallRequest::new(tool, arguments, whoever))
    }

    fn wanted(arguments: Value) -> RequestDigest {
        wanted_as("tools/call", "bash", arguments)
    }

    #[test]
    fn mc_14_a_state_is_good_for_its_owner_and_its_request_alone() {
        let seals = Seals::new(&StateKey([7; 32]));
        let claim = Claim {
            call: CallId::new(),
            round: 3,
        };
        let (mine, this) = (owner("a", "s"), wanted(json!({"command": "ls"})));
        let state = seals.seal(claim, mine, this, GOOD);
        assert_eq!(seals.open(&state, mine, this), Some(claim));
        for (whose, what) in [
            (owner("b", "s"), this),
            (owner("a", "t"), this),
            (mine, wanted(json!({"command": "ls -a"}))),
            (
                mine,
                wanted_as("tools/call", "read", json!({"command": "ls"})),
            ),
            (
                mine,
                wanted_as("prompts/get", "bash", json!({"command": "ls"})),
            ),
        ] {
            assert_eq!(seals.open(&state, whose, what), None);
        }
        let other_process = Seals::new(&StateKey([8; 32]));
        assert_eq!(other_process.open(&state, mine, this), None);
    }

    #[test]
    fn mc_14_a_state_that_was_touched_is_refused() {
        let seals = Seals::new(&StateKey([7; 32]));
        let claim = Claim {
            call: CallId::new(),
            round: 0,
        };
        let (mine, this) = (owner("a", "s"), wanted(json!({})));
        let state = seals.seal(claim, mine, this, GOOD);
        for at in 0..state.len() {
            let mut bytes = state.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let touched = String::from_utf8(bytes).unwrap();
            // The last character of the encoding can have unused bits.
            let opened = seals.open(&touched, mine, this);
            assert!(opened.is_none() || opened == Some(claim), "{touched}");
        }
        for foreign in ["", "rs1", "rs1.e30.e30", &"A".repeat(MAX_STATE_BYTES + 1)] {
            assert_eq!(seals.open(foreign, mine, this), None);
        }
    }

    #[tokio::test]
    async fn mc_14_a_state_is_good_for_its_time_alone() {
        let seals = Seals::new(&StateKey([7; 32]));
        let claim = Claim {
            call: CallId::new(),
            round: 0,
        };
        let (mine, this) = (owner("a", "s"), wanted(json!({})));
        let state = seals.seal(claim, mine, this, Duration::ZERO);
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(seals.open(&state, mine, this), None);
    }

    #[test]
    fn arguments_that_mean_the_same_are_the_same() {
        let spelt = serde_json::from_str(r#"{"b": 1.0, "a": "x"}"#).unwrap();
        assert!(wanted(spelt) == wanted(json!({"a": "x", "b": 1})));
    }
}
