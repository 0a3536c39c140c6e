//! `database_query`: asks a database that the operator configured under a name.
//!
//! What a statement touches is read from its text before it runs, and is the plan; the operations
//! read it again. Nothing here connects to anything, and nothing rewrites a statement: when enough
//! rows are there, the cursor stops.

use std::{
    fmt::{self, Write as _},
    sync::Arc,
    time::Duration,
};

use haft_contract::{
    Access, BoxFuture, CallContext, Content, Effects, ErrorKind, Plan, PlanContext, Progress, Tool,
    ToolError, ToolSpec,
    access::SoleAccess,
    context::{OutputSink, PreviewContext},
    ops::{
        DatabaseQuery, ReadStatement, SchemaQuestion, StatementEstimate, Stream, TableSummary,
        TakeRows, WantedRows,
    },
    preview::Preview,
    progress::{NoProgress, ProgressSink},
    spec::{Deadline, ParameterAlias},
    streamed::ItemSink,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    expectation::{AskedStatement, expectation},
    table_text::TableFormat,
};

const DESCRIPTION: &str = "\
Asks a configured database. `query` runs one statement and returns its rows; `explain` says what the \
database expects it to cost without running it; `schema` lists tables, or the columns of one `table`.
Pass values in `params` ($1, $2 in PostgreSQL; ? in SQLite), never within the statement. Name columns \
instead of `*`, and qualify them where several tables are read. A statement that changes data is an \
INSERT, UPDATE or DELETE and states in `expect_rows` how many rows it will change; with any other \
number nothing is changed. Use `schema` before guessing names.";

/// The rows returned unless more are asked for.
const DEFAULT_LIMIT: u64 = 1_000;

/// The most rows that can be asked for.
const MAX_LIMIT: u64 = 1_000_000;

/// The most bytes of rows in the structured result. All of them are in the output.
const INLINE_BYTES: usize = 900 * 1024;

/// What to do about a statement that does not run, where nothing better is known.
const PLAIN_QUERY: &str =
    "write one plain query with built-in functions, or ask for the data another way";

/// How many tables `schema` returns unless configured otherwise by `limit`.
const SCHEMA_LIMIT: u64 = 50;

/// How long a statement runs that asks for no other time, and the longest it may.
const USUAL_RUN: Deadline = Deadline::new(Duration::from_secs(30), Duration::from_mins(10));

/// The `database_query` tool.
#[derive(Clone)]
pub struct DatabaseQueryTool {
    reader: Arc<dyn ReadStatement>,
}

impl DatabaseQueryTool {
    /// The tool for these databases.
    pub fn new(reader: Arc<dyn ReadStatement>) -> Self {
        Self { reader }
    }
}

/// What `database_query` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[expect(
    missing_docs,
    reason = "the words say it, and models read every description"
)]
pub enum DatabaseAction {
    #[default]
    Query,
    Schema,
    Explain,
}

/// What `database_query` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseQueryInput {
    /// What to do.
    #[serde(default)]
    pub action: DatabaseAction,
    /// The database; not needed if there is only one.
    #[serde(default)]
    pub source: Option<String>,
    /// One statement.
    #[serde(default)]
    pub query: Option<String>,
    /// The values of its placeholders.
    #[serde(default)]
    pub params: Vec<Value>,
    /// The most rows, or tables, to return.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub limit: Option<u64>,
    /// How many tables `schema` leaves out.
    #[serde(default)]
    pub offset: u64,
    /// Part of the name of a table or column, for `schema`.
    #[serde(default)]
    pub search: Option<String>,
    /// One table, for `schema`.
    #[serde(default)]
    pub table: Option<String>,
    /// How many rows a statement that changes data will change.
    #[serde(default)]
    pub expect_rows: Option<u64>,
    /// How rows are written.
    #[serde(default)]
    pub format: TableFormat,
    /// How long it may run, in milliseconds.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
}

