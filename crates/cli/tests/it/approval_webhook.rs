//! `[approvals.webhook]` of haft.toml over real HTTP: what is sent, that it is tried again, and
//! which answers count.

use std::{
    fmt::Write as _,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::Stage;

const KEY: &str = "0123456789abcdef0123456789abcdef";

/// HMAC-SHA-256 (RFC 2104), written down here so that the test does not check Haft with itself.
fn hmac(key: &[u8], message: &[u8]) -> String {
    let mut padded = [0_u8; 64];
    padded[..key.len()].copy_from_slice(key);
    let inner = Sha256::digest([&padded.map(|byte| byte ^ 0x36)[..], message].concat());
    let outer = Sha256::digest([&padded.map(|byte| byte ^ 0x5c)[..], &inner].concat());
    let mut hex = String::new();
    for byte in outer {
        write!(hex, "{byte:02x}").unwrap();
    }
    hex
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs()
}

/// What the service answers to the question, as a whole response.
type Answer = Box<dyn Fn(&Value) -> String + Send>;

fn status(code: u16) -> Answer {
    Box::new(move |_| {
        format!("HTTP/1.1 {code} x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
    })
}

fn signed(body: &str, id: &str, seconds: u64, key: &str) -> String {
    let message = format!("answer\n{seconds}\n{id}\n{body}");
    let signature = hmac(key.as_bytes(), message.as_bytes());
    format!(
        "HTTP/1.1 200 x\r\nconnection: close\r\nhaft-timestamp: {seconds}\r\n\
         haft-signature: v1={signature}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn body(question: &Value, answer: &str) -> String {
    let (id, digest) = (&question["id"], &question["digest"]);
    json!({"id": id, "digest": digest, "answer": answer, "by": "the phone of ada"}).to_string()
}

fn right(question: &Value, answer: &str) -> String {
    signed(
        &body(question, answer),
        question["id"].as_str().unwrap(),
        now(),
        KEY,
    )
}

/// A service that answers each request from a list, and then says that nobody has decided.
struct Service {
    url: String,
    questions: Arc<Mutex<Vec<Value>>>,
    requests: Arc<Mutex<usize>>,
}

impl Service {
    fn new(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let questions: Arc<Mutex<Vec<Value>>> = Arc::default();
        let requests: Arc<Mutex<usize>> = Arc::default();
        let (seen, count) = (Arc::clone(&questions), Arc::clone(&requests));
        std::thread::spawn(move || {
            let mut answers = answers.into_iter();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(posted) = read(&mut stream) else {
                    continue;
                };
                *count.lock().unwrap() += 1;
                seen.lock().unwrap().extend(posted);
                let question = seen.lock().unwrap().last().cloned().unwrap();
                let answer = answers.next().unwrap_or_else(|| status(202));
                let _ = stream.write_all(answer(&question).as_bytes());
            }
        });
        Self {
            url,
            questions,
            requests,
        }
    }

    /// A stage whose haft.toml names the service, with the key in a private file.
    fn stage(&self, wait_ms: u32) -> Stage {
        use std::os::unix::fs::PermissionsExt as _;
        let stage = Stage::with_config("");
        let key = stage.home.join("hook.key");
        std::fs::write(&key, format!("{KEY}\n")).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        stage.write(
            "haft.toml",
            format!(
                "[policy]\n[limits]\napproval_wait_ms = {wait_ms}\n[approvals.webhook]\n\
                 url = \"{}\"\nkey = \"file:{}\"\n",
                self.url,
                key.display()
            ),
        );
        stage.haft(&["trust"]).ok();
        stage
    }
}

/// The question of a request, none for one that only looks; `None` for a broken connection.
fn read(stream: &mut TcpStream) -> Option<Vec<Value>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_lowercase()
                        .strip_prefix("content-length: ")?
                        .parse()
                        .ok()
                })
                .unwrap_or(0);
            if body.len() >= length {
                return Some(serde_json::from_str(body).into_iter().collect());
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(got) => bytes.extend_from_slice(&buffer[..got]),
        }
    }
}

const CALL: [&str; 6] = [
    "call",
    "write",
    "path=made.txt",
    "content=hello",
    "--ask",
    "elsewhere",
];

#[test]
fn a_phone_answers_through_the_webhook_of_haft_toml() {
    let service = Service::new(vec![
        status(503),
        Box::new(|question| right(question, "approve")),
    ]);
    let stage = service.stage(60_000);
    stage.haft(&CALL).ok();
    assert_eq!(stage.read("made.txt"), "hello");
    assert_eq!(*service.requests.lock().unwrap(), 2, "once more after 503");
    let question = service.questions.lock().unwrap().last().cloned().unwrap();
    assert_eq!(question["drawing"]["headline"], "write made.txt (new file)");
    let text = question["drawing"]["text"].as_str().unwrap();
    assert!(text.contains("\n  +hello\n"), "{text}");
    let explained = stage.json(&["explain", "--json"]);
    assert_eq!(explained["approval"]["by"], "the phone of ada (webhook)");
}

