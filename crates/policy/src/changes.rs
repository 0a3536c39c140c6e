//! What differs between two versions of one policy file: rules, presets and listed agents, in words
//! for a person. Decides nothing; it says which changes let something happen that was denied.
//!
//! A denial counts as kept only where a rule of the newer version is known to cover it. What cannot
//! be compared counts as lost, so that a person looks.

use std::collections::BTreeMap;

use haft_contract::host::Verdict;

use crate::{
    in_doubt::InDoubt,
    lint::literal_is_covered,
    load::PolicyFile,
    preset::Preset,
    rule::{Rule, Section, Selector, without_future},
};

/// One difference between two versions of a policy file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyChange {
    /// What the older version says; absent if it says nothing.
    pub before: Option<String>,
    /// What the newer version says; absent if it says nothing.
    pub after: Option<String>,
    /// Whether something that was denied is no longer denied by this file.
    pub loses_denial: bool,
}

impl PolicyFile {
    /// What differs in a newer version of this file, in the order of its sections.
    pub fn changes_to(&self, newer: &Self) -> Vec<PolicyChange> {
        let mut changes = preset_changes(self, newer);
        changes.extend(agent_changes(self, newer));
        changes.extend(rule_changes(&self.rules, &newer.rules));
        changes
    }
}

/// The rules that are new, gone, or have another pattern or list.
fn rule_changes(older: &[Rule], newer: &[Rule]) -> Vec<PolicyChange> {
    let gone = older
        .iter()
        .filter(|rule| !newer.iter().any(|other| is_same(rule, other)));
    let mut added: Vec<&Rule> = newer
        .iter()
        .filter(|rule| !older.iter().any(|other| is_same(rule, other)))
        .collect();
    let mut changes = Vec::new();
    for rule in gone {
        let moved = |other: &&Rule| other.origin.text == rule.origin.text;
        let reworded =
            |other: &&Rule| other.verdict == rule.verdict && tool_of(other) == tool_of(rule);
        let here = |other: &&Rule| other.section == rule.section;
        let successor = added
            .iter()
            .position(|other| here(other) && moved(other))
            .or_else(|| {
                added
                    .iter()
                    .position(|other| here(other) && reworded(other))
            });
        let successor = successor.map(|at| added.remove(at));
        let denied = rule.verdict == Verdict::Deny;
        changes.push(PolicyChange {
            before: Some(shown(rule)),
            after: successor.map(shown),
            loses_denial: denied && !newer.iter().any(|other| covers_denial(rule, other)),
        });
    }
    changes.extend(added.into_iter().map(|rule| PolicyChange {
        before: None,
        after: Some(shown(rule)),
        loses_denial: false,
    }));
    changes
}

/// Whether two rules mean the same, wherever they are written.
fn is_same(one: &Rule, other: &Rule) -> bool {
    one.verdict == other.verdict
        && one.section == other.section
        && one.selector == other.selector
        && pattern_text(one) == pattern_text(other)
        && one.after == other.after
        && one.in_doubt == other.in_doubt
}

/// Whether a newer rule denies at least what an older deny rule denied.
fn covers_denial(old: &Rule, new: &Rule) -> bool {
    let everyone = new.section == Section::Everyone || new.section == old.section;
    let always = new.after.is_empty() || new.after == old.after;
    let certain = new.in_doubt <= old.in_doubt;
    let pattern = match &new.pattern {
        None if new.is_about_every_input() => true,
        Some(pattern) if pattern.is_all() => true,
        None | Some(_) => pattern_text(new) == pattern_text(old) || literal_is_covered(old, new),
    };
    let all = everyone && always && certain && pattern;
    new.verdict == Verdict::Deny && all && new.selector == old.selector
}

fn pattern_text(rule: &Rule) -> Option<&str> {
    rule.inside()
}

/// The tool as it was written, which may be the name of a group.
fn tool_of(rule: &Rule) -> &str {
    let (text, _) = without_future(&rule.origin.text);
    text.split(['(', ' ']).next().unwrap_or(text)
}

