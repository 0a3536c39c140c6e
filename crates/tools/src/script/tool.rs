//! A script as a tool.
//!
//! The program that runs is the one that was trusted: its SHA-256 is pinned, and the back end
//! checks the very file it executes. The script gets exactly the input that was planned, and its
//! secrets beside it on standard input: never in its environment, which whatever it starts would
//! inherit.

use std::{fmt, sync::Arc};

use haft_contract::{
    Access, BoxFuture, CallContext, ErrorKind, NoProgress, Plan, PlanContext, ToolError, ToolName,
    ToolSpec, WorkPath,
    access::Command,
    erased::{ErasedTool, ParsedInput, ToolReply, WithheldReason},
    ops::{ExitStatus, Input, Spawn},
    secret::{ReadSecret, Secret},
    spec::Requirement,
};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    manifest::{ACTION, ManifestError, SECRETS, ScriptHosts, ScriptManifest},
    output::ScriptOutput,
    redact::SecretForms,
};
use crate::process::follow::{FollowEnd, failure, follow};

/// A script found in a trusted folder.
#[derive(Debug, Clone)]
pub struct ScriptSource {
    /// The text of its manifest.
    pub manifest_text: String,
    /// The program's absolute path on the back end.
    pub program_path: String,
    /// The SHA-256 of the program when it was trusted.
    pub sha256: [u8; 32],
}

/// A tool that runs a script.
#[derive(Clone)]
pub struct ScriptTool {
    name: ToolName,
    manifest: ScriptManifest,
    program_path: String,
    sha256: [u8; 32],
    /// Of the program and its manifest together: what a script may use is in the manifest.
    digest: [u8; 32],
    secrets: Option<Arc<dyn ReadSecret>>,
    /// The programs that it starts.
    programs: Vec<String>,
}

impl fmt::Debug for ScriptTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptTool")
            .field("name", &self.name)
            .field("program_path", &self.program_path)
            .finish_non_exhaustive()
    }
}

impl ScriptTool {
    /// A tool named by its manifest.
    pub fn new(source: ScriptSource) -> Result<Self, ManifestError> {
        let manifest = ScriptManifest::parse(&source.manifest_text)?;
        let digest = Sha256::new()
            .chain_update(source.sha256)
            .chain_update(Sha256::digest(&source.manifest_text));
        Ok(Self {
            digest: digest.finalize().into(),
            name: manifest.name.clone(),
            programs: manifest.needs.clone(),
            manifest,
            program_path: source.program_path,
            sha256: source.sha256,
            secrets: None,
        })
    }

    /// The same tool under a configured name. Its other names stay with the name in its manifest.
    #[must_use]
    pub fn named(mut self, name: ToolName) -> Self {
        if self.name != name {
            self.manifest.aliases.clear();
        }
        self.name = name;
        self
    }

    /// Reads the secrets that its manifest refers to from here. Without this, a script whose
    /// manifest names secrets does not run.
    #[must_use]
    pub fn secrets(mut self, secrets: Arc<dyn ReadSecret>) -> Self {
        self.secrets = Some(secrets);
        self
    }

    /// What its manifest says.
    pub fn manifest(&self) -> &ScriptManifest {
        &self.manifest
    }

    /// The same tool, which also needs this program: the interpreter that its first line names.
    #[must_use]
    pub fn run_by(mut self, interpreter: Option<String>) -> Self {
        self.programs.extend(interpreter);
        self
    }

    /// The tool as a registry object.
    pub fn erased(self) -> Arc<dyn ErasedTool> {
        Arc::new(self)
    }

    fn argv(&self) -> Vec<String> {
        vec![self.program_path.clone()]
    }

    /// The secrets it gets, by name. Read when a call runs, so that a new value counts at once.
    async fn read_secrets(&self) -> Result<Vec<(String, Secret)>, ToolError> {
        let unavailable = |name: &str, why: &str| {
            let message = format!("the script's secret `{name}` is not available: {why}");
            ToolError::new(ErrorKind::Unavailable, message)
                .hint("the operator puts it where the script's manifest says")
        };
        let mut read = Vec::new();
        for (name, reference) in &self.manifest.secrets {
            let Some(secrets) = &self.secrets else {
                return Err(unavailable(name, "nothing here gives secrets to scripts"));
            };
            let secret = secrets.read(reference).await;
            read.push((name.clone(), secret.map_err(|why| unavailable(name, &why))?));
        }
        Ok(read)
    }

