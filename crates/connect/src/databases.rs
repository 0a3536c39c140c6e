//! The configured databases of a workspace, and the way of a statement: read, given a place, run.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use haft_contract::{
    BoxFuture, ErrorKind,
    ops::{
        DatabaseOps, DatabaseQuery, KeepRows, OpsError, PutBackRows, ReadStatement, RowChange,
        RowsPutBack, SchemaPage, SchemaQuestion, SourceSummary, StatementEnd, StatementEstimate,
        StatementReading, TakeRows,
    },
    secret::ReadSecret,
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    halt::Halt,
    masked_rows::MaskedRows,
    settings::{EngineSettings, SourceSettings},
    source_finding::SourceFinding,
    sql::{self, ColumnMasks, ReadingRules, RefusedStatement},
    statement_slot::StatementSlot,
};

/// Every configured database.
pub struct Databases {
    sources: BTreeMap<String, Source>,
}

/// One database.
struct Source {
    settings: SourceSettings,
    rules: ReadingRules,
    engine: Engine,
    /// A place for each statement that may run at a time.
    places: Arc<Semaphore>,
}

enum Engine {
    #[cfg(feature = "postgres")]
    Postgres(Box<crate::postgres::PostgresSource>),
    #[cfg(feature = "sqlite")]
    Sqlite(crate::sqlite::SqliteSource),
    #[cfg(feature = "mariadb")]
    MariaDb(Box<crate::mariadb::MariaDbSource>),
}

/// Why a source cannot be used at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the source `{name}` {why}")]
pub struct SourceError {
    name: String,
    why: String,
}

impl Databases {
    /// The configured databases. Nothing is connected to.
    pub fn new(
        settings: Vec<SourceSettings>,
        secrets: Arc<dyn ReadSecret>,
    ) -> Result<Self, SourceError> {
        let mut sources = BTreeMap::new();
        for settings in settings {
            let name = settings.name.clone();
            let engine = engine(&settings, &secrets).map_err(|why| SourceError {
                name: name.clone(),
                why,
            })?;
            let masks = settings.masks.iter().map(String::as_str);
            let masks = ColumnMasks::parse(masks, settings.engine.schema());
            let masks = masks.map_err(|text| SourceError {
                name: name.clone(),
                why: format!("masks `{text}`; write \"users.email\" or \"schema.users.email\""),
            })?;
            let rules = ReadingRules {
                masks,
                source: name.clone(),
                dialect: settings.engine.dialect(),
                schema: settings.engine.schema().to_owned(),
                functions: settings.functions.clone(),
                writable: settings.writable,
            };
            let places = Arc::new(Semaphore::new(settings.connections));
            let source = Source {
                settings,
                rules,
                engine,
                places,
            };
            sources.insert(name, source);
        }
        Ok(Self { sources })
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Connects to a source and says what is wrong with it.
    pub async fn check(
        &self,
        source: &str,
        (within, cancel): (Duration, &CancellationToken),
    ) -> Result<Vec<SourceFinding>, OpsError> {
        let source = self.source(source)?;
        let halt = Halt::new(within, cancel);
        let place = source.place(&halt).await?;
        let mut findings = match &source.engine {
            #[cfg(feature = "postgres")]
            Engine::Postgres(postgres) => postgres.check(&halt).await,
            #[cfg(feature = "sqlite")]
            Engine::Sqlite(sqlite) => sqlite.check(&halt, &place).await,
            #[cfg(feature = "mariadb")]
            Engine::MariaDb(mariadb) => mariadb.check(&halt).await,
        }?;
        // The next question takes it.
        drop(place);
        findings.extend(
            self.missing_masks(source, (halt.remaining(), cancel))
                .await?,
        );
        Ok(findings)
    }

    /// Masks of columns that are not there: they hide nothing, and a mistake in a name looks like one.
    async fn missing_masks(
        &self,
        source: &Source,
        (within, cancel): (Duration, &CancellationToken),
    ) -> Result<Vec<SourceFinding>, OpsError> {
        let mut missing = Vec::new();
        for (schema, table, column) in source.rules.masks.columns() {
            let named = match schema {
                Some(schema) => format!("{schema}.{table}"),
                None => table.to_owned(),
            };
            let question = SchemaQuestion {
                source: &source.settings.name,
                search: None,
                table: Some(&named),
                offset: 0,
                limit: 1,
                within,
                cancel,
            };
            let page = self.schema(question).await?;
            let mut columns = page.tables.iter().flat_map(|table| &table.columns);
            let column_is_there =
                columns.any(|found| found.name.to_lowercase() == column.to_lowercase());
            if !column_is_there {
                missing.push(SourceFinding {
                    refused: true,
                    text: format!(
                        "it masks `{named}.{column}`, and its role sees no such column: correct `mask`"
                    ),
                });
            }
        }
        Ok(missing)
    }

    fn source(&self, name: &str) -> Result<&Source, OpsError> {
        self.sources.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.sources.keys().map(String::as_str).collect();
            let known = match known.as_slice() {
                [] => "none is configured".to_owned(),
                known => format!("there are: {}", known.join(", ")),
            };
            let name: String = name.chars().take(64).filter(|c| !c.is_control()).collect();
            OpsError::new(
                ErrorKind::InvalidInput,
                format!("there is no database `{name}`; {known}"),
            )
        })
    }
}

