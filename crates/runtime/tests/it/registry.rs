//! R1–R6 and mistakes 7 and 19: listing, naming, aliases, renderings, snapshots.

use std::{sync::Arc, time::Duration};

use haft_contract::host::Verdict;
use haft_contract::{Effects, ProviderId, ToolKey, ToolName, erased::ErasedTool};
use haft_runtime::registry::{Filter, Format, Registry, RegistryError};
use haft_testkit::{FixedPolicy, Harness};
use serde_json::json;

use crate::scripted::Scripted;

fn provider(name: &str) -> ProviderId {
    ProviderId::parse(name).unwrap()
}

fn names(registry: &Registry, filter: &Filter) -> Vec<String> {
    let tools = registry.snapshot();
    tools
        .list(filter)
        .iter()
        .map(|entry| entry.key().tool.to_string())
        .collect()
}

fn sample() -> Registry {
    let registry = Registry::new();
    let builtins: Vec<Arc<dyn ErasedTool>> = vec![
        Scripted::echo("zeta")
            .spec(|spec| spec.groups(&["files"]))
            .tool(),
        Scripted::echo("alpha")
            .effects(Effects::UNKNOWN)
            .spec(|spec| spec.groups(&["process"]).aliases(&["Alpha", "first"]))
            .tool(),
    ];
    registry.register(&ProviderId::builtin(), builtins).unwrap();
    registry
        .register(&provider("github"), vec![Scripted::echo("issues").tool()])
        .unwrap();
    registry
}

#[test]
fn r4_the_order_is_by_name_whatever_the_order_of_arrival() {
    assert_eq!(
        names(&sample(), &Filter::default()),
        ["alpha", "issues", "zeta"]
    );
}

#[test]
fn mistake_07_a_filter_filters() {
    let registry = sample();
    let by_provider = Filter {
        provider: Some(provider("github")),
        ..Filter::default()
    };
    assert_eq!(names(&registry, &by_provider), ["issues"]);
    let by_group = Filter {
        group: Some("files".into()),
        ..Filter::default()
    };
    assert_eq!(names(&registry, &by_group), ["zeta"]);
    let by_effect = Filter {
        effects: Some(|effects| effects.read_only),
        ..Filter::default()
    };
    assert_eq!(names(&registry, &by_effect), ["issues", "zeta"]);
    let by_text = Filter {
        text: Some("zet tests".into()),
        ..Filter::default()
    };
    assert_eq!(names(&registry, &by_text), ["zeta"]);
    let by_nothing_there = Filter {
        text: Some("nothing".into()),
        ..Filter::default()
    };
    assert!(names(&registry, &by_nothing_there).is_empty());
}

#[test]
fn r4_search_ranks_names_before_descriptions() {
    let registry = sample();
    let described = Scripted::echo("other").spec(|mut spec| {
        spec.description = "looks at issues".into();
        spec
    });
    registry
        .register(&provider("x"), vec![described.tool()])
        .unwrap();
    let tools = registry.snapshot();
    let found: Vec<_> = tools
        .search("issue")
        .map(|entry| entry.key().tool.to_string())
        .collect();
    assert_eq!(found, ["issues", "other"]);
}

#[test]
fn r4_search_finds_what_a_task_needs_by_words_in_any_form() {
    let registry = Registry::new();
    let tool = |name: &str, description: &str, parameter: &str| {
        let description = description.to_owned();
        Scripted::echo(name)
            .spec(|mut spec| {
                spec.description = description;
                spec
            })
            .schema(json!({"type": "object", "properties": {parameter: {
                "type": "string", "description": "what to look at",
            }}}))
            .tool()
    };
    let tools = vec![
        tool("createIssue", "Opens a ticket in a repository", "repo"),
        tool(
            "list_branches",
            "Shows the branches of a repository",
            "repo",
        ),
        tool(
            "close-issues",
            "Closes tickets, as many as are named",
            "ids",
        ),
        tool("weather", "Tells the weather of the day", "postalCode"),
    ];
    registry.register(&provider("forge"), tools).unwrap();
    let tools = registry.snapshot();
    let best = |query: &str| {
        let found = tools.search(query).next();
        found.map(|entry| entry.key().tool.to_string())
    };
    for (query, tool) in [
        ("please create an issue", "createIssue"),
        ("create tickets", "createIssue"),
        ("close the issue", "close-issues"),
        ("branch", "list_branches"),
        ("postal code", "weather"),
        ("what is the weather", "weather"),
    ] {
        assert_eq!(best(query).as_deref(), Some(tool), "{query}");
    }
    assert_eq!(best("translate"), None);
    assert_eq!(best(""), None);
    let again: Vec<_> = tools.search("issue repository").collect();
    for _ in 0..10 {
        let found: Vec<_> = registry
            .snapshot()
            .search("issue repository")
            .map(Arc::as_ptr)
            .collect();
        assert_eq!(
            found,
            again
                .iter()
                .map(|entry| Arc::as_ptr(entry))
                .collect::<Vec<_>>()
        );
    }
}

