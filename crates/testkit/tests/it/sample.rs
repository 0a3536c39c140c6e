//! The tool suite on every sample tool.

use haft_contract::erased::erase;
use haft_testkit::{sample, suite::tool::ToolFixture};
use serde_json::json;

macro_rules! sample_tools {
    ($($module:ident: $tool:expr, $example:tt;)+) => {
        $(
            mod $module {
                use super::*;

                haft_testkit::tool_suite!(ToolFixture::new(erase($tool).unwrap(), [json!($example)]));
            }
        )+

        #[test]
        fn every_sample_tool_is_tested() {
            let tested = [$(stringify!($module)),+];
            let all = sample::all();
            let names: Vec<&str> = all.iter().map(|tool| tool.name().as_str()).collect();
            assert_eq!(names, tested);
        }
    };
}

sample_tools! {
    append: sample::Append, { "path": "log.txt", "line": "one" };
    count: sample::Count, { "to": 3 };
    echo: sample::Echo, { "text": "hello" };
    emit: sample::Emit, { "chunks": [{ "bytes": [104, 105] }] };
    panic: sample::Panic, { "message": "broken" };
    rogue: sample::Rogue, { "planned": "a", "touched": "b", "how": "read" };
    sleep: sample::Sleep, { "ms": 1 };
    stubborn: sample::Stubborn, { "ms": 1 };
}
