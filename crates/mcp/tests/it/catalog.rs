//! Large catalogs: what is listed, what is found, and that a wrapped call is the call itself.

use std::sync::Arc;

use haft_contract::{
    BoxFuture, CallContext, CallEvent, CallRequest, Content, Effects, NoProgress, Outcome, Plan,
    PlanContext, ProviderId, ToolError, ToolName, ToolSpec,
    erased::{ErasedTool, ParsedInput, ToolReply, WithheldReason},
    host::Verdict,
};
use haft_mcp::catalog::{self, Catalog, Cost, EffectClass, Mode};
use haft_runtime::{
    RulesInForce, WorkspaceRules,
    registry::{Entry, Registry},
};
use haft_testkit::{FixedPolicy, Harness, ScriptedApprover};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A mounted server's tool: says what its definition says, and returns its input.
struct Foreign {
    name: ToolName,
    description: String,
    effects: Effects,
    parameter: &'static str,
}

fn foreign(name: &str, description: &str, effects: Effects) -> Arc<dyn ErasedTool> {
    Arc::new(Foreign {
        name: ToolName::parse(name).unwrap(),
        description: description.to_owned(),
        effects,
        parameter: "id",
    })
}

impl ErasedTool for Foreign {
    fn name(&self) -> &ToolName {
        &self.name
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec::new(self.name.as_str(), self.description.as_str()).effects(self.effects)
    }

    fn input_schema(&self) -> Value {
        json!({"type": "object", "properties": {self.parameter: {"type": "string"}}})
    }

    fn output_schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn program_digest(&self) -> Option<[u8; 32]> {
        None
    }

    fn withheld(&self) -> Option<WithheldReason> {
        None
    }

    fn parse(&self, input: &Value) -> Result<ParsedInput, ToolError> {
        Ok(ParsedInput::new(input.clone()))
    }

    fn plan(&self, _: &ParsedInput, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::new(self.effects))
    }

    fn run(
        &self,
        input: ParsedInput,
        _: CallContext<NoProgress>,
    ) -> BoxFuture<'_, Result<ToolReply, ToolError>> {
        let structured = input.take::<Value>().unwrap_or_default();
        let content = vec![Content::text(structured.to_string())];
        let reply = ToolReply {
            content,
            structured,
        };
        Box::pin(std::future::ready(Ok(reply)))
    }
}

/// A few servers' worth of tools.
fn mounted() -> Vec<(&'static str, Vec<Arc<dyn ErasedTool>>)> {
    let read = Effects::READ_ONLY;
    let (write, destroy) = (Effects::CHANGES, Effects::UNKNOWN);
    vec![
        (
            "mcp__github",
            vec![
                foreign(
                    "mcp__github__create_issue",
                    "Create a new issue in a repository",
                    write,
                ),
                foreign(
                    "mcp__github__list_issues",
                    "List issues of a repository",
                    read,
                ),
                foreign(
                    "mcp__github__merge_pull_request",
                    "Merge a pull request",
                    write,
                ),
                foreign(
                    "mcp__github__delete_repository",
                    "Delete a repository for good",
                    destroy,
                ),
            ],
        ),
        (
            "mcp__mail",
            vec![
                foreign(
                    "mcp__mail__send_message",
                    "Send an e-mail to somebody",
                    write,
                ),
                foreign(
                    "mcp__mail__searchInbox",
                    "Look for messages in the inbox",
                    read,
                ),
            ],
        ),
    ]
}

fn rules(policy: FixedPolicy) -> Arc<RulesInForce> {
    Arc::new(RulesInForce::new(WorkspaceRules::new(Arc::new(policy))))
}

/// A runtime with an endpoint's tools: two built-ins, two servers, and what makes them searchable.
struct Endpoint {
    harness: Harness,
}

