//! Runs every example and checks what it says, so that none of them can rot.

#[path = "../../examples/agent_loop.rs"]
mod agent_loop;
#[path = "../../examples/another_machine.rs"]
mod another_machine;
#[path = "../../examples/approvals.rs"]
mod approvals;
#[path = "../../examples/custom_access.rs"]
mod custom_access;
#[path = "../../examples/custom_tool.rs"]
mod custom_tool;
#[path = "../../examples/many_tenants.rs"]
mod many_tenants;
#[path = "../../examples/mounted_server.rs"]
mod mounted_server;
#[path = "../../examples/per_agent_policy.rs"]
mod per_agent_policy;
#[path = "../../examples/streaming_agent.rs"]
mod streaming_agent;

use haft_testkit::openssh_server::OpenSshServer;

#[track_caller]
fn check(said: &[String], expect: &[&str]) {
    assert_eq!(said, expect, "\n{}", said.join("\n"));
}

#[tokio::test]
async fn example_custom_tool() {
    check(
        &custom_tool::run().await.unwrap(),
        &[
            "created drafts/poem.txt (21 bytes)",
            r#"progress: 0 % {"words":0}"#,
            r#"progress: 100 % {"words":4}"#,
            r#"answer: {"role":"tool","tool_call_id":"call_1","content":"4 words"}"#,
        ],
    );
}

#[tokio::test]
async fn example_custom_access() {
    check(
        &custom_access::run().await.unwrap(),
        &[
            "paid 120 eur to acme",
            "asked: no rule allows using `payment:usd/120 to acme`, so preset `careful` asks",
            "paid 120 usd to acme",
            "denied: `@all(payment:* to casino)` (haft.toml:8) denies using `payment:eur/5 to casino`",
            "not_in_plan: the call's plan does not name `payment:eur/110 to acme`",
            "paid in all: 120 eur to acme, 120 usd to acme",
        ],
    );
}

#[tokio::test]
async fn example_per_agent_policy() {
    check(
        &per_agent_policy::run().await.unwrap(),
        &[
            "writer is shown: bash copy edit find grep list patch process read read_output todo write",
            "writer writes docs/guide.md: succeeded by `write(docs/**)` (haft.toml:9)",
            "writer writes src/main.rs: denied by no rule",
            "reviewer is shown: find grep list read read_output todo",
            "reviewer writes docs/guide.md: denied by `write` (haft.toml:12)",
            "reviewer writes src/main.rs: denied by `write` (haft.toml:12)",
            "stranger is shown: bash copy edit find grep list patch process read read_output todo write",
            "stranger writes docs/guide.md: denied by `agents without a section ask` (built in)",
            "stranger writes src/main.rs: denied by `agents without a section ask` (built in)",
        ],
    );
}

#[tokio::test]
async fn example_many_tenants() {
    check(
        &many_tenants::run().await.unwrap(),
        &[
            "acme: succeeded, reads: of acme",
            "beta: succeeded, reads: of beta",
            "beta in acme's directory: true",
            "acme's reader writes: denied",
            "on record for acme: 3 calls",
            "on record for beta: 2 calls",
            "stopped at the end: 0",
        ],
    );
}

#[tokio::test]
async fn example_approvals() {
    check(
        &approvals::run().await.unwrap(),
        &[
            "asked about `write`:",
            "  write notes.txt",
            "  because: no rule allows writing `notes.txt`, so preset `careful` asks",
            "asked about `bash`:",
            "  run make deploy",
            "  because: no rule allows running `make deploy`, so preset `careful` asks: it runs code from workspace files or its input, which a rule allows only in a sandbox",
            "write: succeeded",
            "bash: denied: denied: ada refused: no commands today\n\
             hint: do not repeat the call; ask what to do instead",
            "read, not asked: remember the milk",
        ],
    );
}

#[tokio::test]
async fn example_streaming_agent() {
    check(
        &streaming_agent::run().await.unwrap(),
        &[
            "toolu_1: found list.txt:1: TODO milk",
            "toolu_1: succeeded",
            "toolu_2: asked: write  plan.md (new file), no",
            "toolu_2: denied",
            "toolu_3: asked: write  notes/plan.md (new file), always: write(notes/plan.md)",
            "toolu_3: succeeded",
            "toolu_4: succeeded",
            "toolu_5: asked: embedded/publish, once",
            "toolu_5: uploaded",
            "toolu_5: succeeded",
            "model: It is published.",
            "event: writer toolu_1 succeeded",
            "event: writer toolu_2 denied",
            "event: writer toolu_3 succeeded",
            "event: writer toolu_4 succeeded",
            "event: writer toolu_5 succeeded",
        ],
    );
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn example_agent_loop() {
    check(
        &agent_loop::run(crate::helper_program::sandboxed())
            .await
            .unwrap(),
        &[
            "look_1: notes.txt  9 bytes",
            "look_2: buy milk",
            "try_1: denied: no rule allows running `rm -rf /`, and preset `locked` never asks",
            "write_1: created out/summary.txt (9 bytes)",
            "model: I wrote a summary.",
            "record: operator write succeeded",
            "record: summariser list_dir succeeded",
            "record: summariser Read succeeded",
            "record: summariser bash denied",
            "record: summariser write succeeded",
        ],
    );
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap and python3"]
async fn example_mounted_server() {
    check(
        &mounted_server::run(crate::helper_program::sandboxed())
            .await
            .unwrap(),
        &[
            "shown at first: nothing",
            "accepted 1, shown now: mcp__clock__noon",
            "succeeded: noon in Lisbon is at 12:00",
        ],
    );
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH, bubblewrap and python3"]
async fn example_another_machine() {
    let server = OpenSshServer::start();
    std::fs::create_dir(server.file("home/app")).unwrap();
    let machine = crate::elsewhere::machine(&server, "~/app");
    check(
        &another_machine::run(machine, crate::helper_program::sandboxed())
            .await
            .unwrap(),
        &[
            "would write below `app` of ssh:127.0.0.1: allow",
            "allow: preset `locked` allows using `write`",
            "deny: writing `.bashrc` is never allowed: a shell runs it when it starts or ends; no rule can change that",
            "write: succeeded: created notes/today.txt (9 bytes)",
            "bash: succeeded: 9 notes/today.txt",
            "mcp__clock__noon: succeeded: noon in Lisbon is at 12:00",
            "bash: denied: denied: no rule allows running `rm -rf notes`, and preset `locked` never asks",
        ],
    );
}
