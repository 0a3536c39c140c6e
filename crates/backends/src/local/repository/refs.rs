//! Refs, whether each is a file of its own or a line of `packed-refs`.
//!
//! An agent may have written these files, so a ref is taken only under a name that git itself
//! accepts and that has one spelling. Everything else is unread: noticed when it changes, never put
//! back.

use std::collections::{BTreeMap, BTreeSet};

use haft_contract::WorkPath;
use haft_sandbox::jail::Jail;
use rustix::{fs::FileType, io::Errno};

use super::file::{self, GitFileLookup};
use crate::local::walk::shown;

/// Where packed refs are.
pub(super) const PACKED: &str = ".git/packed-refs";

/// The most bytes of packed refs that are read.
const MAX_PACKED_BYTES: u64 = 4 << 20;

/// The most bytes of a loose ref.
pub(super) const MAX_REF_BYTES: u64 = 4096;

/// The most refs that are read.
pub(super) const MAX_REFS: usize = 20_000;

/// How deep names of refs may be nested.
pub(super) const MAX_DEPTH: usize = 32;

/// A ref's value and the mode of the file it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RefValue {
    /// An object id, or `ref: ` and a name.
    pub(super) value: String,
    pub(super) mode: u32,
}

/// What reading all refs found.
pub(super) enum RefsReading {
    All(AllRefs),
    /// There are too many.
    TooMany,
    /// `packed-refs` is too large, or not a file.
    Unread,
}

/// Every ref.
#[derive(Default)]
pub(super) struct AllRefs {
    /// By their paths in the workspace.
    pub(super) values: BTreeMap<String, RefValue>,
    /// What is there and is no ref that could be put back, each with a text that changes when it
    /// does.
    pub(super) unread: BTreeMap<String, String>,
    /// Files that keep git from moving a ref.
    pub(super) locks: BTreeSet<String>,
}

/// Reads every ref.
pub(super) fn read_all(jail: &Jail) -> Result<RefsReading, Errno> {
    let Some(packed) = PackedRefs::read(jail)? else {
        return Ok(RefsReading::Unread);
    };
    let Some(below) = files_below(jail, ".git/refs", MAX_REFS)? else {
        return Ok(RefsReading::TooMany);
    };
    let mut all = packed.all();
    all.locks = below.locks;
    for bytes in below.files {
        let path = shown(&bytes).0;
        let is_named = std::str::from_utf8(&bytes).is_ok()
            && path.strip_prefix(".git/").is_some_and(is_ref_name);
        match file::read(jail, &bytes, MAX_REF_BYTES)? {
            GitFileLookup::File(file) => match value_of(&file.bytes) {
                Some(value) if is_named => {
                    let mode = file.mode;
                    all.unread.remove(&path);
                    all.values.insert(path, RefValue { value, mode });
                }
                _ => {
                    let hash = blake3::hash(&file.bytes).to_hex().to_string();
                    all.unread.insert(path, hash);
                }
            },
            GitFileLookup::Unread(identity) => {
                all.unread.insert(path, identity);
            }
            GitFileLookup::Absent => {}
        }
    }
    let is_within = all.values.len() <= MAX_REFS;
    Ok(if is_within {
        RefsReading::All(all)
    } else {
        RefsReading::TooMany
    })
}

/// The files below a directory.
pub(super) struct FilesBelow {
    /// Their paths, which need not be text.
    pub(super) files: Vec<Vec<u8>>,
    /// Those with the ending of git's locks.
    pub(super) locks: BTreeSet<String>,
}

/// All files below a directory; `None` if there are more than `most`, or too deep ones.
pub(super) fn files_below(
    jail: &Jail,
    root: &str,
    most: usize,
) -> Result<Option<FilesBelow>, Errno> {
    let mut found = FilesBelow {
        files: Vec::new(),
        locks: BTreeSet::new(),
    };
    let mut directories = vec![(root.as_bytes().to_vec(), 0)];
    while let Some((directory, depth)) = directories.pop() {
        for (name, kind) in file::names(jail, &directory)? {
            let path = [&directory, &b"/"[..], &name].concat();
            if kind == FileType::Directory {
                if depth == MAX_DEPTH {
                    return Ok(None);
                }
                directories.push((path, depth + 1));
            } else if is_lock(&name) {
                found.locks.insert(shown(&path).0);
            } else {
                found.files.push(path);
            }
        }
        if [found.files.len(), found.locks.len(), directories.len()]
            .into_iter()
            .any(|count| count > most)
        {
            return Ok(None);
        }
    }
    Ok(Some(found))
}

