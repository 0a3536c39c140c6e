//! What mounted servers offer, as Haft shows it: their definitions as tools, and their resources
//! and prompts under names and URIs that identify the server.

use std::{collections::BTreeMap, sync::Arc};

use haft_contract::erased::ErasedTool;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::{
    connection::Server,
    fetch::{self, Kind},
    supervise::{Fleet, MakeTools, OfferedResources},
    tool::{MountedTool, ToolMounting},
    uri::Uris,
};
use crate::{
    mounts::{Change, Fetch, Mounts},
    name::{ServerId, ToolNaming, tool_name},
    pin::Item,
};

/// Makes tools from a server's definitions.
#[derive(Debug, Clone)]
pub struct MountedToolMaker(pub ToolMounting);

impl MakeTools for MountedToolMaker {
    fn tool(&self, server: &Arc<dyn Server>, item: &Item) -> Result<Arc<dyn ErasedTool>, String> {
        let tool = MountedTool::new(server, &item.definition, &self.0)?;
        Ok(Arc::new(tool))
    }

    fn fetchers(
        &self,
        server: &Arc<dyn Server>,
        offered: &OfferedResources,
    ) -> Vec<Arc<dyn ErasedTool>> {
        fetch::fetchers(server, &offered.capabilities, &self.0)
    }

    fn uri(&self, server: &ServerId, uri: &str) -> String {
        Uris::of(server, self.0.naming).shown(uri)
    }
}

/// What mounted servers offer besides tools, from stored definitions.
pub trait MountedOffers: Send + Sync {
    /// What each server offers, by id.
    fn offered(&self) -> Vec<(ServerId, OfferedResources)>;

    /// Changes from now on.
    fn changes(&self) -> broadcast::Receiver<Change>;
}

impl MountedOffers for Fleet {
    fn offered(&self) -> Vec<(ServerId, OfferedResources)> {
        Self::offered(self)
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        Self::changes(self)
    }
}

/// What mounted servers offer besides tools, for the server edge.
pub struct MountedResources {
    offers: Arc<dyn MountedOffers>,
    /// Servers whose names carry no id; at most one in practice.
    plain: Vec<ServerId>,
}

impl MountedResources {
    /// `plain` are the servers whose names carry no id.
    pub fn new(offers: Arc<dyn MountedOffers>, plain: Vec<ServerId>) -> Self {
        Self { offers, plain }
    }

    fn naming(&self, server: &ServerId) -> ToolNaming {
        if self.plain.contains(server) {
            ToolNaming::Plain
        } else {
            ToolNaming::Prefixed
        }
    }

    /// Every server, unambiguous names first.
    fn servers(&self) -> Vec<(ServerId, ToolNaming, OfferedResources)> {
        let mut servers: Vec<_> = self
            .offers
            .offered()
            .into_iter()
            .map(|(server, offered)| {
                let naming = self.naming(&server);
                (server, naming, offered)
            })
            .collect();
        servers.sort_by_key(|(_, naming, _)| *naming == ToolNaming::Plain);
        servers
    }

    /// Every definition in a list under its shown name, sorted by that name.
    fn list(
        &self,
        of: fn(OfferedResources) -> Vec<Value>,
        key: &str,
        show: impl Fn(&ServerId, ToolNaming, &str) -> Option<String>,
    ) -> Vec<Value> {
        let mut listed = BTreeMap::new();
        for (server, naming, offered) in self.servers() {
            for mut definition in of(offered) {
                let own = definition.get(key).and_then(Value::as_str);
                let Some(shown) = own.and_then(|own| show(&server, naming, own)) else {
                    continue;
                };
                drop_icons(&mut definition);
                if let Some(field) = definition.get_mut(key) {
                    *field = json!(shown);
                }
                listed.entry(shown).or_insert(definition);
            }
        }
        listed.into_values().collect()
    }

    /// The server a URI belongs to, and the URI as the server has it.
    fn by_uri<'a>(&self, uri: &'a str) -> Option<(ServerId, &'a str, OfferedResources)> {
        self.servers()
            .into_iter()
            .filter(|(_, _, offered)| can(offered, "/resources"))
            .find_map(|(server, naming, offered)| {
                let own = Uris::of(&server, naming).own(uri)?;
                Some((server, own, offered))
            })
    }

    /// The server a prompt belongs to, and the prompt's name there.
    fn by_prompt(&self, name: &str) -> Option<(ServerId, String)> {
        self.servers()
            .into_iter()
            .find_map(|(server, naming, offered)| {
                let own = offered.prompts.iter().find_map(|prompt| {
                    let own = prompt.get("name")?.as_str()?;
                    (prompt_name(&server, naming, own)? == name).then(|| own.to_owned())
                })?;
                Some((server, own))
            })
    }
}

fn can(offered: &OfferedResources, pointer: &str) -> bool {
    let capability = offered.capabilities.pointer(pointer);
    capability.is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)))
}

fn prompt_name(server: &ServerId, naming: ToolNaming, own: &str) -> Option<String> {
    let name = tool_name(server, own, naming).ok()?;
    Some(name.as_str().to_owned())
}

/// Keeps only icons that are safe for a client to fetch.
fn drop_icons(definition: &mut Value) {
    if let Some(Value::Array(icons)) = definition.get_mut("icons") {
        icons.retain(|icon| {
            let source = icon.get("src").and_then(Value::as_str).unwrap_or_default();
            source.starts_with("https://") || source.starts_with("data:image/")
        });
    }
}

impl Mounts for MountedResources {
    fn resources(&self) -> Vec<Value> {
        self.list(
            |offered| offered.resources,
            "uri",
            |server, naming, own| Some(Uris::of(server, naming).shown(own)),
        )
    }

