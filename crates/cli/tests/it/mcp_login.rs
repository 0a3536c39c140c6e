//! `haft mcp login`, through the program: against a server over HTTP that wants one.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use crate::support::{Stage, eventually, wait};

const SERVER: &str = include_str!("../../../mcp/tests/fixtures/oauth.py");

/// What every token of the fixture begins with.
const TOKEN: &str = "token-of-a-login";

/// A workspace that mounts a server which wants a login.
struct Guarded {
    stage: Stage,
    server: Child,
    folder: PathBuf,
}

impl Guarded {
    fn new() -> Self {
        let stage = Stage::bare();
        let folder = stage.home.join("server");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("oauth.py"), SERVER).unwrap();
        let mut server = Command::new("python3")
            .arg(folder.join("oauth.py"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        let mut said = BufReader::new(server.stdout.take().unwrap());
        said.read_line(&mut port).unwrap();
        let text = format!(
            "[policy]\nallow = [\"mcp__*\"]\n[[mcp.servers]]\nid = \"issues\"\n\
             url = \"http://127.0.0.1:{}/mcp\"\n",
            port.trim()
        );
        stage.write("haft.toml", text);
        stage.haft(&["trust"]).ok();
        Self {
            stage,
            server,
            folder,
        }
    }

    /// Starts logging in; gives the page to visit.
    fn begin(&self, more: &[&str]) -> (Child, String) {
        let args = [&["mcp", "login", "issues"], more].concat();
        let programs = self.stage.home.join("bin").display().to_string();
        let mut child = self
            .stage
            .command(&args)
            .env("PATH", programs + ":/usr/local/bin:/usr/bin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let page = lines
            .map_while(Result::ok)
            .find(|line| line.starts_with("http"));
        (child, page.expect("a page to log in on"))
    }

    fn logins(&self) -> Vec<PathBuf> {
        let directory = self.stage.home.join(".local/share/haft/mcp/logins");
        let entries = fs::read_dir(directory).into_iter().flatten();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .filter(|path| path.extension().is_some_and(|is| is == "json"))
            .collect()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Asks for a page and gives the head of the answer.
fn get(page: &str) -> String {
    let rest = page.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Where a page redirects to.
fn redirect_of(page: &str) -> String {
    let answer = get(page);
    let location = answer.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("location")
            .then(|| value.trim().to_owned())
    });
    location.unwrap_or_else(|| panic!("no redirect: {answer}"))
}

#[test]
fn a_login_in_the_browser_opens_the_server_until_the_logout() {
    let guarded = Guarded::new();
    let refused = guarded.stage.haft(&["mcp", "review", "issues"]).fails(1);
    assert!(refused.contains("`haft mcp login issues`"), "{refused}");
    let (mut login, page) = guarded.begin(&[]);
    let shown = get(&redirect_of(&page));
    assert!(shown.contains("You can close this page"), "{shown}");
    assert!(wait(&mut login).success());
    let said = std::io::read_to_string(login.stdout.take().unwrap()).unwrap();
    assert!(
        said.starts_with("logged in to issues with http://127.0.0.1:"),
        "{said}"
    );
    assert!(!said.contains(TOKEN));
    let [kept] = guarded.logins().try_into().unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&kept), 0o600);
    assert_eq!(mode(kept.parent().unwrap()), 0o700);
    assert!(fs::read_to_string(&kept).unwrap().contains(TOKEN));
    guarded.stage.haft(&["mcp", "review", "issues"]).ok();
    guarded
        .stage
        .haft(&["mcp", "accept", "issues", "--all"])
        .ok();
    let called = guarded.stage.haft(&["call", "mcp__issues__say"]).ok();
    assert!(called.contains("you are logged in"), "{called}");
    let log = guarded.stage.haft(&["--jsonl", "log"]).ok();
    assert!(!log.contains(TOKEN));
    let out = guarded.stage.haft(&["mcp", "logout", "issues"]).ok();
    assert_eq!(out.trim(), "issues: logged out");
    assert_eq!(guarded.logins(), Vec::<PathBuf>::new());
    let called = guarded.stage.haft(&["call", "mcp__issues__say"]).fails(1);
    assert!(called.contains("log in"), "{called}");
}

#[test]
fn the_address_can_be_pasted_where_the_browser_is_elsewhere() {
    let guarded = Guarded::new();
    let (mut login, page) = guarded.begin(&["--paste"]);
    let address = redirect_of(&page);
    writeln!(login.stdin.take().unwrap(), "{address}").unwrap();
    assert!(wait(&mut login).success());
    assert_eq!(guarded.logins().len(), 1);
}

#[test]
fn a_login_that_comes_to_nothing_says_why() {
    let guarded = Guarded::new();
    let (mut login, page) = guarded.begin(&["--paste"]);
    let other = redirect_of(&page).replace("state=", "state=x");
    writeln!(login.stdin.take().unwrap(), "{other}").unwrap();
    assert_eq!(wait(&mut login).code(), Some(1));
    let late = guarded
        .stage
        .haft(&["mcp", "login", "issues", "--wait", "1"])
        .fails(4);
    assert!(
        late.contains("nobody finished logging in within 1 s"),
        "{late}"
    );
    fs::write(guarded.folder.join("denies"), "").unwrap();
    let (mut login, page) = guarded.begin(&[]);
    get(&redirect_of(&page));
    assert_eq!(wait(&mut login).code(), Some(3));
    assert_eq!(guarded.logins(), Vec::<PathBuf>::new());
    let unknown = guarded.stage.haft(&["mcp", "login", "isues"]).fails(10);
    assert!(unknown.contains("did you mean `issues`?"), "{unknown}");
}

/// CVE-2025-6514: the page is the server's words, and goes to the browser as one argument.
#[test]
fn mc_21_a_page_in_the_words_of_a_shell_is_one_argument_of_one_program() {
    let guarded = Guarded::new();
    let words = "?a=$(touch${IFS}made);touch made|`touch made`&b='x'\"y\"&&touch&made";
    fs::write(guarded.folder.join("page"), words).unwrap();
    let opened = guarded.stage.home.join("opened");
    let program = guarded.stage.home.join("bin/xdg-open");
    fs::create_dir(program.parent().unwrap()).unwrap();
    let script =
        "#!/bin/sh\nprintf '%s\\n' $# \"$@\" >\"$HOME/part\"\nmv \"$HOME/part\" \"$HOME/opened\"\n";
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let (mut login, page) = guarded.begin(&["--open"]);
    assert!(
        page.contains("$(touch${IFS}made)"),
        "it is there as it is: {page}"
    );
    let started = eventually("a browser is started", || fs::read_to_string(&opened).ok());
    assert_eq!(started, format!("1\n{page}\n"));
    get(&redirect_of(&page));
    assert!(wait(&mut login).success());
    for folder in [&guarded.stage.work, &guarded.stage.home, &guarded.folder] {
        assert!(!folder.join("made").exists(), "{}", folder.display());
    }
}
