//! Compares what a server offers with what a person accepted, and publishes it: tools in the
//! registry, the rest in stock. Swapped as a whole; a listing sees the old or the new.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use haft_contract::{
    ProviderId, TenantId,
    erased::{ErasedTool, WithheldReason, WithheldUntil, for_tenant, withhold},
    surface::NextStep,
};
use haft_runtime::registry::Snapshot;
use serde_json::Value;

use super::{MakeTools, SupervisorDefaults};
use crate::{
    foreign::shown_within,
    mounts::Change,
    name::{ServerId, ToolNaming},
    pin::{
        Digest, Filter, Item, ItemKey, Kind, LapseReason, Origin, PinStatus, Pins,
        RefusedDefinition, SeenDefinitions, VetError, VettedDefinitions, vet,
    },
    upstream::connection::{Request, RequestError, Server},
};

/// The state of a server's definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Tools being offered.
    pub tools: usize,
    /// Definitions a person accepted, of any kind.
    pub accepted: usize,
    /// Definitions nobody has accepted yet.
    pub new: usize,
    /// Definitions that changed since they were accepted.
    pub changed: usize,
    /// Definitions that are invalid.
    pub refused: usize,
}

/// What a server offers besides tools and a person accepted, as received.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OfferedResources {
    /// The server's own usage instructions.
    pub instructions: Option<String>,
    /// Its capabilities.
    pub capabilities: Value,
    /// Each a `Prompt`.
    pub prompts: Vec<Value>,
    /// Each a `ResourceTemplate`.
    pub templates: Vec<Value>,
    /// Each a `Resource`, vetted. Resources come and go, so they are not accepted one by one; they
    /// are offered once anything of the server was accepted.
    pub resources: Vec<Value>,
}

/// A server's definitions at one moment.
#[derive(Debug, Default)]
pub(super) struct DefinitionsSnapshot {
    pub(super) seen: Option<SeenDefinitions>,
    pub(super) vetted: VettedDefinitions,
    standings: BTreeMap<ItemKey, (Digest, PinStatus)>,
    /// Why nothing can be accepted right now, if so.
    unusable: Option<String>,
    new_server: bool,
    /// Why earlier acceptances under this id no longer count, if there were any.
    pub(super) lapsed: Option<LapseReason>,
}

#[derive(Debug, Default)]
pub(super) struct StockCell(RwLock<Arc<DefinitionsSnapshot>>);

impl StockCell {
    pub(super) fn get(&self) -> Arc<DefinitionsSnapshot> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, stock: DefinitionsSnapshot) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(stock);
    }
}

/// Keeps a server's offer up to date.
pub(super) struct ServerOffer {
    pub(super) server: ServerId,
    pub(super) provider: ProviderId,
    pub(super) naming: ToolNaming,
    pub(super) filter: Filter,
    pub(super) origin: Origin,
    pub(super) make: Arc<dyn MakeTools>,
    pub(super) shared: SupervisorDefaults,
    pub(super) desk: Arc<dyn Server>,
    /// Whose credential it is used with.
    pub(super) tenant: TenantId,
    pub(super) stock: Arc<StockCell>,
    /// Serializes changes.
    pub(super) changing: Mutex<()>,
}

impl ServerOffer {
    /// Publishes what the server offered in its last run; returns whether there was one.
    pub(super) fn load(&self) -> bool {
        let seen = match self.shared.store.seen(&self.server, &self.origin) {
            Ok(seen) => seen,
            Err(error) => {
                tracing::warn!(server = %self.server, %error, "definitions of the last run cannot be used");
                None
            }
        };
        let found = seen.is_some();
        if let Err(error) = self.put_up(|| seen) {
            tracing::warn!(server = %self.server, %error, "definitions of the last run cannot be used");
            return false;
        }
        found
    }

    /// Publishes what the server offers now, and keeps it for the next run.
    pub(super) fn take(&self, seen: SeenDefinitions) -> Result<(), VetError> {
        let server = &self.server;
        let remembered = seen.clone();
        self.put_up(|| Some(seen))?;
        if let Err(error) = self
            .shared
            .store
            .remember(server, &self.origin, &remembered)
        {
            tracing::warn!(%server, %error, "its definitions are not kept");
        }
        Ok(())
    }

    /// Compares what is offered with what is accepted now.
    pub(super) fn refresh(&self) {
        // Read under the lock: read earlier, it could undo what the server has said meanwhile.
        if let Err(error) = self.put_up(|| self.stock.get().seen.clone()) {
            tracing::warn!(server = %self.server, %error, "its definitions cannot be used");
        }
    }

