//! A stream as text: one JSON object a line. `docs/spec/export.md` describes it.
//!
//! The last line has the hash of all bytes before it, so that any change shows. The line before has a
//! signature over all bytes before it, which whoever has the key of the exporting ledger can check.

use std::{
    borrow::Cow,
    io::{BufRead, Read as _, Write},
    sync::Arc,
};

use haft_contract::{TenantId, host::Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    SignedEnd, TransferBegin, TransferEnd, TransferError, TransferRow,
    hex::{decode, encode},
};
use crate::{
    chain::{Hash, Head},
    seal::Seal,
};

/// The longest line of an export, in bytes. Several times what the largest row needs.
pub const MAX_LINE_BYTES: u64 = 64 << 20;

/// The version of the text.
const FORM: u32 = 1;

/// Names what is signed.
const SEAL: &str = "haft-export-1";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line<'a> {
    Begin(BeginLine<'a>),
    #[serde(borrow)]
    Row(RowLine<'a>),
    End(EndLine),
    Blake3(String),
}

#[derive(Serialize, Deserialize)]
struct BeginLine<'a> {
    form: u32,
    tenant: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since_us: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    starts: Vec<StartLine>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StartLine {
    writer: String,
    sequence: u64,
    hash: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowLine<'a> {
    position: i64,
    /// Left out where it is that of the row before, as is the principal.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    writer: Option<Cow<'a, str>>,
    sequence: u64,
    call: String,
    part: i64,
    listed: i64,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    principal: Option<Cow<'a, str>>,
    at_us: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    terminal: Option<i64>,
    form: i64,
    /// The body as it is; where it is no text, in hexadecimal instead.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    hex: Option<Cow<'a, str>>,
    hash: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndLine {
    rows: u64,
    chains: Vec<ChainLine>,
    mac: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChainLine {
    writer: String,
    sequence: u64,
    hash: String,
    mac: String,
}

/// Signs all bytes before the end, and the end.
fn seal(before: &Hash, end: &TransferEnd, key: &[u8; 32]) -> Seal {
    let rows = i64::try_from(end.rows).unwrap_or(i64::MAX);
    let mut seal = Seal::new(SEAL, key).bytes(before).number(rows);
    for chain in &end.chains {
        seal = seal
            .text(&chain.writer)
            .bytes(&chain.head.sequence.to_be_bytes())
            .bytes(&chain.head.hash)
            .bytes(&chain.mac);
    }
    seal
}

/// Writes a stream as text.
pub(super) struct TextWriter<W> {
    out: W,
    hasher: blake3::Hasher,
    /// Names of the row before.
    writer: Option<Arc<str>>,
    principal: Option<Arc<str>>,
}

impl<W: Write> TextWriter<W> {
    /// Writes what a stream begins with.
    pub(super) fn begin(out: W, begin: &TransferBegin) -> Result<Self, TransferError> {
        let mut text = Self {
            out,
            hasher: blake3::Hasher::new(),
            writer: None,
            principal: None,
        };
        let start = |(writer, head): &(String, Head)| StartLine {
            writer: writer.clone(),
            sequence: head.sequence,
            hash: encode(&head.hash),
        };
        text.line(&Line::Begin(BeginLine {
            form: FORM,
            tenant: begin.tenant.as_str().into(),
            since_us: begin.since.map(|since| since.0),
            starts: begin.starts.iter().map(start).collect(),
        }))?;
        Ok(text)
    }

    /// Writes a row.
    pub(super) fn row(&mut self, row: &TransferRow) -> Result<(), TransferError> {
        let text = std::str::from_utf8(&row.body).ok();
        let writer = self.writer.as_ref() != Some(&row.writer);
        let principal = self.principal.as_ref() != Some(&row.principal);
        let line = Line::Row(RowLine {
            position: row.position,
            writer: writer.then(|| Cow::Borrowed(&*row.writer)),
            sequence: row.sequence,
            call: row.call.to_string(),
            part: row.part,
            listed: row.listed,
            principal: principal.then(|| Cow::Borrowed(&*row.principal)),
            at_us: row.at,
            terminal: row.terminal,
            form: row.form,
            text: text.map(Cow::Borrowed),
            hex: text.is_none().then(|| Cow::Owned(encode(&row.body))),
            hash: encode(&row.hash),
        });
        self.line(&line)?;
        self.writer = Some(Arc::clone(&row.writer));
        self.principal = Some(Arc::clone(&row.principal));
        Ok(())
    }

    /// Writes the end, signed.
    pub(super) fn end(mut self, end: &TransferEnd, key: &[u8; 32]) -> Result<(), TransferError> {
        let before = *self.hasher.finalize().as_bytes();
        let chain = |chain: &SignedEnd| ChainLine {
            writer: chain.writer.clone(),
            sequence: chain.head.sequence,
            hash: encode(&chain.head.hash),
            mac: encode(&chain.mac),
        };
        self.line(&Line::End(EndLine {
            rows: end.rows,
            chains: end.chains.iter().map(chain).collect(),
            mac: encode(&seal(&before, end, key).sign()),
        }))?;
        let all = self.hasher.finalize().to_hex().to_string();
        self.line(&Line::Blake3(all))?;
        self.out.flush().map_err(TransferError::Write)
    }

    fn line(&mut self, line: &Line<'_>) -> Result<(), TransferError> {
        let failed = |error: serde_json::Error| TransferError::Write(error.into());
        let mut text = serde_json::to_vec(line).map_err(failed)?;
        text.push(b'\n');
        if text.len() as u64 > MAX_LINE_BYTES {
            let error = std::io::Error::other("a row is larger than a line may be");
            return Err(TransferError::Write(error));
        }
        self.hasher.update(&text);
        self.out.write_all(&text).map_err(TransferError::Write)
    }
}

/// Reads a stream as text. What it returns was read, not checked.
pub(super) struct TextReader<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    /// Of the lines before this one.
    hasher: blake3::Hasher,
    writer: Option<Arc<str>>,
    principal: Option<Arc<str>>,
}

/// What follows the beginning.
pub(super) enum Item {
    Row(TransferRow),
    End(TransferEnd, FileSeal),
}

/// What signs a whole text.
pub(super) struct FileSeal {
    before: Hash,
    mac: Vec<u8>,
}

impl FileSeal {
    /// Whether this key signed it.
    pub(super) fn is_of(&self, end: &TransferEnd, key: &[u8; 32]) -> bool {
        seal(&self.before, end, key).is(&self.mac)
    }
}

impl<R: BufRead> TextReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            line: Vec::new(),
            number: 0,
            hasher: blake3::Hasher::new(),
            writer: None,
            principal: None,
        }
    }

    /// What the stream begins with.
    pub(super) fn begin(&mut self) -> Result<TransferBegin, TransferError> {
        self.read_line()?;
        let Some(Line::Begin(begin)) = self.parsed() else {
            return Err(self.bad("it does not begin an export"));
        };
        if begin.form != FORM {
            let reason = format!("its form is {}, and this program knows {FORM}", begin.form);
            return Err(self.bad(&reason));
        }
        let start = |start: &StartLine| {
            let (sequence, hash) = (start.sequence, hash(&start.hash)?);
            Some((start.writer.clone(), Head { sequence, hash }))
        };
        let tenant = TenantId::parse(&begin.tenant).ok();
        let starts: Option<Vec<_>> = begin.starts.iter().map(start).collect();
        let since = begin.since_us.map(Timestamp);
        match tenant.zip(starts) {
            Some((tenant, starts)) => Ok(TransferBegin {
                tenant,
                since,
                starts,
            }),
            None => Err(self.bad("it does not begin an export")),
        }
    }

    /// The next row, or the end.
    pub(super) fn next(&mut self) -> Result<Item, TransferError> {
        self.read_line()?;
        // Taken out, because a row is borrowed from it.
        let line = std::mem::take(&mut self.line);
        let item = match serde_json::from_slice(&line) {
            Ok(Line::Row(row)) => Ok(self.row(row)),
            Ok(Line::End(end)) => Err(Some(end)),
            Ok(Line::Begin(_) | Line::Blake3(_)) | Err(_) => Err(None),
        };
        self.line = line;
        match item {
            Ok(row) => row.map(Item::Row),
            Err(Some(end)) => self.end(&end),
            Err(None) => Err(self.bad("it is not a row")),
        }
    }

    fn row(&mut self, row: RowLine<'_>) -> Result<TransferRow, TransferError> {
        if let Some(writer) = row.writer {
            self.writer = Some(Arc::from(writer));
        }
        if let Some(principal) = row.principal {
            self.principal = Some(Arc::from(principal));
        }
        let body = match (row.text, row.hex) {
            (Some(text), None) => Some(text.into_owned().into_bytes()),
            (None, Some(hex)) => decode(&hex),
            (Some(_), Some(_)) | (None, None) => None,
        };
        let names = self.writer.clone().zip(self.principal.clone());
        let call = Uuid::parse_str(&row.call).ok();
        let bytes = body.zip(hash(&row.hash)).zip(call);
        let Some(((writer, principal), ((body, hash), call))) = names.zip(bytes) else {
            return Err(self.bad("it is not a row"));
        };
        Ok(TransferRow {
            position: row.position,
            writer,
            sequence: row.sequence,
            call,
            part: row.part,
            listed: row.listed,
            principal,
            at: row.at_us,
            terminal: row.terminal,
            form: row.form,
            body,
            hash,
        })
    }

    /// The end, after which there is one more line: the hash of all bytes before it.
    fn end(&mut self, end: &EndLine) -> Result<Item, TransferError> {
        let before = *self.hasher.finalize().as_bytes();
        let chain = |chain: &ChainLine| {
            let (sequence, hash) = (chain.sequence, hash(&chain.hash)?);
            Some(SignedEnd {
                writer: chain.writer.clone(),
                head: Head { sequence, hash },
                mac: decode(&chain.mac)?,
            })
        };
        let chains: Option<Vec<_>> = end.chains.iter().map(chain).collect();
        let Some((chains, mac)) = chains.zip(decode(&end.mac)) else {
            return Err(self.bad("it is not an end"));
        };
        self.read_line()?;
        let all = self.hasher.finalize().to_hex().to_string();
        let expect = serde_json::to_string(&Line::Blake3(all)).unwrap_or_default();
        if self.line.strip_suffix(b"\n") != Some(expect.as_bytes()) {
            return Err(TransferError::Altered("it was changed"));
        }
        let rest = self.input.fill_buf().map_err(TransferError::Read)?;
        if !rest.is_empty() {
            return Err(TransferError::Altered("something follows its end"));
        }
        let end = TransferEnd {
            rows: end.rows,
            chains,
        };
        Ok(Item::End(end, FileSeal { before, mac }))
    }

    fn read_line(&mut self) -> Result<(), TransferError> {
        self.hasher.update(&self.line);
        self.line.clear();
        self.number += 1;
        let mut limited = (&mut self.input).take(MAX_LINE_BYTES);
        let read = limited.read_until(b'\n', &mut self.line);
        read.map_err(TransferError::Read)?;
        if self.line.last() != Some(&b'\n') {
            return Err(if self.line.len() as u64 == MAX_LINE_BYTES {
                self.bad("it is longer than a line may be")
            } else {
                TransferError::Altered("its end was cut off")
            });
        }
        Ok(())
    }

    fn parsed(&self) -> Option<Line<'_>> {
        serde_json::from_slice(&self.line).ok()
    }

    fn bad(&self, reason: &str) -> TransferError {
        TransferError::Line {
            line: self.number,
            reason: reason.to_owned(),
        }
    }
}

fn hash(text: &str) -> Option<Hash> {
    decode(text)?.try_into().ok()
}
