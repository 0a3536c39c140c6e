//! Texts with places in them: `{name}` is an argument, `${NAME}` a secret, and `{{` and `}}` are the
//! braces themselves. Pure; what may stand where is not decided here.

/// The longest name of an argument or a secret, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// As it is written.
    Literal(String),
    /// An argument, by its name.
    Argument(String),
    /// A secret, by its name.
    Secret(String),
}

/// A text with places.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Template {
    parts: Vec<Part>,
}

impl Template {
    /// Reads a text. An error says what is wrong without repeating the text, which may hold a secret.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut template = Self::default();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}', '$']) {
            let (before, found) = rest.split_at(at);
            template.literal(before);
            rest = if let Some(after) = found.strip_prefix("{{") {
                template.literal("{");
                after
            } else if let Some(after) = found.strip_prefix("}}") {
                template.literal("}");
                after
            } else if let Some(after) = found.strip_prefix("${") {
                let (name, after) = name(after)?;
                template.parts.push(Part::Secret(name));
                after
            } else if let Some(after) = found.strip_prefix('{') {
                let (name, after) = name(after)?;
                template.parts.push(Part::Argument(name));
                after
            } else if let Some(after) = found.strip_prefix('$') {
                template.literal("$");
                after
            } else {
                return Err("it has a `}` without a `{`; write `}}` for the brace itself");
            };
        }
        template.literal(rest);
        Ok(template)
    }

    /// Adds to the end what is not a place.
    fn literal(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.parts.last_mut() {
            Some(Part::Literal(last)) => last.push_str(text),
            _ => self.parts.push(Part::Literal(text.to_owned())),
        }
    }

    /// The parts, in order.
    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The text, if it has no places.
    pub(super) fn as_literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// The argument, if the text is nothing else.
    pub(super) fn as_argument(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Argument(name)] => Some(name),
            _ => None,
        }
    }

    /// What is in it as it is written.
    pub(super) fn literals(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Literal(text) => Some(text.as_str()),
            Part::Argument(_) | Part::Secret(_) => None,
        })
    }

    /// The arguments in it.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Argument(name) => Some(name.as_str()),
            Part::Literal(_) | Part::Secret(_) => None,
        })
    }

    /// The secrets in it.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Secret(name) => Some(name.as_str()),
            Part::Literal(_) | Part::Argument(_) => None,
        })
    }
}

/// The name up to the closing brace, and what follows.
fn name(text: &str) -> Result<(String, &str), &'static str> {
    let (name, rest) = text
        .split_once('}')
        .ok_or("it has a `{` without a `}`; write `{{` for the brace itself")?;
    let odd = |c: char| c.is_control() || c == '{' || c == '$';
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains(odd) {
        return Err("between `{` and `}` there must be the name of an argument");
    }
    Ok((name.to_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let shown = Template::parse(text).map(|template| {
            let parts = template.parts.into_iter().map(|part| match part {
                Part::Literal(text) => format!("[{text}]"),
                Part::Argument(name) => format!("<{name}>"),
                Part::Secret(name) => format!("!{name}!"),
            });
            parts.collect::<String>()
        });
        assert_eq!(shown.unwrap_or_else(str::to_owned), expect, "{text}");
    }

    #[test]
    fn a_text_has_places_for_arguments_and_secrets() {
        check("", "");
        check("plain", "[plain]");
        check("{a}", "<a>");
        check("a-{b}/{c}!", "[a-]<b>[/]<c>[!]");
        check("Bearer ${TOKEN}", "[Bearer ]!TOKEN!");
        check("{{a}} costs $5", "[{a} costs $5]");
        check("{filter[name]}", "<filter[name]>");
        check("$", "[$]");
    }

    #[test]
    fn braces_that_are_no_place_are_refused() {
        for text in [
            "{a", "${a", "{", "a}", "{}", "${}", "{a{b}}", "{a\nb}", "{${a}}",
        ] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
        assert!(Template::parse(&format!("{{{}}}", "a".repeat(200))).is_err());
    }
}
