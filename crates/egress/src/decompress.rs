//! Bodies that arrive compressed. Only gzip is asked for, and nothing else is taken; what it becomes
//! is limited while it grows, so a small body that becomes a huge one ends at the limit. So does one
//! that becomes nothing: what arrives is counted too.

use haft_contract::{ErrorKind, ops::OpsError};
use miniz_oxide::{
    DataFormat, MZError, MZFlush, MZStatus,
    inflate::stream::{InflateState, inflate},
};

/// How much is unpacked at a time.
const PIECE: usize = 32 * 1024;

/// The longest header of a gzip stream: names and comments in it may have any length.
const MAX_HEADER: usize = 8 * 1024;

/// The most gzip streams in one body. Those who pack in blocks make one for each 64 KiB.
const MAX_STREAMS: usize = 4 * 1024;

/// The checksum and the length at the end of a gzip stream.
const TRAILER: usize = 8;

/// How a gzip stream begins.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

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
    /// How many bytes may still arrive.
    may_arrive: usize,
    streams: usize,
    part: Part,
}

/// What is done with what a server sends after this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestOfBody {
    Wanted,
    /// The body is whole; whatever follows is of no interest.
    Ignored,
}

/// The part of the stream that comes next.
enum Part {
    /// Not compressed.
    Plain,
    /// The first of a stream's two magic bytes; whether it is the first of all.
    Begin { is_first: bool },
    /// The second of them.
    Magic { is_first: bool },
    /// The rest of the header of a stream.
    Header(HeaderReader),
    /// Compressed data.
    Data(Box<InflateState>),
    /// What follows it: this many bytes more.
    Trailer(usize),
    /// What followed the last stream is none.
    Over,
}

impl BodyReader {
    pub(crate) fn new(encoding: Encoding, most: usize) -> Self {
        let (part, may_arrive) = match encoding {
            Encoding::Identity => (Part::Plain, usize::MAX),
            // What cannot be compressed becomes a little larger.
            Encoding::Gzip => (
                Part::Begin { is_first: true },
                most.saturating_add(most / 8).saturating_add(MAX_HEADER),
            ),
        };
        Self {
            body: Vec::new(),
            most,
            may_arrive,
            streams: 0,
            part,
        }
    }

    /// Takes what arrived.
    pub(crate) fn add(&mut self, mut chunk: &[u8]) -> Result<RestOfBody, OpsError> {
        self.may_arrive = self
            .may_arrive
            .checked_sub(chunk.len())
            .ok_or_else(|| too_large(self.most))?;
        let mut piece = match self.part {
            Part::Plain | Part::Over => Vec::new(),
            _ => vec![0; PIECE],
        };
        while let Some((&first, rest)) = chunk.split_first() {
            match &mut self.part {
                Part::Over => return Ok(RestOfBody::Ignored),
                Part::Plain => {
                    append(&mut self.body, std::mem::take(&mut chunk), self.most)?;
                }
                Part::Begin { is_first } => {
                    let is_first = *is_first;
                    let [begin, _] = MAGIC;
                    self.part = Part::magic(first == begin, is_first, || Part::Magic { is_first })?;
                    chunk = rest;
                }
                Part::Magic { is_first } => {
                    let [_, end] = MAGIC;
                    let header = || Part::Header(HeaderReader::default());
                    self.part = Part::magic(first == end, *is_first, header)?;
                    chunk = rest;
                }
                Part::Header(header) => {
                    // Byte by byte, because it ends where its content says.
                    chunk = rest;
                    if header.add(first)? {
                        self.streams += 1;
                        if self.streams > MAX_STREAMS {
                            return Err(broken("it is in too many pieces"));
                        }
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
                        // Another stream may follow.
                        self.part = Part::Begin { is_first: false };
                    }
                }
            }
        }
        Ok(match self.part {
            Part::Over => RestOfBody::Ignored,
            _ => RestOfBody::Wanted,
        })
    }

