//! A person who agrees to everything at once: opens the page and brings back where it leads.

use std::error::Error;

use haft_contract::future::BoxFuture;
use haft_mcp::upstream::auth::{LoginError, person::Person};
use reqwest::{Client, header::LOCATION, redirect::Policy};
use url::Url;

/// Such a person.
pub(crate) struct Visitor {
    client: Client,
    redirect: Url,
}

impl Visitor {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        let client = Client::builder().redirect(Policy::none()).build()?;
        let redirect = "http://127.0.0.1:3000/callback".parse()?;
        Ok(Self { client, redirect })
    }

    async fn open(&self, page: &Url) -> Option<Url> {
        let answer = self.client.get(page.clone()).send().await.ok()?;
        let location = answer.headers().get(LOCATION)?.to_str().ok()?;
        page.join(location).ok()
    }
}

impl Person for Visitor {
    fn redirect(&self) -> Url {
        self.redirect.clone()
    }

    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<Url, LoginError>> {
        Box::pin(async move { self.open(page).await.ok_or(LoginError::Cancelled) })
    }
}
