//! How a statement ends that must stop: it is ended in the server, and seen to be gone, before the
//! caller is told.

use std::time::Duration;

use haft_contract::{
    ErrorKind,
    ops::{DatabaseOps as _, DatabaseQuery},
};
use tokio_util::sync::CancellationToken;

use crate::support::{Like, Shop, Taken, query};

const SLOW: &str = "SELECT pg_sleep(1000)";
const ENDLESS: &str =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

const RUNNING: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
    AND usename = 'agent' AND query ~ 'FETCH|DECLARE'";

fn slow() -> Like {
    Like {
        functions: &["pg_sleep"],
        ..Like::default()
    }
}

async fn until_running(shop: &Shop) {
    let active = format!("{RUNNING} AND state = 'active'");
    while shop.asked(&active) == "0" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_cancelled_statement_is_gone_from_the_server_before_its_end_is_told() {
    let shop = Shop::postgres(slow());
    for statement in [SLOW, ENDLESS] {
        let cancel = CancellationToken::new();
        let mut taken = Taken::default();
        let running = shop.databases.query(query(statement, &cancel), &mut taken);
        let cancelling = async {
            until_running(&shop).await;
            cancel.cancel();
        };
        let (ended, ()) = tokio::join!(running, cancelling);
        // Looked at once, right away.
        assert_eq!(shop.asked(RUNNING), "0", "{statement}");
        let error = ended.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        assert_eq!(error.message(), "the statement was cancelled");
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_statement_past_its_deadline_is_gone_too() {
    let shop = Shop::postgres(slow());
    let cancel = CancellationToken::new();
    let asked = DatabaseQuery {
        within: Duration::from_millis(300),
        ..query(SLOW, &cancel)
    };
    let error = shop.run_as(asked).await.unwrap_err();
    assert_eq!(shop.asked(RUNNING), "0");
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_statement_whose_caller_went_away_does_not_go_on() {
    let shop = Shop::postgres(slow());
    let cancel = CancellationToken::new();
    let mut taken = Taken::default();
    {
        let running = shop.databases.query(query(SLOW, &cancel), &mut taken);
        tokio::select! {
            _ = running => panic!("it sleeps"),
            () = until_running(&shop) => {}
        }
    }
    while shop.asked(RUNNING) != "0" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn waiting_for_a_connection_is_not_a_slow_statement() {
    let shop = Shop::postgres(Like {
        connections: 1,
        ..slow()
    });
    let cancel = CancellationToken::new();
    let mut taken = Taken::default();
    let running = shop.databases.query(query(SLOW, &cancel), &mut taken);
    let second = async {
        until_running(&shop).await;
        let never = CancellationToken::new();
        let asked = DatabaseQuery {
            within: Duration::from_millis(200),
            ..query("SELECT 1", &never)
        };
        let error = shop.run_as(asked).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.message().contains("not started"), "{error}");
        cancel.cancel();
    };
    let (ended, ()) = tokio::join!(running, second);
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Cancelled);
}

#[tokio::test]
async fn sqlite_is_interrupted() {
    let shop = Shop::sqlite(Like::default());
    let cancel = CancellationToken::new();
    let asked = DatabaseQuery {
        within: Duration::from_millis(200),
        ..query(ENDLESS, &cancel)
    };
    let error = shop.run_as(asked).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(!error.message().contains("has not yet"), "{error}");
    cancel.cancel();
    let error = shop.run_as(query(ENDLESS, &cancel)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
}
