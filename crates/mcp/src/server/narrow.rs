//! A client that narrows itself for one request: `_meta` names the sub-agent that asks, another
//! kind of session, the channel it came from, or fewer scopes. A client can only ever give up
//! rights. Whatever would widen them, or is not understood, is an error, and nothing runs.

use std::{collections::BTreeSet, sync::Arc};

use haft_contract::{
    AgentId, Principal, SessionKind,
    identity::{ChannelId, IdentityError, Scope},
};
use rmcp::{ErrorData, model::RequestMetaObject};
use serde::Deserialize;

/// The `_meta` key.
pub(super) const CALLER_KEY: &str = "dev.haft/caller";

/// The most agents in a line of agents that started each other.
const MAX_LINE: usize = 16;

/// What a client says of a request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct NarrowedCaller {
    /// A sub-agent of the agent that is connected.
    agent: Option<String>,
    session_kind: Option<String>,
    channel: Option<String>,
    scopes: Option<Vec<String>>,
}

/// The principal of a request, which has at most the rights of its connection's.
pub(super) fn narrowed(
    principal: &Arc<Principal>,
    meta: &RequestMetaObject,
) -> Result<Arc<Principal>, ErrorData> {
    let Some(written) = meta.get(CALLER_KEY) else {
        return Ok(Arc::clone(principal));
    };
    let wanted = NarrowedCaller::deserialize(written).map_err(|error| refused(&error))?;
    let mut narrowed = Principal::clone(principal);
    if let Some(agent) = wanted.agent {
        become_subagent(&mut narrowed, &agent)?;
    }
    if let Some(word) = wanted.session_kind {
        become_session(&mut narrowed, principal.session_kind, &word)?;
    }
    if let Some(channel) = wanted.channel {
        let channel = ChannelId::parse(&channel).map_err(|error| refused(&error))?;
        match &principal.channel {
            Some(own) if *own != channel => {
                return Err(refused(&format!(
                    "this connection belongs to channel `{own}` and cannot leave it"
                )));
            }
            Some(_) | None => narrowed.channel = Some(channel),
        }
    }
    if let Some(scopes) = wanted.scopes {
        narrowed.scopes = fewer_scopes(principal, &scopes)?;
    }
    Ok(Arc::new(narrowed))
}

/// Puts an agent at the head of the line: every agent of the line must be allowed what it does.
fn become_subagent(principal: &mut Principal, agent: &str) -> Result<(), ErrorData> {
    let agent = AgentId::parse(agent).map_err(|error| refused(&error))?;
    if agent == principal.agent {
        return Ok(());
    }
    if principal.ancestors.len() + 1 >= MAX_LINE {
        return Err(refused(&format!(
            "more than {MAX_LINE} agents have started each other"
        )));
    }
    let parent = std::mem::replace(&mut principal.agent, agent);
    principal.ancestors.insert(0, parent);
    if principal.session_kind == SessionKind::Main {
        principal.narrow_session(SessionKind::Subagent);
    }
    Ok(())
}

/// Only the operator's own conversation can be called another: what a direct message may do says
/// nothing about a group.
fn become_session(
    principal: &mut Principal,
    connected: SessionKind,
    word: &str,
) -> Result<(), ErrorData> {
    let wanted = SessionKind::ALL
        .into_iter()
        .find(|kind| kind.as_str() == word);
    let Some(wanted) = wanted else {
        let kinds = SessionKind::ALL.map(SessionKind::as_str).join(", ");
        return Err(refused(&format!(
            "`{word}` is not a kind of session: {kinds}"
        )));
    };
    if wanted == connected {
        return Ok(());
    }
    if connected != SessionKind::Main {
        return Err(refused(&format!(
            "this connection is a `{connected}` session and cannot become a `{wanted}` session"
        )));
    }
    principal.narrow_session(wanted);
    Ok(())
}

fn fewer_scopes(principal: &Principal, wanted: &[String]) -> Result<BTreeSet<Scope>, ErrorData> {
    let parsed: Result<BTreeSet<Scope>, IdentityError> =
        wanted.iter().map(|scope| Scope::parse(scope)).collect();
    let parsed = parsed.map_err(|error| refused(&error))?;
    match parsed.difference(&principal.scopes).next() {
        Some(more) => Err(refused(&format!(
            "this connection does not have scope `{more}`"
        ))),
        None => Ok(parsed),
    }
}

