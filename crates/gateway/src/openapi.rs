//! The description of the API (OpenAPI 3.1), made from the code: what every operation has in common is
//! added here, once.

use utoipa::openapi::{
    ContentBuilder, InfoBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder,
    path::Operation,
    schema::Components,
    security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
};

use crate::{api, problem::ProblemBody};

/// The name of the scheme by which programs identify themselves.
const API_KEY: &str = "api_key";

/// Answers that every operation may give.
const PROBLEMS: [(&str, &str); 9] = [
    ("400", "The request cannot be read"),
    ("401", "Nobody knows this credential"),
    ("403", "The credential may not do this"),
    ("404", "There is no such thing, or it is another tenant's"),
    ("408", "The request did not arrive in time"),
    ("429", "Too much at once"),
    ("500", "A fault in Haft"),
    ("503", "Something it needs does not answer"),
    ("default", "A problem"),
];

/// Answers that an operation with a body may give as well.
const BODY_PROBLEMS: [(&str, &str); 4] = [
    ("409", "It does not go with what is there"),
    ("413", "The body is too large"),
    ("415", "The body is not JSON"),
    ("422", "The request does not fit"),
];

/// The description of the API.
pub fn document() -> OpenApi {
    let (_, document) = api::endpoints().split_for_parts();
    finish(document)
}

/// Adds what every operation has in common.
pub(crate) fn finish(mut document: OpenApi) -> OpenApi {
    document.info = InfoBuilder::new()
        .title("Haft")
        .version("1")
        .description(Some(
            "Runs tools for AI agents: every call is planned, decided, recorded and explained. Times are RFC 3339, lists page by cursor, and every answer that is not a success is a problem (RFC 9457).",
        ))
        .build();
    let components = document.components.get_or_insert_with(Components::new);
    let (name, schema) = (
        <ProblemBody as utoipa::ToSchema>::name().into_owned(),
        <ProblemBody as utoipa::PartialSchema>::schema(),
    );
    components.schemas.insert(name.clone(), schema);
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.add_security_scheme(API_KEY, bearer);
    document.security = Some(vec![SecurityRequirement::new(
        API_KEY,
        Vec::<String>::new(),
    )]);
    for (path, item) in &mut document.paths.paths {
        let operations = [
            &mut item.get,
            &mut item.post,
            &mut item.put,
            &mut item.patch,
            &mut item.delete,
        ];
        for operation in operations.into_iter().flatten() {
            add_problems(operation, &name);
            name_after_resource(operation, path);
        }
    }
    document
}

/// Makes the name of an operation its own: handlers of several resources are called `list`.
fn name_after_resource(operation: &mut Operation, path: &str) {
    let resource = path.split('/').nth(2).unwrap_or_default();
    if let Some(handler) = &operation.operation_id {
        operation.operation_id = Some(format!("{resource}_{handler}"));
    }
}

fn add_problems(operation: &mut Operation, schema: &str) {
    let body = operation.request_body.is_some();
    let more = BODY_PROBLEMS.iter().filter(|_| body);
    for (status, description) in PROBLEMS.iter().chain(more) {
        let problem = problem(description, schema);
        let answers = &mut operation.responses.responses;
        answers
            .entry((*status).to_owned())
            .or_insert(RefOr::T(problem));
    }
}

fn problem(description: &str, schema: &str) -> Response {
    let schema = RefOr::Ref(Ref::from_schema_name(schema));
    ResponseBuilder::new()
        .description(description)
        .content(
            "application/problem+json",
            ContentBuilder::new().schema(Some(schema)).build(),
        )
        .build()
}
