//! Runs `attacks/ss.toml`: every target in every way a program can ask for it, the controls without
//! the proxy, and the benign twins. In a network namespace of its own every address is this
//! machine's, so a control really arrives, and no packet leaves.

use std::{
    env,
    fmt::Write as _,
    io::{Read, Write},
    net::{IpAddr, TcpStream},
    process::Command,
    sync::Arc,
    time::Duration,
};

use haft_contract::{
    egress::Host,
    ops::{Layer, Refusal},
};
use haft_egress::{
    Admission, AdmissionScope, ClientOptions, EgressProxy, HttpClient, HttpRequest, OwnHosts,
    ProxyOptions, SETTING,
};
use http::Method;
use serde::Deserialize;
use url::Url;

use crate::{
    Names, Script,
    ask::{self, Answer, Shown, Way, split},
    rules,
    server::{CANARY, Server},
    web,
};

const CORPUS: &str = include_str!("../../../../attacks/ss.toml");

/// The cases that are due here.
const CASES: u32 = 20;

/// Cases of the group that are about other ways out, and name the tests that show them.
const ELSEWHERE: [&str; 5] = ["SS-21", "SS-22", "SS-23", "SS-24", "SS-25"];

/// Every port named in the corpus.
const PORTS: [u16; 8] = [80, 443, 21, 22, 25, 70, 6379, 8080];

/// Tells the test binary that it runs in its own network.
const INSIDE: &str = "HAFT_TEST_OWN_NETWORK";

#[derive(Deserialize)]
struct Corpus {
    case: Vec<Case>,
}

/// What concerns the proxy in a case; its other words are for readers.
#[derive(Deserialize)]
struct Case {
    id: String,
    title: String,
    proxy: Option<Proxied>,
    runner: Option<String>,
    #[serde(default)]
    see: Vec<String>,
}

/// A case in the words of `attacks/README.md`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Proxied {
    allow: Vec<String>,
    #[serde(default)]
    names: Names,
    #[serde(default)]
    denied: Vec<String>,
    #[serde(default)]
    says: String,
    control: Vec<String>,
    passed: Vec<String>,
    #[serde(default)]
    passed_rules: Vec<String>,
    passed_names: Option<Names>,
    #[serde(default)]
    raw: Vec<Raw>,
}

/// Something said to the proxy as it is; exactly one of the first four.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    send: Option<String>,
    socks: Option<String>,
    tunnel: Option<String>,
    socks_tunnel: Option<String>,
    inside: Option<String>,
    hello: Option<String>,
    #[serde(default)]
    hidden: bool,
    says: String,
}

#[derive(Default)]
struct Tally {
    attempts: usize,
    controls: usize,
    twins: usize,
    faults: Vec<String>,
}

