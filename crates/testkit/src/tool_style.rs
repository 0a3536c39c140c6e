//! How Haft's own tools are written, beside what every tool must keep to (`tool_suite!` in
//! `haft-harness`): words for models and people, and schemas that leave room. `tool_style_suite!` is one
//! test per case; the rules are in `docs/spec/tool.md`.

#![allow(
    clippy::unused_async,
    reason = "the cases of all suites have one shape"
)]

use haft_harness::ToolFixture;
use serde_json::{Value, json};

/// The names of the cases.
pub const CASES: &[&str] = &[
    "the_title_and_description_are_there",
    "the_description_says_when_not_to_use_it",
    "the_input_schema_is_a_closed_object",
    "every_parameter_is_described",
    "the_output_schema_is_an_object",
    "an_unknown_field_is_refused",
    "some_results_are_known",
];

/// One test per case of house style, for a [`ToolFixture`](haft_harness::ToolFixture).
#[macro_export]
macro_rules! tool_style_suite {
    ($fixture:expr) => {
        $crate::tool_style_suite!($fixture;
            the_title_and_description_are_there,
            the_description_says_when_not_to_use_it,
            the_input_schema_is_a_closed_object,
            every_parameter_is_described,
            the_output_schema_is_an_object,
            an_unknown_field_is_refused,
            some_results_are_known,
        );
    };
    ($fixture:expr; $($case:ident,)+) => {
        $(
            #[test]
            fn $case() {
                $crate::suite::run(async {
                    $crate::tool_style::$case($fixture).await;
                });
            }
        )+
    };
}

/// R2: something to show a person, and enough for a model.
pub async fn the_title_and_description_are_there(fixture: ToolFixture) {
    let spec = fixture.tool.spec();
    assert!(
        !spec.title.trim().is_empty(),
        "`{}` has no title",
        fixture.name()
    );
    let words = spec.description.split_whitespace().count();
    assert!(
        words >= 10,
        "the description of `{}` has {words} words",
        fixture.name()
    );
}

/// R2: a model chooses well only if it also knows when not to use a tool.
pub async fn the_description_says_when_not_to_use_it(fixture: ToolFixture) {
    let description = fixture.tool.spec().description.to_lowercase();
    let says = ["not ", "never ", "instead", "rather than"];
    assert!(
        says.iter().any(|word| description.contains(word)),
        "the description of `{}` does not say when not to use it",
        fixture.name()
    );
}

/// A model that invents a parameter gets an error, so the schema allows no others.
pub async fn the_input_schema_is_a_closed_object(fixture: ToolFixture) {
    let schema = fixture.tool.input_schema();
    assert_eq!(schema["type"], "object", "{schema}");
    assert_eq!(schema["additionalProperties"], json!(false), "{schema}");
}

/// Every parameter has a description for the model.
pub async fn every_parameter_is_described(fixture: ToolFixture) {
    for (name, schema) in fixture.parameters() {
        let description = schema.get("description").and_then(Value::as_str);
        assert!(
            description.is_some_and(|text| !text.trim().is_empty()),
            "the parameter `{name}` of `{}` has no description",
            fixture.name()
        );
    }
}

/// Programs get an object, so that fields can be added later.
pub async fn the_output_schema_is_an_object(fixture: ToolFixture) {
    let schema = fixture.tool.output_schema();
    assert_eq!(schema["type"], "object", "{schema}");
}

/// The type is as strict as the schema.
pub async fn an_unknown_field_is_refused(fixture: ToolFixture) {
    for example in &fixture.examples {
        let mut input = example.clone();
        input["no_such_parameter"] = json!(1);
        assert!(fixture.tool.parse(&input).is_err(), "{input} was accepted");
    }
}

/// A tool comes with what a model must read of it.
pub async fn some_results_are_known(fixture: ToolFixture) {
    assert!(
        !fixture.results.is_empty(),
        "of `{}` no result is known",
        fixture.name()
    );
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_list_of_cases_is_that_of_the_macro() {
        let this = include_str!("tool_style.rs");
        for case in super::CASES {
            assert_eq!(
                this.matches(&format!("            {case},\n")).count(),
                1,
                "{case}"
            );
            assert!(this.contains(&format!("pub async fn {case}(")), "{case}");
        }
    }
}