/// What `database_query` returns in addition to the text.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct DatabaseQueryOutput {
    /// The names of the columns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// The rows, as many as fit; the output has all that were returned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Vec<Value>>,
    /// How many rows were returned.
    pub row_count: u64,
    /// Whether there are more rows or tables than `limit`.
    pub more: bool,
    /// How many rows were changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<u64>,
    /// Why the change cannot be undone, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_undoable: Option<String>,
    /// The cost that the database expects, in its own unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_cost: Option<u64>,
    /// The rows that the database expects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_rows: Option<u64>,
    /// The tables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<FoundTable>,
    /// What the model reads besides the rows. Not repeated in the structured output.
    #[serde(skip)]
    text: String,
}

/// A table.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FoundTable {
    /// Its name.
    pub name: String,
    /// `table` or `view`.
    pub kind: String,
    /// About how many rows it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_rows: Option<u64>,
    /// Its columns and their types.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<FoundColumn>,
}

/// A column.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FoundColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it may be null.
    pub nullable: bool,
}

/// A row as soon as it is there.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FoundRow {
    /// Its values, in the order of the columns.
    pub values: Vec<Value>,
}

impl fmt::Display for FoundRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&TableFormat::Csv.line(&self.values))
    }
}

impl DatabaseQueryTool {
    /// The named source, or the only one.
    fn source(&self, input: &DatabaseQueryInput) -> Result<String, ToolError> {
        let sources = self.reader.sources();
        let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
        let found = match (&input.source, names.as_slice()) {
            (Some(wanted), names) => names.iter().find(|name| *name == wanted),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        found.map(|name| (*name).to_owned()).ok_or_else(|| {
            let message = match &input.source {
                Some(_) => "there is no such database",
                None => "there are several databases, and `source` names none of them",
            };
            ToolError::new(ErrorKind::InvalidInput, message)
                .at("/source")
                .hint(format!("the databases are: {}", names.join(", ")))
        })
    }

    fn statement(input: &DatabaseQueryInput) -> Result<&str, ToolError> {
        input.query.as_deref().ok_or_else(|| {
            ToolError::new(ErrorKind::InvalidInput, "there is no statement").at("/query")
        })
    }
}

impl Tool for DatabaseQueryTool {
    type Input = DatabaseQueryInput;
    type Output = DatabaseQueryOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "database_query";

    fn spec(&self) -> ToolSpec {
        let sources = self.reader.sources();
        let sources = sources.iter().map(|source| {
            let writes = if source.writable {
                ", takes changes"
            } else {
                ""
            };
            format!("{} ({}{writes})", source.name, source.engine)
        });
        let sources: Vec<String> = sources.collect();
        let description = format!("{DESCRIPTION}\nDatabases: {}.", sources.join(", "));
        ToolSpec::new("Query a database", description)
            .effects(Effects::UNKNOWN)
            .groups(&["databases"])
            .touches_only(SoleAccess::Databases)
            .streams::<FoundRow>("row")
            .deadline(USUAL_RUN)
            .action("query", USUAL_RUN)
            .action("write", USUAL_RUN)
            .action("explain", USUAL_RUN)
            .action("schema", USUAL_RUN)
            .aliases(&["query_database", "sql"])
            .parameter_aliases(&[
                ParameterAlias::new("sql", "query"),
                ParameterAlias::new("statement", "query"),
                ParameterAlias::new("database", "source"),
                ParameterAlias::new("parameters", "params"),
                ParameterAlias::new("max_rows", "limit"),
            ])
    }