fn engine(settings: &SourceSettings, secrets: &Arc<dyn ReadSecret>) -> Result<Engine, String> {
    match &settings.engine {
        #[cfg(feature = "postgres")]
        EngineSettings::Postgres(postgres) => {
            crate::postgres::PostgresSource::new(postgres, secrets)
                .map(Box::new)
                .map(Engine::Postgres)
        }
        #[cfg(feature = "sqlite")]
        EngineSettings::Sqlite(sqlite) => {
            let _ = secrets;
            crate::sqlite::SqliteSource::new(sqlite).map(Engine::Sqlite)
        }
        #[cfg(feature = "mariadb")]
        EngineSettings::MariaDb(mariadb) => crate::mariadb::MariaDbSource::new(mariadb, secrets)
            .map(Box::new)
            .map(Engine::MariaDb),
        #[cfg(not(all(feature = "postgres", feature = "sqlite", feature = "mariadb")))]
        other => {
            let _ = secrets;
            Err(format!(
                "is of the type `{}`, which this build of Haft leaves out",
                other.word()
            ))
        }
    }
}

impl Source {
    /// Waits for a place. Not getting one is another outcome than a statement that takes long.
    async fn place(&self, halt: &Halt) -> Result<StatementSlot, OpsError> {
        tokio::select! {
            biased;
            permit = Arc::clone(&self.places).acquire_owned() => {
                permit.map(StatementSlot::new).map_err(|_| self.no_place())
            }
            stop = halt.reached() => Err(match stop.kind() {
                ErrorKind::Cancelled => stop,
                _ => self.no_place(),
            }),
        }
    }

    fn no_place(&self) -> OpsError {
        OpsError::new(
            ErrorKind::Unavailable,
            format!(
                "the statement was not started: all {} connections of `{}` were in use",
                self.settings.connections, self.settings.name
            ),
        )
    }

    /// Refuses a statement of which the database expects more than the operator allows.
    fn check_estimate(&self, estimate: &StatementEstimate) -> Result<(), OpsError> {
        for (what, expected, most) in [
            ("cost", estimate.cost, self.settings.max_cost),
            ("rows", estimate.rows, self.settings.max_rows),
        ] {
            if let (Some(expected), Some(most)) = (expected, most)
                && expected > most
            {
                return Err(OpsError::new(
                    ErrorKind::LimitExceeded,
                    format!(
                        "the database expects {expected} ({what}) of this statement, and `{}` allows \
                         {most}; narrow it down",
                        self.settings.name
                    ),
                ));
            }
        }
        Ok(())
    }

    fn is_estimated(&self) -> bool {
        self.settings.max_cost.is_some() || self.settings.max_rows.is_some()
    }
}

impl ReadStatement for Databases {
    fn sources(&self) -> Vec<SourceSummary> {
        let sources = self.sources.values().map(|source| SourceSummary {
            name: source.settings.name.clone(),
            engine: source.settings.engine.word(),
            writable: source.settings.writable,
        });
        sources.collect()
    }

    fn read_statement(&self, source: &str, statement: &str) -> Result<StatementReading, OpsError> {
        let reading = sql::read(&self.source(source)?.rules, statement)?;
        Ok(reading.into_parts())
    }

    fn read_row_change(&self, change: &RowChange) -> Result<StatementReading, OpsError> {
        let source = self.source(&change.source)?;
        Ok(sql::read_row_change(&source.rules, change)?)
    }
}

