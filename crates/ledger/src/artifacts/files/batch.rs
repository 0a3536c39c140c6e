//! Many artifacts at once: a workspace before a command may hold tens of thousands of small files,
//! and a disk sync for each would take minutes.
//!
//! Each is still written to a temporary file and renamed to its hash, so a name never leads to
//! partial content while the machine runs. After a power cut it may; opening it then fails, because
//! content is compared with its hash.

use std::io::{self, Write as _};

use haft_contract::host::ArtifactId;

use super::{Folders, MAX_ARTIFACT_BYTES, place};
use crate::directory::{PrivateDirectory, random_name};

impl Folders {
    /// Stores each content, in this order, without waiting for the disk.
    pub(super) fn keep_all(&self, contents: &[Vec<u8>]) -> io::Result<Vec<ArtifactId>> {
        if let Some(large) = contents
            .iter()
            .find(|content| content.len() as u64 > MAX_ARTIFACT_BYTES)
        {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("{} bytes are too many for an artifact", large.len()),
            ));
        }
        let ids: Vec<ArtifactId> = contents
            .iter()
            .map(|content| ArtifactId {
                hash: *blake3::hash(content).as_bytes(),
                bytes: content.len() as u64,
            })
            .collect();
        let mut wanted: Vec<(ArtifactId, &[u8])> = ids
            .iter()
            .zip(contents)
            .map(|(id, content)| (*id, content.as_slice()))
            .collect();
        let aside = random_name()?;
        let mut written = 0_usize;
        self.in_folders(&mut wanted, |folder, name, id, content| {
            if folder.renew(name, id.bytes)? {
                return Ok(());
            }
            written += 1;
            let aside = format!("{aside}-{written}");
            let mut file = self.writing.create_new(&aside)?;
            let kept = file
                .write_all(content)
                .and_then(|()| self.writing.rename(&aside, folder, name));
            if kept.is_err() {
                // If it cannot be removed now, it is swept as abandoned later.
                let _ = self.writing.remove(&aside);
            }
            kept
        })?;
        Ok(ids)
    }

    /// Which of these exist; each gets the age of a new one.
    pub(super) fn renew(&self, ids: &[ArtifactId]) -> io::Result<Vec<bool>> {
        let mut wanted: Vec<(ArtifactId, usize)> =
            ids.iter().enumerate().map(|(at, id)| (*id, at)).collect();
        let mut here = vec![false; ids.len()];
        self.in_folders(&mut wanted, |folder, name, id, at| {
            let found = folder.renew(name, id.bytes)?;
            if let Some(here) = here.get_mut(at) {
                *here = found;
            }
            Ok(())
        })?;
        Ok(here)
    }

    /// Visits artifacts in name order, so that each folder is opened once.
    fn in_folders<T: Copy>(
        &self,
        wanted: &mut [(ArtifactId, T)],
        mut visit: impl FnMut(&PrivateDirectory, &str, ArtifactId, T) -> io::Result<()>,
    ) -> io::Result<()> {
        wanted.sort_unstable_by_key(|(id, _)| *id);
        for together in wanted.chunk_by(|(a, _), (b, _)| a.hash.first() == b.hash.first()) {
            let mut directory = None;
            for (id, with) in together {
                let (folder, name) = place(*id);
                let directory = match &directory {
                    Some(open) => open,
                    None => {
                        directory.insert(self.root.subdirectory(&folder).map_err(io::Error::other)?)
                    }
                };
                visit(directory, &name, *id, *with)?;
            }
        }
        Ok(())
    }
}
