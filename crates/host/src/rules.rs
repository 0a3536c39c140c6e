//! The rules an embedder writes in code, as the policy text they would be in a file.
//!
//! There is one parser of rules, in `haft-policy`. This only prints what it reads, so that a rule
//! in code and the same rule in `haft.toml` cannot differ in meaning.

use haft_policy::{PolicySource, Preset};

/// The name of rules written in code in explanations.
pub const IN_CODE: &str = "code";

/// `allow`, `ask` and `deny` lists and a preset, as given to the builder.
#[derive(Debug, Default)]
pub struct RulesInCode {
    /// What applies if no rule matches.
    pub preset: Option<Preset>,
    /// What is allowed.
    pub allow: Vec<String>,
    /// What is asked about.
    pub ask: Vec<String>,
    /// What is denied.
    pub deny: Vec<String>,
}

impl RulesInCode {
    /// The same rules as policy text.
    pub fn source(&self) -> PolicySource {
        let mut lines = vec!["[policy]".to_owned()];
        if let Some(preset) = self.preset {
            lines.push(format!("preset = {}", quoted(preset.as_str())));
        }
        for (key, rules) in [
            ("allow", &self.allow),
            ("ask", &self.ask),
            ("deny", &self.deny),
        ] {
            if rules.is_empty() {
                continue;
            }
            lines.push(format!("{key} = ["));
            lines.extend(rules.iter().map(|rule| format!("  {},", quoted(rule))));
            lines.push("]".to_owned());
        }
        PolicySource::new(IN_CODE, lines.join("\n"))
    }
}

/// A TOML string. All of JSON's escapes are also TOML escapes. The one character that JSON leaves
/// bare and TOML refuses (delete) is refused when the text is parsed.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_cannot_break_out_of_its_string() {
        let rules = RulesInCode {
            preset: Some(Preset::Locked),
            allow: vec!["read\"]\npreset = \"workspace".to_owned()],
            ..RulesInCode::default()
        };
        assert_eq!(
            rules.source().text,
            "[policy]\npreset = \"locked\"\nallow = [\n  \"read\\\"]\\npreset = \\\"workspace\",\n]"
        );
    }
}
