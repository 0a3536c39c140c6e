//! Questions and answers in the SDK's types.

use rmcp::model::{InputRequest, InputRequests};
use serde_json::json;

use super::{open::UnansweredQuestion, serve_wait::OngoingCall};
use crate::client::{AskError, ClientAbilities};

/// The questions the client must answer. A question that the SDK cannot express is answered with an
/// error at once: the mounted server asked for something the protocol does not have.
pub(super) fn requests(ongoing: &mut OngoingCall, abilities: ClientAbilities) -> InputRequests {
    let mut requests = InputRequests::new();
    for asked in ongoing.unanswered(abilities) {
        match request(&asked) {
            Ok(request) => {
                requests.insert(asked.key, request);
            }
            Err(error) => {
                let message = format!("this is not a `{}`: {error}", asked.kind.method());
                let refused = AskError::Refused {
                    code: rmcp::model::ErrorCode::INVALID_PARAMS.0.into(),
                    message,
                };
                ongoing.answer(&asked.key, &Err(refused));
            }
        }
    }
    requests
}

fn request(asked: &UnansweredQuestion) -> Result<InputRequest, serde_json::Error> {
    let request = json!({"method": asked.kind.method(), "params": asked.parameters});
    serde_json::from_value(request)
}