impl Endpoint {
    fn with(policy: &FixedPolicy, person: &ScriptedApprover) -> Self {
        let builtins = haft_testkit::sample::all()
            .into_iter()
            .filter(|tool| ["echo", "count"].contains(&tool.name().as_str()));
        let harness = Harness::memory()
            .tools(builtins.collect())
            .policy(policy.clone())
            .person(person)
            .build();
        let registry = harness.runtime.registry();
        for (provider, tools) in mounted() {
            let provider = ProviderId::parse(provider).unwrap();
            registry.register(&provider, tools).unwrap();
        }
        let tools = catalog::tools(registry, rules(policy.clone())).unwrap();
        registry.register(&ProviderId::builtin(), tools).unwrap();
        Self { harness }
    }

    fn allowing_all() -> Self {
        Self::with(&FixedPolicy::allow_all(), &ScriptedApprover::new([]))
    }

    /// As an endpoint makes a call.
    async fn call(&self, tool: &str, arguments: Value) -> Arc<Outcome> {
        let runtime = &self.harness.runtime;
        let principal = &self.harness.principal;
        let (tool, arguments) = catalog::unwrap(
            &runtime.registry().snapshot(),
            |entry| runtime.shows(principal, entry),
            tool.to_owned(),
            arguments,
        );
        let request = CallRequest::new(tool, arguments, Arc::clone(principal));
        runtime.call(request).await
    }

    async fn found(&self, query: &str) -> Vec<String> {
        let outcome = self.call("find_tools", json!({"query": query})).await;
        assert!(outcome.succeeded(), "{}", outcome.model_text());
        let structured = outcome.structured.clone().unwrap();
        let tools = structured["tools"].as_array().unwrap();
        let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
        tools.iter().map(name).collect()
    }

    fn shown(&self) -> Vec<Arc<Entry>> {
        self.harness.runtime.tools_for(&self.harness.principal)
    }

    fn listed(&self, catalog: &Catalog) -> Vec<String> {
        let listed = catalog.listed(self.shown());
        listed
            .iter()
            .map(|entry| entry.key().tool.to_string())
            .collect()
    }

    /// The tool a call was resolved to, as the record has it.
    fn resolved(&self, outcome: &Outcome) -> Option<String> {
        self.harness
            .events
            .of(outcome.call)
            .into_iter()
            .find_map(|event| match event {
                CallEvent::Resolved { tool } => Some(tool.to_string()),
                _ => None,
            })
    }
}

fn catalog(mode: Mode) -> Catalog {
    Catalog {
        mode,
        ..Catalog::default()
    }
}

const CATALOG_TOOLS: [&str; 4] = [
    "call_tool_destructive",
    "call_tool_read",
    "call_tool_write",
    "find_tools",
];

#[tokio::test]
async fn a_model_finds_the_tool_for_a_task_and_how_to_call_it() {
    let endpoint = Endpoint::allowing_all();
    for (query, tool) in [
        ("open an issue on github", "mcp__github__create_issue"),
        ("merge PR request", "mcp__github__merge_pull_request"),
        ("search my inbox", "mcp__mail__searchInbox"),
        ("mail a message to somebody", "mcp__mail__send_message"),
        ("mcp__github__list_issues", "mcp__github__list_issues"),
    ] {
        let found = endpoint.found(query).await;
        assert_eq!(
            found.first().map(String::as_str),
            Some(tool),
            "{query}: {found:?}"
        );
    }
    let arguments = json!({"query": "delete repository", "limit": 1});
    let outcome = endpoint.call("find_tools", arguments).await;
    assert_eq!(
        outcome.structured,
        Some(json!({"tools": [{
            "name": "mcp__github__delete_repository",
            "description": "Delete a repository for good",
            "effects": "destructive",
            "call_with": "call_tool_destructive",
            "input_schema": {"type": "object", "properties": {"id": {"type": "string"}}},
        }]}))
    );
    let nothing = endpoint.call("find_tools", json!({"query": "zzz"})).await;
    assert!(
        nothing.model_text().contains("nothing fits"),
        "{}",
        nothing.model_text()
    );
}

