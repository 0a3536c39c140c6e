//! The secrets of script tools: read when a script starts, from where its manifest says, and kept out
//! of the record from then on.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use haft_contract::{
    future::BoxFuture,
    secret::{MIN_SECRET_BYTES, ReadSecret, Secret, SecretReference},
};
use haft_ledger::Redactor;

use crate::config::{Settings, secrets::read_secret};

/// Reads the secrets of scripts.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScriptSecrets {
    /// What every command sees. A secret there would be everybody's.
    seen_by_commands: Arc<[PathBuf]>,
    redactor: Arc<OnceLock<Arc<Redactor>>>,
}

impl ScriptSecrets {
    /// For these settings. No secret is handed out before there is a record to keep it out of.
    pub(crate) fn of(settings: &Settings) -> Self {
        let sandbox = &settings.sandbox;
        let shown = sandbox.read_only.iter().chain(&sandbox.writable);
        let places = std::iter::once(&settings.places.workspace).chain(shown);
        let real = |place: &PathBuf| place.canonicalize().ok();
        Self {
            seen_by_commands: places.filter_map(real).collect(),
            redactor: Arc::default(),
        }
    }

    /// For a command that records nothing, so that nothing has to be kept out of a record.
    pub(crate) fn without_record(settings: &Settings) -> Self {
        let secrets = Self::of(settings);
        secrets.keep_out_of(Arc::new(Redactor::new([])));
        secrets
    }

    /// Keeps secrets out of this record.
    pub(crate) fn keep_out_of(&self, redactor: Arc<Redactor>) {
        // Set once, when the one record of a host is opened.
        let _ = self.redactor.set(redactor);
    }

    /// Why a secret could not be handed out, if that is so. Its value stays here.
    pub(crate) fn lacks(&self, reference: &SecretReference) -> Option<String> {
        self.read_now(reference).err()
    }

    fn read_now(&self, reference: &SecretReference) -> Result<Secret, String> {
        if let SecretReference::File(path) = reference {
            self.check_apart(path)?;
        }
        let redactor = self.redactor.get().ok_or("no record is open")?;
        let value = read_secret(reference)?;
        let secret = Secret::new(value).ok_or_else(|| {
            format!(
                "`{reference}` has fewer than {MIN_SECRET_BYTES} bytes, too few to keep it out of the record"
            )
        })?;
        if !redactor.add(secret.reveal()) {
            return Err("there are too many secrets to keep out of the record".to_owned());
        }
        Ok(secret)
    }

    /// Fails if a secret is where every command could read it.
    fn check_apart(&self, path: &Path) -> Result<(), String> {
        // What is not there is reported by whoever reads it.
        let Ok(real) = path.canonicalize() else {
            return Ok(());
        };
        match self
            .seen_by_commands
            .iter()
            .find(|place| real.starts_with(place))
        {
            Some(place) => Err(format!(
                "`{}` is in `{}`, where every command can read it; keep it elsewhere",
                path.display(),
                place.display()
            )),
            None => Ok(()),
        }
    }
}

impl ReadSecret for ScriptSecrets {
    fn read<'a>(&'a self, reference: &'a SecretReference) -> BoxFuture<'a, Result<Secret, String>> {
        Box::pin(async move {
            let (secrets, reference) = (self.clone(), reference.clone());
            let read = tokio::task::spawn_blocking(move || secrets.read_now(&reference));
            read.await
                .unwrap_or_else(|_| Err("it could not be read".to_owned()))
        })
    }
}
