//! One connection: statements prepared once, transactions, and for whom they act.
//!
//! For whom a transaction acts is a setting that ends with it. A statement outside a transaction gets
//! one of its own, and what belongs together is sent without waiting for each answer.

use std::{collections::HashMap, future::Future, sync::Arc, time::Duration};

use haft_contract::BoxFuture;
use tokio_postgres::{Client, Statement, types::ToSql};

use super::{
    failure::{failed, unreachable},
    migrate,
    sql::{dollars, many_rows},
    text,
    value::{AnyCell, column},
};
use crate::store::{
    Cell, Connection, Lock, Order, Row, Scope, StoreError, TextSearch, Value, values,
};

/// How long an answer may take before the connection is given up. The server gives a statement up sooner.
const ANSWER_WAIT: Duration = Duration::from_secs(40);

/// How many statements stay prepared. When there are more, all are prepared again.
const MAX_STATEMENTS: usize = 256;

const ACT_FOR: &str =
    "SELECT set_config('haft.tenants', $1, true), set_config('haft.every', $2, true)";

/// Tells the locks of what happens one at a time, of positions and of writers apart from everybody
/// else's in the same database.
const ONE_AT_A_TIME: i64 = 0x4861 << 48;
const POSITIONS: i64 = 0x4862 << 48;
const WRITERS: i64 = 0x4863 << 48;

/// Says first that a position from here on may still appear, then takes positions. Whoever finds no such
/// lock after reading how far positions went knows that all of those are decided.
const NEXT_POSITIONS: &str = "WITH announced AS MATERIALIZED (
        SELECT pg_advisory_xact_lock_shared(?1 | CASE WHEN is_called THEN last_value ELSE 0 END)
        FROM record_position)
    SELECT nextval('record_position') AS position FROM announced, generate_series(1, ?2::bigint)";

const NEWEST_POSITION: &str =
    "SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS position FROM record_position";

const OLDEST_ANNOUNCED: &str =
    "SELECT min(((classid::bigint & 65535) << 32) | objid::bigint) AS position
    FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND (classid::bigint >> 16) = ?1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Reading,
    Writing,
}

pub(super) struct PostgresConnection {
    client: Arc<Client>,
    statements: HashMap<String, Statement>,
    purpose: Use,
    /// The tenants it acts for, and whether for every one.
    tenants: String,
    every: &'static str,
    in_transaction: bool,
    /// Whether an answer is outstanding; if that stays so, a read was given up in the middle.
    waiting: bool,
}

impl PostgresConnection {
    pub(super) fn new(client: Client, purpose: Use) -> Self {
        Self {
            client: Arc::new(client),
            statements: HashMap::new(),
            purpose,
            tenants: String::new(),
            every: "",
            in_transaction: false,
            waiting: false,
        }
    }

