//! Bodies that arrive compressed. Only gzip is asked for, and nothing else is taken; what it becomes
//! is limited while it grows, so a small body that becomes a huge one ends at the limit.

use haft_contract::{ErrorKind, ops::OpsError};
use miniz_oxide::{
    DataFormat, MZError, MZFlush, MZStatus,
    inflate::stream::{InflateState, inflate},
};

/// How much is unpacked at a time.
const PIECE: usize = 32 * 1024;

/// The longest header of a gzip stream: names and comments in it may have any length.
const MAX_HEADER: usize = 8 * 1024;

/// The fixed part of that header.
const FIXED_HEADER: usize = 10;

/// The checksum and the length at its end.
const TRAILER: usize = 8;

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
}

impl Encoding {
    /// The encoding a header names, if it is one that was asked for.
    pub(crate) fn of(named: &[u8]) -> Option<Self> {
        let named = named.trim_ascii();
        if named.is_empty() || named.eq_ignore_ascii_case(b"identity") {
            return Some(Self::Identity);
        }
        let is_gzip = [&b"gzip"[..], b"x-gzip"]
            .iter()
            .any(|gzip| named.eq_ignore_ascii_case(gzip));
        is_gzip.then_some(Self::Gzip)
    }
}

/// A body as it grows.
pub(crate) struct BodyReader {
    body: Vec<u8>,
    most: usize,
    part: Part,
}

/// The part of the stream that comes next.
enum Part {
    /// Not compressed.
    Plain,
    /// The header of a gzip stream, as far as it has arrived.
    Header(Vec<u8>),
    /// Compressed data.
    Data(Box<InflateState>),
    /// What follows it: this many bytes more.
    Trailer(usize),
}

impl BodyReader {
    pub(crate) fn new(encoding: Encoding, most: usize) -> Self {
        Self {
            body: Vec::new(),
            most,
            part: match encoding {
                Encoding::Identity => Part::Plain,
                Encoding::Gzip => Part::Header(Vec::new()),
            },
        }
    }

    /// Takes what arrived.
    pub(crate) fn add(&mut self, mut chunk: &[u8]) -> Result<(), OpsError> {
        let mut piece = match self.part {
            Part::Plain => Vec::new(),
            Part::Header(_) | Part::Data(_) | Part::Trailer(_) => vec![0; PIECE],
        };
        while !chunk.is_empty() {
            match &mut self.part {
                Part::Plain => {
                    let all = std::mem::take(&mut chunk);
                    append(&mut self.body, all, self.most)?;
                }
                Part::Header(header) => {
                    // Byte by byte, because it ends where its content says.
                    let Some((first, rest)) = chunk.split_first() else {
                        return Ok(());
                    };
                    header.push(*first);
                    chunk = rest;
                    if header.len() > MAX_HEADER {
                        return Err(broken("it begins with too much"));
                    }
                    if header_ends(header)? {
                        self.part = Part::Data(InflateState::new_boxed(DataFormat::Raw));
                    }
                }
                Part::Data(state) => {
                    let result = inflate(state, chunk, &mut piece, MZFlush::None);
                    chunk = chunk.get(result.bytes_consumed..).unwrap_or_default();
                    let written = piece.get(..result.bytes_written).unwrap_or_default();
                    append(&mut self.body, written, self.most)?;
                    match result.status {
                        Ok(MZStatus::StreamEnd) => self.part = Part::Trailer(TRAILER),
                        Ok(_) | Err(MZError::Buf) => {
                            if result.bytes_consumed == 0 && result.bytes_written == 0 {
                                return Err(broken("it makes no sense"));
                            }
                        }
                        Err(_) => return Err(broken("it makes no sense")),
                    }
                }
                Part::Trailer(left) => {
                    let taken = chunk.len().min(*left);
                    *left -= taken;
                    chunk = chunk.get(taken..).unwrap_or_default();
                    if *left == 0 {
                        // Another stream may follow. Whatever else does is of no interest.
                        if !chunk.is_empty()
                            && !b"\x1f".starts_with(chunk.get(..1).unwrap_or_default())
                        {
                            return Ok(());
                        }
                        self.part = Part::Header(Vec::new());
                    }
                }
            }
        }
        Ok(())
    }

    /// The body, if all of it has arrived.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>, OpsError> {
        self.drain()?;
        match &self.part {
            Part::Plain | Part::Trailer(_) => Ok(self.body),
            Part::Header(header) if header.is_empty() => Ok(self.body),
            Part::Header(_) | Part::Data(_) => Err(broken("it ends in the middle")),
        }
    }

    /// Unpacks what was taken and is not yet written.
    fn drain(&mut self) -> Result<(), OpsError> {
        let mut piece = vec![0; PIECE];
        while let Part::Data(state) = &mut self.part {
            let result = inflate(state, &[], &mut piece, MZFlush::None);
            let written = piece.get(..result.bytes_written).unwrap_or_default();
            append(&mut self.body, written, self.most)?;
            match result.status {
                Ok(MZStatus::StreamEnd) => self.part = Part::Trailer(TRAILER),
                _ if result.bytes_written == 0 => return Ok(()),
                _ => {}
            }
        }
        Ok(())
    }
}

