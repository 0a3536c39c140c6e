//! Copies bytes both ways until both sides have ended, nothing was sent for too long, or one side
//! failed.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep_until},
};

use super::{client::Client, session::ProxyState};

/// How much is moved at a time, each way.
const STEP_BYTES: usize = 16 * 1024;

/// When a byte last arrived.
pub(super) struct LastActivity {
    began: Instant,
    /// Milliseconds since the start.
    last: AtomicU64,
}

impl LastActivity {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    fn beat(&self) {
        let since = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(since, Ordering::Relaxed);
    }

    /// Returns once nothing has arrived for this long.
    async fn stops(&self, idle: Duration) {
        loop {
            let last = self.began + Duration::from_millis(self.last.load(Ordering::Relaxed));
            if Instant::now() >= last + idle {
                return;
            }
            sleep_until(last + idle).await;
        }
    }

    /// Runs a future until it ends or nothing has arrived for too long.
    pub(super) async fn during<T>(
        &self,
        idle: Duration,
        doing: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        tokio::select! {
            done = doing => done,
            () = self.stops(idle) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Copies everything both ways.
pub(super) async fn both_ways(
    shared: &ProxyState,
    client: Client,
    mut server: TcpStream,
) -> io::Result<()> {
    let Client {
        mut reader,
        mut writer,
    } = client;
    let (mut from, mut to) = server.split();
    let pulse = LastActivity::new();
    let moving = async {
        tokio::try_join!(
            all(&mut reader, &mut to, &pulse, &shared.counters.sent),
            all(&mut from, &mut writer, &pulse, &shared.counters.received),
        )
    };
    pulse.during(shared.timing.idle, moving).await.map(drop)
}

/// Copies everything one way and passes the end on.
pub(super) async fn all(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    pulse: &LastActivity,
    counter: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0; STEP_BYTES];
    while some(from, to, &mut buffer, pulse, counter).await? > 0 {}
    to.shutdown().await
}

/// Copies exactly this many bytes one way.
pub(super) async fn exactly(
    mut count: u64,
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    pulse: &LastActivity,
    counter: &AtomicU64,
) -> io::Result<()> {
    let step = |count| usize::try_from(count).unwrap_or(STEP_BYTES).min(STEP_BYTES);
    let mut buffer = vec![0; step(count)];
    while count > 0 {
        buffer.truncate(step(count));
        let moved = some(from, to, &mut buffer, pulse, counter).await?;
        if moved == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        count = count.saturating_sub(moved);
    }
    Ok(())
}

/// Copies what fits into the buffer; 0 at the end.
async fn some(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    buffer: &mut [u8],
    pulse: &LastActivity,
    counter: &AtomicU64,
) -> io::Result<u64> {
    let count = from.read(buffer).await?;
    to.write_all(buffer.get(..count).unwrap_or_default())
        .await?;
    pulse.beat();
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    counter.fetch_add(count, Ordering::Relaxed);
    Ok(count)
}
