//! Standard input and output for a server: a separate thread reads or writes each, so that a client
//! that does not read, or sends nothing, blocks nothing else. The data in flight is bounded.

use std::{
    io::{self, Read as _, Write as _},
    pin::Pin,
    task::{Context, Poll, ready},
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::mpsc,
};
use tokio_util::sync::PollSender;

/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;

/// Pieces queued for reading; a client that sends faster than it is served waits.
const PIECES_IN: usize = 4;

/// Pieces queued for writing.
const PIECES_OUT: usize = 64;

/// How long writing the last answers may take when serving ends.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Standard input, as it arrives.
pub(super) struct Input {
    pieces: mpsc::Receiver<io::Result<Vec<u8>>>,
    /// What was read and not yet consumed, and how much of it was.
    left: (Vec<u8>, usize),
}

/// Standard output.
pub(super) struct OutputPipe {
    pieces: PollSender<Vec<u8>>,
}

/// The writing thread.
pub(super) struct Writer(JoinHandle<()>);

/// Starts reading standard input.
pub(super) fn input() -> io::Result<Input> {
    let (sender, pieces) = mpsc::channel(PIECES_IN);
    thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            let mut stdin = io::stdin().lock();
            loop {
                let mut piece = vec![0; READ_BYTES];
                let read = match stdin.read(&mut piece) {
                    Ok(0) => return,
                    Ok(read) => {
                        piece.truncate(read);
                        Ok(piece)
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let failed = read.is_err();
                if sender.blocking_send(read).is_err() || failed {
                    return;
                }
            }
        })?;
    Ok(Input {
        pieces,
        left: (Vec::new(), 0),
    })
}

/// Starts writing standard output.
pub(super) fn output() -> io::Result<(OutputPipe, Writer)> {
    let (sender, mut pieces) = mpsc::channel::<Vec<u8>>(PIECES_OUT);
    let writer = thread::Builder::new()
        .name("stdout".to_owned())
        .spawn(move || {
            let mut stdout = io::stdout().lock();
            while let Some(piece) = pieces.blocking_recv() {
                let written = stdout.write_all(&piece).and_then(|()| stdout.flush());
                // A client that no longer reads is gone; the sending side notices that its receiver
                // is closed.
                if written.is_err() {
                    return;
                }
            }
        })?;
    let output = OutputPipe {
        pieces: PollSender::new(sender),
    };
    Ok((output, Writer(writer)))
}

impl Writer {
    /// Waits until everything is written, or nobody seems to read it.
    pub(super) async fn finish(self) {
        let written = tokio::task::spawn_blocking(move || self.0.join());
        let _ = tokio::time::timeout(LAST_WORDS, written).await;
    }
}

impl AsyncRead for Input {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let (piece, taken) = &mut self.left;
            let rest = piece.get(*taken..).unwrap_or_default();
            if !rest.is_empty() {
                let fits = rest.len().min(buffer.remaining());
                buffer.put_slice(rest.get(..fits).unwrap_or_default());
                *taken += fits;
                return Poll::Ready(Ok(()));
            }
            match ready!(self.pieces.poll_recv(cx)) {
                None => return Poll::Ready(Ok(())),
                Some(Ok(piece)) => self.left = (piece, 0),
                Some(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for OutputPipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        ready!(self.pieces.poll_reserve(cx)).map_err(gone)?;
        self.pieces.send_item(bytes.to_vec()).map_err(gone)?;
        Poll::Ready(Ok(bytes.len()))
    }

    /// Accepted data is written in order; waiting for it here gains nothing.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pieces.close();
        Poll::Ready(Ok(()))
    }
}