/// Whether a name has the ending of git's locks.
pub(super) fn is_lock(name: &[u8]) -> bool {
    name.ends_with(b".lock")
}

/// Whether git accepts a name for a ref (`git check-ref-format`), and it has one spelling as a path.
fn is_ref_name(name: &str) -> bool {
    const REFUSED: [char; 8] = [' ', '~', '^', ':', '?', '*', '[', '\\'];
    let is_component = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with('.')
            && !is_lock(part.as_bytes())
    };
    let path = format!(".git/{name}");
    name.starts_with("refs/")
        && name.split('/').all(is_component)
        && !name.contains(|letter: char| letter.is_ascii_control() || REFUSED.contains(&letter))
        && !name.contains("..")
        && !name.contains("@{")
        && WorkPath::relative(&path).is_ok_and(|found| found.as_str() == path)
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
    bytes: Vec<u8>,
    pub(super) mode: u32,
}

/// What `packed-refs` says about one ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PackedValue {
    Id(String),
    /// Several lines have it. Git takes one of them; which one is not known here.
    Ambiguous,
}

impl PackedRefs {
    /// Reads the file; `None` if it is too large or not a file.
    pub(super) fn read(jail: &Jail) -> Result<Option<Self>, Errno> {
        Ok(match file::read(jail, PACKED, MAX_PACKED_BYTES)? {
            GitFileLookup::Absent => Some(Self {
                bytes: Vec::new(),
                mode: 0o644,
            }),
            GitFileLookup::File(file) => Some(Self {
                bytes: file.bytes,
                mode: file.mode,
            }),
            GitFileLookup::Unread(_) => None,
        })
    }

    /// The value of the ref at this path in the workspace.
    pub(super) fn get(&self, path: &str) -> Option<PackedValue> {
        let name = path.strip_prefix(".git/")?;
        let mut ids = self.lines().filter_map(|line| match line {
            PackedLine::Ref { id, name: found } if found == name => Some(id),
            _ => None,
        });
        let id = ids.next()?;
        Some(match ids.next() {
            Some(_) => PackedValue::Ambiguous,
            None => PackedValue::Id(id.to_owned()),
        })
    }

    fn lines(&self) -> impl Iterator<Item = PackedLine<'_>> {
        let lines = self.bytes.split(|byte| *byte == b'\n');
        lines.map(PackedLine::of)
    }

    /// Every ref of the file.
    pub(super) fn all(&self) -> AllRefs {
        let mut all = AllRefs::default();
        let mut strange = blake3::Hasher::new();
        let mut is_strange = false;
        for line in self.lines() {
            match line {
                PackedLine::Ref { id, name } => {
                    let (value, mode) = (id.to_owned(), self.mode);
                    let path = format!(".git/{name}");
                    let earlier = all.values.insert(path.clone(), RefValue { value, mode });
                    if let Some(earlier) = earlier {
                        let both = all.unread.entry(path).or_default();
                        both.push_str(&earlier.value);
                        both.push_str(id);
                    }
                }
                PackedLine::NoRef => {}
                PackedLine::Strange(line) => {
                    is_strange = true;
                    strange.update(line);
                    strange.update(b"\n");
                }
            }
        }
        all.values.retain(|path, _| !all.unread.contains_key(path));
        if is_strange {
            let hash = strange.finalize().to_hex().to_string();
            all.unread.insert(PACKED.to_owned(), hash);
        }
        all
    }

    /// The file without these refs and what belongs to them.
    pub(super) fn without(&self, paths: &[&str]) -> Vec<u8> {
        let mut left = Vec::with_capacity(self.bytes.len());
        let mut is_left_out = false;
        for line in self.bytes.split_inclusive(|byte| *byte == b'\n') {
            if !line.starts_with(b"^") {
                let found = PackedLine::of(line.strip_suffix(b"\n").unwrap_or(line));
                is_left_out = match found {
                    PackedLine::Ref { name, .. } => {
                        let mut names = paths.iter().filter_map(|path| path.strip_prefix(".git/"));
                        names.any(|left_out| left_out == name)
                    }
                    PackedLine::NoRef | PackedLine::Strange(_) => false,
                };
            }
            if !is_left_out {
                left.extend_from_slice(line);
            }
        }
        left
    }
}

