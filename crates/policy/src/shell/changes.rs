//! Which words name files that programs read and change, from knowledge of the programs: what is
//! copied where, what is removed recursively, which options name an output.

use haft_contract::PathMode;

use super::{options::has, word::Word};

/// Whether a word is this option, including in a cluster or abbreviated.
pub(super) fn is_flag(word: &Word, letter: char, long: &str) -> bool {
    let text = word.shown();
    match text.strip_prefix("--") {
        Some(name) => !name.is_empty() && long.starts_with(name),
        None => text.starts_with('-') && text.contains(letter),
    }
}

/// Programs that copy or move their first operands to the last one.
pub(super) fn copies(program: &str) -> bool {
    matches!(program, "cp" | "mv" | "install" | "ln" | "rsync" | "scp")
}

/// Whether a program touches everything beneath its operands: a link to a directory exposes all of
/// it, and so does the directory under another name.
pub(super) fn works_on_trees(program: &str, words: &[Word]) -> bool {
    let given = |letters: &[char], long: &str| {
        words
            .iter()
            .skip(1)
            .any(|word| letters.iter().any(|letter| is_flag(word, *letter, long)))
    };
    // `-t DIR`: we do not determine which operand is the directory.
    let into = matches!(program, "cp" | "install") && given(&['t'], "target-directory");
    match program {
        "mv" | "ln" => true,
        _ if into => true,
        "rsync" => true,
        "cp" => given(&['r', 'R'], "recursive") || given(&['a'], "archive"),
        "rm" | "scp" => given(&['r', 'R'], "recursive"),
        "chmod" | "chown" | "chgrp" | "chattr" => given(&['R'], "recursive"),
        _ => false,
    }
}

/// Whether this operand is a source and not the target: all but the last.
pub(super) fn is_source(paths: &[(usize, PathMode)], place: usize) -> bool {
    let several = paths.iter().any(|(other, _)| *other != place);
    let last = paths.last().is_some_and(|(last, _)| *last == place);
    !several || !last || paths.iter().all(|(_, mode)| *mode == PathMode::Write)
}

/// The target directories of a copy that options name.
pub(super) fn target_directories<'w>(program: &str, words: &'w [Word]) -> Vec<&'w str> {
    if !copies(program) {
        return Vec::new();
    }
    let attached = |word: &'w Word| {
        let text = word.text()?;
        match text.strip_prefix("--") {
            Some(name) => {
                let (name, value) = name.split_once('=')?;
                ("target-directory".starts_with(name)).then_some(value)
            }
            None => text
                .strip_prefix('-')?
                .split_once('t')
                .map(|(_, value)| value),
        }
    };
    let values = words.iter().skip(1).filter_map(attached);
    values.filter(|value| !value.is_empty()).collect()
}

/// Whether a program selects its files by a pattern that it interprets itself: then no word names
/// them. A pattern for one kind of files (`*.rs`) is taken at face value.
pub(super) fn selects_by_pattern(program: &str, words: &[Word]) -> bool {
    let kind = |glob: &str| {
        let extension = glob.trim_start_matches("**/").strip_prefix("*.");
        extension.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_alphanumeric()))
    };
    let leaves_out = |glob: &str| glob.starts_with('!');
    let mut texts = words.iter().skip(1).filter_map(Word::text).peekable();
    match program {
        "git" => texts.any(|text| {
            let magic = text
                .strip_prefix(":(")
                .and_then(|rest| rest.split_once(')'));
            let odd = magic.is_some_and(|(magic, _)| {
                magic
                    .split(',')
                    .any(|word| !matches!(word, "top" | "literal" | "exclude"))
            });
            let mode = matches!(text, "--icase-pathspecs" | "--glob-pathspecs");
            let glob = !text.starts_with(['-', ':']) && text.contains(['*', '?', '[']);
            // A format, a message or an expression contains blanks or signs.
            let path = !text.contains(|c: char| c.is_whitespace() || "%()^$|+\\{}".contains(c));
            odd || mode || (glob && path && !kind(text))
        }),
        "rg" => {
            while let Some(text) = texts.next() {
                let value = match text {
                    "-g" | "--glob" | "--iglob" => texts.next(),
                    _ => ["--glob=", "--iglob=", "-g"]
                        .iter()
                        .find_map(|option| text.strip_prefix(option)),
                };
                if value.is_some_and(|glob| !kind(glob) && !leaves_out(glob)) {
                    return true;
                }
            }
            false
        }
        _ => false,
    }
}

/// The operands of programs that change files: which words they write, and which they read.
pub(super) fn changes(program: &str, words: &[Word]) -> Option<Vec<(usize, PathMode)>> {
    let operands: Vec<usize> = words
        .iter()
        .enumerate()
        .skip(1)
        .filter(|(_, word)| !word.shown().starts_with('-'))
        .map(|(place, _)| place)
        .collect();
    let all = |mode| {
        operands
            .iter()
            .map(|place| (*place, mode))
            .collect::<Vec<_>>()
    };
    let last_written = || {
        let mut found = all(PathMode::Read);
        if let Some((_, mode)) = found.last_mut() {
            *mode = PathMode::Write;
        }
        found
    };
    let into = words.iter().any(|word| {
        let text = word.shown();
        text.starts_with("-t") || text.starts_with("--t")
    });
    let found = match program {
        "mv" => {
            let mut found = all(PathMode::Read);
            found.extend(all(PathMode::Write));
            found
        }
        "tee" | "touch" | "mkdir" | "rmdir" | "rm" | "unlink" | "shred" | "truncate" | "patch"
        | "mkfifo" | "mknod" | "ex" | "ed" => all(PathMode::Write),
        "chmod" | "chown" | "chgrp" | "setfacl" | "chattr" => {
            all(PathMode::Write).into_iter().skip(1).collect()
        }
        "cp" | "install" | "ln" | "rsync" | "scp" if into => all(PathMode::Write),
        "cp" | "install" | "ln" | "rsync" | "scp" => last_written(),
        "uniq" | "xxd" if operands.len() > 1 => last_written(),
        "sed" | "gsed" if has_letter(words, 'i', "in-place") => all(PathMode::Write),
        "sort" | "curl" | "tree" | "go" => values(words, 'o', "output"),
        _ if has(COMPILERS, program) => values(words, 'o', "output"),
        "wget" => values(words, 'O', "output-document"),
        "git" => values(words, '\0', "output"),
        _ => return None,
    };
    (!found.is_empty()).then_some(found)
}

