//! What the fixture offers beside tools: resources, templates and prompts.

use haft_mcp::mounts::{Change, Fetch, Mounts};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;

use crate::{
    script::fill,
    tools::{COMPLETE, PROMPT, READ, SUBSCRIBE},
};

/// What is for the fixture alone, and no part of a definition.
const OURS: [&str; 4] = ["text", "blob", "messages", "steps"];

/// What is offered.
pub(crate) struct FixtureResources {
    pub(crate) fixture: Value,
    pub(crate) changes: broadcast::Sender<Change>,
}

impl FixtureResources {
    fn all(&self, list: &str) -> &[Value] {
        self.fixture[list]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    fn definitions(&self, list: &str) -> Vec<Value> {
        let mut definitions = self.all(list).to_vec();
        for definition in definitions.iter_mut().filter_map(Value::as_object_mut) {
            definition.retain(|field, _| !OURS.contains(&field.as_str()));
        }
        definitions
    }

    /// A prompt, with what it does.
    pub(crate) fn find_prompt(&self, name: &str) -> Option<&Value> {
        self.all("prompts")
            .iter()
            .find(|prompt| prompt["name"] == name)
    }

    /// The result of reading a resource.
    pub(crate) fn contents(&self, uri: &str) -> Option<Value> {
        let resource = self.all("resources").iter().find(|it| it["uri"] == uri);
        let mut content = if let Some(resource) = resource {
            resource.clone()
        } else {
            let id = uri.strip_prefix("test://template/")?;
            let id = id.strip_suffix("/data")?;
            let values = Map::from_iter([("id".to_owned(), json!(id))]);
            fill(self.all("templates").first()?, &values)
        };
        let fields = content.as_object_mut()?;
        fields.retain(|field, _| ["mimeType", "text", "blob"].contains(&field.as_str()));
        fields.insert("uri".to_owned(), json!(uri));
        Some(json!({"contents": [content]}))
    }
}

impl Mounts for FixtureResources {
    fn resources(&self) -> Vec<Value> {
        self.definitions("resources")
    }

    fn templates(&self) -> Vec<Value> {
        self.definitions("templates")
    }

    fn prompts(&self) -> Vec<Value> {
        self.definitions("prompts")
    }

    fn read(&self, uri: &str) -> Option<Fetch> {
        self.contents(uri).map(|_| fetch(READ, json!({"uri": uri})))
    }

    fn prompt(&self, name: &str, parameters: &Value) -> Option<Fetch> {
        self.find_prompt(name)
            .map(|_| fetch(PROMPT, parameters.clone()))
    }

    fn completion(&self, _: &Value) -> Option<Fetch> {
        Some(fetch(COMPLETE, json!({})))
    }

    fn subscription(&self, uri: &str, _: bool) -> Option<Fetch> {
        self.contents(uri).map(|_| fetch(SUBSCRIBE, json!({})))
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }
}

fn fetch(tool: &str, arguments: Value) -> Fetch {
    Fetch {
        tool: tool.to_owned(),
        arguments,
    }
}
