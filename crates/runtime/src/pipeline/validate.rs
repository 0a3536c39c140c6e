//! From arguments to an input that fits the tool's schema, in the tool's own type.

use std::{panic::AssertUnwindSafe, sync::Arc};

use haft_contract::{Arguments, CallEvent, ErrorKind, ToolError, erased::ParsedInput};
use serde_json::Value;

use super::{HaltedCall, ResolvedCall, call_state::CallState};
use crate::{
    input::{self, CoercedInput, SchemasOfInput},
    registry::{
        Entry,
        fixed_arguments::{self, WrittenBy},
    },
};

/// A call whose input fits the schema.
pub struct ValidatedCall {
    pub(super) call: Box<CallState>,
    pub(super) entry: Arc<Entry>,
    /// The input as JSON, for the plan and the record.
    pub(super) input: Value,
    /// The same input in the tool's type: the exact value that will run.
    pub(super) parsed: ParsedInput,
    pub(super) rewrites: u8,
}

/// Parses, coerces and checks the arguments.
pub fn validate(resolved: ResolvedCall) -> Result<ValidatedCall, HaltedCall> {
    let ResolvedCall {
        mut call,
        entry,
        arguments,
        rewrites,
    } = resolved;
    match check(&entry, arguments, rewrites) {
        Ok((input, parsed, coerced)) => {
            call.facts.coercions.extend(coerced.changes);
            call.renamed = coerced.renamed;
            call.recording.note(CallEvent::Validated {
                coercions: call.facts.coercions.clone(),
            });
            Ok(ValidatedCall {
                call,
                entry,
                input,
                parsed,
                rewrites,
            })
        }
        Err(error) => Err(call.halt(error)),
    }
}

fn check(
    entry: &Entry,
    arguments: Arguments,
    rewrites: u8,
) -> Result<(Value, ParsedInput, CoercedInput), ToolError> {
    let schema = entry.input_schema();
    let has_parameter = |name: &str| {
        let properties = schema.get("properties");
        properties.is_some_and(|properties| properties.get(name).is_some())
    };
    let mut object = input::parse(arguments, has_parameter)?;
    let coerced = input::coerce(entry.spec(), schema, entry.plain_parameters(), &mut object)?;
    let fixed = &entry.spec().fixed_arguments;
    let by = if rewrites == 0 {
        WrittenBy::Caller
    } else {
        WrittenBy::Hook
    };
    fixed_arguments::add(&mut object, fixed, by)?;
    let input = Value::Object(object);
    let validator = entry
        .validator()
        .map_err(|reason| ToolError::new(ErrorKind::Unavailable, reason.to_owned()))?;
    // Checking for validity is several times cheaper than finding out what is wrong.
    if !validator.is_valid(&input) {
        fixed_arguments::check(validator.iter_errors(&input), fixed)?;
        let schemas = SchemasOfInput {
            shown: schema,
            checked: entry.whole_schema(),
        };
        let complaint = input::complaint(schemas, &coerced.renamed, validator.iter_errors(&input));
        return Err(complaint.unwrap_or_else(|| {
            ToolError::invalid_input("the input does not fit the tool's schema")
        }));
    }
    // The tool's own parser runs foreign code; a panic in it is a failure, not a dead gateway.
    let parsed = std::panic::catch_unwind(AssertUnwindSafe(|| entry.tool().parse(&input)))
        .map_err(|_| ToolError::new(ErrorKind::Internal, "the tool panicked on its input"))??;
    Ok((input, parsed, coerced))
}
