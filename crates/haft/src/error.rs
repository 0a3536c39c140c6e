//! Every error that functions of this crate return, and of what it passes on from others, in one
//! place to name them.

#[cfg(feature = "containers")]
pub use haft_backends::container::ContainerNameError;
#[cfg(feature = "ssh")]
pub use haft_backends::ssh::{DestinationError, SshOptionsError};
#[cfg(feature = "sandbox")]
pub use haft_backends::{OpenError as WorkspaceOpenError, remote::ConnectError};
pub use haft_contract::{
    ToolError,
    custom_access::CustomAccessError,
    egress::HostRuleError,
    host::{AnswerError, LedgerError, ReplyError},
    identity::IdentityError,
    label::LabelError,
    name::NameError,
    ops::OpsError,
    path::PathError,
};
#[cfg(feature = "webhook")]
pub use haft_host::WebhookError;
pub use haft_host::{HostError, HostErrorKind};
pub use haft_ledger::{OpenError as RecordOpenError, StoreError, TransferError};
pub use haft_policy::{CompileError, LoadError};
pub use haft_runtime::{BuildError, WorkspaceError, registry::RegistryError};
#[cfg(feature = "sandbox")]
pub use haft_tools::{factory::FactoryError, script::ManifestError};

pub use crate::{model::ShapeError, question::QuestionError};