/// A line of `packed-refs`.
enum PackedLine<'a> {
    Ref {
        id: &'a str,
        name: &'a str,
    },
    /// The header, the object a tag leads to, or nothing.
    NoRef,
    /// Something else, such as a name that git would refuse.
    Strange(&'a [u8]),
}

impl<'a> PackedLine<'a> {
    fn of(line: &'a [u8]) -> Self {
        if line.is_empty() || line.starts_with(b"#") || line.starts_with(b"^") {
            return Self::NoRef;
        }
        let parts = std::str::from_utf8(line)
            .ok()
            .and_then(|text| text.split_once(' '));
        match parts {
            Some((id, name)) if is_object_id(id) && is_ref_name(name) => Self::Ref { id, name },
            _ => Self::Strange(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(text: &str) -> PackedRefs {
        PackedRefs {
            bytes: text.as_bytes().to_vec(),
            mode: 0o644,
        }
    }

    #[test]
    fn a_packed_ref_goes_with_what_belongs_to_it() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let packed = packed(&format!(
            "# pack-refs with: peeled\n{a} refs/heads/main\n{a} refs/tags/v1\n^{b}\n{b} \
             refs/tags/v2\n"
        ));
        let value = PackedValue::Id(a.clone());
        assert_eq!(packed.get(".git/refs/tags/v1"), Some(value));
        assert_eq!(packed.get(".git/refs/tags/v"), None);
        assert_eq!(
            packed.without(&[".git/refs/tags/v1"]),
            format!("# pack-refs with: peeled\n{a} refs/heads/main\n{b} refs/tags/v2\n").as_bytes()
        );
        assert_eq!(packed.all().values.len(), 3);
        assert!(packed.all().unread.is_empty());
    }

    /// A line that leads elsewhere by its path, or names a ref twice, moves no ref.
    #[test]
    fn a_forged_line_of_packed_refs_is_no_ref() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let forged = packed(&format!(
            "{a} refs/heads/master\n{b} refs/x/../heads/master\n"
        ));
        let all = forged.all();
        assert_eq!(all.values.len(), 1);
        assert_eq!(all.values[".git/refs/heads/master"].value, a);
        assert_eq!(all.unread.keys().collect::<Vec<_>>(), [PACKED]);
        let twice = packed(&format!(
            "{a} refs/heads/master\n{b} refs/heads/master\n{a} refs/heads/x\n"
        ));
        let path = ".git/refs/heads/master";
        assert_eq!(twice.get(path), Some(PackedValue::Ambiguous));
        let all = twice.all();
        assert_eq!(all.values.keys().collect::<Vec<_>>(), [".git/refs/heads/x"]);
        assert_eq!(all.unread.keys().collect::<Vec<_>>(), [path]);
    }

    /// One byte that is not text hides no other ref.
    #[test]
    fn a_line_that_is_not_text_is_unread_alone() {
        let mut bytes = format!("{} refs/heads/a\n", "a".repeat(40)).into_bytes();
        bytes.extend(format!("{} refs/heads/", "b".repeat(40)).into_bytes());
        bytes.extend(b"\xff\n");
        let all = PackedRefs { bytes, mode: 0o644 }.all();
        assert_eq!(all.values.len(), 1);
        assert_eq!(all.unread.keys().collect::<Vec<_>>(), [PACKED]);
    }

    #[test]
    fn names_are_those_that_git_accepts() {
        for name in [
            "refs/heads/main",
            "refs/heads/a/b-c_d",
            "refs/tags/v1.0",
            "refs/heads/ü",
        ] {
            assert!(is_ref_name(name), "{name}");
        }
        for name in [
            "HEAD",
            "refs/",
            "refs/heads/",
            "refs//heads/a",
            "refs/x/../heads/a",
            "refs/heads/a..b",
            "refs/./heads/a",
            "refs/heads/.a",
            "refs/heads/a.",
            "refs/heads/a.lock",
            "refs/heads/a.lock/b",
            "refs/heads/a b",
            "refs/heads/a\r",
            "refs/heads/a~1",
            "refs/heads/a^",
            "refs/heads/a:b",
            "refs/heads/a?",
            "refs/heads/a*",
            "refs/heads/a[",
            "refs/heads/a\\b",
            "refs/heads/a@{1}",
        ] {
            assert!(!is_ref_name(name), "{name}");
        }
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
