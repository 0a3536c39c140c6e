//! The guarded repository: only parts that the plan names, each with its content on record before it
//! is put back.

use haft_contract::{
    BoxFuture, CallEvent, ErrorKind, WorkPath,
    ops::{FileVersion, GitPart, OpsError, PartChange, RepositoryOps, RepositoryPart},
};

use super::{Guard, ReadOnly};

impl RepositoryOps for Guard {
    fn read<'a>(
        &'a self,
        part: &'a WorkPath,
    ) -> BoxFuture<'a, Result<Option<RepositoryPart>, OpsError>> {
        Box::pin(async move {
            let target = self.readable(part)?;
            same_place(part, &target)?;
            self.repository()?.read(part).await
        })
    }

    fn unfinished(&self) -> BoxFuture<'_, Result<Option<String>, OpsError>> {
        Box::pin(async move {
            self.names_a_part()?;
            self.repository()?.unfinished().await
        })
    }

    fn missing_objects<'a>(
        &'a self,
        ids: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<String>, OpsError>> {
        Box::pin(async move {
            self.names_a_part()?;
            self.repository()?.missing_objects(ids).await
        })
    }

    fn indexed<'a>(
        &'a self,
        index: Option<&'a [u8]>,
        files: &'a [WorkPath],
    ) -> BoxFuture<'a, Result<Option<Vec<WorkPath>>, OpsError>> {
        Box::pin(async move {
            self.still_wanted()?;
            self.repository()?.indexed(index, files).await
        })
    }

    fn replace<'a>(
        &'a self,
        changes: &'a [PartChange],
    ) -> BoxFuture<'a, Result<Vec<Option<FileVersion>>, OpsError>> {
        Box::pin(async move {
            for change in changes {
                same_place(&change.path, &self.writable(&change.path)?)?;
            }
            let repository = self.repository()?;
            for change in changes {
                let now = repository.read(&change.path).await?;
                let artifact = match &now {
                    Some(now) => self.keep_bytes(&now.bytes).await,
                    None => None,
                };
                let before = now.map(|now| (now.version, now.mode));
                self.note_preimage(&change.path, artifact, before).await?;
            }
            let versions = repository.replace(changes).await?;
            for (change, after) in changes.iter().zip(&versions) {
                let artifact = match &change.bytes {
                    Some(bytes) => self.keep_bytes(bytes).await,
                    None => None,
                };
                self.recording.note(CallEvent::FileChanged {
                    path: change.path.clone(),
                    after: after.clone(),
                    artifact,
                });
            }
            Ok(versions)
        })
    }
}

impl Guard {
    fn repository(&self) -> Result<&dyn RepositoryOps, OpsError> {
        self.operations().repository.as_deref().ok_or_else(|| {
            let message = "git's state cannot be put back in this workspace";
            OpsError::new(ErrorKind::Unavailable, message)
        })
    }

    /// Facts about a whole repository are for calls whose plan names a part of it.
    fn names_a_part(&self) -> Result<(), OpsError> {
        self.still_wanted()?;
        let mut paths = self.plan.path_accesses();
        if paths.any(|access| GitPart::of(&access.path).is_some()) {
            return Ok(());
        }
        let message = "the call's plan does not name any part of the repository";
        Err(OpsError::new(ErrorKind::NotInPlan, message))
    }
}

/// Refuses a part whose path leads elsewhere by a symlink.
fn same_place(part: &WorkPath, target: &WorkPath) -> Result<(), OpsError> {
    if part == target {
        return Ok(());
    }
    Err(OpsError::new(ErrorKind::Symlink, "a symlink leads elsewhere from there").on(part))
}

impl RepositoryOps for ReadOnly {
    fn read<'a>(
        &'a self,
        part: &'a WorkPath,
    ) -> BoxFuture<'a, Result<Option<RepositoryPart>, OpsError>> {
        RepositoryOps::read(&self.0, part)
    }

    fn unfinished(&self) -> BoxFuture<'_, Result<Option<String>, OpsError>> {
        self.0.unfinished()
    }

    fn missing_objects<'a>(
        &'a self,
        ids: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<String>, OpsError>> {
        self.0.missing_objects(ids)
    }

    fn indexed<'a>(
        &'a self,
        index: Option<&'a [u8]>,
        files: &'a [WorkPath],
    ) -> BoxFuture<'a, Result<Option<Vec<WorkPath>>, OpsError>> {
        self.0.indexed(index, files)
    }

    fn replace<'a>(
        &'a self,
        _: &'a [PartChange],
    ) -> BoxFuture<'a, Result<Vec<Option<FileVersion>>, OpsError>> {
        let message = "a preview changes nothing";
        Box::pin(async move { Err(OpsError::new(ErrorKind::NotInPlan, message)) })
    }
}
