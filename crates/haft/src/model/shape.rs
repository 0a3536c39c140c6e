//! A model provider's format as a value, for code that serves several.

use serde_json::{Value, json};

use super::{ModelAnswer, ModelCall, anthropic, openai, openai_responses};

/// The format in which a model calls tools and expects their answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// OpenAI's Chat Completions, which most model servers speak.
    OpenAi,
    /// OpenAI's Responses API.
    OpenAiResponses,
    /// Anthropic's Messages API.
    Anthropic,
}

impl Shape {
    /// Reads the tool calls of a model's message, or the part of it that holds them.
    pub fn calls(self, message: &Value) -> Vec<ModelCall> {
        match self {
            Self::OpenAi => openai::calls(message),
            Self::OpenAiResponses => openai_responses::calls(message),
            Self::Anthropic => anthropic::calls(message),
        }
    }

    /// The answer to one call: a message, an item or a block.
    pub fn answer(self, answered: &ModelAnswer) -> Value {
        match self {
            Self::OpenAi => openai::tool_message(answered),
            Self::OpenAiResponses => openai_responses::function_call_output(answered),
            Self::Anthropic => anthropic::tool_result(answered),
        }
    }

    /// What to append to the conversation for these answers: with Anthropic one user message that
    /// holds them all, else one entry for each. Nothing if there are none.
    pub fn messages(self, answered: &[ModelAnswer]) -> Vec<Value> {
        let answers: Vec<Value> = answered.iter().map(|one| self.answer(one)).collect();
        match self {
            Self::Anthropic if !answers.is_empty() => {
                vec![json!({"role": "user", "content": answers})]
            }
            Self::OpenAi | Self::OpenAiResponses | Self::Anthropic => answers,
        }
    }
}
