//! Turns schema violations into an error a model can act on: what, where, what instead. All that is
//! wrong is said at once, so that a model does not find its mistakes one call at a time.

use haft_contract::{Content, ToolError};
use jsonschema::{ValidationError, error::ValidationErrorKind};
use serde_json::{Value, json};

use super::{
    alternatives::{MeantAlternative, meant_alternative},
    renamed::RenamedParameters,
};

/// How similar two parameter names must be to suggest one for the other, from 0 to 1.
const SUGGESTION_LIKENESS: f64 = 0.7;

/// The longest excerpt of the model's own input, or of a schema, in an error.
const MAX_SHOWN_CHARS: usize = 120;

/// The most parameters listed when none resembles the wrong one.
const MAX_NAMED: usize = 40;

/// The most mistakes that one error tells.
const MAX_MISTAKES: usize = 10;

/// What an input is checked against, and what of it the caller knows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SchemasOfInput<'s> {
    pub(crate) shown: &'s Value,
    pub(crate) checked: &'s Value,
}

/// The error for everything that is wrong with an input: the first mistake as the error itself, the
/// others in its content, and all of them in its structured output.
pub(crate) fn complaint<'v>(
    schemas: SchemasOfInput<'_>,
    renamed: &RenamedParameters,
    violations: impl Iterator<Item = ValidationError<'v>>,
) -> Option<ToolError> {
    let mistakes = violations.flat_map(|violation| mistakes(schemas, renamed, &violation));
    let mut mistakes = mistakes.map(|mistake| renamed.as_written(mistake));
    let first = mistakes.next()?;
    let more: Vec<ToolError> = mistakes.by_ref().take(MAX_MISTAKES - 1).collect();
    if more.is_empty() {
        return Some(first);
    }
    let mut lines = vec!["Also wrong:".to_owned()];
    lines.extend(more.iter().map(line));
    if mistakes.next().is_some() {
        lines.push("- and more".to_owned());
    }
    let all: Vec<Value> = std::iter::once(&first).chain(&more).map(listed).collect();
    Some(
        first
            .with_content(Content::text(lines.join("\n")))
            .with_structured(json!({ "mistakes": all })),
    )
}

/// One mistake on a line of its own.
fn line(mistake: &ToolError) -> String {
    let at = mistake.pointer().unwrap_or("/");
    let hint = mistake.hint_text();
    let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
    format!("- {} (at `{at}`){hint}", mistake.message())
}

/// One mistake for a program.
fn listed(mistake: &ToolError) -> Value {
    json!({
        "at": mistake.pointer(),
        "message": mistake.message(),
        "hint": mistake.hint_text(),
    })
}

/// The mistakes that one violation is about: a schema reports all unknown parameters at once.
fn mistakes(
    schemas: SchemasOfInput<'_>,
    renamed: &RenamedParameters,
    violation: &ValidationError<'_>,
) -> Vec<ToolError> {
    let at = violation.instance_path().to_string();
    match violation.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let known = properties_checked(schemas, &at, violation.schema_path().as_str());
            let known = known.unwrap_or_else(|| properties_at(schemas.shown, &at));
            let names = unexpected.iter().take(MAX_MISTAKES + 1);
            names.map(|name| unknown(name, &at, &known)).collect()
        }
        ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            let known = properties_at(schemas.shown, &at);
            let names = unexpected.iter().take(MAX_MISTAKES + 1);
            names.map(|name| unknown(name, &at, &known)).collect()
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }
            if choices(violation).is_empty() =>
        {
            let meant = meant_alternative(&at, context);
            of_alternative(schemas, renamed, &at, meant)
                .unwrap_or_else(|| vec![mistake(&at, violation)])
        }
        _ => vec![
            renamed_mistake(&at, renamed, violation).unwrap_or_else(|| mistake(&at, violation)),
        ],
    }
}

/// What is wrong with an input that fits no alternative; `None` if it resembles none.
fn of_alternative(
    schemas: SchemasOfInput<'_>,
    renamed: &RenamedParameters,
    at: &str,
    meant: MeantAlternative<'_>,
) -> Option<Vec<ToolError>> {
    Some(match meant {
        MeantAlternative::One(violations) => violations
            .iter()
            .flat_map(|violation| mistakes(schemas, renamed, violation))
            .collect(),
        MeantAlternative::OtherTag(refusals) => {
            let first = refusals.first()?;
            let place = first.instance_path().to_string();
            let choices: Vec<String> = refusals.iter().flat_map(|one| choices(one)).collect();
            vec![not_a_choice(&place, first.instance(), &choices)]
        }
        MeantAlternative::Missing(names) => {
            let names = names.into_iter();
            names.map(|name| missing(schemas, at, name)).collect()
        }
        MeantAlternative::Unknown(names) => {
            let known = properties_at(schemas.shown, at);
            let names = names.into_iter();
            names.map(|name| unknown(name, at, &known)).collect()
        }
        MeantAlternative::AnyOf(needed) => {
            let given = |names: &Vec<&str>| {
                let names = names.iter().map(|name| format!("`{}`", spelt(name)));
                names.collect::<Vec<_>>().join(" and ")
            };
            let needed: Vec<String> = needed.iter().take(MAX_NAMED).map(given).collect();
            let place = if at.is_empty() { "/" } else { at };
            vec![
                ToolError::invalid_input("the input is none of the alternatives")
                    .at(spelt(place))
                    .hint(format!("give {}", needed.join(", or "))),
            ]
        }
        MeantAlternative::Unclear => return None,
    })
}

