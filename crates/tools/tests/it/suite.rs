//! What every tool must say about itself, for each built-in tool.

use haft_testkit::suite::tool::ToolFixture;
use haft_tools::builtins;
use serde_json::{Value, json};

fn fixture(name: &str, examples: Value) -> ToolFixture {
    let examples = match examples {
        Value::Array(examples) => examples,
        example => vec![example],
    };
    let tool = builtins()
        .into_iter()
        .find(|tool| tool.name().as_str() == name);
    ToolFixture::new(tool.expect("a built-in tool"), examples)
}

macro_rules! tools {
    ($($name:ident: $example:tt,)+) => {
        $(mod $name {
            use super::*;
            haft_testkit::tool_suite!(fixture(stringify!($name), json!($example)));
        })+
    };
}

tools! {
    bash: {"command": "true"},
    copy: {"source": "a", "destination": "b"},
    edit: {"path": "a", "edits": [{"old": "a", "new": "b"}]},
    find: {"pattern": "*.rs"},
    grep: {"pattern": "x"},
    list: {},
    patch: {"patch": "*** Begin Patch\n*** Add File: x\n+a\n*** End Patch"},
    process: [
        {"action": "list"},
        {"action": "poll", "id": "p1"},
        {"action": "log", "id": "p1", "offset": 0},
        {"action": "write", "id": "p1", "text": "y\n"},
        {"action": "keys", "id": "p1", "keys": ["ctrl-c"]},
        {"action": "resize", "id": "p1", "rows": 24, "columns": 80},
        {"action": "signal", "id": "p1", "signal": "hup"},
        {"action": "kill", "id": "p1"},
    ],
    read: {"path": "a"},
    read_output: {"call": "01890a5d-ac96-774b-bcce-b302099a8057"},
    write: {"path": "a", "content": "x"},
}
