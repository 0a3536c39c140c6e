//! Servers are started, kept, delayed after failures and ended.

use super::*;

#[tokio::test(start_paused = true)]
async fn mc_16_a_server_that_fails_is_left_alone_longer_each_time_and_its_callers_learn_why() {
    let fails = Attempt::Fails("no such program");
    let server = Scripted::new(&[fails, fails, fails, Attempt::Works], &[("say", "says")]);
    let bench = Bench::start(&[("a", &server)], Options::default());
    let status = bench.until("a", |status| status.state == State::Down).await;
    let why = status.last_error.unwrap();
    assert!(why.contains("no such program"), "{why}");
    assert!(
        why.contains("it printed last: Traceback\\u{1b}[31m: no module"),
        "{why}"
    );
    assert!(status.again.is_some());
    bench
        .until("a", |status| status.state == State::Ready)
        .await;
    assert_eq!(server.connects(), 4);
    assert_eq!(bench.status("a").last_error, None);
}

#[tokio::test(start_paused = true)]
async fn mc_16_a_server_that_dies_with_every_call_is_not_started_for_every_call() {
    let server = Scripted::answering(&[Attempt::Works], |_| Answer::Dies);
    let bench = Bench::start(&[("a", &server)], Options::default());
    bench
        .until("a", |status| status.state == State::Ready)
        .await;
    bench.accept("a");
    bench.until("a", |status| status.counts.tools == 1).await;
    assert!(matches!(
        bench.ask("a", "say").await,
        Err(RequestError::Lost(_))
    ));
    tokio::task::yield_now().await;
    let (mut fast, mut lost) = (0, 0);
    for _ in 0..200 {
        match bench.ask("a", "say").await.unwrap_err() {
            RequestError::Down { reason, again } => {
                assert!(reason.contains("code 1"), "{reason}");
                assert!(again > Duration::ZERO);
                fast += 1;
            }
            RequestError::Lost(_) => lost += 1,
            other => panic!("{other}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Twenty seconds: at most half a second, one, two, four, eight apart.
    assert!(lost <= 8 && fast >= 190, "{lost} {fast}");
    assert_eq!(
        server.connects(),
        server.closes.load(Ordering::SeqCst) + usize::from(bench.status("a").state == State::Ready)
    );
}

#[tokio::test(start_paused = true)]
async fn mc_16_a_server_that_never_gets_ready_or_never_answers_costs_its_deadline() {
    for attempt in [Attempt::Hangs, Attempt::Silent] {
        let server = Scripted::new(&[attempt], &[]);
        let bench = Bench::start(&[("a", &server)], Options::default());
        let before = tokio::time::Instant::now();
        bench.until("a", |status| status.state == State::Down).await;
        let took = before.elapsed();
        assert!(
            took >= Duration::from_secs(30) && took < Duration::from_secs(31),
            "{took:?}"
        );
    }
    let server = Scripted::answering(&[Attempt::Works], |_| Answer::Nothing);
    let options = Options {
        call_timeout: Duration::from_secs(5),
        ..Options::default()
    };
    let bench = Bench::start(&[("a", &server)], options);
    bench
        .until("a", |status| status.state == State::Ready)
        .await;
    bench.accept("a");
    bench.until("a", |status| status.counts.tools == 1).await;
    let slow = bench.ask("a", "say").await.unwrap_err();
    assert!(
        matches!(slow, RequestError::Slow(within) if within <= Duration::from_secs(5)),
        "{slow}"
    );
    assert_eq!(
        bench.status("a").state,
        State::Ready,
        "one slow call does not end it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_is_given_so_many_requests_and_no_more() {
    let server = Scripted::answering(&[Attempt::Works], |_| Answer::Nothing);
    let options = Options {
        concurrency: 2,
        queue: 3,
        ..Options::default()
    };
    let bench = Bench::start(&[("a", &server)], options);
    bench
        .until("a", |status| status.state == State::Ready)
        .await;
    bench.accept("a");
    bench.until("a", |status| status.counts.tools == 1).await;
    let asked: Vec<_> = (0..20).map(|_| bench.ask("a", "say")).collect();
    let all = futures_util::future::join_all(asked).await;
    let busy = all
        .iter()
        .filter(|one| matches!(one, Err(RequestError::Busy(5))))
        .count();
    assert_eq!(busy, 15);
}

#[tokio::test(start_paused = true)]
async fn a_server_nobody_uses_is_ended_and_started_again_when_somebody_does() {
    let server = Scripted::new(&[Attempt::Works], &[("say", "says")]);
    let options = Options {
        idle: Some(Duration::from_mins(1)),
        ..Options::default()
    };
    let bench = Bench::start(&[("a", &server)], options);
    bench
        .until("a", |status| status.state == State::Ready)
        .await;
    bench.accept("a");
    bench.until("a", |status| status.counts.tools == 1).await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(40)).await;
        bench.ask("a", "say").await.unwrap();
    }
    assert_eq!(server.connects(), 1, "it was used");
    bench
        .until("a", |status| status.state == State::Known)
        .await;
    assert_eq!(server.closes.load(Ordering::SeqCst), 1);
    assert_eq!(
        listed(&bench.shared.registry),
        ["mcp__a__say"],
        "still listed"
    );
    bench.ask("a", "say").await.unwrap();
    assert_eq!(server.connects(), 2);
    bench.fleet.stop().await;
    assert_eq!(server.closes.load(Ordering::SeqCst), 2);
    let ended = bench.ask("a", "say").await.unwrap_err();
    assert!(ended.to_string().contains("ended"), "{ended}");
}

#[tokio::test(start_paused = true)]
async fn mc_15_a_flood_of_changes_is_fetched_a_few_times() {
    let server = Scripted::new(&[Attempt::Works], &[("say", "says")]);
    let bench = Bench::start(&[("a", &server)], Options::default());
    bench
        .until("a", |status| status.state == State::Ready)
        .await;
    for _ in 0..1000 {
        server.offers_now(&[("say", "says")]);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let fetches = server.fetches.load(Ordering::SeqCst);
    assert!((2..=6).contains(&fetches), "{fetches}");
}

#[tokio::test(start_paused = true)]
async fn a_login_that_is_needed_is_said_and_tried_again_when_somebody_asks() {
    let server = Scripted::new(
        &[Attempt::Works, Attempt::WantsLogin, Attempt::Works],
        &[("say", "says")],
    );
    let bench = Bench::start(&[("a", &server)], Options::default());
    bench
        .until("a", |status| status.state == State::Ready)
        .await;
    bench.accept("a");
    bench.until("a", |status| status.counts.tools == 1).await;
    server.dies("the token expired");
    bench
        .until("a", |status| status.state == State::LoginNeeded)
        .await;
    assert_eq!(bench.ask("a", "say").await, Err(RequestError::LoginNeeded));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(server.connects(), 2, "not tried while nobody asks");
    bench.ask("a", "say").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hung_server_delays_neither_a_list_nor_another_server() {
    let hung = Scripted::new(&[Attempt::Hangs], &[]);
    let fine = Scripted::new(&[Attempt::Works], &[("say", "says")]);
    let bench = Bench::start(&[("hung", &hung), ("fine", &fine)], Options::default());
    bench
        .until("fine", |status| status.state == State::Ready)
        .await;
    bench.accept("fine");
    bench.until("fine", |status| status.counts.tools == 1).await;
    let before = tokio::time::Instant::now();
    assert_eq!(listed(&bench.shared.registry), ["mcp__fine__say"]);
    bench.ask("fine", "say").await.unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(bench.status("hung").state, State::Starting);
}
