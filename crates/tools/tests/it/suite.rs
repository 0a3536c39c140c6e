//! What every tool must say about itself, for each built-in tool.

use haft_testkit::suite::tool::{KnownResult, ToolFixture};
use haft_tools::{builtins, catalog::optional};
use serde_json::{Value, json};

fn fixture(name: &str, examples: Value, known: Vec<KnownResult>) -> ToolFixture {
    let examples = match examples {
        Value::Array(examples) => examples,
        example => vec![example],
    };
    let tool = builtins()
        .into_iter()
        .chain(optional())
        .find(|tool| tool.name().as_str() == name);
    ToolFixture::new(tool.expect("a built-in tool"), examples).known(known)
}

macro_rules! tools {
    ($($name:ident: $example:tt, [$($ends:ident $input:tt $payload:expr),+];)+) => {
        $(mod $name {
            use super::*;

            haft_testkit::tool_suite!(tool());
            haft_testkit::tool_style_suite!(tool());

            fn tool() -> ToolFixture {
                let known = vec![$(KnownResult::$ends(json!($input), &$payload)),+];
                fixture(stringify!($name), json!($example), known)
            }
        })+

        #[test]
        fn every_tool_is_tested() {
            let tested = [$(stringify!($name)),+];
            let all = builtins().into_iter().chain(optional());
            let mut names: Vec<String> = all.map(|it| it.name().to_string()).collect();
            names.sort_unstable();
            assert_eq!(names, tested);
        }
    };
}

tools! {
    bash: {"command": "true"}, [
        succeeds {"command": "echo seen; echo also >&2"} ["seen", "also"],
        fails {"command": "echo half; exit 3"} ["half", "3"],
        fails {"command": "echo half; kill -KILL $$"} ["half", "9"]
    ];
    clarify: {"question": "Which?"}, [
        fails {"question": " "} ["/question"],
        fails {"question": "Which?", "options": ["one"]} ["/options"]
    ];
    copy: {"source": "a", "destination": "b"}, [
        succeeds {"source": "known.txt", "destination": "copy.txt"} ["known.txt", "copy.txt"],
        fails {"source": "missing.txt", "destination": "other.txt"} ["missing.txt"]
    ];
    edit: {"path": "a", "edits": [{"old": "a", "new": "b"}]}, [
        succeeds {"path": "known.txt", "edits": [{"old": "another", "new": "the last"}]}
            ["-and another", "+and the last"],
        fails {"path": "known.txt", "edits": [{"old": "nowhere", "new": "x"}]} ["not in the file", "/edits/0/old"]
    ];
    find: {"pattern": "*.rs"}, [
        succeeds {"pattern": "**/*.txt"} ["known.txt", "folder/deep.txt"],
        succeeds {"pattern": "*.nothing"} ["nothing matches"]
    ];
    grep: {"pattern": "x"}, [
        succeeds {"pattern": "nobody"} ["known.txt", "a line nobody could guess"],
        fails {"pattern": "("} ["("]
    ];
    list: {}, [
        succeeds {} ["known.txt", "folder"],
        fails {"path": "missing"} ["missing"]
    ];
    memory_forget: {"id": "01890a5d-ac96-774b-bcce-b302099a8057"}, [
        fails {"id": "01890a5d-ac96-774b-bcce-b302099a8057"} ["01890a5d"],
        fails {"id": "the first"} ["/id"]
    ];
    memory_get: {"id": "01890a5d-ac96-774b-bcce-b302099a8057"}, [
        fails {"id": "01890a5d-ac96-774b-bcce-b302099a8057"} ["01890a5d"]
    ];
    memory_save: {"text": "a fact"}, [
        succeeds {"text": "the tests need Node 22"} ["kept as"],
        fails {"text": " "} ["/text"]
    ];
    memory_search: {"query": "fact"}, [
        succeeds {"query": "nobody kept this"} ["nothing"]
    ];
    patch: {"patch": "*** Begin Patch\n*** Add File: x\n+a\n*** End Patch"}, [
        succeeds {"patch": "*** Begin Patch\n*** Add File: new.txt\n+brand new\n*** End Patch"}
            ["new.txt", "+brand new"],
        fails {"patch": "*** Begin Patch\n*** Delete File: missing.txt\n*** End Patch"}
            ["missing.txt"]
    ];
    process: [
        {"action": "list"},
        {"action": "poll", "id": "p1"},
        {"action": "log", "id": "p1", "offset": 0},
        {"action": "write", "id": "p1", "text": "y\n"},
        {"action": "keys", "id": "p1", "keys": ["ctrl-c"]},
        {"action": "resize", "id": "p1", "rows": 24, "columns": 80},
        {"action": "signal", "id": "p1", "signal": "hup"},
        {"action": "kill", "id": "p1"},
    ], [
        succeeds {"action": "list"} ["no process"],
        fails {"action": "poll", "id": "p7"} ["p7"]
    ];
    read: {"path": "a"}, [
        succeeds {"path": "known.txt"} ["a line nobody could guess", "and another"],
        succeeds {"path": "known.txt", "limit": 1} ["a line nobody could guess", "offset"],
        fails {"path": "missing.txt"} ["missing.txt"]
    ];
    read_output: {"call": "01890a5d-ac96-774b-bcce-b302099a8057"}, [
        succeeds {"call": "{flood}", "limit": 2} ["one line of many", "offset"],
        fails {"call": "01890a5d-ac96-774b-bcce-b302099a8057"} ["01890a5d"]
    ];
    todo: [
        {},
        {"items": [{"text": "a"}, {"text": "b", "status": "in_progress"}]},
    ], [
        succeeds {} ["the list is empty"],
        succeeds {"items": [{"text": "a", "status": "completed"}, {"text": "b"}]} ["1 of 2"],
        fails {"items": [{"text": ""}]} ["/items/0/text"]
    ];
    web_fetch: {"url": "https://docs.rs/"}, [
        fails {"url": "ftp://docs.rs/"} ["/url"]
    ];
    web_search: {"query": "tea"}, [
        fails {"query": "tea"} ["no provider"]
    ];
    write: {"path": "a", "content": "x"}, [
        succeeds {"path": "made.txt", "content": "1234567"} ["made.txt", "7 bytes"],
        fails {"path": "known.txt/below", "content": "x"} ["known.txt"]
    ];
}
