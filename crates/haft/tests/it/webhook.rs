//! A webhook over real HTTP: what it is sent, which answers count, and which never do (AP-07).

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use haft::{
    FirstAnswer, Webhook, WebhookError, WebhookKey,
    contract::{
        Outcome, PlanDigest, Terminal,
        host::{Clock as _, Verdict},
        outcome::DeniedBy,
    },
    runtime::{Limits, SystemClock, digest_of},
};
use haft_testkit::{
    FixedPolicy, Harness, PATIENCE, ScriptedApprover, approver::ScriptedAnswer as Scripted, sample,
};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

const KEY: [u8; 32] = [b'k'; 32];

/// A request as the service saw it.
#[derive(Debug, Clone)]
struct Seen {
    method: String,
    path: String,
    timestamp: String,
    signature: String,
    body: String,
}

/// What the service answers, given the question.
type Answering = Box<dyn Fn(&Value) -> Response + Send>;

struct Response {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

/// The signature of an answer, computed as somebody else would.
fn sign(key: &[u8], direction: &str, seconds: i64, id: &str, body: &str) -> String {
    let mut mac = <Hmac<Sha256>>::new_from_slice(key).unwrap();
    mac.update(format!("{direction}\n{seconds}\n{id}\n{body}").as_bytes());
    let bytes = mac.finalize().into_bytes();
    let signature = PlanDigest(bytes.into());
    format!("v1={signature}")
}

fn now() -> i64 {
    SystemClock.now().0 / 1_000_000
}

/// An answer that is right in every way.
fn right(question: &Value, answer: &str) -> Response {
    signed(
        &body(question, answer),
        question["id"].as_str().unwrap(),
        now(),
        &KEY,
    )
}

fn body(question: &Value, answer: &str) -> Value {
    json!({
        "id": question["id"],
        "digest": question["digest"],
        "answer": answer,
        "by": "ada",
        "reason": "as agreed",
    })
}

fn signed(body: &Value, id: &str, seconds: i64, key: &[u8]) -> Response {
    let body = body.to_string();
    let signature = sign(key, "answer", seconds, id, &body);
    Response {
        status: 200,
        headers: vec![
            ("haft-timestamp", seconds.to_string()),
            ("haft-signature", signature),
        ],
        body,
    }
}

fn pending() -> Response {
    Response {
        status: 202,
        headers: Vec::new(),
        body: String::new(),
    }
}

/// A service that answers each request from a list, and is then silent.
struct Service {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Service {
    async fn new(answers: Vec<Answering>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let noted = Arc::clone(&seen);
        tokio::spawn(async move {
            let mut answers: VecDeque<Answering> = answers.into();
            let mut question = Value::Null;
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(request) = read(&mut stream).await else {
                    continue;
                };
                if request.method == "POST" {
                    question = serde_json::from_str(&request.body).unwrap();
                }
                noted.lock().unwrap().push(request);
                let response = answers
                    .pop_front()
                    .map_or_else(pending, |answer| answer(&question));
                write(&mut stream, &response).await;
            }
        });
        Self { url, seen }
    }