#[tokio::test]
async fn what_a_principal_may_not_see_is_neither_found_nor_called() {
    let policy = FixedPolicy::per_tool([
        ("find_tools", Verdict::Allow),
        ("call_tool_read", Verdict::Allow),
        ("call_tool_write", Verdict::Allow),
        ("mcp__github__list_issues", Verdict::Allow),
    ]);
    let endpoint = Endpoint::with(&policy, &ScriptedApprover::new([]));
    assert_eq!(endpoint.found("issue").await, ["mcp__github__list_issues"]);
    assert_eq!(
        endpoint.found("mcp__github__create_issue").await,
        ["mcp__github__list_issues"]
    );
    let hidden = json!({"tool": "mcp__github__create_issue", "arguments": {}});
    let outcome = endpoint.call("call_tool_write", hidden).await;
    let text = outcome.model_text();
    assert!(
        text.contains("there is no tool `mcp__github__create_issue`"),
        "{text}"
    );
    // The wrapper is hidden, so it unwraps nothing, and to whom it is hidden so is the tool.
    let direct = json!({"tool": "mcp__github__delete_repository"});
    let outcome = endpoint.call("call_tool_destructive", direct).await;
    let text = outcome.model_text();
    assert!(
        text.contains("there is no tool `mcp__github__delete_repository`"),
        "{text}"
    );
    assert_eq!(
        endpoint.resolved(&outcome).as_deref(),
        Some("builtin/call_tool_destructive")
    );
}

#[tokio::test]
async fn a_wrapped_call_is_the_call_itself_to_policy_person_and_record() {
    let policy = FixedPolicy::by(|question| match question.tool.key.tool.as_str() {
        "mcp__mail__send_message" => Verdict::Ask,
        _ => Verdict::Deny,
    });
    let person = ScriptedApprover::new([haft_testkit::approver::ScriptedAnswer::Approve]);
    let endpoint = Endpoint::with(&policy, &person);
    let wrapped = json!({"tool": "mcp__mail__send_message", "arguments": {"id": "7"}});
    let outcome = endpoint.call("call_tool_write", wrapped).await;
    assert!(outcome.succeeded(), "{}", outcome.model_text());
    assert_eq!(outcome.structured, Some(json!({"id": "7"})));
    assert_eq!(
        endpoint.resolved(&outcome).as_deref(),
        Some("mcp__mail/mcp__mail__send_message")
    );
    let asked = person.asked();
    assert_eq!(asked.len(), 1);
}

#[tokio::test]
async fn a_tool_is_called_with_the_one_of_its_class_only() {
    let endpoint = Endpoint::allowing_all();
    let classes = [
        ("mcp__github__list_issues", EffectClass::Read),
        ("mcp__github__create_issue", EffectClass::Write),
        ("mcp__github__delete_repository", EffectClass::Destructive),
    ];
    for (tool, own) in classes {
        for class in EffectClass::ALL {
            let wrapped = json!({"tool": tool, "arguments": {"id": "1"}});
            let outcome = endpoint.call(class.call_tool(), wrapped).await;
            assert_eq!(outcome.succeeded(), class == own, "{tool} {class:?}");
            if class != own {
                let text = outcome.model_text();
                assert!(
                    text.contains(&format!("call it with `{}`", own.call_tool())),
                    "{text}"
                );
                let recorded = endpoint.resolved(&outcome).unwrap();
                assert_eq!(recorded, format!("builtin/{}", class.call_tool()));
            }
        }
    }
}

