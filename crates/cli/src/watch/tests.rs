//! Keys and what they do, and what the screen shows, without a terminal.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    AgentId, CallId, Principal, SessionId, UserId,
    agent_question::AgentQuestion,
    host::{
        AgentQuestionId, AgentQuestionState, Approval, ApprovalId, ApprovalState, AskedQuestion,
        GivenReply, GivenVerdict, Timestamp,
    },
};
use ratatui::{Terminal, backend::TestBackend};
use serde_json::json;

use super::{
    render,
    state::{Mode, ScreenSize, WatchState},
    update::{Event, Key, WatchAction},
};
use crate::terminal::Colours;

const SMALL: ScreenSize = ScreenSize {
    width: 80,
    height: 24,
};

const START: Timestamp = Timestamp(1_700_000_000_000_000);

fn at(milliseconds: u64) -> Timestamp {
    START.after(Duration::from_millis(milliseconds))
}

fn approval(agent: &str, script: &str, diff_lines: usize) -> Approval {
    let diff: Vec<String> = (0..diff_lines)
        .map(|line| format!("+line {line}"))
        .collect();
    let diff = diff.join("\n");
    let mut preview = vec![json!({
        "kind": "command", "text": script, "touches": [], "opaque": null, "verdict": "ask",
    })];
    if diff_lines > 0 {
        preview.push(json!({
            "kind": "diff", "path": "a.txt", "change": "create", "to": null, "text": diff,
            "note": null,
        }));
    }
    let form = json!({
        "tool": "builtin/bash",
        "principal": {"agent": agent, "user": "ada", "session": "main", "kind": "main"},
        "workspace": "/work",
        "input": {"command": script},
        "accesses": [{"kind": "command", "command": {"shell": script}, "cwd": "."}],
        "effects": [false, false, true, true],
        "tier": "t2",
        "egress": null,
        "deadline_ms": 1000,
        "preview": preview,
    });
    let principal = Principal::local(
        UserId::parse("ada").unwrap(),
        AgentId::parse(agent).unwrap(),
        SessionId::parse("main").unwrap(),
    );
    Approval {
        id: ApprovalId::new(),
        call: CallId::new(),
        principal: Arc::new(principal),
        digest: haft_runtime::digest_of(&form),
        form: Some(Arc::new(form)),
        summary: format!("bash: {script}"),
        asked: START,
        expires: START.after(Duration::from_mins(10)),
        state: ApprovalState::Pending,
    }
}

/// A screen with these open questions.
fn watching(pending: &[Approval]) -> WatchState {
    let mut watch = WatchState::new(SMALL);
    watch.update(Event::Fresh(pending.to_vec()), at(5_000));
    watch
}

/// Presses keys, a second apart.
fn press(watch: &mut WatchState, keys: &str) -> Vec<WatchAction> {
    let mut wishes = Vec::new();
    for key in keys.chars() {
        let key = match key {
            '\n' => Key::Enter,
            '\u{8}' => Key::Backspace,
            '\u{1b}' => Key::Escape,
            c => Key::Char(c),
        };
        let now = watch.now.after(Duration::from_secs(1));
        wishes.extend(watch.update(Event::Pressed(key), now));
    }
    wishes
}

fn screen(watch: &WatchState) -> String {
    let backend = TestBackend::new(watch.size.width, watch.size.height);
    let mut terminal = Terminal::new(backend).unwrap();
    terminal
        .draw(|frame| render::draw(watch, Colours::Off, frame))
        .unwrap();
    terminal.backend().to_string()
}

