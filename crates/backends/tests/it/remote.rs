//! The remote protocol: the suites over a stream in this process and over a real helper, and what
//! happens when a connection is lost or the other side talks nonsense.

pub(crate) mod child;
pub(crate) mod client_program;
pub(crate) mod fixture;
mod loss;
mod nonsense;
pub(crate) mod tiers;

mod over_a_helper {
    use super::child::fixture;

    mod files {
        use super::fixture;
        haft_testkit::file_suite!(fixture().await);
    }

    mod process {
        use super::fixture;
        haft_testkit::process_suite!(fixture().await);
    }

    mod search {
        use super::fixture;
        haft_testkit::search_suite!(fixture().await);
    }
}

mod over_a_stream {
    use super::fixture::RemoteFixture;

    mod files {
        use super::RemoteFixture;
        haft_testkit::file_suite!(RemoteFixture::over_stream().await);
    }

    mod process {
        use super::RemoteFixture;
        haft_testkit::process_suite!(RemoteFixture::over_stream().await);
    }

    mod search {
        use super::RemoteFixture;
        haft_testkit::search_suite!(RemoteFixture::over_stream().await);
    }
}
