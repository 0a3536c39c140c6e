//! `HAFT_ARTIFACTS`: long output and file versions in object storage, reached with credentials that no
//! command has.

use std::process::Output;

use haft_testkit::object_server::{ObjectServer, SECRET_KEY};

use crate::support::{Stage, database};

const UNCONFINED: &str = "[policy]\nallow = [\"bash\"]\n[tools.bash]\nsandbox = \"off\"\n";

fn run(stage: &Stage, server: &ObjectServer, args: &[&str]) -> Output {
    stage
        .command(args)
        .env("HAFT_ARTIFACTS", server.address())
        .envs(server.settings())
        .output()
        .unwrap()
}

fn text(ran: &Output) -> String {
    String::from_utf8([ran.stdout.clone(), ran.stderr.clone()].concat()).unwrap()
}

#[test]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
fn long_output_is_kept_in_object_storage_and_read_back() {
    let server = ObjectServer::start();
    let stage = Stage::with_config(UNCONFINED);
    let ran = run(
        &stage,
        &server,
        &["call", "bash", "seq 1 200000; env | sort"],
    );
    assert!(ran.status.success(), "{}", text(&ran));
    assert!(!text(&ran).contains("AWS_"), "{}", text(&ran));
    assert!(!text(&ran).contains(SECRET_KEY), "{}", text(&ran));
    let stored = server.objects("kept/content/");
    let output = stored.iter().map(|object| server.get(&object.key));
    let output = output.max_by_key(Vec::len).expect("an artifact");
    let output = String::from_utf8(output).unwrap();
    assert!(output.contains("\n123456\n") && output.contains("\nPATH="));
    assert!(!output.contains("AWS_") && !output.contains(SECRET_KEY));
    let shown = run(&stage, &server, &["show", "last", "--json"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    let call = format!("call={}", shown["call"].as_str().unwrap());
    let read = run(
        &stage,
        &server,
        &["call", "read_output", &call, "pattern=^123456$"],
    );
    assert!(text(&read).contains("123456"), "{}", text(&read));
    // Without the storage it is elsewhere, and nothing of it is in the record's own directory.
    let without = stage.haft(&["call", "read_output", &call]).fails(1);
    assert!(without.contains("expired"), "{without}");
    let record = std::fs::read(database(&stage)).unwrap();
    let secret = SECRET_KEY.as_bytes();
    assert!(!record.windows(secret.len()).any(|part| part == secret));
    server.stop();
    let down = run(&stage, &server, &["call", "read_output", &call]);
    assert_eq!(down.status.code(), Some(1), "{}", text(&down));
    assert!(
        text(&down).contains("the artifact storage"),
        "{}",
        text(&down)
    );
}

#[test]
fn an_artifact_storage_that_cannot_be_meant_is_refused() {
    let stage = Stage::new();
    for (address, endpoint, said) in [
        (
            "bucket",
            "https://storage.example.com",
            "`s3://bucket/prefix`",
        ),
        ("s3://bucket", "http://storage.example.com", "`https://`"),
    ] {
        let ran = stage
            .command(&["call", "list", "path=."])
            .env("HAFT_ARTIFACTS", address)
            .env("AWS_ENDPOINT_URL", endpoint)
            .output()
            .unwrap();
        let text = text(&ran);
        assert_eq!(ran.status.code(), Some(8), "{text}");
        assert!(
            text.contains(said) && text.contains("`HAFT_ARTIFACTS`"),
            "{text}"
        );
    }
}
