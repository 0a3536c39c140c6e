//! What a person may choose beyond *once*, in words: where a proposed rule may apply, and the choices
//! that a client's form offers. The code that stores the choice checks it first.

use haft_contract::{
    Principal,
    host::{ApprovalRequest, GrantRequest, GrantScope, GrantedWorkspace},
};
use haft_mcp::server::approve::GrantChoice;

use crate::screen_text::visible;

/// How many proposals a form offers: the narrowest ones.
const OFFERED: usize = 2;

/// The longest choice in a form, in characters. The client that draws it would cut a longer one,
/// and nobody should accept half a rule.
const LONGEST_CHOICE: usize = 100;

/// Where a grant may apply, for a call of this principal in this workspace, narrowest first.
pub fn scopes(principal: &Principal, workspace: &GrantedWorkspace) -> [GrantScope; 3] {
    [
        GrantScope::Session(principal.session.clone()),
        GrantScope::Project(workspace.clone()),
        GrantScope::Agent(principal.agent.clone()),
    ]
}

/// What a form offers in addition to *once*: the narrowest rules, in this session and in this
/// project, until somebody revokes them. Each choice names its rules in full; `haft approve
/// --always` has the wider ones, and other bounds.
pub fn choices(request: &ApprovalRequest) -> Vec<GrantChoice> {
    let offered = request.proposals.iter().take(OFFERED);
    let choices = offered.flat_map(|proposal| {
        let rules: Vec<String> = proposal
            .rules
            .iter()
            .map(|rule| visible::line(rule))
            .collect();
        let rules = rules.join(" and ");
        let workspace = GrantedWorkspace::of_plan(&request.plan);
        let [session, project, _agent] = scopes(&request.principal, &workspace);
        [
            (format!("in this session: {rules}"), session),
            (
                format!("in this project, for every agent: {rules}"),
                project,
            ),
        ]
        .map(|(words, scope)| GrantChoice {
            words,
            grant: GrantRequest {
                rules: proposal.rules.clone(),
                scope,
                until: None,
                uses: None,
            },
        })
    });
    choices
        .filter(|choice| choice.words.chars().count() <= LONGEST_CHOICE)
        .collect()
}
