//! Who answers under a server's id: the program that is started, or the address that is reached. A
//! person accepts definitions of one origin; another origin that offers the same is another server.

use serde_json::Value;

use super::Digest;
use crate::foreign::shown;

/// The program or address behind a server's id. Holds no secrets, at most their names.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    what: Value,
    digest: Digest,
}

impl Origin {
    /// Builds an origin from everything that distinguishes it. Use text and lists of text; numbers
    /// are compared as their JSON text.
    pub fn new(what: Value) -> Self {
        Self {
            digest: Digest::of_bytes(what.to_string().as_bytes()),
            what,
        }
    }

    /// The parts it was built from.
    pub fn what(&self) -> &Value {
        &self.what
    }

    /// The hash that identifies it.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The command or the address on one line, escaped. For people only: a command line may hold
    /// something a model should not read.
    pub fn in_words(&self) -> String {
        let text = |key: &str| self.what.get(key).and_then(Value::as_str);
        if let Some(url) = text("url") {
            return shown(url);
        }
        let command = self.what.get("command").and_then(Value::as_array);
        match command {
            Some(words) => {
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                shown(&words.join(" "))
            }
            None => shown(&self.what.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_program_or_address_is_another_origin() {
        let of = |what: Value| Origin::new(what).digest();
        let one = json!({"command": ["npx", "server"]});
        assert_eq!(of(one.clone()), of(one.clone()));
        assert_ne!(of(one.clone()), of(json!({"command": ["npx", "server2"]})));
        assert_ne!(of(one.clone()), of(json!({"url": "npx server"})));
        assert_eq!(Origin::new(one.clone()).what(), &one);
    }

    #[test]
    fn people_are_shown_the_command_or_the_address_and_no_escape() {
        let words = |what: Value| Origin::new(what).in_words();
        assert_eq!(
            words(json!({"url": "https://a.example/mcp"})),
            "https://a.example/mcp"
        );
        assert_eq!(words(json!({"command": ["npx", "server"]})), "npx server");
        assert_eq!(words(json!(["other"])), "[\"other\"]");
        assert!(!words(json!({"url": "a\u{1b}[2J"})).contains('\u{1b}'));
    }
}
