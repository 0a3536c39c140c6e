//! One connection of a client, or one self-contained request: maps the protocol's requests to what
//! the endpoint has.
//!
//! Nothing is decided here. Lists are read from the registry and the mounts; everything with an
//! effect is a call.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use haft_contract::{CallRequest, Outcome, Principal};
use haft_runtime::registry::Entry;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams,
        CompleteRequestParams, CompleteResult, DiscoverResult, ErrorCode, GetPromptRequestParams,
        GetPromptResponse, GetTaskParams, GetTaskResult, Implementation, InitializeRequestParams,
        InitializeResult, InputResponses, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, PromptsCapability,
        ReadResourceRequestParams, ReadResourceResponse, ResourcesCapability, ServerCapabilities,
        ServerConfig, SubscribeRequestParams, SubscriptionFilter, TASKS_EXTENSION_ID, Tool,
        ToolsCapability, UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    announce::Changes,
    approve::{CallReply, RequestDigest},
    caller::ServedCaller,
    endpoint::{Endpoint, SessionScope},
    fetched::FetchOutcome,
    leave::{ResourceListener, leave},
    narrow::narrowed,
    output,
    page::{FRESH_MS, page},
    result::{self, StructuredContent},
    severity::Severity,
    shown::{names_headers, shown, typed},
    subscriptions::{self, SubscribedUris, SubscriptionChange},
    wait::{ReplyKinds, RequestRound, WaitingRequest, abilities, lacking, stands_for_itself},
};
use crate::mounts::{Fetch, Mounts};

/// The log level for a connection that never set one.
const USUAL_LOGS: Severity = Severity::Info;

/// The most resources one connection may subscribe to.
const MAX_SUBSCRIBED: usize = 1_000;

/// One connection, or one self-contained request.
pub(super) struct Connection {
    endpoint: Arc<Endpoint>,
    served: ServedCaller,
    /// Who calls on this connection; set by `initialize`.
    initialized: OnceLock<Arc<Principal>>,
    logs_from: Mutex<Severity>,
    subscribed: SubscribedUris,
    announcing: AtomicBool,
    gone: CancellationToken,
    _gone_when_dropped: DropGuard,
}

impl Connection {
    /// A connection whose calls end when `gone` is cancelled.
    pub(super) fn new(
        endpoint: Arc<Endpoint>,
        served: ServedCaller,
        gone: &CancellationToken,
    ) -> Self {
        let gone = gone.child_token();
        Self {
            endpoint,
            served,
            initialized: OnceLock::new(),
            logs_from: Mutex::new(USUAL_LOGS),
            subscribed: Arc::default(),
            announcing: AtomicBool::new(false),
            _gone_when_dropped: gone.clone().drop_guard(),
            gone,
        }
    }

    fn principal(&self) -> &Arc<Principal> {
        let own = self.served.caller.principal();
        self.initialized.get().unwrap_or(own)
    }

    /// Who makes a request: the connection's principal, unless the request narrows itself.
    fn asker(&self, context: &RequestContext<RoleServer>) -> Result<Arc<Principal>, ErrorData> {
        narrowed(self.principal(), &context.meta)
    }

    fn subscribed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.subscribed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn call(
        &self,
        context: &RequestContext<RoleServer>,
        request: CallRequest,
        asked: RequestRound,
    ) -> Result<CallReply, ErrorData> {
        let logs_from = *self
            .logs_from
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let waiting = WaitingRequest {
            context,
            reachable: self.initialized.get().is_some(),
            logs_from: Some(logs_from),
            gone: &self.gone,
        };
        let told = waiting.call(&self.endpoint, request, asked).await?;
        match lacking(&self.endpoint, &told) {
            Some(error) if stands_for_itself(context) => Err(error),
            _ => Ok(told),
        }
    }

    /// Fetches something for a request that accepts only a final result.
    async fn fetch(
        &self,
        context: &RequestContext<RoleServer>,
        fetch: Fetch,
    ) -> Result<Arc<Outcome>, ErrorData> {
        let told = self.fetch_asking(context, fetch, ReplyKinds::Answers, None, None);
        match told.await? {
            CallReply::Ended(outcome) => Ok(outcome),
            CallReply::Waits(waits) => Err(result::waiting(&waits)),
            // A client that accepts only results is never given either.
            CallReply::InputRequired(_) | CallReply::Task(_) => Err(ErrorData::internal_error(
                "this request cannot return questions",
                None,
            )),
        }
    }