    /// The body, if all of it has arrived.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>, OpsError> {
        self.drain()?;
        match &self.part {
            // Nothing at all is an empty body: an answer to HEAD has an encoding and no body. A single
            // byte after the last stream begins none.
            Part::Plain | Part::Over | Part::Begin { .. } | Part::Magic { is_first: false } => {
                Ok(self.body)
            }
            Part::Magic { is_first: true } | Part::Header(_) | Part::Data(_) | Part::Trailer(_) => {
                Err(broken("it ends in the middle"))
            }
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

impl Part {
    /// What follows a magic byte. Anything may follow the last stream, and is left out.
    fn magic(fits: bool, is_first: bool, next: impl FnOnce() -> Self) -> Result<Self, OpsError> {
        match (fits, is_first) {
            (true, _) => Ok(next()),
            (false, true) => Err(broken("it is not what it says it is")),
            (false, false) => Ok(Self::Over),
        }
    }
}

/// The header of a gzip stream after its magic bytes, of which nothing is kept.
#[derive(Default)]
struct HeaderReader {
    read: usize,
    flags: u8,
    field: HeaderField,
}

/// The field of a header that comes next.
#[derive(Default, Clone, Copy)]
enum HeaderField {
    /// The method, the flags, a time and two words about who packed it.
    #[default]
    Fixed,
    /// The length of what follows, its low and then its high byte.
    ExtraLow,
    ExtraHigh(u8),
    /// This many bytes more.
    Extra(u16),
    Name,
    Comment,
    /// The checksum: this many bytes more.
    Checksum(u8),
    End,
}

impl HeaderReader {
    const CHECKSUM: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    /// How long the fixed part is.
    const FIXED: usize = 8;
    /// The only method there is.
    const DEFLATE: u8 = 8;

    /// Takes one byte; says whether it was the last.
    fn add(&mut self, byte: u8) -> Result<bool, OpsError> {
        self.read += 1;
        if self.read > MAX_HEADER {
            return Err(broken("it begins with too much"));
        }
        self.field = match self.field {
            HeaderField::Fixed => {
                match self.read {
                    1 if byte != Self::DEFLATE => {
                        return Err(broken("it is not what it says it is"));
                    }
                    2 => self.flags = byte,
                    _ => {}
                }
                if self.read < Self::FIXED {
                    HeaderField::Fixed
                } else if self.has(Self::EXTRA) {
                    HeaderField::ExtraLow
                } else {
                    self.after_extra()
                }
            }
            HeaderField::ExtraLow => HeaderField::ExtraHigh(byte),
            HeaderField::ExtraHigh(low) => match u16::from_le_bytes([low, byte]) {
                0 => self.after_extra(),
                length => HeaderField::Extra(length),
            },
            HeaderField::Extra(left) if left > 1 => HeaderField::Extra(left - 1),
            HeaderField::Extra(_) => self.after_extra(),
            HeaderField::Name if byte == 0 => self.after_name(),
            HeaderField::Name => HeaderField::Name,
            HeaderField::Comment if byte == 0 => self.after_comment(),
            HeaderField::Comment => HeaderField::Comment,
            HeaderField::Checksum(left) if left > 1 => HeaderField::Checksum(left - 1),
            HeaderField::Checksum(_) | HeaderField::End => HeaderField::End,
        };
        Ok(matches!(self.field, HeaderField::End))
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn after_extra(&self) -> HeaderField {
        if self.has(Self::NAME) {
            return HeaderField::Name;
        }
        self.after_name()
    }

    fn after_name(&self) -> HeaderField {
        if self.has(Self::COMMENT) {
            return HeaderField::Comment;
        }
        self.after_comment()
    }

    fn after_comment(&self) -> HeaderField {
        if self.has(Self::CHECKSUM) {
            return HeaderField::Checksum(2);
        }
        HeaderField::End
    }
}

fn append(body: &mut Vec<u8>, bytes: &[u8], most: usize) -> Result<(), OpsError> {
    if bytes.len() > most.saturating_sub(body.len()) {
        return Err(too_large(most));
    }
    body.extend_from_slice(bytes);
    Ok(())
}

fn too_large(most: usize) -> OpsError {
    let message = format!("the answer is larger than {most} bytes");
    OpsError::new(ErrorKind::LimitExceeded, message)
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
            if body.add(chunk).map_err(|error| error.kind())? == RestOfBody::Ignored {
                break;
            }
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
    fn what_follows_the_last_stream_is_left_out_and_not_waited_for() {
        let page = gzip(b"a page", 8 | 16 | 2, b"name\0comment\0ck");
        let another = gzip(b"!", 4, b"\0\0");
        for rest in [&b"\0\0\0\0"[..], b"x\x1f\x8b\x08", b"\x1f", b"\x1f\x1f\x8b"] {
            let whole = [&page, &another, rest].concat();
            for step in [1, 5, page.len(), usize::MAX] {
                let read = read(&whole, 100, step);
                assert_eq!(read, Ok(b"a page!".to_vec()), "{rest:?} {step}");
            }
        }
        let mut body = BodyReader::new(Encoding::Gzip, 100);
        assert_eq!(body.add(&page).unwrap(), RestOfBody::Wanted);
        assert_eq!(body.add(b"endless").unwrap(), RestOfBody::Ignored);
        // What begins like a stream is one, and has to be whole.
        let half = [&page, &another[..another.len() - 1]].concat();
        assert_eq!(read(&half, 100, 7), Err(ErrorKind::Unavailable));
    }

    #[test]
    fn streams_that_become_nothing_end_at_a_limit() {
        let none = gzip(b"", 0, b"");
        let most = 1024 * 1024;
        assert_eq!(read(&none.repeat(MAX_STREAMS), most, 4096), Ok(Vec::new()));
        let many = none.repeat(MAX_STREAMS + 1);
        assert_eq!(read(&many, most, 4096), Err(ErrorKind::Unavailable));
        let named = gzip(b"", 8, &[vec![b'a'; 8000], vec![0]].concat());
        let long = named.repeat(200);
        assert_eq!(read(&long, most, 4096), Err(ErrorKind::LimitExceeded));
    }

    #[test]
    fn what_is_broken_or_cut_off_is_no_body() {
        let whole = gzip(
            &b"some text that is long enough to be cut".repeat(40),
            0,
            b"",
        );
        for end in [1, 9, 12, whole.len() - TRAILER - 3, whole.len() - 1] {
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
