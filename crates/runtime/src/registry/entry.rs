//! One registered tool: everything derived from it, computed once and never changed.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use haft_contract::{
    PlanDigest, Principal, ProviderId, TenantId, ToolKey, ToolSpec,
    erased::{ErasedTool, WithheldReason},
    host::{Policy, ToolFacts, Visibility},
    identity::Scope,
    spec::{Audience, Requirement},
};
use jsonschema::Validator;
use serde_json::{Value, json};

use super::{
    fixed_arguments,
    merged_schema::{self, MergedSchema},
    render::{self, Format, Renderings},
    timeouts::Timeouts,
    work,
};
use crate::{
    digest::digest_of,
    input::{self, PlainParameters},
};

/// The largest input schema a tool may have, in bytes of JSON.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// A tool with its schema, renderings and digest.
pub struct Entry {
    key: ToolKey,
    tool: Arc<dyn ErasedTool>,
    spec: ToolSpec,
    /// As one object, without the arguments that the operator has fixed.
    input_schema: Value,
    /// As the tool wrote it, if that is not the same.
    whole_schema: Option<Value>,
    /// Which properties go together, where the schema cannot say so.
    note: Option<String>,
    output_schema: Value,
    quarantine: Option<String>,
    withheld: Option<WithheldReason>,
    tenant: Option<TenantId>,
    /// Compiling a schema costs more than a hundred validations, so it happens at the first call.
    validator: OnceLock<Result<Validator, String>>,
    plain_parameters: OnceLock<PlainParameters>,
    renderings: OnceLock<Renderings>,
    /// Needed only when a person is asked.
    digest: OnceLock<[u8; 32]>,
}

impl Entry {
    /// Reads everything a tool says about itself.
    pub fn new(provider: &ProviderId, tool: Arc<dyn ErasedTool>) -> Self {
        Self::timed(provider, tool, &Timeouts::new())
    }

    /// The same, with the run times that a host set.
    pub(super) fn timed(
        provider: &ProviderId,
        tool: Arc<dyn ErasedTool>,
        timeouts: &Timeouts,
    ) -> Self {
        let key = ToolKey::new(provider.clone(), tool.name().clone());
        let (mut spec, written) = (tool.spec(), tool.input_schema());
        let ShownSchema {
            schema: mut input_schema,
            note,
            quarantine,
        } = ShownSchema::of(&written, provider);
        let is_merged = input_schema != written;
        timeouts.apply(&key, &mut spec, &mut input_schema);
        let differs = is_merged || !spec.fixed_arguments.is_empty();
        fixed_arguments::leave_out(&mut input_schema, &spec.fixed_arguments);
        Self {
            key,
            spec,
            quarantine,
            note,
            withheld: tool.withheld(),
            tenant: tool.tenant().cloned(),
            output_schema: tool.output_schema(),
            input_schema,
            whole_schema: differs.then_some(written),
            tool,
            validator: OnceLock::new(),
            plain_parameters: OnceLock::new(),
            renderings: OnceLock::new(),
            digest: OnceLock::new(),
        }
    }

    /// Provider and name.
    pub fn key(&self) -> &ToolKey {
        &self.key
    }

    /// The tool itself.
    pub fn tool(&self) -> &Arc<dyn ErasedTool> {
        &self.tool
    }

    /// What the tool says about itself.
    pub fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Whether it is listed at all.
    pub fn is_listed(&self) -> bool {
        self.spec.audience == Audience::Model
    }

    /// JSON Schema of the input, as a caller may write it.
    pub fn input_schema(&self) -> &Value {
        &self.input_schema
    }

    /// JSON Schema of the whole input, which every call is checked against.
    pub(crate) fn whole_schema(&self) -> &Value {
        self.whole_schema.as_ref().unwrap_or(&self.input_schema)
    }

