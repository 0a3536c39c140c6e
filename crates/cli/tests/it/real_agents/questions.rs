//! Questions, each answered where people answer them: in the agent's own form, in
//! `haft approvals --watch`, for good, or by nobody.

use haft_agents::{agent::Agent, model::Turn};
use serde_json::json;

use super::{Scene, for_agents, screen::Seat};
use crate::support::eventually;

const ASKS: &str = "[policy]\npreset = \"careful\"\n";

/// The same where a client does not wait long for a person.
const ASKS_BRIEFLY: &str = "[policy]\npreset = \"careful\"\n[mcp]\napproval_wait = 2\n";

/// The keys of an agent's form: yes to what is shown; no; the second choice of what to remember, and
/// yes.
struct Keys {
    yes: &'static [&'static str],
    no: &'static [&'static str],
    always: &'static [&'static str],
}

fn keys(agent: &dyn Agent) -> Keys {
    match agent.id() {
        "claude-code" => Keys {
            yes: &["Enter", "Enter"],
            no: &["Down", "Right", "Enter"],
            always: &["Right", "Down", "Enter", "Enter"],
        },
        // With a field its form has no way to say no but to dismiss it, which leaves the question
        // open elsewhere; the second Escape gives the call up.
        "codex" => Keys {
            yes: &["Enter"],
            no: &["Escape", "Escape"],
            always: &["Down", "Enter"],
        },
        other => panic!("{other} has no forms"),
    }
}

fn touch(name: &str) -> Turn {
    Turn::call("bash", json!({"command": format!("touch {name}")}))
}

/// A yes in the form runs the call once, and the next call asks again.
fn yes(agent: &'static dyn Agent) {
    let script = vec![touch("made.txt"), Turn::say("that is all")];
    let scene = Scene::new(agent, ASKS, script);
    let seat = Seat::take(&scene);
    seat.ask("make it");
    let form = seat.until("touch made.txt");
    assert!(!scene.stage.exists("made.txt"), "{form}");
    let keys = keys(agent);
    seat.answer(keys.yes, || seat.shows("that is all"));
    assert!(scene.stage.exists("made.txt"));
    let explained = scene.stage.json(&["explain", "--json"]);
    assert_eq!(explained["approval"]["answer"], "approved", "{explained}");
    let by = explained["approval"]["by"].as_str().unwrap();
    assert!(by.starts_with("mcp:"), "{by}");
    scene.saw("yes", &format!("keys: {}", keys.yes.join(", ")));
}

/// A no in the form is a no that the model reads.
fn no(agent: &'static dyn Agent) {
    let script = vec![touch("made.txt"), Turn::say("that is all")];
    let scene = Scene::new(agent, ASKS, script);
    let seat = Seat::take(&scene);
    seat.ask("make it");
    seat.until("touch made.txt");
    let keys = keys(agent);
    let ended = seat.answer(keys.no, || {
        let ended = scene.ends().pop();
        ended.filter(|ended| ended != "open" && ended != "waiting")
    });
    assert!(["denied", "cancelled"].contains(&&*ended), "{ended}");
    assert!(!scene.stage.exists("made.txt"));
    if ended == "denied" {
        let given = seat.given(1);
        assert!(given.contains("denied"), "{given}");
    }
    scene.saw(
        "no",
        &format!("keys: {}; the call is {ended}", keys.no.join(", ")),
    );
}

/// *Always* in the form: the same call is not asked about again.
fn always(agent: &'static dyn Agent) {
    let script = vec![
        touch("made.txt"),
        touch("made.txt"),
        Turn::say("that is all"),
    ];
    let scene = Scene::new(agent, ASKS, script);
    let seat = Seat::take(&scene);
    seat.ask("make it twice");
    seat.until("touch made.txt");
    let keys = keys(agent);
    seat.answer(keys.always, || seat.shows("that is all"));
    assert_eq!(scene.ends(), ["succeeded", "succeeded"]);
    let grants = scene.stage.haft(&["grants", "list"]).ok();
    assert!(grants.contains("touch made.txt"), "{grants}");
    scene.saw("always", &format!("keys: {}", keys.always.join(", ")));
}

/// A question of an agent without a screen is answered on the watch screen beside it.
fn watched(agent: &'static dyn Agent) {
    let script = vec![touch("made.txt"), Turn::say("that is all")];
    let scene = Scene::new(agent, ASKS, script);
    let mut tmux = crate::tmux::Tmux::new(&scene.stage);
    let watch = tmux.haft(&["approvals", "--watch"]);
    tmux.until(watch, "no questions are waiting");
    let running = scene.start("make it").spawn().unwrap();
    tmux.until(watch, "1 question is waiting");
    eventually("the answer is taken", || {
        tmux.press(watch, &["y"]);
        // A yes counts only after the question has stood for a moment.
        std::thread::sleep(std::time::Duration::from_millis(350));
        tmux.screen(watch).contains("approved:").then_some(())
    });
    let ended = running.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert!(scene.stage.exists("made.txt"));
    scene.saw(
        "watched",
        "answered on the watch screen, the same call goes on",
    );
}

/// A question that nobody answers: the model reads why nothing happened and what a person can do.
fn nobody(agent: &'static dyn Agent) {
    let script = vec![touch("made.txt"), Turn::say("that is all")];
    let scene = Scene::new(agent, ASKS_BRIEFLY, script);
    scene.run("make it");
    assert!(!scene.stage.exists("made.txt"));
    let given = scene.model.given();
    let text = &given[0].text;
    let told = text.contains("haft approve") || text.contains("denied");
    assert!(told, "{text}");
    let what = if text.contains("haft approve") {
        "the model reads how a person answers"
    } else {
        "the agent says no in the person's place, and the model reads it"
    };
    scene.saw("nobody", what);
}

mod a_yes_in_the_form {
    use super::*;
    for_agents! { yes: claude_code = "claude-code", codex = "codex", }
}

mod a_no_in_the_form {
    use super::*;
    for_agents! { no: claude_code = "claude-code", codex = "codex", }
}

mod always_in_the_form {
    use super::*;
    for_agents! { always: claude_code = "claude-code", codex = "codex", }
}

mod a_yes_on_the_watch_screen {
    use super::*;
    for_agents! { watched: claude_code = "claude-code", gemini = "gemini", pi = "pi", }
}

mod nobody_answers {
    use super::*;
    for_agents! { nobody:
        claude_code = "claude-code",
        codex = "codex",
        gemini = "gemini",
        pi = "pi",
    }
}
