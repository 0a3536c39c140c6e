//! What must hold for any bytes read as a script. The fuzz target (`fuzz/`) and a test with mutated
//! scripts both call it.

use haft_contract::{WorkPath, access::Command};
use haft_policy::shell::analyse;

/// Reads the bytes as a script, twice, and looks at everything that came of it.
pub(crate) fn hold(bytes: &[u8]) {
    let command = Command::Shell(String::from_utf8_lossy(bytes).into_owned());
    let read = || analyse(&command, &WorkPath::root(), "/w");
    let (first, second) = (read(), read());
    assert_eq!(first, second, "the same script was read differently");
    let Ok(analysis) = first else {
        return;
    };
    assert!(
        !analysis.segments().is_empty(),
        "there was nothing to judge"
    );
    for segment in analysis.segments() {
        assert!(segment.runs().len() <= 64, "{:?}", segment.runs());
        assert!(segment.touches().count() <= 1024, "{}", segment.text());
        let shown = segment.line();
        let known: usize = segment.argv().flatten().map(str::len).sum();
        assert!(shown.len() >= known, "{shown:?} shows less than the words");
    }
}
