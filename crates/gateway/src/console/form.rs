//! A form that somebody sent from one of our pages. Taking it is the only way to change something from the
//! console, and it checks all that says so: the session, where the browser says the page is from, and the
//! token that only our pages know.

use axum::{
    extract::{FromRequest, FromRequestParts as _, Request},
    response::{IntoResponse, Response},
};
use http::header::CONTENT_TYPE;

use super::page::PageProblem;
use crate::{
    Gateway, body,
    identify::session::ConsoleUser,
    problem::{Problem, ProblemKind},
};

/// The most bytes of a form. Rules to try are the largest, and three bytes a character at worst.
const MAX_FORM_BYTES: usize = 1024 * 1024;

/// The most fields of a form.
const MAX_FIELDS: usize = 64;

/// The field with the token.
pub(super) const TOKEN: &str = "token";

/// The fields of a form.
pub(super) struct FormFields(Vec<(String, String)>);

impl FormFields {
    /// The value of a field; empty if it was not sent.
    pub(super) fn text(&self, name: &str) -> &str {
        self.filled(name).unwrap_or_default()
    }

    /// The value of a field that has something in it.
    pub(super) fn filled(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        let value = found.map(|(_, value)| value.as_str());
        value.filter(|value| !value.trim().is_empty())
    }

    /// The values of all fields of this name.
    pub(super) fn all(&self, name: &str) -> Vec<String> {
        let found = self.0.iter().filter(|(known, _)| known == name);
        found.map(|(_, value)| value.clone()).collect()
    }

    /// Reads a body as browsers send forms.
    pub(super) async fn read(request: Request) -> Result<Self, Problem> {
        let media = request.headers().get(CONTENT_TYPE);
        let is_form = media.is_some_and(|media| {
            let media = media.to_str().unwrap_or_default();
            let media = media.split(';').next().unwrap_or_default().trim();
            media.eq_ignore_ascii_case("application/x-www-form-urlencoded")
        });
        if !is_form {
            return Err(Problem::new(
                ProblemKind::UnsupportedMediaType,
                "the body has to be a form",
            ));
        }
        let bytes = body::read(request, MAX_FORM_BYTES).await?;
        let fields: Vec<(String, String)> = url::form_urlencoded::parse(&bytes)
            .take(MAX_FIELDS + 1)
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        if fields.len() > MAX_FIELDS {
            let most = format!("a form has at most {MAX_FIELDS} fields");
            return Err(Problem::new(ProblemKind::BadRequest, most));
        }
        Ok(Self(fields))
    }
}

/// A form of a person who is logged in, sent from a page of theirs.
pub(super) struct ConsoleForm {
    pub(super) user: ConsoleUser,
    pub(super) fields: FormFields,
}

impl FromRequest<Gateway> for ConsoleForm {
    type Rejection = Response;

    async fn from_request(request: Request, gateway: &Gateway) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let user = ConsoleUser::from_request_parts(&mut parts, gateway).await;
        let user = user.map_err(IntoResponse::into_response)?;
        let refused = |problem: Problem| PageProblem::from(problem).into_response();
        let request = Request::from_parts(parts, body);
        let fields = FormFields::read(request).await.map_err(refused)?;
        user.check(fields.text(TOKEN)).map_err(refused)?;
        Ok(Self { user, fields })
    }
}