    fn plan(&self, input: &DatabaseQueryInput, _: &PlanContext) -> Result<Plan, ToolError> {
        let source = self.source(input)?;
        let reads = Effects {
            open_world: true,
            ..Effects::READ_ONLY
        };
        let timeout = input.timeout_ms.map(Duration::from_millis);
        let plan = match input.action {
            DatabaseAction::Schema => {
                let access = Access::Database {
                    source: format!("{source}.(schema)"),
                    writes: false,
                };
                Plan::new(reads).action("schema").access(access)
            }
            DatabaseAction::Query | DatabaseAction::Explain => {
                let statement = Self::statement(input)?;
                let reading = self.reader.read_statement(&source, statement);
                let reading = reading.map_err(|refused| {
                    let hint = refused.hint().map(str::to_owned);
                    ToolError::from(refused)
                        .at("/query")
                        .hint(hint.unwrap_or_else(|| PLAIN_QUERY.to_owned()))
                })?;
                let runs = input.action == DatabaseAction::Query;
                if reading.writes && runs && input.expect_rows.is_none() {
                    return Err(ToolError::new(
                        ErrorKind::InvalidInput,
                        "a statement that changes data must state how many rows it will change",
                    )
                    .at("/expect_rows")
                    .hint(
                        "count them with a query first; with any other number nothing is changed",
                    ));
                }
                let (action, effects) = match (runs, reading.writes) {
                    (true, true) => ("write", Effects::UNKNOWN),
                    (true, false) => ("query", reads),
                    (false, _) => ("explain", reads),
                };
                // Explaining a change reads what the change would.
                let accesses = reading.accesses.into_iter().map(|access| match access {
                    Access::Database { source, .. } if !runs => Access::Database {
                        source,
                        writes: false,
                    },
                    other => other,
                });
                let plan = Plan::new(effects).action(action);
                accesses.fold(plan, Plan::access)
            }
        };
        Ok(plan.timeout(timeout))
    }

    async fn run(
        &self,
        input: DatabaseQueryInput,
        cx: CallContext<NoProgress>,
    ) -> Result<DatabaseQueryOutput, ToolError> {
        let source = self.source(&input)?;
        let cancel = cx.cancel().clone();
        let within = cx.remaining();
        if input.action == DatabaseAction::Schema {
            let limit = input.limit.unwrap_or(SCHEMA_LIMIT).clamp(1, MAX_LIMIT);
            let question = SchemaQuestion {
                source: &source,
                search: input.search.as_deref(),
                table: input.table.as_deref(),
                offset: usize::try_from(input.offset).unwrap_or(usize::MAX),
                limit: usize::try_from(limit).unwrap_or(1),
                within,
                cancel: &cancel,
            };
            let page = cx.databases().schema(question).await?;
            return Ok(tables(page.tables, page.more));
        }
        let statement = Self::statement(&input)?;
        let reading = self.reader.read_statement(&source, statement)?;
        let query = DatabaseQuery {
            source: &source,
            statement,
            parameters: &input.params,
            writes: reading.writes && input.action == DatabaseAction::Query,
            expect_rows: input.expect_rows,
            within,
            cancel: &cancel,
        };
        if input.action == DatabaseAction::Explain {
            let estimate = cx.databases().explain(query).await?;
            return Ok(explained(&estimate));
        }
        let limit = input.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let mut rows = RowTaker::new(&cx, input.format, limit);
        let end = cx.databases().query(query, &mut rows).await?;
        let mut output = rows.output;
        output.changed = end.changed;
        output.not_undoable.clone_from(&end.not_kept);
        if let Some(estimate) = end.estimate {
            output.estimated_cost = estimate.cost;
            output.estimated_rows = estimate.rows;
        }
        output.text = match (output.changed, output.more) {
            (Some(changed), _) => match &end.not_kept {
                None => format!("[{} changed]", counted(changed)),
                Some(why) => {
                    let rows = counted(changed);
                    format!("[{rows} changed; this cannot be undone: {why}]")
                }
            },
            (None, true) => format!(
                "[{}; there are more, which `limit` left out]",
                counted(output.row_count)
            ),
            (None, false) => format!("[{}]", counted(output.row_count)),
        };
        Ok(output)
    }

    async fn preview(
        &self,
        input: &DatabaseQueryInput,
        cx: PreviewContext,
    ) -> Result<Preview, ToolError> {
        if input.action != DatabaseAction::Query {
            return Ok(Preview::default());
        }
        let source = self.source(input)?;
        let statement = Self::statement(input)?;
        let reading = self.reader.read_statement(&source, statement)?;
        let asked = AskedStatement {
            source: &source,
            statement,
            parameters: &input.params,
            expect_rows: input.expect_rows,
            writes: reading.writes,
            functions: &reading.functions,
        };
        Ok(Preview {
            parts: vec![expectation(asked, &cx).await],
        })
    }