    fn templates(&self) -> Vec<Value> {
        self.list(
            |offered| offered.templates,
            "uriTemplate",
            |server, naming, own| Some(Uris::of(server, naming).shown(own)),
        )
    }

    fn prompts(&self) -> Vec<Value> {
        self.list(|offered| offered.prompts, "name", prompt_name)
    }

    fn read(&self, uri: &str) -> Option<Fetch> {
        let (server, own, _) = self.by_uri(uri)?;
        Kind::Resource.fetch(&server, json!({ "uri": own }))
    }

    fn prompt(&self, name: &str, parameters: &Value) -> Option<Fetch> {
        let (server, own) = self.by_prompt(name)?;
        let mut asked = json!({ "name": own });
        if let (Some(arguments), Some(asked)) = (parameters.get("arguments"), asked.as_object_mut())
            && arguments.is_object()
        {
            asked.insert("arguments".to_owned(), arguments.clone());
        }
        Kind::Prompt.fetch(&server, asked)
    }

    fn completion(&self, parameters: &Value) -> Option<Fetch> {
        let text = |pointer: &str| parameters.pointer(pointer).and_then(Value::as_str);
        let (server, reference) = match text("/ref/type")? {
            "ref/prompt" => {
                let (server, own) = self.by_prompt(text("/ref/name")?)?;
                (server, json!({ "type": "ref/prompt", "name": own }))
            }
            "ref/resource" => {
                let (server, own, _) = self.by_uri(text("/ref/uri")?)?;
                (server, json!({ "type": "ref/resource", "uri": own }))
            }
            _ => return None,
        };
        let mut asked = json!({ "ref": reference });
        let fields = asked.as_object_mut()?;
        for key in ["argument", "context"] {
            if let Some(value) = parameters.get(key).filter(|value| value.is_object()) {
                fields.insert(key.to_owned(), value.clone());
            }
        }
        Kind::Completion.fetch(&server, asked)
    }

    fn subscription(&self, uri: &str, wanted: bool) -> Option<Fetch> {
        let (server, own, offered) = self.by_uri(uri)?;
        if !can(&offered, "/resources/subscribe") {
            return None;
        }
        let kind = if wanted {
            Kind::Subscription
        } else {
            Kind::EndOfSubscription
        };
        kind.fetch(&server, json!({ "uri": own }))
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.offers.changes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct FixedOffers(broadcast::Sender<Change>);

    impl MountedOffers for FixedOffers {
        fn offered(&self) -> Vec<(ServerId, OfferedResources)> {
            let offered = OfferedResources {
                capabilities: json!({ "resources": {}, "prompts": {}, "completions": {} }),
                prompts: vec![json!({ "name": "greet",
                    "icons": [{ "src": "javascript:1" }, { "src": "https://x/i.png" }] })],
                templates: vec![json!({ "uriTemplate": "note://{id}", "name": "n" })],
                resources: vec![json!({ "uri": "note://1", "name": "one" })],
                ..OfferedResources::default()
            };
            let ids = ["a", "b_c"].map(|id| ServerId::parse(id).unwrap());
            ids.map(|id| (id, offered.clone())).into()
        }

        fn changes(&self) -> broadcast::Receiver<Change> {
            self.0.subscribe()
        }
    }

    fn beside() -> MountedResources {
        MountedResources::new(Arc::new(FixedOffers(broadcast::Sender::new(1))), Vec::new())
    }

    #[test]
    fn a_resource_is_shown_as_somebodys_and_read_by_its_own_name() {
        let uris: Vec<_> = beside()
            .resources()
            .iter()
            .map(|one| one["uri"].clone())
            .collect();
        assert_eq!(uris, ["mcp+a:note://1", "mcp+b.c:note://1"]);
        let fetch = beside().read("mcp+b.c:note://7").unwrap();
        assert_eq!(fetch.arguments, json!({ "uri": "note://7" }));
        assert!(fetch.tool.starts_with("mcp__b_c__resources_read_"));
        assert_eq!(beside().read("note://1"), None);
        assert_eq!(beside().read("mcp+x:note://1"), None);
    }

    #[test]
    fn a_prompt_is_shown_as_somebodys_and_got_by_its_own_name() {
        let prompts = beside().prompts();
        assert_eq!(prompts[0]["name"], json!("mcp__a__greet"));
        assert_eq!(prompts[0]["icons"], json!([{ "src": "https://x/i.png" }]));
        let parameters = json!({ "name": "mcp__a__greet", "arguments": { "who": "x" } });
        let fetch = beside().prompt("mcp__a__greet", &parameters).unwrap();
        assert_eq!(
            fetch.arguments,
            json!({ "name": "greet", "arguments": { "who": "x" } })
        );
        assert_eq!(beside().prompt("greet", &parameters), None);
    }

    #[test]
    fn a_completion_goes_to_the_server_that_has_what_is_completed() {
        let argument = json!({ "name": "id", "value": "1" });
        let of = |reference: Value| {
            let parameters = json!({ "ref": reference, "argument": argument });
            beside().completion(&parameters)
        };
        let fetch = of(json!({ "type": "ref/resource", "uri": "mcp+a:note://{id}" })).unwrap();
        assert_eq!(fetch.arguments["ref"]["uri"], json!("note://{id}"));
        let fetch = of(json!({ "type": "ref/prompt", "name": "mcp__b_c__greet" })).unwrap();
        assert_eq!(fetch.arguments["ref"]["name"], json!("greet"));
        assert!(of(json!({ "type": "ref/prompt", "name": "greet" })).is_none());
    }

    #[test]
    fn news_come_only_from_servers_that_have_them() {
        assert_eq!(beside().subscription("mcp+a:note://1", true), None);
    }
}