/// A rule in words: its list, its text, and whom it applies to.
fn shown(rule: &Rule) -> String {
    let text = &rule.origin.text;
    let expanded = tool_of(rule).starts_with('@') && !matches!(rule.selector, Selector::Group(_));
    let text = match (rule.inside(), expanded) {
        (_, false) => format!("`{text}`"),
        (None, true) => format!("`{}` of `{text}`", rule.selector),
        (Some(inside), true) => format!("`{}({inside})` of `{text}`", rule.selector),
    };
    let whom = rule.holds_for();
    let whom = whom.map_or_else(String::new, |section| format!(" for {section}"));
    let doubt = match rule.in_doubt {
        InDoubt::Ask => "",
        InDoubt::Sandbox => ", in doubt left to the sandbox",
    };
    format!("{} {text}{whom}{doubt}", rule.verdict.as_str())
}

/// The presets that were set, changed or removed.
fn preset_changes(older: &PolicyFile, newer: &PolicyFile) -> Vec<PolicyChange> {
    let (before, after) = (named_presets(older), named_presets(newer));
    let (everyone_before, everyone_after) = (everyone(older), everyone(newer));
    let mut whom: Vec<&String> = before.keys().chain(after.keys()).collect();
    whom.sort_unstable();
    whom.dedup();
    whom.into_iter()
        .filter_map(|whom| {
            let (was, is) = (before.get(whom).copied(), after.get(whom).copied());
            if was == is {
                return None;
            }
            let denied = was.or(everyone_before) == Some(Preset::Locked);
            let still = is.or(everyone_after) == Some(Preset::Locked);
            let words = |preset: Preset| format!("preset {preset} for {whom}");
            Some(PolicyChange {
                before: was.map(words),
                after: is.map(words),
                // `locked` denies whatever no rule allows.
                loses_denial: denied && !still,
            })
        })
        .collect()
}

fn everyone(file: &PolicyFile) -> Option<Preset> {
    let presets = file.presets.iter();
    presets.filter_map(|presets| presets.everyone).max()
}

/// The presets a file names, by whom they are for.
fn named_presets(file: &PolicyFile) -> BTreeMap<String, Preset> {
    let agents = file.presets.iter().flat_map(|presets| &presets.agents);
    let agents =
        agents.filter_map(|(agent, preset)| Some((format!("[agents.{agent}]"), (*preset)?)));
    let sessions = file.sessions.iter();
    let sessions = sessions.map(|(kind, preset)| (format!("[sessions.{kind}]"), *preset));
    let channels = file.channels.iter();
    let channels = channels.map(|(channel, preset)| (format!("[channels.{channel}]"), *preset));
    let tenants = file.tenants.iter();
    let tenants =
        tenants.filter_map(|(tenant, preset)| Some((format!("[tenants.{tenant}]"), (*preset)?)));
    let users = file.users.iter();
    let users = users.filter_map(|(user, preset)| Some((format!("[users.{user}]"), (*preset)?)));
    let everyone = everyone(file).map(|preset| ("everyone".to_owned(), preset));
    agents
        .chain(sessions)
        .chain(channels)
        .chain(tenants)
        .chain(users)
        .chain(everyone)
        .collect()
}