    async fn fetch_asking(
        &self,
        context: &RequestContext<RoleServer>,
        fetch: Fetch,
        takes: ReplyKinds,
        state: Option<String>,
        answers: Option<InputResponses>,
    ) -> Result<CallReply, ErrorData> {
        let request = fetch.request(self.asker(context)?);
        let request = self.served.placed(request);
        let asked = RequestRound {
            wanted: RequestDigest::call("fetch", &request),
            takes,
            state,
            answers,
        };
        self.call(context, request, asked).await
    }

    fn mounts(&self) -> Option<&Arc<dyn Mounts>> {
        self.endpoint.mounts_for(&self.served.caller)
    }

    /// A list of something that mounted servers offer.
    fn mounted<T: DeserializeOwned>(&self, list: fn(&dyn Mounts) -> Vec<Value>) -> Vec<T> {
        let values = self.mounts().map(|mounts| list(&**mounts));
        values
            .unwrap_or_default()
            .into_iter()
            .filter_map(typed)
            .collect()
    }

    fn shows_output(&self, principal: &Principal) -> bool {
        let tools = self.served.tools_for(principal);
        let shown = |tool: &Arc<Entry>| tool.key().tool.as_str() == output::TOOL;
        tools.iter().any(shown)
    }

    /// Subscribes to a resource at a mounted server, or unsubscribes.
    async fn subscription(
        &self,
        context: &RequestContext<RoleServer>,
        uri: &str,
        wanted: bool,
    ) -> Result<(), ErrorData> {
        let then = if wanted {
            self.endpoint.subscriptions.more(uri)
        } else {
            self.endpoint.subscriptions.fewer(uri)
        };
        let fetch = match then {
            SubscriptionChange::Nothing => return Ok(()),
            SubscriptionChange::Refuse => return Err(subscriptions::too_many()),
            // Ask for each client that wants it, even if the server has been asked before: the
            // rules decide whether this client may.
            SubscriptionChange::Ask => self
                .mounts()
                .and_then(|mounts| mounts.subscription(uri, wanted)),
        };
        let Some(fetch) = fetch else {
            if wanted {
                self.endpoint.subscriptions.fewer(uri);
            }
            return Err(no_resource(uri));
        };
        let refused = match self.fetch(context, fetch).await {
            Ok(outcome) if outcome.succeeded() => return Ok(()),
            Ok(outcome) => result::refused(&outcome),
            Err(error) => error,
        };
        // Do not count it, or the next client would be told yes although nobody asked the server.
        if wanted {
            self.endpoint.subscriptions.fewer(uri);
        }
        Err(refused)
    }
}