fn refused(why: &dyn std::fmt::Display) -> ErrorData {
    let message = format!("`_meta[\"{CALLER_KEY}\"]` can only narrow who asks: {why}");
    ErrorData::invalid_params(message, None)
}

#[cfg(test)]
mod tests {
    use haft_contract::{SessionId, UserId};
    use serde_json::{Value, json};

    use super::*;

    fn connected(kind: SessionKind, channel: Option<&str>, scopes: &[&str]) -> Arc<Principal> {
        let mut principal = Principal::local(
            UserId::parse("ada").unwrap(),
            AgentId::parse("main").unwrap(),
            SessionId::parse("s").unwrap(),
        );
        principal.session_kind = kind;
        principal.channel = channel.map(|channel| ChannelId::parse(channel).unwrap());
        principal.scopes = scopes
            .iter()
            .map(|scope| Scope::parse(scope).unwrap())
            .collect();
        Arc::new(principal)
    }

    fn meta(caller: Value) -> RequestMetaObject {
        let mut meta = RequestMetaObject::default();
        meta.insert(CALLER_KEY.to_owned(), caller);
        meta
    }

    #[test]
    fn a_request_that_says_nothing_is_the_connections() {
        let own = connected(SessionKind::Main, None, &["a"]);
        assert!(Arc::ptr_eq(
            &own,
            &narrowed(&own, &RequestMetaObject::default()).unwrap()
        ));
        let same = narrowed(&own, &meta(json!({}))).unwrap();
        assert_eq!(same, own);
    }

    #[test]
    fn what_narrows_is_taken() {
        let own = connected(SessionKind::Main, None, &["a", "b"]);
        let wanted = json!({
            "agent": "child", "sessionKind": "dm", "channel": "telegram", "scopes": ["a"],
        });
        let found = narrowed(&own, &meta(wanted)).unwrap();
        assert_eq!(found.agent.as_str(), "child");
        assert_eq!(found.ancestors, std::slice::from_ref(&own.agent));
        assert_eq!(found.session, own.session);
        assert_eq!(found.session_kind, SessionKind::Dm);
        assert_eq!(found.narrowed_from, Some(SessionKind::Main));
        assert_eq!(found.channel, Some(ChannelId::parse("telegram").unwrap()));
        assert_eq!(found.scopes, [Scope::parse("a").unwrap()].into());
        let child = narrowed(&own, &meta(json!({"agent": "child"}))).unwrap();
        assert_eq!(child.session_kind, SessionKind::Subagent);
        let grandchild = narrowed(&child, &meta(json!({"agent": "grandchild"}))).unwrap();
        assert_eq!(grandchild.ancestors.len(), 2);
        assert_eq!(grandchild.narrowed_from, Some(SessionKind::Main));
    }

    #[test]
    fn what_widens_or_is_not_understood_is_refused() {
        let own = connected(SessionKind::Dm, Some("slack"), &["a"]);
        for (wanted, why) in [
            (json!({"sessionKind": "main"}), "cannot become a `main`"),
            (json!({"sessionKind": "group"}), "cannot become a `group`"),
            (json!({"sessionKind": "owner"}), "not a kind of session"),
            (json!({"channel": "telegram"}), "cannot leave it"),
            (json!({"channel": "a b"}), "not an identifier"),
            (json!({"scopes": ["a", "b"]}), "does not have scope `b`"),
            (json!({"scopes": "a"}), "invalid type"),
            (json!({"agent": ""}), "not an identifier"),
            (json!({"session": "other"}), "unknown field `session`"),
            (json!({"user": "root"}), "unknown field `user`"),
            (json!("main"), "invalid type"),
        ] {
            let error = narrowed(&own, &meta(wanted.clone())).unwrap_err();
            assert!(error.message.contains(why), "{wanted}: {}", error.message);
        }
        let mut deep = own;
        for number in 0..MAX_LINE - 1 {
            let wanted = json!({"agent": format!("child-{number}")});
            deep = narrowed(&deep, &meta(wanted)).unwrap();
        }
        let error = narrowed(&deep, &meta(json!({"agent": "one-more"}))).unwrap_err();
        assert!(error.message.contains("more than 16 agents"));
    }
}
