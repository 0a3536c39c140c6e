//! The console as a browser without scripts sees it: what it lets in, what it shows, what it refuses.

use std::time::Duration;

use haft_contract::{TenantId, UserId, host::Timestamp, identity::Scope};
use haft_gateway::{ApiKeyText, KeyEnvironment};
use haft_ledger::{Credential, CredentialKind};
use reqwest::{Client as Http, Method, StatusCode, header, redirect::Policy};
use serde_json::json;

use crate::served::{CAREFUL, Client, PATIENCE, Served, until};

/// The views that the navigation leads to, and pages within them.
const VIEWS: [&str; 12] = [
    "/approvals",
    "/calls",
    "/sessions",
    "/policy",
    "/policy/explain",
    "/policy/replay",
    "/tools",
    "/usage",
    "/usage?by=tool",
    "/audit",
    "/grants",
    "/keys",
];

/// Longer than the feed collects, and shorter than its sign of life.
const QUIET: Duration = Duration::from_secs(1);

/// What an agent writes that would like to be more than text.
const HOSTILE: &str = "<script>alert(1)</script>\u{202e}txt.exe";

/// A browser without scripts.
pub(crate) struct PlainBrowser {
    http: Http,
    base: String,
    cookie: String,
}

/// A page, read whole.
struct PageRead {
    status: StatusCode,
    headers: header::HeaderMap,
    text: String,
}

impl PageRead {
    fn is(&self, status: u16) -> &Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self
    }

    fn has(&self, words: &str) -> &Self {
        assert!(self.text.contains(words), "no {words:?} in {}", self.text);
        self
    }

    fn lacks(&self, words: &str) -> &Self {
        assert!(!self.text.contains(words), "{words:?} in {}", self.text);
        self
    }

    fn leads_to(&self) -> &str {
        self.is(303);
        self.headers["location"].to_str().unwrap()
    }

    /// The value of the first field of this name.
    fn field(&self, name: &str) -> String {
        let begin = format!("name=\"{name}\" value=\"");
        let (_, rest) = self
            .text
            .split_once(&begin)
            .unwrap_or_else(|| panic!("no {name} in {}", self.text));
        let (value, _) = rest.split_once('"').unwrap();
        value
            .replace("&quot;", "\"")
            .replace("&amp;", "&")
            .replace("&lt;", "<")
            .replace("&gt;", ">")
    }

    /// The value of the first radio button of this name.
    fn choice(&self, name: &str) -> String {
        let begin = format!("name=\"{name}\"");
        let (_, rest) = self
            .text
            .split_once(&begin)
            .unwrap_or_else(|| panic!("no {name} in {}", self.text));
        let (_, rest) = rest.split_once("value=\"").unwrap();
        let (value, _) = rest.split_once('"').unwrap();
        value.replace("&quot;", "\"").replace("&amp;", "&")
    }
}

impl PlainBrowser {
    /// A browser that has no session.
    fn stranger(served: &Served) -> Self {
        Self {
            http: Http::builder()
                .redirect(Policy::none())
                .timeout(PATIENCE)
                .build()
                .unwrap(),
            base: served.base(),
            cookie: String::new(),
        }
    }

    /// The first administrator, logged in.
    async fn admin(served: &Served) -> Self {
        let code = served.gateway.first_login().await.unwrap().unwrap();
        let mut browser = Self::stranger(served);
        let answer = browser
            .send("/login", &[("code", &code)], "same-origin")
            .await;
        assert_eq!(answer.leads_to(), "/");
        let cookie = answer.headers["set-cookie"].to_str().unwrap();
        for part in [
            "__Host-haft=",
            "Secure",
            "HttpOnly",
            "SameSite=Lax",
            "Path=/",
        ] {
            assert!(cookie.contains(part), "{cookie}");
        }
        cookie
            .split(';')
            .next()
            .unwrap()
            .clone_into(&mut browser.cookie);
        browser
    }

    async fn get(&self, path: &str) -> PageRead {
        self.read(self.request(Method::GET, path)).await
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        if self.cookie.is_empty() {
            request
        } else {
            request.header("cookie", &self.cookie)
        }
    }

    async fn read(&self, request: reqwest::RequestBuilder) -> PageRead {
        let answer = request.send().await.unwrap();
        PageRead {
            status: answer.status(),
            headers: answer.headers().clone(),
            text: answer.text().await.unwrap(),
        }
    }

