//! The frames both sides send: a length, a kind, the number of an exchange, a body.
//!
//! Every length is checked against a cap before anything is allocated. `wire.rs` defines what
//! bodies mean; nothing here interprets them.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, BufReader};

/// What the serving side sends first. Whatever a login shell prints before it is skipped.
pub(crate) const MAGIC: &[u8; 16] = b"\0haft-remote/1\r\n";

/// The most bytes skipped while looking for [`MAGIC`].
pub(crate) const MAX_PREAMBLE_BYTES: usize = 64 * 1024;

/// The largest frame, without its length.
pub(crate) const MAX_FRAME_BYTES: usize = 4 * 1024 * 1024;

/// How much of a file, a result or a request's body goes into one frame.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;

/// The size of kind and exchange number.
const HEAD_BYTES: usize = 1 + 8;

/// The size of the read buffer of a connection.
const READ_BUFFER_BYTES: usize = 128 * 1024;

/// One message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// What the body is.
    pub(crate) kind: Kind,
    /// The exchange it belongs to; 0 is the connection itself.
    pub(crate) exchange: u64,
    /// Its content, depending on the kind.
    pub(crate) body: Vec<u8>,
}

/// What a frame's body contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// JSON, before the first exchange: who is speaking, and what to open.
    Hello = 0,
    /// JSON: begins an exchange.
    Request = 1,
    /// Bytes of a request's body or of a result. Costs credit.
    Data = 2,
    /// Nothing: the request's body is complete.
    Finish = 3,
    /// JSON: ends an exchange.
    Reply = 4,
    /// JSON: a message before the end.
    Note = 5,
    /// A stream, a sequence number, and what a child wrote. Costs credit.
    Output = 6,
    /// Four bytes: how much more the other side may send in this exchange.
    Credit = 7,
    /// Nothing: the caller no longer needs this exchange or what it left open.
    Cancel = 8,
    /// Nothing: asks for a [`Kind::Pong`].
    Ping = 9,
    /// Nothing: the answer to a [`Kind::Ping`].
    Pong = 10,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Hello,
        Self::Request,
        Self::Data,
        Self::Finish,
        Self::Reply,
        Self::Note,
        Self::Output,
        Self::Credit,
        Self::Cancel,
        Self::Ping,
        Self::Pong,
    ];

    fn parse(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// A connection cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The stream ended, between frames or inside one.
    #[error("the other side closed the connection")]
    Ended,
    /// Reading from the operating system failed.
    #[error("reading failed: {0}")]
    Io(io::ErrorKind),
    /// An impossible length.
    #[error("a frame of {0} bytes is not one of ours")]
    Length(usize),
    /// A kind that this version does not know.
    #[error("frames of kind {0} are not known")]
    Kind(u8),
    /// The magic was not found.
    #[error("what answers is not Haft's helper")]
    Magic,
}

impl From<io::Error> for FrameError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset => Self::Ended,
            kind => Self::Io(kind),
        }
    }
}

impl Frame {
    /// A frame of an exchange.
    pub(crate) fn new(kind: Kind, exchange: u64, body: Vec<u8>) -> Self {
        Self {
            kind,
            exchange,
            body,
        }
    }

    /// A frame without a body.
    pub(crate) fn bare(kind: Kind, exchange: u64) -> Self {
        Self::new(kind, exchange, Vec::new())
    }

    /// A frame that grants credit.
    pub(crate) fn credit(exchange: u64, bytes: u32) -> Self {
        Self::new(Kind::Credit, exchange, bytes.to_be_bytes().to_vec())
    }

    /// The credit this frame grants.
    pub(crate) fn granted(&self) -> Option<u32> {
        <[u8; 4]>::try_from(self.body.as_slice())
            .ok()
            .map(u32::from_be_bytes)
    }

    /// Length, kind and exchange, to be followed by the body. `None` if the body is too large.
    pub(crate) fn head(&self) -> Option<[u8; 4 + HEAD_BYTES]> {
        let length = self.body.len().checked_add(HEAD_BYTES)?;
        let length = u32::try_from(length)
            .ok()
            .filter(|_| length <= MAX_FRAME_BYTES)?;
        let mut head = [0; 4 + HEAD_BYTES];
        let (first, rest) = head.split_first_chunk_mut::<4>()?;
        *first = length.to_be_bytes();
        let (kind, rest) = rest.split_first_mut()?;
        *kind = self.kind as u8;
        rest.copy_from_slice(&self.exchange.to_be_bytes());
        Some(head)
    }
}

