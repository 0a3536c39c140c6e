//! What is old goes, and then the oldest; what was renewed stays. The server dates what it is sent by
//! its own clock, so these tests look from the future.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use haft_contract::host::{Clock, Timestamp};
use haft_ledger::{ExpiringArtifacts, LedgerOptions, Retention, StoredLedger};
use haft_testkit::eventually;

use super::{ObjectFixture, keep, key};

const DAY: Duration = Duration::from_hours(24);

/// A clock that is this far ahead.
struct Ahead(Duration);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        now().after(self.0)
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since.as_micros()).unwrap())
}

fn at_most(max_total_bytes: u64) -> Retention {
    Retention {
        kept_for: 30 * DAY,
        max_total_bytes,
    }
}

/// The server's dates have no fractions of a second.
async fn in_another_second() {
    let second = now().0 / 1_000_000;
    eventually("the next second", || now().0 / 1_000_000 > second).await;
}

async fn ahead(fixture: &ObjectFixture, by: Duration) -> Arc<dyn ExpiringArtifacts> {
    let options = LedgerOptions {
        clock: Arc::new(Ahead(by)),
        ..fixture.options()
    };
    StoredLedger::open(options)
        .await
        .unwrap()
        .0
        .expiring_artifacts()
}

#[tokio::test]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn the_oldest_go_until_few_enough_bytes_are_kept() {
    let fixture = ObjectFixture::new();
    let artifacts = fixture.artifacts().await;
    let mut ids = Vec::new();
    for number in 1..=3_u8 {
        ids.push(keep(&artifacts, &vec![number; 1_000]).await);
        in_another_second().await;
    }
    let expired = artifacts.expire(now(), at_most(3_000)).await.unwrap();
    assert_eq!((expired.removed, expired.kept_bytes), (0, 3_000));
    let expired = artifacts.expire(now(), at_most(1_999)).await.unwrap();
    assert_eq!((expired.removed, expired.bytes), (2, 2_000));
    assert_eq!(expired.kept_bytes, 1_000);
    let stored = fixture.server.objects("kept/");
    let names: Vec<_> = stored.iter().map(|object| &*object.key).collect();
    assert_eq!(names, [key(ids[2])]);
}

/// More than a page of the listing, and more than one request of removals.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn what_is_too_old_goes_over_many_pages() {
    let fixture = ObjectFixture::new();
    let artifacts = fixture.artifacts().await;
    let contents = (0..1_203_u32).map(|number| number.to_be_bytes().to_vec());
    let ids = artifacts.keep_all(contents.collect()).await.unwrap();
    in_another_second().await;
    let between = now();
    in_another_second().await;
    let young = artifacts.expire(between, at_most(u64::MAX)).await.unwrap();
    assert_eq!((young.removed, young.kept_bytes), (0, 4 * 1_203));
    assert_eq!(artifacts.kept_bytes().await.unwrap(), 4 * 1_203);
    // Ten days later two are asked for: by name, and by keeping the same bytes again.
    let later = ahead(&fixture, 10 * DAY).await;
    assert_eq!(later.renew(vec![ids[7]]).await.unwrap(), [true]);
    assert_eq!(keep(&later, &1_000_u32.to_be_bytes()).await, ids[1_000]);
    assert_eq!(fixture.server.objects("kept/renewed/").len(), 2);
    // Renewed within the hour, so nothing is sent.
    assert_eq!(later.renew(vec![ids[7]]).await.unwrap(), [true]);
    // What was written before this moment is too old thirty days after it.
    let expired = artifacts.expire(between.after(30 * DAY), at_most(u64::MAX));
    let expired = expired.await.unwrap();
    assert_eq!((expired.removed, expired.kept_bytes), (1_201, 8));
    let mut left = [key(ids[7]), key(ids[1_000])];
    left.sort();
    let stored = fixture.server.objects("kept/content/");
    let names: Vec<_> = stored.iter().map(|object| &*object.key).collect();
    assert_eq!(names, left);
    let expired = artifacts.expire(now().after(31 * DAY), at_most(u64::MAX));
    assert_eq!(expired.await.unwrap().removed, 2);
    assert!(fixture.server.objects("kept/").is_empty());
}

/// Once a day, whichever machine it is.
#[tokio::test]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn one_machine_a_day_removes_what_is_old() {
    let fixture = ObjectFixture::new();
    let artifacts = fixture.artifacts().await;
    let id = keep(&artifacts, b"old").await;
    assert!(artifacts.take_sweep(now()).await.unwrap());
    assert!(!artifacts.take_sweep(now()).await.unwrap());
    in_another_second().await;
    // Another machine has no note of its own; the bucket has one.
    let other = OtherMachine::new(&fixture).await;
    assert!(!other.artifacts.take_sweep(now()).await.unwrap());
    other
        .artifacts
        .expire_daily(now().after(31 * DAY), at_most(u64::MAX))
        .await;
    let error = artifacts.open(id).await.err().unwrap();
    assert!(error.to_string().contains("may have expired"), "{error}");
}

/// Another machine's directory, with artifacts on the same server.
struct OtherMachine {
    artifacts: Arc<dyn ExpiringArtifacts>,
    _directory: crate::support::Fixture,
}

impl OtherMachine {
    async fn new(fixture: &ObjectFixture) -> Self {
        let directory = crate::support::Fixture::new();
        let options = LedgerOptions {
            retention: None,
            ..directory.options().artifacts(fixture.storage())
        };
        let (ledger, _) = StoredLedger::open(options).await.unwrap();
        Self {
            artifacts: ledger.expiring_artifacts(),
            _directory: directory,
        }
    }
}