fn masked(screen: &str) -> String {
    let ids = regex::Regex::new("[0-9a-f]{8}-[0-9a-f-]{27}").unwrap();
    let screen = ids.replace_all(screen, "[ID]                                ");
    let times = regex::Regex::new(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d").unwrap();
    times
        .replace_all(&screen, "[TIME]             ")
        .into_owned()
}

fn verdicts(wishes: &[WatchAction]) -> Vec<GivenVerdict> {
    let verdict = |wish: &WatchAction| match wish {
        WatchAction::Answer(given) => Some(given.verdict.clone()),
        WatchAction::Reply(_) | WatchAction::Leave => None,
    };
    wishes.iter().filter_map(verdict).collect()
}

#[test]
fn the_list_and_a_question_on_a_small_screen() {
    let pending = [
        approval("coder", "git push", 0),
        approval("cli", "ls -l", 0),
    ];
    let mut watch = watching(&pending);
    insta::assert_snapshot!("list", masked(&screen(&watch)));
    press(&mut watch, "\n");
    insta::assert_snapshot!("question", masked(&screen(&watch)));
    press(&mut watch, "?");
    insta::assert_snapshot!("help", masked(&screen(&watch)));
}

#[test]
fn yes_answers_the_question_that_is_on_the_screen() {
    let pending = [
        approval("coder", "git push", 0),
        approval("cli", "ls -l", 0),
    ];
    let mut watch = watching(&pending);
    let wishes = press(&mut watch, "j\ny");
    let [WatchAction::Answer(given)] = wishes.as_slice() else {
        panic!("{wishes:?}");
    };
    assert_eq!(given.id, pending[1].id);
    assert_eq!(given.digest, pending[1].digest);
    assert_eq!(given.verdict, GivenVerdict::Approve);
}

#[test]
fn ap_08_yes_takes_having_seen_all_of_it() {
    let pending = [approval("coder", "git push", 100)];
    let mut watch = watching(&pending);
    assert_eq!(press(&mut watch, "\ny"), []);
    let shown = screen(&watch);
    assert!(shown.contains("you have not seen all of it yet"), "{shown}");
    // Any number of yes keys only scrolls further, until the end has been shown.
    let mut presses = 0;
    let wishes = loop {
        let wishes = press(&mut watch, "y");
        presses += 1;
        if !wishes.is_empty() {
            break wishes;
        }
        assert!(presses < 20, "{}", screen(&watch));
    };
    assert!(presses > 4, "{presses}");
    assert_eq!(verdicts(&wishes), [GivenVerdict::Approve]);
}

#[test]
fn ap_08_a_screen_of_another_size_must_be_seen_again() {
    let pending = [approval("coder", "git push", 30)];
    let mut watch = watching(&pending);
    press(&mut watch, "\n");
    let large = ScreenSize {
        width: 100,
        height: 200,
    };
    watch.update(Event::Resized(large), at(6_500));
    watch.update(Event::Resized(SMALL), at(6_600));
    assert_eq!(press(&mut watch, "y"), []);
    watch.update(Event::Resized(large), at(8_000));
    assert_eq!(verdicts(&press(&mut watch, "xxy")), [GivenVerdict::Approve]);
}

#[test]
fn a_key_that_was_on_its_way_is_no_answer() {
    let pending = [approval("coder", "git push", 0)];
    let mut watch = watching(&pending);
    for _ in 0..2 {
        let wishes = watch.update(Event::Pressed(Key::Char('y')), at(6_000));
        assert_eq!(wishes, []);
    }
    let wishes = watch.update(Event::Pressed(Key::Char('y')), at(6_400));
    assert_eq!(verdicts(&wishes), [GivenVerdict::Approve]);
}

#[test]
fn ap_08_details_neither_hide_the_question_nor_count_for_it() {
    // What must be seen does not fit; looking at the details instead is not seeing it.
    let pending = [approval("coder", "git push", 100)];
    let mut watch = watching(&pending);
    assert_eq!(press(&mut watch, "\ndGy"), []);
    // What fits has been seen, whether the details are shown or not.
    let pending = [approval("coder", "git push", 0)];
    let mut watch = watching(&pending);
    press(&mut watch, "\nd");
    assert!(screen(&watch).contains("sha256"), "{}", screen(&watch));
    assert_eq!(verdicts(&press(&mut watch, "y")), [GivenVerdict::Approve]);
}

#[test]
fn ap_08_why_it_is_asked_must_be_seen_too() {
    let pending = [approval("coder", "git push", 30)];
    let mut watch = watching(&pending);
    let large = ScreenSize {
        width: 100,
        height: 200,
    };
    press(&mut watch, "\n");
    let item = watch.unexplained().cloned().unwrap();
    watch.update(Event::Resized(large), at(6_500));
    watch.update(Event::Resized(SMALL), at(6_600));
    let why = Some("a rule asks".to_owned());
    watch.update(Event::Explained { id: item.id, why }, at(6_700));
    assert!(watch.unexplained().is_none());
    assert_eq!(press(&mut watch, "y"), []);
    press(&mut watch, "G");
    let shown = screen(&watch);
    assert!(shown.contains("asked because a rule asks"), "{shown}");
}

#[test]
fn no_and_why() {
    let pending = [approval("coder", "git push", 0)];
    let refused = |reason: Option<&str>| GivenVerdict::Refuse {
        reason: reason.map(str::to_owned),
    };
    assert_eq!(
        verdicts(&press(&mut watching(&pending), "\nn")),
        [refused(None)]
    );
    assert_eq!(
        verdicts(&press(&mut watching(&pending), "\nruse q?x\u{8}\n")),
        [refused(Some("use q?"))]
    );
    assert_eq!(press(&mut watching(&pending), "\nrno\u{1b}"), []);
    // Nothing is answered from the list.
    assert_eq!(press(&mut watching(&pending), "n"), []);
    assert_eq!(press(&mut watching(&pending), "q"), [WatchAction::Leave]);
}

#[test]
fn what_was_answered_elsewhere_can_no_longer_be_answered() {
    let pending = [approval("coder", "git push", 0), approval("cli", "ls", 0)];
    let mut watch = watching(&pending);
    press(&mut watch, "\n");
    watch.update(Event::Fresh(pending[1..].to_vec()), at(7_000));
    let shown = screen(&watch);
    assert!(shown.contains("no longer open"), "{shown}");
    assert_eq!(press(&mut watch, "ynr"), []);
}

#[test]
fn the_selection_stays_with_its_question() {
    let mut pending = vec![approval("coder", "git push", 0), approval("cli", "ls", 0)];
    let mut watch = watching(&pending);
    press(&mut watch, "j");
    pending.remove(0);
    pending.push(approval("cli", "rm", 0));
    watch.update(Event::Fresh(pending.clone()), at(7_000));
    let wishes = press(&mut watch, "\ny");
    let [WatchAction::Answer(given)] = wishes.as_slice() else {
        panic!("{wishes:?}");
    };
    assert_eq!(given.id, pending[0].id);
}

#[test]
fn ap_13_a_flood_is_one_line_and_hides_nothing_else() {
    let mut pending: Vec<Approval> = (0..300)
        .map(|number| approval("noisy", &format!("curl example.com/{number}"), 0))
        .collect();
    pending.push(approval("coder", "git push", 0));
    let mut watch = watching(&pending);
    let shown = screen(&watch);
    assert!(shown.contains("300x  noisy bash curl"), "{shown}");
    assert!(shown.contains("bash: git push"), "{shown}");
    // A group is opened, never allowed.
    assert_eq!(press(&mut watch, "y"), []);
    assert!(matches!(watch.mode, Mode::List));
    assert!(screen(&watch).contains("bash: curl example.com/0"));
    press(&mut watch, "q");
    // It can be refused as a whole, after a confirmation.
    assert_eq!(press(&mut watch, "nx"), []);
    let wishes = press(&mut watch, "ny");
    assert_eq!(wishes.len(), 300);
    assert!(
        verdicts(&wishes)
            .iter()
            .all(|verdict| *verdict != GivenVerdict::Approve)
    );
    press(&mut watch, "g");
    assert!(screen(&watch).contains("bash: curl example.com/1"));
}

#[test]
fn what_the_record_cannot_show_cannot_be_allowed() {
    let mut secret = approval("coder", "login", 0);
    secret.form = None;
    let mut altered = approval("coder", "ls", 0);
    altered.form = approval("coder", "rm", 0).form;
    for question in [secret, altered] {
        let mut watch = watching(&[question]);
        assert_eq!(press(&mut watch, "\nyy"), []);
        assert_eq!(
            verdicts(&press(&mut watch, "n")),
            [GivenVerdict::Refuse { reason: None }]
        );
    }
}

#[test]
fn ap_08_hostile_text_does_not_reach_the_screen() {
    let mut question = approval("coder", "echo \u{1b}[2J\u{202e}x\u{200b}\0\t", 0);
    question.summary = "bash: \u{1b}[2J\u{202e}x\u{200b}\0\t".to_owned();
    let mut watch = watching(&[question]);
    for keys in ["", "\n"] {
        press(&mut watch, keys);
        let shown = screen(&watch);
        assert!(
            !shown
                .chars()
                .any(|c| c != '\n' && crate::terminal::sanitise::is_deceptive(c)),
            "{shown}"
        );
        assert!(shown.contains("⟨ESC⟩[2J⟨U+202E⟩x"), "{shown}");
    }
}

#[test]
fn a_tiny_screen_is_no_reason_to_fail() {
    for (width, height) in [(1, 1), (10, 3), (20, 5), (80, 24)] {
        let mut watch = watching(&[approval("coder", "git push", 9)]);
        watch.update(Event::Resized(ScreenSize { width, height }), at(6_000));
        for keys in ["", "\n", "?", "q", "r", "\u{1b}", "y"] {
            press(&mut watch, keys);
            screen(&watch);
        }
    }
}

fn agent_asks(text: &str, options: &[&str], other: Option<bool>) -> AskedQuestion {
    let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
    AskedQuestion {
        id: AgentQuestionId::new(),
        call: CallId::new(),
        principal: approval("coder", "ls", 0).principal,
        question: Arc::new(AgentQuestion::new(text, &options, other).unwrap()),
        asked: START,
        expires: START.after(Duration::from_mins(10)),
        state: AgentQuestionState::Pending,
    }
}

/// A screen with an approval and, selected, a question of an agent.
fn asked(question: &AskedQuestion) -> WatchState {
    let mut watch = watching(&[approval("cli", "ls -l", 0)]);
    watch.update(Event::AgentsAsk(vec![question.clone()]), at(5_000));
    press(&mut watch, "j");
    watch
}

fn replies(wishes: &[WatchAction]) -> Vec<GivenReply> {
    let reply = |wish: &WatchAction| match wish {
        WatchAction::Reply(given) => Some(given.reply.clone()),
        WatchAction::Answer(_) | WatchAction::Leave => None,
    };
    wishes.iter().filter_map(reply).collect()
}

#[test]
fn a_question_of_an_agent_is_listed_and_shown_as_none_of_ours() {
    let mut watch = asked(&agent_asks(
        "Which colour?\nAllow? [y/N]",
        &["red", "blue"],
        None,
    ));
    insta::assert_snapshot!("list_with_a_question_of_an_agent", masked(&screen(&watch)));
    press(&mut watch, "\n");
    insta::assert_snapshot!("question_of_an_agent", masked(&screen(&watch)));
}

#[test]
fn a_question_of_an_agent_is_answered_by_number_or_in_words() {
    let said = |text: &str| vec![GivenReply::Text(text.to_owned())];
    let either = agent_asks("Which?", &["red", "blue"], Some(true));
    assert_eq!(replies(&press(&mut asked(&either), "\n2")), said("blue"));
    let typed = press(&mut asked(&either), "\n\nyes, gren\u{8}\u{8}een?\n");
    assert_eq!(replies(&typed), said("yes, green?"));
    assert_eq!(
        replies(&press(&mut asked(&either), "\nx")),
        [GivenReply::Decline]
    );
    // Only what is offered, where nothing else is taken.
    let offered = agent_asks("Which?", &["red", "blue"], None);
    let mut watch = asked(&offered);
    assert_eq!(press(&mut watch, "\n\ngreen\n"), []);
    assert!(screen(&watch).contains("it takes one of the answers above"));
    assert_eq!(press(&mut asked(&offered), "\n3"), []);
    // A digit chooses, and is never the person's own word.
    assert_eq!(
        press(&mut asked(&agent_asks("How many?", &[], None)), "\n3"),
        []
    );
    assert_eq!(press(&mut asked(&offered), "\n\n  \n"), []);
}

#[test]
fn no_key_of_an_approval_answers_an_agent() {
    let question = agent_asks("May I?", &["yes", "no"], Some(true));
    for keys in [
        "y", "n", "a", "r", "\ny", "\nn", "\na", "\nr", "\nyyyy", "\nq",
    ] {
        let mut watch = asked(&question);
        assert_eq!(press(&mut watch, keys), [], "{keys}");
    }
    let mut watch = asked(&question);
    press(&mut watch, "\ny");
    assert!(
        screen(&watch).contains("this is not an approval"),
        "{}",
        screen(&watch)
    );
    // A key that was on its way when it appeared is no answer.
    let mut watch = asked(&question);
    let now = watch.now;
    watch.update(Event::Pressed(Key::Enter), now);
    assert_eq!(watch.update(Event::Pressed(Key::Char('1')), now), []);
    assert_eq!(replies(&press(&mut watch, "1")).len(), 1);
}

#[test]
fn an_agents_question_that_is_gone_takes_no_answer() {
    let question = agent_asks("Which?", &["red", "blue"], None);
    let mut watch = asked(&question);
    press(&mut watch, "\n\nred");
    watch.update(Event::AgentsAsk(Vec::new()), at(20_000));
    assert!(
        screen(&watch).contains("no longer open"),
        "{}",
        screen(&watch)
    );
    assert_eq!(press(&mut watch, "\n12x"), []);
}
