//! R8: a script's host and secret are its own. The script gets both, through Haft's proxy and on its
//! standard input; no other command of the session reaches the host, and the secret's value is
//! nowhere else.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};

use crate::support::{Ran, Stage, eventually, wait};

/// The value of the secret. Nothing but the script and the API may have it.
const CANARY: &str = "canary-7f3a-only-for-the-script";

/// The API: prices for whoever has the key, and a count of everybody who connected.
struct Api {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl Api {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let head: Vec<String> = lines
                    .by_ref()
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty())
                    .collect();
                let has_key = head.iter().any(|line| line.ends_with(CANARY));
                let (status, body) = if has_key {
                    ("200 OK", r#"{"symbol": "ACME", "prices": [41.5]}"#)
                } else {
                    ("403 Forbidden", "{}")
                };
                let length = body.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
            }
        });
        Self { port, connections }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Haft with the key in its own environment.
fn haft(stage: &Stage, args: &[&str]) -> Ran {
    let ended = stage
        .command(args)
        .env("STOCK_API_KEY", CANARY)
        .output()
        .unwrap();
    Ran {
        code: ended.status.code().expect("the program ended by itself"),
        stdout: String::from_utf8(ended.stdout).unwrap(),
        stderr: String::from_utf8(ended.stderr).unwrap(),
    }
}

