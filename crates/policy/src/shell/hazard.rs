//! Words that make a program that looks harmless run or write something else: `git -c`,
//! `find -delete`, `sort -o`, `rg --pre`, `awk` programs that call `system`.
//!
//! A rule that allows by wildcard does not cover such a word, wherever the command runs; it must be
//! written out in the rule. The list cannot be complete and need not be: what the preset allows by
//! itself, and what a star matches without a sandbox, is an allow list, in `commands.toml`
//! (`star.rs`).

use std::{collections::HashMap, sync::LazyLock};

use super::{
    star::subcommand_place,
    word::{Value, Word},
};

/// A word that does more than it seems to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hazard {
    /// Its index among the words.
    pub(crate) place: usize,
    /// As written.
    pub(crate) word: String,
    /// Whether its effect is known and judged.
    pub(crate) accounted: bool,
}

/// Programs and their hazards. `-x` means the letter in any cluster, `-word` that option alone,
/// `--word` it and every abbreviation, `=word` an operand, `+` and `@` every word that starts with
/// it, `.` one that starts with it and is not a path, `<text` every word that starts with the text,
/// `~text` every word that contains it, `!` the program itself. `^` before one limits it to words
/// before the first operand, `name:` to commands with that operand.
const HAZARDS: &[(&str, &str)] = &[
    (
        "git",
        "^-c --config-env --exec-path --upload-pack --receive-pack --exec grep:-O \
         --open-files-in-pager --output --ext-diff --textconv --contents rebase:-x --template \
         ^--git-dir ^--work-tree clone:-c clone:--config clone:-u fetch:-u ls-remote:-u \
         ^=bisect =foreach ^=difftool ^=mergetool ^=filter-branch ^=config ^=hook ^=credential ^=instaweb \
         ^=send-email ^=daemon ^=alias ^=remote-ext ^=remote-fd ^=merge-index ^=merge-one-file \
         ^=imap-send ^=web--browse ^=shell ^=upload-pack ^=receive-pack ~ext:: ~fd::",
    ),
    ("rg", "--pre --pre-glob --hostname-bin -z --search-zip"),
    (
        "find",
        "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls",
    ),
    ("fd fdfind", "-x -X --exec --exec-batch"),
    (
        "tar bsdtar",
        "--to-command --checkpoint-action -I --use-compress-program --rsh-command --rmt-command -F \
         --info-script --new-volume-script",
    ),
    (
        "sort",
        "-o --output --compress-program -T --temporary-directory",
    ),
    ("sed gsed", "-i --in-place -f --file"),
    (
        "awk gawk mawk nawk original-awk",
        "-f --file -i --include -l --load -E --exec -o -p -d --pretty-print --profile --dump-variables --debug",
    ),
    ("parallel watch entr npx uvx pipx", "!"),
    (
        "sh bash dash zsh ksh mksh ash fish csh tcsh",
        "-c -s -o --rcfile --init-file",
    ),
    ("python python2 python3 pypy pypy3", "-c -m -i -X"),
    ("perl", "-e -E -i -n -p -M -m -I -x"),
    ("ruby", "-e -r -I -n -p -i"),
    (
        "node nodejs bun deno",
        "-e --eval -p --print -r --require --import --loader ^=eval ^=run",
    ),
    ("php", "-r -B -R -F -E -d"),
    ("lua luajit", "-e -l"),
    ("ssh", "-o -F -J -S -L -R -D -w -I -E -A"),
    ("scp sftp", "-S -o -F -D -s"),
    (
        "rsync",
        "-e --rsh --rsync-path --log-file --write-batch --only-write-batch --daemon --files-from",
    ),
    (
        "curl",
        "-K --config -o -O --output --remote-name -J -T --upload-file -c --cookie-jar -D \
              --dump-header --trace --trace-ascii --libcurl --engine --stderr -w --write-out --etag-save --hsts --alt-svc",
    ),
    (
        "wget",
        "--use-askpass -O --output-document -o --output-file -a --append-output -e --execute \
              -i --input-file --config -P --directory-prefix",
    ),
    ("zip", "-T -TT --unzip-command"),
    ("split", "--filter"),
    ("install", "--strip-program"),
    ("jobs", "-x"),
    ("nm", "--plugin"),
    ("dc", "-e --expression"),
    ("patch", "-e --ed -o --output"),
    ("vi vim nvim view ex vimdiff gvim", "-c --cmd -S -s -u -U +"),
    ("emacs", "--eval -l --load -f --funcall"),
    (
        "less more most",
        "+ -k -o -O --lesskey-file --log-file --LOG-FILE --lesskey-src --lesskey-content",
    ),
    ("man", "-P --pager -H --html -C --config-file"),
    (
        "gdb lldb",
        "-ex =-x -iex -ix -eval-command -command -init-eval-command -init-command --command --eval-command --args =-o =-O =-s =-S",
    ),
    (
        "make gmake",
        "-f --file --makefile --eval -C --directory -E -I --include-dir ~=",
    ),
    (
        "gcc g++ cc c++ clang clang++ cpp tcc",
        "@ <-B <-o ~-fplugin ~-specs ~-wrapper",
    ),
    ("ld", "@ =-o -plugin --plugin --dynamic-linker"),
    ("date", "-f --file -s --set"),
    ("file", "-m --magic-file -C --compile -z -Z --uncompress"),
    ("openssl", "-engine -config -provider -out"),
    (
        "psql",
        "-c --command -f --file -o --output -L --log-file ~\\!",
    ),
    (
        "sqlite3 sqlite",
        "-cmd -init . ~.shell ~.system ~.output ~.once ~.read ~.load ~load_extension ~writefile ~edit(",
    ),
    (
        "mysql mariadb",
        "-e --execute --tee --pager --plugin-dir --defaults-file ~\\!",
    ),
    (
        "ffmpeg ffprobe ffplay",
        "~concat: ~subfile -filter_script -filter_complex_script ~pipe: ~http",
    ),
    (
        "jq",
        "~env ~$ENV -f --from-file -L ~include ~import ~input_filename",
    ),
    ("tree", "-o"),
    ("diff", "-l --paginate"),
    ("cargo", "--config -Z -C --manifest-path +"),
    ("rustc", "-C --codegen =-o -Z @"),
    (
        "npm pnpm yarn",
        "^=exec ^=x ^=dlx --prefix -C --script-shell --node-options --shell",
    ),
    (
        "go",
        "-exec --exec -toolexec --toolexec -vettool --vettool -overlay -modfile =-o ^=generate ^=tool",
    ),
    ("env", "-S --split-string"),
    (
        "docker podman",
        "-v --volume --mount --privileged --device --pid --net --network --userns",
    ),
    ("gpg", "-o --output --exec-path --photo-viewer"),
    ("strace ltrace", "-o --output"),
    ("dd", "~of="),
    ("printf test [", "-v"),
    ("mapfile readarray", "-C -c"),
    ("crontab at batch systemd-run", "!"),
    ("sudo doas su pkexec runuser", "!"),
    ("unshare nsenter chroot setpriv capsh script", "!"),
    ("screen tmux", "!"),
];

