//! Guarded files: only planned paths. Keeps a file's content before and after a change, and notes
//! its versions.

use haft_contract::{
    BoxFuture, CallEvent, ErrorKind, WorkPath,
    host::{ArtifactId, LedgerError},
    ops::{
        CopyFile, FileKind, FileOps, FileReader, FileStat, FileVersion, ListQuery, Listing,
        OpsError, Overwrite, RemoveScope, ResolvedPath, WriteFile, WrittenFile,
    },
};

use super::Guard;

/// How much of a file is in memory at once while its pre-image is stored.
const CHUNK_BYTES: usize = 1024 * 1024;

impl FileOps for Guard {
    fn resolve<'a>(&'a self, path: &'a WorkPath) -> BoxFuture<'a, Result<ResolvedPath, OpsError>> {
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
    ) -> BoxFuture<'a, Result<WrittenFile, OpsError>> {
        Box::pin(async move {
            let path = self.writable(path)?;
            self.keep_preimage(&path).await?;
            let written = self.operations().files.write(&path, write).await?;
            let after = self.keep_bytes(write.bytes).await;
            Ok(self.changed(&path, written, after))
        })
    }

    fn append<'a>(
        &'a self,
        path: &'a WorkPath,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<WrittenFile, OpsError>> {
        Box::pin(async move {
            let path = self.writable(path)?;
            self.keep_preimage(&path).await?;
            let written = self.operations().files.append(&path, bytes).await?;
            let after = self.keep_postimage(&path).await;
            Ok(self.changed(&path, written, after))
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
                withheld: &self.withheld,
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
                RemoveScope::File => {
                    self.keep_preimage(&path).await?;
                }
                // No built-in tool removes trees; a tool that plans one accepts that it cannot be
                // undone.
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
            let artifact = self.keep_preimage(&from).await?;
            self.keep_preimage(&to).await?;
            self.operations()
                .files
                .rename(&from, &to, overwrite)
                .await?;
            self.renamed(from, to, artifact).await;
            Ok(())
        })
    }

    fn remove_version<'a>(
        &'a self,
        path: &'a WorkPath,
        version: &'a FileVersion,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async move {
            let path = self.writable(path)?;
            self.keep_preimage(&path).await?;
            let files = &self.operations().files;
            files.remove_version(&path, version).await?;
            self.recording.note(CallEvent::FileChanged {
                path,
                after: None,
                artifact: None,
            });
            Ok(())
        })
    }

    fn rename_version<'a>(
        &'a self,
        from: &'a WorkPath,
        to: &'a WorkPath,
        version: &'a FileVersion,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async move {
            let (from, to) = (self.writable(from)?, self.writable(to)?);
            let artifact = self.keep_preimage(&from).await?;
            self.keep_preimage(&to).await?;
            let files = &self.operations().files;
            files.rename_version(&from, &to, version).await?;
            self.renamed(from, to, artifact).await;
            Ok(())
        })
    }

    fn copy<'a>(
        &'a self,
        from: &'a WorkPath,
        to: &'a WorkPath,
        copy: CopyFile<'a>,
    ) -> BoxFuture<'a, Result<WrittenFile, OpsError>> {
        Box::pin(async move {
            let (from, to) = (self.readable(from)?, self.writable(to)?);
            match copy.overwrite {
                Overwrite::Replace if from == to => {}
                Overwrite::Replace => {
                    self.keep_preimage(&to).await?;
                }
                // The copy fails if something exists there.
                Overwrite::Never => self.note_preimage(&to, None, None).await?,
            }
            let written = self.operations().files.copy(&from, &to, copy).await?;
            let after = self.keep_postimage(&to).await;
            Ok(self.changed(&to, written, after))
        })
    }
}

impl Guard {
    /// Notes that a file was renamed.
    async fn renamed(&self, from: WorkPath, to: WorkPath, artifact: Option<ArtifactId>) {
        self.recording.note(CallEvent::FileChanged {
            path: from,
            after: None,
            artifact: None,
        });
        let found = self.operations().files.stat(&to).await;
        self.recording.note(CallEvent::FileChanged {
            path: to,
            after: found.ok().map(|stat| stat.version),
            artifact,
        });
    }

    fn changed(
        &self,
        path: &WorkPath,
        written: WrittenFile,
        artifact: Option<ArtifactId>,
    ) -> WrittenFile {
        self.note_seen(path, &written.version);
        self.recording.note(CallEvent::FileChanged {
            path: path.clone(),
            after: Some(written.version.clone()),
            artifact,
        });
        written
    }

    /// Keeps a file's content before it is changed. If it cannot be kept because the store is down,
    /// the file is not changed; if it is too large, it is changed, and the record says that there
    /// is no pre-image. Returns what was kept.
    async fn keep_preimage(&self, path: &WorkPath) -> Result<Option<ArtifactId>, OpsError> {
        let stat = match self.operations().files.stat(path).await {
            Ok(stat) => Some(stat),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let (artifact, before) = match stat {
            Some(stat) if stat.kind == FileKind::File => {
                let (artifact, mode) = if stat.size <= self.engine.limits.preimage_bytes {
                    let (artifact, mode) = self.keep_content(path).await?;
                    (Some(artifact), mode)
                } else {
                    (None, stat.mode)
                };
                (artifact, Some((stat.version, mode)))
            }
            Some(_) => return Ok(None),
            None => (None, None),
        };
        self.note_preimage(path, artifact, before).await?;
        Ok(artifact)
    }

    pub(super) async fn note_preimage(
        &self,
        path: &WorkPath,
        artifact: Option<ArtifactId>,
        before: Option<(FileVersion, u32)>,
    ) -> Result<(), OpsError> {
        let (before, mode) = before.unzip();
        self.recording.note(CallEvent::PreimageKept {
            path: path.clone(),
            artifact,
            before,
            mode,
        });
        self.recording
            .commit(haft_contract::host::Durability::Queued)
            .await
            .map_err(|error| unavailable(&error))
    }

    /// Keeps a file's content after a change, for a later undo to compare with. The change has
    /// already been made, so a failure to keep it is not an error.
    async fn keep_postimage(&self, path: &WorkPath) -> Option<ArtifactId> {
        let stat = self.operations().files.stat(path).await.ok()?;
        if stat.size > self.engine.limits.preimage_bytes {
            return None;
        }
        let (artifact, _) = self.keep_content(path).await.ok()?;
        Some(artifact)
    }

    /// The same for content already in memory.
    pub(super) async fn keep_bytes(&self, bytes: &[u8]) -> Option<ArtifactId> {
        if bytes.len() as u64 > self.engine.limits.preimage_bytes {
            return None;
        }
        let artifacts = self.own_artifacts();
        let kept = artifacts.keep_all(vec![bytes.to_vec()]).await.ok()?;
        kept.first().copied()
    }

    /// Keeps a file's content. Returns its id and the file's permission bits.
    async fn keep_content(&self, path: &WorkPath) -> Result<(ArtifactId, u32), OpsError> {
        let reader = self.operations().files.open(path).await?;
        let mut writer = self
            .own_artifacts()
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
            // A file that grows while it is read is kept only up to the cap.
            if buffer.len() < CHUNK_BYTES || offset >= self.engine.limits.preimage_bytes {
                break;
            }
        }
        let artifact = writer.finish().await;
        let artifact = artifact.map_err(|error| unavailable(&error))?;
        Ok((artifact, reader.own_mode()))
    }
}

fn unavailable(error: &LedgerError) -> OpsError {
    OpsError::new(
        ErrorKind::Unavailable,
        format!("the file's previous content cannot be kept: {error}"),
    )
}
