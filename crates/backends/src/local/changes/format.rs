//! A picture as bytes: a header, directories with their entries, and a hash over all of it. What
//! does not read back exactly is discarded, and the workspace is scanned afresh.

use super::picture::{Content, Directory, Identity, WorkspacePicture};

/// The first bytes of such a file; the number is the version of the format.
const MAGIC: &[u8; 12] = b"haft-seen\0\0\x02";

/// Bytes of the hash at the end.
const HASH: usize = 32;

/// The most bytes one entry takes in addition to its name, to allocate enough at once.
const ENTRY: usize = 114;

const UNREAD: u8 = 0;
const KEPT: u8 = 1;
const KEPT_UNSETTLED: u8 = 2;
const LINK: u8 = 3;

/// The bytes of a picture.
pub(super) fn encode(picture: &WorkspacePicture) -> Vec<u8> {
    let mut out = Vec::with_capacity(picture.files() * ENTRY);
    out.extend_from_slice(MAGIC);
    for directory in picture.directories() {
        text(&mut out, &directory.path);
        out.extend_from_slice(&length(directory.entries.len()));
        for entry in &directory.entries {
            text(&mut out, directory.name(entry));
            let id = &entry.identity;
            for number in [id.device, id.inode, id.modified.1, id.changed.1] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            for number in [id.size, id.modified.0, id.changed.0] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.extend_from_slice(&id.mode.to_le_bytes());
            content(&mut out, &entry.content);
        }
    }
    let hash = blake3::hash(&out);
    out.extend_from_slice(hash.as_bytes());
    out
}

/// Decodes a picture; `None` if the bytes are damaged or of another version.
pub(super) fn decode(bytes: &[u8]) -> Option<WorkspacePicture> {
    let (body, hash) = bytes.split_at_checked(bytes.len().checked_sub(HASH)?)?;
    if blake3::hash(body).as_bytes() != hash {
        return None;
    }
    let mut rest = UnreadBytes(body.strip_prefix(MAGIC)?);
    let mut directories = Vec::new();
    while !rest.0.is_empty() {
        let mut directory = Directory::new(rest.text()?.to_vec());
        let entries = rest.length()?;
        for _ in 0..entries {
            let name = rest.text()?;
            let (device, inode) = (rest.number()?, rest.number()?);
            let (modified_nanos, changed_nanos) = (rest.number()?, rest.number()?);
            let (size, modified, changed) = (rest.signed()?, rest.signed()?, rest.signed()?);
            let mode = u32::from_le_bytes(rest.array()?);
            let identity = Identity {
                device,
                inode,
                size,
                mode,
                modified: (modified, modified_nanos),
                changed: (changed, changed_nanos),
            };
            directory.push(name, identity, rest.content()?);
        }
        directories.push(directory);
    }
    Some(WorkspacePicture::from_pieces(directories))
}

fn content(out: &mut Vec<u8>, content: &Content) {
    match content {
        Content::Kept {
            hash,
            hour,
            settled,
            mode,
        } => {
            out.push(if *settled { KEPT } else { KEPT_UNSETTLED });
            out.extend_from_slice(hash);
            out.extend_from_slice(&hour.to_le_bytes());
            out.extend_from_slice(&mode.to_le_bytes());
        }
        Content::Link(hash) => {
            out.push(LINK);
            out.extend_from_slice(hash);
        }
        // Whatever prevented keeping it may not do so the next time.
        Content::Unread | Content::NotKept(_) | Content::Gone => out.push(UNREAD),
    }
}

fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&length(bytes.len()));
    out.extend_from_slice(bytes);
}

/// Lengths and counts of names and entries are far below 2^32.
fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes()
}

/// Bytes not read yet.
struct UnreadBytes<'a>(&'a [u8]);

impl<'a> UnreadBytes<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.array()?)).ok()
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.array()?))
    }

    fn signed(&mut self) -> Option<i64> {
        Some(i64::from_le_bytes(self.array()?))
    }

    fn content(&mut self) -> Option<Content> {
        let [tag] = self.array()?;
        Some(match tag {
            UNREAD => Content::Unread,
            KEPT | KEPT_UNSETTLED => Content::Kept {
                hash: self.array()?,
                hour: u32::from_le_bytes(self.array()?),
                settled: tag == KEPT,
                mode: u32::from_le_bytes(self.array()?),
            },
            LINK => Content::Link(self.array()?),
            _ => return None,
        })
    }
}
