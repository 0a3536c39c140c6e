//! Fetches everything a server offers, page by page, and keeps it as received. A server that
//! exceeds a limit offers nothing.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tokio::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

use super::Inner;
use crate::upstream::{
    connection::{Definitions, ProtocolEra, RequestError},
    limits::{
        DEFINITION_BYTES, DEFINITIONS_BYTES, ENTRIES, NAME_BYTES, OWN_REQUEST, PAGES, URI_BYTES,
    },
    wire::Wire,
};

/// One of the protocol's lists.
struct List {
    method: &'static str,
    /// The result's key for the entries.
    entries: &'static str,
    /// The key of an entry's name, and the name's maximum length.
    named_by: (&'static str, usize),
}

const TOOLS: List = List {
    method: "tools/list",
    entries: "tools",
    named_by: ("name", NAME_BYTES),
};
const RESOURCES: List = List {
    method: "resources/list",
    entries: "resources",
    named_by: ("uri", URI_BYTES),
};
const TEMPLATES: List = List {
    method: "resources/templates/list",
    entries: "resourceTemplates",
    named_by: ("uriTemplate", URI_BYTES),
};
const PROMPTS: List = List {
    method: "prompts/list",
    entries: "prompts",
    named_by: ("name", NAME_BYTES),
};

/// How long fetching everything may take.
const ALL: Duration = Duration::from_secs(2 * OWN_REQUEST.as_secs());

/// How many more bytes of definitions are accepted.
struct DefinitionBudget(usize);

impl<W: Wire> Inner<W> {
    pub(super) async fn fetch_definitions(
        &self,
        cancel: &CancellationToken,
    ) -> Result<Definitions, RequestError> {
        let until = (Instant::now() + ALL, ALL);
        let mut room = DefinitionBudget(DEFINITIONS_BYTES);
        let agreed = &self.agreed;
        let mut tools = Vec::new();
        if agreed.offers("/tools") {
            tools = self.fetch(&TOOLS, &mut room, until, cancel).await?;
            self.learn_headers(&mut tools);
        }
        let mut resources = Vec::new();
        let mut templates = Vec::new();
        if agreed.offers("/resources") {
            resources = self.fetch(&RESOURCES, &mut room, until, cancel).await?;
            let fetched = self.fetch(&TEMPLATES, &mut room, until, cancel).await;
            // Servers with resources but no templates often lack the method.
            templates = match fetched {
                Err(RequestError::Answered { .. }) => Vec::new(),
                fetched => fetched?,
            };
        }
        let mut prompts = Vec::new();
        if agreed.offers("/prompts") {
            prompts = self.fetch(&PROMPTS, &mut room, until, cancel).await?;
        }
        Ok(Definitions {
            server: agreed.server.clone(),
            capabilities: agreed.capabilities.clone(),
            instructions: agreed.instructions.clone(),
            tools,
            resources,
            templates,
            prompts,
        })
    }

    fn learn_headers(&self, tools: &mut Vec<Value>) {
        if self.agreed.era == ProtocolEra::Modern && self.wire.has_headers() {
            self.headers.learn(tools);
        }
    }

    async fn fetch(
        &self,
        list: &List,
        room: &mut DefinitionBudget,
        until: (Instant, Duration),
        cancel: &CancellationToken,
    ) -> Result<Vec<Value>, RequestError> {
        let method = list.method;
        let broken = |why: String| RequestError::Protocol(format!("`{method}`: {why}"));
        let mut all = Vec::new();
        let mut names = BTreeSet::new();
        let mut parameters = json!({});
        for _ in 0..PAGES {
            let page = self.own(method, &parameters, until, cancel).await?;
            let Some(Value::Array(entries)) = page.get(list.entries) else {
                let why = format!("there is no list `{}` in its result", list.entries);
                return Err(broken(why));
            };
            if all.len() + entries.len() > ENTRIES {
                return Err(broken(format!("it has more than {ENTRIES} entries")));
            }
            for entry in entries {
                let name = check(list, entry, room).map_err(broken)?;
                if !names.insert(name) {
                    return Err(broken("it has two entries of the same name".to_owned()));
                }
                all.push(entry.clone());
            }
            match page.get("nextCursor") {
                None | Some(Value::Null) => return Ok(all),
                Some(Value::String(cursor)) => {
                    let mut next = Map::new();
                    next.insert("cursor".to_owned(), json!(cursor));
                    parameters = Value::Object(next);
                }
                Some(_) => return Err(broken("its cursor is not text".to_owned())),
            }
        }
        Err(broken(format!("it has more than {PAGES} pages")))
    }
}

/// The name of an acceptable entry.
fn check(list: &List, entry: &Value, room: &mut DefinitionBudget) -> Result<String, String> {
    let (key, longest) = list.named_by;
    let name = entry.get(key).and_then(Value::as_str);
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Err(format!("an entry has no `{key}`"));
    };
    if name.len() > longest {
        return Err(format!("a `{key}` has more than {longest} bytes"));
    }
    let bytes = entry.to_string().len();
    if bytes > DEFINITION_BYTES {
        return Err(format!("an entry has more than {DEFINITION_BYTES} bytes"));
    }
    room.0 = room.0.checked_sub(bytes).ok_or_else(|| {
        format!("all definitions together have more than {DEFINITIONS_BYTES} bytes")
    })?;
    Ok(name.to_owned())
}
