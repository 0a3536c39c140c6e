//! `edit`: replaces pieces of a file and leaves every other byte alone.
//!
//! All edits are matched against the file as it is now. Each must match one place (or say which
//! one), and they must not overlap. The file is written only if it is still the version that was
//! matched.

use haft_contract::{
    Access, CallContext, Content, Effects, ErrorKind, NoProgress, Plan, PlanContext, Tool,
    ToolError, ToolSpec, WorkPath,
    context::PreviewContext,
    ops::{Expected, FileVersion, WriteFile, WriteMode},
    preview::Preview,
    spec::{ForeignCall, ParameterAlias},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    file_view::{FileView, preview_of},
    seen::refuse_if_changed,
    whole::read_whole,
};
use crate::change::{FileChange, ShownChange};
use crate::foreign::{leave_out, refuse_unless};
use crate::text::{
    diff::capped,
    display::one_line,
    encoding::{DecodedText, Replacement, is_binary},
    heavy::{Stop, WorkStopped, by_size},
    locate::{Locator, MAX_PLACES, NotLocated, WantedChange, WhichOccurrence},
    nearest::nearest_lines,
};

/// The largest file an edit may produce.
const MAX_RESULT_BYTES: usize = 64 * 1024 * 1024;

const DESCRIPTION: &str = "\
Changes parts of one file: each edit replaces the text `old` by the text `new`.
Use it for any change to an existing file; read the file first. Use `write` to replace a whole \
file, `patch` to change several files in one step; do not use `sed -i` in `bash`.
`old` must occur exactly once, so include enough lines around the change; otherwise set `all` to \
change every occurrence, or `line` to say which one. All edits refer to the file as it is before \
the call and must not overlap. Line ends, encoding and untouched text are kept as they are. The \
result is the diff.";

/// The `edit` tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct EditTool;

/// What `edit` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditInput {
    /// The file to change: relative to the workspace, or absolute inside it.
    pub path: String,
    /// The replacements to make, all against the file as it is now.
    #[schemars(length(min = 1))]
    pub edits: Vec<Edit>,
}

/// One replacement.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Edit {
    /// The text to replace, copied from the file without line numbers.
    #[schemars(length(min = 1))]
    pub old: String,
    /// The text to put in its place; empty to delete.
    pub new: String,
    /// Whether to replace every occurrence.
    #[serde(default)]
    pub all: bool,
    /// The line (from 1) of the occurrence meant, when there are several.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub line: Option<u64>,
}

/// What `edit` did.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EditOutput {
    /// The file, relative to the workspace.
    pub path: String,
    /// Places changed.
    pub replacements: u64,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
    /// The change as a unified diff.
    #[serde(skip)]
    diff: String,
}

/// What to do instead of undoing an edit.
const UNDO: &str = "make the opposite edit; a person can undo calls";

impl Tool for EditTool {
    type Input = EditInput;
    type Output = EditOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "edit";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Edit a file", DESCRIPTION)
            .effects(Effects::CHANGES)
            .groups(&["files"])
            .aliases(&["edit_file", "Edit", "MultiEdit"])
            .foreign_names(&["replace", "search_replace"])
            .foreign_calls(&[
                ForeignCall::new("text_editor").when("command", "str_replace"),
                ForeignCall::new("text_editor").when("command", "edit"),
                ForeignCall::new("text_editor")
                    .when("command", "undo_edit")
                    .instead(UNDO),
                ForeignCall::new("str_replace_editor")
                    .when("command", "undo_edit")
                    .instead(UNDO),
                ForeignCall::new("str_replace_editor").when("command", "str_replace"),
                ForeignCall::new("str_replace_based_edit_tool").when("command", "str_replace"),
            ])
            .parameter_aliases(&[
                ParameterAlias::new("file_path", "path"),
                ParameterAlias::new("target_file", "path"),
                ParameterAlias::new("old_string", "old").within("edits"),
                ParameterAlias::new("old_text", "old").within("edits"),
                ParameterAlias::new("oldText", "old").within("edits"),
                ParameterAlias::new("old_str", "old").within("edits"),
                ParameterAlias::new("new_string", "new").within("edits"),
                ParameterAlias::new("new_text", "new").within("edits"),
                ParameterAlias::new("newText", "new").within("edits"),
                ParameterAlias::new("new_str", "new").within("edits"),
                ParameterAlias::new("before", "old").within("edits"),
                ParameterAlias::new("after", "new").within("edits"),
                ParameterAlias::new("replace_all", "all").within("edits"),
                ParameterAlias::new("allow_multiple", "all").within("edits"),
            ])
            .reshape(other_edits)
    }

    fn plan(&self, input: &EditInput, cx: &PlanContext) -> Result<Plan, ToolError> {
        let path = cx.path(&input.path, "/path")?;
        for (index, edit) in input.edits.iter().enumerate() {
            check(index, edit)?;
        }
        Ok(Plan::new(Effects::CHANGES)
            .access(Access::read(path.clone()))
            .access(Access::write(path)))
    }

    async fn run(
        &self,
        input: EditInput,
        cx: CallContext<NoProgress>,
    ) -> Result<EditOutput, ToolError> {
        let path = cx.path(&input.path, "/path")?;
        // PE-25: the model works from what it read; a file replaced since then may hold the same
        // words in another place. A missing file is reported when it is opened.
        if let Ok(present) = cx.files().stat(&path).await {
            let hint = "read it again, then edit what it holds now";
            refuse_if_changed(&cx, &path, &present, hint).await?;
        }
        let (version, edited) = prepare(&cx, &path, input.edits).await?;
        let write = WriteFile {
            bytes: &edited.bytes,
            expected: Expected::Version(&version),
            mode: WriteMode::AsItIs,
        };
        cx.files().write(&path, write).await?;
        Ok(EditOutput {
            path: path.as_str().to_owned(),
            replacements: edited.replacements as u64,
            added: edited.shown.added,
            removed: edited.shown.removed,
            diff: capped(&edited.shown.diff.text),
        })
    }

    async fn preview(&self, input: &EditInput, cx: PreviewContext) -> Result<Preview, ToolError> {
        let path = cx.path(&input.path, "/path")?;
        let (_, edited) = prepare(&cx, &path, input.edits.clone()).await?;
        Ok(preview_of([edited.shown]))
    }

    fn render(&self, output: &EditOutput) -> Vec<Content> {
        vec![Content::text(output.diff.clone())]
    }
}

