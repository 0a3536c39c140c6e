//! Shows one notification on the person's desktop and waits for the button they press, through the
//! program `notify-send`, which speaks to the session bus.
//!
//! The program gets the address of the bus and nothing else of the environment. It is asked to take
//! the notification back, and then ended, when nobody waits for it any more. No tool and nothing in
//! a sandbox comes here: this is for the person.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
};

/// Where `notify-send` is, never through `PATH`.
const PLACES: [&str; 2] = ["/usr/bin/notify-send", "/usr/local/bin/notify-send"];

/// The most that is read of what it prints: the name of a button.
const MAX_PRINTED_BYTES: u64 = 4 * 1024;

/// How long it may take to take a notification back before it is killed.
const CLOSING_WAIT: Duration = Duration::from_secs(2);

/// A notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// One line.
    pub summary: String,
    /// Further lines, as they should be read: markup and escapes in them are not interpreted.
    pub body: String,
    /// The buttons: a name that is not shown, and a label.
    pub buttons: Vec<(&'static str, &'static str)>,
    /// How long it is shown.
    pub shown_for: Duration,
}

/// The program that shows notifications.
#[derive(Debug, Clone)]
pub struct NotifySend {
    program: PathBuf,
    bus: String,
}

impl NotifySend {
    /// The installed one, for the session bus at this address. `None` if it is not installed.
    pub fn find(bus: String) -> Option<Self> {
        let program = PLACES.iter().map(Path::new).find(|place| place.is_file())?;
        Some(Self {
            program: program.to_owned(),
            bus,
        })
    }

    /// Shows a notification until a button is pressed, it is closed, or this future is dropped.
    /// Returns the name of the pressed button, if one was.
    pub async fn show(&self, notification: &Notification) -> Result<Option<String>, String> {
        let child = Command::new(&self.program)
            .args(words(notification))
            .env_clear()
            .env("DBUS_SESSION_BUS_ADDRESS", &self.bus)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("`notify-send` cannot be started: {error}"))?;
        let mut shown = ShownNotification(Some(child));
        let Some(child) = &mut shown.0 else {
            return Ok(None);
        };
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (printed, said) = tokio::join!(read(stdout), read(stderr));
        let status = child.wait().await.map_err(|error| error.to_string())?;
        shown.0 = None;
        if !status.success() {
            let said = said.lines().next().unwrap_or_default().to_owned();
            return Err(format!("`notify-send` failed ({status}): {said}"));
        }
        let pressed = printed.trim();
        Ok((!pressed.is_empty()).then(|| pressed.to_owned()))
    }
}

fn words(notification: &Notification) -> Vec<String> {
    let mut words = vec![
        "--app-name=Haft".to_owned(),
        "--urgency=critical".to_owned(),
        format!("--expire-time={}", notification.shown_for.as_millis()),
    ];
    for (name, label) in &notification.buttons {
        words.push(format!("--action={name}={label}"));
    }
    if notification.buttons.is_empty() {
        words.push("--wait".to_owned());
    }
    words.push("--".to_owned());
    words.push(notification.summary.clone());
    words.push(literal(&notification.body));
    words
}

/// A text that is shown as it is. `notify-send` reads escapes such as `\033` in a body, and servers
/// read markup, in which text could hide.
fn literal(text: &str) -> String {
    let mut literal = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => literal.push_str("\\\\"),
            '&' => literal.push_str("&amp;"),
            '<' => literal.push_str("&lt;"),
            '>' => literal.push_str("&gt;"),
            c => literal.push(c),
        }
    }
    literal
}

/// The beginning of what a program prints.
async fn read(stream: Option<impl AsyncRead + Unpin>) -> String {
    let mut printed = Vec::new();
    if let Some(stream) = stream {
        // What cannot be read is no button.
        let _ = stream
            .take(MAX_PRINTED_BYTES)
            .read_to_end(&mut printed)
            .await;
    }
    String::from_utf8_lossy(&printed).into_owned()
}

/// A notification on the screen, taken back on drop.
struct ShownNotification(Option<Child>);

impl Drop for ShownNotification {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else {
            return;
        };
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        // It takes the notification back on this signal.
        let asked = id
            .and_then(Pid::from_raw)
            .is_some_and(|pid| kill_process(pid, Signal::INT).is_ok());
        if let Ok(runtime) = tokio::runtime::Handle::try_current()
            && asked
        {
            runtime.spawn(async move {
                // After that, dropping it kills it.
                let _ = tokio::time::timeout(CLOSING_WAIT, child.wait()).await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ap_08_neither_markup_nor_escapes_hide_anything_in_a_notification() {
        let notification = Notification {
            summary: "-x".to_owned(),
            body: r"printf '\033[2J' <b>&amp;</b> <!-- rm -->".to_owned(),
            buttons: vec![("allow", "Allow once")],
            shown_for: Duration::from_secs(1),
        };
        let words = words(&notification);
        let after = words.iter().position(|word| word == "--").unwrap();
        assert_eq!(
            words[after + 1..],
            [
                "-x",
                r"printf '\\033[2J' &lt;b&gt;&amp;amp;&lt;/b&gt; &lt;!-- rm --&gt;"
            ]
        );
        assert!(words.contains(&"--action=allow=Allow once".to_owned()));
    }
}
