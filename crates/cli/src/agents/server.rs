//! A server as agents' configurations describe it, whatever the format: how it is started or
//! reached, and what it is given. Each agent's file translates to and from this.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The fields of an entry that an agent reads, in the order they are written.
pub(crate) type EntryFields = Vec<(&'static str, Value)>;

/// One server of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    /// What the agent calls it.
    pub(crate) name: String,
    /// How it is started or reached.
    pub(crate) reach: ServerTransport,
    /// Whether the agent uses it.
    pub(crate) enabled: bool,
    /// Settings of the agent's own that are not translated.
    pub(crate) left_out: Vec<String>,
}

/// How a server is started or reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerTransport {
    /// A program that speaks over its standard input and output.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Variables it is given.
        env: BTreeMap<String, EntryValue>,
        /// Where it is started.
        cwd: Option<String>,
    },
    /// An address that is spoken to over HTTP.
    Address {
        /// The address.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, EntryValue>,
        /// Whether it speaks the transport of 2024 that only sends events.
        events_only: bool,
    },
}

/// A value of a variable or a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryValue {
    /// As it is written.
    Text(String),
    /// From a variable of the agent's own environment.
    Variable {
        /// What stands before it, such as `Bearer `.
        before: String,
        /// The variable.
        name: String,
    },
    /// Something only the agent can fill in.
    Foreign(String),
}

/// How an agent writes that a value comes from its environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variables {
    /// `${NAME}`.
    Braces,
    /// `$NAME` or `${NAME}`.
    Dollar,
    /// `${env:NAME}`; other words before the colon mean other things.
    Env,
    /// `{env:NAME}`; other words before the colon mean other things.
    CurlyEnv,
    /// Not within values.
    Never,
}

impl Variables {
    /// What a written value means.
    pub(crate) fn read(self, text: &str) -> EntryValue {
        if self == Self::CurlyEnv {
            return read_curly(text);
        }
        let Some((before, reference)) = text.split_once('$') else {
            return EntryValue::Text(text.to_owned());
        };
        let inner = reference
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'));
        let name = match (self, inner) {
            (Self::Never | Self::CurlyEnv, _) => return EntryValue::Text(text.to_owned()),
            (Self::Env, Some(inner)) => inner.strip_prefix("env:"),
            (Self::Braces | Self::Dollar, Some(inner)) => Some(inner),
            (Self::Dollar, None) => Some(reference),
            // A dollar sign and no braces is only that.
            (Self::Braces | Self::Env, None) if !reference.starts_with('{') => {
                return if reference.contains("${") {
                    EntryValue::Foreign(text.to_owned())
                } else {
                    EntryValue::Text(text.to_owned())
                };
            }
            (Self::Braces | Self::Env, None) => None,
        };
        match name.filter(|name| is_variable(name)) {
            Some(name) => EntryValue::Variable {
                before: before.to_owned(),
                name: name.to_owned(),
            },
            None => EntryValue::Foreign(text.to_owned()),
        }
    }

    /// A value as the agent writes it.
    pub(crate) fn write(self, given: &EntryValue) -> String {
        match (given, self) {
            (EntryValue::Text(text) | EntryValue::Foreign(text), _) => text.clone(),
            (EntryValue::Variable { before, name }, Self::Env) => {
                format!("{before}${{env:{name}}}")
            }
            (EntryValue::Variable { before, name }, Self::CurlyEnv) => {
                format!("{before}{{env:{name}}}")
            }
            (EntryValue::Variable { before, name }, Self::Braces | Self::Dollar | Self::Never) => {
                format!("{before}${{{name}}}")
            }
        }
    }

    /// Values as the agent writes them, in a field; none where there is none.
    pub(crate) fn write_all(
        self,
        key: &'static str,
        given: &BTreeMap<String, EntryValue>,
    ) -> Option<(&'static str, Value)> {
        let written = |(name, given): (&String, &EntryValue)| {
            let value = Value::from(self.write(given));
            (name.clone(), value)
        };
        let written: Map<String, Value> = given.iter().map(written).collect();
        (!written.is_empty()).then_some((key, Value::Object(written)))
    }
}

/// What a value means where `{env:NAME}` is a variable and `{file:PATH}` a file.
fn read_curly(text: &str) -> EntryValue {
    let marks = ["{env:", "{file:"];
    if !marks.iter().any(|mark| text.contains(mark)) {
        return EntryValue::Text(text.to_owned());
    }
    let reference = text.split_once("{env:");
    let variable = reference.and_then(|(before, rest)| Some((before, rest.strip_suffix('}')?)));
    match variable {
        Some((before, name)) if is_variable(name) && !before.contains('{') => {
            EntryValue::Variable {
                before: before.to_owned(),
                name: name.to_owned(),
            }
        }
        Some(_) | None => EntryValue::Foreign(text.to_owned()),
    }
}

