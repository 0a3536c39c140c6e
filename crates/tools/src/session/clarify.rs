//! `clarify`: asks the person the agent works for, and waits for their answer.
//!
//! The answer is what they typed, or that they gave none. It allows nothing, and it is data like any
//! other result.

use haft_contract::{
    CallContext, Content, Effects, ErrorKind, NoProgress, Plan, PlanContext, Tool, ToolError,
    ToolSpec,
    agent_question::{AgentQuestion, PersonReply},
    spec::{ParameterAlias, Requirement},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

const DESCRIPTION: &str = "\
Asks the person you work for one question and waits for the answer, which may take minutes.
Use it where you cannot go on without knowing what they want, not to be allowed something: an answer \
is only text, and calls that need a permission ask for it themselves.";

/// The `clarify` tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClarifyTool;

/// What `clarify` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClarifyInput {
    /// The question, in a few lines.
    pub question: String,
    /// Answers to choose from: 2 to 6, in a few words each.
    #[serde(default)]
    pub options: Vec<String>,
    /// Whether they may answer in other words. True if there are no options.
    #[serde(default)]
    pub allow_other: Option<bool>,
}

/// What `clarify` returns in addition to the text.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ClarifyOutput {
    /// What the person said; null if they gave no answer.
    pub answer: Option<String>,
    /// Which of the options it is, counted from 0; null if it is none.
    pub chosen: Option<usize>,
    /// Who answered.
    pub by: String,
}

impl Tool for ClarifyTool {
    type Input = ClarifyInput;
    type Output = ClarifyOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "clarify";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Ask the person a question", DESCRIPTION)
            .effects(Effects::READ_ONLY)
            .groups(&["session"])
            .requires([Requirement::Person])
            .aliases(&[
                "ask_user",
                "AskUserQuestion",
                "ask_followup_question",
                "request_user_input",
            ])
            .parameter_aliases(&[
                ParameterAlias::new("message", "question"),
                ParameterAlias::new("prompt", "question"),
                ParameterAlias::new("choices", "options"),
            ])
            .reshape(other_agents_question)
    }

    fn plan(&self, input: &ClarifyInput, _: &PlanContext) -> Result<Plan, ToolError> {
        question(input)?;
        Ok(Plan::read_only())
    }

    async fn run(
        &self,
        input: ClarifyInput,
        cx: CallContext<NoProgress>,
    ) -> Result<ClarifyOutput, ToolError> {
        let reply = cx.person().ask(question(&input)?).await?;
        Ok(match reply {
            PersonReply::Said { text, chosen, by } => ClarifyOutput {
                answer: Some(text),
                chosen,
                by,
            },
            PersonReply::Declined { by } => ClarifyOutput {
                answer: None,
                chosen: None,
                by,
            },
        })
    }

    fn render(&self, output: &ClarifyOutput) -> Vec<Content> {
        vec![Content::text(match &output.answer {
            Some(answer) => answer.clone(),
            None => "[the person gave no answer; decide yourself, or ask in your reply]".to_owned(),
        })]
    }
}

fn question(input: &ClarifyInput) -> Result<AgentQuestion, ToolError> {
    AgentQuestion::new(&input.question, &input.options, input.allow_other)
}

/// Accepts the question of other agents' tools: a list of one question, and options with descriptions.
fn other_agents_question(input: &mut Map<String, Value>) -> Result<Vec<String>, ToolError> {
    const DETAILS: [&str; 4] = ["header", "multiSelect", "id", "type"];
    let mut notes = Vec::new();
    if let Some(Value::Array(questions)) = input.get("questions") {
        let [Value::Object(question)] = questions.as_slice() else {
            let message = format!("{} questions are asked at once", questions.len());
            let error = ToolError::new(ErrorKind::InvalidInput, message).at("/questions");
            return Err(error.hint("ask one question in each call"));
        };
        if question.get("multiSelect") == Some(&Value::Bool(true)) {
            let error = ToolError::invalid_input("one answer is taken, not several");
            let error = error.at("/questions/0/multiSelect");
            return Err(error.hint("leave `options` out, and the person can name several"));
        }
        let mut question = question.clone();
        for detail in DETAILS {
            if question.remove(detail).is_some() {
                notes.push(format!("`/questions/0/{detail}` is left out"));
            }
        }
        input.remove("questions");
        input.append(&mut question);
        notes.push("the only one of `questions` is asked".to_owned());
    }
    let options = input.get_mut("options").and_then(Value::as_array_mut);
    for (index, option) in options.into_iter().flatten().enumerate() {
        let label = option.get("label").and_then(Value::as_str);
        if let Some(label) = label.map(str::to_owned) {
            *option = Value::String(label);
            notes.push(format!("`/options/{index}` became its label"));
        }
    }
    Ok(notes)
}