#[tokio::test]
async fn what_cannot_be_unwrapped_is_refused_with_a_reason() {
    let endpoint = Endpoint::allowing_all();
    let list = "mcp__github__list_issues";
    for (tool, arguments, reason) in [
        (
            "call_tool_read",
            json!({"tool": "nothing_like_it"}),
            "there is no tool `nothing_like_it`",
        ),
        (
            "call_tool_read",
            json!({"tool": "a\u{1b}[2J"}),
            "there is no tool `a\\u{1b}[2J`",
        ),
        (
            "call_tool_read",
            json!({"tool": "mcp__github__list_issue"}),
            "did you mean",
        ),
        ("call_tool_read", json!({"arguments": {}}), "tool"),
        (
            "call_tool_read",
            json!({"tool": list, "argument": {}}),
            "argument",
        ),
        ("call_tool_read", json!({"tool": 7}), "not of type"),
        // One layer only: the inner wrapper is a tool like another, which never runs.
        (
            "call_tool_write",
            json!({"tool": "call_tool_write", "arguments": {"tool": "mcp__github__create_issue"}}),
            "call `mcp__github__create_issue` itself",
        ),
    ] {
        let outcome = endpoint.call(tool, arguments.clone()).await;
        assert!(!outcome.succeeded(), "{arguments}");
        let text = outcome.model_text();
        assert!(text.contains(reason), "{arguments}: {text}");
    }
    // Where nobody unwraps, they say so.
    let straight = json!({"tool": list, "arguments": {}});
    let outcome = endpoint.harness.call("call_tool_read", straight).await;
    assert!(
        outcome.model_text().contains("only at an MCP endpoint"),
        "{}",
        outcome.model_text()
    );
}

#[tokio::test]
async fn an_endpoint_lists_all_or_what_finds_the_rest() {
    let endpoint = Endpoint::allowing_all();
    let full = endpoint.listed(&catalog(Mode::Full));
    assert_eq!(full.len(), 8, "{full:?}");
    assert!(
        CATALOG_TOOLS
            .iter()
            .all(|tool| !full.iter().any(|name| name == tool))
    );
    let search = endpoint.listed(&catalog(Mode::Search));
    assert_eq!(
        search,
        [
            "call_tool_destructive",
            "call_tool_read",
            "call_tool_write",
            "count",
            "echo",
            "find_tools"
        ]
    );
    let keeping = Catalog {
        always: vec!["mcp__mail__send_message".to_owned()],
        ..catalog(Mode::Search)
    };
    assert!(
        endpoint
            .listed(&keeping)
            .contains(&"mcp__mail__send_message".to_owned())
    );
    // Above its budget, and only there, `auto` is `search`.
    let cost = Cost::of(&endpoint.shown(), &catalog(Mode::Auto));
    for (budget, expected) in [(cost.full, &full), (cost.full - 1, &search)] {
        let auto = Catalog {
            budget,
            ..catalog(Mode::Auto)
        };
        assert_eq!(&endpoint.listed(&auto), expected, "{budget}");
    }
}

#[tokio::test]
async fn who_cannot_search_is_listed_everything() {
    let policy = FixedPolicy::per_tool([
        ("mcp__github__list_issues", Verdict::Allow),
        ("call_tool_read", Verdict::Allow),
    ]);
    let endpoint = Endpoint::with(&policy, &ScriptedApprover::new([]));
    assert_eq!(
        endpoint.listed(&catalog(Mode::Search)),
        ["mcp__github__list_issues"]
    );
}

#[tokio::test]
async fn cost_is_told_by_tool_and_server_and_what_search_would_cost() {
    let endpoint = Endpoint::allowing_all();
    let cost = Cost::of(&endpoint.shown(), &Catalog::default());
    let providers: Vec<_> = cost
        .providers
        .iter()
        .map(|one| one.provider.as_str())
        .collect();
    assert_eq!(providers.len(), 3, "{providers:?}");
    assert!(providers.contains(&"mcp__github"), "{providers:?}");
    assert_eq!(
        cost.full,
        cost.providers.iter().map(|one| one.tokens).sum::<usize>()
    );
    for provider in &cost.providers {
        let sum: usize = provider.tools.iter().map(|tool| tool.tokens).sum();
        assert_eq!(provider.tokens, sum);
        assert!(
            provider
                .tools
                .is_sorted_by_key(|tool| std::cmp::Reverse(tool.tokens))
        );
    }
    assert!(!cost.searches, "eight small tools are below the budget");
    assert!(cost.search > 0);
}