/// Whether a text is the name of a variable.
pub(crate) fn is_variable(name: &str) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(first) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The words of an entry as most agents write it: `command`, `args`, `env` and `cwd`, or an address
/// and `headers`, and one that says which of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryKeys {
    /// How values from the environment are written.
    pub(crate) variables: Variables,
    /// The word for how a server is spoken to, and what it says of a program, of an address, and of
    /// one that only sends events.
    pub(crate) kind: &'static str,
    pub(crate) program: Option<&'static str>,
    pub(crate) address: Option<&'static str>,
    /// The word for an address.
    pub(crate) url: &'static str,
}

/// What an entry says of a server that only sends events, whoever wrote it.
const EVENTS_ONLY: &str = "sse";

impl EntryKeys {
    /// A server as an entry. What is empty is left out.
    pub(crate) fn write(self, server: &Server) -> EntryFields {
        let mut fields: EntryFields = Vec::new();
        let kind = match &server.reach {
            ServerTransport::Command { .. } => self.program,
            ServerTransport::Address {
                events_only: true, ..
            } => self.address.and(Some(EVENTS_ONLY)),
            ServerTransport::Address { .. } => self.address,
        };
        fields.extend(kind.map(|kind| (self.kind, Value::from(kind))));
        match &server.reach {
            ServerTransport::Command { argv, env, cwd } => {
                fields.extend(program(argv, "command", "args"));
                fields.extend(self.variables.write_all("env", env));
                fields.extend(cwd.as_ref().map(|cwd| ("cwd", Value::from(cwd.as_str()))));
            }
            ServerTransport::Address { url, headers, .. } => {
                fields.push((self.url, Value::from(url.as_str())));
                fields.extend(self.variables.write_all("headers", headers));
            }
        }
        fields
    }

    /// An entry as a server. What is peculiar to the agent has been asked for before.
    pub(crate) fn read(self, name: &str, mut entry: Entry<'_>) -> Result<Server, String> {
        let kind = entry.text(self.kind)?;
        let argv = entry.argv("command", "args")?;
        let env = entry.values("env", self.variables)?;
        let cwd = entry.text("cwd")?;
        let mut url = entry.text("url")?;
        if self.url != "url" {
            url = entry.text(self.url)?.or(url);
        }
        let headers = entry.values("headers", self.variables)?;
        let reach = match (argv, url) {
            (Some(argv), None) => ServerTransport::Command { argv, env, cwd },
            (None, Some(url)) => ServerTransport::Address {
                events_only: kind.as_deref() == Some(EVENTS_ONLY),
                url,
                headers,
            },
            (None, None) | (Some(_), Some(_)) => {
                return Err("it has neither a command nor an address, or both".to_owned());
            }
        };
        Ok(Server {
            name: name.to_owned(),
            reach,
            enabled: true,
            left_out: entry.rest(),
        })
    }
}

/// A program and its arguments, in a field each.
pub(crate) fn program(words: &[String], command: &'static str, args: &'static str) -> EntryFields {
    let (first, rest) = match words.split_first() {
        Some((first, rest)) => (first.as_str(), rest),
        None => ("", words),
    };
    vec![(command, Value::from(first)), (args, Value::from(rest))]
}

/// An entry that is read field by field. What nobody asked for is told at the end.
pub(crate) struct Entry<'e> {
    fields: &'e Map<String, Value>,
    known: Vec<&'static str>,
}

impl<'e> Entry<'e> {
    /// Begins to read an entry.
    pub(crate) fn of(value: &'e Value) -> Result<Self, String> {
        let fields = value.as_object().ok_or("it is not a table of fields")?;
        let known = Vec::new();
        Ok(Self { fields, known })
    }