    async fn send(&self, path: &str, fields: &[(&str, &str)], site: &str) -> PageRead {
        let body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(fields)
            .finish();
        let request = self
            .request(Method::POST, path)
            .header("content-type", "application/x-www-form-urlencoded")
            .header("sec-fetch-site", site)
            .body(body);
        self.read(request).await
    }

    /// Sends a form of a page as a browser does.
    async fn post(&self, path: &str, page: &PageRead, fields: &[(&str, &str)]) -> PageRead {
        let token = page.field("token");
        let fields = [&[("token", token.as_str())][..], fields].concat();
        self.send(path, &fields, "same-origin").await
    }
}

/// An administrator's browser, and an agent that makes calls.
async fn scene() -> (Served, PlainBrowser, Client) {
    let served = Served::open(CAREFUL).await;
    let browser = PlainBrowser::admin(&served).await;
    let agent = agent(&served, "coder").await;
    (served, browser, agent)
}

/// An agent of the first administrator: what it did, that person can take back.
pub(crate) async fn agent(served: &Served, name: &str) -> Client {
    let key = ApiKeyText::make(KeyEnvironment::Test).unwrap();
    let credential = Credential {
        id: key.id().clone(),
        kind: CredentialKind::ApiKey,
        tenant: TenantId::parse("local").unwrap(),
        user: UserId::local(),
        agent: Some(name.parse().unwrap()),
        name: format!("{name} of local"),
        scopes: [Scope::parse("call").unwrap()].into(),
        workspaces: Vec::new(),
        made_by: "a test".to_owned(),
        made: Timestamp(0),
        expires: None,
        revoked: None,
    };
    let credentials = served.gateway.credentials();
    credentials.add(credential, key.hash()).await.unwrap();
    Client {
        http: Http::new(),
        base: served.base(),
        key: key.text().to_owned(),
    }
}

/// Makes a call that nobody waits for, and returns its id.
async fn ask(agent: &Client, tool: &str, arguments: serde_json::Value) -> String {
    let body = json!({"tool": tool, "arguments": arguments, "wait_ms": 0});
    let made = agent.post("/v1/calls", body).await;
    made.is(202).text("/call").to_owned()
}

/// The question that waits, as its page.
async fn waiting(browser: &PlainBrowser) -> (String, PageRead) {
    until(async || {
        let page = browser.get("/approvals").await;
        let (_, rest) = page.text.split_once("action=\"/approvals/")?;
        let id = rest.split('/').next()?.to_owned();
        Some((id, page))
    })
    .await
}

async fn outcome(agent: &Client, call: &str) -> String {
    until(async || {
        let found = agent.get(&format!("/v1/calls/{call}")).await;
        let outcome = found.is(200).text("/outcome").to_owned();
        (outcome != "open").then_some(outcome)
    })
    .await
}