/// A parameter that every alternative needs, with its choices if it has some.
fn missing(schemas: SchemasOfInput<'_>, at: &str, name: &str) -> ToolError {
    let of_root = || {
        schemas
            .shown
            .get("properties")?
            .get(name)?
            .get("enum")?
            .as_array()
    };
    let choices = at.is_empty().then(of_root).flatten();
    let choices: Vec<&str> = choices
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let name = spelt(name);
    let hint = if choices.is_empty() {
        format!("add `{name}`")
    } else {
        format!("add `{name}`, one of: {}", names(&choices))
    };
    ToolError::invalid_input(format!("the parameter `{name}` is missing"))
        .at(format!("{}/{name}", spelt(at)))
        .hint(hint)
}

/// A number that the caller wrote under another name, and perhaps in another unit.
fn renamed_mistake(
    at: &str,
    renamed: &RenamedParameters,
    violation: &ValidationError<'_>,
) -> Option<ToolError> {
    let parameter = renamed.at(at)?;
    let scale = parameter
        .scaled
        .as_ref()
        .map(|scaled| f64::from(scaled.scale));
    let in_units = |limit: &Value| limit.as_f64().map(|limit| limit / scale.unwrap_or(1.0));
    let hint = match violation.kind() {
        ValidationErrorKind::Minimum { limit } => format!("the least is {}", in_units(limit)?),
        ValidationErrorKind::Maximum { limit } => format!("the most is {}", in_units(limit)?),
        ValidationErrorKind::MinLength { .. } => "give it some text".to_owned(),
        ValidationErrorKind::Type { .. } => match scale {
            Some(scale) => format!("give a number, at least {}", 1.0 / scale),
            None => "see the tool's input schema".to_owned(),
        },
        _ => return None,
    };
    let written = match &parameter.scaled {
        Some(scaled) => &scaled.written,
        None => violation.instance().as_ref(),
    };
    let written = match plain(written) {
        text if text.is_empty() => "empty".to_owned(),
        text => spelt(&text),
    };
    let message = format!("`{}` cannot be {written}", spelt(parameter.name()));
    Some(ToolError::invalid_input(message).at(at).hint(hint))
}

/// A parameter that does not exist.
fn unknown(name: &str, at: &str, known: &[&str]) -> ToolError {
    let error = ToolError::invalid_input(format!("there is no parameter `{}`", spelt(name)))
        .at(format!("{}/{}", spelt(at), spelt(name)));
    match nearest(name, known) {
        Some(meant) => error.hint(format!("did you mean `{}`?", spelt(meant))),
        None => error.hint(format!("the parameters are: {}", names(known))),
    }
}

/// The mistake of any other violation.
fn mistake(at: &str, violation: &ValidationError<'_>) -> ToolError {
    if let ValidationErrorKind::Required { property } = violation.kind() {
        let name = spelt(property.as_str().unwrap_or_default());
        return ToolError::invalid_input(format!("the parameter `{name}` is missing"))
            .at(format!("{}/{name}", spelt(at)))
            .hint(format!("add `{name}`"));
    }
    if let ValidationErrorKind::MaxLength { limit } = violation.kind() {
        return too_long(at, violation.instance(), *limit);
    }
    let choices = choices(violation);
    if choices.is_empty() {
        let place = if at.is_empty() { "/" } else { at };
        return ToolError::invalid_input(spelt(&violation.to_string()))
            .at(spelt(place))
            .hint("see the tool's input schema");
    }
    not_a_choice(at, violation.instance(), &choices)
}

/// A text that is too long. It is not repeated: that would leave no room for what is wrong with it.
fn too_long(at: &str, given: &Value, limit: u64) -> ToolError {
    let place = if at.is_empty() { "/" } else { at };
    let length = plain(given).chars().count();
    let name = spelt(at.rsplit('/').next().unwrap_or_default());
    ToolError::invalid_input(format!(
        "`{name}` has {length} characters, more than {limit}"
    ))
    .at(spelt(place))
    .hint(format!("give at most {limit} characters"))
}