impl DatabaseOps for Databases {
    fn query<'a>(
        &'a self,
        query: DatabaseQuery<'a>,
        rows: &'a mut dyn TakeRows,
    ) -> BoxFuture<'a, Result<StatementEnd, OpsError>> {
        Box::pin(async move {
            let source = self.source(query.source)?;
            let reading = sql::read(&source.rules, query.statement)?;
            let mut masked = MaskedRows::new(rows, reading.masked.clone());
            let rows: &mut dyn TakeRows = &mut masked;
            if reading.writes && !query.writes {
                let why = "the statement changes data, and was passed as one that only reads";
                return Err(RefusedStatement::new(why).into());
            }
            let halt = Halt::new(query.within, query.cancel);
            let place = source.place(&halt).await?;
            let estimate = if source.is_estimated() {
                let estimate = source.estimate(&query, &reading, &halt, &place).await?;
                source.check_estimate(&estimate)?;
                Some(estimate)
            } else {
                None
            };
            let mut end = match (&source.engine, reading.writes, query.expect_rows) {
                (_, true, None) => {
                    return Err(OpsError::new(
                        ErrorKind::InvalidInput,
                        "a statement that changes data must say how many rows it will change",
                    ));
                }
                #[cfg(feature = "postgres")]
                (Engine::Postgres(postgres), true, Some(expected)) => {
                    let wanted = (expected, rows.keeper());
                    postgres.write(&query, &reading, wanted, &halt).await?
                }
                #[cfg(feature = "postgres")]
                (Engine::Postgres(postgres), false, _) => {
                    postgres.read(&query, &reading, rows, &halt).await?
                }
                #[cfg(feature = "sqlite")]
                (Engine::Sqlite(sqlite), true, Some(expected)) => {
                    let wanted = (expected, rows.keeper());
                    sqlite
                        .write(&query, &reading, wanted, (&halt, &place))
                        .await?
                }
                #[cfg(feature = "sqlite")]
                (Engine::Sqlite(sqlite), false, _) => {
                    sqlite.read(&query, &reading, rows, (&halt, &place)).await?
                }
                #[cfg(feature = "mariadb")]
                (Engine::MariaDb(mariadb), true, Some(expected)) => {
                    let wanted = (expected, rows.keeper());
                    mariadb.write(&query, &reading, wanted, &halt).await?
                }
                #[cfg(feature = "mariadb")]
                (Engine::MariaDb(mariadb), false, _) => {
                    mariadb.read(&query, &reading, rows, &halt).await?
                }
            };
            end.estimate = estimate;
            Ok(end)
        })
    }

    fn explain<'a>(
        &'a self,
        query: DatabaseQuery<'a>,
    ) -> BoxFuture<'a, Result<StatementEstimate, OpsError>> {
        Box::pin(async move {
            let source = self.source(query.source)?;
            let reading = sql::read(&source.rules, query.statement)?;
            let halt = Halt::new(query.within, query.cancel);
            let place = source.place(&halt).await?;
            source.estimate(&query, &reading, &halt, &place).await
        })
    }

    fn put_back<'a>(
        &'a self,
        request: PutBackRows<'a>,
        keeper: &'a mut dyn KeepRows,
    ) -> BoxFuture<'a, Result<RowsPutBack, OpsError>> {
        Box::pin(async move {
            self.read_row_change(request.change)?;
            let source = self.source(&request.change.source)?;
            let halt = Halt::new(request.within, request.cancel);
            let place = source.place(&halt).await?;
            match &source.engine {
                #[cfg(feature = "postgres")]
                Engine::Postgres(postgres) => postgres.put_back(&request, keeper, &halt).await,
                #[cfg(feature = "sqlite")]
                Engine::Sqlite(sqlite) => sqlite.put_back(&request, keeper, (&halt, &place)).await,
                #[cfg(feature = "mariadb")]
                Engine::MariaDb(mariadb) => mariadb.put_back(&request, keeper, &halt).await,
            }
        })
    }

    fn schema<'a>(
        &'a self,
        question: SchemaQuestion<'a>,
    ) -> BoxFuture<'a, Result<SchemaPage, OpsError>> {
        Box::pin(async move {
            let source = self.source(question.source)?;
            let halt = Halt::new(question.within, question.cancel);
            let place = source.place(&halt).await?;
            match &source.engine {
                #[cfg(feature = "postgres")]
                Engine::Postgres(postgres) => postgres.schema(&question, &halt).await,
                #[cfg(feature = "sqlite")]
                Engine::Sqlite(sqlite) => sqlite.schema(&question, (&halt, &place)).await,
                #[cfg(feature = "mariadb")]
                Engine::MariaDb(mariadb) => mariadb.schema(&question, &halt).await,
            }
        })
    }
}

impl Source {
    async fn estimate(
        &self,
        query: &DatabaseQuery<'_>,
        reading: &sql::SqlReading,
        halt: &Halt,
        place: &StatementSlot,
    ) -> Result<StatementEstimate, OpsError> {
        match &self.engine {
            #[cfg(feature = "postgres")]
            Engine::Postgres(postgres) => postgres.explain(query, reading, halt).await,
            #[cfg(feature = "sqlite")]
            Engine::Sqlite(sqlite) => sqlite.explain(query, reading, (halt, place)).await,
            #[cfg(feature = "mariadb")]
            Engine::MariaDb(mariadb) => mariadb.explain(query, reading, halt).await,
        }
    }
}

impl fmt::Debug for Databases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.sources.keys()).finish()
    }
}