#[tokio::test]
async fn a_page_lets_a_browser_load_only_our_own_files() {
    let (served, browser, agent) = scene().await;
    let written = json!({"path": "free/a.txt", "content": "a\n"});
    let call = agent
        .call("write", written)
        .await
        .is(200)
        .text("/call")
        .to_owned();
    ask(&agent, "write", json!({"path": "b.txt", "content": "b\n"})).await;
    waiting(&browser).await;
    let call = format!("/calls/{call}");
    let undo = format!("{call}/undo");
    for path in VIEWS.into_iter().chain([call.as_str(), &undo, "/login"]) {
        let page = browser.get(path).await;
        let policy = page.is(200).headers["content-security-policy"]
            .to_str()
            .unwrap();
        for part in [
            "default-src 'none'",
            "style-src 'self'",
            "script-src 'self'",
            "img-src 'self'",
            "connect-src 'self'",
            "form-action 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
        ] {
            assert!(
                policy.split("; ").any(|found| found == part),
                "{path}: {policy}"
            );
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(page.headers["cache-control"], "no-store", "{path}");
        assert_eq!(page.headers["x-frame-options"], "DENY");
        // Nothing inline: each script has a source and no text, and nothing has a style of its own.
        for script in page.text.split("<script").skip(1) {
            assert!(script.starts_with(" src=\"/assets/"), "{script}");
            assert!(script.split_once('>').unwrap().1.starts_with("</script>"));
        }
        for inline in ["<style", " style=", " onclick=", " onload=", "javascript:"] {
            page.lacks(inline);
        }
    }
    served.close().await;
}

#[tokio::test]
async fn files_of_the_console_are_asked_about_and_not_sent_again() {
    let served = Served::open(CAREFUL).await;
    let browser = PlainBrowser::stranger(&served);
    for name in ["console.css", "console.js", "htmx.js", "mark.svg"] {
        let path = format!("/assets/{name}");
        let first = browser.get(&path).await;
        let tag = first.is(200).headers["etag"].clone();
        let again = browser
            .request(Method::GET, &path)
            .header("if-none-match", tag);
        assert_eq!(browser.read(again).await.is(304).text, "");
    }
    browser.get("/assets/other.css").await.is(404);
    served.close().await;
}

#[tokio::test]
async fn what_agents_write_is_text_and_shows_what_hides_in_it() {
    let (served, browser, agent) = scene().await;
    let path = format!("free/{HOSTILE}");
    let written = json!({"path": path, "content": "<img src=x onerror=alert(1)>\u{1b}[31m\n"});
    let made = agent.call("write", written).await;
    let call = made.is(200).text("/call").to_owned();
    agent.call("read", json!({"path": path})).await.is(200);
    ask(
        &agent,
        "write",
        json!({"path": HOSTILE, "content": "<b>bold</b>\u{202e}\n"}),
    )
    .await;
    let (question, page) = waiting(&browser).await;
    let shown = [
        page,
        browser.get("/calls").await,
        browser.get(&format!("/calls/{call}")).await,
        browser.get(&format!("/calls/{call}/undo")).await,
        browser.get(&format!("/approvals/{question}")).await,
        browser.get("/sessions").await,
    ];
    for page in &shown {
        page.is(200)
            .lacks("<script>alert")
            .lacks("<img src=x")
            .lacks("<b>bold")
            .lacks("\u{202e}")
            .lacks("\u{1b}");
    }
    shown[0]
        .has("&lt;script&gt;alert(1)&lt;/script&gt;")
        .has("⟨U+202E⟩");
    shown[0].has("&lt;b&gt;bold&lt;/b&gt;⟨U+202E⟩");
    // What somebody searched for comes back in a field.
    let searched =
        "/calls?search=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&tool=%22%20autofocus%20x=%22";
    browser
        .get(searched)
        .await
        .is(200)
        .lacks("<script>alert")
        .lacks("\" autofocus x=");
    let session = "/sessions?id=%3Cscript%3Ealert(1)%3C/script%3E";
    browser.get(session).await.lacks("<script>alert");
    browser
        .get("/login?code=%22%3E%3Cscript%3E")
        .await
        .is(200)
        .lacks("\"><script>");
    served.close().await;
}

#[tokio::test]
async fn a_form_needs_its_token_and_a_page_of_ours() {
    let (served, browser, agent) = scene().await;
    ask(&agent, "write", json!({"path": "b.txt", "content": "b\n"})).await;
    let (question, page) = waiting(&browser).await;
    let (token, digest) = (page.field("token"), page.field("digest"));
    let answer = format!("/approvals/{question}/answer");
    let wrong = token.replace(|letter: char| letter.is_ascii_hexdigit(), "0");
    let forms = [
        (wrong.as_str(), "same-origin"),
        ("", "same-origin"),
        (token.as_str(), "cross-site"),
        (token.as_str(), "same-site"),
        (token.as_str(), "none"),
    ];
    for (token, site) in forms {
        let fields = [("token", token), ("digest", &digest), ("answer", "approve")];
        browser.send(&answer, &fields, site).await.is(403);
    }
    // Without what browsers say today, the origin has to be ours.
    for origin in ["http://evil.example", "null"] {
        let request = browser
            .request(Method::POST, &answer)
            .header("content-type", "application/x-www-form-urlencoded")
            .header("origin", origin)
            .body(format!("token={token}&digest={digest}&answer=approve"));
        browser.read(request).await.is(403);
    }
    // Nor does any other form change something for a page that is not ours.
    for path in [
        "/logout",
        "/audit",
        "/keys",
        "/keys/invite",
        "/policy/replay",
        "/grants/x/end",
    ] {
        browser
            .send(path, &[("token", &token)], "cross-site")
            .await
            .is(403);
        browser
            .send(path, &[("token", "x")], "same-origin")
            .await
            .is(403);
    }
    browser
        .send("/login", &[("code", "x")], "cross-site")
        .await
        .is(403);
    let json = browser
        .request(Method::POST, &answer)
        .header("sec-fetch-site", "same-origin")
        .json(&json!({"token": token}));
    browser.read(json).await.is(415);
    browser
        .get(&format!("/approvals/{question}"))
        .await
        .has("Approve once");
    assert_eq!(served.file("own/b.txt"), None);
    served.close().await;
}

#[tokio::test]
async fn questions_are_answered_with_plain_forms() {
    let (served, browser, agent) = scene().await;
    // Approve once.
    let call = ask(
        &agent,
        "write",
        json!({"path": "one.txt", "content": "one\n"}),
    )
    .await;
    let (question, page) = waiting(&browser).await;
    page.has("one.txt")
        .has("<div class=\"line add\">")
        .has("coder");
    let digest = page.field("digest");
    let answer = format!("/approvals/{question}/answer");
    let told = browser
        .post(
            &answer,
            &page,
            &[("digest", &digest), ("answer", "approve")],
        )
        .await;
    let back = browser.get(told.leads_to()).await;
    back.is(200)
        .has("Approved")
        .has("Nothing waits for an answer");
    assert_eq!(outcome(&agent, &call).await, "succeeded");
    assert_eq!(served.file("own/one.txt").as_deref(), Some("one\n"));
    // The second answer comes too late, and the page says who was first.
    let late = browser
        .post(&answer, &page, &[("digest", &digest), ("answer", "deny")])
        .await;
    let late = browser.get(late.leads_to()).await;
    late.is(200)
        .has("class=\"over good\"")
        .lacks("Approve once");

    // Deny, and say why.
    let call = ask(
        &agent,
        "write",
        json!({"path": "two.txt", "content": "two\n"}),
    )
    .await;
    let (question, page) = waiting(&browser).await;
    let (answer, digest) = (
        format!("/approvals/{question}/answer"),
        page.field("digest"),
    );
    let fields = [
        ("digest", digest.as_str()),
        ("answer", "deny"),
        ("reason", "not <there>"),
    ];
    browser.post(&answer, &page, &fields).await.leads_to();
    assert_eq!(outcome(&agent, &call).await, "denied");
    let detail = browser.get(&format!("/calls/{call}")).await;
    detail.is(200).has("not &lt;there&gt;").has("Denied by");

    // Always, with the narrowest rule that is proposed.
    let call = ask(
        &agent,
        "write",
        json!({"path": "three.txt", "content": "three\n"}),
    )
    .await;
    let (question, page) = waiting(&browser).await;
    let (answer, digest) = (
        format!("/approvals/{question}/answer"),
        page.field("digest"),
    );
    let rules = page.choice("rules");
    let fields = [
        ("digest", digest.as_str()),
        ("answer", "always"),
        ("rules", &rules),
        ("scope", "agent"),
        ("for", "3600000"),
    ];
    browser.post(&answer, &page, &fields).await.leads_to();
    assert_eq!(outcome(&agent, &call).await, "succeeded");
    let again = agent
        .call("write", json!({"path": "three.txt", "content": "four\n"}))
        .await;
    assert_eq!(again.is(200).text("/state"), "succeeded");

    // Ending it, and the next call is asked about again.
    let grants = browser.get("/grants").await;
    let (_, rest) = grants
        .has("three.txt")
        .text
        .split_once("action=\"/grants/")
        .unwrap();
    let end = format!("/grants/{}/end", rest.split('/').next().unwrap());
    browser.post(&end, &grants, &[]).await.leads_to();
    browser
        .get("/grants")
        .await
        .has("Nothing is allowed from now on");
    ask(
        &agent,
        "write",
        json!({"path": "three.txt", "content": "five\n"}),
    )
    .await;
    waiting(&browser).await;
    served.close().await;
}

#[tokio::test]
async fn only_rules_that_were_proposed_become_standing() {
    let (served, browser, agent) = scene().await;
    ask(&agent, "write", json!({"path": "b.txt", "content": "b\n"})).await;
    let (question, page) = waiting(&browser).await;
    let (answer, digest) = (
        format!("/approvals/{question}/answer"),
        page.field("digest"),
    );
    for (rules, status) in [("[\"bash(*)\"]", 422), ("not json", 400)] {
        let fields = [
            ("digest", digest.as_str()),
            ("answer", "always"),
            ("rules", rules),
            ("scope", "agent"),
        ];
        browser.post(&answer, &page, &fields).await.is(status);
    }
    // Nobody approves what they have not seen.
    let other = "0".repeat(64);
    browser
        .post(&answer, &page, &[("digest", &other), ("answer", "approve")])
        .await
        .is(422);
    browser
        .get(&format!("/approvals/{question}"))
        .await
        .has("Approve once");
    served.close().await;
}

#[tokio::test]
async fn a_link_works_once_and_only_when_somebody_presses_the_button() {
    let served = Served::open(CAREFUL).await;
    let stranger = PlainBrowser::stranger(&served);
    let code = served.gateway.first_login().await.unwrap().unwrap();
    let link = format!("/login?code={code}");
    // A preview in a chat opens the link as well.
    for _ in 0..2 {
        stranger.get(&link).await.is(200).has(&code).has("<button");
    }
    stranger.get("/login").await.is(200).has("haft serve");
    let first = stranger
        .send("/login", &[("code", &code)], "same-origin")
        .await;
    assert_eq!(first.leads_to(), "/");
    let second = stranger
        .send("/login", &[("code", &code)], "same-origin")
        .await;
    second.is(401).has("This link does not work");
    assert!(!second.headers.contains_key("set-cookie"));
    served.close().await;
}

#[tokio::test]
async fn whoever_is_not_logged_in_is_led_to_where_they_can() {
    let (served, browser, agent) = scene().await;
    let call = agent.call("read", json!({"path": "notes.txt"})).await;
    let call = format!("/calls/{}", call.is(200).text("/call"));
    let stranger = PlainBrowser::stranger(&served);
    let all = VIEWS.into_iter().chain(["/", "/feed", "/waiting", &call]);
    for path in all.clone() {
        assert_eq!(stranger.get(path).await.leads_to(), "/login", "{path}");
        // A script would follow that into the middle of a page.
        let scripted = stranger
            .request(Method::GET, path)
            .header("hx-request", "true");
        let scripted = stranger.read(scripted).await;
        assert_eq!(scripted.is(401).headers["hx-redirect"], "/login", "{path}");
        assert_eq!(scripted.text, "");
    }
    let page = browser.get("/calls").await;
    assert_eq!(
        browser.post("/logout", &page, &[]).await.leads_to(),
        "/login"
    );
    for path in all {
        assert_eq!(browser.get(path).await.leads_to(), "/login", "{path}");
    }
    served.close().await;
}

#[tokio::test]
async fn a_session_that_was_ended_elsewhere_is_over() {
    let (served, browser, _) = scene().await;
    browser.get("/approvals").await.is(200);
    end_sessions(&served).await;
    assert_eq!(browser.get("/approvals").await.leads_to(), "/login");
    served.close().await;
}

/// Ends every session of the console, as their expiry does.
pub(crate) async fn end_sessions(served: &Served) {
    let credentials = served.gateway.credentials();
    let tenant: TenantId = TenantId::parse("local").unwrap();
    let open = credentials
        .list(&tenant, CredentialKind::ConsoleSession, 100)
        .await
        .unwrap();
    for session in open {
        credentials
            .revoke(&tenant, &session.id, Timestamp(1))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn empty_views_teach_and_full_ones_show() {
    let (served, browser, agent) = scene().await;
    for (path, words) in [
        ("/approvals", "Nothing waits for an answer"),
        ("/calls", "No calls yet"),
        ("/sessions", "No sessions yet"),
        ("/grants", "Nothing is allowed from now on"),
        ("/usage", "Nothing was used yet"),
        ("/policy/replay", "[policy]"),
        ("/tools", "read"),
        ("/policy", "write(free/**)"),
        ("/keys", "coder of local"),
        ("/audit", "Verify the record"),
    ] {
        browser.get(path).await.is(200).has(words);
    }
    agent
        .call("read", json!({"path": "notes.txt"}))
        .await
        .is(200);
    let written = json!({"path": "free/a.txt", "content": "a\n"});
    let call = agent
        .call("write", written)
        .await
        .is(200)
        .text("/call")
        .to_owned();
    for (path, words) in [
        ("/calls", "free/a.txt"),
        ("/calls?tool=builtin%2Fread", "notes.txt"),
        ("/calls?outcome=denied", "No call is like that"),
        ("/calls?since=1h&agent=coder", "free/a.txt"),
        ("/sessions", "coder"),
        ("/usage", "role=\"img\""),
        ("/usage?by=agent", "coder"),
    ] {
        browser.get(path).await.is(200).has(words);
    }
    let detail = browser.get(&format!("/calls/{call}")).await;
    detail
        .is(200)
        .has("write(free/**)")
        .has("class=\"waterfall\"")
        .has("free/a.txt")
        .has("Take back");
    let explained = browser.get("/policy/explain?tool=write&arguments=%7B%22path%22%3A%22free%2Fb%22%2C%22content%22%3A%22%22%7D").await;
    explained.is(200).has("write(free/**)");
    browser
        .get("/policy/explain?tool=write&arguments=%7B")
        .await
        .is(200)
        .has("the input is not JSON");
    let audit = browser.get("/audit").await;
    browser
        .post("/audit", &audit, &[])
        .await
        .is(200)
        .has("Intact");
    browser
        .get("/calls/018f0000-0000-7000-8000-000000000000")
        .await
        .is(404)
        .has("There is no such thing");
    served.close().await;
}

#[tokio::test]
async fn other_rules_are_tried_on_what_is_on_record() {
    let (served, browser, agent) = scene().await;
    agent
        .call("read", json!({"path": "notes.txt"}))
        .await
        .is(200);
    let page = browser.get("/policy/replay").await;
    let rules = "[policy]\r\npreset = \"careful\"\r\ndeny = [\"read(notes.txt)\"]\r\n";
    let tried = browser
        .post(
            "/policy/replay",
            &page,
            &[("rules", rules), ("against", "recorded")],
        )
        .await;
    tried
        .is(200)
        .has("<b>1</b> of 1 call would be decided differently")
        .has("notes.txt");
    tried.has("deny = [&quot;read(notes.txt)&quot;]");
    let odd = browser
        .post(
            "/policy/replay",
            &page,
            &[("rules", "[policy"), ("against", "recorded")],
        )
        .await;
    odd.is(200).has("role=\"alert\"");
    served.close().await;
}

#[tokio::test]
async fn a_call_is_taken_back_after_a_second_look() {
    let (served, browser, agent) = scene().await;
    let written = json!({"path": "free/a.txt", "content": "a\n"});
    let call = agent
        .call("write", written)
        .await
        .is(200)
        .text("/call")
        .to_owned();
    assert_eq!(served.file("own/free/a.txt").as_deref(), Some("a\n"));
    let path = format!("/calls/{call}/undo");
    let page = browser.get(&path).await;
    page.is(200).has("Take this call back?").has("free/a.txt");
    assert!(
        served.file("own/free/a.txt").is_some(),
        "looking changes nothing"
    );
    // The rules want somebody to see that, too.
    browser
        .post(&path, &page, &[])
        .await
        .is(200)
        .has("Not taken back yet");
    let (question, page) = waiting(&browser).await;
    let (answer, digest) = (
        format!("/approvals/{question}/answer"),
        page.field("digest"),
    );
    browser
        .post(
            &answer,
            &page,
            &[("digest", &digest), ("answer", "approve")],
        )
        .await
        .leads_to();
    until(async || served.file("own/free/a.txt").is_none().then_some(())).await;
    assert_eq!(served.file("own/free/a.txt"), None);
    served.close().await;
}

#[tokio::test]
async fn a_key_is_shown_once_and_works_until_it_is_revoked() {
    let (served, browser, _) = scene().await;
    let page = browser.get("/keys").await;
    let fields = [
        ("name", "deploy bot"),
        ("agent", "deploy"),
        ("scope", "call"),
        ("for", "86400000"),
    ];
    let made = browser.post("/keys", &page, &fields).await;
    let (_, rest) = made
        .is(200)
        .text
        .split_once("<pre class=\"secret\" tabindex=\"0\">")
        .unwrap();
    let key = rest.split('<').next().unwrap().to_owned();
    let list = browser.get("/keys").await;
    list.has("deploy bot").lacks(&key);
    let client = Client {
        http: Http::new(),
        base: served.base(),
        key,
    };
    client
        .call("read", json!({"path": "notes.txt"}))
        .await
        .is(200);
    let id = list
        .text
        .split("action=\"/keys/")
        .skip(1)
        .find(|form| form.contains("deploy bot"))
        .and_then(|form| form.split('/').next())
        .unwrap();
    browser
        .post(&format!("/keys/{id}/revoke"), &list, &[])
        .await
        .leads_to();
    client
        .call("read", json!({"path": "notes.txt"}))
        .await
        .is(401);
    served.close().await;
}

#[tokio::test]
async fn an_invitation_gives_no_more_than_its_maker_has() {
    let (served, browser, _) = scene().await;
    let page = browser.get("/keys").await;
    let fields = [("user", "grace"), ("scope", "read")];
    let made = browser.post("/keys/invite", &page, &fields).await;
    let (_, rest) = made.is(200).text.split_once("?code=").unwrap();
    let code = rest.split('<').next().unwrap();
    let mut grace = PlainBrowser::stranger(&served);
    let answer = grace.send("/login", &[("code", code)], "same-origin").await;
    answer.leads_to();
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    grace.cookie = cookie.split(';').next().unwrap().to_owned();
    let page = grace.get("/calls").await;
    page.is(200).has("grace");
    grace.get("/keys").await.is(403);
    grace
        .post(
            "/keys/invite",
            &page,
            &[("user", "grace"), ("scope", "admin")],
        )
        .await
        .is(403);
    let more = browser.get("/keys").await;
    let fields = [("user", "grace"), ("scope", "deploys")];
    browser.post("/keys/invite", &more, &fields).await.is(403);
    served.close().await;
}

#[tokio::test]
async fn somebody_who_may_only_read_is_shown_no_way_to_answer() {
    let (served, admin, agent) = scene().await;
    ask(&agent, "write", json!({"path": "b.txt", "content": "b\n"})).await;
    let (question, _) = waiting(&admin).await;
    let page = admin.get("/keys").await;
    let made = admin
        .post(
            "/keys/invite",
            &page,
            &[("user", "grace"), ("scope", "read")],
        )
        .await;
    let (_, rest) = made.text.split_once("?code=").unwrap();
    let mut grace = PlainBrowser::stranger(&served);
    let code = rest.split('<').next().unwrap();
    let answer = grace.send("/login", &[("code", code)], "same-origin").await;
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    grace.cookie = cookie.split(';').next().unwrap().to_owned();
    let page = grace.get(&format!("/approvals/{question}")).await;
    page.is(200)
        .has("b.txt")
        .lacks("Approve once")
        .has("needs the scope");
    let fields = [("digest", "0"), ("answer", "approve")];
    grace
        .post(&format!("/approvals/{question}/answer"), &page, &fields)
        .await
        .is(403);
    served.close().await;
}

#[tokio::test]
async fn the_feed_says_that_something_changed_and_nothing_else() {
    let (served, browser, agent) = scene().await;
    let stranger = served.client("acme", "coder", &["call"]).await;
    let mut answer = browser.request(Method::GET, "/feed").send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let (mut text, mut is_told) = (String::new(), false);
    // Once at its start, because the page was drawn before; then for what happens.
    while text.matches("event: calls").count() < 2 {
        let chunk = tokio::time::timeout(PATIENCE, answer.chunk())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        if text.matches("event: calls").count() == 1 && !is_told {
            is_told = true;
            // Another tenant's call comes first. Whatever is said of it is said before the next word.
            stranger
                .call("read", json!({"path": "notes.txt"}))
                .await
                .is(200);
            let quiet = tokio::time::timeout(QUIET, answer.chunk()).await;
            assert!(quiet.is_err(), "{quiet:?}");
            ask(
                &agent,
                "write",
                json!({"path": "secret-name.txt", "content": "b\n"}),
            )
            .await;
        }
    }
    for line in text.lines().filter(|line| !line.is_empty()) {
        let known = ["event: approvals", "event: calls", "data: changed"];
        assert!(known.contains(&line), "{line}");
    }
    drop(answer);
    served.close().await;
}