/// A value that is none of the choices.
fn not_a_choice(at: &str, given: &Value, choices: &[String]) -> ToolError {
    let place = if at.is_empty() { "/" } else { at };
    let given = spelt(&plain(given));
    let choices: Vec<&str> = choices.iter().map(String::as_str).collect();
    ToolError::invalid_input(format!("`{given}` is not one of the choices"))
        .at(spelt(place))
        .hint(format!("use one of: {}", names(&choices)))
}

/// The values that would have been accepted, if the schema lists them: as an `enum`, or as the
/// alternatives that are derived for an enum whose variants are documented.
fn choices(violation: &ValidationError<'_>) -> Vec<String> {
    match violation.kind() {
        ValidationErrorKind::Constant { expected_value } => vec![plain(expected_value)],
        ValidationErrorKind::Enum { options } => {
            let options = options.as_array().into_iter().flatten();
            options.map(plain).collect()
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            // An alternative that is wrong further inside does not list what is accepted here.
            let here = violation.instance_path();
            let branches = context.iter().filter_map(|branch| branch.first());
            branches
                .filter(|inner| inner.instance_path() == here)
                .flat_map(choices)
                .collect()
        }
        _ => Vec::new(),
    }
}

/// A value as a model would write it: text without quotes.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// The property names of the schema that refused others, which may be one of several
/// alternatives. Arguments that the caller does not know are left out.
fn properties_checked<'a>(
    schemas: SchemasOfInput<'a>,
    at: &str,
    keyword: &str,
) -> Option<Vec<&'a str>> {
    let (schema, _) = keyword.rsplit_once('/')?;
    let own = schemas.checked.pointer(schema)?.get("properties")?;
    let known = properties_at(schemas.shown, at);
    let own = own.as_object()?.keys().map(String::as_str);
    let shown = own.filter(|name| !at.is_empty() || known.contains(name));
    Some(shown.collect())
}

/// The property names a schema allows at an instance path, as far as they can be determined.
fn properties_at<'a>(schema: &'a Value, at: &str) -> Vec<&'a str> {
    let mut here = schema;
    for step in at.split('/').filter(|step| !step.is_empty()) {
        let next = here
            .get("properties")
            .and_then(|properties| properties.get(step))
            .or_else(|| here.get("items"));
        let Some(next) = next else { return Vec::new() };
        here = next
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|uri| schema.pointer(uri.trim_start_matches('#')))
            .unwrap_or(next);
    }
    here.get("properties")
        .and_then(Value::as_object)
        .map(|properties| properties.keys().map(String::as_str).collect())
        .unwrap_or_default()
}

fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), *candidate))
        .filter(|(likeness, _)| *likeness >= SUGGESTION_LIKENESS)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

fn names(known: &[&str]) -> String {
    let mut names: Vec<String> = known
        .iter()
        .take(MAX_NAMED)
        .map(|name| spelt(name))
        .collect();
    if known.len() > MAX_NAMED {
        names.push("…".to_owned());
    }
    names.join(", ")
}

