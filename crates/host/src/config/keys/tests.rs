//! The data about the keys against what is read: names, examples, defaults, schema and page.

use std::collections::BTreeSet;

use haft_backends::ChangeOptions;
use haft_ledger::{Retention, options::MAX_QUEUED_BYTES};
use haft_policy::{CedarPolicy, PolicySource};
use haft_runtime::{Limits, LoopGuard};

use super::*;
use crate::config::file;

/// What both readers of a file say about it.
fn problems(text: &str) -> Vec<haft_policy::load::Problem> {
    let source = PolicySource::new("haft.toml", text);
    let mut found = file::parse(&source).err().unwrap_or_default();
    if let Err(error) = CedarPolicy::load(&[source]) {
        found.extend(error.problems().iter().cloned());
    }
    found
}

fn default_of(table: &str, key: &str) -> String {
    let table = tables().iter().find(|one| one.name == table).unwrap();
    let key = table.keys.iter().find(|one| one.key == key).unwrap();
    key.default.clone().unwrap()
}

/// The file with every numeric default of a table written out.
fn written_defaults(name: &str) -> String {
    let table = tables().iter().find(|table| table.name == name).unwrap();
    let mut text = format!("[{name}]\n");
    for key in &table.keys {
        let number = key
            .default
            .as_ref()
            .filter(|text| text.parse::<u64>().is_ok());
        if let Some(number) = number {
            writeln!(text, "{} = {number}", key.key).unwrap();
        }
    }
    text
}

fn parsed(text: &str) -> file::ConfigFile {
    file::parse(&PolicySource::new("haft.toml", text)).unwrap()
}

#[test]
fn the_data_can_be_read() {
    let read: Result<KeyTables, _> = toml::from_str(include_str!("../keys.toml"));
    assert!(read.unwrap().table.len() > 10);
}

/// The error about an unknown key lists the keys that are read.
#[test]
fn every_key_that_is_read_is_described_and_no_other() {
    for table in tables() {
        let entry = table.entry.as_deref().unwrap_or("main");
        // Its keys are names of tools, which are checked once there are tools.
        if table.any_name().is_some() {
            continue;
        }
        let heading = table
            .heading()
            .replace("NAME", entry)
            .replace("KIND", entry);
        let base = table.example.join("\n");
        let text = format!("{heading}\n{base}\nqqqqqqqqqqqqqqqqqqqq = 1");
        let hint = problems(&text).iter().find_map(|problem| {
            let hint = problem.hint.as_ref()?;
            let named = problem.message.contains("qqqqqqqqqqqqqqqqqqqq");
            hint.strip_prefix("known: ")
                .filter(|_| named)
                .map(str::to_owned)
        });
        let hint = hint.unwrap_or_else(|| panic!("{text}: {:?}", problems(&text)));
        let mut read: BTreeSet<&str> = hint.split(", ").collect();
        // A session can only restrict; the reader knows the word to say so.
        if table.name == "sessions.KIND" {
            read.remove("allow");
        }
        let described: BTreeSet<&str> = table.keys.iter().map(|key| key.key.as_str()).collect();
        assert_eq!(described, read, "{heading}");
    }
    let top = problems("qqqqqqqqqqqqqqqqqqqq = 1");
    let hint = top
        .iter()
        .find_map(|problem| problem.hint.as_deref()?.strip_prefix("known: "));
    let read: BTreeSet<&str> = hint.unwrap().split(", ").collect();
    let described = tables().iter().flat_map(|table| names(&table.name));
    let described: BTreeSet<&str> = described
        .map(|name| name.split(['.', '[']).next().unwrap())
        .collect();
    assert_eq!(described, read);
}

#[test]
fn every_example_is_read() {
    let mut read = 0;
    for table in tables() {
        for key in &table.keys {
            let Some(text) = table.sample(key) else {
                assert_eq!(key.kind, "table", "{} {}", table.name, key.key);
                continue;
            };
            let found = problems(&text);
            assert!(found.is_empty(), "{text}\n{found:?}");
            read += 1;
        }
    }
    assert!(read > 80, "{read}");
}

/// A default that is written out changes nothing.
#[test]
fn the_defaults_are_those_of_the_code() {
    let mut limits = Limits::default();
    parsed(&written_defaults("limits"))
        .limits
        .apply(&mut limits);
    assert_eq!(format!("{limits:?}"), format!("{:?}", Limits::default()));
    let mut limits = haft_sandbox::Limits::default();
    parsed(&written_defaults("sandbox.limits"))
        .sandbox
        .apply(&mut limits);
    let usual = haft_sandbox::Limits::default();
    assert_eq!(format!("{limits:?}"), format!("{usual:?}"));
    let masks = parsed(&written_defaults("sandbox.masks")).sandbox.masks;
    assert_eq!(masks.limits(), haft_sandbox::MaskLimits::default());
    let guard = parsed(&written_defaults("loop_guard")).loop_guard.guard();
    assert_eq!(format!("{guard:?}"), format!("{:?}", LoopGuard::default()));
    let undo = parsed(&written_defaults("undo")).undo;
    let usual = ChangeOptions::new("x");
    let set = undo.options(ChangeOptions::new("x")).unwrap();
    assert_eq!(format!("{set:?}"), format!("{usual:?}"));
    let kept = Retention::default();
    assert_eq!(
        default_of("record", "artifact_days"),
        (kept.kept_for.as_secs() / 86_400).to_string()
    );
    assert_eq!(
        default_of("record", "artifact_bytes"),
        kept.max_total_bytes.to_string()
    );
    assert_eq!(
        default_of("record", "queue_bytes"),
        MAX_QUEUED_BYTES.to_string()
    );
    let (written, usual) = (parsed(&written_defaults("mcp")), parsed(""));
    assert_eq!(written.asking.approval_wait(), usual.asking.approval_wait());
    assert_eq!(
        written.asking.requests_in_flight(),
        usual.asking.requests_in_flight()
    );
    assert_eq!(
        written.catalog.catalog(None).budget,
        usual.catalog.catalog(None).budget
    );
}

/// The schema accepts what is read, and refuses a key that is not.
#[test]
fn the_schema_accepts_every_example_and_no_other_key() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let mut samples: Vec<String> = tables()
        .iter()
        .flat_map(|table| table.keys.iter().filter_map(|key| table.sample(key)))
        .collect();
    samples.push(crate::config::template::haft_toml("sandboxed"));
    let ssh = "destination = \"h\"\nroot = \"/srv\"\n";
    samples.push(format!("[ssh]\n{ssh}[ssh.build]\n{ssh}"));
    for text in samples {
        let value: Json = toml::from_str(&text).unwrap();
        let found: Vec<String> = validator
            .iter_errors(&value)
            .map(|e| e.to_string())
            .collect();
        assert!(found.is_empty(), "{text}\n{found:?}");
    }
    for text in [
        "[limit]\ncalls = 1",
        "[limits]\ncalls = 1",
        "[limits]\nprocesses = 0",
        "[ssh.build]\nhost = \"h\"",
        "[users.ada]\nbackend = \"local\"",
        "[channels.x]\nbackend = \"local\"",
    ] {
        let value: Json = toml::from_str(text).unwrap();
        assert!(!validator.is_valid(&value), "{text}");
    }
}

#[test]
fn the_page_about_the_configuration_is_current() {
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/guide/configuration.md"
    );
    let written = std::fs::read_to_string(page).unwrap_or_default();
    assert!(
        written == guide(),
        "docs/guide/configuration.md is stale: run `haft docs configuration > docs/guide/configuration.md`"
    );
}
