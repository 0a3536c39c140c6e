//! A million rows beside the bare driver: processor time and memory.

use std::{pin::pin, time::Duration};

use futures_util::StreamExt as _;
use haft_contract::{
    BoxFuture,
    ops::{DatabaseOps as _, DatabaseQuery, TakeRows, WantedRows},
};
use haft_testkit::cpu_time::CpuTime;
use serde_json::Value;
use tokio_postgres::NoTls;
use tokio_util::sync::CancellationToken;

use crate::support::{Like, SERVER, Shop, peak, query};

const STATEMENT: &str = "SELECT i, i * 1.5::float8, 'a text of some length ' || i FROM generate_series(1, 1000000) AS i";

/// Counts what it takes.
#[derive(Default)]
struct Counting {
    rows: usize,
    bytes: usize,
}

impl TakeRows for Counting {
    fn columns(&mut self, _: &[String]) {}

    fn rows(&mut self, rows: Vec<Vec<Value>>) -> BoxFuture<'_, WantedRows> {
        self.rows += rows.len();
        let texts = rows.iter().map(|row| row[2].as_str().unwrap().len());
        self.bytes += texts.sum::<usize>();
        Box::pin(async { WantedRows::More })
    }
}

#[tokio::test]
#[ignore = "soak: a million rows, compared with the bare driver"]
async fn a_million_rows_take_little_memory() {
    let shop = Shop::postgres(Like::default());
    let database = shop.database.clone().unwrap();
    let url = SERVER.url_of("agent", &database);
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let before = CpuTime::start();
    let none: [&str; 0] = [];
    let mut stream = pin!(client.query_raw(STATEMENT, none).await.unwrap());
    let (mut rows, mut bytes) = (0, 0);
    while let Some(row) = stream.next().await {
        let row = row.unwrap();
        let (_, _, text): (i32, f64, String) = (row.get(0), row.get(1), row.get(2));
        rows += 1;
        bytes += text.len();
    }
    let bare = before.used();
    let (before, had) = (CpuTime::start(), peak());
    let cancel = CancellationToken::new();
    let mut counting = Counting::default();
    let asked = DatabaseQuery {
        within: Duration::from_mins(5),
        ..query(STATEMENT, &cancel)
    };
    shop.databases.query(asked, &mut counting).await.unwrap();
    let took = before.used();
    let more = peak() - had;
    println!("bare {bare:?}, through the fences {took:?}, {more} kB more at the peak");
    assert_eq!((counting.rows, counting.bytes), (rows, bytes));
    assert!(more < 16 * 1024, "{more} kB");
}
