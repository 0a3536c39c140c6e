//! The suites: what every back end, ledger and tool must do, as one test per case.
//!
//! A suite is a list of cases and a macro that turns the list into tests, so that a failure has
//! a name. `docs/spec` states the rules and names the case behind each of them. Adding a case is
//! one function and one line in its list; every implementation then has to pass it.
//!
//! ```ignore
//! mod local {
//!     haft_harness::file_suite!(LocalFixture::new());
//! }
//! ```

pub mod files;
pub mod fixture;
pub mod ledger;
pub mod process;
pub mod search;
pub mod tool;

use std::{future::Future, time::Duration};

/// How long one case may take. A hang is a failure, not a stuck build.
pub const CASE_LIMIT: Duration = crate::PATIENCE;

/// Runs one case on its own runtime. Called by the suite macros.
pub fn run(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a tokio runtime");
    runtime
        .block_on(async { tokio::time::timeout(CASE_LIMIT, case).await })
        .expect("the case ends within its limit");
    runtime.shutdown_timeout(Duration::from_secs(5));
}

/// Declares a suite: its macro, and the list of its cases. The first token is a `$`, because a
/// macro that writes a macro cannot write one itself.
macro_rules! suite {
    ($d:tt $(#[$doc:meta])* $name:ident, $module:ident: $($case:ident,)+) => {
        /// The names of the cases, in the order of the list.
        pub const CASES: &[&str] = &[$(stringify!($case)),+];

        $(#[$doc])*
        #[macro_export]
        macro_rules! $name {
            ($d fixture:expr $d(, #[$d tag:meta])?) => {
                $(
                    #[test]
                    $d(#[$d tag])?
                    fn $case() {
                        $d crate::suite::run(async {
                            $d crate::suite::$module::$case($d fixture).await;
                        });
                    }
                )+
            };
        }
    };
}
use suite;

/// Every case of every suite, as `suite::case`.
pub fn all_cases() -> Vec<String> {
    [
        ("files", files::CASES),
        ("process", process::CASES),
        ("search", search::CASES),
        ("ledger", ledger::CASES),
        ("tool", tool::CASES),
    ]
    .into_iter()
    .flat_map(|(suite, cases)| cases.iter().map(move |case| format!("{suite}::{case}")))
    .collect()
}