/// Reads frames. The futures of its methods must not be dropped half way: what was read would be
/// lost.
pub(crate) struct FrameReader<R> {
    inner: BufReader<R>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self {
            inner: BufReader::with_capacity(READ_BUFFER_BYTES, inner),
        }
    }

    /// Skips what comes before the magic.
    pub(crate) async fn find_magic(&mut self) -> Result<(), FrameError> {
        let mut window = std::collections::VecDeque::with_capacity(MAGIC.len());
        for _ in 0..MAX_PREAMBLE_BYTES {
            if window.len() == MAGIC.len() {
                window.pop_front();
            }
            window.push_back(self.inner.read_u8().await?);
            if window.iter().eq(MAGIC.iter()) {
                return Ok(());
            }
        }
        Err(FrameError::Magic)
    }

    /// The next frame.
    pub(crate) async fn next(&mut self) -> Result<Frame, FrameError> {
        let length = usize::try_from(self.inner.read_u32().await?).unwrap_or(usize::MAX);
        if !(HEAD_BYTES..=MAX_FRAME_BYTES).contains(&length) {
            return Err(FrameError::Length(length));
        }
        let byte = self.inner.read_u8().await?;
        let kind = Kind::parse(byte).ok_or(FrameError::Kind(byte))?;
        let exchange = self.inner.read_u64().await?;
        let mut body = vec![0; length - HEAD_BYTES];
        self.inner.read_exact(&mut body).await?;
        Ok(Frame {
            kind,
            exchange,
            body,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(frame: &Frame) -> Vec<u8> {
        [frame.head().unwrap().as_slice(), &frame.body].concat()
    }

    async fn check(input: &[u8], expect: Result<Frame, &str>) {
        let got = FrameReader::new(input).next().await;
        assert_eq!(
            got.map_err(|error| error.to_string()),
            expect.map_err(str::to_owned),
            "{input:?}"
        );
    }

    #[tokio::test]
    async fn every_kind_comes_back_as_it_was() {
        for kind in Kind::ALL {
            let frame = Frame::new(kind, u64::MAX - 1, b"body\0\n".to_vec());
            check(&bytes(&frame), Ok(frame)).await;
        }
    }

    #[tokio::test]
    async fn lengths_and_kinds_that_cannot_be_are_refused_before_anything_is_read() {
        check(
            &[0xff, 0xff, 0xff, 0xff, 1],
            Err("a frame of 4294967295 bytes is not one of ours"),
        )
        .await;
        check(
            &[0, 0, 0, 8, 1],
            Err("a frame of 8 bytes is not one of ours"),
        )
        .await;
        check(
            &[0, 0, 0, 9, 99, 0, 0, 0, 0, 0, 0, 0, 0],
            Err("frames of kind 99 are not known"),
        )
        .await;
        check(
            &[0, 0, 0, 9, 1, 0],
            Err("the other side closed the connection"),
        )
        .await;
        check(&[], Err("the other side closed the connection")).await;
    }

    #[test]
    fn a_body_beyond_the_cap_is_not_sent() {
        let body = vec![0; MAX_FRAME_BYTES];
        assert!(Frame::new(Kind::Data, 1, body).head().is_none());
    }

    #[tokio::test]
    async fn what_a_login_shell_prints_is_passed_over() {
        let frame = Frame::bare(Kind::Ping, 7);
        let stream = [
            b"Last login: today\r\n\0haft-remote".as_slice(),
            MAGIC,
            &bytes(&frame),
        ]
        .concat();
        let mut reader = FrameReader::new(stream.as_slice());
        reader.find_magic().await.unwrap();
        assert_eq!(reader.next().await.unwrap(), frame);
    }

    #[tokio::test]
    async fn a_stream_without_the_magic_is_given_up() {
        let endless = tokio::io::repeat(b'x');
        let found = FrameReader::new(endless).find_magic().await;
        assert!(matches!(found, Err(FrameError::Magic)));
    }
}
