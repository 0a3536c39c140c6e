//! A server as agents' configurations describe it, in any format: how it is started or reached, and
//! what it is given. Each agent's file translates to and from this.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The fields of an entry that an agent reads, in written order.
pub type EntryFields = Vec<(&'static str, Value)>;

/// A server in an agent's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The agent's name for it.
    pub name: String,
    /// How it is started or reached.
    pub reach: ServerTransport,
    /// Whether the agent uses it.
    pub enabled: bool,
    /// The agent's own settings, which are not translated.
    pub left_out: Vec<String>,
}

/// How a server is started or reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerTransport {
    /// A program that communicates over its standard input and output.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Variables it gets.
        env: BTreeMap<String, EntryValue>,
        /// The directory it is started in.
        cwd: Option<String>,
    },
    /// An address that is reached over HTTP.
    Address {
        /// The address.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, EntryValue>,
        /// Whether it uses the 2024 transport that only sends events.
        events_only: bool,
    },
}

/// A value of a variable or a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryValue {
    /// A literal.
    Text(String),
    /// From a variable in the agent's environment.
    Variable {
        /// The text before it, such as `Bearer `.
        before: String,
        /// The variable.
        name: String,
    },
    /// Something only the agent can fill in.
    Foreign(String),
}

/// An agent's notation for a value from its environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variables {
    /// `${NAME}`.
    Braces,
    /// `$NAME` or `${NAME}`.
    Dollar,
    /// `${env:NAME}`; other words before the colon mean other things.
    Env,
    /// `{env:NAME}`; other words before the colon mean other things.
    CurlyEnv,
    /// No notation within values.
    Never,
}

impl Variables {
    /// Parses a written value.
    pub fn read(self, text: &str) -> EntryValue {
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
            // A dollar sign without braces is literal.
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

    /// A value in the agent's notation.
    pub fn write(self, given: &EntryValue) -> String {
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

    /// Values in the agent's notation, as a field; `None` if there are none.
    pub fn write_all(
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

/// Parses a value in which `{env:NAME}` is a variable and `{file:PATH}` a file.
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

/// Whether a text is a valid variable name.
pub fn is_variable(name: &str) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(first) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The field names of an entry as most agents write it: `command`, `args`, `env` and `cwd`, or an
/// address and `headers`, and one field that says which.
#[derive(Debug, Clone, Copy)]
pub struct EntryKeys {
    /// The notation for values from the environment.
    pub variables: Variables,
    /// The field for the transport.
    pub kind: &'static str,
    /// Its value for a program.
    pub program: Option<&'static str>,
    /// Its value for an address. One that only sends events has a value of its own.
    pub address: Option<&'static str>,
    /// The field for an address.
    pub url: &'static str,
}

/// Every agent's word for a server that only sends events.
const EVENTS_ONLY: &str = "sse";

impl EntryKeys {
    /// A server as an entry. Empty fields are left out.
    pub fn write(self, server: &Server) -> EntryFields {
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

    /// An entry as a server. The caller has already read what is peculiar to the agent.
    pub fn read(self, name: &str, mut entry: Entry<'_>) -> Result<Server, String> {
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

/// A program and its arguments, in separate fields.
pub fn program(words: &[String], command: &'static str, args: &'static str) -> EntryFields {
    let (first, rest) = match words.split_first() {
        Some((first, rest)) => (first.as_str(), rest),
        None => ("", words),
    };
    vec![(command, Value::from(first)), (args, Value::from(rest))]
}

/// An entry that is read field by field. Fields never read are reported at the end.
pub struct Entry<'e> {
    fields: &'e Map<String, Value>,
    known: Vec<&'static str>,
}

impl<'e> Entry<'e> {
    /// Starts reading an entry.
    pub fn of(value: &'e Value) -> Result<Self, String> {
        let fields = value.as_object().ok_or("it is not a table of fields")?;
        let known = Vec::new();
        Ok(Self { fields, known })
    }

    /// A field; null counts as absent.
    pub fn get(&mut self, key: &'static str) -> Option<&'e Value> {
        self.known.push(key);
        self.fields.get(key).filter(|value| !value.is_null())
    }

    /// A text field.
    pub fn text(&mut self, key: &'static str) -> Result<Option<String>, String> {
        let text = |value: &Value| match value {
            Value::String(text) => Ok(text.clone()),
            _ => Err(format!("`{key}` is not a text")),
        };
        self.get(key).map(text).transpose()
    }

    /// A list of texts; empty if absent.
    pub fn texts(&mut self, key: &'static str) -> Result<Vec<String>, String> {
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

    /// A list of variables, each a name or a table with one.
    pub fn names(&mut self, key: &'static str) -> Result<Vec<String>, String> {
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

    /// A boolean field.
    pub fn flag(&mut self, key: &'static str, absent: bool) -> Result<bool, String> {
        match self.get(key) {
            None => Ok(absent),
            Some(Value::Bool(value)) => Ok(*value),
            Some(_) => Err(format!("`{key}` is not true or false")),
        }
    }

    /// A field that is a table of values. Numbers and booleans count as their text.
    pub fn values(
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

    /// A program and its arguments, from separate fields.
    pub fn argv(
        &mut self,
        command: &'static str,
        args: &'static str,
    ) -> Result<Option<Vec<String>>, String> {
        let command = self.text(command)?;
        let args = self.texts(args)?;
        Ok(command.map(|command| std::iter::once(command).chain(args).collect()))
    }

    /// The fields that were never read.
    pub fn rest(self) -> Vec<String> {
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
