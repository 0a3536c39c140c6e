//! YAML, to the extent that programs write it. A parser locates things; edits replace whole lines.
//! Entries in any form other than one key per line are refused, not guessed at.

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Value};

use super::{EditRefusal, Fields, not_a_table};

/// The indent of an entry's fields, if the file has no example.
const INDENT: usize = 2;

/// The deepest nesting accepted.
const MAX_DEPTH: usize = 64;

/// The entries of a table.
pub(super) fn entries(text: &str, table: &[String]) -> Result<Vec<(String, Value)>, EditRefusal> {
    let root = parse(text)?;
    let Some(found) = find(&root, table)? else {
        return Ok(Vec::new());
    };
    let pairs = found.pairs().iter();
    Ok(pairs
        .map(|(key, value)| (key.text(), value.value()))
        .collect())
}

/// The whole text as a value.
pub(super) fn value(text: &str) -> Result<Value, EditRefusal> {
    Ok(parse(text)?.value())
}

/// The text with an entry.
pub(super) fn with_entry(
    text: &str,
    table: &[String],
    name: &str,
    fields: &Fields<'_>,
) -> Result<String, EditRefusal> {
    let [heading] = table else {
        return Err(not_simple(table));
    };
    let without = without_entry(text, table, name)?;
    let root = parse(&without)?;
    if !root.is_block() {
        return Err(not_simple(table));
    }
    let mut lines = Lines::of(&without);
    lines.end_last();
    let Some(found) = find(&root, table)? else {
        lines.0.push(format!("{}:\n", scalar(heading)));
        lines.0.extend(entry(name, fields, INDENT));
        return Ok(lines.0.concat());
    };
    let column = match found.pairs().first() {
        Some((first, _)) if first.span.start.line() > found.line => first.span.start.col(),
        Some(_) => return Err(not_simple(table)),
        None => {
            lines.say_empty(found.line, table, "")?;
            INDENT
        }
    };
    let at = found.line.min(lines.0.len());
    lines.0.splice(at..at, entry(name, fields, column));
    Ok(lines.0.concat())
}

/// The text without an entry.
pub(super) fn without_entry(
    text: &str,
    table: &[String],
    name: &str,
) -> Result<String, EditRefusal> {
    let root = parse(text)?;
    let found = find(&root, table)?;
    let pairs = found.as_ref().map(YamlBlock::pairs).unwrap_or_default();
    let key = pairs.iter().map(|(key, _)| key);
    let (Some(found), Some(key)) = (&found, key.clone().find(|key| key.text() == name)) else {
        return Ok(text.to_owned());
    };
    let (first, column) = (key.span.start.line(), key.span.start.col());
    if first <= found.line || !root.is_block() {
        return Err(not_simple(table));
    }
    let mut lines = Lines::of(text);
    let after = lines.next_at_or_left_of(first, column);
    lines.0.splice(first - 1..after - 1, []);
    if pairs.len() == 1 && !table.is_empty() {
        lines.say_empty(found.line, table, " {}")?;
    }
    Ok(lines.0.concat())
}

/// Settings are never changed: no agent that uses YAML has one that Haft changes.
pub(super) fn unchanged_setting() -> EditRefusal {
    EditRefusal::NotSimple("settings in YAML are left alone".to_owned())
}

/// An entry as lines.
fn entry(name: &str, fields: &Fields<'_>, column: usize) -> Vec<String> {
    let (outer, inner) = (" ".repeat(column), " ".repeat(column + INDENT));
    let mut lines = vec![format!("{outer}{}:\n", scalar(name))];
    // JSON is YAML, so a value is written as JSON: nothing in it can be mistaken for syntax.
    lines.extend(
        fields
            .iter()
            .map(|(key, value)| format!("{inner}{key}: {value}\n")),
    );
    lines
}

/// A key: unquoted if it is a plain word.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let starts = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    let word = !matches!(
        text,
        "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
    );
    if starts && word && text.chars().all(plain) {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

fn not_simple(table: &[String]) -> EditRefusal {
    let table = table.join(".");
    EditRefusal::NotSimple(format!(
        "`{table}` does not have each entry on a line of its own"
    ))
}

/// A text split into lines, each with its line ending.
struct Lines(Vec<String>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.split_inclusive('\n').map(str::to_owned).collect())
    }

    /// Ends the last line, so that another can follow.
    fn end_last(&mut self) {
        if let Some(last) = self.0.last_mut().filter(|last| !last.ends_with('\n')) {
            last.push('\n');
        }
    }

    /// Writes an empty table, whose key is on this line, as `spelt`.
    fn say_empty(&mut self, line: usize, table: &[String], spelt: &str) -> Result<(), EditRefusal> {
        let line = self.0.get_mut(line - 1).ok_or_else(|| not_simple(table))?;
        let (key, rest) = line.split_once(':').ok_or_else(|| not_simple(table))?;
        let (value, comment) = match rest.split_once('#') {
            Some((value, comment)) => (value.trim(), format!(" #{}", comment.trim_end())),
            None => (rest.trim(), String::new()),
        };
        if !matches!(value, "" | "{}" | "null" | "~") {
            return Err(not_simple(table));
        }
        *line = format!("{key}:{spelt}{comment}\n");
        Ok(())
    }

    /// The number of the first line after this one that is indented no further than `column`. Blank
    /// lines and comments before that line belong to it. Lines are counted from 1.
    fn next_at_or_left_of(&self, line: usize, column: usize) -> usize {
        let mut next = line + 1;
        let mut end = next;
        while let Some(text) = self.0.get(next - 1) {
            let trimmed = text.trim();
            let indent = text.len() - text.trim_start().len();
            if !trimmed.is_empty() && indent <= column {
                if !trimmed.starts_with('#') {
                    break;
                }
            } else if !trimmed.is_empty() {
                end = next + 1;
            }
            next += 1;
        }
        end
    }
}

