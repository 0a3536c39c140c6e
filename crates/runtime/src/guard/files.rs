//! Guarded files: only planned paths, with pre-images kept and versions noted.

use haft_contract::{
    BoxFuture, CallEvent, ErrorKind, WorkPath,
    host::{ArtifactId, LedgerError},
    ops::{
        CopyFile, FileKind, FileOps, FileReader, FileStat, FileVersion, ListQuery, Listing,
        OpsError, Overwrite, RemoveScope, Resolved, WriteFile, Written,
    },
};

use super::Guard;

/// How much of a file is held in memory while its pre-image is kept.
const CHUNK_BYTES: usize = 1024 * 1024;

impl FileOps for Guard {
    fn resolve<'a>(&'a self, path: &'a WorkPath) -> BoxFuture<'a, Result<Resolved, OpsError>> {
        Box::pin(async move {
            let path = self.readable(path)?;
            self.operations().files.resolve(&path).await
        })
    }

    fn stat<'a>(&'a self, path: &'a WorkPath) -> BoxFuture<'a, Result<FileStat, OpsError>> {
        Box::pin(async move {
            let path = self.readable(path)?;
            self.operations().files.stat(&path).await
        })
    }

    fn open<'a>(
        &'a self,
        path: &'a WorkPath,
    ) -> BoxFuture<'a, Result<Box<dyn FileReader>, OpsError>> {
        Box::pin(async move {
            let path = self.readable(path)?;
            let reader = self.operations().files.open(&path).await?;
            self.note_seen(&path, &reader.stat().version);
            Ok(reader)
        })
    }

    fn write<'a>(
        &'a self,
        path: &'a WorkPath,
        write: WriteFile<'a>,
    ) -> BoxFuture<'a, Result<Written, OpsError>> {
        Box::pin(async move {
            let path = self.writable(path)?;
            self.keep_preimage(&path).await?;
            let written = self.operations().files.write(&path, write).await?;
            Ok(self.changed(&path, written))
        })
    }

    fn append<'a>(
        &'a self,
        path: &'a WorkPath,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<Written, OpsError>> {
        Box::pin(async move {
            let path = self.writable(path)?;
            self.keep_preimage(&path).await?;
            let written = self.operations().files.append(&path, bytes).await?;
            Ok(self.changed(&path, written))
        })
    }

    fn list<'a>(
        &'a self,
        path: &'a WorkPath,
        query: ListQuery<'a>,
    ) -> BoxFuture<'a, Result<Listing, OpsError>> {
        Box::pin(async move {
            let path = self.readable(path)?;
            let query = ListQuery {
                withheld: &self.plan.withheld,
                ..query
            };
            self.operations().files.list(&path, query).await
        })
    }

    fn make_dir<'a>(&'a self, path: &'a WorkPath) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async move {
            let path = self.writable(path)?;
            self.operations().files.make_dir(&path).await
        })
    }

    fn remove<'a>(
        &'a self,
        path: &'a WorkPath,
        scope: RemoveScope,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async move {
            let path = self.writable(path)?;
            match scope {
                RemoveScope::File => self.keep_preimage(&path).await?,
                // No built-in tool removes trees; whoever plans one knows that it is not undone.
                RemoveScope::Tree => {}
            }
            self.operations().files.remove(&path, scope).await?;
            self.recording.note(CallEvent::FileChanged {
                path,
                after: None,
                artifact: None,
            });
            Ok(())
        })
    }

    fn rename<'a>(
        &'a self,
        from: &'a WorkPath,
        to: &'a WorkPath,
        overwrite: Overwrite,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async move {
            let (from, to) = (self.writable(from)?, self.writable(to)?);
            self.keep_preimage(&from).await?;
            self.keep_preimage(&to).await?;
            self.operations()
                .files
                .rename(&from, &to, overwrite)
                .await?;
            self.recording.note(CallEvent::FileChanged {
                path: from,
                after: None,
                artifact: None,
            });
            let after = self
                .operations()
                .files
                .stat(&to)
                .await
                .ok()
                .map(|stat| stat.version);
            self.recording.note(CallEvent::FileChanged {
                path: to,
                after,
                artifact: None,
            });
            Ok(())
        })
    }

    fn copy<'a>(
        &'a self,
        from: &'a WorkPath,
        to: &'a WorkPath,
        copy: CopyFile<'a>,
    ) -> BoxFuture<'a, Result<Written, OpsError>> {
        Box::pin(async move {
            let (from, to) = (self.readable(from)?, self.writable(to)?);
            match copy.overwrite {
                Overwrite::Replace if from != to => self.keep_preimage(&to).await?,
                Overwrite::Replace | Overwrite::Never => {}
            }
            let written = self.operations().files.copy(&from, &to, copy).await?;
            Ok(self.changed(&to, written))
        })
    }
}

impl Guard {
    fn changed(&self, path: &WorkPath, written: Written) -> Written {
        self.note_seen(path, &written.version);
        self.recording.note(CallEvent::FileChanged {
            path: path.clone(),
            after: Some(written.version.clone()),
            artifact: None,
        });
        written
    }

    /// Keeps what a file holds before it is changed. A file that cannot be kept because the store
    /// is down is not changed; one that is too large is changed, and the record says it has no
    /// pre-image.
    async fn keep_preimage(&self, path: &WorkPath) -> Result<(), OpsError> {
        let stat = match self.operations().files.stat(path).await {
            Ok(stat) => Some(stat),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let (artifact, before) = match stat {
            Some(stat) if stat.kind == FileKind::File => {
                let artifact = if stat.size <= self.runtime.limits.preimage_bytes {
                    Some(self.keep_content(path).await?)
                } else {
                    None
                };
                (artifact, Some(stat.version))
            }
            Some(_) => return Ok(()),
            None => (None, None::<FileVersion>),
        };
        let path = path.clone();
        self.recording.note(CallEvent::PreimageKept {
            path,
            artifact,
            before,
        });
        self.recording
            .commit(haft_contract::host::Durability::Queued)
            .await
            .map_err(|error| unavailable(&error))
    }

    async fn keep_content(&self, path: &WorkPath) -> Result<ArtifactId, OpsError> {
        let reader = self.operations().files.open(path).await?;
        let mut writer = self
            .ledger()
            .artifacts()
            .create()
            .await
            .map_err(|error| unavailable(&error))?;
        let (mut offset, mut buffer) = (0, Vec::new());
        loop {
            buffer = reader.read_at(offset, CHUNK_BYTES, buffer).await?;
            writer
                .write(&buffer)
                .await
                .map_err(|error| unavailable(&error))?;
            offset += buffer.len() as u64;
            // A file that grows while it is read is kept up to the cap, not for ever.
            if buffer.len() < CHUNK_BYTES || offset >= self.runtime.limits.preimage_bytes {
                break;
            }
        }
        writer.finish().await.map_err(|error| unavailable(&error))
    }
}

fn unavailable(error: &LedgerError) -> OpsError {
    OpsError::new(
        ErrorKind::Unavailable,
        format!("what the file held cannot be kept: {error}"),
    )
}
