//! The file suite on the tree in memory.

use haft_testkit::suite::fixture::MemoryFixture;

haft_testkit::file_suite!(MemoryFixture::new());