    fn render(&self, output: &DatabaseQueryOutput) -> Vec<Content> {
        vec![Content::text(output.text.clone())]
    }
}

/// Takes rows: shows each as it comes, writes it to the output, and keeps what fits inline.
struct RowTaker<'c> {
    output_sink: &'c dyn OutputSink,
    items: ItemSink,
    progress: ProgressSink<NoProgress>,
    format: TableFormat,
    limit: u64,
    inline: usize,
    headed: bool,
    output: DatabaseQueryOutput,
}

impl<'c> RowTaker<'c> {
    fn new(cx: &'c CallContext<NoProgress>, format: TableFormat, limit: u64) -> Self {
        Self {
            output_sink: cx.output(),
            items: cx.items(),
            progress: cx.progress(),
            format,
            limit,
            inline: 0,
            headed: false,
            output: DatabaseQueryOutput::default(),
        }
    }
}

impl TakeRows for RowTaker<'_> {
    fn columns(&mut self, names: &[String]) {
        self.output.columns = names.to_vec();
    }

    fn rows(&mut self, rows: Vec<Vec<Value>>) -> BoxFuture<'_, WantedRows> {
        Box::pin(async move {
            let mut text = String::new();
            if !self.headed {
                self.headed = true;
                text.push_str(&self.format.head(&self.output.columns));
            }
            for values in rows {
                if self.output.row_count >= self.limit {
                    self.output.more = true;
                    break;
                }
                self.output.row_count += 1;
                let line = self.format.row(&values);
                text.push_str(&line);
                let row = FoundRow { values };
                self.items.emit(&row);
                if self.inline + line.len() <= INLINE_BYTES {
                    self.inline += line.len();
                    self.output.rows.push(row.values);
                } else {
                    // Rows kept inline are the first ones without a gap.
                    self.inline = INLINE_BYTES;
                }
            }
            self.output_sink.push(Stream::Stdout, text.as_bytes()).await;
            let rows = self.output.row_count;
            self.progress
                .report(Progress::of(rows, None, counted(rows)));
            if self.output.more {
                WantedRows::NoMore
            } else {
                WantedRows::More
            }
        })
    }
}

/// So many rows, in words.
pub(super) fn counted(rows: u64) -> String {
    match rows {
        1 => "1 row".to_owned(),
        more => format!("{more} rows"),
    }
}

fn explained(estimate: &StatementEstimate) -> DatabaseQueryOutput {
    DatabaseQueryOutput {
        estimated_cost: estimate.cost,
        estimated_rows: estimate.rows,
        text: format!("{}\n[{estimate}; nothing was run]", estimate.steps),
        ..DatabaseQueryOutput::default()
    }
}

fn tables(found: Vec<TableSummary>, more: bool) -> DatabaseQueryOutput {
    let mut text = String::new();
    let mut tables = Vec::new();
    for table in found {
        text.push_str(&table.name);
        if table.kind != "table" {
            let _ = write!(text, " ({})", table.kind);
        }
        if let Some(rows) = table.estimated_rows {
            let _ = write!(text, ", about {}", counted(rows));
        }
        text.push('\n');
        let columns = table.columns.into_iter().map(|column| {
            let null = if column.nullable { "" } else { " not null" };
            let _ = writeln!(text, "  {} {}{null}", column.name, column.kind);
            FoundColumn {
                name: column.name,
                kind: column.kind,
                nullable: column.nullable,
            }
        });
        tables.push(FoundTable {
            columns: columns.collect(),
            name: table.name,
            kind: table.kind,
            estimated_rows: table.estimated_rows,
        });
    }
    match (tables.len(), more) {
        (0, _) => text.push_str("[no such table]"),
        (1, true) => text.push_str("[1 table; there are more]"),
        (count, true) => {
            let _ = write!(text, "[{count} tables; there are more]");
        }
        (_, false) => {}
    }
    DatabaseQueryOutput {
        more,
        tables,
        text,
        ..DatabaseQueryOutput::default()
    }
}