    /// What a model has to know about the input as a whole.
    pub(super) fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// What is wrong with the tool itself, so that no model could ever use it.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.quarantine.as_deref()
    }

    /// JSON Schema of the structured output.
    pub fn output_schema(&self) -> &Value {
        &self.output_schema
    }

    /// What rules can match about it.
    pub fn facts(&self) -> ToolFacts<'_> {
        ToolFacts {
            key: &self.key,
            groups: &self.spec.groups,
            actions: &self.spec.actions,
            effects: self.spec.effects,
            touches: self.spec.touches,
        }
    }

    /// SHA-256 of everything the tool says about itself and, if it runs a separate program, of that
    /// program. An approval binds it.
    pub fn digest(&self) -> [u8; 32] {
        *self.digest.get_or_init(|| self.computed_digest())
    }

    /// A built-in tool is defined by the version of Haft.
    fn computed_digest(&self) -> [u8; 32] {
        let program = self.tool.program_digest();
        let said = json!({
            "haft": env!("CARGO_PKG_VERSION"),
            "tool": self.key.to_string(),
            "title": self.spec.title,
            "description": self.spec.description,
            "effects": self.spec.effects.to_string(),
            "sandbox": self.spec.sandbox.as_str(),
            "groups": self.spec.groups,
            "input": self.whole_schema(),
            "fixed": self.spec.fixed_arguments,
            "output": self.output_schema(),
            "program": program.map(|sha256| PlanDigest(sha256).to_string()),
        });
        digest_of(&said).0
    }

    /// Why a person has to review the tool before it is shown or run.
    pub fn withheld(&self) -> Option<&WithheldReason> {
        self.withheld.as_ref()
    }

    /// Why the tool is not offered: nobody accepted it, or no model could use its schema. One bad
    /// schema never affects the other tools.
    pub fn quarantine(&self) -> Option<&str> {
        if let Some(withheld) = &self.withheld {
            return Some(&withheld.reason);
        }
        if let Some(reason) = &self.quarantine {
            return Some(reason);
        }
        // Known only after the first use; compiling every schema up front would cost seconds.
        match self.validator.get() {
            Some(Err(reason)) => Some(reason),
            Some(Ok(_)) | None => None,
        }
    }

    /// Whether it is a tool of this principal's tenant, or of everybody.
    pub fn is_of_tenant_of(&self, principal: &Principal) -> bool {
        let tenant = self.tenant.as_ref();
        tenant.is_none_or(|tenant| *tenant == principal.tenant)
    }

    /// A scope that the tool needs and a principal does not have.
    pub fn missing_scope(&self, principal: &Principal) -> Option<&Scope> {
        let mut needed = self.spec.required_scopes.iter();
        needed.find(|scope| !principal.scopes.contains(*scope))
    }

    /// Whether it is of no use where nobody can be asked something.
    pub fn needs_person(&self) -> bool {
        self.spec.requires.contains(&Requirement::Person)
    }

    /// Whether a principal is shown the tool: it is for models, not another tenant's, not quarantined,
    /// within their scopes,
    /// of use in their session and not denied for every input.
    pub fn is_shown_to(&self, principal: &Principal, policy: &dyn Policy) -> bool {
        self.is_listed()
            && self.is_of_tenant_of(principal)
            && self.quarantine().is_none()
            && self.missing_scope(principal).is_none()
            && !(self.needs_person() && principal.is_unattended())
            && policy.visibility(principal, &self.facts()) == Visibility::Advertised
    }

    /// The compiled schema of the whole input.
    pub fn validator(&self) -> Result<&Validator, &str> {
        self.validator
            .get_or_init(|| {
                jsonschema::options()
                    .with_draft(jsonschema::Draft::Draft202012)
                    // A linear-time engine, so that a hostile `pattern` cannot stall a call.
                    .with_pattern_options(jsonschema::PatternOptions::regex())
                    .build(self.whole_schema())
                    .map_err(|error| {
                        let why = input::spelt(&error.to_string());
                        format!("its input schema cannot be compiled: {why}")
                    })
            })
            .as_ref()
            .map_err(String::as_str)
    }

    /// What of its schema tells apart inputs that need no closer look.
    pub(crate) fn plain_parameters(&self) -> &PlainParameters {
        self.plain_parameters
            .get_or_init(|| PlainParameters::of(&self.input_schema))
    }

    /// The tool's description in a model provider's format. Always the same value.
    pub fn rendering(&self, format: Format) -> &Value {
        self.renderings
            .get_or_init(|| render::render(self))
            .of(format)
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// An input schema as callers see it.
struct ShownSchema {
    schema: Value,
    note: Option<String>,
    /// Why it cannot be offered to any model.
    quarantine: Option<String>,
}

impl ShownSchema {
    fn of(written: &Value, provider: &ProviderId) -> Self {
        let as_written = |quarantine| Self {
            schema: written.clone(),
            note: None,
            quarantine,
        };
        // A mounted server's schema is what a person reviewed.
        if provider.mounted_server().is_some() || !merged_schema::is_combined(written) {
            return as_written(unusable(written));
        }
        if let Some(reason) = costly(written) {
            return as_written(Some(reason));
        }
        match merged_schema::merged(written) {
            Ok(MergedSchema { schema, note }) => Self {
                quarantine: unusable(&schema),
                schema,
                note,
            },
            // What a provider combined with an object only narrows that object.
            Err(_) if *provider != ProviderId::embedded() && unusable(written).is_none() => {
                as_written(None)
            }
            Err(reason) => as_written(Some(reason)),
        }
    }
}

/// Why a schema cannot be offered to any model.
fn unusable(schema: &Value) -> Option<String> {
    let Some(object) = schema.as_object() else {
        return Some("its input schema is not an object".to_owned());
    };
    match object.get("type") {
        Some(Value::String(kind)) if kind == "object" => {}
        None if object.contains_key("properties") => {}
        Some(_) | None => return Some("its input schema does not describe an object".to_owned()),
    }
    costly(schema).or_else(|| {
        remote_reference(schema).map(|uri| {
            let uri = input::spelt(uri);
            format!("its input schema refers to `{uri}`, outside itself")
        })
    })
}

/// Why looking at a schema, or checking inputs against it, could take too long.
fn costly(schema: &Value) -> Option<String> {
    if !input::fits_in(schema, MAX_SCHEMA_BYTES) {
        return Some(format!(
            "its input schema is larger than {MAX_SCHEMA_BYTES} bytes"
        ));
    }
    work::excessive(schema).map(str::to_owned)
}

/// The first `$ref` that leads out of the schema. References are never fetched.
fn remote_reference(schema: &Value) -> Option<&str> {
    let mut left = vec![schema];
    while let Some(value) = left.pop() {
        match value {
            Value::Object(object) => {
                if let Some(uri) = object.get("$ref").and_then(Value::as_str)
                    && !uri.starts_with('#')
                {
                    return Some(uri);
                }
                left.extend(object.values());
            }
            Value::Array(items) => left.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    None
}
