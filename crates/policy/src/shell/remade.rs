//! What the next build makes again, by its name.

use super::{command_form::CommandForms, word::Word};

impl CommandForms {
    /// Whether the next build makes a path again: it is, or is in, something with such a name.
    pub(super) fn is_remade(&self, path: &str) -> bool {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        !path.starts_with(['/', '~'])
            && !path.split('/').any(|part| part == "..")
            && parts.any(|part| {
                self.remade.iter().any(|name| match name.strip_prefix('*') {
                    Some(ending) => part.ends_with(ending),
                    None => part == name,
                })
            })
    }
}

/// Whether `find` deletes only what is made again. One grammar is read and nothing else: paths, then
/// `-type` and `-maxdepth`, paths that are left out, exactly one name, and the action last. The order of
/// an expression decides what it deletes, so anything more would have to be evaluated as `find` does.
pub(super) fn finds_what_is_remade(forms: &CommandForms, words: &[Word]) -> bool {
    let texts: Option<Vec<&str>> = words
        .iter()
        .skip(1)
        .map(|word| word.text().or_else(|| (word.raw == "{}").then_some("{}")))
        .collect();
    let Some(texts) = texts else {
        return false;
    };
    let mut rest = texts.as_slice();
    while let [path, after @ ..] = rest
        && !path.starts_with(['-', '!', '(', ')', ','])
    {
        rest = after;
    }
    let mut named = false;
    loop {
        rest = match rest {
            ["-type", kind, after @ ..] if matches!(*kind, "f" | "d") => after,
            ["-maxdepth", depth, after @ ..] if depth.chars().all(|c| c.is_ascii_digit()) => after,
            ["-not" | "!", "-path", _, after @ ..] => after,
            ["-name" | "-path", name, after @ ..] if !named && forms.is_remade(name) => {
                named = true;
                after
            }
            other => break named && is_deleting(other),
        };
    }
}

/// Whether these words are one action that deletes what was found.
fn is_deleting(words: &[&str]) -> bool {
    let removed = match words {
        ["-delete"] => return true,
        ["-exec", "rm", rest @ ..] => rest,
        _ => return false,
    };
    let removed = match removed {
        [options, rest @ ..] if options.starts_with('-') && *options != "--" => {
            if !options.chars().skip(1).all(|c| "rRf".contains(c)) {
                return false;
            }
            rest
        }
        all => all,
    };
    matches!(removed, ["{}", "+" | ";"])
}