#[expect(
    deprecated,
    reason = "subscriptions and log levels of clients that begin with `initialize`"
)]
impl ServerHandler for Connection {
    /// Without the instructions, which depend on every tool: the SDK calls this for every
    /// self-contained request.
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::default();
        let mut tools = ToolsCapability::default();
        tools.list_changed = Some(true);
        capabilities.tools = Some(tools);
        let mut resources = ResourcesCapability::default();
        resources.list_changed = Some(true);
        resources.subscribe = Some(self.mounts().is_some());
        capabilities.resources = Some(resources);
        capabilities.logging = Some(serde_json::Map::new());
        let tasks = (TASKS_EXTENSION_ID.to_owned(), serde_json::Map::new());
        capabilities.extensions = Some([tasks].into());
        if self.mounts().is_some() {
            let mut prompts = PromptsCapability::default();
            prompts.list_changed = Some(true);
            capabilities.prompts = Some(prompts);
            capabilities.completions = Some(serde_json::Map::new());
        }
        let mut haft = Implementation::new("haft", env!("CARGO_PKG_VERSION"));
        haft.title = Some("Haft".to_owned());
        ServerConfig::new(capabilities).with_server_info(haft)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let principal = match self.endpoint.sessions {
            SessionScope::OfEndpoint => Arc::clone(self.served.caller.principal()),
            SessionScope::OfConnection => Endpoint::in_new_session(&self.served.caller),
        };
        // A client that initializes twice keeps its principal.
        let _ = self.initialized.set(principal);
        context.peer.set_peer_info(request.clone());
        let mut initialized = self.negotiate_initialize(&request)?;
        let told = self.endpoint.instructions(&self.served, self.principal());
        initialized.instructions = Some(told);
        Ok(initialized)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        // A client may send this as often as it likes.
        if self.announcing.swap(true, Ordering::Relaxed) {
            return;
        }
        let subscribed = Arc::clone(&self.subscribed);
        let changes = Changes::of(&self.endpoint, &self.served);
        tokio::spawn(changes.announce(context.peer, subscribed, self.gone.clone()));
    }

    async fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        let mut found = DiscoverResult::from_server_info(versions, self.get_info());
        let principal = self.asker(&context)?;
        let told = self.endpoint.instructions(&self.served, &principal);
        found.instructions = Some(told);
        found.ttl_ms = FRESH_MS;
        found.cache_scope = CacheScope::Private;
        Ok(found)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.endpoint.listed(&self.served, &*self.asker(&context)?);
        let name = |tool: &Arc<Entry>| Arc::clone(tool).key().tool.as_str().to_owned();
        let (tools, next) = page(tools, name, request.as_ref(), self.endpoint.page_entries)?;
        let tools = tools.iter().filter_map(shown);
        let mut listed = ListToolsResult::with_all_items(tools.collect())
            .with_ttl_ms(FRESH_MS)
            .with_cache_scope(CacheScope::Private);
        listed.next_cursor = next;
        Ok(listed)
    }

    /// For tools that want parameters repeated as headers: the SDK compares them with the schema.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        let tools = self.served.workspace.as_ref()?.registry().snapshot();
        let tool = tools.get(name)?;
        names_headers(tool.input_schema()).then(|| shown(tool))?
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let name = request.name.into_owned();
        let principal = self.asker(&context)?;
        let call = self.served.request(name, arguments, &principal);
        let asked = RequestRound {
            wanted: RequestDigest::call("tools/call", &call),
            takes: ReplyKinds::QuestionsAndTasks,
            state: request.request_state,
            answers: request.input_responses,
        };
        let takes = if stands_for_itself(&context) {
            StructuredContent::Any
        } else {
            StructuredContent::Object
        };
        result::of_told(self.call(&context, call, asked).await?, takes)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let all: Vec<rmcp::model::Resource> = self.mounted(|mounts| mounts.resources());
        let uri = |resource: &rmcp::model::Resource| resource.uri.clone();
        let (found, next) = page(all, uri, request.as_ref(), self.endpoint.page_entries)?;
        let mut listed = ListResourcesResult::with_all_items(found)
            .with_ttl_ms(FRESH_MS)
            .with_cache_scope(CacheScope::Private);
        listed.next_cursor = next;
        Ok(listed)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut all: Vec<rmcp::model::ResourceTemplate> = self.mounted(|mounts| mounts.templates());
        if self.shows_output(&*self.asker(&context)?) {
            all.push(output::template());
        }
        all.sort_by(|a, b| a.uri_template.cmp(&b.uri_template));
        let uri = |template: &rmcp::model::ResourceTemplate| template.uri_template.clone();
        let (found, next) = page(all, uri, request.as_ref(), self.endpoint.page_entries)?;
        let mut listed = ListResourceTemplatesResult::with_all_items(found)
            .with_ttl_ms(FRESH_MS)
            .with_cache_scope(CacheScope::Private);
        listed.next_cursor = next;
        Ok(listed)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        if let Some(fetch) = output::fetch(&uri) {
            let outcome = self.fetch(&context, fetch).await?;
            return output::contents(&uri, &outcome).map(ReadResourceResponse::Complete);
        }
        let fetch = self.mounts().and_then(|mounts| mounts.read(&uri));
        let fetch = fetch.ok_or_else(|| no_resource(&uri))?;
        let (state, answers) = (request.request_state, request.input_responses);
        let told = self.fetch_asking(&context, fetch, ReplyKinds::Questions, state, answers);
        let told = FetchOutcome::of(told.await?);
        match told.map_err(|error| result::about_resource(error, &uri))? {
            FetchOutcome::Result(read) => Ok(ReadResourceResponse::Complete(read)),
            FetchOutcome::Asks(asks) => Ok(ReadResourceResponse::InputRequired(asks)),
        }
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let all: Vec<rmcp::model::Prompt> = self.mounted(|mounts| mounts.prompts());
        let name = |prompt: &rmcp::model::Prompt| prompt.name.clone();
        let (found, next) = page(all, name, request.as_ref(), self.endpoint.page_entries)?;
        let mut listed = ListPromptsResult::with_all_items(found)
            .with_ttl_ms(FRESH_MS)
            .with_cache_scope(CacheScope::Private);
        listed.next_cursor = next;
        Ok(listed)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let parameters = json!({"name": request.name, "arguments": request.arguments});
        let fetch = self
            .mounts()
            .and_then(|mounts| mounts.prompt(&request.name, &parameters));
        let Some(fetch) = fetch else {
            let message = format!("there is no prompt `{}`", request.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        let (state, answers) = (request.request_state, request.input_responses);
        let told = self.fetch_asking(&context, fetch, ReplyKinds::Questions, state, answers);
        match FetchOutcome::of(told.await?)? {
            FetchOutcome::Result(prompt) => Ok(GetPromptResponse::Complete(prompt)),
            FetchOutcome::Asks(asks) => Ok(GetPromptResponse::InputRequired(asks)),
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let parameters = serde_json::to_value(&request).unwrap_or(Value::Null);
        let fetch = self
            .mounts()
            .and_then(|mounts| mounts.completion(&parameters));
        let Some(fetch) = fetch else {
            let message = "there is no such prompt or resource template";
            return Err(ErrorData::invalid_params(message, None));
        };
        let outcome = self.fetch(&context, fetch).await?;
        result::of_fetch(&outcome)
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let approvals = &self.endpoint.approvals;
        let principal = self.asker(&context)?;
        let task = approvals.task(&request.task_id, &principal, abilities(&context))?;
        Ok(GetTaskResult::new(task))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let approvals = &self.endpoint.approvals;
        approvals.update_task(
            &request.task_id,
            &*self.asker(&context)?,
            request.input_responses,
        )
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let approvals = &self.endpoint.approvals;
        approvals.cancel_task(&request.task_id, &*self.asker(&context)?)
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.subscribed().contains(&request.uri) {
            return Ok(());
        }
        if self.subscribed().len() >= MAX_SUBSCRIBED {
            return Err(subscriptions::too_many());
        }
        self.subscription(&context, &request.uri, true).await?;
        // The same request made twice at once is one subscription.
        if !self.subscribed().insert(request.uri.clone()) {
            self.endpoint.subscriptions.fewer(&request.uri);
        }
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !self.subscribed().remove(&request.uri) {
            return Ok(());
        }
        self.subscription(&context, &request.uri, false).await
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        if let Some(uris) = &mut accepted.resource_subscriptions {
            uris.truncate(MAX_SUBSCRIBED);
            let known = |uri: &String| self.mounts().is_some_and(|it| it.read(uri).is_some());
            uris.retain(known);
        }
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let uris = context.accepted().resource_subscriptions.clone();
        // The request is over once nobody listens, so a call made in its name would be over too.
        let mut listening = ResourceListener {
            endpoint: Arc::clone(&self.endpoint),
            served: self.served.clone(),
            principal: self.asker(context.request_context())?,
            uris: BTreeSet::new(),
        };
        for uri in uris.unwrap_or_default() {
            match self
                .subscription(context.request_context(), &uri, true)
                .await
            {
                Ok(()) => {
                    if !listening.uris.insert(uri.clone()) {
                        self.endpoint.subscriptions.fewer(&uri);
                    }
                }
                Err(error) => tracing::debug!(%error, "a resource cannot be subscribed to"),
            }
        }
        let changes = Changes::of(&self.endpoint, &self.served);
        changes.tell(&context, &listening.uris, &self.gone).await;
        Ok(())
    }

    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if stands_for_itself(&context) {
            return Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                "logging/setLevel",
                None,
            ));
        }
        let level = serde_json::to_value(request.level).unwrap_or(Value::Null);
        let level = level.as_str().and_then(Severity::parse);
        let level =
            level.ok_or_else(|| ErrorData::invalid_params("there is no such level", None))?;
        *self
            .logs_from
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = level;
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some(principal) = self.initialized.take() else {
            return;
        };
        let (endpoint, served) = (Arc::clone(&self.endpoint), self.served.clone());
        let uris = std::mem::take(&mut *self.subscribed());
        // Without a runtime to do this, the end of the process does it.
        let Ok(handle) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let uris = uris.into_iter().collect();
        handle.spawn(async move { leave(&endpoint, &served, &principal, uris).await });
    }
}

fn no_resource(uri: &str) -> ErrorData {
    ErrorData::resource_not_found("there is no such resource", Some(json!({"uri": uri})))
}