/// Reads the file and makes the edits; used for writing and for showing them.
async fn prepare(
    cx: &impl FileView,
    path: &WorkPath,
    edits: Vec<Edit>,
) -> Result<(FileVersion, Edited), ToolError> {
    let reader = cx.files().open(path).await.map_err(|error| {
        let absent = error.kind() == ErrorKind::NotFound;
        let error = ToolError::from(error).at("/path");
        if absent {
            error.hint("use `write` to create a file")
        } else {
            error
        }
    })?;
    let file = read_whole(&*reader, path).await?;
    if is_binary(&file.bytes) {
        return Err(ToolError::invalid_input(format!(
            "`{}` is a binary file",
            one_line(path.as_str())
        ))
        .at("/path"));
    }
    let bytes = file.bytes;
    let size = bytes.len() + edits.iter().map(Edit::size).sum::<usize>();
    let name = path.clone();
    let edited = by_size(size, cx.cancel(), move |stop| {
        edited(&name, &bytes, &edits, stop)
    })
    .await?;
    Ok((file.version, edited))
}

struct Edited {
    bytes: Vec<u8>,
    replacements: usize,
    shown: ShownChange,
}

fn edited(path: &WorkPath, bytes: &[u8], edits: &[Edit], stop: &Stop) -> Result<Edited, ToolError> {
    let decoded = DecodedText::decode(bytes);
    let replacements = locate_all(decoded.text(), edits, stop)?;
    check_size(bytes.len(), &replacements)?;
    stop.check()?;
    let after = decoded.splice(&replacements).map_err(|refused| {
        ToolError::invalid_input(format!(
            "the change cannot be written in the file's encoding, {}, without changing other bytes",
            refused.encoding
        ))
        .at("/edits")
        .hint("convert the file to UTF-8 first, for example with `iconv` in `bash`")
    })?;
    stop.check()?;
    let change = FileChange {
        path,
        to: None,
        before: Some(bytes),
        after: Some(&after),
    };
    let shown = change.show();
    Ok(Edited {
        bytes: after,
        replacements: replacements.len(),
        shown,
    })
}

impl Edit {
    fn size(&self) -> usize {
        self.old.len() + self.new.len()
    }
}

