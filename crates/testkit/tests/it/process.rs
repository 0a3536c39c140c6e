//! The process suite on the shell in memory.

use haft_testkit::suite::fixture::MemoryFixture;

haft_testkit::process_suite!(MemoryFixture::new());
