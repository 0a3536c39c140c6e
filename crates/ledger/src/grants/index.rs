//! One person's grants in memory, found by where they hold and by key, so that a decision looks at
//! the few that can matter to it, however many there are. Changing one touches no other.

use std::collections::{BTreeSet, HashMap, HashSet};

use haft_contract::{
    AgentId, Principal, SessionId, WorkspaceId,
    host::{Grant, GrantId, GrantKey, GrantScope, Timestamp},
};

/// A person's grants.
#[derive(Default)]
pub(super) struct GrantIndex {
    grants: HashMap<GrantId, IndexedGrant>,
    sessions: HashMap<SessionId, ByKey>,
    workspaces: HashMap<WorkspaceId, ByKey>,
    agents: HashMap<AgentId, ByKey>,
}

struct IndexedGrant {
    grant: Grant,
    keys: Vec<GrantKey>,
}

/// The grants of one scope, oldest first under each key.
type ByKey = HashMap<GrantKey, BTreeSet<(Timestamp, GrantId)>>;

impl GrantIndex {
    pub(super) fn len(&self) -> usize {
        self.grants.len()
    }

    /// The keys of a grant with this rule, if it is here.
    pub(super) fn keys(&self, id: GrantId, rule: &str) -> Option<&[GrantKey]> {
        let known = self.grants.get(&id)?;
        (known.grant.rule == rule).then_some(&known.keys)
    }

    /// Adds a grant, or replaces what it was before. One that is used up is never found again.
    pub(super) fn put(&mut self, grant: Grant, keys: Vec<GrantKey>) {
        if grant.uses_left == Some(0) {
            self.remove(grant.id);
            return;
        }
        if let Some(known) = self.grants.get_mut(&grant.id) {
            let is_found_alike = known.keys == keys
                && known.grant.scope == grant.scope
                && known.grant.made_at == grant.made_at;
            if is_found_alike {
                known.grant = grant;
                return;
            }
            self.remove(grant.id);
        }
        let entry = (grant.made_at, grant.id);
        let by_key = match &grant.scope {
            GrantScope::Session(session) => self.sessions.entry(session.clone()).or_default(),
            GrantScope::Project(workspace) => {
                self.workspaces.entry(workspace.id.clone()).or_default()
            }
            GrantScope::Agent(agent) => self.agents.entry(agent.clone()).or_default(),
        };
        for key in &keys {
            by_key.entry(*key).or_default().insert(entry);
        }
        self.grants.insert(grant.id, IndexedGrant { grant, keys });
    }

    pub(super) fn remove(&mut self, id: GrantId) {
        let Some(IndexedGrant { grant, keys }) = self.grants.remove(&id) else {
            return;
        };
        let entry = (grant.made_at, id);
        match &grant.scope {
            GrantScope::Session(session) => remove_from(&mut self.sessions, session, &keys, entry),
            GrantScope::Project(workspace) => {
                remove_from(&mut self.workspaces, &workspace.id, &keys, entry);
            }
            GrantScope::Agent(agent) => remove_from(&mut self.agents, agent, &keys, entry),
        }
    }

    /// Removes all but these.
    pub(super) fn retain(&mut self, ids: &HashSet<GrantId>) {
        let gone: Vec<GrantId> = self
            .grants
            .keys()
            .filter(|id| !ids.contains(id))
            .copied()
            .collect();
        for id in gone {
            self.remove(id);
        }
    }

    /// The grants that hold for a principal in a workspace now and have one of these keys, oldest
    /// first.
    pub(super) fn find(
        &self,
        principal: &Principal,
        workspace: &WorkspaceId,
        now: Timestamp,
        keys: &[GrantKey],
    ) -> Vec<Grant> {
        let candidates = self.candidates(principal, workspace, keys);
        candidates
            .into_iter()
            .filter_map(|(_, id)| self.grants.get(&id))
            .filter(|known| known.grant.holds(principal, workspace, now))
            .map(|known| known.grant.clone())
            .collect()
    }

    /// The grants that are looked at to find these.
    fn candidates(
        &self,
        principal: &Principal,
        workspace: &WorkspaceId,
        keys: &[GrantKey],
    ) -> BTreeSet<(Timestamp, GrantId)> {
        let scopes = [
            self.sessions.get(&principal.session),
            self.workspaces.get(workspace),
            self.agents.get(&principal.agent),
        ];
        let mut found = BTreeSet::new();
        for by_key in scopes.into_iter().flatten() {
            for key in keys {
                found.extend(by_key.get(key).into_iter().flatten());
            }
        }
        found
    }
}