/// What other systems' edits take besides. A number of replacements that is expected is what `all`
/// says, as far as it can be said beforehand: one, or every one.
fn other_edits(input: &mut Map<String, Value>) -> Result<Vec<String>, ToolError> {
    let mut notes = Vec::new();
    let preview = "whoever allows the edit sees it before it is made; leave `dryRun` out";
    refuse_unless(input, "dryRun", &[], preview)?;
    refuse_unless(input, "dry_run", &[], preview)?;
    let pair = "give the text to replace as `old` and the text to put in its place as `new`";
    refuse_unless(input, "code_edit", &[], pair)?;
    refuse_unless(input, "diff", &[], "use `patch` for a diff")?;
    if let Some(expected) = input.remove("expected_replacements") {
        if expected.as_f64() != Some(1.0) {
            return Err(
                ToolError::invalid_input("`expected_replacements` can only be 1")
                    .at("/expected_replacements")
                    .hint("leave it out, and set `all` to replace every occurrence"),
            );
        }
        notes.push("`expected_replacements` is left out: one is expected".to_owned());
    }
    let unneeded = [
        ("instruction", "the replacement says what to do"),
        ("instructions", "the replacement says what to do"),
        ("explanation", "the replacement says what to do"),
    ];
    leave_out(input, &unneeded, &mut notes);
    Ok(notes)
}

/// Checks an edit without looking at the file.
fn check(index: usize, edit: &Edit) -> Result<(), ToolError> {
    if edit.old.is_empty() {
        return Err(ToolError::invalid_input("the text to replace is empty")
            .at(format!("/edits/{index}/old"))
            .hint("use `write` to create a file, or name the text before the place to insert at"));
    }
    if edit.old == edit.new {
        return Err(
            ToolError::invalid_input("the old and the new text are the same")
                .at(format!("/edits/{index}/new"))
                .hint("leave this edit out"),
        );
    }
    if edit.all && edit.line.is_some() {
        return Err(
            ToolError::invalid_input("`all` and `line` cannot both be given")
                .at(format!("/edits/{index}/line")),
        );
    }
    Ok(())
}

/// Every replacement of every edit, sorted by position.
fn locate_all(text: &str, edits: &[Edit], stop: &Stop) -> Result<Vec<Replacement>, ToolError> {
    let mut locator = Locator::new(text);
    let mut found: Vec<(usize, Replacement)> = Vec::new();
    for (index, edit) in edits.iter().enumerate() {
        let place = match edit.line {
            _ if edit.all => WhichOccurrence::Every,
            Some(line) => WhichOccurrence::Line(line),
            None => WhichOccurrence::Only,
        };
        let wanted = WantedChange {
            old: &edit.old,
            new: &edit.new,
            place,
        };
        let located = locator
            .locate(wanted, stop)
            .and_then(|located| {
                // The limit also applies to all edits together.
                if found.len() + located.len() > MAX_PLACES {
                    Err(NotLocated::TooMany)
                } else {
                    Ok(located)
                }
            })
            .map_err(|missing| not_located(text, index, edit, &missing, stop))?;
        found.extend(located.into_iter().map(|replacement| (index, replacement)));
    }
    found.sort_by_key(|(_, replacement)| (replacement.range.start, replacement.range.end));
    for pair in found.windows(2) {
        if let [(first, one), (second, other)] = pair
            && other.range.start < one.range.end
        {
            return Err(ToolError::invalid_input(format!(
                "edits {first} and {second} change the same text"
            ))
            .at(format!("/edits/{}/old", first.max(second)))
            .hint("merge them into one edit"));
        }
    }
    Ok(found
        .into_iter()
        .map(|(_, replacement)| replacement)
        .collect())
}

fn not_located(
    text: &str,
    index: usize,
    edit: &Edit,
    missing: &NotLocated,
    stop: &Stop,
) -> ToolError {
    let pointer = format!("/edits/{index}/old");
    match missing {
        NotLocated::Stopped => WorkStopped.into(),
        NotLocated::Absent => {
            let error = ToolError::new(
                ErrorKind::NoMatch,
                "the text to replace is not in the file; nothing was changed",
            )
            .at(pointer)
            .hint("copy the text from a fresh `read`, without line numbers");
            match nearest_lines(text, &edit.old, stop) {
                Ok(Some(nearest)) => error.with_content(Content::Text(nearest)),
                Ok(None) => error,
                Err(stopped) => stopped.into(),
            }
        }
        NotLocated::Ambiguous(lines) => ToolError::new(
            ErrorKind::NoMatch,
            format!(
                "the text to replace is in several places (lines {}); nothing was changed",
                named(lines)
            ),
        )
        .at(pointer)
        .hint("add surrounding lines to `old`, or give `line`, or set `all`"),
        NotLocated::TooMany => ToolError::new(
            ErrorKind::LimitExceeded,
            "the text to replace is in too many places; nothing was changed",
        )
        .at(pointer)
        .hint("give a longer `old`, or use a command in `bash`, such as `sed`"),
        NotLocated::Elsewhere(lines) => ToolError::new(
            ErrorKind::NoMatch,
            format!(
                "the text to replace is not on that line but on lines {}; nothing was changed",
                named(lines)
            ),
        )
        .at(format!("/edits/{index}/line"))
        .hint("give one of these lines"),
    }
}