/// Calls a tool, requires that it succeeds, and returns all that was printed.
fn call(stage: &Stage, tool: &str, input: &Value) -> String {
    let ran = haft(stage, &["call", tool, &input.to_string()]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    ran.all()
}

fn executable(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A script and its manifest, in the stage's `tools`.
fn script(stage: &Stage, name: &str, manifest: &str, program: &str) {
    let head = format!(
        "name = \"{name}\"\ndescription = \"A script of the test.\"\nprogram = \"{name}\"\n"
    );
    stage.write(&format!("tools/{name}.toml"), head + manifest);
    stage.write(&format!("tools/{name}"), program);
    executable(&stage.work.join("tools").join(name));
    settle_modes(stage);
}

fn settle_modes(stage: &Stage) {
    let tools = stage.work.join("tools");
    fs::set_permissions(&tools, fs::Permissions::from_mode(0o755)).unwrap();
    for entry in fs::read_dir(&tools).unwrap() {
        let path = entry.unwrap().path();
        let mode = if path.extension().is_some() {
            0o644
        } else {
            0o755
        };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// The example, with the port of this API.
fn example(api: &Api) -> Stage {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/get-stock-price");
    let here = |text: String| text.replace("8642", &api.port.to_string());
    let stage = Stage::bare();
    for file in ["tools/get_stock_price", "tools/get_stock_price.toml"] {
        stage.write(file, here(fs::read_to_string(folder.join(file)).unwrap()));
    }
    let config = here(fs::read_to_string(folder.join("haft.toml")).unwrap());
    stage.write("haft.toml", config);
    settle_modes(&stage);
    stage
}

/// Every file below a directory that has the canary in it.
fn files_with_canary(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            if kind.is_dir() {
                left.push(path);
            } else if kind.is_file() {
                let bytes = fs::read(&path).unwrap();
                let canary = CANARY.as_bytes();
                if bytes.windows(canary.len()).any(|part| part == canary) {
                    found.push(path.display().to_string());
                }
            }
        }
    }
    found
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn r8_the_example_reaches_its_api_with_its_key() {
    let api = Api::start();
    let stage = example(&api);
    let trusted = haft(&stage, &["trust"]).all();
    for said in [
        format!("127.0.0.1:{} for `get_stock_price`", api.port),
        "`get_stock_price` gets env:STOCK_API_KEY as STOCK_API_KEY".to_owned(),
        format!(
            "api = \"http://127.0.0.1:{}\" for `get_stock_price`",
            api.port
        ),
    ] {
        assert!(trusted.contains(&said), "{said} in {trusted}");
    }
    // What an agent can write beside a trusted script is not loaded by it.
    for module in ["tools/json.py", "tools/urllib.py", "json.py"] {
        stage.write(module, "raise SystemExit('loaded from the workspace')\n");
    }
    let input = json!({"symbol": "ACME", "action": "now"});
    let printed = call(&stage, "get_stock_price", &input);
    assert!(printed.contains("41.5"), "{printed}");
    // The name that the manifest adds leads to the same tool.
    call(&stage, "share_price", &input);
    assert_eq!(api.connections(), 2);
    assert_eq!(files_with_canary(&stage.home), [] as [String; 0]);

    // What is fixed is neither shown to a model nor taken from one, and is part of what was planned.
    let shown = haft(&stage, &["tools", "get_stock_price", "--json"]).ok();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let properties = &shown["input_schema"]["properties"];
    assert!(properties.get("symbol").is_some(), "{shown}");
    assert_eq!(properties.get("api"), None, "{shown}");
    let evil = json!({"symbol": "ACME", "action": "now", "api": "http://127.0.0.1:9"});
    let refused = haft(&stage, &["call", "get_stock_price", &evil.to_string()]);
    assert_ne!(refused.code, 0);
    assert!(
        refused.all().contains("`api` is not an argument"),
        "{}",
        refused.all()
    );
    let secrets = json!({"symbol": "ACME", "action": "now", "secrets": {"STOCK_API_KEY": "mine"}});
    let refused = haft(&stage, &["call", "get_stock_price", &secrets.to_string()]);
    assert_ne!(refused.code, 0);
    assert_eq!(api.connections(), 2);
    let log: Value = serde_json::from_str(&haft(&stage, &["log", "--json"]).ok()).unwrap();
    let planned = log.to_string();
    assert!(!planned.contains(CANARY), "{planned}");
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn r8_a_scripts_secret_and_host_are_its_own() {
    let api = Api::start();
    let stage = example(&api);
    // Another script, with hosts of its own, and one with none; and commands with a way out.
    let other = Api::start();
    let probe = format!(
        "#!/bin/sh\ncat >/dev/null\nenv\ncat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'\n\
         curl -sS --max-time 20 http://127.0.0.1:{port}/ 2>&1\n\
         curl -sS --max-time 20 --noproxy '' -x http://127.0.0.1:8118 http://127.0.0.1:{port}/ 2>&1\n\
         curl -sS --max-time 20 http://127.0.0.1:{other}/ 2>&1\nexit 0\n",
        port = api.port,
        other = other.port,
    );
    script(
        &stage,
        "nosy",
        &format!("hosts = [\"127.0.0.1:{}\"]\n", other.port),
        &probe,
    );
    script(&stage, "plain", "", &probe);
    let config = stage.read("haft.toml").replace(
        "allow = [\"get_stock_price\"]",
        "allow = [\"get_stock_price\", \"nosy\", \"plain\", \"bash\"]",
    );
    let more = format!(
        "\n[scripts]\nfolders = [\"tools\"]\n[sandbox.network]\nallow = [\"127.0.0.1:{}\"]\n",
        other.port
    );
    // The folder offers the script under its own name already.
    let (before, _) = config.split_once("[[tools]]").unwrap();
    stage.write("haft.toml", before.to_owned() + &more);
    let api_of_its_own = json!({
        "symbol": "ACME", "action": "now", "api": format!("http://127.0.0.1:{}", api.port),
    });
    haft(&stage, &["trust"]).ok();
    let printed = call(&stage, "get_stock_price", &api_of_its_own);
    assert!(printed.contains("41.5"), "{printed}");
    assert_eq!(api.connections(), 1);

    // They reach the host they may reach, so that they do not reach this one for another reason. Each
    // is told where its hosts are named.
    let to_allow = |place: &str| format!("add `127.0.0.1:{}` to {place} to allow it", api.port);
    let own = to_allow("`hosts` in the script's manifest");
    let settings = to_allow("`sandbox.network.allow` in haft.toml");
    for (tool, input, named_in) in [
        ("nosy", json!({}), &own),
        ("plain", json!({}), &settings),
        (
            "bash",
            json!({"command": "sh tools/plain </dev/null"}),
            &settings,
        ),
    ] {
        let before = other.connections();
        let printed = call(&stage, tool, &input);
        assert!(!printed.contains(CANARY), "{tool}: {printed}");
        assert!(!printed.contains("41.5"), "{tool}: {printed}");
        assert!(
            printed.contains("haft refused to connect"),
            "{tool}: {printed}"
        );
        assert!(printed.contains(named_in), "{tool}: {printed}");
        assert_eq!(other.connections(), before + 1, "{tool}: {printed}");
        assert_eq!(
            api.connections(),
            1,
            "{tool} reached the script's host: {printed}"
        );
    }
    // And the script does not reach theirs, though every other command may.
    let theirs = json!({
        "symbol": "ACME", "action": "now", "api": format!("http://127.0.0.1:{}", other.port),
    });
    let before = other.connections();
    let refused = haft(&stage, &["call", "get_stock_price", &theirs.to_string()]);
    assert_ne!(refused.code, 0);
    assert_eq!(other.connections(), before);
    for place in [&stage.home, &stage.work] {
        assert_eq!(files_with_canary(place), [] as [String; 0]);
    }
}

/// A script that says its secret wherever it can, is looked at while it runs, and then in every
/// place where its call left something.
#[test]
#[ignore = "ci: needs bubblewrap"]
fn r8_a_secret_is_taken_out_of_everything_a_script_says() {
    let stage = Stage::bare();
    stage.write(
        "haft.toml",
        "[policy]\nallow = [\"blurt\", \"fail\", \"bash\"]\n[scripts]\nfolders = [\"tools\"]\n",
    );
    let manifest = "[secrets]\nKEY = \"env:STOCK_API_KEY\"\n";
    let say = "#!/usr/bin/python3\nimport json, os, sys, time\n\
         key = json.load(sys.stdin)['secrets']['KEY']\n\
         assert key not in repr(dict(os.environ)), 'in the environment'\n\
         os.write(3, json.dumps({'step': 1, 'status': 'with ' + key}).encode() + b'\\n')\n\
         sys.stderr.write('error: ' + key[:9]); sys.stderr.flush()\n\
         time.sleep(0.1)\n\
         sys.stderr.write(key[9:] + '\\n'); sys.stderr.flush()\n";
    let blurt =
        format!("{say}print(json.dumps({{'escaped': key, 'hex': key.encode().hex(), key: 1}}))\n");
    script(&stage, "blurt", manifest, &blurt);
    script(
        &stage,
        "fail",
        manifest,
        &format!("{say}print(key * 20000)\nsys.exit(key)\n"),
    );
    haft(&stage, &["trust"]).ok();
    let hex = CANARY
        .bytes()
        .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    let clean = |what: &str, text: &str| {
        assert!(!text.contains(CANARY), "{what}: {text}");
        assert!(!text.contains(&hex), "{what}: {text}");
    };
    let printed = call(&stage, "blurt", &json!({}));
    clean("what was printed", &printed);
    assert!(printed.contains("[redacted]"), "{printed}");
    for args in [
        &["call", "blurt", "--json"][..],
        &["call", "blurt", "--jsonl"],
        &["call", "fail", "--json"],
        &["show", "last"],
        &["show", "last", "--json"],
        &["log", "--json"],
        &["log", "export"],
        &["explain", "last"],
        &["status", "--json"],
        &["tools", "blurt", "--json"],
        &["config", "show"],
    ] {
        let ran = haft(&stage, args);
        clean(&args.join(" "), &ran.all());
    }
    // The record, its artifacts, and everything else that is kept.
    for place in [&stage.home, &stage.work] {
        assert_eq!(files_with_canary(place), [] as [String; 0]);
    }
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn r8_a_secret_that_cannot_be_had_or_kept_stops_the_script() {
    let stage = Stage::bare();
    stage.write(
        "haft.toml",
        "[policy]\nallow = [\"touch\"]\n[scripts]\nfolders = [\"tools\"]\n",
    );
    let inside = stage.work.join("key");
    fs::write(&inside, CANARY).unwrap();
    let program = "#!/bin/sh\ntouch ran\n";
    for (reference, why) in [
        (
            "env:NO_SUCH_KEY".to_owned(),
            "the variable `NO_SUCH_KEY` is not set",
        ),
        (
            format!("file:{}", inside.display()),
            "where every command can read it",
        ),
        ("file:/nonexistent/key".to_owned(), "there is no file"),
    ] {
        script(
            &stage,
            "touch",
            &format!("secrets.KEY = \"{reference}\"\n"),
            program,
        );
        haft(&stage, &["trust"]).ok();
        let ran = haft(&stage, &["call", "touch"]);
        assert_ne!(ran.code, 0);
        assert!(ran.all().contains(why), "{}", ran.all());
        assert!(!ran.all().contains(CANARY), "{}", ran.all());
    }
    script(&stage, "touch", "secrets.KEY = \"env:SHORT\"\n", program);
    haft(&stage, &["trust"]).ok();
    let short = stage
        .command(&["call", "touch"])
        .env("SHORT", "abc")
        .output()
        .unwrap();
    assert!(!short.status.success());
    assert!(!stage.exists("ran"));
}

/// The person who is asked sees the host, and never the secret.
#[test]
#[ignore = "ci: needs bubblewrap"]
fn r8_a_scripts_host_is_asked_about_and_can_be_denied() {
    let api = Api::start();
    let stage = example(&api);
    let key = stage.home.join("key");
    fs::write(&key, CANARY).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let manifest = stage.read("tools/get_stock_price.toml");
    let from_file = format!("file:{}", key.display());
    stage.write(
        "tools/get_stock_price.toml",
        manifest.replace("env:STOCK_API_KEY", &from_file),
    );
    let (config, rules) = (stage.read("haft.toml"), "allow = [\"get_stock_price\"]");
    let input = json!({"symbol": "ACME", "action": "now"}).to_string();
    let args = ["call", "get_stock_price", &input];

    let denied = "deny = [\"get_stock_price(domain:127.0.0.1)\"]";
    stage.write("haft.toml", config.replace(rules, denied));
    haft(&stage, &["trust"]).ok();
    let ran = haft(&stage, &args);
    assert_eq!(ran.code, 3, "{}", ran.all());
    assert_eq!(api.connections(), 0);

    stage.write("haft.toml", config.replace(rules, "allow = []"));
    haft(&stage, &["trust", "--yes"]).ok();
    let mut terminal = stage.terminal(&args);
    let question = terminal.until("[y/N]");
    let host = format!("127.0.0.1:{}", api.port);
    assert!(question.contains(&host), "{question}");
    assert_eq!(api.connections(), 0, "nothing is reached before the answer");
    terminal.types("y\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("41.5"), "{screen}");
    assert!(!screen.contains(CANARY), "{screen}");
    assert_eq!(api.connections(), 1);
    let kept = [key.display().to_string()];
    assert_eq!(files_with_canary(&stage.home), kept);
}

/// While a script holds its secret, even in the arguments and the environment of a child of its own,
/// another command sees nothing of it.
#[test]
#[ignore = "ci: needs bubblewrap"]
fn r8_a_running_scripts_secret_is_in_no_others_proc() {
    let stage = Stage::bare();
    stage.write(
        "haft.toml",
        "[policy]\nallow = [\"holder\", \"bash\"]\n[scripts]\nfolders = [\"tools\"]\n",
    );
    let manifest = "timeout_ms = 600000\n[secrets]\nKEY = \"env:STOCK_API_KEY\"\n";
    let program = "#!/usr/bin/python3\nimport json, subprocess, sys\n\
         key = json.load(sys.stdin)['secrets']['KEY']\n\
         wait = 'touch holding; while [ ! -e go ]; do sleep 0.05; done'\n\
         subprocess.run(['sh', '-c', wait, key], env={'PATH': '/usr/bin:/bin', 'KEY': key})\n";
    script(&stage, "holder", manifest, program);
    haft(&stage, &["trust"]).ok();
    let mut holder = stage
        .command(&["call", "holder"])
        .env("STOCK_API_KEY", CANARY)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    eventually("the script holds its secret", || {
        stage.exists("holding").then_some(())
    });
    let look = "for file in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do tr '\\0' '\\n' < $file; done; env; echo looked";
    let printed = call(&stage, "bash", &json!({ "command": look }));
    assert!(printed.contains("looked"), "{printed}");
    assert!(!printed.contains(CANARY), "{printed}");
    stage.write("go", "");
    assert!(wait(&mut holder).success());
}