    /// Removes the tools.
    pub(super) fn withdraw(&self) {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        // Removing tools cannot fail.
        let _ = self
            .shared
            .registry
            .replace_provider(&self.provider, Vec::new());
    }

    fn put_up(&self, seen: impl FnOnce() -> Option<SeenDefinitions>) -> Result<(), VetError> {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = seen();
        let vetted = match &seen {
            Some(seen) => vet(&self.server, self.naming, &self.filter, &seen.definitions)?,
            None => VettedDefinitions::default(),
        };
        let before = self.stock.get();
        let pins = self.shared.store.pins(&self.server, &self.origin);
        let mut stock = DefinitionsSnapshot::new(seen, vetted, pins);
        let tools = self.tools(&mut stock);
        let changes = stock.changes_since(&before);
        let tools_changed = changes.contains(&Change::Tools);
        if tools_changed
            && let Err(error) = self.shared.registry.replace_provider(&self.provider, tools)
        {
            // Another server took one of the names between the check and the registration.
            tracing::warn!(server = %self.server, %error, "its tools cannot be offered");
            let none = Vec::new();
            let _ = self.shared.registry.replace_provider(&self.provider, none);
            stock.unusable = Some(error.to_string());
        }
        self.stock.set(stock);
        for change in changes {
            // An error only means that nobody listens.
            let _ = self.shared.changes.send(change);
        }
        Ok(())
    }

    /// The tools in stock, withholding those not accepted. Invalid ones are moved to the refused.
    fn tools(&self, stock: &mut DefinitionsSnapshot) -> Vec<Arc<dyn ErasedTool>> {
        let others = self.shared.registry.snapshot();
        let mut tools = Vec::new();
        let mut refused = Vec::new();
        for item in stock
            .vetted
            .items
            .iter()
            .filter(|item| item.key.kind == Kind::Tool)
        {
            match self.tool(item, &others) {
                Ok(tool) => tools.push(match stock.withheld(&self.server, item) {
                    None => tool,
                    Some(why) => withhold(tool, why),
                }),
                Err(why) => refused.push((item.key.clone(), why)),
            }
        }
        for (key, why) in refused {
            stock.vetted.items.retain(|item| item.key != key);
            stock.standings.remove(&key);
            stock.vetted.refused.push(RefusedDefinition {
                kind: key.kind,
                name: shown_within(&key.name, 64),
                why,
            });
        }
        let fetchers = self.make.fetchers(&self.desk, &stock.offered());
        tools.extend(fetchers.into_iter().map(|tool| self.for_its_tenant(tool)));
        tools
    }

    fn tool(&self, item: &Item, others: &Snapshot) -> Result<Arc<dyn ErasedTool>, String> {
        let tool = self.make.tool(&self.desk, item)?;
        match others.get(tool.name().as_str()) {
            Some(other) if other.key().provider != self.provider => Err(format!(
                "`{1}` already has a tool `{0}`",
                tool.name(),
                other.key().provider
            )),
            Some(_) | None => Ok(self.for_its_tenant(tool)),
        }
    }

    fn for_its_tenant(&self, tool: Arc<dyn ErasedTool>) -> Arc<dyn ErasedTool> {
        for_tenant(tool, self.tenant.clone())
    }
}

impl DefinitionsSnapshot {
    fn new(
        seen: Option<SeenDefinitions>,
        vetted: VettedDefinitions,
        pins: Result<Pins, crate::pin::StoreError>,
    ) -> Self {
        let (pins, unusable) = match pins {
            Ok(pins) => (pins, None),
            // Fails closed: nothing counts as accepted.
            Err(error) => (Pins::default(), Some(error.to_string())),
        };
        let standing = |item: &Item| (item.key.clone(), (item.digest, pins.standing(item)));
        Self {
            standings: vetted.items.iter().map(standing).collect(),
            new_server: pins.is_new_server(),
            lapsed: pins.lapsed,
            seen,
            vetted,
            unusable,
        }
    }

