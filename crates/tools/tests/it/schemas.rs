//! What models see of the built-in tools. A change here is a change for every user.

use std::fmt::Write as _;

use haft_testkit::suite::tool::mcp_definition;
use haft_tools::{builtins, catalog::optional, factory::Factory};

#[test]
fn r2_names_descriptions_and_schemas() {
    let mut text = String::new();
    for tool in builtins().into_iter().chain(optional()) {
        let spec = tool.spec();
        let name = tool.name().clone();
        let definition = mcp_definition(tool);
        let schema = shown(definition["inputSchema"].clone());
        writeln!(
            text,
            "# {}\n{}\n{}\neffects: {}\ndeadline: {} s, at most {} s\ngroups: {:?}\naliases: {:?}\n\
             input: {schema}\n",
            name,
            spec.title,
            spec.description,
            spec.effects,
            spec.deadline.default.as_secs(),
            spec.deadline.maximum.as_secs(),
            spec.groups,
            spec.aliases,
        )
        .unwrap();
    }
    insta::assert_snapshot!(text);
}

/// Sorted, because whether JSON objects keep their order depends on what else is built.
fn shown(mut schema: serde_json::Value) -> String {
    schema.sort_all_objects();
    serde_json::to_string_pretty(&schema).unwrap()
}

#[test]
fn the_catalog_is_complete_and_sorted() {
    let names: Vec<String> = builtins()
        .iter()
        .map(|tool| tool.name().to_string())
        .collect();
    assert_eq!(
        names,
        [
            "bash",
            "copy",
            "edit",
            "find",
            "grep",
            "list",
            "patch",
            "process",
            "read",
            "read_output",
            "todo",
            "write"
        ]
    );
}

/// What a later session reads, and what interrupts a person, is offered only where configuration says so.
#[test]
fn some_tools_are_offered_where_they_are_configured_and_nowhere_else() {
    let names: Vec<String> = optional()
        .iter()
        .map(|tool| tool.name().to_string())
        .collect();
    let optional_ones = [
        "clarify",
        "memory_forget",
        "memory_get",
        "memory_save",
        "memory_search",
        "web_fetch",
        "web_search",
    ];
    assert_eq!(names, optional_ones);
    let types = Factory::builtin();
    let known: Vec<&str> = types.types().collect();
    assert!(
        optional_ones.iter().all(|name| known.contains(name)),
        "{known:?}"
    );
}

/// R6: these names resolve to the built-in tools.
#[test]
fn r6_aliases() {
    let expected = [
        ("bash_exec", "bash"),
        ("exec", "bash"),
        ("Bash", "bash"),
        ("read_file", "read"),
        ("Read", "read"),
        ("write_file", "write"),
        ("Write", "write"),
        ("edit_file", "edit"),
        ("Edit", "edit"),
        ("apply_patch", "patch"),
        ("list_dir", "list"),
        ("ls", "list"),
        ("find_files", "find"),
        ("glob", "find"),
        ("Glob", "find"),
        ("Grep", "grep"),
        ("file_copy", "copy"),
        ("TodoWrite", "todo"),
        ("update_plan", "todo"),
    ];
    let tools = builtins();
    for (alias, name) in expected {
        let owner = tools
            .iter()
            .find(|tool| tool.spec().aliases.contains(&alias));
        assert_eq!(
            owner.map(|tool| tool.name().as_str()),
            Some(name),
            "{alias}"
        );
    }
}

/// The README counts the tools and names each of them.
#[test]
fn the_readme_names_every_tool() {
    let readme = include_str!("../../../../README.md");
    let line = readme
        .lines()
        .find(|line| line.starts_with("- **Twelve tools"))
        .expect("the README counts the tools");
    let (listed, _) = line.split_once(';').unwrap();
    let mut named: Vec<&str> = listed.split('`').skip(1).step_by(2).collect();
    named.sort_unstable();
    let tools = builtins();
    let all: Vec<&str> = tools.iter().map(|tool| tool.name().as_str()).collect();
    assert_eq!((named.len(), named), (12, all));
}
