//! Logging in to a mounted server, against a real HTTP authorization server that checks what it is
//! sent, and against ones that mean harm.

mod fixture;

use std::{
    io,
    net::IpAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use haft_contract::{
    TenantId, UserId,
    egress::{AddressClass, Resolve},
    future::BoxFuture,
};
use haft_mcp::upstream::{
    auth::{
        ClientIdentity, Credential, CredentialParts, Login, LoginError, OauthOptions, Refusal,
        Secret,
        person::{Loopback, Person, RedirectFollower},
        vault::{MemoryVault, Vault},
    },
    authorize::{Authorize as _, BearerToken, RefusalResponse, Unauthorized},
};
use haft_testkit::{TestClock, eventually};
use url::Url;

use fixture::{Fixture, Flaws, Iss, LASTS};

/// No name resolves to anything but a metadata address.
struct OnlyMetadata;

impl Resolve for OnlyMetadata {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async {
            Ok(vec![
                "8.8.8.8".parse().unwrap(),
                "169.254.169.254".parse().unwrap(),
            ])
        })
    }
}

struct Setup {
    fixture: Fixture,
    clock: TestClock,
    vault: Arc<MemoryVault>,
}

impl Setup {
    async fn with(flaws: Flaws) -> Self {
        Self {
            fixture: Fixture::start(flaws).await,
            clock: TestClock::new(),
            vault: Arc::new(MemoryVault::default()),
        }
    }

    fn parts(&self, user: &str) -> CredentialParts {
        CredentialParts {
            server: self.fixture.server(),
            tenant: TenantId::parse("local").unwrap(),
            user: UserId::parse(user).unwrap(),
            options: OauthOptions::default(),
            vault: Arc::clone(&self.vault) as Arc<dyn Vault>,
            resolver: Arc::new(OnlyMetadata),
            clock: Arc::new(self.clock.clone()),
            person: None,
        }
    }

    fn credential(&self) -> Credential {
        Credential::new(self.parts("ada")).unwrap()
    }

    async fn log_in(&self, credential: &Credential) -> Result<Login, LoginError> {
        credential.log_in(&person()).await
    }
}

fn person() -> RedirectFollower {
    RedirectFollower::new(Url::parse("http://127.0.0.1:9/callback").unwrap())
}

fn refused(status: u16, challenge: &str, sent: Option<BearerToken>) -> Unauthorized {
    Unauthorized {
        status,
        www_authenticate: Some(challenge.to_owned()),
        sent,
    }
}

/// Logs in where something is wrong and says what came of it.
async fn fails(flaws: Flaws) -> LoginError {
    let setup = Setup::with(flaws).await;
    let credential = setup.credential();
    let error = setup.log_in(&credential).await.expect_err("must not work");
    assert_eq!(credential.token().await, None);
    let login = credential.state().await.unwrap();
    assert_eq!(login, Login::Needed { wanted: Vec::new() });
    error
}

#[tokio::test]
async fn a_login_gives_a_token_that_the_server_takes() {
    let setup = Setup::with(Flaws::default()).await;
    let credential = setup.credential();
    assert_eq!(credential.token().await, None);
    let login = setup.log_in(&credential).await.unwrap();
    let Login::In { issuer, scopes } = login else {
        panic!("{login:?}")
    };
    assert_eq!(issuer, setup.fixture.base.as_str().trim_end_matches('/'));
    assert_eq!(scopes, ["read"]);
    let token = credential.token().await.unwrap();
    assert!(setup.fixture.takes(token.reveal()));
    assert_eq!(setup.fixture.faults(), Vec::<String>::new());
    assert!(!format!("{token:?}").contains(token.reveal()));
    // Another process finds it; another user does not.
    assert_eq!(setup.credential().token().await, Some(token));
    let other = Credential::new(setup.parts("bob")).unwrap();
    assert_eq!(other.token().await, None);
    assert!(credential.log_out().await.unwrap());
    assert!(!credential.log_out().await.unwrap());
    assert_eq!(setup.credential().token().await, None);
}