/// The lists of [`HAZARDS`] by program: every command of a script is looked up.
static BY_PROGRAM: LazyLock<HashMap<&'static str, Vec<&'static str>>> = LazyLock::new(|| {
    let mut lists: HashMap<&str, Vec<&str>> = HashMap::new();
    for (programs, list) in HAZARDS {
        for program in programs.split(' ') {
            lists.entry(program).or_default().push(*list);
        }
    }
    lists
});

/// The hazards among the words of a program.
pub(super) fn hazards(program: &str, words: &[Word]) -> Vec<Hazard> {
    let mut found = Vec::new();
    for list in BY_PROGRAM.get(program).into_iter().flatten().copied() {
        let first = subcommand_place(program, words);
        // For find, it only ends the three options before the paths.
        let ended = words.iter().position(|word| word.text() == Some("--"));
        let ended = ended.filter(|_| program != "find");
        for (place, word) in words.iter().enumerate() {
            let hazardous = match &word.value {
                _ if place == 0 => list == "!",
                // After `--` nothing is an option.
                Value::Literal(text) if ended.is_some_and(|end| place > end) => list
                    .split_ascii_whitespace()
                    .filter(|hazard| hazard.starts_with(['=', '~', '@', '.', '<']))
                    .any(|hazard| is_hazard(hazard, text)),
                Value::Literal(text) => list
                    .split_ascii_whitespace()
                    .filter_map(|hazard| in_place(hazard, words, place <= first))
                    .any(|hazard| is_hazard(hazard, text)),
                // Its value is unknown, and could be any of these.
                Value::Glob(_) | Value::Given | Value::Unknown => word.may_be_option(),
            };
            if hazardous {
                found.push(Hazard {
                    place,
                    word: word.shown().to_owned(),
                    accounted: false,
                });
            }
        }
    }
    let language = match program {
        "sed" | "gsed" => Some(Language::Sed),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => Some(Language::Awk),
        _ => None,
    };
    for place in language.map_or_else(Vec::new, |language| language.doubts(words)) {
        found.push(Hazard {
            place,
            word: words.get(place).map(Word::shown).unwrap_or_default().into(),
            accounted: false,
        });
    }
    found
}

