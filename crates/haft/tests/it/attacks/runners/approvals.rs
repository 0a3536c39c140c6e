//! AP-01 to AP-05 and AP-13: an approval serves one call of one plan of one principal, while it is
//! open, and a flood of questions stays in its own session.

use std::{sync::Arc, time::Duration};

use haft::{
    Haft,
    contract::{
        TenantId,
        host::{AnswerError, ApprovalState, GivenVerdict},
        outcome::DeniedBy,
    },
    prelude::*,
    runtime::digest_of,
};

use super::desk::{Desk, PATIENCE, allowed, asking, marking, now};
use crate::attacks::{
    attempt::{Verdict, check},
    corpus::Case,
    scene::Scene,
};

/// As many people at once as the corpus asks for.
const USERS: usize = 100;

/// One of them, in a session of their own.
fn user(desk: &Desk, number: usize) -> Haft {
    desk.haft.with_principal(Principal {
        user: format!("u{number}").parse().unwrap(),
        session: format!("s{number}").parse().unwrap(),
        ..Principal::clone(desk.haft.principal())
    })
}

/// AP-01: one yes and many calls, one after the other and side by side, for many users at once.
pub(super) async fn used_twice(case: &Case, verdict: &mut Verdict) {
    let desk = Desk::new(case).await;
    let first = desk.mark("serial");
    let asked = desk.open(1).await.remove(0);
    desk.approve(&asked).await;
    let outcome = first.await.unwrap();
    verdict.twin(
        "the approved call",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    verdict.attempt("the same call again", desk.waits(desk.mark("serial")).await);
    let used = desk.answer(&asked, GivenVerdict::Approve).await;
    let refused = matches!(used, Err(AnswerError::NotOpen { .. }));
    verdict.attempt("the same yes again", check(refused, || format!("{used:?}")));
    let marks = desk.marks("serial");
    verdict.attempt("one effect", check(marks == 1, || marks.to_string()));

    let before = desk.asked(0).await.len();
    let calls: Vec<_> = (0..USERS).map(|_| desk.mark("parallel")).collect();
    // Every call has found the one question before the one answer comes.
    desk.asked(before + USERS).await;
    let asked = desk.open(1).await.remove(0);
    desk.approve(&asked).await;
    let (mut ended, mut ran) = (0, 0);
    for call in calls {
        if let Ok(outcome) = tokio::time::timeout(PATIENCE, call).await {
            ended += 1;
            ran += usize::from(outcome.unwrap().succeeded());
        }
    }
    let marks = desk.marks("parallel");
    verdict.attempt(
        "a hundred at once",
        check(ended == USERS && ran == 1 && marks == 1, || {
            format!("{ended} ended, {ran} ran, {marks} effects")
        }),
    );
    desk.haft.close().await.unwrap();

    let desk = Desk::new(case).await;
    let mut calls = Vec::new();
    for number in 0..USERS {
        let theirs = user(&desk, number);
        for _ in 0..3 {
            let (theirs, word) = (theirs.clone(), format!("u{number}"));
            calls.push(tokio::spawn(async move {
                theirs.call("bash", marking(&word)).await
            }));
        }
    }
    desk.asked(3 * USERS).await;
    for asked in desk.open(USERS).await {
        desk.approve(&asked).await;
    }
    let mut left = 0;
    for call in calls {
        left += usize::from(tokio::time::timeout(PATIENCE, call).await.is_err());
    }
    let wrong: Vec<_> = (0..USERS)
        .map(|number| (number, desk.marks(&format!("u{number}"))))
        .filter(|(_, marks)| *marks != 1)
        .collect();
    verdict.attempt(
        "a hundred users with three identical calls each",
        check(left == 0 && wrong.is_empty(), || {
            format!("{left} did not end, {wrong:?}")
        }),
    );
    desk.haft.close().await.unwrap();

    let desk = allowed(Scene::in_memory(case)).await;
    for _ in 0..2 {
        desk.mark("again").await.unwrap();
    }
    let marks = desk.marks("again");
    verdict.control(
        "a yes kept as a rule",
        check(marks == 2, || marks.to_string()),
    );
    desk.haft.close().await.unwrap();
}

fn writing(path: &str, content: &str) -> Value {
    json!({ "path": path, "content": content })
}

/// AP-02: what is not the same plan does not get its yes; what means the same does.
pub(super) async fn mutated(case: &Case, verdict: &mut Verdict) {
    let desk = Desk::new(case).await;
    let yes = desk.unused("write", writing("caf\u{e9}", "hello\n")).await;
    let others = [
        ("one byte", writing("caf\u{e9}", "hellO\n")),
        ("another path", writing("cafe", "hello\n")),
        ("another normal form", writing("cafe\u{301}", "hello\n")),
    ];
    for (what, arguments) in others {
        verdict.attempt(what, desk.waits(desk.begin("write", arguments)).await);
    }
    let more = json!({"path": "caf\u{e9}", "content": "hello\n", "sudo": true});
    let call = desk.begin("write", more);
    verdict.attempt("a field nobody knows", desk.is_invalid(call).await);
    let twice = r#"{"path": "café", "content": "hello\n", "content": "evil\n"}"#;
    let request = CallRequest::from_text("write", twice, Arc::clone(desk.haft.principal()));
    let runtime = desk.haft.runtime().clone();
    let call = tokio::spawn(async move { runtime.call(request).await });
    verdict.attempt("a key given twice", desk.is_invalid(call).await);
    let untouched = !desk.scene.workspace.join("caf\u{e9}").exists();
    verdict.attempt(
        "no effect",
        check(untouched, || "it was written".to_owned()),
    );
    let kept = matches!(desk.state(&yes).await, ApprovalState::Approved { .. });
    verdict.attempt(
        "the yes is unused",
        check(kept, || "it was used".to_owned()),
    );
    let same = digest_of(&json!({"n": 1, "m": 2})) == digest_of(&json!({"m": 2.0, "n": 1.0}));
    verdict.twin(
        "1 and 1.0 in another order",
        check(same, || "differ".to_owned()),
    );
    let ordered = "{\"content\" : \"hello\\n\",\n\"path\": \"caf\\u00e9\"}";
    let request = CallRequest::from_text("write", ordered, Arc::clone(desk.haft.principal()));
    let outcome = desk.haft.runtime().call(request).await;
    let used = ApprovalState::Used { by: outcome.call };
    verdict.twin(
        "the same in another order",
        check(
            outcome.succeeded() && desk.state(&yes).await == used,
            || outcome.model_text(),
        ),
    );
    let free = allowed(Scene::in_memory(case)).await;
    let outcome = free
        .begin("write", writing("caf\u{e9}", "hellO\n"))
        .await
        .unwrap();
    verdict.control(
        "a yes kept as a rule",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    free.haft.close().await.unwrap();
    desk.haft.close().await.unwrap();
}

/// AP-03: the same call in another world asks again.
pub(super) async fn other_world(case: &Case, verdict: &mut Verdict) {
    let desk = Desk::new(case).await;
    std::fs::create_dir(desk.scene.workspace.join("sub")).unwrap();
    let yes = desk.unused("bash", marking("world")).await;
    let mut elsewhere = marking("world");
    elsewhere["cwd"] = json!("sub");
    verdict.attempt(
        "another directory",
        desk.waits(desk.begin("bash", elsewhere)).await,
    );
    let mut longer = marking("world");
    longer["timeout_ms"] = json!(5_000);
    verdict.attempt(
        "another deadline",
        desk.waits(desk.begin("bash", longer)).await,
    );
    desk.haft.close().await.unwrap();

    let scene = Arc::clone(&desk.scene);
    let rules = Desk::again(Arc::clone(&scene), |builder| builder.ask("read(never)")).await;
    verdict.attempt("other rules", rules.waits(rules.mark("world")).await);
    rules.haft.close().await.unwrap();
    let confined = Desk::again(Arc::clone(&scene), |builder| {
        builder
            .local(haft::LocalOptions {
                sandbox: crate::attacks::place::sandbox(&[]),
                ..haft::LocalOptions::default()
            })
            .sandbox("bash", SandboxMode::Full)
    })
    .await;
    verdict.attempt("another tier", confined.waits(confined.mark("world")).await);
    confined.haft.close().await.unwrap();

    let desk = Desk::again(scene, |builder| builder).await;
    let marks = desk.marks("world");
    verdict.attempt("no effect", check(marks == 0, || marks.to_string()));
    std::fs::write(desk.scene.workspace.join("target"), "old").unwrap();
    let other = desk.unused("write", writing("target", "new")).await;
    std::fs::write(desk.scene.workspace.join("target"), "changed").unwrap();
    let call = desk.begin("write", writing("target", "new"));
    verdict.attempt("another target", desk.waits(call).await);
    let kept = matches!(desk.state(&other).await, ApprovalState::Approved { .. });
    verdict.attempt(
        "that yes is unused",
        check(kept, || "it was used".to_owned()),
    );
    let outcome = desk.mark("world").await.unwrap();
    let used = ApprovalState::Used { by: outcome.call };
    verdict.twin(
        "the same call in the same world",
        check(
            outcome.succeeded() && desk.state(&yes).await == used,
            || outcome.model_text(),
        ),
    );
    desk.haft.close().await.unwrap();
    let free = allowed(Scene::in_memory(case)).await;
    std::fs::create_dir(free.scene.workspace.join("sub")).unwrap();
    let mut elsewhere = marking("world");
    elsewhere["cwd"] = json!("sub");
    let outcome = free.begin("bash", elsewhere).await.unwrap();
    verdict.control(
        "a yes kept as a rule",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    free.haft.close().await.unwrap();
}

/// AP-04: somebody else's yes is not there, neither to use nor to look at.
pub(super) async fn somebody_elses(case: &Case, verdict: &mut Verdict) {
    let desk = Desk::new(case).await;
    let yes = desk.unused("bash", marking("mine")).await;
    let own = Principal::clone(desk.haft.principal());
    let others = [
        (
            "another session",
            Principal {
                session: "other".parse().unwrap(),
                ..own.clone()
            },
        ),
        (
            "another agent",
            Principal {
                agent: "other".parse().unwrap(),
                ..own.clone()
            },
        ),
        (
            "another user",
            Principal {
                user: "other".parse().unwrap(),
                ..own.clone()
            },
        ),
        (
            "a sub-agent",
            Principal {
                ancestors: vec![own.agent.clone()],
                ..own.clone()
            },
        ),
    ];
    for (who, principal) in others {
        let theirs = desk.haft.with_principal(principal);
        let call = tokio::spawn(async move { theirs.call("bash", marking("mine")).await });
        verdict.attempt(who, desk.waits(call).await);
    }
    let tenant = TenantId::parse("other").unwrap();
    let found = desk.store().get(&tenant, yes.id).await.unwrap();
    verdict.attempt(
        "another tenant looks",
        check(found.is_none(), || format!("{found:?}")),
    );
    let marks = desk.marks("mine");
    verdict.attempt("no effect", check(marks == 0, || marks.to_string()));
    let outcome = desk.mark("mine").await.unwrap();
    verdict.twin(
        "the one who asked",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    desk.haft.close().await.unwrap();
    let free = allowed(Scene::in_memory(case)).await;
    let theirs = free.haft.session("other", SessionKind::Main).unwrap();
    let outcome = theirs.call("bash", marking("mine")).await;
    verdict.control(
        "a yes kept as a rule for everybody",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    free.haft.close().await.unwrap();
}

/// AP-05: what is no longer open cannot be answered.
pub(super) async fn no_longer_open(case: &Case, verdict: &mut Verdict) {
    let short = Desk::again(Scene::in_memory(case), |builder| {
        let limits = asking(100, Duration::from_millis(100));
        builder.configure(|runtime| runtime.limits(limits))
    })
    .await;
    let outcome = short.mark("late").await.unwrap();
    let expired = outcome.facts.denied_by == Some(DeniedBy::Expired);
    verdict.attempt("nobody answers", check(expired, || outcome.model_text()));
    let late = short.lapsed().await;
    short.haft.close().await.unwrap();
    let mut closed = vec![("after its time", late)];

    // The others have all the time there is, so that it is not time that closes them.
    let desk = Desk::again(Arc::clone(&short.scene), |builder| builder).await;

    let refused = desk.mark("refused");
    let asked = desk.open(1).await.remove(0);
    let no = GivenVerdict::Refuse { reason: None };
    desk.answer(&asked, no).await.unwrap();
    refused.await.unwrap();
    closed.push(("after a no", asked));

    let cancelled = desk.mark("cancelled");
    let asked = desk.open(1).await.remove(0);
    cancelled.abort();
    desk.open(0).await;
    closed.push(("after its call was cancelled", asked));

    let ended = desk.mark("ended");
    let asked = desk.open(1).await.remove(0);
    desk.haft.end_session().await;
    ended.await.unwrap();
    closed.push(("after the session ended", asked));

    for (when, asked) in &closed {
        let answered = desk.answer(asked, GivenVerdict::Approve).await;
        let refused = matches!(answered, Err(AnswerError::NotOpen { .. }));
        verdict.attempt(when, check(refused, || format!("{answered:?}")));
    }
    let marks: usize = ["late", "refused", "cancelled", "ended"]
        .iter()
        .map(|word| desk.marks(word))
        .sum();
    verdict.attempt("no effect", check(marks == 0, || marks.to_string()));
    let call = desk.mark("in-time");
    let asked = desk.open(1).await.remove(0);
    desk.approve(&asked).await;
    let outcome = call.await.unwrap();
    verdict.twin(
        "in time",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    desk.haft.close().await.unwrap();
    let free = allowed(Scene::in_memory(case)).await;
    let outcome = free.mark("late").await.unwrap();
    verdict.control(
        "a yes kept as a rule without an end",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    free.haft.close().await.unwrap();
}

/// AP-13: a hundred users flood at once; each is capped alone, and the same question is one.
pub(super) async fn flood(case: &Case, verdict: &mut Verdict) {
    const MOST: usize = 3;
    let desk = Desk::again(Scene::in_memory(case), |builder| {
        let limits = asking(MOST, Duration::from_mins(10));
        builder.configure(|runtime| runtime.limits(limits))
    })
    .await;
    let mut calls = Vec::new();
    for number in 0..USERS {
        let theirs = user(&desk, number);
        for n in 0..MOST + 2 {
            // Every question twice: the second is the first.
            for _ in 0..2 {
                let (theirs, word) = (theirs.clone(), format!("u{number}-{n}"));
                calls.push(tokio::spawn(async move {
                    theirs.call("bash", marking(&word)).await
                }));
            }
        }
    }
    let open = desk.open(MOST * USERS).await;
    let most = (0..USERS).map(|number| {
        let name = format!("u{number}");
        let theirs = open
            .iter()
            .filter(|asked| asked.principal.user.as_str() == name);
        theirs.count()
    });
    let most: Vec<usize> = most.collect();
    verdict.attempt(
        "a hundred users",
        check(most.iter().all(|count| *count == MOST), || {
            format!("{most:?}")
        }),
    );
    let outcome = user(&desk, 0).call("bash", marking("one-more")).await;
    let told = outcome.model_text().contains("open questions already");
    verdict.attempt("one more", check(told, || outcome.model_text()));
    let later = now();
    let pending = desk
        .store()
        .pending(&desk.tenant(), later, 10)
        .await
        .unwrap();
    verdict.attempt(
        "the oldest come first",
        check(pending.is_sorted_by_key(|asked| asked.asked), || {
            "unsorted".to_owned()
        }),
    );
    let other = desk.haft.with_principal(Principal {
        user: "quiet".parse().unwrap(),
        session: "quiet".parse().unwrap(),
        ..Principal::clone(desk.haft.principal())
    });
    let call = tokio::spawn(async move { other.call("bash", marking("quiet")).await });
    let asked = desk.open_in("quiet").await;
    desk.approve(&asked).await;
    let outcome = call.await.unwrap();
    verdict.twin(
        "another user",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    for call in calls {
        call.abort();
    }
    desk.haft.close().await.unwrap();
    // Without the cap the same flood is asked about whole.
    let desk = Desk::again(Scene::in_memory(case), |builder| {
        let limits = asking(10_000, Duration::from_mins(10));
        builder.configure(|runtime| runtime.limits(limits))
    })
    .await;
    let calls: Vec<_> = (0..MOST + 2).map(|n| desk.mark(&format!("f{n}"))).collect();
    let open = desk.open(MOST + 2).await.len();
    verdict.control("no cap", check(open == MOST + 2, || open.to_string()));
    for call in calls {
        call.abort();
    }
    desk.haft.close().await.unwrap();
}