/// A parsed value and its position.
struct Node {
    kind: Kind,
    span: Span,
}

enum Kind {
    Scalar { text: String, plain: bool },
    Sequence(Vec<Node>),
    Mapping(Vec<(Node, Node)>),
}

/// The value of a key, a mapping or nothing, and the line of the key.
struct YamlBlock<'n> {
    node: &'n Node,
    line: usize,
}

impl<'n> YamlBlock<'n> {
    fn pairs(&self) -> &'n [(Node, Node)] {
        match &self.node.kind {
            Kind::Mapping(pairs) => pairs,
            Kind::Scalar { .. } | Kind::Sequence(_) => &[],
        }
    }
}

impl Node {
    fn text(&self) -> String {
        match &self.kind {
            Kind::Scalar { text, .. } => text.clone(),
            Kind::Sequence(_) | Kind::Mapping(_) => String::new(),
        }
    }

    fn is_null(&self) -> bool {
        self.value().is_null()
    }

    /// Whether its keys, if any, are at the start of lines.
    fn is_block(&self) -> bool {
        match &self.kind {
            Kind::Mapping(pairs) => pairs.iter().all(|(key, _)| key.span.start.col() == 0),
            Kind::Scalar { .. } => self.is_null(),
            Kind::Sequence(_) => false,
        }
    }

    fn value(&self) -> Value {
        match &self.kind {
            Kind::Scalar { text, plain: false } => Value::from(text.as_str()),
            Kind::Scalar { text, plain: true } => plain(text),
            Kind::Sequence(items) => Value::Array(items.iter().map(Self::value).collect()),
            Kind::Mapping(pairs) => Value::Object(
                pairs
                    .iter()
                    .map(|(key, value)| (key.text(), value.value()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }
}

/// The meaning of an unquoted word in YAML's core schema.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => {
            let whole = text.parse::<i64>().ok().map(Value::from);
            let float = || text.parse::<f64>().ok().filter(|float| float.is_finite());
            whole
                .or_else(|| float().map(Value::from))
                .unwrap_or_else(|| Value::from(text))
        }
    }
}

fn find<'n>(root: &'n Node, table: &[String]) -> Result<Option<YamlBlock<'n>>, EditRefusal> {
    let mut found = YamlBlock {
        node: root,
        line: 0,
    };
    for (depth, key) in table.iter().enumerate() {
        let mut pairs = found.pairs().iter();
        let Some((name, node)) = pairs.find(|(name, _)| name.text() == *key) else {
            return Ok(None);
        };
        if !(node.is_null() || matches!(node.kind, Kind::Mapping(_))) {
            return Err(not_a_table(table.get(..=depth).unwrap_or(table)));
        }
        let line = name.span.start.line();
        found = YamlBlock { node, line };
    }
    Ok(Some(found))
}

fn parse(text: &str) -> Result<Node, EditRefusal> {
    let mut events = Events {
        parser: Parser::new_from_str(text),
    };
    events.document()
}

struct Events<'t> {
    parser: Parser<'t, saphyr_parser::StrInput<'t>>,
}

