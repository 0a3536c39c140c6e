//! A container as a place for the helper: how it is started there, and what it means that it was
//! not.

use std::{fmt::Display, time::Duration};

use haft_contract::future::BoxFuture;
use haft_sandbox::helper::Helper;

use super::{
    diagnose::{diagnose, helper_is_missing},
    options::ContainerOptions,
    program::{ConnectionPurpose, launch},
    upload,
};
use crate::{
    client_program::{ClientEnd, Digest, HelperPlace, Launch},
    remote::ConnectError,
};

/// The container.
pub(super) struct ContainerPlace(pub(super) ContainerOptions);

impl HelperPlace for ContainerPlace {
    fn name(&self) -> &dyn Display {
        &self.0.container
    }

    fn helper(&self) -> &Helper {
        &self.0.helper
    }

    fn limit(&self) -> (Duration, &'static str) {
        (self.0.connect_timeout, "docker.connect_timeout")
    }

    fn serve(&self, digest: &Digest) -> Result<Launch<'_>, ConnectError> {
        launch(&self.0, ConnectionPurpose::Serve(digest))
    }

    fn upload<'a>(
        &'a self,
        _digest: &'a Digest,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<(), ConnectError>> {
        Box::pin(upload::upload(&self.0, bytes))
    }

    fn judge(&self, code: Option<i32>, said: &str) -> ClientEnd {
        if helper_is_missing(code, said) {
            ClientEnd::Missing
        } else {
            ClientEnd::Failed
        }
    }

    fn diagnose(&self, code: Option<i32>, said: &str) -> ConnectError {
        diagnose(&self.0, code, said)
    }
}
