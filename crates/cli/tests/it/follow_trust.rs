//! `haft trust` while `haft mcp` runs: the new rules are in force without a restart, and only once
//! they were trusted.

use serde_json::{Value, json};

use crate::{
    mcp::Agent,
    support::{Stage, eventually},
};

const ALLOWING: &str = "[policy]\npreset = \"careful\"\nallow = [\"read\"]\n";
const DENYING: &str = "[policy]\npreset = \"careful\"\ndeny = [\"read\"]\n";

fn lists_read(agent: &mut Agent) -> bool {
    let listed = agent.ask("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    tools.iter().any(|tool| tool["name"] == "read")
}

fn read(agent: &mut Agent) -> bool {
    let call = json!({"name": "read", "arguments": {"path": "a.txt"}});
    let answer = agent.ask("tools/call", &call);
    answer["result"]["isError"] != json!(true)
}

/// The version of the rules that decided the last call, as `haft explain` names it.
fn version(stage: &Stage) -> String {
    let explained = stage.json(&["explain", "--json"]);
    explained["decision"]["policy"].as_str().unwrap().to_owned()
}

fn is_list_change(message: &Value) -> bool {
    message["method"] == "notifications/tools/list_changed"
}

#[test]
fn rules_that_are_trusted_take_the_place_of_the_old_ones_in_a_running_server() {
    let stage = Stage::with_config(ALLOWING);
    stage.write("a.txt", "here");
    let mut agent = Agent::start(&stage, &[]);
    agent.initialize();
    assert!(lists_read(&mut agent));
    assert!(read(&mut agent));
    let allowing = version(&stage);
    let shown = stage.haft(&["show"]).ok();
    let short = allowing.get(..17).unwrap();
    assert!(shown.contains(&format!("under rules {short}\n")), "{shown}");
    // Edited and not trusted: nothing changes.
    stage.write("haft.toml", DENYING);
    assert!(read(&mut agent));
    stage.haft(&["trust"]).ok();
    agent.until(is_list_change);
    assert!(!lists_read(&mut agent));
    assert!(!read(&mut agent));
    let denying = version(&stage);
    assert_ne!(allowing, denying);
    // And back again, with a person's yes to what is denied no longer.
    stage.write("haft.toml", ALLOWING);
    assert!(!read(&mut agent));
    stage.haft(&["trust", "--yes"]).ok();
    agent.until(is_list_change);
    assert!(read(&mut agent));
    assert_eq!(version(&stage), allowing);
}

#[test]
fn rules_that_cannot_be_used_leave_the_old_ones_in_force_and_status_says_so() {
    let stage = Stage::with_config(DENYING);
    stage.write("a.txt", "here");
    let mut agent = Agent::start(&stage, &[]);
    agent.initialize();
    assert!(!read(&mut agent));
    // A tool that only a server started from now on has: here, the rule would deny nothing.
    let ahead = "[policy]\npreset = \"careful\"\ndeny = [\"sh\"]\n[tools.sh]\ntype = \"bash\"\n";
    stage.write("haft.toml", ahead);
    stage.haft(&["trust", "--yes"]).ok();
    let kept = eventually("the status says it", || {
        let status = stage.json(&["status", "--json"]);
        status["keeps_old_rules"][0]["why"]
            .as_str()
            .map(str::to_owned)
    });
    assert!(kept.contains("haft.toml:3"), "{kept}");
    assert!(kept.contains("`sh`"), "{kept}");
    let said = stage.haft(&["status"]).ok();
    assert!(said.contains("keeps its old rules"), "{said}");
    assert!(!read(&mut agent));
    stage.write("haft.toml", ALLOWING);
    stage.haft(&["trust", "--yes"]).ok();
    agent.until(is_list_change);
    assert!(read(&mut agent));
    eventually("nothing is kept any more", || {
        let status = stage.json(&["status", "--json"]);
        status.get("keeps_old_rules").is_none().then_some(())
    });
    let (_, said, _) = agent.close();
    assert!(said.contains("the old ones stay in force"), "{said}");
}