/// `of=FILE` of `dd` and the like: the text after the sign.
pub(super) fn assignments_of_dd(words: &[Word]) -> Vec<(&str, PathMode)> {
    words
        .iter()
        .filter_map(|word| {
            let text = word.shown();
            let read = text.strip_prefix("if=").map(|path| (path, PathMode::Read));
            read.or_else(|| text.strip_prefix("of=").map(|path| (path, PathMode::Write)))
        })
        .collect()
}

fn has_letter(words: &[Word], letter: char, long: &str) -> bool {
    words.iter().any(|word| {
        let text = word.shown();
        match text.strip_prefix("--") {
            Some(name) => {
                let name = name.split_once('=').map_or(name, |(name, _)| name);
                !name.is_empty() && long.starts_with(name)
            }
            None => text.starts_with('-') && text.contains(letter),
        }
    })
}

/// The words after an option that names an output file.
fn values(words: &[Word], letter: char, long: &str) -> Vec<(usize, PathMode)> {
    let mut found = Vec::new();
    for (place, word) in words.iter().enumerate().skip(1) {
        let text = word.shown();
        let following = match text.strip_prefix("--") {
            Some(name) => !name.is_empty() && !name.contains('=') && long.starts_with(name),
            None => text.starts_with('-') && text.ends_with(letter),
        };
        if following && place + 1 < words.len() {
            found.push((place + 1, PathMode::Write));
        }
    }
    found
}

/// Output files attached to their option: `--output=f`, `-of`.
pub(super) fn attached_outputs(program: &str, words: &[Word]) -> Vec<String> {
    let (letter, long) = match program {
        "sort" | "curl" | "tree" => (Some('o'), "output"),
        _ if has(COMPILERS, program) => (Some('o'), "output"),
        "wget" => (Some('O'), "output-document"),
        "git" => (None, "output"),
        _ => return Vec::new(),
    };
    words
        .iter()
        .skip(1)
        .filter_map(|word| {
            let text = word.shown();
            if let Some(name) = text.strip_prefix("--") {
                let (name, value) = name.split_once('=')?;
                return (!name.is_empty() && long.starts_with(name)).then(|| value.to_owned());
            }
            let cluster = text.strip_prefix('-')?;
            let (before, value) = cluster.split_once(letter?)?;
            // Compilers have no clusters: `-fsyntax-only` writes nothing.
            let clustered = !before.is_empty() && has(COMPILERS, program);
            (!value.is_empty() && !clustered).then(|| value.to_owned())
        })
        .collect()
}

/// The paths in `rev:path`, `:path`, `:0:path` and `-L1,5:path` of Git.
pub(super) fn paths_in_revisions(words: &[Word]) -> Vec<&str> {
    let texts = words.iter().skip(1).map(Word::shown);
    texts
        .filter(|text| !text.starts_with("--"))
        .flat_map(|text| {
            // The path may follow any of the colons.
            let starts = text.match_indices(':').map(|(at, _)| at + 1);
            starts.filter_map(|start| text.get(start..))
        })
        .map(|path| {
            // `:(top)path` and `:/path` are pathspecs.
            let magic = path.strip_prefix('(').and_then(|rest| rest.split_once(')'));
            magic.map_or(path, |(_, path)| path).trim_start_matches('/')
        })
        .filter(|path| !path.is_empty())
        .collect()
}

/// Programs that write their output to the value of `-o`.
pub(super) const COMPILERS: &str = "gcc g++ cc c++ clang clang++ cpp tcc ld as rustc";

/// Whether a file that a program reads, an archive or a patch, names the files it writes.
pub(super) fn writes_what_a_file_names(program: &str, words: &[Word]) -> bool {
    match program {
        "patch" | "unzip" | "cpio" | "7z" | "7za" | "unrar" | "tar" | "bsdtar" => true,
        "git" => words
            .iter()
            .any(|word| matches!(word.shown(), "apply" | "am")),
        _ => false,
    }
}

/// Programs that read more words from `FILE` for a word `@FILE`.
const RESPONSES: &str = "strings readelf nm size objdump objcopy strip ar ranlib addr2line c++filt \
     elfedit ld as gcc g++ cc c++ clang clang++ javac java rustc";

/// Whether a program reads more words from files.
pub(super) fn takes_responses(program: &str) -> bool {
    has(RESPONSES, program)
}

/// The files named by `@FILE`.
pub(super) fn response_files(program: &str, words: &[Word]) -> Vec<String> {
    if !takes_responses(program) {
        return Vec::new();
    }
    let texts = words.iter().skip(1).map(Word::shown);
    texts
        .filter_map(|text| text.strip_prefix('@'))
        .map(str::to_owned)
        .collect()
}