impl Tally {
    fn note(&mut self, id: &str, what: &str, result: Result<(), String>) {
        if let Err(fault) = result {
            self.faults.push(format!("{id} {what}: {fault}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_01_to_ss_18_through_the_proxy() {
    if !is_in_own_network() {
        return in_own_network("corpus::ss_01_to_ss_18_through_the_proxy");
    }
    let corpus: Corpus = toml::from_str(CORPUS).unwrap();
    let ids: Vec<&str> = corpus.case.iter().map(|case| case.id.as_str()).collect();
    let here = (1..=CASES).map(|number| format!("SS-{number:02}"));
    let expect: Vec<String> = here.chain(ELSEWHERE.map(str::to_owned)).collect();
    assert_eq!(ids, expect);

    let server = Server::everywhere(&PORTS);
    let mut total = Tally::default();
    for case in &corpus.case {
        let Some(proxied) = &case.proxy else {
            assert!(!case.see.is_empty(), "{}", case.id);
            if ELSEWHERE.contains(&case.id.as_str()) {
                continue;
            }
            assert_eq!(
                case.runner.as_deref(),
                Some("past_the_proxy"),
                "{}",
                case.id
            );
            continue;
        };
        let mut tally = run(case, proxied, &server);
        if case.runner.as_deref() == Some("redirects") {
            redirects(case, proxied, &server, &mut tally);
        }
        println!(
            "{:6} {} attempts  {} controls  {} twins  {} faults  {}",
            case.id,
            tally.attempts,
            tally.controls,
            tally.twins,
            tally.faults.len(),
            case.title
        );
        total.attempts += tally.attempts;
        total.controls += tally.controls;
        total.twins += tally.twins;
        total.faults.append(&mut tally.faults);
    }
    println!(
        "SS: {} faults in {} attempts, {} controls, {} benign twins",
        total.faults.len(),
        total.attempts,
        total.controls,
        total.twins
    );
    assert!(total.faults.is_empty(), "{}", total.faults.join("\n"));
    assert!(total.attempts > 300 && total.controls > 60 && total.twins > 60);
}

/// The same admission stands before the HTTP client that everything but sandboxes uses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_01_to_ss_18_through_the_http_client() {
    if !is_in_own_network() {
        return in_own_network("corpus::ss_01_to_ss_18_through_the_http_client");
    }
    let corpus: Corpus = toml::from_str(CORPUS).unwrap();
    let server = Server::everywhere(&PORTS);
    let mut total = Tally::default();
    for case in &corpus.case {
        let Some(proxied) = &case.proxy else {
            continue;
        };
        let by_rules = AdmissionScope::Rules(rules(&proxied.allow, &[]));
        // What no rule can open is not open to a stranger's word either.
        let strangers = match case.id.as_str() {
            "SS-01" | "SS-02" => Some(AdmissionScope::Public(OwnHosts::default())),
            _ => None,
        };
        for target in &proxied.denied {
            for reach in [Some(by_rules.clone()), strangers.clone()]
                .into_iter()
                .flatten()
            {
                total.attempts += 1;
                let answer = fetch(reach, &proxied.names, target).await;
                let judged = match answer {
                    Ok(body) => Err(format!("it was not refused: {body}")),
                    Err(_) => nobody_came(&server, split(target).1),
                };
                total.note(&case.id, target, judged);
            }
        }
        let allow = match proxied.passed_rules.as_slice() {
            [] => &proxied.allow,
            rules => rules,
        };
        let names = proxied.passed_names.as_ref().unwrap_or(&proxied.names);
        for target in &proxied.passed {
            total.twins += 1;
            let answer = fetch(AdmissionScope::Rules(rules(allow, &[])), names, target).await;
            let judged = match answer {
                Ok(body) if body.contains(CANARY) => Ok(()),
                other => Err(format!("{other:?}")),
            };
            total.note(&case.id, &format!("twin {target}"), judged);
            server.visits(split(target).1.parse().unwrap_or(80));
        }
    }
    println!(
        "SS: {} faults in {} attempts, {} benign twins",
        total.faults.len(),
        total.attempts,
        total.twins
    );
    assert!(total.faults.is_empty(), "{}", total.faults.join("\n"));
    assert!(total.attempts > 100 && total.twins > 20);
}

/// And before the tool that fetches pages: rules about hosts must allow it, and its address must be
/// public.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_01_to_ss_18_through_web_fetch() {
    if !is_in_own_network() {
        return in_own_network("corpus::ss_01_to_ss_18_through_web_fetch");
    }
    let corpus: Corpus = toml::from_str(CORPUS).unwrap();
    let server = Server::everywhere(&PORTS);
    let mut total = Tally::default();
    for case in &corpus.case {
        let Some(proxied) = &case.proxy else {
            continue;
        };
        let allowed = AdmissionScope::Rules(rules(&proxied.allow, &[]));
        let public = AdmissionScope::Public(OwnHosts::default());
        for target in &proxied.control {
            total.controls += 1;
            let arrived = arrives(target, &server);
            total.note(&case.id, &format!("control {target}"), arrived);
        }
        for target in &proxied.denied {
            total.attempts += 1;
            let mut judged = Err("it was not refused".to_owned());
            for reach in [&public, &allowed] {
                let script = Script::new(&proxied.names);
                let fetched = web::fetched(reach.clone(), script.clone(), target).await;
                let came = nobody_came(&server, split(target).1);
                if fetched.is_err() {
                    judged = came;
                    if script.lookups() > 1 {
                        judged = Err(format!("{} lookups", script.lookups()));
                    }
                    break;
                }
            }
            total.note(&case.id, target, judged);
        }
        let allow = match proxied.passed_rules.as_slice() {
            [] => &proxied.allow,
            rules => rules,
        };
        let names = proxied.passed_names.as_ref().unwrap_or(&proxied.names);
        for target in proxied.passed.iter().filter(|target| is_web(target)) {
            total.twins += 1;
            let reach = AdmissionScope::Rules(rules(allow, &[]));
            let judged = match web::fetched(reach, Script::new(names), target).await {
                Ok(text) if text.contains(CANARY) => Ok(()),
                other => Err(format!("{other:?}")),
            };
            total.note(&case.id, &format!("twin {target}"), judged);
            server.visits(split(target).1.parse().unwrap_or(80));
        }
    }
    println!(
        "SS through web_fetch: {} faults in {} attempts, {} controls, {} benign twins",
        total.faults.len(),
        total.attempts,
        total.controls,
        total.twins
    );
    assert!(total.faults.is_empty(), "{}", total.faults.join("\n"));
    assert!(total.attempts > 100 && total.controls > 60 && total.twins > 15);
}

/// Whether a target is on a port that pages are fetched from.
fn is_web(target: &str) -> bool {
    ["80", "443", "8080", "8443"].contains(&split(target).1)
}

/// What the HTTP client gets from a target.
async fn fetch(reach: AdmissionScope, names: &Names, target: &str) -> Result<String, String> {
    // An address reads `0x7f.1` as 127.0.0.1; tools name a host, which is not read like that.
    Host::parse(split(target).0).map_err(|error| error.to_string())?;
    let url = Url::parse(&format!("http://{target}/")).map_err(|error| error.to_string())?;
    let script = Script::new(names);
    let admission = Admission::new(reach, script, Duration::from_secs(5));
    let client = HttpClient::new(Arc::new(admission), ClientOptions::default());
    let request = HttpRequest::new(Method::GET, url);
    let mut answer = client.send(request).await.map_err(|e| e.to_string())?;
    let body = answer.body(1 << 16).await.map_err(|e| e.to_string())?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

fn run(case: &Case, proxied: &Proxied, server: &Server) -> Tally {
    let mut tally = Tally::default();
    let id = &case.id;
    for target in &proxied.control {
        tally.controls += 1;
        tally.note(id, &format!("control {target}"), arrives(target, server));
    }
    for target in &proxied.denied {
        for way in Way::ALL.into_iter().filter(|way| way.can_say(target)) {
            tally.attempts += 1;
            let stage = Stage::new(&proxied.allow, &proxied.names);
            let answer = ask::ask(stage.proxy.socket(), way, target);
            let judged = stage.refused(&answer, &proxied.says).and_then(|refusal| {
                let (_, port) = split(target);
                nobody_came(server, port)?;
                names_target(&refusal, target)
            });
            tally.note(id, &format!("{way:?} {target}"), judged);
        }
    }
    for raw in &proxied.raw {
        tally.attempts += 1;
        let stage = Stage::new(&proxied.allow, &proxied.names);
        let answer = say(raw, &stage);
        let judged = stage.refused(&answer, &raw.says).and_then(|_| {
            let visits = PORTS.iter().flat_map(|port| server.visits(*port));
            match visits.map(|visit| visit.said).find(|said| !said.is_empty()) {
                Some(said) => Err(format!("the server was told {}", said.escape_ascii())),
                None => Ok(()),
            }
        });
        tally.note(id, &format!("{raw:?}"), judged);
    }
    let rules = match proxied.passed_rules.as_slice() {
        [] => &proxied.allow,
        rules => rules,
    };
    let names = proxied.passed_names.as_ref().unwrap_or(&proxied.names);
    for target in &proxied.passed {
        for way in Way::ALL.into_iter().filter(|way| way.can_say(target)) {
            tally.twins += 1;
            let stage = Stage::new(rules, names);
            let answer = ask::ask(stage.proxy.socket(), way, target);
            let judged = stage.passed(&answer, server, target, names);
            tally.note(id, &format!("twin {way:?} {target}"), judged);
        }
    }
    tally
}

/// A proxy and a resolver for one question.
struct Stage {
    proxy: EgressProxy,
    script: Arc<Script>,
}

impl Stage {
    fn new(allow: &[String], names: &Names) -> Self {
        let script = Script::new(names);
        let options = ProxyOptions {
            resolver: Arc::clone(&script) as _,
            ..ProxyOptions::default()
        };
        Self {
            proxy: EgressProxy::start(rules(allow, &[]), &options).unwrap(),
            script,
        }
    }

    /// The program was refused, the refusal is kept, and it says why.
    fn refused(&self, answer: &Answer, says: &str) -> Result<Refusal, String> {
        let Answer::Refused(text) = answer else {
            return Err(format!("it was not refused: {answer:?}"));
        };
        let refusals = self.proxy.refusals();
        let [refusal] = refusals.as_slice() else {
            return Err(format!("{} refusals are kept", refusals.len()));
        };
        if refusal.layer != Layer::Egress || !refusal.why.contains(says) {
            return Err(format!("the refusal says {refusal:?}"));
        }
        if !text.is_empty() && !text.contains(&refusal.why) {
            return Err(format!("the program was told {text}"));
        }
        if self.script.lookups() > 1 {
            return Err(format!("{} lookups", self.script.lookups()));
        }
        Ok(refusal.clone())
    }

    /// The program got the page, from an address that was looked up.
    fn passed(
        &self,
        answer: &Answer,
        server: &Server,
        target: &str,
        names: &Names,
    ) -> Result<(), String> {
        match answer {
            Answer::Passed(text) if text.contains(CANARY) => {}
            other => return Err(format!("{other:?} {:?}", self.proxy.refusals())),
        }
        let (host, port) = split(target);
        let visits = server.visits(port.parse().unwrap());
        let name = host.to_ascii_lowercase();
        let first = names.get(name.trim_end_matches('.'));
        let expect = match first {
            Some(answers) => answers[0].clone(),
            None => vec![host.parse::<IpAddr>().unwrap()],
        };
        let [visit] = visits.as_slice() else {
            return Err(format!("{} visits", visits.len()));
        };
        if !expect.contains(&visit.to.to_canonical()) {
            return Err(format!("it went to {}", visit.to));
        }
        if self.script.lookups() > 1 || !self.proxy.refusals().is_empty() {
            return Err("it was looked up again or refused".to_owned());
        }
        Ok(())
    }
}

/// The refusal names the host that was asked for.
fn names_target(refusal: &Refusal, target: &str) -> Result<(), String> {
    let told = format!("{} {}", refusal.what, refusal.why).to_ascii_lowercase();
    let (host, _) = split(target);
    let readable = match host.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => host.trim_end_matches('.').to_ascii_lowercase(),
    };
    let settable = refusal.why.contains(SETTING)
        || refusal.why.contains("no setting")
        || refusal.why.contains("not a valid host")
        || refusal.why.contains("a port is");
    if !told.contains(&readable) || !settable {
        return Err(format!("{refusal:?} names neither host nor setting"));
    }
    Ok(())
}

fn nobody_came(server: &Server, port: &str) -> Result<(), String> {
    match server.visits(port.parse().unwrap_or(80)).as_slice() {
        [] => Ok(()),
        visits => Err(format!("the server was reached: {visits:?}")),
    }
}

/// The same without the proxy gets there.
fn arrives(target: &str, server: &Server) -> Result<(), String> {
    let (host, port) = split(target);
    let port: u16 = port.parse().unwrap();
    let mut stream = TcpStream::connect((host, port)).map_err(|error| error.to_string())?;
    stream
        .set_read_timeout(Some(haft_testkit::PATIENCE))
        .unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    stream
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    let visits = server.visits(port);
    if !text.contains(CANARY) || visits.len() != 1 {
        return Err(format!("{} visits, and {text}", visits.len()));
    }
    Ok(())
}

fn say(raw: &Raw, stage: &Stage) -> Answer {
    let socket = stage.proxy.socket();
    let shown = if raw.hidden {
        Shown::InPart
    } else {
        Shown::Openly
    };
    let inside = match (&raw.inside, &raw.hello) {
        (Some(inside), None) => inside.clone().into_bytes(),
        (None, Some(name)) => ask::hello(name, shown),
        _ => Vec::new(),
    };
    match (&raw.send, &raw.socks, &raw.tunnel, &raw.socks_tunnel) {
        (Some(send), None, None, None) => ask::send(socket, send.as_bytes()),
        (None, Some(target), None, None) | (None, None, None, Some(target)) => {
            let (host, port) = target.rsplit_once(':').unwrap();
            ask::socks(socket, &ask::by_name(host), port, &inside)
        }
        (None, None, Some(target), None) => ask::tunnel(socket, target, &inside),
        _ => panic!("{raw:?} says nothing, or two things"),
    }
}

/// A server that is allowed sends a program elsewhere; the program asks the proxy again.
fn redirects(case: &Case, proxied: &Proxied, server: &Server, tally: &mut Tally) {
    let secret = "http://169.254.169.254/latest/meta-data/";
    let direct = format!("http://first.example/to/302/{secret}");
    let twice = format!("http://first.example/to/307/http://second.example/to/308/{secret}");
    for start in [direct, twice] {
        tally.attempts += 1;
        let stage = Stage::new(&proxied.allow, &proxied.names);
        let mut hops = String::new();
        let mut next = start.clone();
        let answer = loop {
            let host = next.split('/').nth(2).unwrap();
            let request = format!("GET {next} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let answer = ask::send(stage.proxy.socket(), request.as_bytes());
            let Answer::Passed(text) = &answer else {
                break answer;
            };
            let location = text
                .lines()
                .find_map(|line| line.strip_prefix("Location: "));
            let Some(location) = location else {
                break answer;
            };
            writeln!(hops, "{location}").unwrap();
            location.clone_into(&mut next);
        };
        let mut judged = match answer {
            Answer::Refused(_) if next == secret => Ok(()),
            other => Err(format!("{other:?} after {hops}")),
        };
        let metadata: IpAddr = "169.254.169.254".parse().unwrap();
        if server
            .visits(80)
            .iter()
            .any(|visit| visit.to.to_canonical() == metadata)
        {
            judged = Err("the metadata server was reached".to_owned());
        }
        tally.note(&case.id, &start, judged);
    }
}

pub(crate) fn is_in_own_network() -> bool {
    env::var_os(INSIDE).is_some()
}

/// Runs a test of this binary in a network of its own, in which every address is local. Needs no
/// privilege, and fails where it cannot be had.
pub(crate) fn in_own_network(test: &str) {
    let set_up = "ip link set lo up && ip route add local 0.0.0.0/0 dev lo \
                  && ip -6 route add local ::/0 dev lo && exec \"$0\" \"$@\"";
    let output = Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--net",
            "--",
            "sh",
            "-c",
            set_up,
        ])
        .arg(env::current_exe().unwrap())
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .arg("--test-threads=1")
        .env(INSIDE, "1")
        .output()
        .expect("unshare");
    let printed = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    println!("{printed}");
    assert!(
        output.status.success() && printed.contains("1 passed"),
        "in a network of its own (needs user namespaces and `ip` of iproute2): {}\n{complained}",
        output.status
    );
}
