//! What every tool must say about itself, for each built-in tool.

use haft_testkit::suite::tool::ToolFixture;
use haft_tools::builtins;
use serde_json::{Value, json};

fn fixture(name: &str, example: Value) -> ToolFixture {
    let tool = builtins()
        .into_iter()
        .find(|tool| tool.name().as_str() == name);
    ToolFixture::new(tool.expect("a built-in tool"), [example])
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
    read: {"path": "a"},
    read_output: {"call": "01890a5d-ac96-774b-bcce-b302099a8057"},
    write: {"path": "a", "content": "x"},
}
