//! A JSON body, read under a cap on bytes and on time, and refused in words that name the field.

use std::time::Instant;

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::{
    gateway::Gateway,
    limits::BODY_WAIT,
    problem::{Problem, ProblemKind},
};

/// A body that was read and understood. `bytes` are what arrived.
pub(crate) struct JsonBody<T> {
    pub(crate) value: T,
}

impl<T: DeserializeOwned> FromRequest<Gateway> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, gateway: &Gateway) -> Result<Self, Problem> {
        let is_json = request.headers().get(CONTENT_TYPE).is_some_and(|media| {
            let media = media.to_str().unwrap_or_default();
            let media = media.split(';').next().unwrap_or_default().trim();
            media.eq_ignore_ascii_case("application/json")
        });
        if !is_json {
            return Err(
                Problem::new(ProblemKind::UnsupportedMediaType, "the body has to be JSON")
                    .hint("send `content-type: application/json`"),
            );
        }
        let bytes = read(request, gateway.limits().body_bytes).await?;
        let value = serde_json::from_slice(&bytes)
            .map_err(|error| Problem::new(ProblemKind::BadRequest, error.to_string()))?;
        Ok(Self { value })
    }
}

/// Reads a body under both caps.
pub(crate) async fn read(request: Request, most: usize) -> Result<Bytes, Problem> {
    let began = Instant::now();
    let body = Limited::new(request.into_body(), most);
    match tokio::time::timeout(BODY_WAIT, body.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::new(
            ProblemKind::TooLarge,
            format!("a body has at most {most} bytes"),
        )
        .hint("send less at once")),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a body could not be read");
            Err(Problem::new(
                ProblemKind::BadRequest,
                "the body could not be read",
            ))
        }
        Err(_) => Err(Problem::new(
            ProblemKind::BadRequest,
            format!(
                "the body did not arrive within {} s",
                began.elapsed().as_secs()
            ),
        )),
    }
}
