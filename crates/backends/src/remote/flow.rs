//! How much flows before it is handled: all of it when it is read, and never more than was granted
//! when it is not.
//!
//! Nothing here leaves the process, so time is paused: whatever hangs fails at once.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    ErrorKind, WorkPath,
    access::Command,
    future::BoxFuture,
    ops::{
        BackendId, ChildExit, ExitStatus, ListQuery, Operations, OpsError, OutputChunk,
        ProcessControls, ProcessHandle, ProcessOps, Spawn, Stream, Tier,
    },
};
use haft_testkit::{PATIENCE, memory};
use serde::Serialize;
use tokio::{
    io::{AsyncRead, AsyncWriteExt, DuplexStream},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    RemoteBackend, RemoteOptions,
    connect::{Connect, ConnectError, Connection},
    convert::chunk_to_wire,
    frame::{Frame, FrameReader, Kind, MAGIC, MAX_FRAME_BYTES},
    outbox::Outbox,
    serve, wire,
};

/// The credit for results and output, spelt out: another number is another protocol.
const WINDOW: usize = 1024 * 1024;

/// What a frame costs in addition to its body.
const FRAME_COST: usize = 64;

/// What is in the body of a frame before a child's output.
const OUTPUT_HEAD: usize = 9;

/// How much a stream holds.
const STREAM_BYTES: usize = 64 * 1024;

/// A helper of this process.
struct Helper<F>(F);

impl<F> Connect for Helper<F>
where
    F: Fn(DuplexStream) -> BoxFuture<'static, ()> + Send + Sync,
{
    fn connect(&self) -> BoxFuture<'_, Result<Connection, ConnectError>> {
        Box::pin(async {
            let (near, far) = tokio::io::duplex(STREAM_BYTES);
            tokio::spawn((self.0)(far));
            let (reader, writer) = tokio::io::split(near);
            Ok(Connection {
                reader: Box::new(reader),
                writer: Box::new(writer),
                carrier: Box::new(()),
            })
        })
    }
}

async fn connect_to<F>(helper: F) -> Operations
where
    F: Fn(DuplexStream) -> BoxFuture<'static, ()> + Send + Sync + 'static,
{
    let backend = BackendId::new("remote:test");
    let options = RemoteOptions::default();
    RemoteBackend::connect(backend, Arc::new(Helper(helper)), "/", options)
        .await
        .unwrap()
}

fn spawn() -> Spawn {
    let command = Command::Shell("echo x".to_owned());
    Spawn::new(command, WorkPath::relative(".").unwrap(), Tier::Host)
}

fn json<T: Serialize>(kind: Kind, exchange: u64, body: &T) -> Frame {
    Frame::new(kind, exchange, serde_json::to_vec(body).unwrap())
}

fn welcome() -> Frame {
    let welcome = wire::Welcome {
        protocol: wire::PROTOCOL,
        version: "0.1.0".to_owned(),
    };
    json(Kind::Hello, 0, &welcome)
}

/// Starts children that print this many pieces of one byte.
struct Chatty {
    operations: Operations,
    pieces: u64,
}

/// Such a child; what is not about output is one of the in-memory back end.
struct ChattyChild {
    inner: Box<dyn ProcessHandle>,
    printed: u64,
    pieces: u64,
}

impl ProcessOps for Chatty {
    fn spawn(&self, spawn: Spawn) -> BoxFuture<'_, Result<Box<dyn ProcessHandle>, OpsError>> {
        Box::pin(async move {
            Ok(Box::new(ChattyChild {
                inner: self.operations.processes.spawn(spawn).await?,
                printed: 0,
                pieces: self.pieces,
            }) as Box<dyn ProcessHandle>)
        })
    }
}

impl ProcessHandle for ChattyChild {
    fn next_chunk(&mut self) -> BoxFuture<'_, Option<OutputChunk>> {
        Box::pin(async move {
            let sequence = self.printed;
            self.printed += 1;
            (sequence < self.pieces).then(|| piece(sequence, 1))
        })
    }

    fn wait(&mut self) -> BoxFuture<'_, Result<ChildExit, OpsError>> {
        self.inner.wait()
    }

    fn controls(&self) -> Arc<dyn ProcessControls> {
        self.inner.controls()
    }

    fn stop(&mut self, grace: Duration) -> BoxFuture<'_, Result<(), OpsError>> {
        self.inner.stop(grace)
    }
}

fn piece(sequence: u64, bytes: usize) -> OutputChunk {
    OutputChunk {
        sequence,
        stream: Stream::Stdout,
        bytes: vec![b'x'; bytes],
    }
}

/// Serves children that print this many pieces.
async fn serve_chatty(stream: DuplexStream, pieces: u64) {
    let (reader, mut writer) = tokio::io::split(stream);
    writer.write_all(MAGIC).await.unwrap();
    let outbox = Arc::new(Outbox::new());
    let writing = tokio::spawn({
        let outbox = Arc::clone(&outbox);
        async move { outbox.write_to(writer).await }
    });
    outbox.push(welcome()).unwrap();
    let mut reader = FrameReader::new(reader);
    reader.next().await.unwrap();
    let (mut operations, _) = memory::operations();
    operations.processes = Arc::new(Chatty {
        operations: operations.clone(),
        pieces,
    });
    serve::serve_operations(&mut reader, &outbox, operations, (1, 1))
        .await
        .unwrap();
    outbox.close();
    writing.await.unwrap().unwrap();
}

