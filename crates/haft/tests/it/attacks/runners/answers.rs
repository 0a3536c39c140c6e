//! AP-06, AP-07, AP-10 to AP-12 and AP-14 to AP-16: who may answer, and what a yes is still worth
//! when the world has moved on. Read next: `shown.rs` for what they are shown.

use std::{sync::Arc, time::Duration};

use haft::{
    contract::{
        host::{
            AnswerError, Answerer, ApprovalState, GivenVerdict, Grant, GrantId, GrantRequest,
            GrantScope, Ledger as _,
        },
        outcome::DeniedBy,
    },
    prelude::*,
};

use super::desk::{Desk, PATIENCE, allowed, asking, marking, now, person};
use crate::attacks::{
    attempt::{Verdict, check},
    corpus::Case,
    scene::Scene,
};

/// AP-06: nobody answers their own question.
pub(super) async fn own_question(case: &Case, verdict: &mut Verdict) {
    let desk = Desk::new(case).await;
    let call = desk.mark("own");
    let asked = desk.open(1).await.remove(0);
    let origin = Principal::clone(&asked.principal);
    let with_scope = |principal: Principal| Principal {
        scopes: ["approve".parse().unwrap()].into(),
        ..principal
    };
    let other = Principal {
        agent: "reviewer".parse().unwrap(),
        session: "review".parse().unwrap(),
        ..origin.clone()
    };
    let credentials = [
        ("the agent itself", with_scope(origin.clone())),
        (
            "a sub-agent",
            with_scope(Principal {
                agent: "child".parse().unwrap(),
                ancestors: vec![origin.agent.clone()],
                ..other.clone()
            }),
        ),
        (
            "somebody in the same session",
            with_scope(Principal {
                session: origin.session.clone(),
                ..other.clone()
            }),
        ),
        (
            "another tenant",
            with_scope(Principal {
                tenant: "other".parse().unwrap(),
                ..other.clone()
            }),
        ),
        ("a credential without the scope", other.clone()),
    ];
    for (who, principal) in credentials {
        let by = Answerer::Credential(Arc::new(principal));
        let answered = desk
            .answer_as(&asked, GivenVerdict::Approve, asked.digest, by)
            .await;
        let refused = matches!(answered, Err(AnswerError::NotYours));
        verdict.attempt(who, check(refused, || format!("{answered:?}")));
    }
    let marks = desk.marks("own");
    verdict.attempt("no effect", check(marks == 0, || marks.to_string()));
    let by = Answerer::Credential(Arc::new(with_scope(other)));
    let answered = desk
        .answer_as(&asked, GivenVerdict::Approve, asked.digest, by)
        .await;
    let outcome = call.await.unwrap();
    verdict.twin(
        "another agent with the scope",
        check(answered.is_ok() && outcome.succeeded(), || {
            outcome.model_text()
        }),
    );
    desk.haft.close().await.unwrap();
    let free = allowed(Scene::in_memory(case)).await;
    let outcome = free.mark("own").await.unwrap();
    verdict.control(
        "a rule the agent could have written",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    free.haft.close().await.unwrap();
}

/// AP-07: an answer given before, to this question or another, does not count again.
pub(super) async fn replayed(case: &Case, verdict: &mut Verdict) {
    let desk = Desk::new(case).await;
    let first = desk.mark("first");
    let old = desk.open(1).await.remove(0);
    desk.approve(&old).await;
    first.await.unwrap();
    let second = desk.mark("second");
    let asked = desk.open(1).await.remove(0);
    let answered = desk
        .answer_as(&asked, GivenVerdict::Approve, old.digest, person())
        .await;
    let refused = matches!(answered, Err(AnswerError::OtherPlan));
    verdict.attempt("an old digest", check(refused, || format!("{answered:?}")));
    let answered = desk.answer(&old, GivenVerdict::Approve).await;
    let refused = matches!(answered, Err(AnswerError::NotOpen { .. }));
    verdict.attempt(
        "an old question",
        check(refused, || format!("{answered:?}")),
    );
    let marks = desk.marks("second");
    verdict.attempt("no effect", check(marks == 0, || marks.to_string()));
    desk.answer(&asked, GivenVerdict::Refuse { reason: None })
        .await
        .unwrap();
    let answered = desk.answer(&asked, GivenVerdict::Approve).await;
    let refused = matches!(answered, Err(AnswerError::NotOpen { .. }));
    verdict.attempt(
        "a yes after the no",
        check(refused, || format!("{answered:?}")),
    );
    second.await.unwrap();
    let third = desk.mark("third");
    let asked = desk.open(1).await.remove(0);
    desk.approve(&asked).await;
    let outcome = third.await.unwrap();
    verdict.twin(
        "the first answer",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    desk.haft.close().await.unwrap();
    let free = allowed(Scene::in_memory(case)).await;
    let outcome = free.mark("second").await.unwrap();
    verdict.control(
        "a yes kept as a rule",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    free.haft.close().await.unwrap();
}

/// AP-10: time runs out into a no, and a restart keeps what is open as open.
pub(super) async fn timeout_and_restart(case: &Case, verdict: &mut Verdict) {
    let limits = asking(100, Duration::from_millis(100));
    let desk = Desk::again(Scene::in_memory(case), |builder| {
        builder.configure(|runtime| runtime.limits(limits))
    })
    .await;
    let outcome = desk.mark("late").await.unwrap();
    let expired = outcome.facts.denied_by == Some(DeniedBy::Expired) && desk.marks("late") == 0;
    verdict.attempt("nobody answers", check(expired, || outcome.model_text()));
    desk.haft.close().await.unwrap();

    let desk = Desk::new(case).await;
    let call = desk.mark("kept");
    let asked = desk.open(1).await.remove(0);
    // Another process over the same record, while the first is still there.
    let next = Desk::again(Arc::clone(&desk.scene), |builder| builder).await;
    let pending = next.state(&asked).await == ApprovalState::Pending;
    verdict.attempt(
        "another process",
        check(pending, || "not pending".to_owned()),
    );
    let marks = next.marks("kept");
    verdict.attempt("no effect", check(marks == 0, || marks.to_string()));
    next.approve(&asked).await;
    let outcome = call.await.unwrap();
    verdict.twin(
        "answered in another process",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    next.haft.close().await.unwrap();
    desk.haft.close().await.unwrap();
    // The first call once more: it did not run only because nobody had answered.
    let answered = Desk::new(case).await;
    let call = answered.mark("late");
    let asked = answered.open(1).await.remove(0);
    answered.approve(&asked).await;
    let outcome = call.await.unwrap();
    let ran = outcome.succeeded() && answered.marks("late") == 1;
    verdict.control("answered in time", check(ran, || outcome.model_text()));
    answered.haft.close().await.unwrap();
}

fn grant(desk: &Desk, rule: &str) -> Grant {
    let who = desk.haft.principal();
    Grant {
        id: GrantId::new(),
        tenant: who.tenant.clone(),
        user: who.user.clone(),
        rule: rule.to_owned(),
        scope: GrantScope::Session(who.session.clone()),
        until: None,
        uses_left: None,
        made_by: "ada".to_owned(),
        made_at: now(),
        cause: None,
    }
}

/// Calls under a grant: these still ask, this one does not.
async fn granted(case: &Case, verdict: &mut Verdict, rules: &[&str], asks: &[&str], passes: &str) {
    let desk = Desk::new(case).await;
    let grants = desk.haft.ledger().grants();
    for rule in rules {
        grants.add(grant(&desk, rule)).await.unwrap();
    }
    for command in asks {
        let call = desk.begin("bash", json!({ "command": command }));
        verdict.attempt(command, desk.waits(call).await);
    }
    let evil = desk.scene.workspace.join("evil").exists();
    verdict.attempt("no effect", check(!evil, || "it ran".to_owned()));
    let call = desk.begin("bash", json!({ "command": passes }));
    let ended = tokio::time::timeout(PATIENCE, call).await;
    let free = ended.is_ok_and(|outcome| outcome.unwrap().facts.denied_by.is_none());
    verdict.twin(passes, check(free, || "it asked".to_owned()));
    desk.haft.close().await.unwrap();
}

/// AP-11: what runs anything is granted word for word or not at all.
pub(super) async fn always_anything(case: &Case, verdict: &mut Verdict) {
    for (rule, asks) in [
        ("bash(bash -lc *)", "bash -lc 'touch evil'"),
        ("bash(env *)", "env touch evil"),
        ("bash(python3 -c *)", "python3 -c 'open(\"evil\", \"w\")'"),
    ] {
        let rules = [rule, "bash(echo ok)"];
        granted(case, verdict, &rules, &[asks], "echo ok").await;
        // A person who wishes for it is told that it was not kept.
        let scene = Scene::in_memory(case);
        let desk = Desk::again(scene, |builder| {
            builder.approve_with(move |request| async move {
                ApprovalAnswer::Approved {
                    by: "ada".to_owned(),
                    digest: request.digest,
                    grant: Some(GrantRequest {
                        rules: vec![rule.to_owned()],
                        scope: GrantScope::Session(request.principal.session.clone()),
                        until: None,
                        uses: None,
                    }),
                }
            })
        })
        .await;
        let outcome = desk
            .begin("bash", json!({ "command": asks }))
            .await
            .unwrap();
        let told = outcome.text().contains("was not kept");
        verdict.attempt(rule, check(told, || outcome.model_text()));
        let tenant = desk.tenant();
        let kept = desk
            .haft
            .ledger()
            .grants()
            .list(&tenant, now())
            .await
            .unwrap();
        verdict.attempt(rule, check(kept.is_empty(), || format!("{kept:?}")));
        desk.haft.close().await.unwrap();
    }
    let free = allowed(Scene::in_memory(case)).await;
    let call = free.begin("bash", json!({ "command": "bash -lc 'touch evil'" }));
    let outcome = call.await.unwrap();
    verdict.control(
        "a rule for the whole program",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    free.haft.close().await.unwrap();
}

/// AP-12: a prefix covers words of one command, and none that makes it do something else.
pub(super) async fn wide_prefix(case: &Case, verdict: &mut Verdict) {
    let asks = [
        "git -c alias.x='!touch evil' x",
        "git -c core.pager='touch evil' log",
        "git status; touch evil",
    ];
    granted(case, verdict, &["bash(git *)"], &asks, "git status --short").await;
    let denied = Desk::again(Scene::in_memory(case), |builder| {
        builder.deny("bash(git push *)")
    })
    .await;
    denied
        .haft
        .ledger()
        .grants()
        .add(grant(&denied, "bash(git push *)"))
        .await
        .unwrap();
    let outcome = denied
        .begin("bash", json!({ "command": "git push x" }))
        .await
        .unwrap();
    let by_policy = outcome.facts.denied_by == Some(DeniedBy::Policy);
    verdict.attempt("deny wins", check(by_policy, || outcome.model_text()));
    denied.haft.close().await.unwrap();
    let free = allowed(Scene::in_memory(case)).await;
    let call = free.begin("bash", json!({ "command": asks[0] }));
    call.await.unwrap();
    let evil = free.scene.workspace.join("evil").exists();
    verdict.control(
        "a rule for every word",
        check(evil, || "it did not run".to_owned()),
    );
    free.haft.close().await.unwrap();
}

/// AP-14: a yes that was given and not used serves one call of the next process, once.
pub(super) async fn restart(case: &Case, verdict: &mut Verdict) {
    let desk = Desk::new(case).await;
    let yes = desk.unused("bash", marking("restart")).await;
    desk.haft.close().await.unwrap();
    let next = Desk::again(Arc::clone(&desk.scene), |builder| builder).await;
    let outcome = next.mark("restart").await.unwrap();
    let used = ApprovalState::Used { by: outcome.call };
    verdict.twin(
        "after a restart",
        check(
            outcome.succeeded() && next.state(&yes).await == used,
            || outcome.model_text(),
        ),
    );
    verdict.attempt("and once more", next.waits(next.mark("restart")).await);
    next.haft.close().await.unwrap();
    let third = Desk::again(Arc::clone(&desk.scene), |builder| builder).await;
    verdict.attempt(
        "after another restart",
        third.waits(third.mark("restart")).await,
    );
    let marks = third.marks("restart");
    verdict.attempt("one effect", check(marks == 1, || marks.to_string()));
    third.haft.close().await.unwrap();
    let free = allowed(Scene::in_memory(case)).await;
    for _ in 0..2 {
        free.mark("restart").await.unwrap();
    }
    let marks = free.marks("restart");
    verdict.control(
        "a yes kept as a rule",
        check(marks == 2, || marks.to_string()),
    );
    free.haft.close().await.unwrap();
}

/// AP-15: rules that deny by now win over a yes.
pub(super) async fn denied_meanwhile(case: &Case, verdict: &mut Verdict) {
    let desk = Desk::new(case).await;
    desk.unused("bash", marking("policy")).await;
    desk.haft.close().await.unwrap();
    let strict = Desk::again(Arc::clone(&desk.scene), |builder| builder.deny("bash")).await;
    let outcome = strict.mark("policy").await.unwrap();
    let by_policy = outcome.facts.denied_by == Some(DeniedBy::Policy);
    verdict.attempt("now denied", check(by_policy, || outcome.model_text()));
    let marks = strict.marks("policy");
    verdict.attempt("no effect", check(marks == 0, || marks.to_string()));
    strict.haft.close().await.unwrap();
    let same = Desk::again(Arc::clone(&desk.scene), |builder| builder).await;
    let outcome = same.mark("policy").await.unwrap();
    verdict.twin(
        "the same rules",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    same.haft.close().await.unwrap();
    // The same yes over the same restart, and rules that were left alone.
    let before = Desk::new(case).await;
    let yes = before.unused("bash", marking("policy")).await;
    before.haft.close().await.unwrap();
    let after = Desk::again(Arc::clone(&before.scene), |builder| builder).await;
    let outcome = after.mark("policy").await.unwrap();
    let used = ApprovalState::Used { by: outcome.call };
    let ran = after.marks("policy") == 1 && after.state(&yes).await == used;
    verdict.control(
        "rules that were left alone",
        check(ran, || outcome.model_text()),
    );
    after.haft.close().await.unwrap();
}