/// The hazard without its limits, if it applies here.
fn in_place<'h>(hazard: &'h str, words: &[Word], leading: bool) -> Option<&'h str> {
    if let Some(hazard) = hazard.strip_prefix('^') {
        return leading.then_some(hazard);
    }
    match hazard.split_once(":-") {
        Some((name, _)) if hazard.starts_with(|c: char| c.is_ascii_lowercase()) => words
            .iter()
            .any(|word| word.shown() == name)
            .then(|| hazard.get(name.len() + 1..))
            .flatten(),
        Some(_) | None => Some(hazard),
    }
}

fn is_hazard(hazard: &str, text: &str) -> bool {
    if let Some(name) = hazard.strip_prefix("--") {
        let Some(given) = text.strip_prefix("--") else {
            return false;
        };
        let given = given.split_once('=').map_or(given, |(given, _)| given);
        return !given.is_empty() && name.starts_with(given);
    }
    if let Some(name) = hazard.strip_prefix('-') {
        let Some(given) = text.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else {
            return false;
        };
        return match name.chars().count() {
            1 => given.contains(name),
            _ => {
                given == name
                    || given
                        .strip_prefix(name)
                        .is_some_and(|rest| rest.starts_with('='))
            }
        };
    }
    match hazard.split_at_checked(1) {
        Some(("=", operand)) => text == operand,
        Some(("~", part)) => text.contains(part),
        Some(("<", part)) => text.starts_with(part),
        Some(("+" | "@", "")) => text.starts_with(hazard),
        // A command of the program, which may be abbreviated, and not a path.
        Some((".", "")) => {
            text.starts_with('.') && !text.starts_with("./") && !text.starts_with("..")
        }
        Some(_) | None => false,
    }
}

/// A language whose programs appear as words of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Sed,
    Awk,
}

impl Language {
    /// The indexes of programs that may do more than print, and of options that may hold one: what
    /// follows `-e`, and the first operand unless a program was given before it. Not every system
    /// looks for options after the first operand, so an operand before `-e` may be a program too.
    fn doubts(self, words: &[Word]) -> Vec<usize> {
        // What a glob expands to is unknown.
        let doubtful = |place: &usize| {
            let word = words.get(*place);
            word.is_some_and(|word| !word.text().is_some_and(|text| self.is_harmless(text)))
        };
        let mut doubts = Vec::new();
        let (mut given, mut operand, mut ended) = (false, false, false);
        let mut place = 1;
        while let Some(word) = words.get(place) {
            let text = word.shown();
            if ended || !text.starts_with('-') || text == "-" {
                if !given && !operand {
                    doubts.extend(Some(place).filter(doubtful));
                }
                operand = true;
            } else {
                match self.option(text) {
                    Opt::End => ended = true,
                    Opt::Flag => {}
                    Opt::Value => place += 1,
                    Opt::Program => {
                        given = true;
                        place += 1;
                        doubts.extend(Some(place).filter(doubtful));
                    }
                    Opt::Odd => doubts.push(place),
                }
            }
            place += 1;
        }
        doubts
    }

