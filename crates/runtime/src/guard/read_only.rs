//! The files a preview may read: those the plan names. Nothing it opens counts as seen by the
//! session, and every change fails. Of databases it may ask what they expect of a planned statement.

use haft_contract::{
    BoxFuture, ErrorKind, WorkPath,
    ops::{
        CopyFile, DatabaseOps, DatabaseQuery, FileOps, FileReader, FileStat, FileVersion, KeepRows,
        ListQuery, Listing, OpsError, Overwrite, PutBackRows, PutBackRun, ReadStatement,
        RemoveScope, ResolvedPath, RowChange, RowsPutBack, SchemaPage, SchemaQuestion,
        SourceSummary, StatementEnd, StatementEstimate, StatementReading, TakeRows, WriteFile,
        WrittenFile,
    },
};

use super::Guard;

/// Lets a preview read, and refuses every change.
pub(crate) struct ReadOnly(pub(crate) Guard);

impl FileOps for ReadOnly {
    fn resolve<'a>(&'a self, path: &'a WorkPath) -> BoxFuture<'a, Result<ResolvedPath, OpsError>> {
        self.0.resolve(path)
    }

    fn stat<'a>(&'a self, path: &'a WorkPath) -> BoxFuture<'a, Result<FileStat, OpsError>> {
        self.0.stat(path)
    }

    fn open<'a>(
        &'a self,
        path: &'a WorkPath,
    ) -> BoxFuture<'a, Result<Box<dyn FileReader>, OpsError>> {
        Box::pin(async move {
            // Not the guard's own `open`: the model has not seen what is shown only to a person.
            let path = self.0.readable(path)?;
            self.0.operations().files.open(&path).await
        })
    }

    fn list<'a>(
        &'a self,
        path: &'a WorkPath,
        query: ListQuery<'a>,
    ) -> BoxFuture<'a, Result<Listing, OpsError>> {
        self.0.list(path, query)
    }

    fn write<'a>(
        &'a self,
        path: &'a WorkPath,
        _: WriteFile<'a>,
    ) -> BoxFuture<'a, Result<WrittenFile, OpsError>> {
        refuse(path)
    }

    fn append<'a>(
        &'a self,
        path: &'a WorkPath,
        _: &'a [u8],
    ) -> BoxFuture<'a, Result<WrittenFile, OpsError>> {
        refuse(path)
    }

    fn make_dir<'a>(&'a self, path: &'a WorkPath) -> BoxFuture<'a, Result<(), OpsError>> {
        refuse(path)
    }

    fn remove<'a>(
        &'a self,
        path: &'a WorkPath,
        _: RemoveScope,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        refuse(path)
    }

    fn rename<'a>(
        &'a self,
        from: &'a WorkPath,
        _: &'a WorkPath,
        _: Overwrite,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        refuse(from)
    }

    fn remove_version<'a>(
        &'a self,
        path: &'a WorkPath,
        _: &'a FileVersion,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        refuse(path)
    }

    fn rename_version<'a>(
        &'a self,
        from: &'a WorkPath,
        _: &'a WorkPath,
        _: &'a FileVersion,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        refuse(from)
    }

    fn copy<'a>(
        &'a self,
        _: &'a WorkPath,
        to: &'a WorkPath,
        _: CopyFile<'a>,
    ) -> BoxFuture<'a, Result<WrittenFile, OpsError>> {
        refuse(to)
    }
}

impl ReadStatement for ReadOnly {
    fn sources(&self) -> Vec<SourceSummary> {
        self.0.sources()
    }

    fn read_statement(&self, source: &str, statement: &str) -> Result<StatementReading, OpsError> {
        self.0.read_statement(source, statement)
    }

    fn read_row_change(&self, change: &RowChange) -> Result<StatementReading, OpsError> {
        self.0.read_row_change(change)
    }
}

impl DatabaseOps for ReadOnly {
    fn query<'a>(
        &'a self,
        _: DatabaseQuery<'a>,
        _: &'a mut dyn TakeRows,
    ) -> BoxFuture<'a, Result<StatementEnd, OpsError>> {
        no_statement()
    }

    fn explain<'a>(
        &'a self,
        query: DatabaseQuery<'a>,
    ) -> BoxFuture<'a, Result<StatementEstimate, OpsError>> {
        Box::pin(async move {
            // Planning a statement may run what it calls, and nobody has answered yet.
            let reading = self.0.read_statement(query.source, query.statement)?;
            if !reading.functions.is_empty() {
                let message = "a preview asks for no estimate that may run a function";
                return Err(OpsError::new(ErrorKind::NotInPlan, message));
            }
            self.0.explain(query).await
        })
    }

    fn put_back<'a>(
        &'a self,
        request: PutBackRows<'a>,
        keeper: &'a mut dyn KeepRows,
    ) -> BoxFuture<'a, Result<RowsPutBack, OpsError>> {
        match request.run {
            PutBackRun::Dry => self.0.put_back(request, keeper),
            PutBackRun::ForReal => no_statement(),
        }
    }

    fn schema<'a>(&'a self, _: SchemaQuestion<'a>) -> BoxFuture<'a, Result<SchemaPage, OpsError>> {
        no_statement()
    }
}

fn no_statement<'a, T: Send + 'a>() -> BoxFuture<'a, Result<T, OpsError>> {
    let error = OpsError::new(ErrorKind::NotInPlan, "a preview asks no database for data");
    Box::pin(std::future::ready(Err(error)))
}

fn refuse<'a, T: Send + 'a>(path: &WorkPath) -> BoxFuture<'a, Result<T, OpsError>> {
    let message = "a preview changes nothing";
    let error = OpsError::new(ErrorKind::NotInPlan, message).on(path);
    Box::pin(std::future::ready(Err(error)))
}
