//! The search suite on the tree in memory.

use haft_testkit::suite::fixture::MemoryFixture;

haft_testkit::search_suite!(MemoryFixture::new());
