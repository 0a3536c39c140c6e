//! A peer that talks nonsense ends its own connection, and nothing else.

use std::sync::Arc;

use haft_backends::remote::{Account, Connect, ConnectError, Connection, serve};
use haft_contract::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::fixture::connect_to;

/// Says something and then nothing.
struct Says(Vec<u8>);

impl Connect for Says {
    fn connect(&self) -> BoxFuture<'_, Result<Connection, ConnectError>> {
        Box::pin(async {
            let (near, mut far) = tokio::io::duplex(1 << 20);
            let said = self.0.clone();
            tokio::spawn(async move {
                far.write_all(&said).await.unwrap();
            });
            let (reader, writer) = tokio::io::split(near);
            Ok(Connection {
                reader: Box::new(reader),
                writer: Box::new(writer),
                carrier: Box::new(()),
            })
        })
    }
}

/// A server that is none is told so, in words.
#[tokio::test]
async fn a_server_that_is_none_is_told_from_one() {
    async fn check(said: &[u8], expect: &str) {
        let error = connect_to(Arc::new(Says(said.to_vec())), "/")
            .await
            .unwrap_err();
        assert!(error.to_string().contains(expect), "{said:?}: {error}");
    }
    let hello = |body: &str| {
        let mut frame = b"\0haft-remote/1\r\n".to_vec();
        frame.extend_from_slice(&u32::try_from(body.len() + 9).unwrap().to_be_bytes());
        frame.extend_from_slice(&[0; 9]);
        frame.extend_from_slice(body.as_bytes());
        frame
    };
    check(b"", "closed the connection").await;
    check(b"bash: no such file", "closed the connection").await;
    check(&vec![b'x'; 100_000], "not Haft's helper").await;
    check(&hello("not json"), "not Haft's helper").await;
    check(
        &hello(r#"{"protocol":99,"version":"9.9"}"#),
        "uses protocol 99",
    )
    .await;
    let mut endless = hello(r#"{"protocol":2,"version":"0.1.0"}"#);
    endless.extend_from_slice(&[0xff; 16]);
    check(&endless, "is not one of ours").await;
}

/// A caller that sends nonsense is let go of at once.
#[tokio::test]
async fn a_caller_that_is_none_ends_its_own_connection() {
    async fn check(said: &[u8]) -> String {
        let (near, far) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(far);
        let serving = tokio::spawn(serve(reader, writer, Account::default()));
        let (mut reader, mut writer) = tokio::io::split(near);
        writer.write_all(said).await.unwrap();
        let mut heard = Vec::new();
        let ended = tokio::time::timeout(haft_testkit::PATIENCE, reader.read_to_end(&mut heard));
        ended.await.expect("it is let go of").unwrap();
        let served = serving.await.unwrap();
        served
            .err()
            .map_or_else(String::new, |error| error.to_string())
    }
    let frame = |kind: u8, exchange: u64, body: &str| {
        let mut frame = u32::try_from(body.len() + 9)
            .unwrap()
            .to_be_bytes()
            .to_vec();
        frame.push(kind);
        frame.extend_from_slice(&exchange.to_be_bytes());
        frame.extend_from_slice(body.as_bytes());
        frame
    };
    let open = frame(
        0,
        0,
        r#"{"protocol":2,"root":"/usr","cross_mounts":false,"environment":{},"sandbox":
            {"read_only":[],"writable":[],"toolchains":"account"}}"#,
    );
    let after_open = |rest: Vec<u8>| [open.clone(), rest].concat();
    check(b"GET / HTTP/1.1\r\n\r\n").await;
    check(&frame(0, 0, "{}")).await;
    check(&frame(1, 1, "{}")).await;
    check(&after_open(frame(1, 1, "not json"))).await;
    check(&after_open(frame(4, 1, "{}"))).await;
    check(&after_open(frame(7, 1, "x"))).await;
    check(&after_open(vec![0xff; 64])).await;
    let spawn = r#"{"limit_ms":1000,"body_bytes":0,"request":{"stat":{"path":"../etc"}}}"#;
    // A path that cannot be is a failed call; the connection lives on until it is garbled.
    let then_garbled = [frame(1, 1, spawn), frame(99, 0, "")].concat();
    check(&after_open(then_garbled)).await;
    // More at once than any body may have on the way.
    let append = r#"{"limit_ms":60000,"body_bytes":1000000,"request":{"append":{"path":"x"}}}"#;
    let body = "x".repeat(256 * 1024);
    let too_much = [frame(1, 1, append), frame(2, 1, &body)].concat();
    let ended = check(&after_open(too_much)).await;
    assert!(ended.contains("beyond its credit"), "{ended}");
}
