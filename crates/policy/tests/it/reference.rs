//! A second, naive opinion: the rules as prose says they work, applied one after the other. Shares
//! no code with the crate; slow and obvious on purpose.

use haft_contract::{
    Access, PathMode, PathScope, SessionKind, WorkPath,
    access::Command,
    host::Verdict::{self, Allow, Ask, Deny},
    ops::Tier,
};

use crate::world::Call;

/// A rule as a test writes it.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) section: &'static str,
    pub(crate) list: Verdict,
    pub(crate) tool: &'static str,
    pub(crate) pattern: Option<&'static str>,
}

impl Written {
    /// The rule as a file of its own.
    pub(crate) fn toml(&self) -> String {
        let rule = match self.pattern {
            Some(pattern) => format!("{}({pattern})", self.tool),
            None => self.tool.to_owned(),
        };
        format!("[{}]\n{} = ['{rule}']\n", self.section, self.list.as_str())
    }

    pub(crate) fn selects(&self, call: &Call) -> bool {
        let name = call.key.tool.as_str();
        match self.tool {
            "@all" => true,
            "@files" => call.groups.contains(&"files"),
            "re*" => name.starts_with("re"),
            "builtin/read" => call.key.to_string() == "builtin/read",
            tool => tool == name,
        }
    }

    /// Whether it speaks of every tool that reads, or writes, and which of the two.
    fn by_access(&self) -> Option<&'static str> {
        match (self.list, self.tool) {
            (Allow, _) => None,
            (_, "read" | "builtin/read") => Some("read"),
            (_, "write") => Some("write"),
            _ => None,
        }
    }

    fn concerns(&self, call: &Call, agent: &str) -> bool {
        match self.section {
            "policy" => true,
            "sessions.dm" => call.principal.session_kind == SessionKind::Dm,
            section => section == format!("agents.{agent}"),
        }
    }

    /// `None` is the tool as a whole.
    fn applies(&self, call: &Call, access: Option<&Access>) -> bool {
        let wide = self.list != Allow;
        let Some(pattern) = self.pattern else {
            return self.selects(call);
        };
        let Some(access) = access else {
            // A pattern that excludes nothing is a rule over the tool.
            return wide
                && matches!(pattern, "*" | "**")
                && self.by_access().is_none()
                && self.selects(call);
        };
        match access {
            Access::Path(path) => {
                let by_mode = match path.mode {
                    PathMode::Read => "read",
                    PathMode::Write => "write",
                };
                let selected = match self.by_access() {
                    Some(mode) => mode == by_mode,
                    None => self.selects(call),
                };
                let written = path.path.as_str();
                let leads = path.resolved.as_ref().map_or(written, |path| path.as_str());
                selected
                    && if wide {
                        reaches(pattern, written) || reaches(pattern, leads)
                    } else if path.scope == PathScope::Tree {
                        covers(pattern, written) && covers(pattern, leads)
                    } else {
                        glob(pattern, written) && glob(pattern, leads)
                    }
            }
            _ => false,
        }
    }

    /// Whether it speaks of one command of a script.
    fn applies_to(&self, call: &Call, script: &str, segment: &str) -> bool {
        let wide = self.list != Allow;
        let Some(pattern) = self.pattern else {
            return self.selects(call);
        };
        if !self.selects(call) || self.by_access().is_some() {
            return false;
        }
        if !wide {
            return pattern == script || words_match(pattern, segment, pattern.ends_with(" *"));
        }
        matches!(pattern, "*" | "**")
            || wild(pattern, script)
            || wild(pattern, segment)
            || words_match(pattern, segment, true)
    }
}

/// Whether the words of a pattern, a final star aside, are those of a command, or its first ones.
fn words_match(pattern: &str, segment: &str, more: bool) -> bool {
    let pattern: Vec<&str> = pattern.trim_end_matches(" *").split(' ').collect();
    let words: Vec<&str> = segment.split(' ').collect();
    words.starts_with(&pattern) && (more || words.len() == pattern.len())
}

