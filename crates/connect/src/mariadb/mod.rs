//! MariaDB. A connection per statement: what a statement leaves behind in a session (locks by name,
//! variables, temporary tables) ends with it.
//!
//! The driver is always asked to prepare a statement, which the server does with one statement only,
//! and rows are read as they arrive. Read next: `session.rs` for what every connection begins with,
//! `backend.rs` for how a statement is ended and seen to have ended, `changes.rs` for how a change is judged, `names.rs` for what names may be to
//! this server that the text does not tell.

mod address;
mod authorities;
mod backend;
mod changes;
mod estimate;
mod failure;
mod keep_rows;
mod names;
mod put_back;
mod role;
mod row_table;
mod row_values;
mod run;
mod schema;
mod session;
mod session_counts;
mod value;
mod what_follows;

use std::sync::Arc;

use haft_contract::secret::ReadSecret;

use self::session::Connector;
use crate::settings::MariaDbSettings;

/// A MariaDB server and how to log in.
pub(crate) struct MariaDbSource {
    connector: Arc<Connector>,
    /// The schema of tables that are named without one, as the server has it.
    database: String,
}

impl MariaDbSource {
    pub(crate) fn new(
        settings: &MariaDbSettings,
        secrets: &Arc<dyn ReadSecret>,
    ) -> Result<Self, String> {
        let options = address::options(settings)?;
        Ok(Self {
            connector: Arc::new(Connector {
                options,
                password: settings.password.clone(),
                secrets: Arc::clone(secrets),
                database: settings.database().to_owned(),
            }),
            database: settings.database().to_owned(),
        })
    }
}
