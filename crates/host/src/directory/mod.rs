//! A directory of this machine as a workspace. Without the feature `sandbox` it is only a place with a
//! name: its tools are a program's own, and there are no files, no search and no commands in it.

#[cfg(not(feature = "sandbox"))]
mod name_only;
#[cfg(feature = "sandbox")]
mod with_files;

#[cfg(not(feature = "sandbox"))]
pub(crate) use self::name_only::Directory;
#[cfg(not(feature = "sandbox"))]
pub use self::name_only::DirectoryOptions;
#[cfg(feature = "sandbox")]
pub use self::with_files::DirectoryOptions;
#[cfg(feature = "sandbox")]
pub(crate) use self::with_files::{Directory, open};