/// One thing to judge.
enum Thing<'c> {
    Tool,
    Access(&'c Access),
    /// A script, and one command of it.
    Segment(&'c str, &'c str),
    /// A path a command names.
    Named(Access),
}

/// Scripts of the tests are plain words, parted by `; `.
fn things(call: &Call) -> Vec<Thing<'_>> {
    let mut things = vec![Thing::Tool];
    for access in call.plan.accesses() {
        let Access::Command(command) = access else {
            things.push(Thing::Access(access));
            continue;
        };
        let Command::Shell(script) = &command.command else {
            panic!("no tests with argv");
        };
        for segment in script.split("; ") {
            things.push(Thing::Segment(script, segment));
            let removed = segment.strip_prefix("rm ").into_iter();
            things.extend(removed.map(|path| Thing::Named(Access::write(at(path)))));
        }
    }
    things
}

fn at(path: &str) -> WorkPath {
    WorkPath::relative(path).unwrap()
}

/// The answer, by trying everything.
pub(crate) fn decide(rules: &[Written], preset: &str, call: &Call) -> Verdict {
    let agents = std::iter::once(&call.principal.agent).chain(&call.principal.ancestors);
    let foreign = call.key.provider.as_str() != "builtin";
    // A rule about paths of a foreign tool that touches none was meant for something else.
    let misses = |rule: &Written, agent: &str| {
        rule.list != Allow
            && rule.tool == call.key.tool.as_str()
            && rule
                .pattern
                .is_some_and(|pattern| !matches!(pattern, "*" | "**"))
            && rule.concerns(call, agent)
    };
    if foreign
        && call.plan.accesses().is_empty()
        && agents
            .clone()
            .any(|agent| rules.iter().any(|rule| misses(rule, agent.as_str())))
    {
        return Deny;
    }
    agents
        .flat_map(|agent| {
            things(call)
                .into_iter()
                .map(move |thing| (agent.as_str(), thing))
        })
        .map(|(agent, thing)| judge(rules, preset, call, agent, &thing))
        .max()
        .unwrap()
}

fn judge(rules: &[Written], preset: &str, call: &Call, agent: &str, thing: &Thing<'_>) -> Verdict {
    let mine: Vec<&Written> = rules
        .iter()
        .filter(|rule| rule.concerns(call, agent))
        .collect();
    let strictest = mine
        .iter()
        .filter(|rule| match thing {
            Thing::Tool => rule.applies(call, None),
            Thing::Access(access) => rule.applies(call, Some(access)),
            Thing::Named(access) => rule.applies(call, Some(access)),
            Thing::Segment(script, segment) => rule.applies_to(call, script, segment),
        })
        .map(|rule| rule.list)
        .max();
    let mut verdict = strictest.unwrap_or_else(|| default(preset, call, thing));
    if let Thing::Segment(script, segment) = thing
        && (may_touch(&mine, call, segment) || runs_unheld(&mine, call, script, segment))
    {
        verdict = verdict.max(Ask);
    }
    let any_agent = rules.iter().any(|rule| rule.section.starts_with("agents."));
    let listed = rules
        .iter()
        .any(|rule| rule.section == format!("agents.{agent}"));
    if any_agent && !listed {
        verdict = verdict.max(Ask);
    }
    if preset == "locked" && verdict == Ask {
        verdict = Deny;
    }
    verdict
}

/// Whether nothing is known about a command, a deny rule is about paths, and no rule allows it: no
/// sandbox of these tests holds the rule.
fn runs_unheld(mine: &[&Written], call: &Call, script: &str, segment: &str) -> bool {
    // `rm` removes what it is given, and nothing else.
    let unknown = segment.starts_with("git");
    let denies = |rule: &&Written| {
        let about_paths = rule.by_access().is_some()
            || (rule.tool != "bash"
                && rule.selects(call)
                && !matches!(rule.pattern, Some("*" | "**")));
        rule.list == Deny && rule.pattern.is_some() && about_paths
    };
    let allows = |rule: &&Written| rule.list == Allow && rule.applies_to(call, script, segment);
    unknown && mine.iter().any(denies) && !mine.iter().any(allows)
}

