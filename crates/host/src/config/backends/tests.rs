//! Who works where, by configuration alone; and every mistake in it, in words.

use haft_contract::{SessionId, UserId};
use haft_policy::PolicySource;

use super::*;
use crate::config::file;

const BACKENDS: &str = "[ssh.build]\ndestination = \"b.example\"\nroot = \"/srv\"\n\
                        [docker.box]\ncontainer = \"web\"\nworkspace = \"/app\"\n";

fn read(text: &str) -> Result<Backends, String> {
    let parsed = file::parse(&PolicySource::new("haft.toml", text));
    let backends = parsed.map(|file| file.backends).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })?;
    backends.check().map_err(|error| error.to_string())?;
    Ok(backends)
}

/// A principal of the line of agents, youngest first, in a session of the last of these kinds, to
/// which it narrowed itself from the first.
fn principal(line: &str, kinds: &[SessionKind]) -> Principal {
    let mut line = line.split(' ').map(|agent| AgentId::parse(agent).unwrap());
    let mut principal = Principal::local(
        UserId::parse("ada").unwrap(),
        line.next().unwrap(),
        SessionId::parse("s").unwrap(),
    );
    principal.ancestors = line.collect();
    principal.session_kind = kinds[0];
    for kind in &kinds[1..] {
        principal.narrow_session(*kind);
    }
    principal
}

#[test]
fn an_agents_back_end_comes_before_a_sessions_and_both_before_the_default() {
    let users = "[agents.builder]\nbackend = \"ssh:build\"\n[agents.here]\nbackend = \"local\"\n\
                 [sessions.dm]\nbackend = \"docker:box\"\n";
    let (main, dm) = (SessionKind::Main, SessionKind::Dm);
    let plain = "[ssh]\ndestination = \"a.example\"\nroot = \"/srv\"\n";
    for (default, text) in [("local", ""), ("ssh", plain)] {
        let backends = read(&format!("{plain}{BACKENDS}{users}").replacen(plain, text, 1)).unwrap();
        for (line, kinds, expect) in [
            ("codex", &[main][..], default),
            ("codex", &[dm], "docker:box"),
            ("codex", &[main, dm], "docker:box"),
            ("builder", &[main], "ssh:build"),
            ("builder", &[dm], "ssh:build"),
            ("here", &[dm], "local"),
            // Whoever was started by an agent with a back end stays there, whatever it calls itself.
            ("here builder", &[main], "ssh:build"),
            ("child builder", &[main, dm], "ssh:build"),
            ("builder codex", &[main], "ssh:build"),
            ("builder codex here", &[main], "local"),
        ] {
            let found = backends.of(&principal(line, kinds)).backend;
            assert_eq!(found.to_string(), expect, "{default}: {line} {kinds:?}");
        }
    }
}

#[test]
fn a_session_that_was_given_a_back_end_keeps_it_when_a_client_narrows_itself() {
    let users = "[sessions.main]\nbackend = \"docker:box\"\n[sessions.dm]\nbackend = \"local\"\n";
    let backends = read(&format!("{BACKENDS}{users}")).unwrap();
    let of = |kinds: &[SessionKind]| backends.of(&principal("x", kinds)).backend.to_string();
    assert_eq!(of(&[SessionKind::Main, SessionKind::Dm]), "docker:box");
    assert_eq!(of(&[SessionKind::Dm]), "local");
}

#[test]
fn the_reason_names_the_section_and_the_line() {
    let backends = read(&format!("{BACKENDS}[agents.a]\nbackend = \"ssh:build\"\n")).unwrap();
    let because = |agent: &str| backends.of(&principal(agent, &[SessionKind::Main])).because;
    assert_eq!(
        because("a"),
        "`backend` in [agents.a] says so (haft.toml:8)"
    );
    assert_eq!(because("b"), "nothing names another for this caller");
    assert!(!backends.may_vary_for(&principal("a", &[SessionKind::Main])));
    assert!(backends.may_vary_for(&principal("b", &[SessionKind::Main])));
}

