//! The container back end against a real, rootless Podman, as the user the tests run as
//! (`.ci/container` prepares it). A machine without one fails here.

mod connecting;
mod development;
pub(crate) mod engine;
mod loss;
mod tiers;

mod files {
    use super::engine::fixture;
    haft_testkit::file_suite!(
        fixture().await,
        #[ignore = "ci: needs Podman"]
    );
}

mod process {
    use super::engine::fixture;
    haft_testkit::process_suite!(
        fixture().await,
        #[ignore = "ci: needs Podman"]
    );
}

mod search {
    use super::engine::fixture;
    haft_testkit::search_suite!(
        fixture().await,
        #[ignore = "ci: needs Podman"]
    );
}