    /// Whether somebody else can use it next.
    pub(super) fn is_reusable(&self) -> bool {
        !self.in_transaction && !self.waiting && !self.client.is_closed()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub(super) fn set_scope(&mut self, scope: Scope<'_>) {
        match scope {
            Scope::Tenants(tenants) => {
                // A tenant's name has no comma.
                self.tenants = tenants.join(",");
                self.every = "";
            }
            Scope::Every => {
                self.tenants.clear();
                self.every = "on";
            }
        }
    }

    /// Runs statements that have no values, one after the other.
    pub(super) async fn run_script(&mut self, script: &str) -> Result<(), StoreError> {
        self.waiting = true;
        let done = answer(self.client.batch_execute(script)).await;
        self.waiting = false;
        done
    }

    async fn prepared(&mut self, statement: &str) -> Result<Statement, StoreError> {
        if let Some(prepared) = self.statements.get(statement) {
            return Ok(prepared.clone());
        }
        self.waiting = true;
        let prepared = answer(self.client.prepare(&dollars(statement))).await;
        self.waiting = false;
        let prepared = prepared?;
        if self.statements.len() >= MAX_STATEMENTS {
            self.statements.clear();
        }
        self.statements
            .insert(statement.to_owned(), prepared.clone());
        Ok(prepared)
    }

    /// Prepares what [`run`](Self::run) needs besides the statement itself.
    async fn acting(&mut self) -> Result<Option<Statement>, StoreError> {
        if self.in_transaction {
            return Ok(None);
        }
        self.prepared(ACT_FOR).await.map(Some)
    }

    /// Runs a statement: in the transaction, or in one of its own that acts for the same tenants.
    async fn run<T>(
        &mut self,
        acting: Option<Statement>,
        statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, StoreError> {
        let Some(act_for) = acting else {
            return answer(statement).await;
        };
        let opening = match self.purpose {
            Use::Reading => "BEGIN READ ONLY",
            Use::Writing => "BEGIN",
        };
        let scope: [&(dyn ToSql + Sync); 2] = [&self.tenants, &self.every];
        let all = async {
            // Sent in this order; the answers come in it too.
            let (begun, acts, result, committed) = tokio::join!(
                biased;
                self.client.batch_execute(opening),
                self.client.query(&act_for, &scope),
                statement,
                self.client.batch_execute("COMMIT"),
            );
            begun?;
            acts?;
            let result = result?;
            committed?;
            Ok(result)
        };
        answer(all).await
    }

    async fn read(
        &mut self,
        statement: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepared(statement).await?;
        let acting = self.acting().await?;
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
        self.waiting = true;
        let client = Arc::clone(&self.client);
        let rows = self.run(acting, client.query(&statement, &values)).await;
        self.waiting = false;
        rows.and_then(|rows| understood(&statement, &rows))
    }

    async fn write(&mut self, statement: &str, rows: &[Vec<Value<'_>>]) -> Result<u64, StoreError> {
        let [row] = rows else {
            return self.write_many(statement, rows).await;
        };
        let statement = self.prepared(statement).await?;
        let acting = self.acting().await?;
        let values: Vec<&(dyn ToSql + Sync)> = row.iter().map(|value| value as _).collect();
        self.waiting = true;
        let client = Arc::clone(&self.client);
        let changed = self.run(acting, client.execute(&statement, &values)).await;
        self.waiting = false;
        changed
    }

    /// One statement for all rows where it can be written so; else one after the other.
    async fn write_many(
        &mut self,
        statement: &str,
        rows: &[Vec<Value<'_>>],
    ) -> Result<u64, StoreError> {
        let single = self.prepared(statement).await?;
        let Some(many) = many_rows(statement, single.params()) else {
            let mut changed = 0;
            for row in rows {
                changed += Box::pin(self.write(statement, std::slice::from_ref(row))).await?;
            }
            return Ok(changed);
        };
        let many = self.prepared(&many).await?;
        let acting = self.acting().await?;
        let columns = single.params().iter().enumerate();
        let columns: Vec<_> = columns.map(|(at, of)| column(rows, at, of)).collect();
        let values: Vec<&(dyn ToSql + Sync)> =
            columns.iter().map(|column| &**column as _).collect();
        self.waiting = true;
        let client = Arc::clone(&self.client);
        let changed = self.run(acting, client.execute(&many, &values)).await;
        self.waiting = false;
        changed
    }

    async fn turn(&mut self, statement: &str, in_transaction: bool) -> Result<(), StoreError> {
        self.in_transaction = true;
        self.run_script(statement).await?;
        self.in_transaction = in_transaction;
        Ok(())
    }

    async fn apply_scope(&mut self) -> Result<(), StoreError> {
        let (tenants, every) = (self.tenants.clone(), self.every);
        self.read(ACT_FOR, &values![&tenants, every]).await?;
        Ok(())
    }
}

impl Connection for PostgresConnection {
    fn query<'a>(
        &'a mut self,
        statement: &'a str,
        values: &'a [Value<'a>],
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(self.read(statement, values))
    }

    fn execute_all<'a>(
        &'a mut self,
        statement: &'a str,
        rows: &'a [Vec<Value<'a>>],
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(self.write(statement, rows))
    }