/// Whether a rule speaks of a path that a word of the command may be.
fn may_touch(mine: &[&Written], call: &Call, segment: &str) -> bool {
    // What `rm` is given, it removes; that is judged as what it is.
    let known = segment.starts_with("rm");
    !known
        && segment.split(' ').skip(1).any(|word| {
            [Access::read(at(word)), Access::write(at(word))]
                .iter()
                .any(|access| {
                    mine.iter().any(|rule| {
                        let patterned = rule.pattern.is_some()
                            && (rule.by_access().is_some()
                                || !matches!(rule.pattern, Some("*" | "**")));
                        rule.list != Allow && patterned && rule.applies(call, Some(access))
                    })
                })
        })
}

fn default(preset: &str, call: &Call, thing: &Thing<'_>) -> Verdict {
    let trusted = call.key.provider.as_str() == "builtin";
    let allowed = match thing {
        Thing::Named(_) => return Allow,
        Thing::Segment(_, segment) => {
            // The sandbox holds the others.
            let deletes = *segment == "rm x";
            let by_preset = match preset {
                "sandboxed" | "workspace" => !deletes,
                "careful" => *segment == "ls",
                _ => false,
            };
            by_preset && call.plan.tier() == Tier::T2
        }
        Thing::Tool => {
            let accesses = &call.plan.accesses();
            let changes = accesses.iter().any(|access| access.kind() != "read");
            let named = !accesses.is_empty() && (call.plan.effects().read_only || changes);
            let looks = call.plan.effects().read_only && !call.plan.effects().open_world;
            named || (looks && preset != "locked")
        }
        Thing::Access(access) => match (access.kind(), preset) {
            (_, "locked") => false,
            ("read", _) | ("write", "sandboxed" | "workspace") => true,
            _ => false,
        },
    };
    match (trusted && allowed, preset) {
        (true, _) => Allow,
        (false, "locked") => Deny,
        (false, _) => Ask,
    }
}

/// In deny and ask: at any depth without a slash, and everything beneath what matches.
fn reaches(pattern: &str, path: &str) -> bool {
    let pattern = if pattern.contains('/') || pattern == "**" {
        pattern.to_owned()
    } else {
        format!("**/{pattern}")
    };
    let components: Vec<&str> = path.split('/').collect();
    (1..=components.len()).any(|depth| glob(&pattern, &components[..depth].join("/")))
}

/// In allow, for a whole tree.
fn covers(pattern: &str, root: &str) -> bool {
    if pattern == "**" {
        return true;
    }
    let Some(directory) = pattern.strip_suffix("/**") else {
        return false;
    };
    let components: Vec<&str> = root.split('/').collect();
    (1..=components.len()).any(|depth| glob(directory, &components[..depth].join("/")))
}

fn glob(pattern: &str, path: &str) -> bool {
    fn go(pattern: &[&str], path: &[&str]) -> bool {
        match (pattern, path) {
            ([], []) => true,
            (["**"], rest) => !rest.is_empty(),
            (["**", more @ ..], rest) => (0..=rest.len()).any(|skip| go(more, &rest[skip..])),
            ([one, more @ ..], [name, rest @ ..]) => wild(one, name) && go(more, rest),
            _ => false,
        }
    }
    let split = |text: &'_ str| text.split('/').map(str::to_owned).collect::<Vec<_>>();
    let (pattern, path) = (split(pattern), split(path));
    go(
        &pattern.iter().map(String::as_str).collect::<Vec<_>>(),
        &path.iter().map(String::as_str).collect::<Vec<_>>(),
    )
}

fn wild(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len())
                .filter(|at| rest.is_char_boundary(*at))
                .any(|at| wild(after, &rest[at..]))
        }),
    }
}
