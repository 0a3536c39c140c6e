//! Terminal keys by name, as the bytes a terminal sends for them.

/// The most keys pressed in one call.
pub(super) const MAX_KEYS: usize = 256;

/// The bytes of a key, or `None` when there is no such key. A single character stands for itself.
pub(super) fn bytes(key: &str) -> Option<String> {
    let name = key.to_ascii_lowercase();
    let named = match name.as_str() {
        "enter" | "return" => "\r",
        "tab" => "\t",
        "space" => " ",
        "escape" | "esc" => "\u{1b}",
        "backspace" => "\u{7f}",
        "up" => "\u{1b}[A",
        "down" => "\u{1b}[B",
        "right" => "\u{1b}[C",
        "left" => "\u{1b}[D",
        "home" => "\u{1b}[H",
        "end" => "\u{1b}[F",
        "insert" => "\u{1b}[2~",
        "delete" => "\u{1b}[3~",
        "page_up" | "pageup" => "\u{1b}[5~",
        "page_down" | "pagedown" => "\u{1b}[6~",
        "shift-tab" => "\u{1b}[Z",
        "f1" => "\u{1b}OP",
        "f2" => "\u{1b}OQ",
        "f3" => "\u{1b}OR",
        "f4" => "\u{1b}OS",
        "f5" => "\u{1b}[15~",
        "f6" => "\u{1b}[17~",
        "f7" => "\u{1b}[18~",
        "f8" => "\u{1b}[19~",
        "f9" => "\u{1b}[20~",
        "f10" => "\u{1b}[21~",
        "f11" => "\u{1b}[23~",
        "f12" => "\u{1b}[24~",
        _ => return typed(key, &name),
    };
    Some(named.to_owned())
}

/// A character, alone or with a modifier.
fn typed(key: &str, name: &str) -> Option<String> {
    if let Some(character) = only(key) {
        return (!character.is_control()).then(|| character.to_string());
    }
    if let Some(held) = name
        .strip_prefix("ctrl-")
        .or_else(|| name.strip_prefix("c-"))
    {
        let character = only(held)?;
        let code = match character {
            'a'..='z' | '@' | '[' | '\\' | ']' | '^' | '_' => character.to_ascii_uppercase(),
            _ => return None,
        };
        let control = u8::try_from(code).ok()? & 0x1f;
        return Some(char::from(control).to_string());
    }
    let held = key
        .get(..4)
        .filter(|modifier| modifier.eq_ignore_ascii_case("alt-"))
        .and_then(|_| key.get(4..))?;
    let character = only(held).filter(|character| !character.is_control())?;
    Some(format!("\u{1b}{character}"))
}

fn only(text: &str) -> Option<char> {
    let mut characters = text.chars();
    characters.next().filter(|_| characters.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_a_terminal_sends() {
        for (key, sent) in [
            ("enter", "\r"),
            ("Ctrl-C", "\u{3}"),
            ("ctrl-d", "\u{4}"),
            ("c-z", "\u{1a}"),
            ("ctrl-\\", "\u{1c}"),
            ("up", "\u{1b}[A"),
            ("alt-X", "\u{1b}X"),
            ("q", "q"),
            ("Q", "Q"),
            ("é", "é"),
        ] {
            assert_eq!(bytes(key).as_deref(), Some(sent), "{key}");
        }
        for key in ["", "ctr-c", "ctrl-", "ctrl-é", "alt-", "hello", "\u{3}"] {
            assert_eq!(bytes(key), None, "{key:?}");
        }
    }
}