    fn begin(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            match self.purpose {
                Use::Writing => self.turn("BEGIN", true).await,
                Use::Reading => {
                    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
                    self.turn(begin, true).await?;
                    self.apply_scope().await
                }
            }
        })
    }

    fn commit(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.turn("COMMIT", false))
    }

    fn rollback(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.turn("ROLLBACK", false))
    }

    fn act_for<'a>(&'a mut self, scope: Scope<'a>) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.set_scope(scope);
            if self.in_transaction {
                self.apply_scope().await?;
            }
            Ok(())
        })
    }

    fn lock(&mut self, lock: Lock) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let number: i64 = match lock {
                Lock::Answers => 1,
                Lock::CatchUp => 2,
            };
            let statement = "SELECT pg_advisory_xact_lock(?1)";
            self.read(statement, &values![ONE_AT_A_TIME | number])
                .await?;
            Ok(())
        })
    }

    fn row_lock(&self) -> &'static str {
        " FOR UPDATE"
    }

    fn next_change(&mut self) -> BoxFuture<'_, Result<i64, StoreError>> {
        Box::pin(async move {
            let connection: &mut dyn Connection = self;
            connection
                .number("SELECT nextval('approval_change')", &[])
                .await
        })
    }

    fn next_positions(&mut self, count: usize) -> BoxFuture<'_, Result<Vec<i64>, StoreError>> {
        Box::pin(async move {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            let rows = self
                .read(NEXT_POSITIONS, &values![POSITIONS, count])
                .await?;
            rows.iter().map(|row| row.get("position")).collect()
        })
    }

    fn settled_position(&mut self) -> BoxFuture<'_, Result<i64, StoreError>> {
        Box::pin(async move {
            let connection: &mut dyn Connection = self;
            // In this order: what is announced after this is behind it.
            let newest = connection.number(NEWEST_POSITION, &[]).await?;
            let announced = connection
                .scalar::<Option<i64>>(OLDEST_ANNOUNCED, &values![POSITIONS >> 48])
                .await?;
            Ok(announced.flatten().unwrap_or(newest).min(newest))
        })
    }

    fn index_texts<'a>(
        &'a mut self,
        tenant: &'a str,
        calls: &'a [(i64, String)],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let listed: Vec<i64> = calls.iter().map(|(listed, _)| *listed).collect();
            let words: Vec<String> = calls
                .iter()
                .map(|(_, text)| text::words(tenant, text))
                .collect();
            let statement = self.prepared(text::INDEX).await?;
            let acting = self.acting().await?;
            let values: [&(dyn ToSql + Sync); 3] = [&listed, &words, &tenant];
            self.waiting = true;
            let client = Arc::clone(&self.client);
            let indexed = self.run(acting, client.execute(&statement, &values)).await;
            self.waiting = false;
            indexed.map(|_| ())
        })
    }

    fn find_text<'a>(
        &'a mut self,
        search: &'a TextSearch<'a>,
    ) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> {
        Box::pin(async move {
            let query = text::query(search);
            let values = values![&query, search.before, search.after, search.limit];
            let statement = match search.order {
                Order::NewestFirst => text::FIND,
                Order::OldestFirst => text::FIND_NEXT,
            };
            let rows = self.read(statement, &values).await?;
            rows.iter().map(|row| row.get("listed")).collect()
        })
    }

    fn hold_writer(&mut self, writer: i64) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            let connection: &mut dyn Connection = self;
            let held = "SELECT pg_try_advisory_lock(?1)";
            let held = connection.number(held, &values![WRITERS | writer]).await?;
            Ok(held == 1)
        })
    }

    fn hold_abandoned_writers(&mut self) -> BoxFuture<'_, Result<Vec<i64>, StoreError>> {
        Box::pin(async move {
            let rows = self
                .read("SELECT DISTINCT writer FROM open_call ORDER BY writer", &[])
                .await?;
            let mut abandoned = Vec::new();
            for row in &rows {
                let writer = row.get("writer")?;
                if self.hold_writer(writer).await? {
                    abandoned.push(writer);
                }
            }
            Ok(abandoned)
        })
    }

    fn daily_upkeep(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(migrate::make_months(self))
    }

    fn let_writer_go(&mut self, writer: i64) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let let_go = "SELECT pg_advisory_unlock(?1)";
            self.read(let_go, &values![WRITERS | writer]).await?;
            Ok(())
        })
    }
}

/// Waits for an answer, not for ever.
async fn answer<T>(
    request: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(ANSWER_WAIT, request).await {
        Ok(answer) => answer.map_err(|error| failed(&error)),
        Err(_) => Err(unreachable("the database does not answer")),
    }
}

fn understood(statement: &Statement, rows: &[tokio_postgres::Row]) -> Result<Vec<Row>, StoreError> {
    let columns = statement.columns().iter();
    let columns: Arc<[String]> = columns.map(|column| column.name().to_owned()).collect();
    let cells = |row: &tokio_postgres::Row| -> Result<Vec<Cell>, tokio_postgres::Error> {
        let cells = (0..row.len()).map(|index| Ok(row.try_get::<_, AnyCell>(index)?.0));
        cells.collect()
    };
    let understood = rows.iter().map(|row| {
        let cells = cells(row).map_err(|error| failed(&error))?;
        Ok(Row::new(Arc::clone(&columns), cells))
    });
    understood.collect()
}