#[tokio::test]
async fn ten_thousand_tools_are_searched_and_only_the_best_come_back() {
    let endpoint = Endpoint::allowing_all();
    let many = (0..10_000).map(|number| {
        foreign(
            &format!("mcp__many__tool_{number}"),
            "Does one of many things",
            Effects::UNKNOWN,
        )
    });
    let provider = ProviderId::parse("mcp__many").unwrap();
    let registry = endpoint.harness.runtime.registry();
    registry.register(&provider, many.collect()).unwrap();
    assert_eq!(endpoint.found("one of many things").await.len(), 5);
    assert_eq!(
        endpoint.found("tool 9999").await.first().unwrap(),
        "mcp__many__tool_9999"
    );
    assert_eq!(
        endpoint.found("issue create").await.first().unwrap(),
        "mcp__github__create_issue"
    );
    let outcome = endpoint
        .call("find_tools", json!({"query": "many", "limit": 51}))
        .await;
    assert!(!outcome.succeeded(), "a limit has a limit");
    assert_eq!(
        endpoint.listed(&Catalog::default()).len(),
        6,
        "far above the budget"
    );
}

#[tokio::test]
async fn large_schemas_are_left_out_once_there_is_no_room() {
    let endpoint = Endpoint::allowing_all();
    let provider = ProviderId::parse("mcp__large").unwrap();
    let large = (0..3).map(|number| {
        Arc::new(Foreign {
            name: ToolName::parse(&format!("mcp__large__form_{number}")).unwrap(),
            description: "x".repeat(100_000),
            effects: Effects::READ_ONLY,
            parameter: Box::leak("p".repeat(20_000).into_boxed_str()),
        }) as Arc<dyn ErasedTool>
    });
    let registry = endpoint.harness.runtime.registry();
    registry.register(&provider, large.collect()).unwrap();
    let outcome = endpoint.call("find_tools", json!({"query": "form"})).await;
    let tools = outcome.structured.clone().unwrap()["tools"]
        .as_array()
        .unwrap()
        .clone();
    let with_schema = tools
        .iter()
        .filter(|tool| tool.get("input_schema").is_some());
    assert_eq!((tools.len(), with_schema.count()), (3, 1));
    assert!(outcome.structured.as_ref().unwrap().to_string().len() < 64 * 1024);
}

proptest! {
    #[test]
    fn unwrapping_gives_the_inner_call_or_the_call_as_it_was(
        tool in "call_tool_(read|write|destructive)|echo",
        inner in "mcp__github__(list_issues|create_issue|delete_repository)|[a-z]{1,8}",
        extra in proptest::option::of("[a-z]{1,6}"),
        arguments in proptest::option::of("[a-z]{0,4}"),
    ) {
        let registry = Arc::new(Registry::new());
        for (provider, tools) in mounted() {
            registry.register(&ProviderId::parse(provider).unwrap(), tools).unwrap();
        }
        let extra_tools = catalog::tools(&registry, rules(FixedPolicy::allow_all())).unwrap();
        registry.register(&ProviderId::builtin(), extra_tools).unwrap();
        let mut wrapped = json!({"tool": inner});
        if let Some(text) = &arguments {
            wrapped["arguments"] = json!({"id": text});
        }
        if let Some(key) = &extra {
            wrapped[key] = json!(1);
        }
        let tools = registry.snapshot();
        let (got, with) = catalog::unwrap(&tools, |_| true, tool.clone(), wrapped.clone());
        if got == tool {
            prop_assert_eq!(with, wrapped);
        } else {
            let class = EffectClass::of_call_tool(&tool).unwrap();
            prop_assert_eq!(&got, wrapped["tool"].as_str().unwrap());
            let entry = tools.get(&got).unwrap();
            prop_assert_eq!(EffectClass::of(entry.spec().effects), class);
            let expected = arguments.map_or(json!({}), |text| json!({"id": text}));
            prop_assert_eq!(with, wrapped.get("arguments").cloned().unwrap_or(expected));
        }
    }
}