fn append(body: &mut Vec<u8>, bytes: &[u8], most: usize) -> Result<(), OpsError> {
    if bytes.len() > most.saturating_sub(body.len()) {
        let message = format!("the answer is larger than {most} bytes");
        return Err(OpsError::new(ErrorKind::LimitExceeded, message));
    }
    body.extend_from_slice(bytes);
    Ok(())
}

/// Whether the header of a gzip stream is complete.
fn header_ends(header: &[u8]) -> Result<bool, OpsError> {
    const CHECKSUM: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    let byte = |at: usize| header.get(at).copied();
    let magic = [0x1f, 0x8b, 8];
    if header
        .iter()
        .zip(magic)
        .any(|(byte, expect)| *byte != expect)
    {
        return Err(broken("it is not what it says it is"));
    }
    let (Some(flags), true) = (byte(3), header.len() >= FIXED_HEADER) else {
        return Ok(false);
    };
    let mut at = FIXED_HEADER;
    if flags & EXTRA != 0 {
        let (Some(low), Some(high)) = (byte(at), byte(at + 1)) else {
            return Ok(false);
        };
        at += 2 + usize::from(u16::from_le_bytes([low, high]));
    }
    for flag in [NAME, COMMENT] {
        if flags & flag != 0 {
            let rest = header.get(at..).unwrap_or_default();
            let Some(end) = rest.iter().position(|byte| *byte == 0) else {
                return Ok(false);
            };
            at += end + 1;
        }
    }
    if flags & CHECKSUM != 0 {
        at += 2;
    }
    Ok(header.len() >= at)
}

fn broken(why: &str) -> OpsError {
    let message = format!("the compressed answer cannot be unpacked: {why}");
    OpsError::new(ErrorKind::Unavailable, message)
}

#[cfg(test)]
mod tests {
    use miniz_oxide::deflate::compress_to_vec;

    use super::*;

    fn gzip(text: &[u8], flags: u8, extra: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 255];
        bytes.extend_from_slice(extra);
        bytes.extend(compress_to_vec(text, 6));
        // Nobody compares the checksum: whoever sends the body can make one that fits.
        bytes.extend([0; TRAILER]);
        bytes
    }

    fn read(bytes: &[u8], most: usize, step: usize) -> Result<Vec<u8>, ErrorKind> {
        let mut body = BodyReader::new(Encoding::Gzip, most);
        for chunk in bytes.chunks(step) {
            body.add(chunk).map_err(|error| error.kind())?;
        }
        body.finish().map_err(|error| error.kind())
    }

    #[test]
    fn gzip_is_unpacked_however_it_arrives() {
        let text: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
        let named = [
            gzip(&text, 8, b"name\0"),
            gzip(b"", 4, b"\x02\0ab"),
            gzip(b"end", 0, b""),
        ]
        .concat();
        for step in [1, 7, 4096, usize::MAX] {
            let expect = [text.as_slice(), b"end"].concat();
            assert_eq!(read(&named, 1_000_000, step), Ok(expect), "{step}");
        }
        assert_eq!(read(b"", 10, 1), Ok(Vec::new()));
    }

    #[test]
    fn a_bomb_ends_at_the_limit() {
        let mut inner = vec![0; 200_000_000];
        let bomb = gzip(&inner, 0, b"");
        assert!(bomb.len() < 250_000);
        inner.clear();
        assert_eq!(read(&bomb, 1_000_000, 8192), Err(ErrorKind::LimitExceeded));
        let endless_name = [
            &[0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 255][..],
            &vec![b'a'; 20_000],
        ]
        .concat();
        assert_eq!(
            read(&endless_name, 1_000_000, 8192),
            Err(ErrorKind::Unavailable)
        );
    }

    #[test]
    fn what_is_broken_or_cut_off_is_no_body() {
        let whole = gzip(
            &b"some text that is long enough to be cut".repeat(40),
            0,
            b"",
        );
        for end in [1, 9, 12, whole.len() - TRAILER - 3] {
            assert_eq!(
                read(&whole[..end], 1 << 20, 5),
                Err(ErrorKind::Unavailable),
                "{end}"
            );
        }
        let mut other = whole.clone();
        other[20] ^= 0xff;
        other[21] ^= 0xff;
        let _ = read(&other, 1 << 20, 5);
        assert_eq!(read(b"<html>", 100, 3), Err(ErrorKind::Unavailable));
        assert_eq!(Encoding::of(b" GZIP "), Some(Encoding::Gzip));
        for other in [&b"br"[..], b"zstd", b"deflate", b"gzip, gzip", b"\xff"] {
            assert_eq!(Encoding::of(other), None);
        }
    }
}