    fn is_harmless(self, program: &str) -> bool {
        match self {
            Self::Sed => harmless_sed(program),
            Self::Awk => harmless_awk(program),
        }
    }

    fn option(self, text: &str) -> Opt {
        let long = text.starts_with("--");
        match (self, text) {
            (_, "--") => Opt::End,
            (_, "-e") | (Self::Sed, "--expression") | (Self::Awk, "--source") => Opt::Program,
            (Self::Sed, "-l") | (Self::Awk, "-F" | "-v") => Opt::Value,
            // `-ne program`: flags of one letter, and `e` at the end.
            (Self::Sed, _) if !long && text.ends_with('e') => {
                let flags = text.get(1..text.len() - 1).unwrap_or_default();
                let known = flags.chars().all(|flag| "nErsuz".contains(flag));
                if known { Opt::Program } else { Opt::Odd }
            }
            (Self::Awk, _) if text.starts_with("-F") || text.starts_with("-v") => Opt::Flag,
            // Programs attached to their option, abbreviated names, and what hides among letters.
            (_, _) if text.starts_with("--e") || text.starts_with("--s") => Opt::Odd,
            (Self::Awk, _) if text.starts_with("-W") => Opt::Odd,
            (_, _) if !long && text.contains(['e', 'f']) => Opt::Odd,
            (_, _) => Opt::Flag,
        }
    }
}

/// What an option of `sed` or `awk` does with the words after it.
enum Opt {
    /// No options follow.
    End,
    /// It affects nothing.
    Flag,
    /// The next word is its value.
    Value,
    /// The next word is a program.
    Program,
    /// It may hold a program.
    Odd,
}

/// Addresses with `p`, `d`, `q` or `=`, and substitutions without `e` and `w`. Anything else could
/// be a command that runs or writes. Parsed from left to right as `sed` does: where a command ends
/// depends on what precedes it.
pub(super) fn harmless_sed(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ';', '\n']);
        if rest.is_empty() {
            return true;
        }
        let Some(after) = after_sed_addresses(rest).and_then(after_sed_command) else {
            return false;
        };
        // Only the end of the command may follow it.
        rest = after.trim_start_matches([' ', '\t']);
        if !rest.is_empty() && !rest.starts_with([';', '\n']) {
            return false;
        }
    }
}

/// What follows the addresses of a command: numbers, `$` and `/text/` with a text whose end is
/// unambiguous.
fn after_sed_addresses(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || ",$+~! ".contains(c));
        let Some(pattern) = rest.strip_prefix('/') else {
            return Some(rest);
        };
        let (pattern, after) = pattern.split_once('/')?;
        if pattern.contains(['\\', '[', ']', ';', '\n']) {
            return None;
        }
        rest = after;
    }
}

/// What follows a command that only prints, deletes, ends or replaces.
fn after_sed_command(text: &str) -> Option<&str> {
    let mut characters = text.chars();
    match characters.next()? {
        'p' | 'd' | 'q' | '=' => Some(characters.as_str()),
        's' => after_substitution(characters.as_str()),
        _ => None,
    }
}

fn after_substitution(text: &str) -> Option<&str> {
    let mut characters = text.chars();
    let delimiter = characters.next()?;
    if !delimiter.is_ascii_punctuation() || matches!(delimiter, '\\' | '[' | ']' | ';') {
        return None;
    }
    let (pattern, rest) = characters.as_str().split_once(delimiter)?;
    let (replacement, rest) = rest.split_once(delimiter)?;
    let special = |text: &str| text.contains(['\\', '[', '\n']);
    if special(pattern) || special(replacement) {
        return None;
    }
    let flag = |c: char| c.is_ascii_digit() || "gpiI".contains(c);
    Some(rest.trim_start_matches(flag))
}

