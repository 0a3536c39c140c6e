//! A yes-or-no question, for commands a person typed themselves. `approve.rs` asks about agents'
//! calls.

use crate::terminal::{Output, Page, Style};

/// Asks on standard error and reads one line. Anything but a yes is a no.
pub(crate) async fn yes(output: Output, question: &str) -> bool {
    output.note(&Page::new().styled(Style::Strong, question));
    let line = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line)
    });
    let Ok(Ok(line)) = line.await else {
        return false;
    };
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
