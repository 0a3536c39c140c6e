//! A host that is served: its calls can be watched and asked about while they run, and it speaks MCP.
//! `haft mcp` serves one agent with it, or several with one token; a gateway mounts [`McpService`] for
//! many principals in many workspaces.
//!
//! Who a caller is, is found out by whoever serves. Nothing is decided here: MCP requests become calls
//! of the runtime, as every other.

mod client_question;
mod mcp_service;

use std::sync::Arc;

use haft_contract::{AgentId, Principal, SessionId};
use haft_mcp::{
    catalog::{Catalog, Mode},
    client::Clients,
    server::{
        Endpoint, LiveCalls, SessionScope,
        approve::{Elicitation, ProtocolApprover},
    },
    upstream::mounted::{MountedOffers, MountedResources},
};

pub use self::mcp_service::McpService;
use crate::{
    FirstAnswer, Host, HostBuilder, HostError, OtherPlaces, ancestry,
    config::{
        Env, Settings, catalog::CatalogSettings, client_questions::AskingSettings,
        resolve::Overrides,
    },
};
/// What an HTTP server gives to an [`McpService`] and gets from it, and the limits of one.
pub use haft_mcp::server::http::{HttpAnswer, HttpOptions, RequestBody};

/// The agent and the session of an endpoint whose callers all bring their own.
const OWN_NAME: &str = "mcp";

/// Collects the parts of a host that is served.
#[must_use = "nothing is opened before `open`"]
pub struct ServedHostBuilder {
    builder: HostBuilder,
    calls: Arc<LiveCalls>,
    asking: AskingSettings,
    catalog: CatalogSettings,
    mode: Option<Mode>,
    own: Arc<Principal>,
    notes: Vec<String>,
}

/// A host that is served.
pub struct ServedHost {
    host: Host,
    calls: Arc<LiveCalls>,
    asking: AskingSettings,
    catalog: Catalog,
    /// The caller of an endpoint whose callers all bring their own: whose tenant it is.
    own: Arc<Principal>,
}

impl ServedHostBuilder {
    /// Starts from settings: people are asked at the clients of calls and in the other places that
    /// the settings name, and mounted servers ask the clients of calls.
    pub fn from_settings(settings: Settings, env: &Env) -> Result<Self, HostError> {
        let asking = settings.asking.clone();
        let catalog = settings.catalog;
        let own = own_caller(&settings)?;
        let (places, mut notes) = OtherPlaces::of(&asking.places, env);
        let clients = Arc::<Clients>::default();
        let calls = LiveCalls::new(Arc::clone(&clients));
        // A client started by a call would answer for the person: an agent would approve itself.
        let elicitation = match ancestry::started_by_a_call() {
            None => asking.elicitation(),
            Some(_) => Elicitation::Never,
        };
        let draw = Arc::new(client_question::draw);
        let approver = ProtocolApprover::new(Arc::clone(&calls), elicitation, draw);
        let builder = HostBuilder::from_settings(settings)?
            .events(Arc::clone(&calls) as _)
            .approver(FirstAnswer::new(approver, places))
            .clients(clients)
            .serves();
        notes.extend(builder.notes().iter().cloned());
        Ok(Self {
            builder,
            calls,
            asking,
            catalog,
            mode: None,
            own,
            notes,
        })
    }

    /// Lists tools so, whatever the settings say.
    pub fn catalog(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Lets the host take workspaces of other directories on this machine and of other tenants, also
    /// where its own is elsewhere.
    pub fn takes_workspaces(self) -> Self {
        self.configure(HostBuilder::takes_workspaces)
    }

    /// Changes anything else on the host's builder, such as who listens besides.
    pub fn configure(mut self, change: impl FnOnce(HostBuilder) -> HostBuilder) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Notes for a person.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Opens the host, and from then on takes over rules that `haft trust` accepts. The settings were
    /// found in this environment and with these overrides.
    pub async fn open(self, env: &Env, overrides: &Overrides) -> Result<ServedHost, HostError> {
        let catalog = self.catalog.catalog(self.mode);
        let mut builder = self.builder;
        if catalog.may_search() {
            builder = builder.searchable();
        }
        let host = Host::open(builder).await?;
        host.follow_trust(env, overrides);
        let redactor = host.ledger().redactor();
        self.calls
            .redact_with(move |text| redactor.text(text).into_owned());
        Ok(ServedHost {
            host,
            calls: self.calls,
            asking: self.asking,
            catalog,
            own: self.own,
        })
    }
}

/// Stands for the tenant whose settings these are.
fn own_caller(settings: &Settings) -> Result<Arc<Principal>, HostError> {
    let unusable = |error: haft_contract::identity::IdentityError| {
        HostError::config(error.to_string(), "this is a mistake in Haft; report it")
    };
    let agent = AgentId::parse(OWN_NAME).map_err(unusable)?;
    let session = SessionId::parse(OWN_NAME).map_err(unusable)?;
    let mut own = Principal::local(settings.places.user.clone(), agent, session);
    own.tenant = settings.places.tenant.clone();
    Ok(Arc::new(own))
}

impl ServedHost {
    /// The host: its runtime, its workspaces, its rules and its record.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// An endpoint for a transport whose callers are this principal, where nothing identifies
    /// another, in the host's own workspace.
    pub fn endpoint(&self, principal: Arc<Principal>, sessions: SessionScope) -> Arc<Endpoint> {
        let endpoint = self.plain_endpoint(principal, sessions);
        Arc::new(match self.mounted() {
            Some(mounted) => endpoint.mounts(mounted),
            None => endpoint,
        })
    }

    /// An endpoint whose callers all bring their own principal and workspace.
    fn shared_endpoint(&self) -> Arc<Endpoint> {
        let own = Arc::clone(&self.own);
        let endpoint = self.plain_endpoint(own, SessionScope::OfConnection);
        Arc::new(match self.mounted() {
            Some(mounted) => endpoint.mounts_of_tenant(mounted),
            None => endpoint,
        })
    }

    fn plain_endpoint(&self, principal: Arc<Principal>, sessions: SessionScope) -> Endpoint {
        let runtime = self.host.runtime().clone();
        Endpoint::new(runtime, principal, Arc::clone(&self.calls), sessions)
            .approval_wait(self.asking.approval_wait())
            .requests_in_flight(self.asking.requests_in_flight())
            .catalog(self.catalog.clone())
    }

    /// What mounted servers offer besides tools, if there are any.
    fn mounted(&self) -> Option<Arc<MountedResources>> {
        let plan = self.host.mounts();
        if plan.is_empty() {
            return None;
        }
        let offers = Arc::clone(self.host.servers()) as Arc<dyn MountedOffers>;
        Some(Arc::new(MountedResources::new(offers, plan.plain())))
    }
}

impl std::fmt::Debug for ServedHostBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedHostBuilder")
            .field("builder", &self.builder)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ServedHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedHost")
            .field("host", &self.host)
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}