#[test]
fn r5_duplicates_name_both_origins_and_nothing_shadows_a_builtin() {
    let registry = sample();
    let error = registry
        .register(&provider("gitlab"), vec![Scripted::echo("issues").tool()])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the tool name `issues` is offered by both `github` and `gitlab`"
    );
    for name in ["alpha", "Alpha", "first"] {
        let error = registry
            .register(&provider("evil"), vec![Scripted::echo(name).tool()])
            .unwrap_err();
        assert!(
            matches!(error, RegistryError::ShadowsBuiltin { .. }),
            "{name} shadows a built-in: {error}"
        );
    }
    assert_eq!(
        registry.snapshot().len(),
        3,
        "a refused change changes nothing"
    );
}

#[test]
fn r5_an_alias_of_a_foreign_tool_is_not_honoured() {
    let registry = sample();
    let grabby = Scripted::echo("grabby").spec(|spec| spec.aliases(&["read"]));
    registry
        .register(&provider("evil"), vec![grabby.tool()])
        .unwrap();
    assert!(!registry.snapshot().exists("read"));
}

#[test]
fn r4_register_replace_unregister() {
    let registry = sample();
    let key = ToolKey::new(provider("github"), ToolName::parse("issues").unwrap());
    let replacement = Scripted::echo("issues").spec(|mut spec| {
        spec.title = "Second".into();
        spec
    });
    registry
        .replace(&provider("github"), replacement.tool())
        .unwrap();
    assert_eq!(
        registry.snapshot().get("issues").unwrap().spec().title,
        "Second"
    );
    registry.unregister(&key).unwrap();
    assert!(!registry.snapshot().exists("issues"));
    assert_eq!(registry.unregister(&key), Err(RegistryError::Unknown(key)));
    registry
        .replace_provider(&provider("github"), vec![Scripted::echo("pulls").tool()])
        .unwrap();
    assert_eq!(
        names(&registry, &Filter::default()),
        ["alpha", "pulls", "zeta"]
    );
}

#[tokio::test]
async fn r4_a_call_runs_against_the_list_that_advertised_it() {
    let entered = Arc::new(tokio::sync::Notify::new());
    let go = Arc::new(tokio::sync::Notify::new());
    let (told, wait) = (Arc::clone(&entered), Arc::clone(&go));
    let first = Scripted::new("tool", move |_, _| {
        let (told, wait) = (Arc::clone(&told), Arc::clone(&wait));
        async move {
            told.notify_one();
            wait.notified().await;
            Ok(json!("first"))
        }
    });
    let harness = Harness::memory().tools(vec![first.tool()]).build();
    let runtime = harness.runtime.clone();
    let running = tokio::spawn({
        let request = harness.request("tool", json!({}));
        async move { runtime.call(request).await }
    });
    entered.notified().await;
    let second = Scripted::new("tool", |_, _| async { Ok(json!("second")) });
    harness
        .runtime
        .registry()
        .replace(&ProviderId::builtin(), second.tool())
        .unwrap();
    go.notify_one();
    assert_eq!(running.await.unwrap().structured, Some(json!("first")));
    assert_eq!(
        harness.succeed("tool", json!({})).await.structured,
        Some(json!("second"))
    );
}

#[test]
fn r3_one_spec_three_renderings() {
    let registry = Registry::new();
    let tool = Scripted::echo("look").schema(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Look",
        "type": "object",
        "properties": {"at": {"type": "string"}},
        "required": ["at"],
        "oneOf": [{"required": ["at"]}],
    }));
    registry
        .register(&ProviderId::builtin(), vec![tool.tool()])
        .unwrap();
    let tools = registry.snapshot();
    let entry = tools.get("look").unwrap();
    let properties = json!({"at": {"type": "string"}});
    let mcp = entry.rendering(Format::Mcp);
    assert_eq!(mcp["name"], "look");
    assert_eq!(mcp["inputSchema"]["properties"], properties);
    assert_eq!(mcp["annotations"]["readOnlyHint"], true);
    let openai = entry.rendering(Format::OpenAi);
    assert_eq!(openai["type"], "function");
    assert_eq!(openai["function"]["name"], "look");
    assert_eq!(openai["function"]["parameters"]["properties"], properties);
    assert!(
        openai["function"]["parameters"].get("oneOf").is_none(),
        "projected"
    );
    let anthropic = entry.rendering(Format::Anthropic);
    assert_eq!(anthropic["name"], "look");
    assert_eq!(anthropic["input_schema"]["required"], json!(["at"]));
    assert!(
        anthropic["input_schema"].get("oneOf").is_none(),
        "projected"
    );
}