    /// The state of the definitions.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts {
            refused: self.vetted.refused.len(),
            ..Counts::default()
        };
        for (key, (_, standing)) in &self.standings {
            match standing {
                PinStatus::Accepted => {
                    counts.accepted += 1;
                    counts.tools += usize::from(key.kind == Kind::Tool);
                }
                PinStatus::New => counts.new += 1,
                PinStatus::Changed { .. } => counts.changed += 1,
            }
        }
        counts
    }

    /// What is offered besides tools.
    pub(super) fn offered(&self) -> OfferedResources {
        let Some(seen) = &self.seen else {
            return OfferedResources::default();
        };
        let accepted = |kind: Kind| {
            self.vetted
                .items
                .iter()
                .filter(move |item| item.key.kind == kind)
                .filter(|item| self.is_accepted(&item.key))
                .map(|item| item.definition.clone())
                .collect::<Vec<_>>()
        };
        OfferedResources {
            instructions: accepted(Kind::Instructions)
                .first()
                .and_then(|accepted| accepted.get("text")?.as_str().map(str::to_owned)),
            capabilities: seen.definitions.capabilities.clone(),
            prompts: accepted(Kind::Prompt),
            templates: accepted(Kind::Template),
            resources: if self.new_server {
                Vec::new()
            } else {
                self.vetted.resources.clone()
            },
        }
    }

    /// Whether a definition was accepted as it is now; without one, whether anything of the server
    /// was accepted.
    pub(super) fn allows(
        &self,
        server: &ServerId,
        asked_for: Option<&ItemKey>,
    ) -> Result<(), RequestError> {
        let withheld = match asked_for {
            Some(key) => self.why_withheld(key),
            None => self
                .new_server
                .then(|| self.not_yet("nobody has accepted anything from this server yet")),
        };
        match withheld {
            None => Ok(()),
            Some(why) => Err(RequestError::Withheld(format!(
                "{why}; {}",
                what_to_do(server)
            ))),
        }
    }

    fn is_accepted(&self, key: &ItemKey) -> bool {
        self.why_withheld(key).is_none()
    }

    fn why_withheld(&self, key: &ItemKey) -> Option<String> {
        if let Some(why) = &self.unusable {
            return Some(why.clone());
        }
        match self.standings.get(key).map(|(_, standing)| standing) {
            Some(PinStatus::Accepted) => None,
            Some(PinStatus::New) => Some(self.not_yet("nobody has accepted it yet")),
            Some(PinStatus::Changed { .. }) => {
                Some("its definition is not the one that was accepted".to_owned())
            }
            None => Some("the server no longer offers it".to_owned()),
        }
    }

    /// Says that something was not accepted, and why an earlier acceptance does not count.
    fn not_yet(&self, what: &str) -> String {
        match &self.lapsed {
            None => what.to_owned(),
            Some(lapsed) => format!("{what}: {lapsed}"),
        }
    }

    fn withheld(&self, server: &ServerId, item: &Item) -> Option<WithheldReason> {
        let reason = self.why_withheld(&item.key)?;
        let hint = what_to_do(server);
        Some(WithheldReason {
            until: WithheldUntil::Accepted,
            reason,
            hint,
        })
    }

    /// What changed for listings.
    fn changes_since(&self, before: &Self) -> Vec<Change> {
        let of = |stock: &Self, kind: Kind| -> Vec<(ItemKey, Digest, PinStatus)> {
            let mine = stock.standings.iter().filter(|(key, _)| key.kind == kind);
            mine.map(|(key, (digest, standing))| (key.clone(), *digest, *standing))
                .collect()
        };
        let differs = |kind: Kind| of(self, kind) != of(before, kind);
        let resources = |stock: &Self| stock.offered().resources;
        // Fetchers are tools too, and are made from what is offered besides tools.
        let beside = self.offered() != before.offered();
        let unusable = self.unusable != before.unusable;
        let mut changes = Vec::new();
        if differs(Kind::Tool) || beside || unusable {
            changes.push(Change::Tools);
        }
        if differs(Kind::Template) || resources(self) != resources(before) || unusable {
            changes.push(Change::Resources);
        }
        if differs(Kind::Prompt) || unusable {
            changes.push(Change::Prompts);
        }
        changes
    }
}

/// The definition a request names, if any.
pub(super) fn asked_for(request: &Request) -> Option<ItemKey> {
    let text = |pointer: &str| {
        let text = request.parameters.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    match request.method {
        "tools/call" => Some(ItemKey::new(Kind::Tool, text("/name"))),
        "prompts/get" => Some(ItemKey::new(Kind::Prompt, text("/name"))),
        "completion/complete" if text("/ref/type") == "ref/prompt" => {
            Some(ItemKey::new(Kind::Prompt, text("/ref/name")))
        }
        _ => None,
    }
}

/// How a person can accept a withheld item.
fn what_to_do(server: &ServerId) -> String {
    NextStep::AcceptServer(server.as_str()).text()
}