    fn webhook(&self) -> Webhook {
        let pause = Duration::from_millis(5);
        let key = WebhookKey::new(&KEY).unwrap();
        Webhook::new(&self.url, key).unwrap().pauses(pause, pause)
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn read(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let head = loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
    let header = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(&format!("{name}: ")))
            .unwrap_or_default()
            .to_owned()
    };
    let length: usize = header("content-length").parse().unwrap_or(0);
    while bytes.len() < head + length {
        stream.read_buf(&mut bytes).await.ok()?;
    }
    let mut first = text.lines().next()?.split(' ');
    Some(Seen {
        method: first.next()?.to_owned(),
        path: first.next()?.to_owned(),
        timestamp: header("haft-timestamp"),
        signature: header("haft-signature"),
        body: String::from_utf8(bytes[head..].to_vec()).unwrap(),
    })
}

async fn write(stream: &mut TcpStream, response: &Response) {
    let mut text = format!(
        "HTTP/1.1 {} x\r\nconnection: close\r\ncontent-length: {}\r\n",
        response.status,
        response.body.len()
    );
    for (name, value) in &response.headers {
        text = format!("{text}{name}: {value}\r\n");
    }
    let _ = stream
        .write_all(format!("{text}\r\n{}", response.body).as_bytes())
        .await;
}

fn harness(approver: impl haft::contract::host::Approver, wait: Duration) -> Harness {
    let limits = Limits {
        approval_wait: wait,
        ..Limits::default()
    };
    Harness::memory()
        .tools(sample::all())
        .policy(FixedPolicy::always(Verdict::Ask))
        .limits(limits)
        .approver(approver)
        .build()
}

async fn call(harness: &Harness) -> Arc<Outcome> {
    harness.call("echo", json!({"text": "hello"})).await
}

async fn ask(answers: Vec<Answering>) -> (Arc<Outcome>, Vec<Seen>) {
    let service = Service::new(answers).await;
    let harness = harness(service.webhook(), PATIENCE);
    let outcome = call(&harness).await;
    (outcome, service.seen())
}

fn one(answer: impl Fn(&Value) -> Response + Send + 'static) -> Vec<Answering> {
    vec![Box::new(answer)]
}

/// Whoever decides about an address sees all of it: what looks like a key may be what is carried away.
#[tokio::test]
async fn an_address_in_a_question_is_whole() {
    let address = "https://a.example/p?page=1&key=root:x:0:0:ssh-rsa+AAAA";
    let service = Service::new(one(|question| right(question, "refuse"))).await;
    let harness = harness(service.webhook(), PATIENCE);
    harness.call("echo", json!({"text": address})).await;
    let question: Value = serde_json::from_str(&service.seen()[0].body).unwrap();
    assert_eq!(question["form"]["input"]["text"], address);
}

#[tokio::test]
async fn a_signed_yes_lets_the_call_pass_and_the_question_was_whole_and_signed() {
    let (outcome, seen) = ask(one(|question| right(question, "approve"))).await;
    assert!(outcome.succeeded(), "{}", outcome.model_text());
    let post = &seen[0];
    assert_eq!(
        (post.method.as_str(), post.path.as_str()),
        ("POST", "/hook")
    );
    let question: Value = serde_json::from_str(&post.body).unwrap();
    let id = question["id"].as_str().unwrap();
    let seconds: i64 = post.timestamp.parse().unwrap();
    let expect = sign(&KEY, "question", seconds, id, &post.body);
    assert_eq!(post.signature, expect);
    assert_eq!(question["form"]["input"], json!({"text": "hello"}));
    assert_eq!(digest_of(&question["form"]).to_string(), question["digest"]);
    assert_eq!(question["who"]["agent"], "agent");
    // It is drawn as every other place draws it.
    let drawing = &question["drawing"];
    assert_eq!(drawing["headline"], "echo");
    let text = drawing["text"].as_str().unwrap();
    assert!(text.contains("input     text: \"hello\"\n"), "{text}");
    assert!(text.contains("asked because "), "{text}");
    let details = drawing["details"].to_string();
    assert!(details.contains(question["digest"].as_str().unwrap()));
}

#[tokio::test]
async fn a_signed_no_reaches_the_model_with_name_and_reason() {
    let (outcome, _) = ask(one(|question| right(question, "refuse"))).await;
    assert_eq!(outcome.terminal, Terminal::Denied);
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Person));
    let text = outcome.model_text();
    assert!(text.contains("ada (webhook) refused: as agreed"), "{text}");
}

#[tokio::test]
async fn a_question_that_takes_time_is_looked_for_under_its_id() {
    let (outcome, seen) = ask(vec![
        Box::new(|_| pending()),
        Box::new(|_| pending()),
        Box::new(|question| right(question, "approve")),
    ])
    .await;
    assert!(outcome.succeeded(), "{}", outcome.model_text());
    let question: Value = serde_json::from_str(&seen[0].body).unwrap();
    let id = question["id"].as_str().unwrap();
    for look in &seen[1..] {
        assert_eq!(
            (look.method.as_str(), look.path.as_str()),
            ("GET", format!("/hook/{id}").as_str())
        );
        let seconds: i64 = look.timestamp.parse().unwrap();
        assert_eq!(look.signature, sign(&KEY, "question", seconds, id, ""));
    }
}

#[tokio::test]
async fn a_service_that_is_down_for_a_moment_is_asked_again() {
    let broken = |status| -> Answering {
        Box::new(move |_| Response {
            status,
            headers: Vec::new(),
            body: String::new(),
        })
    };
    let (outcome, seen) = ask(vec![
        broken(503),
        broken(500),
        Box::new(|question| right(question, "approve")),
    ])
    .await;
    assert!(outcome.succeeded(), "{}", outcome.model_text());
    assert!(seen.iter().all(|seen| seen.method == "POST"), "{seen:?}");
}

/// An answer that is no answer: the service is asked again, and what counts is what it says then.
async fn no_answer(answer: impl Fn(&Value) -> Response + Send + 'static) {
    let (outcome, seen) = ask(vec![
        Box::new(answer),
        Box::new(|question| right(question, "refuse")),
    ])
    .await;
    let text = outcome.model_text();
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Person), "{text}");
    assert!(text.contains("ada (webhook) refused: as agreed"), "{text}");
    assert_eq!(seen.len(), 2, "{seen:?}");
}

