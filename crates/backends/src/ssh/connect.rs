//! The other machine as a place for the helper: how it is started there, and what it means that it
//! was not.

use std::{fmt::Display, time::Duration};

use haft_contract::future::BoxFuture;
use haft_sandbox::helper::Helper;

use super::{
    diagnose::{diagnose, helper_is_missing, is_silent},
    options::SshOptions,
    program::{ConnectionPurpose, launch},
    upload,
};
use crate::{
    client_program::{ClientEnd, Digest, HelperPlace, Launch},
    remote::ConnectError,
};

/// How long logging in and starting the helper may take after the machine is reached.
const LOGIN_LIMIT: Duration = Duration::from_secs(30);

/// The account on the other machine.
pub(super) struct SshPlace(pub(super) SshOptions);

impl HelperPlace for SshPlace {
    fn name(&self) -> &dyn Display {
        &self.0.destination
    }

    fn helper(&self) -> &Helper {
        &self.0.helper
    }

    fn limit(&self) -> (Duration, &'static str) {
        (self.0.connect_timeout + LOGIN_LIMIT, "ssh.connect_timeout")
    }

    fn serve(&self, digest: &Digest) -> Result<Launch<'_>, ConnectError> {
        launch(&self.0, ConnectionPurpose::Serve(digest))
    }

    fn upload<'a>(
        &'a self,
        digest: &'a Digest,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<(), ConnectError>> {
        Box::pin(upload::upload(&self.0, digest, bytes))
    }

    fn judge(&self, code: Option<i32>, said: &str) -> ClientEnd {
        if helper_is_missing(code) && !said.contains("required file not found") {
            ClientEnd::Missing
        } else if is_silent(code, said) {
            ClientEnd::Silent
        } else {
            ClientEnd::Failed
        }
    }

    fn diagnose(&self, code: Option<i32>, said: &str) -> ConnectError {
        diagnose(&self.0.destination, code, said)
    }
}