/// Text of a schema or an input for use in one of our sentences: bounded, without characters that
/// control a terminal or hide text. A mounted server writes its own schemas.
pub(crate) fn spelt(text: &str) -> String {
    let mut shown = String::with_capacity(text.len().min(MAX_SHOWN_CHARS));
    let mut letters = text.chars();
    for c in letters.by_ref().take(MAX_SHOWN_CHARS) {
        match c {
            // Rust escapes these for string literals; they hide nothing.
            '"' | '\'' | '\\' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    if letters.next().is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn same(schema: &Value) -> SchemasOfInput<'_> {
        SchemasOfInput {
            shown: schema,
            checked: schema,
        }
    }

    #[test]
    fn a_value_that_is_not_a_choice_is_told_the_choices() {
        let listed = json!({"enum": ["list", "poll", 3]});
        let documented = json!({"oneOf": [
            {"description": "Show every process.", "const": "list"},
            {"description": "Wait.", "const": "poll"},
            {"enum": [3]},
        ]});
        let optional = json!({"anyOf": [{"type": "null"}, documented]});
        for choice in [&listed, &documented, &optional] {
            let schema = json!({"properties": {"action": choice}});
            let validator = jsonschema::validator_for(&schema).unwrap();
            let input = json!({"action": "foo"});
            let error = complaint(
                same(&schema),
                &RenamedParameters::default(),
                validator.iter_errors(&input),
            )
            .unwrap();
            assert_eq!(error.message(), "`foo` is not one of the choices");
            assert_eq!(error.pointer(), Some("/action"));
            assert_eq!(error.hint_text(), Some("use one of: list, poll, 3"));
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_not_repeated() {
        let schema = json!({"properties": {"query": {"type": "string", "maxLength": 400}}});
        let validator = jsonschema::validator_for(&schema).unwrap();
        let input = json!({"query": "ä".repeat(401)});
        let error = complaint(
            same(&schema),
            &RenamedParameters::default(),
            validator.iter_errors(&input),
        )
        .unwrap();
        assert_eq!(error.message(), "`query` has 401 characters, more than 400");
        assert_eq!(error.pointer(), Some("/query"));
        assert_eq!(error.hint_text(), Some("give at most 400 characters"));
    }

    #[test]
    fn all_mistakes_are_said_at_once() {
        let schema = json!({
            "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
            "required": ["path"], "additionalProperties": false,
        });
        let validator = jsonschema::validator_for(&schema).unwrap();
        let said = |input: &Value| {
            let mut error = complaint(
                same(&schema),
                &RenamedParameters::default(),
                validator.iter_errors(input),
            )
            .unwrap();
            let (content, structured) = error.take_output();
            let text: Vec<&str> = content.iter().filter_map(Content::as_text).collect();
            (text.concat(), structured)
        };
        let (text, structured) = said(&json!({"limit": "x", "pth": "a", "qqqqqq": 1}));
        let mistakes = structured.unwrap()["mistakes"].as_array().unwrap().clone();
        assert_eq!(mistakes.len(), 4, "{mistakes:?}");
        for pointer in ["/limit", "/pth", "/qqqqqq", "/path"] {
            let told = mistakes.iter().find(|mistake| mistake["at"] == pointer);
            assert!(
                told.is_some_and(|told| told["hint"].is_string()),
                "{pointer}"
            );
        }
        assert_eq!(text.lines().count(), 4, "{text}");
        // One mistake is the error itself.
        assert_eq!(said(&json!({"limit": 1})), (String::new(), None));
        let many: serde_json::Map<String, Value> =
            (0..50).map(|n| (format!("zzzzzz{n}"), json!(1))).collect();
        let (text, structured) = said(&Value::Object(many));
        let mistakes = structured.unwrap()["mistakes"].as_array().unwrap().len();
        assert_eq!(mistakes, MAX_MISTAKES);
        assert!(text.ends_with("- and more"), "{text}");
    }

    #[test]
    fn an_alternative_is_told_apart_by_what_the_others_refuse() {
        let within = json!({"properties": {"kind": {"const": "x"}}, "required": ["kind"],
            "type": "object"});
        let schema = json!({"properties": {"a": {"anyOf": [within, {"type": "string"}]}}});
        let validator = jsonschema::validator_for(&schema).unwrap();
        let said = |input: Value| {
            let violations = validator.iter_errors(&input);
            let error = complaint(same(&schema), &RenamedParameters::default(), violations);
            let error = error.unwrap();
            let at = error.pointer().unwrap().to_owned();
            (at, error.hint_text().unwrap().to_owned())
        };
        let owned = |at: &str, hint: &str| (at.to_owned(), hint.to_owned());
        assert_eq!(
            said(json!({"a": {"kind": "y"}})),
            owned("/a/kind", "use one of: x")
        );
        assert_eq!(said(json!({"a": {}})), owned("/a/kind", "add `kind`"));
        assert_eq!(
            said(json!({"a": 1})),
            owned("/a", "see the tool's input schema")
        );
    }

    #[test]
    fn mc_08_what_a_schema_says_does_not_act_in_what_is_said_of_an_input() {
        let dressed = "a\u{1b}]52;c;eA==\u{7}\u{202e}\u{200b}\u{e0041}";
        let many: serde_json::Map<_, _> = (0..1000)
            .map(|n| (format!("{dressed}{n}"), json!({})))
            .collect();
        for (schema, input) in [
            (json!({ "required": [dressed] }), json!({})),
            (
                json!({ "properties": { "a": { "enum": [dressed] } } }),
                json!({ "a": 1 }),
            ),
            (
                json!({ "properties": { dressed: { "type": "string" } } }),
                json!({ dressed: 1 }),
            ),
            (
                json!({ "properties": many, "additionalProperties": false }),
                json!({ "z": 1 }),
            ),
        ] {
            let validator = jsonschema::validator_for(&schema).unwrap();
            let error = complaint(
                same(&schema),
                &RenamedParameters::default(),
                validator.iter_errors(&input),
            )
            .unwrap();
            let parts = [Some(error.message()), error.pointer(), error.hint_text()];
            let said = parts.map(Option::unwrap_or_default).join("\n");
            assert!(said.chars().count() < 8_000, "{} letters", said.len());
            let plain = said.replace('…', "");
            assert!(plain.is_ascii(), "{said:?}");
            let acts = |c: char| c.is_control() && c != '\n';
            assert!(!plain.contains(acts), "{said:?}");
        }
    }
}