impl<'t> Events<'t> {
    /// The single document of a text.
    fn document(&mut self) -> Result<Node, EditRefusal> {
        let mut document = None;
        loop {
            match self.next()? {
                (Event::StreamStart | Event::DocumentEnd | Event::Nothing, _) => {}
                (Event::DocumentStart(_), _) if document.is_none() => {
                    let (event, span) = self.next()?;
                    document = Some(self.node(event, span, 0)?);
                }
                (Event::StreamEnd, span) => {
                    return Ok(document.unwrap_or(Node {
                        kind: Kind::Scalar {
                            text: String::new(),
                            plain: true,
                        },
                        span,
                    }));
                }
                _ => {
                    return Err(EditRefusal::NotSimple(
                        "it contains more than one document".to_owned(),
                    ));
                }
            }
        }
    }

    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node, EditRefusal> {
        if depth > MAX_DEPTH {
            return Err(EditRefusal::NotSimple("it is nested too deep".to_owned()));
        }
        let kind = match event {
            Event::Scalar(text, style, _, tag) => Kind::Scalar {
                text: text.into_owned(),
                plain: style == ScalarStyle::Plain && tag.is_none(),
            },
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break Kind::Sequence(items),
                        (event, span) => items.push(self.node(event, span, depth + 1)?),
                    }
                }
            }
            Event::MappingStart(..) => {
                let mut pairs = Vec::new();
                loop {
                    let (event, span) = self.next()?;
                    if event == Event::MappingEnd {
                        break Kind::Mapping(pairs);
                    }
                    let key = self.node(event, span, depth + 1)?;
                    let (event, span) = self.next()?;
                    pairs.push((key, self.node(event, span, depth + 1)?));
                }
            }
            Event::Alias(_) => {
                return Err(EditRefusal::NotSimple("it uses an alias (`*`)".to_owned()));
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => {
                return Err(EditRefusal::Broken("it ends too early".to_owned()));
            }
        };
        Ok(Node { kind, span })
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), EditRefusal> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(EditRefusal::Broken(error.to_string())),
            None => Err(EditRefusal::Broken("it ends too early".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{Format, borrowed, entries, with_entry, without_entry};

    fn fields() -> Vec<(&'static str, Value)> {
        vec![
            ("enabled", json!(true)),
            ("cmd", json!("/bin/haft")),
            ("args", json!(["mcp"])),
            ("envs", json!({"A": "b: c"})),
        ]
    }

    fn table() -> [String; 1] {
        ["extensions".to_owned()]
    }

    const ENTRY: &str = "  haft:\n    enabled: true\n    cmd: \"/bin/haft\"\n    args: [\"mcp\"]\n    envs: {\"A\":\"b: c\"}\n";

    fn check(before: &str, expected: &str) {
        let after =
            with_entry(Format::Yaml, before, &table(), "haft", &borrowed(&fields())).unwrap();
        assert_eq!(after, expected);
        let again =
            with_entry(Format::Yaml, &after, &table(), "haft", &borrowed(&fields())).unwrap();
        assert_eq!(again, expected, "a second time changes nothing");
    }

    #[test]
    fn an_entry_stands_before_the_others() {
        check("", &format!("extensions:\n{ENTRY}"));
        check("a: 1", &format!("a: 1\nextensions:\n{ENTRY}"));
        check(
            "extensions: {} # none\nb: 2\n",
            &format!("extensions: # none\n{ENTRY}b: 2\n"),
        );
        check(
            "# mine\nGOOSE_MODE: \"auto\" # kept\nextensions:\n  # the first\n  developer:\n    type: builtin\n    text: |\n      # not a comment\n\n      haft: x\n  # last\nz:\n- 1\n",
            &format!(
                "# mine\nGOOSE_MODE: \"auto\" # kept\nextensions:\n{ENTRY}  # the first\n  developer:\n    type: builtin\n    text: |\n      # not a comment\n\n      haft: x\n  # last\nz:\n- 1\n"
            ),
        );
    }

    #[test]
    fn taking_an_entry_away_leaves_the_rest_as_it_was() {
        for before in [
            "extensions:\n  a:\n    type: stdio\n\n  # about b\n  b:\n    type: stdio\n",
            "extensions:\n  a:\n    text: |\n      # content\n\n# the end\nz: 1\n",
        ] {
            let with =
                with_entry(Format::Yaml, before, &table(), "haft", &borrowed(&fields())).unwrap();
            let without = without_entry(Format::Yaml, &with, &table(), "haft").unwrap();
            assert_eq!(without, before);
        }
        let taken = without_entry(
            Format::Yaml,
            "extensions:\n  a:\n    text: |\n      # content\n\n# the end\nz: 1\n",
            &table(),
            "a",
        );
        assert_eq!(taken.unwrap(), "extensions: {}\n\n# the end\nz: 1\n");
    }

    #[test]
    fn what_is_not_one_entry_beneath_the_other_is_refused() {
        for text in [
            "extensions: {a: {type: stdio}}\n",
            "extensions: [a]\n",
            "extensions: x\n",
            "{extensions: {}}\n",
            "a: 1\n---\nb: 2\n",
            "a: [1\n",
            "a: 1\n...\n",
            "extensions: &x\n  a: {}\nother: *x\n",
        ] {
            let refused = with_entry(Format::Yaml, text, &table(), "haft", &borrowed(&fields()));
            assert!(refused.is_err(), "{text}: {refused:?}");
        }
    }

    #[test]
    fn entries_are_read_as_they_are_meant() {
        let text = "extensions:\n  a:\n    timeout: 300\n    enabled: true\n    cmd: npx\n    args:\n    - -y\n    - 'x@1'\n    uri: null\n";
        assert_eq!(
            entries(Format::Yaml, text, &table()).unwrap(),
            [(
                "a".to_owned(),
                json!({"timeout": 300, "enabled": true, "cmd": "npx", "args": ["-y", "x@1"], "uri": null})
            )]
        );
    }
}