fn named(lines: &[u64]) -> String {
    let lines: Vec<String> = lines.iter().map(u64::to_string).collect();
    lines.join(", ")
}

/// Computes the size before anything is allocated, so that `all` cannot exhaust memory.
fn check_size(before: usize, replacements: &[Replacement]) -> Result<(), ToolError> {
    let added: usize = replacements
        .iter()
        .map(|replacement| replacement.text.len())
        .fold(0, usize::saturating_add);
    if before.saturating_add(added) > MAX_RESULT_BYTES {
        return Err(ToolError::new(
            ErrorKind::LimitExceeded,
            format!(
                "the edited file would be larger than {} MiB; nothing was changed",
                MAX_RESULT_BYTES / 1024 / 1024
            ),
        )
        .at("/edits"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop() -> Stop {
        Stop::with(&tokio_util::sync::CancellationToken::new())
    }

    fn edit(old: &str, new: &str) -> Edit {
        Edit {
            old: old.to_owned(),
            new: new.to_owned(),
            all: false,
            line: None,
        }
    }

    #[test]
    fn overlapping_edits_are_refused() {
        let error =
            locate_all("abcdef", &[edit("bcd", "x"), edit("cde", "y")], &stop()).unwrap_err();
        assert_eq!(error.pointer(), Some("/edits/1/old"));
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn edits_are_matched_against_the_original() {
        let found = locate_all("a b", &[edit("a", "b"), edit("b", "a")], &stop()).unwrap();
        let decoded = DecodedText::decode(b"a b");
        assert_eq!(decoded.splice(&found).unwrap(), b"b a");
    }

    /// Many edits that each replace every place cost memory before the overlap is noticed.
    #[test]
    fn rx_17_places_are_bounded_over_all_edits() {
        let text = "a".repeat(MAX_PLACES / 2 + 1);
        let every = |new: &str| Edit {
            all: true,
            ..edit("a", new)
        };
        let error = locate_all(&text, &[every("b"), every("c")], &stop()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    }

    #[test]
    fn rx_17_an_edit_that_explodes_is_refused_before_it_allocates() {
        let replacement = Replacement {
            range: 0..1,
            text: "x".repeat(1024).into(),
        };
        let many = vec![replacement; 70_000];
        assert_eq!(
            check_size(1, &many).unwrap_err().kind(),
            ErrorKind::LimitExceeded
        );
    }

    /// A character that no generated file contains, one byte in every encoding.
    const MARK: &str = "\u{1}";

    fn marked(range: std::ops::Range<usize>) -> Replacement {
        Replacement {
            range,
            text: MARK.into(),
        }
    }

    /// The bytes between the given places.
    fn pieces(decoded: &DecodedText<'_>, places: &[Replacement]) -> Result<Vec<Vec<u8>>, ()> {
        let marks: Vec<_> = places
            .iter()
            .map(|place| marked(place.range.clone()))
            .collect();
        let spliced = decoded.splice(&marks).map_err(drop)?;
        Ok(spliced
            .split(|byte| *byte == 1)
            .map(<[u8]>::to_vec)
            .collect())
    }

    proptest::proptest! {
        /// Bytes outside the matched places never change.
        #[test]
        fn an_edit_never_changes_bytes_outside_its_places(
            bytes in proptest::collection::vec(
                proptest::sample::select(b"ab \t\n\r\"'-\xe2\x80\x94\xc3\xa9\xff".to_vec()), 0..80),
            old in "[ab \t\n\"'-]{1,6}",
            new in "[abc \t\n\"'-]{0,6}",
            all in proptest::bool::ANY,
        ) {
            let decoded = DecodedText::decode(&bytes);
            let wanted = WantedChange {
                old: &old,
                new: &new,
                place: if all { WhichOccurrence::Every } else { WhichOccurrence::Only },
            };
            if let Ok(found) = Locator::new(decoded.text()).locate(wanted, &stop())
                && let Ok(kept) = pieces(&decoded, &found)
            {
                // Joining the text between the places with the text in them must give the file
                // back, so nothing but the places changes.
                let mut between = Vec::new();
                let mut from = 0;
                for place in &found {
                    between.push(marked(from..place.range.start));
                    from = place.range.end;
                }
                between.push(marked(from..decoded.text().len()));
                let replaced = pieces(&decoded, &between).unwrap();
                let mut together = Vec::new();
                for (index, piece) in kept.iter().enumerate() {
                    together.extend_from_slice(piece);
                    if index < found.len() {
                        together.extend_from_slice(&replaced[index + 1]);
                    }
                }
                proptest::prop_assert_eq!(together, bytes);
            }
        }
    }
}