/// As many pieces as it takes to use up the whole credit if the head of each is not given back.
#[tokio::test(start_paused = true)]
async fn any_number_of_small_pieces_arrives_when_they_are_read() {
    const PIECES: u64 = (WINDOW / OUTPUT_HEAD) as u64 + 1;
    let operations = connect_to(|stream| Box::pin(serve_chatty(stream, PIECES))).await;
    let mut child = operations.processes.spawn(spawn()).await.unwrap();
    let mut read = 0;
    let reading = timeout(PATIENCE, async {
        while let Some(chunk) = child.next_chunk().await {
            assert_eq!(chunk, piece(read, 1));
            read += 1;
        }
    });
    let reading = reading.await;
    assert!(reading.is_ok(), "it hangs after {read} pieces");
    assert_eq!(read, PIECES);
    let exit = child.wait().await.unwrap();
    assert_eq!(exit.status, ExitStatus::Code(0));
}

async fn write(stream: &mut (impl AsyncWriteExt + Unpin), frame: &Frame) -> std::io::Result<()> {
    stream.write_all(&frame.head().unwrap()).await?;
    stream.write_all(&frame.body).await
}

async fn next_request<R: AsyncRead + Unpin>(reader: &mut FrameReader<R>) -> u64 {
    loop {
        let frame = reader.next().await.unwrap();
        if frame.kind == Kind::Request {
            return frame.exchange;
        }
    }
}

/// Answers the first request with these frames, whatever was granted, and ends when the caller
/// does not listen any more or when all are sent.
async fn flood(stream: DuplexStream, frames: impl Iterator<Item = (Kind, Vec<u8>)>) {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut reader = FrameReader::new(reader);
    writer.write_all(MAGIC).await.unwrap();
    write(&mut writer, &welcome()).await.unwrap();
    reader.next().await.unwrap();
    let opened = wire::OpenReply::Opened(wire::OpenedWorkspace {
        root: "/".to_owned(),
        tiers: vec![Tier::Host.as_str().to_owned()],
        device: 1,
        inode: 1,
    });
    let opened = json(Kind::Hello, 0, &opened);
    write(&mut writer, &opened).await.unwrap();
    let number = next_request(&mut reader).await;
    for (kind, body) in frames {
        let frame = Frame::new(kind, number, body);
        if write(&mut writer, &frame).await.is_err() {
            return;
        }
    }
}

/// Nobody reads meanwhile: what can be read afterwards is what was kept.
#[tokio::test(start_paused = true)]
async fn a_helper_that_sends_output_beyond_its_credit_is_cut_off_and_no_more_is_kept() {
    async fn check(bytes: usize) {
        let allowed = WINDOW / (OUTPUT_HEAD + bytes + FRAME_COST);
        let operations = connect_to(move |stream| {
            let started = serde_json::to_vec(&wire::WireNote::Started).unwrap();
            let output = chunk_to_wire(&piece(7, bytes));
            let output = std::iter::repeat_n((Kind::Output, output), 4 * (allowed + 1));
            let frames = std::iter::once((Kind::Note, started)).chain(output);
            Box::pin(flood(stream, frames))
        })
        .await;
        let mut child = operations.processes.spawn(spawn()).await.unwrap();
        let error = timeout(PATIENCE, child.wait()).await.unwrap().unwrap_err();
        let mut kept = 0;
        while child.next_chunk().await.is_some() {
            kept += 1;
        }
        assert_eq!(kept, allowed, "pieces of {bytes} bytes: {error}");
        assert_eq!(error.kind(), ErrorKind::Lost, "{bytes}: {error}");
        assert!(error.to_string().contains("beyond its credit"), "{error}");
    }
    check(0).await;
    check(1000).await;
    check(64 * 1024).await;
    check(WINDOW - OUTPUT_HEAD - FRAME_COST).await;
    check(WINDOW).await;
    check(MAX_FRAME_BYTES - 1024).await;
}

#[tokio::test(start_paused = true)]
async fn a_helper_that_sends_a_result_beyond_its_credit_is_cut_off() {
    async fn check(bytes: usize, expect: &str) {
        let operations = connect_to(move |stream| {
            let data = vec![b' '; bytes];
            Box::pin(flood(stream, std::iter::once((Kind::Data, data))))
        })
        .await;
        let query = ListQuery {
            depth: 1,
            limit: 1,
            respect_ignores: false,
            withheld: &[],
            cancel: &CancellationToken::new(),
        };
        let root = WorkPath::relative(".").unwrap();
        let listed = timeout(PATIENCE, operations.files.list(&root, query));
        let error = listed.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{bytes}: {error}");
        assert!(error.to_string().contains(expect), "{bytes}: {error}");
    }
    // The control: all of the credit may be used, and the stream then ends.
    check(WINDOW - FRAME_COST, "closed the connection").await;
    check(WINDOW - FRAME_COST + 1, "beyond its credit").await;
}