/// No redirection, pipe, `system`, `getline`, indirect call, extension or environment.
pub(super) fn harmless_awk(program: &str) -> bool {
    const NEVER: [&str; 8] = [
        "system", "getline", "ENVIRON", "PROCINFO", "close", "fflush", "ARGV", "include",
    ];
    !program.contains(['|', '>', '<', '@', '`', '\\'])
        && NEVER.iter().all(|word| !program.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Word> {
        text.split(' ').map(Word::bare).collect()
    }

    #[test]
    fn hazards_are_found_in_every_spelling() {
        for (program, text) in [
            ("sort", "sort -oP"),
            ("sort", "sort -S1k -noP"),
            ("sort", "sort --compress-prog=x f"),
            ("sort", "sort --out f"),
            ("git", "git -c core.fsmonitor=x status"),
            ("git", "git log --output=f"),
            ("git", "git fetch --upload-pa=x"),
            ("find", "find . -delete"),
            ("tar", "tar --to-com=x -xf a"),
            ("rg", "rg --pre x y"),
            ("python3", "python3 -c x"),
            ("git", "git log *"),
            ("sed", "sed 1e f"),
            ("awk", "awk system() f"),
            ("sed", "sed -n -e p -ne 1e f"),
            ("sed", "sed -e p -Ee 1e f"),
            ("sed", "sed -e p -ne1e f"),
            ("sed", "sed -e p -nEf x f"),
            ("sed", "sed -e p --expr 1e f"),
            ("sed", "sed -- 1e -e p"),
            ("sed", "sed 1e -e p"),
            ("sed", "sed p* f"),
            ("awk", "awk -e 1 -Oe system() f"),
            ("awk", "awk -e 1 --sour system() f"),
            ("awk", "awk system() -e 1"),
        ] {
            assert!(!hazards(program, &words(text)).is_empty(), "{text}");
        }
    }

    #[test]
    fn ordinary_words_are_none() {
        for (program, text) in [
            ("sort", "sort -nr f"),
            ("git", "git log --oneline"),
            ("git", "git push origin main"),
            ("find", "find . -name x"),
            ("rg", "rg -n x src"),
            ("sed", "sed -n 1,5p f"),
            ("sed", "sed -ne 1,5p f"),
            ("sed", "sed -n -e 5p -e 7p -- f"),
            ("awk", "awk -F: -v n=1 {print} f"),
            ("awk", "awk {print} f"),
        ] {
            assert_eq!(hazards(program, &words(text)), [], "{text}");
        }
    }

    #[test]
    fn sed_and_awk_programs_that_only_print() {
        for script in [
            "1,5p",
            "$p",
            "10q",
            "s/a/b/g",
            "/x/p",
            "5d",
            "1p;3p",
            "/^#/d",
            "/a/,/b/p",
            "$!d",
            "s/a;b/c/;5q",
            "1,3 p",
        ] {
            assert!(harmless_sed(script), "{script}");
        }
        for script in [
            "1e id",
            "w f",
            "s/a/b/e",
            "s/a/b/w f",
            "r f",
            "1{p;e",
            "s/a/b/gw f",
            "/x/w f",
            "/[/p;s]/e touch P #]r]",
            "/[/p;s]/w evil]r]",
            "/a;b/p",
            r"/a\/p;s/w evil/p",
            "s[a[b[",
            "5q1",
            "p}",
            "/x/I{p}",
            "p;p w f",
            "s/a/b/;e",
        ] {
            assert!(!harmless_sed(script), "{script}");
        }
        for program in ["{print $1}", "NR==2", "/x/ {n++} END {print n}"] {
            assert!(harmless_awk(program), "{program}");
        }
        for program in [
            "BEGIN{system(\"id\")}",
            "{print > \"f\"}",
            "{\"id\"|getline}",
        ] {
            assert!(!harmless_awk(program), "{program}");
        }
    }
}
