//! What the rules of a program that embeds Haft may not say, because nothing would obey it.

use haft_policy::PolicySource;

use crate::error::HostError;

/// Refuses texts that say where the workspace is, or send somebody to another back end, for a program
/// that opens its workspace itself: nobody would go there.
pub(crate) fn refuse_backends(sources: &[PolicySource]) -> Result<(), HostError> {
    for source in sources {
        let Ok(file) = source.text.parse::<toml::Table>() else {
            continue; // Whoever reads the rules says what is wrong with it.
        };
        if let Some(table) = ["ssh", "docker"]
            .into_iter()
            .find(|table| file.contains_key(*table))
        {
            return Err(HostError::config(
                format!(
                    "{}: [{table}] has no effect in a program that opens its workspace itself",
                    source.name
                ),
                "leave it out, and give the program the workspace it is to work in",
            ));
        }
        for kind in ["agents", "sessions"] {
            let sections = file.get(kind).and_then(toml::Value::as_table);
            let mut sections = sections.into_iter().flatten();
            let named = sections.find(|(_, section)| section.get("backend").is_some());
            if let Some((name, _)) = named {
                return Err(HostError::config(
                    format!(
                        "{}: `backend` in [{kind}.{name}] has no effect in a program that opens its \
                         workspace itself",
                        source.name
                    ),
                    "leave it out, and give the program the workspace it is to work in",
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_opens_its_workspace_itself_refuses_them() {
        let source = |text: &str| [PolicySource::new("rules", text)];
        assert!(refuse_backends(&source("[agents.x]\npreset = \"careful\"\n")).is_ok());
        for text in [
            "[agents.x]\nbackend = \"local\"\n",
            "[sessions.dm]\nbackend = \"ssh:a\"\n",
        ] {
            let refused = refuse_backends(&source(text)).unwrap_err().to_string();
            assert!(refused.contains("rules: `backend` in ["), "{refused}");
        }
        for text in ["[ssh]\ndestination = \"a\"\n", "[docker.box]\n"] {
            let refused = refuse_backends(&source(text)).unwrap_err().to_string();
            assert!(refused.contains("has no effect"), "{refused}");
        }
    }
}