/// Models are shown less of our own schemas than calls are checked against; a mounted server's are
/// shown as they were reviewed.
#[test]
fn schemas_are_shown_plain_unless_they_were_reviewed() {
    let written = json!({"type": ["integer", "null"], "format": "uint64", "title": "N"});
    let schema = json!({"type": "object", "properties": {"n": written}});
    let either = json!([{"type": "integer"}, {"type": "null"}]);
    for (provider, expected) in [
        (ProviderId::builtin(), json!({"type": "integer"})),
        (ProviderId::script(), json!({"anyOf": either})),
        (ProviderId::mounted("files").unwrap(), written.clone()),
    ] {
        let registry = Registry::new();
        let tool = Scripted::echo("count").schema(schema.clone());
        registry.register(&provider, vec![tool.tool()]).unwrap();
        let tools = registry.snapshot();
        let entry = tools.get("count").unwrap();
        let shown = |format: Format, pointer: &str| entry.rendering(format).pointer(pointer);
        let expected = Some(&expected);
        assert_eq!(shown(Format::Mcp, "/inputSchema/properties/n"), expected);
        assert_eq!(
            shown(Format::Anthropic, "/input_schema/properties/n"),
            expected
        );
        assert_eq!(
            shown(Format::OpenAi, "/function/parameters/properties/n"),
            expected
        );
        assert_eq!(*entry.input_schema(), schema);
        let validator = entry.validator().unwrap();
        assert!(validator.is_valid(&json!({"n": null})));
    }
}

/// Mistake 19: a schema handed out by reference and changed by a caller. Renderings are borrowed
/// immutably and are the same value every time.
#[test]
fn mistake_19_renderings_are_cached_and_immutable() {
    let registry = sample();
    let tools = registry.snapshot();
    let first = tools.get("alpha").unwrap().rendering(Format::Mcp);
    let second = tools.get("alpha").unwrap().rendering(Format::Mcp);
    assert!(std::ptr::eq(first, second));
}

#[tokio::test]
async fn r3_one_bad_schema_is_quarantined_and_the_others_work() {
    let remote =
        json!({"type": "object", "properties": {"a": {"$ref": "http://169.254.169.254/"}}});
    let unfinished = json!({"type": "object", "properties": {"a": {"type": "no-such-type"}}});
    let harness = Harness::memory()
        .tools(vec![
            Scripted::echo("list")
                .schema(json!({"type": "array"}))
                .tool(),
            Scripted::echo("remote").schema(remote).tool(),
            Scripted::echo("unfinished").schema(unfinished).tool(),
            Scripted::echo("fine").tool(),
        ])
        .build();
    for bad in ["list", "remote", "unfinished"] {
        let outcome = harness.fail(bad, json!({})).await;
        assert!(
            outcome.model_text().contains("schema"),
            "{}",
            outcome.model_text()
        );
    }
    harness.succeed("fine", json!({})).await;
    assert_eq!(
        names(harness.runtime.registry(), &Filter::default()),
        ["fine"]
    );
    let tools = harness.runtime.registry().snapshot();
    let reason = tools.get("remote").unwrap().quarantine().unwrap();
    assert!(reason.contains("http://169.254.169.254/"), "{reason}");
}

#[tokio::test]
async fn r6_aliases_resolve_and_unknown_names_get_the_nearest() {
    let harness = Harness::memory()
        .tools(vec![
            Scripted::echo("bash")
                .spec(|spec| spec.aliases(&["bash_exec", "exec", "Bash"]))
                .tool(),
            Scripted::echo("read").tool(),
        ])
        .build();
    let outcome = harness.succeed("bash_exec", json!({})).await;
    assert_eq!(outcome.tool.as_ref().unwrap().tool.as_str(), "bash");
    assert_eq!(
        outcome.facts.coercions,
        ["`bash_exec` is an alias of `bash`"]
    );
    let listed = names(harness.runtime.registry(), &Filter::default());
    assert_eq!(listed, ["bash", "read"], "aliases are not listed");
    let outcome = harness.fail("raed", json!({})).await;
    assert!(
        outcome.model_text().contains("did you mean `read`?"),
        "{}",
        outcome.model_text()
    );
    let outcome = harness.fail("\u{1b}[31mx", json!({})).await;
    assert!(
        !outcome.model_text().contains('\u{1b}'),
        "names are shown escaped"
    );
}

#[tokio::test]
async fn r26_denied_tools_are_not_advertised_nor_suggested() {
    let harness = Harness::memory()
        .tools(vec![
            Scripted::echo("secret").tool(),
            Scripted::echo("open").tool(),
        ])
        .policy(FixedPolicy::per_tool([("open", Verdict::Allow)]))
        .build();
    let shown: Vec<_> = harness
        .runtime
        .tools_for(&harness.principal)
        .iter()
        .map(|entry| entry.key().tool.to_string())
        .collect();
    assert_eq!(shown, ["open"]);
    let outcome = harness.fail("secre", json!({})).await;
    assert!(
        !outcome.model_text().contains("`secret`"),
        "{}",
        outcome.model_text()
    );
}

#[tokio::test]
async fn r2_deadlines_and_actions_are_part_of_the_spec() {
    let spec = haft_contract::ToolSpec::new("t", "d").action(
        "download",
        haft_contract::Deadline::new(Duration::from_mins(5), Duration::from_mins(5)),
    );
    assert_eq!(
        spec.deadline_of(Some(&"download".into())).default,
        Duration::from_mins(5)
    );
    assert_eq!(
        spec.deadline_of(Some(&"other".into())).default,
        Duration::from_secs(30)
    );
    assert_eq!(spec.deadline_of(None).default, Duration::from_secs(30));
}