#[tokio::test]
async fn fifty_callers_of_an_expired_token_make_one_refresh() {
    let setup = Setup::with(Flaws::default()).await;
    let credential = setup.credential();
    setup.log_in(&credential).await.unwrap();
    let old = credential.token().await.unwrap();
    setup.clock.advance(Duration::from_secs(LASTS));
    // Half of them in what could be another process: it shares only the vault.
    let other = setup.credential();
    let callers = (0..50).map(|number| {
        let credential = if number % 2 == 0 { &credential } else { &other };
        credential.token()
    });
    let tokens = futures_util::future::join_all(callers).await;
    assert_eq!(setup.fixture.refreshes.load(Ordering::SeqCst), 1);
    let first = tokens[0].clone().unwrap();
    assert_ne!(first, old);
    assert!(setup.fixture.takes(first.reveal()));
    assert!(tokens.iter().all(|token| *token == Some(first.clone())));
    assert_eq!(setup.fixture.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn a_caller_who_leaves_does_not_lose_the_refresh() {
    let setup = Setup::with(Flaws::default()).await;
    let credential = setup.credential();
    setup.log_in(&credential).await.unwrap();
    setup.clock.advance(Duration::from_secs(LASTS));
    let asked = &setup.fixture.requests;
    let before = asked.load(Ordering::SeqCst);
    tokio::select! {
        biased;
        () = eventually("it asks", || asked.load(Ordering::SeqCst) > before) => {}
        token = credential.token() => panic!("nobody left: {token:?}"),
    }
    assert!(credential.token().await.is_some());
    assert_eq!(setup.fixture.refreshes.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_refused_token_is_refreshed_once_for_everybody_it_was_refused_to() {
    let setup = Setup::with(Flaws::default()).await;
    let credential = setup.credential();
    setup.log_in(&credential).await.unwrap();
    let sent = credential.token().await.unwrap();
    setup.fixture.revoke_access();
    let refusals = (0..10).map(|_| {
        credential.on_unauthorized(refused(
            401,
            "Bearer error=\"invalid_token\"",
            Some(sent.clone()),
        ))
    });
    let nexts = futures_util::future::join_all(refusals).await;
    assert_eq!(nexts, [RefusalResponse::TryAgain; 10]);
    assert_eq!(setup.fixture.refreshes.load(Ordering::SeqCst), 1);
    let token = credential.token().await.unwrap();
    assert!(setup.fixture.takes(token.reveal()));
}

#[tokio::test]
async fn a_refresh_token_that_is_refused_means_a_person_has_to_log_in() {
    let setup = Setup::with(Flaws::default()).await;
    let credential = setup.credential();
    setup.log_in(&credential).await.unwrap();
    let sent = credential.token().await.unwrap();
    setup.fixture.revoke_access();
    setup.fixture.revoke_refresh();
    let next = credential
        .on_unauthorized(refused(401, "Bearer", Some(sent)))
        .await;
    assert_eq!(next, RefusalResponse::LoginNeeded);
    assert!(matches!(credential.state().await, Ok(Login::Needed { .. })));
    assert_eq!(credential.token().await, None);
}

#[tokio::test]
async fn an_authorization_server_that_is_down_costs_one_try_and_no_login() {
    let setup = Setup::with(Flaws::default()).await;
    let credential = setup.credential();
    setup.log_in(&credential).await.unwrap();
    setup.clock.advance(Duration::from_secs(LASTS));
    setup.fixture.change(|flaws| flaws.refresh_breaks = true);
    for _ in 0..5 {
        assert_eq!(credential.token().await, None);
    }
    assert_eq!(setup.fixture.refreshes.load(Ordering::SeqCst), 1);
    setup.fixture.change(|flaws| flaws.refresh_breaks = false);
    setup.clock.advance(Duration::from_secs(6));
    assert!(credential.token().await.is_some());
}

#[tokio::test]
async fn an_issuer_that_changed_gets_nothing_of_the_old_one() {
    let setup = Setup::with(Flaws::default()).await;
    let credential = setup.credential();
    setup.log_in(&credential).await.unwrap();
    let other = Fixture::start(Flaws::default()).await;
    let issuer = other.base.as_str().trim_end_matches('/').to_owned();
    setup
        .fixture
        .change(|flaws| flaws.servers = Some(vec![issuer]));
    setup.clock.advance(Duration::from_secs(LASTS));
    assert_eq!(credential.token().await, None);
    assert_eq!(other.refreshes.load(Ordering::SeqCst), 0);
    assert!(matches!(credential.state().await, Ok(Login::Needed { .. })));
}

#[tokio::test]
async fn more_scopes_are_kept_for_the_next_login_and_asked_for_with_the_old_ones() {
    let setup = Setup::with(Flaws::default()).await;
    let credential = setup.credential();
    setup.log_in(&credential).await.unwrap();
    let sent = credential.token().await;
    let challenge = "Bearer error=\"insufficient_scope\", scope=\"write admin\"";
    let next = credential
        .on_unauthorized(refused(403, challenge, sent))
        .await;
    assert_eq!(next, RefusalResponse::LoginNeeded);
    let wanted = vec!["write".to_owned(), "admin".to_owned()];
    assert_eq!(credential.state().await.unwrap(), Login::Needed { wanted });
    setup.log_in(&credential).await.unwrap();
    assert_eq!(setup.fixture.scopes_asked(), "read write admin");
    assert!(matches!(credential.state().await, Ok(Login::In { .. })));
}

#[tokio::test]
async fn with_a_person_there_a_refusal_ends_in_a_login() {
    let setup = Setup::with(Flaws::default()).await;
    let mut parts = setup.parts("ada");
    parts.person = Some(Arc::new(person()));
    let credential = Credential::new(parts).unwrap();
    let metadata = format!(
        "{}.well-known/oauth-protected-resource/mcp",
        setup.fixture.base
    );
    let challenge = format!("Bearer resource_metadata=\"{metadata}\", scope=\"read\"");
    let next = credential
        .on_unauthorized(refused(401, &challenge, None))
        .await;
    assert_eq!(next, RefusalResponse::TryAgain);
    let token = credential.token().await;
    assert!(setup.fixture.takes(token.as_ref().unwrap().reveal()));
    let more = "Bearer error=\"insufficient_scope\", scope=\"write\"";
    let next = credential.on_unauthorized(refused(403, more, token)).await;
    assert_eq!(next, RefusalResponse::TryAgain);
    assert_eq!(setup.fixture.scopes_asked(), "read write");
    // It has what it asked for: the same again is no reason to ask again.
    let token = credential.token().await;
    let next = credential.on_unauthorized(refused(403, more, token)).await;
    assert_eq!(next, RefusalResponse::LoginNeeded);
}

#[tokio::test]
async fn a_registered_client_with_a_secret_presents_it_also_after_a_restart() {
    let setup = Setup::with(Flaws {
        secret: true,
        ..Flaws::default()
    })
    .await;
    setup.log_in(&setup.credential()).await.unwrap();
    setup.clock.advance(Duration::from_secs(LASTS));
    assert!(setup.credential().token().await.is_some());
    assert_eq!(setup.fixture.refreshes.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_client_registered_by_hand_needs_no_registration() {
    let setup = Setup::with(Flaws {
        no_registration: true,
        ..Flaws::default()
    })
    .await;
    let error = setup.log_in(&setup.credential()).await.unwrap_err();
    assert_eq!(error, LoginError::NoRegistration);
    let mut parts = setup.parts("ada");
    parts.options.client = Some(ClientIdentity {
        id: "by-hand".to_owned(),
        secret: Some(Secret::new("hush".to_owned())),
    });
    parts.options.issuer = Some(issuer(&setup.fixture));
    parts.options.scopes = vec!["special".to_owned()];
    assert!(!format!("{:?}", parts.options).contains("hush"));
    let credential = Credential::new(parts).unwrap();
    setup.log_in(&credential).await.unwrap();
    assert_eq!(setup.fixture.scopes_asked(), "special");
    setup.clock.advance(Duration::from_secs(LASTS));
    assert!(credential.token().await.is_some());
}

fn issuer(fixture: &Fixture) -> String {
    fixture.base.as_str().trim_end_matches('/').to_owned()
}

#[tokio::test]
async fn mc_20_the_secret_of_a_client_goes_to_the_issuer_that_was_configured_alone() {
    let setup = Setup::with(Flaws {
        no_registration: true,
        ..Flaws::default()
    })
    .await;
    let parts = |named: Option<String>| {
        let mut parts = setup.parts("ada");
        parts.options.client = Some(ClientIdentity {
            id: "by-hand".to_owned(),
            secret: Some(Secret::new("hush".to_owned())),
        });
        parts.options.issuer = named;
        parts
    };
    let unnamed = Credential::new(parts(None));
    assert_eq!(unnamed.err(), Some(LoginError::SecretForAnybody));

    // The server names somebody else.
    let other = Setup::with(Flaws::default()).await;
    let configured = issuer(&other.fixture);
    let credential = Credential::new(parts(Some(configured.clone()))).unwrap();
    let error = setup.log_in(&credential).await.unwrap_err();
    assert!(matches!(error, LoginError::WrongIssuer { .. }), "{error}");

    // It says that it is who was configured, where the protocol does not say who speaks.
    let odd = format!("{}/odd/.well-known/anything", issuer(&setup.fixture));
    setup.fixture.change(|flaws| {
        flaws.issuer = Some(configured.clone());
        flaws.servers = Some(vec![odd]);
    });
    let error = setup.log_in(&credential).await.unwrap_err();
    assert!(matches!(error, LoginError::WrongIssuer { .. }), "{error}");
    assert_eq!(
        setup.fixture.secrets(),
        [""; 0],
        "nobody got as far as a token"
    );
}

#[tokio::test]
async fn mc_20_another_issuer_in_the_redirect_is_refused() {
    let error = fails(Flaws {
        iss: Iss::Wrong,
        ..Flaws::default()
    })
    .await;
    assert!(
        matches!(error, LoginError::WrongIssuer { received, .. } if received == "https://evil.example")
    );
    let error = fails(Flaws {
        iss: Iss::Missing,
        ..Flaws::default()
    })
    .await;
    assert!(matches!(error, LoginError::NoIssuer(_)));
    let error = fails(Flaws {
        issuer: Some("https://evil.example".to_owned()),
        ..Flaws::default()
    })
    .await;
    assert!(matches!(error, LoginError::WrongIssuer { .. }), "{error:?}");
}

#[tokio::test]
async fn mc_20_metadata_for_another_audience_is_refused() {
    for resource in ["https://bank.example/mcp", "http://127.0.0.1:1/mcp"] {
        let error = fails(Flaws {
            resource: Some(resource.to_owned()),
            ..Flaws::default()
        })
        .await;
        assert_eq!(error, LoginError::WrongResource);
    }
}

#[tokio::test]
async fn an_authorization_server_without_s256_is_refused() {
    for methods in [vec![], vec!["plain"]] {
        let error = fails(Flaws {
            pkce: Some(methods),
            ..Flaws::default()
        })
        .await;
        assert_eq!(error, LoginError::NoPkce);
    }
}

#[tokio::test]
async fn ss_23_metadata_never_leads_to_a_metadata_address() {
    for to in [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        "https://evil.example/",
    ] {
        let error = fails(Flaws {
            redirect: Some(to.to_owned()),
            ..Flaws::default()
        })
        .await;
        assert!(
            matches!(error, LoginError::Refused(Refusal::Redirect { .. })),
            "{error:?}"
        );
    }
    // Named outright: the name resolves to a public address and to the one that must not be.
    let error = fails(Flaws {
        servers: Some(vec!["https://rebound.example".to_owned()]),
        ..Flaws::default()
    })
    .await;
    let class = AddressClass::Metadata;
    let host = "rebound.example".to_owned();
    assert_eq!(error, LoginError::Refused(Refusal::Address { host, class }));
    let error = fails(Flaws {
        token_endpoint: Some("https://rebound.example/token".to_owned()),
        ..Flaws::default()
    })
    .await;
    assert!(
        matches!(error, LoginError::Refused(Refusal::Address { .. })),
        "{error:?}"
    );
}

#[tokio::test]
async fn ss_23_a_redirect_to_another_origin_is_not_followed() {
    let other = Fixture::start(Flaws::default()).await;
    let error = fails(Flaws {
        redirect: Some(format!(
            "{}.well-known/oauth-protected-resource/mcp",
            other.base
        )),
        ..Flaws::default()
    })
    .await;
    assert!(
        matches!(error, LoginError::Refused(Refusal::Redirect { .. })),
        "{error:?}"
    );
    assert_eq!(other.requests.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn ss_23_ten_megabytes_of_metadata_are_not_taken() {
    let error = fails(Flaws {
        padding: 10 * 1024 * 1024,
        ..Flaws::default()
    })
    .await;
    assert!(
        matches!(error, LoginError::Refused(Refusal::TooLarge { .. })),
        "{error:?}"
    );
}

#[tokio::test]
async fn metadata_that_leads_in_circles_ends() {
    let error = fails(Flaws {
        redirect: Some("/loop".to_owned()),
        ..Flaws::default()
    })
    .await;
    assert!(matches!(error, LoginError::Metadata(_)), "{error:?}");
    // A thousand authorization servers, none of which answers with anything.
    let setup = Setup::with(Flaws {
        silent: true,
        ..Flaws::default()
    })
    .await;
    let servers = (0..1000).map(|number| format!("{}nobody-{number}", setup.fixture.base));
    let servers = Some(servers.collect());
    setup.fixture.change(|flaws| flaws.servers = servers);
    let error = setup.log_in(&setup.credential()).await.unwrap_err();
    assert!(
        matches!(error, LoginError::Refused(Refusal::TooManyRequests(_))),
        "{error:?}"
    );
    assert!(setup.fixture.requests.load(Ordering::SeqCst) < 50);
}

#[tokio::test]
async fn mc_21_a_page_that_is_no_web_page_is_not_shown() {
    for page in [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "http://evil.example/authorize",
        "https://169.254.169.254/authorize",
        "https://user@evil.example/authorize",
        "http://$(touch%20x).localhost;id/authorize",
    ] {
        let error = fails(Flaws {
            page: Some(page.to_owned()),
            ..Flaws::default()
        })
        .await;
        assert!(
            matches!(error, LoginError::Page(_) | LoginError::Metadata(_)),
            "{page}: {error:?}"
        );
    }
}

#[tokio::test]
async fn what_comes_back_must_answer_this_login() {
    let error = fails(Flaws {
        other_state: true,
        ..Flaws::default()
    })
    .await;
    assert!(matches!(error, LoginError::Callback(_)));
    let error = fails(Flaws {
        denies: true,
        ..Flaws::default()
    })
    .await;
    let LoginError::Denied(said) = &error else {
        panic!("{error:?}")
    };
    assert!(said.starts_with("access_denied: no "), "{said}");
    assert!(!said.contains('\u{1b}'));
    let error = fails(Flaws {
        token_type: Some("DPoP"),
        ..Flaws::default()
    })
    .await;
    assert_eq!(error, LoginError::TokenType);
    // The code was exchanged by then, so the hint must not say that nothing was sent.
    assert!(error.hint().ends_with("the token was not kept or used"));
}

#[tokio::test]
async fn a_server_that_says_nothing_of_logging_in_is_not_guessed_at() {
    let error = fails(Flaws {
        mute: true,
        ..Flaws::default()
    })
    .await;
    assert_eq!(error, LoginError::NotOffered);
    let setup = Setup::with(Flaws::default()).await;
    let mut parts = setup.parts("ada");
    parts.server = Url::parse("http://127.0.0.1:1/mcp").unwrap();
    let error = setup
        .log_in(&Credential::new(parts).unwrap())
        .await
        .unwrap_err();
    assert!(matches!(error, LoginError::Unreachable(_)), "{error:?}");
    let mut parts = setup.parts("ada");
    parts.server = Url::parse("http://mcp.example.com/mcp").unwrap();
    let error = Credential::new(parts).err().unwrap();
    assert!(matches!(error, LoginError::Refused(Refusal::Scheme(_))));
}

#[tokio::test]
async fn no_token_or_code_is_logged_or_part_of_an_error() {
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(log.clone());
    let setup = Setup::with(Flaws::default()).await;
    let credential = setup.credential();
    setup.log_in(&credential).await.unwrap();
    setup.clock.advance(Duration::from_secs(LASTS));
    credential.token().await.unwrap();
    setup.fixture.revoke_refresh();
    setup.clock.advance(Duration::from_secs(LASTS));
    assert_eq!(credential.token().await, None);
    let text = log.0.lock().unwrap().clone();
    assert!(text.contains("could not be refreshed"), "{text}");
    for secret in setup.fixture.secrets() {
        assert!(!text.contains(&secret), "{secret} in {text}");
    }
}

#[tokio::test]
async fn the_listener_takes_only_the_answer_it_waits_for() {
    let listener = Loopback::bind(0).await.unwrap();
    let redirect = listener.redirect().clone();
    assert_eq!(redirect.host_str(), Some("127.0.0.1"));
    let page = Url::parse("https://as.example/authorize?state=mine&x=1").unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let visit = async {
        let get = |query: &str| {
            let mut url = redirect.clone();
            url.set_query(Some(query));
            client.get(url).send()
        };
        assert_eq!(get("error=access_denied").await.unwrap().status(), 400);
        assert_eq!(get("code=stolen&state=other").await.unwrap().status(), 400);
        let rebound = client.get(redirect.clone()).header("host", "evil.example");
        assert_eq!(rebound.send().await.unwrap().status(), 400);
        let elsewhere = redirect.join("/favicon.ico").unwrap();
        assert_eq!(client.get(elsewhere).send().await.unwrap().status(), 404);
        let answer = get("code=c&state=mine").await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["referrer-policy"], "no-referrer");
        assert!(!answer.text().await.unwrap().contains("state"));
    };
    let (back, ()) = tokio::join!(listener.wait(&page, Duration::from_secs(10)), visit);
    assert_eq!(back.unwrap().query(), Some("code=c&state=mine"));
    let limit = Duration::from_millis(50);
    assert_eq!(
        listener.wait(&page, limit).await,
        Err(LoginError::Slow(limit))
    );
}

#[tokio::test]
async fn a_person_with_a_browser_logs_in_through_the_listener() {
    /// Opens the page like a browser: it follows redirects, also to the listener.
    struct Browser(Loopback);

    impl Person for Browser {
        fn redirect(&self) -> Url {
            self.0.redirect().clone()
        }

        fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<Url, LoginError>> {
            Box::pin(async move {
                let browser = reqwest::Client::builder().no_proxy().build().unwrap();
                let browser = browser.get(page.clone()).send();
                let (back, shown) =
                    tokio::join!(self.0.wait(page, Duration::from_secs(10)), browser);
                assert!(shown.unwrap().status().is_success());
                back
            })
        }
    }

    let setup = Setup::with(Flaws::default()).await;
    let credential = setup.credential();
    let browser = Browser(Loopback::bind(0).await.unwrap());
    credential.log_in(&browser).await.unwrap();
    assert!(credential.token().await.is_some());
    assert_eq!(setup.fixture.faults(), Vec::<String>::new());
}

/// Keeps every word of every log line, whatever its level.
#[derive(Default, Clone)]
struct Log(Arc<std::sync::Mutex<String>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Words<'a>(&'a mut String);
        impl tracing::field::Visit for Words<'_> {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                use std::fmt::Write as _;
                let _ = writeln!(self.0, "{field}={value:?}");
            }
        }
        event.record(&mut Words(&mut self.0.lock().unwrap()));
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}