#[test]
fn back_ends_at_one_address_have_ids_of_their_own() {
    let text = "[ssh]\ndestination = \"h\"\nroot = \"/a\"\n[ssh.b]\ndestination = \"bob@h\"\n\
                root = \"/a\"\n[ssh.c]\ndestination = \"h\"\nroot = \"/a\"\nport = 2222\n\
                [docker.h]\ncontainer = \"h\"\nworkspace = \"/a\"\n";
    let backends = read(text).unwrap();
    let ids = backends.elsewhere().map(|(name, _)| backends.id(name));
    let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
    assert_eq!(ids, ["ssh:h", "ssh:h#b", "ssh:h#c", "docker:h#h"]);
    assert_eq!(backends.default_backend().to_string(), "ssh");
    assert_eq!(backends.used().len(), 1, "nobody uses the others");
}

#[test]
fn every_mistake_names_its_file_and_key_and_what_there_is() {
    for (text, expect) in [
        (
            "[agents.x]\nbackend = \"ssh:biuld\"\n",
            "haft.toml:8: `backend` in [agents.x] is \"ssh:biuld\", but there is no [ssh.biuld]",
        ),
        (
            "[agents.x]\nbackend = \"docker:build\"\n",
            "there is no [docker.build]",
        ),
        (
            "[sessions.dm]\nbackend = \"ssh:\"\n",
            "haft.toml:8:11: `backend` in [sessions.dm] is not a back end",
        ),
        ("[agents.x]\nbackend = \"ssh\"\n", "is not a back end"),
        ("[agents.x]\nbackend = 3\n", "is not a back end"),
        (
            "[agents.x]\nbackend = \"podman:box\"\n",
            "is not a back end",
        ),
        (
            "[ssh.\"a b\"]\nroot = \"x\"\n",
            "`a b` cannot be the name of a back end",
        ),
        (
            "[ssh.root]\nroot = \"x\"\n",
            "`root` cannot be the name of a back end",
        ),
        (
            "[ssh.c]\nroot = \"/x\"\n",
            "[ssh.c] does not say where to connect",
        ),
        (
            "[ssh.c]\nhost = \"x\"\ndestination = \"h\"\nroot = \"/x\"\n",
            "unknown key `host` in [ssh.c]",
        ),
        (
            "[docker.c]\ncontainer = \"x\"\nworkspace = \"x\"\n",
            "[docker.c] does not name the workspace directory",
        ),
    ] {
        let problems = read(&format!("{BACKENDS}{text}")).unwrap_err();
        assert!(problems.contains(expect), "{text}: {problems}");
    }
    let unknown = file::parse(&PolicySource::new(
        "haft.toml",
        format!("{BACKENDS}[agents.x]\nbackend = \"ssh:x\"\n"),
    ));
    let error = unknown.unwrap().backends.check().unwrap_err();
    assert_eq!(
        error.hint(),
        "there are: \"local\", \"ssh:build\", \"docker:box\""
    );
    // Who may work where is not said for these.
    for table in ["tenants.x", "users.x", "channels.x"] {
        let text = format!("{BACKENDS}[{table}]\nbackend = \"local\"\n");
        let refused = haft_policy::CedarPolicy::load(&[PolicySource::new("haft.toml", text)]);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("unknown key"), "{refused}");
    }
}

#[test]
fn of_two_files_each_name_is_defined_once_and_your_own_says_first_who_works_where() {
    let own = read(&format!("{BACKENDS}[agents.x]\nbackend = \"ssh:build\"\n")).unwrap();
    let used = "[agents.x]\nbackend = \"local\"\n[agents.y]\nbackend = \"docker:box\"\n";
    let source = PolicySource::new("project", used);
    let mut joined = own.clone();
    joined.join(file::parse(&source).unwrap().backends).unwrap();
    joined.check().unwrap();
    let of = |agent: &str| {
        joined
            .of(&principal(agent, &[SessionKind::Main]))
            .backend
            .to_string()
    };
    assert_eq!(
        (of("x"), of("y")),
        ("ssh:build".to_owned(), "docker:box".to_owned())
    );
    let twice = joined.clone().join(read(BACKENDS).unwrap()).unwrap_err();
    assert!(
        twice.to_string().contains("two files have [ssh.build]"),
        "{twice}"
    );
}
