//! Refs, whether each is a file of its own or a line of `packed-refs`.

use std::collections::BTreeMap;

use haft_sandbox::jail::Jail;
use rustix::{fs::FileType, io::Errno};

use super::file::{self, GitFileLookup};

/// Where packed refs are.
pub(super) const PACKED: &str = ".git/packed-refs";

/// The most bytes of packed refs that are read.
const MAX_PACKED_BYTES: u64 = 4 << 20;

/// The most bytes of a loose ref.
pub(super) const MAX_REF_BYTES: u64 = 4096;

/// The most refs that are read.
const MAX_REFS: usize = 20_000;

/// How deep names of refs may be nested.
const MAX_DEPTH: usize = 32;

/// A ref's value and the mode of the file it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RefValue {
    /// An object id, or `ref: ` and a name.
    pub(super) value: String,
    pub(super) mode: u32,
}

/// Every ref by its path in the workspace; `None` if there are too many to read.
pub(super) fn read_all(jail: &Jail) -> Result<Option<BTreeMap<String, RefValue>>, Errno> {
    let Some(packed) = PackedRefs::read(jail)? else {
        return Ok(None);
    };
    let mut all = packed.values();
    let Some(loose) = files_below(jail, ".git/refs", MAX_REFS)? else {
        return Ok(None);
    };
    for path in loose {
        if let GitFileLookup::File(file) = file::read(jail, &path, MAX_REF_BYTES)?
            && let Some(value) = value_of(&file.bytes)
        {
            let mode = file.mode;
            all.insert(path, RefValue { value, mode });
        }
    }
    Ok((all.len() <= MAX_REFS).then_some(all))
}

/// The paths of all files below a directory, but for locks; `None` if there are more than `most`.
pub(super) fn files_below(
    jail: &Jail,
    root: &str,
    most: usize,
) -> Result<Option<Vec<String>>, Errno> {
    let mut found = Vec::new();
    let mut directories = vec![(root.to_owned(), 0)];
    while let Some((directory, depth)) = directories.pop() {
        for (name, kind) in file::names(jail, &directory)? {
            let path = format!("{directory}/{name}");
            if kind == FileType::Directory && depth < MAX_DEPTH {
                directories.push((path, depth + 1));
            } else if kind == FileType::RegularFile && !has_lock_ending(&name) {
                found.push(path);
            }
        }
        if found.len() > most || directories.len() > most {
            return Ok(None);
        }
    }
    Ok(Some(found))
}

fn has_lock_ending(name: &str) -> bool {
    name.strip_suffix(".lock").is_some()
}

/// The value in a loose ref; `None` if it is not one.
pub(super) fn value_of(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?.trim_end();
    let is_name = text
        .strip_prefix("ref:")
        .is_some_and(|name| !name.trim().is_empty() && !name.contains(char::is_control));
    (is_name || is_object_id(text)).then(|| text.to_owned())
}

/// Whether a text is an object id.
pub(super) fn is_object_id(text: &str) -> bool {
    [40, 64].contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The file `packed-refs`.
pub(super) struct PackedRefs {
    text: String,
    pub(super) mode: u32,
}

impl PackedRefs {
    /// Reads the file; `None` if it is too large or not text.
    pub(super) fn read(jail: &Jail) -> Result<Option<Self>, Errno> {
        Ok(match file::read(jail, PACKED, MAX_PACKED_BYTES)? {
            GitFileLookup::Absent => Some(Self {
                text: String::new(),
                mode: 0o644,
            }),
            GitFileLookup::File(file) => String::from_utf8(file.bytes).ok().map(|text| Self {
                text,
                mode: file.mode,
            }),
            GitFileLookup::Unread(_) => None,
        })
    }

    /// The value of the ref at this path in the workspace.
    pub(super) fn get(&self, path: &str) -> Option<&str> {
        let name = path.strip_prefix(".git/")?;
        let mut refs = self.text.lines().filter_map(packed_line);
        refs.find_map(|(id, found)| (found == name).then_some(id))
    }

    fn values(&self) -> BTreeMap<String, RefValue> {
        let refs = self.text.lines().filter_map(packed_line);
        refs.map(|(id, name)| {
            let (value, mode) = (id.to_owned(), self.mode);
            (format!(".git/{name}"), RefValue { value, mode })
        })
        .collect()
    }

    /// The text without these refs and what belongs to them.
    pub(super) fn without(&self, paths: &[&str]) -> String {
        let mut text = String::with_capacity(self.text.len());
        let mut is_left_out = false;
        for line in self.text.split_inclusive('\n') {
            let is_peeled = line.starts_with('^');
            if !is_peeled {
                let name = packed_line(line.trim_end()).map(|(_, name)| name);
                is_left_out = name.is_some_and(|name| {
                    let mut names = paths.iter().filter_map(|path| path.strip_prefix(".git/"));
                    names.any(|left_out| left_out == name)
                });
            }
            if !is_left_out {
                text.push_str(line);
            }
        }
        text
    }
}

/// The id and the name in a line of `packed-refs`; `None` for other lines.
fn packed_line(line: &str) -> Option<(&str, &str)> {
    let (id, name) = line.split_once(' ')?;
    (is_object_id(id) && name.starts_with("refs/")).then_some((id, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_ref_goes_with_what_belongs_to_it() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let packed = PackedRefs {
            text: format!(
                "# pack-refs with: peeled\n{a} refs/heads/main\n{a} refs/tags/v1\n^{b}\n{b} \
                 refs/tags/v2\n"
            ),
            mode: 0o644,
        };
        assert_eq!(packed.get(".git/refs/tags/v1"), Some(a.as_str()));
        assert_eq!(packed.get(".git/refs/tags/v"), None);
        assert_eq!(
            packed.without(&[".git/refs/tags/v1"]),
            format!("# pack-refs with: peeled\n{a} refs/heads/main\n{b} refs/tags/v2\n")
        );
        assert_eq!(packed.values().len(), 3);
    }

    #[test]
    fn only_ids_and_names_are_values() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(value_of(format!("{id}\n").as_bytes()).as_deref(), Some(id));
        let name = "ref: refs/heads/main";
        assert_eq!(value_of(b"ref: refs/heads/main\n").as_deref(), Some(name));
        for other in [&b"ref: \n"[..], b"0123\n", b"ref: a\nref: b\n", b"\xff"] {
            assert_eq!(value_of(other), None);
        }
    }
}