    /// A field; null is none.
    pub(crate) fn get(&mut self, key: &'static str) -> Option<&'e Value> {
        self.known.push(key);
        self.fields.get(key).filter(|value| !value.is_null())
    }

    /// A field that is a text.
    pub(crate) fn text(&mut self, key: &'static str) -> Result<Option<String>, String> {
        let text = |value: &Value| match value {
            Value::String(text) => Ok(text.clone()),
            _ => Err(format!("`{key}` is not a text")),
        };
        self.get(key).map(text).transpose()
    }

    /// A field that is a list of texts; none is an empty one.
    pub(crate) fn texts(&mut self, key: &'static str) -> Result<Vec<String>, String> {
        let Some(value) = self.get(key) else {
            return Ok(Vec::new());
        };
        let items = value.as_array().into_iter().flatten();
        let texts: Option<Vec<String>> =
            items.map(|item| item.as_str().map(str::to_owned)).collect();
        texts
            .filter(|_| value.is_array())
            .ok_or_else(|| format!("`{key}` is not a list of texts"))
    }

    /// A field that is a list of variables, each a name or a table with one.
    pub(crate) fn names(&mut self, key: &'static str) -> Result<Vec<String>, String> {
        let Some(value) = self.get(key) else {
            return Ok(Vec::new());
        };
        let name = |item: &Value| match item {
            Value::String(name) => Some(name.clone()),
            other => Some(other.get("name")?.as_str()?.to_owned()),
        };
        let items = value.as_array().into_iter().flatten();
        let names: Option<Vec<String>> = items.map(name).collect();
        names
            .filter(|names| value.is_array() && names.iter().all(|name| is_variable(name)))
            .ok_or_else(|| format!("`{key}` is not a list of variables"))
    }

    /// A field that is true or false.
    pub(crate) fn flag(&mut self, key: &'static str, absent: bool) -> Result<bool, String> {
        match self.get(key) {
            None => Ok(absent),
            Some(Value::Bool(value)) => Ok(*value),
            Some(_) => Err(format!("`{key}` is not true or false")),
        }
    }

    /// A field that is a table of values. Numbers and truth values count as their text.
    pub(crate) fn values(
        &mut self,
        key: &'static str,
        variables: Variables,
    ) -> Result<BTreeMap<String, EntryValue>, String> {
        let Some(value) = self.get(key) else {
            return Ok(BTreeMap::new());
        };
        let table = value
            .as_object()
            .ok_or_else(|| format!("`{key}` is not a table"))?;
        table
            .iter()
            .map(|(name, value)| match value {
                Value::String(text) => Ok((name.clone(), variables.read(text))),
                Value::Number(_) | Value::Bool(_) => {
                    Ok((name.clone(), EntryValue::Text(value.to_string())))
                }
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    Err(format!("`{key}.{name}` is not a text"))
                }
            })
            .collect()
    }

    /// A program and its arguments, from a field each.
    pub(crate) fn argv(
        &mut self,
        command: &'static str,
        args: &'static str,
    ) -> Result<Option<Vec<String>>, String> {
        let command = self.text(command)?;
        let args = self.texts(args)?;
        Ok(command.map(|command| std::iter::once(command).chain(args).collect()))
    }

    /// What nobody asked for.
    pub(crate) fn rest(self) -> Vec<String> {
        let unknown = |key: &&String| !self.known.contains(&key.as_str());
        self.fields.keys().filter(unknown).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_from_the_environment_is_told_from_text() {
        let variable = |before: &str, name: &str| EntryValue::Variable {
            before: before.to_owned(),
            name: name.to_owned(),
        };
        let text = |text: &str| EntryValue::Text(text.to_owned());
        let foreign = |text: &str| EntryValue::Foreign(text.to_owned());
        for (how, written, read) in [
            (Variables::Braces, "plain", text("plain")),
            (Variables::Braces, "${TOKEN}", variable("", "TOKEN")),
            (
                Variables::Braces,
                "Bearer ${TOKEN}",
                variable("Bearer ", "TOKEN"),
            ),
            (Variables::Braces, "a$b", text("a$b")),
            (Variables::Braces, "${A:-b}", foreign("${A:-b}")),
            (Variables::Braces, "${A}${B}", foreign("${A}${B}")),
            (Variables::Braces, "a$b${C}", foreign("a$b${C}")),
            (Variables::Dollar, "$TOKEN", variable("", "TOKEN")),
            (Variables::Dollar, "${TOKEN}", variable("", "TOKEN")),
            (Variables::Dollar, "$A-b", foreign("$A-b")),
            (Variables::Env, "${env:TOKEN}", variable("", "TOKEN")),
            (Variables::Env, "${input:token}", foreign("${input:token}")),
            (
                Variables::Env,
                "${workspaceFolder}/x",
                foreign("${workspaceFolder}/x"),
            ),
            (Variables::CurlyEnv, "{env:TOKEN}", variable("", "TOKEN")),
            (
                Variables::CurlyEnv,
                "Bearer {env:TOKEN}",
                variable("Bearer ", "TOKEN"),
            ),
            (Variables::CurlyEnv, "${TOKEN}", text("${TOKEN}")),
            (Variables::CurlyEnv, "{file:x}", foreign("{file:x}")),
            (
                Variables::CurlyEnv,
                "{env:A}{env:B}",
                foreign("{env:A}{env:B}"),
            ),
            (Variables::Never, "${TOKEN}", text("${TOKEN}")),
        ] {
            assert_eq!(how.read(written), read, "{how:?} {written}");
        }
        for how in [
            Variables::Braces,
            Variables::Dollar,
            Variables::Env,
            Variables::CurlyEnv,
        ] {
            let given = variable("Bearer ", "TOKEN");
            assert_eq!(how.read(&how.write(&given)), given);
        }
    }
}
