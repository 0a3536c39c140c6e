//! The parts that the record has for months to come: made when it is opened, and again by a process that
//! stays.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use haft_contract::host::{Clock, History as _, Timestamp, Verification};
use haft_ledger::StoredLedger;

use super::PostgresFixture;
use crate::{
    growth::one_call,
    support::{NOW, tenant},
};

/// What this month and the next three are called.
const EXPECTED: &str = r#"SELECT string_agg(to_char(date_trunc('month', now() AT TIME ZONE 'UTC')
        + make_interval(months => ahead), '"record_"YYYY_MM'), ' ' ORDER BY ahead)
    FROM generate_series(0, 3) AS ahead"#;

/// The parts there are, each guarded as the whole is.
const FOUND: &str = "SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_inherits
    JOIN pg_class ON pg_class.oid = inhrelid
    WHERE inhparent = 'haft.record'::regclass AND relname <> 'record_other' AND relforcerowsecurity";

/// A clock that the test holds.
struct HeldClock(AtomicI64);

impl Clock for HeldClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn three_months_ahead_have_their_part() {
    let fixture = PostgresFixture::new().await;
    assert_eq!(fixture.sql(FOUND), fixture.sql(EXPECTED));
    let ledger = fixture.open().await;
    one_call(&ledger, 1).await;
    ledger.close().await.unwrap();
    let this_month = "SELECT 'record_' || to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM')";
    let part = "SELECT relname FROM haft.record JOIN pg_class ON pg_class.oid = record.tableoid";
    assert_eq!(fixture.sql(part), fixture.sql(this_month));
}

/// A server that runs for a year opens its record once.
#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_process_that_stays_makes_them_every_day() {
    let fixture = PostgresFixture::new().await;
    let clock = Arc::new(HeldClock(AtomicI64::new(NOW.0)));
    let mut options = fixture.options("app");
    options.clock = Arc::clone(&clock) as Arc<dyn Clock>;
    let (ledger, _) = StoredLedger::open(options).await.unwrap();
    let expected = fixture.sql(EXPECTED);
    let (without_last, last) = expected.rsplit_once(' ').unwrap();
    fixture.sql(&format!("DROP TABLE haft.{last}"));
    for (number, (after, found)) in [
        (Duration::ZERO, without_last),
        (Duration::from_secs(24 * 60 * 60 - 1), without_last),
        (Duration::from_hours(24), &*expected),
    ]
    .into_iter()
    .enumerate()
    {
        clock.0.store(NOW.after(after).0, Ordering::Relaxed);
        one_call(&ledger, number as u64).await;
        assert_eq!(fixture.sql(FOUND), found, "after {after:?}");
    }
    ledger.close().await.unwrap();
}

/// The recipe of `docs/guide/database.md`: a month that was taken out is missed, and the record is whole
/// once it is back.
#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_month_that_was_taken_out_is_missed_until_it_is_back() {
    let fixture = PostgresFixture::new().await;
    let ledger = fixture.open().await;
    one_call(&ledger, 1).await;
    let month = fixture.sql("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM')");
    let (year, number) = month.split_once('_').unwrap();
    let begins = format!("timestamptz '{year}-{number}-01 00:00Z'");
    let verified = async || ledger.verify(&tenant()).await.unwrap();
    assert_eq!(verified().await, Verification::Intact { records: 1 });

    let part = format!("haft.record_{month}");
    fixture.sql(&format!("ALTER TABLE haft.record DETACH PARTITION {part}"));
    let missed = verified().await;
    assert!(matches!(missed, Verification::Broken { .. }), "{missed:?}");

    fixture.sql(&format!(
        "SET timezone = 'UTC'; ALTER TABLE haft.record ATTACH PARTITION {part} FOR VALUES
         FROM (haft.first_id({begins})) TO (haft.first_id({begins} + interval '1 month'))"
    ));
    assert_eq!(verified().await, Verification::Intact { records: 1 });
    ledger.close().await.unwrap();
}