/// The agents that the file lists now and did not before, or the other way round.
fn agent_changes(older: &PolicyFile, newer: &PolicyFile) -> Vec<PolicyChange> {
    let only = |one: &PolicyFile, other: &PolicyFile| -> Vec<String> {
        let agents = one.presets.iter().flat_map(|presets| presets.agents.keys());
        let missing = agents.filter(|agent| {
            let mut files = other.presets.iter();
            !files.any(|presets| presets.agents.contains_key(*agent))
        });
        missing.map(|agent| format!("[agents.{agent}]")).collect()
    };
    let gone = only(older, newer).into_iter().map(|section| PolicyChange {
        before: Some(section),
        after: None,
        loses_denial: false,
    });
    let listed = only(newer, older).into_iter().map(|section| PolicyChange {
        before: None,
        after: Some(section),
        loses_denial: false,
    });
    gone.chain(listed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicySource;

    fn file(text: &str) -> PolicyFile {
        PolicyFile::parse(&PolicySource::new("haft.toml", text)).unwrap()
    }

    /// Each change as `before → after`, with `!` where a denial is lost.
    fn changes(before: &str, after: &str) -> Vec<String> {
        let changes = file(before).changes_to(&file(after));
        let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".to_owned());
        changes
            .iter()
            .map(|change| {
                let lost = if change.loses_denial { "!" } else { "" };
                format!("{lost}{} → {}", word(&change.before), word(&change.after))
            })
            .collect()
    }

    fn denies(rules: &str) -> String {
        format!("[policy]\ndeny = [{rules}]\n")
    }

    #[test]
    fn leaving_doubt_to_the_sandbox_loses_a_denial_and_asking_again_does_not() {
        let asks = denies("\"bash(sudo *)\"");
        let left = denies("{ rule = \"bash(sudo *)\", in_doubt = \"sandbox\" }");
        let rule = "deny `bash(sudo *)`";
        let doubt = "in doubt left to the sandbox";
        assert_eq!(
            changes(&asks, &left),
            [format!("!{rule} → {rule}, {doubt}")]
        );
        assert_eq!(changes(&left, &asks), [format!("{rule}, {doubt} → {rule}")]);
        assert!(changes(&left, &left).is_empty());
    }

    #[test]
    fn rules_are_new_gone_or_changed() {
        let before = "[policy]\nallow = [\"bash(make)\", \"bash(ls)\"]\nask = [\"edit\"]\n";
        let after = "[policy]\nallow = [\"bash(make *)\", \"bash(ls)\", \"read\"]\n[agents.a]\n";
        assert_eq!(
            changes(before, after),
            [
                "– → [agents.a]",
                "allow `bash(make)` → allow `bash(make *)`",
                "ask `edit` → –",
                "– → allow `read`",
            ]
        );
        // Neither their order nor comments change what rules mean.
        let moved = "# mine\n[policy]\nask = [\"edit\"]\nallow = [\"bash(ls)\", \"bash(make)\"]\n";
        assert_eq!(changes(before, moved), [""; 0]);
    }

    #[test]
    fn a_denial_is_lost_unless_another_deny_rule_is_known_to_cover_it() {
        let two = denies("\"read(**/.env)\", \"bash(git push *)\"");
        for (after, wanted) in [
            (denies("\"read(**/.env)\""), "!deny `bash(git push *)` → –"),
            (
                denies("\"read(**/.env)\", \"bash(git push origin)\""),
                "!deny `bash(git push *)` → deny `bash(git push origin)`",
            ),
            (
                denies("\"read(**/.env)\", \"bash\""),
                "deny `bash(git push *)` → deny `bash`",
            ),
            (
                "[policy]\ndeny = [\"read(**/.env)\"]\nask = [\"bash(git push *)\"]\n".to_owned(),
                "!deny `bash(git push *)` → ask `bash(git push *)`",
            ),
            (
                "[policy]\ndeny = [\"read(**/.env)\"]\n[agents.a]\ndeny = [\"bash(git push *)\"]\n"
                    .to_owned(),
                "!deny `bash(git push *)` → –",
            ),
            (
                "[policy]\ndeny = [\"read(**/.env)\", { rule = \"bash(git push *)\", after = [\"mcp:*\"] }]\n"
                    .to_owned(),
                "!deny `bash(git push *)` → deny `bash(git push *) after mcp:*`",
            ),
        ] {
            let found = changes(&two, &after);
            assert!(found.contains(&wanted.to_owned()), "{found:#?}");
        }
        let agent = "[agents.a]\ndeny = [\"bash\"]\n";
        let everyone = "[policy]\ndeny = [\"bash\"]\n[agents.a]\n";
        assert_eq!(
            changes(agent, everyone),
            ["deny `bash` for [agents.a] → –", "– → deny `bash`"]
        );
    }

    #[test]
    fn a_group_that_loses_a_member_denies_less() {
        let with = |members: &str| {
            format!("[policy]\ngroups = {{ risky = [{members}] }}\ndeny = [\"@risky\"]\n")
        };
        let found = changes(&with("\"bash\", \"copy\""), &with("\"copy\""));
        assert_eq!(found, ["!deny `bash` of `@risky` → –"]);
    }

    #[test]
    fn leaving_the_preset_locked_loses_denials_and_other_presets_do_not() {
        let preset = |word: &str| format!("[policy]\npreset = \"{word}\"\n");
        assert_eq!(
            changes(&preset("locked"), &preset("careful")),
            ["!preset locked for everyone → preset careful for everyone"]
        );
        assert_eq!(
            changes(&preset("careful"), &preset("sandboxed")),
            ["preset careful for everyone → preset sandboxed for everyone"]
        );
        let agent = format!("{}[agents.a]\npreset = \"locked\"\n", preset("locked"));
        let without = format!("{}[agents.a]\n", preset("locked"));
        assert_eq!(
            changes(&agent, &without),
            ["preset locked for [agents.a] → –"]
        );
    }
}
