//! What a client program said last, as part of a message.

/// The most characters of a program's own output that are shown.
const MAX_SHOWN: usize = 400;

/// The last line of its output after a colon, if there is any.
pub(crate) fn last_line(said: &str) -> String {
    let line = said
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty());
    match line {
        None => String::new(),
        Some(line) => {
            let printable = line.chars().filter(|c| !c.is_control());
            let shown: String = printable.take(MAX_SHOWN).collect();
            format!(": {shown}")
        }
    }
}