/// Removes a grant of one scope, and what is empty then.
fn remove_from<Scope: std::hash::Hash + Eq>(
    scopes: &mut HashMap<Scope, ByKey>,
    scope: &Scope,
    keys: &[GrantKey],
    entry: (Timestamp, GrantId),
) {
    let Some(by_key) = scopes.get_mut(scope) else {
        return;
    };
    for key in keys {
        if let Some(entries) = by_key.get_mut(key) {
            entries.remove(&entry);
            if entries.is_empty() {
                by_key.remove(key);
            }
        }
    }
    if by_key.is_empty() {
        scopes.remove(scope);
    }
}

#[cfg(test)]
mod tests {
    use haft_contract::host::GrantedWorkspace;
    use haft_testkit::principal::principal;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    fn grant(number: i64, scope: GrantScope) -> Grant {
        let who = principal();
        Grant {
            id: GrantId::new(),
            tenant: who.tenant.clone(),
            user: who.user.clone(),
            rule: format!("act({number})"),
            scope,
            until: None,
            uses_left: Some(2),
            made_by: "ada".to_owned(),
            made_at: Timestamp(number),
            cause: None,
        }
    }

    fn project(id: &str) -> GrantScope {
        GrantScope::Project(GrantedWorkspace {
            id: WorkspaceId::parse(id).unwrap(),
            shown: "/w".to_owned(),
        })
    }

    fn number_key(number: i64) -> GrantKey {
        GrantKey(u64::try_from(number).unwrap() + 1)
    }

    #[test]
    fn only_grants_with_a_key_of_the_call_are_looked_at() {
        let (who, here) = (principal(), WorkspaceId::local());
        let mut index = GrantIndex::default();
        for number in 0..1_000 {
            let scope = match number % 3 {
                0 => GrantScope::Session(who.session.clone()),
                1 => GrantScope::Agent(who.agent.clone()),
                _ => project(here.as_str()),
            };
            index.put(grant(number, scope), vec![number_key(number)]);
        }
        // The same rule in many other workspaces.
        for number in 0..1_000 {
            let scope = project(&format!("elsewhere-{number}"));
            index.put(grant(5, scope), vec![number_key(5)]);
        }
        let keys = [7, 5, 3].map(number_key);
        assert_eq!(index.candidates(&who, &here, &keys).len(), 3);
        let found = index.find(&who, &here, NOW, &keys);
        let rules: Vec<&str> = found.iter().map(|grant| grant.rule.as_str()).collect();
        assert_eq!(rules, ["act(3)", "act(5)", "act(7)"]);
    }

    #[test]
    fn a_changed_grant_is_found_as_it_is_now() {
        let (who, here) = (principal(), WorkspaceId::local());
        let mut index = GrantIndex::default();
        let agent = GrantScope::Agent(who.agent.clone());
        let (first, second) = (grant(1, agent.clone()), grant(2, agent));
        let keys = [1, 2, 3].map(number_key);
        index.put(first.clone(), vec![keys[0], keys[1]]);
        index.put(second.clone(), vec![keys[0]]);
        let used = Grant {
            uses_left: Some(0),
            ..first.clone()
        };
        index.put(used, vec![keys[0], keys[1]]);
        assert_eq!(index.candidates(&who, &here, &keys).len(), 1);
        let found = index.find(&who, &here, NOW, &keys);
        assert_eq!(found, std::slice::from_ref(&second));
        let moved = Grant {
            scope: project("elsewhere"),
            ..first
        };
        index.put(moved.clone(), vec![keys[2]]);
        assert_eq!(index.candidates(&who, &here, &keys).len(), 1);
        let elsewhere = WorkspaceId::parse("elsewhere").unwrap();
        assert_eq!(index.find(&who, &elsewhere, NOW, &keys[2..]), [moved]);
        index.retain(&HashSet::from([second.id]));
        assert_eq!(index.len(), 1);
        index.remove(second.id);
        assert!(index.grants.is_empty() && index.workspaces.is_empty() && index.agents.is_empty());
    }
}
