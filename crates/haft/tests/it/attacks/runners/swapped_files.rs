//! AP-16 to AP-18: the program that a command starts, or what it reads, is swapped between the question
//! and the yes, wherever its words name it. The two contents are of one length, so that only the content tells them apart.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use haft::prelude::*;

use super::desk::{Desk, allowed};
use crate::attacks::{
    attempt::{Verdict, check},
    corpus::Case,
    scene::Scene,
};

/// A command, the file that is swapped, and what it holds, with `WORD` for what it does.
type Swapped = (&'static str, &'static str, &'static str);

const SHELL: &str = "#!/bin/sh\ntouch WORD\n";
const PYTHON: &str = "open('WORD', 'w').close()\n";
const NODE: &str = "require('fs').writeFileSync('WORD', '')\n";

/// Programs that are started by name; each must be void.
const PROGRAMS: [Swapped; 3] = [
    ("./deploy.sh now", "deploy.sh", SHELL),
    ("bash deploy.sh", "deploy.sh", SHELL),
    ("cd . && ./deploy.sh", "deploy.sh", SHELL),
];

/// Each must be void.
const BOUND: [Swapped; 22] = [
    ("bash -o pipefail s", "s", SHELL),
    ("bash -O extglob s", "s", SHELL),
    ("bash +e s", "s", SHELL),
    ("bash < s", "s", SHELL),
    ("cat s | bash", "s", SHELL),
    ("env -C link ./s", "d/s", SHELL),
    ("env -C d ./s", "d/s", SHELL),
    ("env --chdir=d ./s", "d/s", SHELL),
    ("python3 -W ignore s.py", "s.py", PYTHON),
    ("python3 -X dev s.py", "s.py", PYTHON),
    ("python3 pkg", "pkg/__main__.py", PYTHON),
    ("perl -I lib s.pl", "s.pl", "open(my $f, '>', 'WORD');\n"),
    ("node -r ./m.js e.js", "m.js", NODE),
    ("node --require=./m.js e.js", "m.js", NODE),
    (
        "awk -f s.awk /dev/null",
        "s.awk",
        "BEGIN { printf \"\" > \"WORD\" }\n",
    ),
    (
        "awk -fs.awk /dev/null",
        "s.awk",
        "BEGIN { printf \"\" > \"WORD\" }\n",
    ),
    ("sed -n -f s.sed in", "s.sed", "w WORD\n"),
    ("jq -n -f s.jq", "s.jq", "\"WORD\"\n"),
    ("make -f s.mk", "s.mk", "all:\n\ttouch WORD\n"),
    ("make --file=s.mk", "s.mk", "all:\n\ttouch WORD\n"),
    ("sqlite3 db < q", "q", ".shell touch WORD\n"),
    ("cp in out && cat in", "in", "WORD\n"),
];

/// Of each the question must say that it is not bound.
const UNBOUND: [Swapped; 3] = [
    ("find . -name s -exec bash {} \\;", "s", SHELL),
    ("bash ?", "s", SHELL),
    ("F=s; bash $F", "s", SHELL),
];

fn write(workspace: &Path, path: &str, text: &str, word: &str) {
    let path = workspace.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text.replace("WORD", word)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn prepare(workspace: &Path, (_, path, text): Swapped) {
    for other in ["in", "e.js"] {
        write(workspace, other, "\n", "");
    }
    fs::create_dir_all(workspace.join("d")).unwrap();
    std::os::unix::fs::symlink("d", workspace.join("link")).unwrap();
    write(workspace, path, text, "good");
}

/// What the question says of every command.
fn said(form: &Value) -> String {
    form["preview"].to_string()
}

/// Asks about a command, swaps its file, and says yes: the approval is void, and nothing runs.
async fn void(case: &Case, swapped @ (command, path, text): Swapped) -> Result<(), String> {
    let desk = Desk::new(case).await;
    let workspace = &desk.scene.workspace;
    prepare(workspace, swapped);
    let call = desk.begin("bash", json!({ "command": command }));
    let asked = desk.open(1).await.remove(0);
    write(workspace, path, text, "evil");
    desk.approve(&asked).await;
    let outcome = call.await.unwrap();
    let void = outcome.model_text().contains("the approval is void");
    let evil = workspace.join("evil").exists();
    desk.haft.close().await.unwrap();
    check(void && !evil, || outcome.model_text())
}

/// The same with a file that stays as it was: it runs.
async fn runs(case: &Case, swapped @ (command, ..): Swapped) -> Result<(), String> {
    let desk = Desk::new(case).await;
    prepare(&desk.scene.workspace, swapped);
    let call = desk.begin("bash", json!({ "command": command }));
    let asked = desk.open(1).await.remove(0);
    desk.approve(&asked).await;
    let outcome = call.await.unwrap();
    let made = desk.scene.workspace.join("good").exists();
    desk.haft.close().await.unwrap();
    check(made, || outcome.model_text())
}

/// The control: under a rule for its name the swapped file runs.
async fn runs_by_rule(case: &Case, swapped @ (command, path, text): Swapped) -> Result<(), String> {
    let free = allowed(Scene::in_memory(case)).await;
    prepare(&free.scene.workspace, swapped);
    write(&free.scene.workspace, path, text, "evil");
    let call = free.begin("bash", json!({ "command": command }));
    call.await.unwrap();
    let evil = free.scene.workspace.join("evil").exists();
    free.haft.close().await.unwrap();
    check(evil, || "it did not run".to_owned())
}

/// AP-16: the program that was approved is the program that runs, or nothing does.
pub(super) async fn program(case: &Case, verdict: &mut Verdict) {
    for program in PROGRAMS {
        verdict.attempt(program.0, void(case, program).await);
    }
    verdict.twin("the approved one", runs(case, PROGRAMS[0]).await);
    let control = runs_by_rule(case, PROGRAMS[0]).await;
    verdict.control("a rule for its name", control);
}

/// AP-17: so is every file that the words of a command name.
pub(super) async fn named(case: &Case, verdict: &mut Verdict) {
    for swapped in BOUND {
        verdict.attempt(swapped.0, void(case, swapped).await);
    }
    for swapped @ (command, ..) in UNBOUND {
        let desk = Desk::new(case).await;
        prepare(&desk.scene.workspace, swapped);
        let call = desk.begin("bash", json!({ "command": command }));
        let asked = desk.open(1).await.remove(0);
        let form = asked.form.clone().unwrap();
        let told = said(&form).contains("known only when it runs");
        verdict.attempt(command, check(told, || said(&form)));
        call.abort();
        let _ = call.await;
        desk.haft.close().await.unwrap();
    }
    let mut good = Ok(());
    for swapped in BOUND.into_iter().take(3) {
        good = good.and(runs(case, swapped).await);
    }
    verdict.twin("the approved ones", good);
    let control = runs_by_rule(case, BOUND[0]).await;
    verdict.control("a rule for its name", control);
}

/// AP-18: a command that names more files than can be bound cannot be approved.
pub(super) async fn many(case: &Case, verdict: &mut Verdict) {
    const MANY: usize = 300;
    let ask = async |files: usize| {
        let desk = Desk::new(case).await;
        for number in 0..MANY {
            write(&desk.scene.workspace, &format!("f{number}"), "x", "");
        }
        let names: Vec<String> = (0..files).map(|number| format!("f{number}")).collect();
        let call = desk.begin(
            "bash",
            json!({ "command": format!("cksum {}", names.join(" ")) }),
        );
        (desk, call)
    };
    let (desk, call) = ask(MANY).await;
    let outcome = call.await.unwrap();
    let refused =
        outcome.terminal == Terminal::Denied && outcome.model_text().contains("256 files");
    verdict.attempt("300 files", check(refused, || outcome.model_text()));
    desk.haft.close().await.unwrap();

    let (desk, call) = ask(50).await;
    let asked = desk.open(1).await.remove(0);
    fs::write(desk.scene.workspace.join("f49"), "y").unwrap();
    desk.approve(&asked).await;
    let outcome = call.await.unwrap();
    let void = outcome.model_text().contains("the approval is void");
    verdict.attempt("one of 50 changed", check(void, || outcome.model_text()));
    desk.haft.close().await.unwrap();

    let (desk, call) = ask(50).await;
    let asked = desk.open(1).await.remove(0);
    fs::write(desk.scene.workspace.join("f60"), "y").unwrap();
    desk.approve(&asked).await;
    let outcome = call.await.unwrap();
    verdict.twin(
        "another one changed",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    desk.haft.close().await.unwrap();
}