    async fn execute(
        &self,
        input: Value,
        cx: CallContext<NoProgress>,
    ) -> Result<ToolReply, ToolError> {
        let secrets = self.read_secrets().await?;
        let forms = SecretForms::of(secrets.iter().map(|(_, secret)| secret));
        let command = Command::Argv(self.argv());
        let mut spawn = Spawn::new(command, WorkPath::root(), cx.tier());
        spawn.input = Input::Bytes(standard_input(input, &secrets)?);
        spawn.progress_channel = true;
        spawn.pinned = Some(self.sha256);
        if let ScriptHosts::Own(_) = &self.manifest.hosts {
            spawn.hosts_named_in = Some("`hosts` in the script's manifest".to_owned());
        }
        let mut process = cx.processes().spawn(spawn).await?;
        let mut output = ScriptOutput::new(&cx, forms);
        let end = follow(&mut *process, cx.cancel(), &mut output).await;
        let printed = output.finish().await;
        let exit = match end? {
            FollowEnd::Stopped(error) => return Err(error),
            FollowEnd::Ended(exit) => exit,
        };
        match (failure("the script", &exit), exit.status) {
            (None, _) => Ok(printed.reply()),
            (Some(error), ExitStatus::Code(code)) => {
                Err(error.with_structured(json!({ "exit_code": code })))
            }
            (Some(error), ExitStatus::Signal(signal)) => {
                Err(error.with_structured(json!({ "signal": signal })))
            }
        }
    }
}

impl ErasedTool for ScriptTool {
    fn name(&self) -> &ToolName {
        &self.name
    }

    fn spec(&self) -> ToolSpec {
        let manifest = &self.manifest;
        let spec = ToolSpec::new(manifest.title.as_str(), manifest.description.as_str())
            .effects(manifest.effects)
            .deadline(manifest.deadline)
            .groups(&["script"])
            .groups(&manifest.groups)
            .aliases(&manifest.aliases)
            .required_scopes(manifest.required_scopes.iter().cloned())
            .requires([
                Requirement::Commands,
                Requirement::Program(self.program_path.clone()),
            ])
            .requires(self.programs.iter().cloned().map(Requirement::Program));
        let actions = manifest.actions.iter();
        actions.fold(spec, |spec, (name, deadline)| {
            spec.action(name.clone(), *deadline)
        })
    }

    fn input_schema(&self) -> Value {
        self.manifest.input.clone()
    }

    fn output_schema(&self) -> Value {
        let any = || json!({ "description": "what the script printed, if that was JSON" });
        self.manifest.output.clone().unwrap_or_else(any)
    }

    fn program_digest(&self) -> Option<[u8; 32]> {
        Some(self.digest)
    }

    fn withheld(&self) -> Option<WithheldReason> {
        None
    }

    fn parse(&self, input: &Value) -> Result<ParsedInput, ToolError> {
        if !self.manifest.secrets.is_empty() && input.get(SECRETS).is_some() {
            let message = format!("`{SECRETS}` is not an argument of this tool");
            return Err(ToolError::invalid_input(message)
                .at(format!("/{SECRETS}"))
                .hint("leave it out; the script gets its secrets from the operator"));
        }
        Ok(ParsedInput::new(input.clone()))
    }

    fn plan(&self, input: &ParsedInput, _: &PlanContext) -> Result<Plan, ToolError> {
        let input = input.get::<Value>().ok_or_else(foreign_input)?;
        let mut plan =
            Plan::new(self.manifest.effects).access(Access::argv(self.argv(), WorkPath::root()));
        if let ScriptHosts::Own(hosts) = &self.manifest.hosts {
            plan = plan.only_planned_hosts();
            for (host, port) in hosts {
                plan = plan.access(Access::Host {
                    host: host.to_string(),
                    port: *port,
                });
            }
        }
        let action = input.get(ACTION).and_then(Value::as_str);
        match action.filter(|action| self.manifest.actions.contains_key(*action)) {
            Some(action) => Ok(plan.action(action.to_owned())),
            None => Ok(plan),
        }
    }

    fn run(
        &self,
        input: ParsedInput,
        cx: CallContext<NoProgress>,
    ) -> BoxFuture<'_, Result<ToolReply, ToolError>> {
        Box::pin(async move {
            let input = input.take::<Value>().ok_or_else(foreign_input)?;
            self.execute(input, cx).await
        })
    }
}

fn foreign_input() -> ToolError {
    ToolError::new(ErrorKind::Internal, "the input was parsed for another tool")
}

/// What the script reads: its input, and its secrets in the same object.
fn standard_input(mut input: Value, secrets: &[(String, Secret)]) -> Result<Vec<u8>, ToolError> {
    if !secrets.is_empty() {
        let values = secrets
            .iter()
            .map(|(name, secret)| (name.clone(), Value::from(secret.reveal())));
        let object = input.as_object_mut().ok_or_else(foreign_input)?;
        object.insert(
            SECRETS.to_owned(),
            Value::Object(values.collect::<Map<_, _>>()),
        );
    }
    serde_json::to_vec(&input).map_err(|_| foreign_input())
}
