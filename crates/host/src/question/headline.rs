//! The first line of a question: the tool and the strongest thing it does, and who asks for it.

use serde_json::{Map, Value};

use super::{BUILT_IN, DrawingContext, RoomForText, access, items, preview, text};
use crate::screen_text::{TextLine, Tone, below_home, field, most_columns, visible};

/// The least space between what happens and who asks on one line. The agent's text has no such run
/// of spaces: `visible` counts it instead.
const GAP: usize = 9;

/// What happens, in one line, and who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// The tool, and its action if it has several.
    pub tool: String,
    /// What it does it to: a path, a command, a host.
    pub what: String,
    /// The agent, the kind of session and the workspace; absent where there is no room for it.
    pub who: Option<String>,
}

impl Headline {
    /// The line; two where both halves do not fit on one.
    pub(super) fn lines(&self, columns: Option<usize>) -> Vec<TextLine> {
        let mut first = vec![
            (Tone::Warn, format!("{}  ", self.tool)),
            (Tone::Strong, self.what.clone()),
        ];
        let Some(who) = &self.who else {
            return vec![first];
        };
        let width = |text: &str| text.chars().map(most_columns).sum::<usize>();
        let used = width(&self.tool) + 2 + width(&self.what) + width(who);
        match columns.and_then(|columns| columns.checked_sub(used)) {
            Some(space) if space >= GAP => {
                first.push((Tone::Dim, format!("{}{who}", " ".repeat(space))));
                vec![first]
            }
            Some(_) | None => vec![first, field("by", who)],
        }
    }

    /// The line without who asks, for a title.
    pub fn title(&self) -> String {
        format!("{} {}", self.tool, self.what).trim_end().to_owned()
    }
}

/// Draws it.
pub(super) fn draw(form: &Map<String, Value>, cx: DrawingContext<'_>) -> Headline {
    let tool = text(form.get("tool"));
    let mut tool = visible::line(tool.strip_prefix(BUILT_IN).unwrap_or(tool));
    if let Some(action) = form.get("action").and_then(Value::as_str) {
        tool = format!("{tool} ({})", visible::line(action));
    }
    Headline {
        tool,
        what: what(form),
        who: match cx.room {
            RoomForText::Enough => Some(who(form, cx.home)),
            RoomForText::Narrow(_) => None,
        },
    }
}

/// The object of the strongest access: what a call changes or runs, not what it reads for that.
fn what(form: &Map<String, Value>) -> String {
    if let [_, _, ..] = diffs(form).as_slice() {
        return format!("{} files", diffs(form).len());
    }
    let Some(access) = strongest(form) else {
        return String::new();
    };
    let mut object = access::object(access);
    // A tool that changes things is expected to change what it names.
    let only_reads = items(form.get("effects")).next().and_then(Value::as_bool) == Some(true);
    if strength(access) == READS && !only_reads {
        object = format!("reads {object}");
    }
    match diffs(form).as_slice() {
        [diff] if text(access.get("path")) == text(diff.get("path")) => {
            format!("{object}{}", preview::change_in_words(diff))
        }
        _ => object,
    }
}

/// The changes of files that are shown.
pub(super) fn diffs(form: &Map<String, Value>) -> Vec<&Value> {
    let parts = items(form.get("preview"));
    parts
        .filter(|part| text(part.get("kind")) == "diff")
        .collect()
}

/// The access that says most about a call; the first of several.
pub(super) fn strongest(form: &Map<String, Value>) -> Option<&Value> {
    let mut strongest: Option<&Value> = None;
    for access in items(form.get("accesses")) {
        if strongest.is_none_or(|known| strength(known) < strength(access)) {
            strongest = Some(access);
        }
    }
    strongest
}

/// The strength of reading a path.
const READS: u8 = 0;

fn strength(access: &Value) -> u8 {
    match text(access.get("kind")) {
        "path" if text(access.get("mode")) == "read" => READS,
        "database" if access.get("writes").and_then(Value::as_bool) == Some(false) => 1,
        "host" => 2,
        "process" => 3,
        "path" | "database" | "message" | "remote_tool" | "custom" => 4,
        // A command, and whatever this version does not know.
        _ => 5,
    }
}

/// `claude-code · main · ~/demo`.
fn who(form: &Map<String, Value>, home: Option<&str>) -> String {
    let of = |name: &str| {
        let principal = form.get("principal");
        visible::line(text(principal.and_then(|principal| principal.get(name))))
    };
    let workspace = text(form.get("workspace"));
    let workspace = below_home(workspace, home);
    [of("agent"), of("kind"), visible::line(&workspace)].join(" · ")
}