#[test]
fn an_agents_question_says_what_it_is_and_an_approval_does_not_answer_it() {
    let service = Service::new(vec![
        Box::new(|question| right(question, "approve")),
        Box::new(|question| {
            let id = question["id"].as_str().unwrap();
            let reply = json!({"id": id, "reply": "BLUE", "by": "the phone of ada"});
            signed(&reply.to_string(), id, now(), KEY)
        }),
    ]);
    let stage = service.stage(60_000);
    let config = stage.read("haft.toml").replace(
        "[policy]",
        "[tools.clarify]\ntype = \"clarify\"\n[policy]\nallow = [\"clarify\"]",
    );
    stage.write("haft.toml", config);
    stage.haft(&["trust"]).ok();
    let call = r#"{"question": "Which?", "options": ["red", "blue"]}"#;
    let said = stage.haft(&["call", "clarify", call, "--ask", "elsewhere", "--json"]);
    let outcome: Value = serde_json::from_str(&said.ok()).unwrap();
    assert!(
        outcome.to_string().contains(r#""answer":"blue""#),
        "{outcome}"
    );
    assert!(
        outcome.to_string().contains("the phone of ada (webhook)"),
        "{outcome}"
    );
    let question = service.questions.lock().unwrap().last().cloned().unwrap();
    assert_eq!(question["kind"], "question");
    assert_eq!(question["options"], json!(["red", "blue"]));
    let text = question["text"].as_str().unwrap();
    assert!(text.contains("it allows nothing"), "{text}");
    for field in ["digest", "form", "drawing", "summary"] {
        assert!(question.get(field).is_none(), "{field}");
    }
    assert_eq!(
        *service.requests.lock().unwrap(),
        2,
        "an approval was no answer"
    );
}

#[test]
fn ap_07_an_answer_with_another_signature_or_of_another_question_is_refused() {
    let other_key = KEY.replace('0', "1");
    // The recorded answer to an earlier question, byte for byte, with its own valid signature.
    let earlier = json!({
        "id": "01890000-0000-7000-8000-000000000000",
        "digest": "0".repeat(64),
        "answer": "approve",
        "by": "the phone of ada",
    });
    let id = earlier["id"].as_str().unwrap().to_owned();
    let replayed = signed(&earlier.to_string(), &id, now(), KEY);
    let service = Service::new(vec![
        Box::new(move |question| {
            let id = question["id"].as_str().unwrap();
            signed(&body(question, "approve"), id, now(), &other_key)
        }),
        Box::new(move |_| replayed.clone()),
        // This question's own answer, but an hour old.
        Box::new(|question| {
            let id = question["id"].as_str().unwrap();
            signed(&body(question, "approve"), id, now() - 3_600, KEY)
        }),
        Box::new(|question| right(question, "refuse")),
    ]);
    let stage = service.stage(60_000);
    let said = stage.haft(&CALL).fails(3);
    assert!(
        said.contains("the phone of ada (webhook) refused"),
        "{said}"
    );
    assert!(!stage.exists("made.txt"));
    assert_eq!(*service.requests.lock().unwrap(), 4);
}

#[test]
fn a_webhook_without_its_key_is_named_and_allows_nothing() {
    let stage = Stage::with_config(
        "[policy]\n[limits]\napproval_wait_ms = 500\n[approvals.webhook]\n\
         url = \"http://127.0.0.1:9/hook\"\nkey = \"env:NO_SUCH_HOOK_KEY\"\n",
    );
    let said = stage.haft(&CALL).fails(3);
    assert!(said.contains("`NO_SUCH_HOOK_KEY` is not set"), "{said}");
    assert!(!stage.exists("made.txt"));
}

#[test]
fn a_key_in_the_file_itself_is_refused_and_not_repeated() {
    let stage = Stage::bare();
    stage.write(
        "haft.toml",
        format!("[policy]\n[approvals.webhook]\nurl = \"https://x.example\"\nkey = \"{KEY}\"\n"),
    );
    let said = stage.haft(&["trust"]);
    let check = stage.haft(&["policy", "check", "read", "a"]);
    let said = format!("{}{}", said.all(), check.all());
    assert!(said.contains("must say where the key is"), "{said}");
    assert!(!said.contains(KEY), "{said}");
}
