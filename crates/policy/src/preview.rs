//! The commands of a plan one by one, as they were judged, for a person who is asked: what each
//! runs, reads, writes and reaches, which are not fully understood, and the answer to each.
//!
//! Nothing is truncated here; what is too long to show is refused by whatever shows it.

use haft_contract::{
    Access, PathMode,
    host::{Question, Verdict},
    preview::{CommandPreview, TouchKind, TouchTarget},
};

use crate::{
    engine::CedarPolicy,
    facts::{CommandPart, ReadQuestion},
    shell::Segment,
};

impl CedarPolicy {
    pub(crate) fn command_previews(&self, question: &Question<'_>) -> Vec<CommandPreview> {
        let asked = ReadQuestion::new(question);
        let mut found: Vec<(Option<&Segment>, CommandPreview)> = Vec::new();
        for judged in self.judgements(&asked) {
            let verdict = judged.judgement.verdict;
            match (judged.item.part, judged.item.access) {
                (CommandPart::Segment(segment, _) | CommandPart::Touch(segment, ..), _) => {
                    let known = found
                        .iter_mut()
                        .find(|(known, _)| known.is_some_and(|known| std::ptr::eq(known, segment)));
                    match known {
                        Some((_, preview)) => preview.verdict = preview.verdict.max(verdict),
                        None => found.push((Some(segment), of_segment(segment, verdict))),
                    }
                }
                (CommandPart::Refused(refusal), Some(Access::Command(command))) => {
                    let text = command.command.text();
                    if !found.iter().any(|(_, known)| known.text == text) {
                        let preview = CommandPreview {
                            text,
                            touches: Vec::new(),
                            may_name: Vec::new(),
                            opaque: Some(refusal.to_string()),
                            unbound: None,
                            verdict,
                        };
                        found.push((None, preview));
                    }
                }
                (CommandPart::Whole | CommandPart::Refused(_), _) => {}
            }
        }
        found.into_iter().map(|(_, preview)| preview).collect()
    }
}

/// The note on a command whose files cannot be determined.
const UNBOUND: &str =
    "the files it works on are known only when it runs, and may change after you answer";

fn of_segment(segment: &Segment, verdict: Verdict) -> CommandPreview {
    let runs = segment.runs().iter().map(|what| TouchTarget {
        how: TouchKind::Runs,
        what: what.clone(),
    });
    let paths = segment.names().map(|(mode, what)| TouchTarget {
        how: match mode {
            PathMode::Read => TouchKind::Reads,
            PathMode::Write => TouchKind::Writes,
        },
        what: what.to_owned(),
    });
    let hosts = segment.touches().filter_map(host);
    let mut touches: Vec<TouchTarget> = Vec::new();
    for touched in runs.chain(paths).chain(hosts) {
        if !touches.contains(&touched) {
            touches.push(touched);
        }
    }
    let mut line = segment.line();
    if !segment.inside().is_empty() {
        line = format!("{line}  (inside {})", segment.inside().join(", "));
    }
    CommandPreview {
        text: line,
        touches,
        may_name: segment.may_name().to_vec(),
        opaque: segment.opaque(),
        unbound: segment.is_vague().then(|| UNBOUND.to_owned()),
        verdict,
    }
}

fn host(access: &Access) -> Option<TouchTarget> {
    match access {
        Access::Host { host, port } => Some(TouchTarget {
            how: TouchKind::Connects,
            what: format!("{host}:{port}"),
        }),
        Access::Path(_)
        | Access::Command(_)
        | Access::Process(_)
        | Access::Database { .. }
        | Access::Message { .. }
        | Access::RemoteTool { .. }
        | Access::Custom(_) => None,
    }
}