#[tokio::test]
async fn ap_07_an_answer_that_is_forged_replayed_or_meant_for_another_question_never_counts() {
    let id = |question: &Value| question["id"].as_str().unwrap().to_owned();
    // Not signed, or by somebody else.
    no_answer(|question| Response {
        headers: Vec::new(),
        ..right(question, "approve")
    })
    .await;
    no_answer(move |question| {
        signed(
            &body(question, "approve"),
            &id(question),
            now(),
            &[b'x'; 32],
        )
    })
    .await;
    // Signed, and then changed.
    no_answer(|question| {
        let mut response = right(question, "refuse");
        response.body = response.body.replace("refuse", "approve");
        response
    })
    .await;
    // Old: replayed from a recording.
    no_answer(move |question| {
        signed(
            &body(question, "approve"),
            &id(question),
            now() - 3600,
            &KEY,
        )
    })
    .await;
    no_answer(move |question| {
        signed(
            &body(question, "approve"),
            &id(question),
            now() + 3600,
            &KEY,
        )
    })
    .await;
    // The answer to an earlier question, under its own signature and under this one's.
    let earlier = "01890000-0000-7000-8000-000000000000";
    no_answer(move |question| {
        let mut other = body(question, "approve");
        other["id"] = json!(earlier);
        signed(&other, earlier, now(), &KEY)
    })
    .await;
    no_answer(move |question| {
        let mut other = body(question, "approve");
        other["id"] = json!(earlier);
        signed(&other, &id(question), now(), &KEY)
    })
    .await;
    // The right question, another plan.
    no_answer(move |question| {
        let mut other = body(question, "approve");
        other["digest"] = json!("0".repeat(64));
        signed(&other, &id(question), now(), &KEY)
    })
    .await;
    // Words that are not there.
    no_answer(move |question| signed(&body(question, "yes"), &id(question), now(), &KEY)).await;
    no_answer(move |question| {
        let mut other = body(question, "approve");
        other["grant"] = json!("bash");
        signed(&other, &id(question), now(), &KEY)
    })
    .await;
}

#[tokio::test]
async fn ap_07_a_question_sent_back_as_an_answer_does_not_count() {
    // What the service was sent is signed with the same key; the direction is signed too.
    let seconds = now();
    no_answer(move |question| {
        let body = body(question, "approve").to_string();
        let id = question["id"].as_str().unwrap();
        Response {
            status: 200,
            headers: vec![
                ("haft-timestamp", seconds.to_string()),
                ("haft-signature", sign(&KEY, "question", seconds, id, &body)),
            ],
            body,
        }
    })
    .await;
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_a_flood_is_not_read() {
    let other = Service::new(one(|question| right(question, "approve"))).await;
    let elsewhere = other.url.clone();
    no_answer(move |_| Response {
        status: 307,
        headers: vec![("location", elsewhere.clone())],
        body: String::new(),
    })
    .await;
    assert!(other.seen().is_empty(), "nobody was sent there");
    no_answer(|question| {
        let id = question["id"].as_str().unwrap();
        let mut large = body(question, "approve");
        large["reason"] = json!("x".repeat(100_000));
        signed(&large, id, now(), &KEY)
    })
    .await;
}

#[test]
fn a_question_travels_over_tls_or_stays_on_this_machine() {
    let check = |url: &str, expect: &str| {
        let made = Webhook::new(url, WebhookKey::new(&KEY).unwrap());
        let said = match made {
            Ok(_) => "taken".to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(said.contains(expect), "{url}: {said}");
    };
    check("https://example.org/hook", "taken");
    check("http://127.0.0.1:9/hook", "taken");
    check("http://[::1]:9/hook", "taken");
    check("http://localhost:9/hook", "taken");
    check("http://example.org/hook", "is not `https`");
    check("http://127.0.0.1.example.org/hook", "is not `https`");
    check("ftp://127.0.0.1/hook", "neither `https` nor `http`");
    check(
        "https://user:secret@example.org/hook",
        "contains a password",
    );
    check("hook", "is not an address");
    let short = WebhookKey::new(b"short");
    assert!(matches!(short, Err(WebhookError::ShortKey(5))));
}

#[tokio::test]
async fn beside_a_terminal_the_first_answer_counts() {
    // Nobody at the terminal: the webhook answers.
    let service = Service::new(one(|question| right(question, "approve"))).await;
    let both = FirstAnswer::new(
        ScriptedApprover::always(Scripted::Nobody),
        service.webhook(),
    );
    assert!(call(&harness(both, PATIENCE)).await.succeeded());
    // A silent service: the terminal answers.
    let silent = Service::new(Vec::new()).await;
    let both = FirstAnswer::new(
        silent.webhook(),
        ScriptedApprover::always(Scripted::Approve),
    );
    assert!(call(&harness(both, PATIENCE)).await.succeeded());
    // A silent service and nobody at the terminal: it lapses.
    let silent = Service::new(Vec::new()).await;
    let both = FirstAnswer::new(ScriptedApprover::always(Scripted::Nobody), silent.webhook());
    let outcome = call(&harness(both, Duration::from_millis(400))).await;
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Expired));
}
