//! The SSH back end against a real OpenSSH server, run as the user the tests run as. A machine
//! without one fails here.

mod attacks;
mod connecting;
mod loss;
mod races;
pub(crate) mod server;
mod tiers;

mod files {
    use super::server::fixture;
    haft_testkit::file_suite!(
        fixture().await,
        #[ignore = "ci: needs OpenSSH"]
    );
}

mod process {
    use super::server::fixture;
    haft_testkit::process_suite!(
        fixture().await,
        #[ignore = "ci: needs OpenSSH"]
    );
}

mod search {
    use super::server::fixture;
    haft_testkit::search_suite!(
        fixture().await,
        #[ignore = "ci: needs OpenSSH"]
    );
}
