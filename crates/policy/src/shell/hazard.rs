//! Words by which a program that looks harmless runs or writes something else: `git -c`,
//! `find -delete`, `sort -o`, `rg --pre`, `awk` programs that call `system`.
//!
//! A rule that allows by wildcard does not cover such a word; it must be written out in the rule.
//! The list cannot be complete and need not be: nothing is allowed for *not* being in it. What the
//! `workspace` preset allows by itself is listed the other way round, in `commands.toml`.

use super::word::{Value, Word};

/// A word that does more than it seems to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hazard {
    /// Its place among the words.
    pub(crate) place: usize,
    /// As written.
    pub(crate) word: String,
    /// Whether what it does is known and judged.
    pub(crate) accounted: bool,
}

/// Programs and their hazards. `-x` stands for the letter in any cluster, `-word` for that option
/// alone, `--word` for it and every abbreviation, `=word` for an operand, `+` and `@` for every
/// word that starts so, `~text` for every word that holds it, `!` for the program as such. `^`
/// before one limits it to what stands before the first operand, `name:` to commands with that
/// operand.
const HAZARDS: &[(&str, &str)] = &[
    (
        "git",
        "^-c --config-env --exec-path --upload-pack --receive-pack --exec grep:-O \
         --open-files-in-pager --output --ext-diff --textconv --contents rebase:-x --template \
         ^--git-dir ^--work-tree clone:-c clone:--config clone:-u fetch:-u ls-remote:-u \
         ^=bisect =foreach ^=difftool ^=mergetool ^=filter-branch ^=config ^=hook ^=credential ^=instaweb \
         ^=send-email ^=daemon ^=alias ~ext:: ~fd::",
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
        "-f --file -i --include -l --load -E --exec",
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
    ("ssh", "-o -F -J -S -L -R -D -w"),
    ("scp sftp", "-S -o -F -D -s"),
    ("rsync", "-e --rsh --rsync-path"),
    (
        "curl",
        "-K --config -o -O --output --remote-name -J -T --upload-file -c --cookie-jar -D \
              --dump-header --trace --libcurl --engine",
    ),
    (
        "wget",
        "--use-askpass -O --output-document -o --output-file -a --append-output -e --execute \
              -i --input-file --config -P --directory-prefix",
    ),
    ("zip", "-T -TT --unzip-command"),
    ("vi vim nvim view ex vimdiff gvim", "-c --cmd -S -s -u -U +"),
    ("emacs", "--eval -l --load -f --funcall"),
    ("less more most", "+ -k -o -O --lesskey-file"),
    ("man", "-P --pager -H --html -C --config-file"),
    (
        "gdb lldb",
        "-ex =-x -iex -ix --command --eval-command --args =-o =-O =-s =-S",
    ),
    (
        "make gmake",
        "-f --file --makefile --eval -C --directory -I --include-dir ~=",
    ),
    (
        "gcc g++ cc c++ clang clang++ cpp tcc",
        "@ =-B =-o ~-fplugin ~-specs ~-wrapper",
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
        "-cmd -init ~.shell ~.system ~.output ~.once ~.read ~.load ~load_extension ~writefile ~edit(",
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
        "-exec -toolexec -vettool -overlay -modfile =-o ^=generate ^=tool",
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

/// The hazards among the words of a program.
pub(super) fn hazards(program: &str, words: &[Word]) -> Vec<Hazard> {
    let mut found = Vec::new();
    let lists = HAZARDS
        .iter()
        .filter(|(programs, _)| programs.split(' ').any(|known| known == program))
        .map(|(_, list)| *list);
    let operand = |word: &Word| !word.shown().starts_with('-');
    for list in lists {
        let first = words.iter().skip(1).position(operand);
        let first = first.map_or(words.len(), |place| place + 1);
        let ended = words.iter().position(|word| word.text() == Some("--"));
        for (place, word) in words.iter().enumerate() {
            let hazardous = match &word.value {
                _ if place == 0 => list == "!",
                // After `--` nothing is an option any more.
                Value::Literal(text) if ended.is_some_and(|end| place > end) => list
                    .split_ascii_whitespace()
                    .filter(|hazard| hazard.starts_with(['=', '~', '@']))
                    .any(|hazard| is_hazard(hazard, text)),
                Value::Literal(text) => list
                    .split_ascii_whitespace()
                    .filter_map(|hazard| in_place(hazard, words, place <= first))
                    .any(|hazard| is_hazard(hazard, text)),
                // What it will be is not known, and it could be any of these.
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
    if matches!(program, "sed" | "gsed" | "awk" | "gawk" | "mawk" | "nawk") {
        for place in program_texts(words) {
            let text = words.get(place).map(Word::shown).unwrap_or_default();
            let harmless = match program {
                "sed" | "gsed" => harmless_sed(text),
                _ => harmless_awk(text),
            };
            if !harmless {
                found.push(Hazard {
                    place,
                    word: text.to_owned(),
                    accounted: false,
                });
            }
        }
    }
    found
}

/// The hazard without its limits, if it can be one here.
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
        Some(("+" | "@", "")) => text.starts_with(hazard),
        Some(_) | None => false,
    }
}

/// The places of `sed` and `awk` programs: what follows `-e`, else the first operand.
fn program_texts(words: &[Word]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut operand = None;
    let mut place = 1;
    while let Some(word) = words.get(place) {
        let text = word.shown();
        match text {
            "-e" | "--expression" | "--source" => {
                found.push(place + 1);
                place += 1;
            }
            "-F" | "-v" | "-l" => place += 1,
            "--" => {}
            _ if text.starts_with("-e") || text.starts_with("--e") || text.starts_with("--s") => {
                found.push(place);
            }
            _ if text.starts_with('-') && text != "-" => {}
            _ => operand = operand.or(Some(place)),
        }
        place += 1;
    }
    if found.is_empty() {
        found.extend(operand);
    }
    found
}

/// Addresses with `p`, `d`, `q` or `=`, and substitutions without `e` and `w`. Anything else could
/// be a command that runs or writes.
pub(super) fn harmless_sed(script: &str) -> bool {
    script.split([';', '\n']).all(|part| {
        let part = part.trim();
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || ",$+~! ".contains(c));
        match rest.chars().next() {
            None => part.is_empty(),
            Some('p' | 'd' | 'q' | '=') => rest.len() == 1,
            Some('s') => harmless_substitution(rest),
            Some('/') => {
                // `/text/p`, with a text that holds nothing special.
                rest.strip_prefix('/')
                    .and_then(|rest| rest.split_once('/'))
                    .is_some_and(|(text, command)| {
                        !text.contains('\\') && matches!(command, "p" | "d" | "q" | "=")
                    })
            }
            Some(_) => false,
        }
    })
}

fn harmless_substitution(text: &str) -> bool {
    let mut characters = text.chars().skip(1);
    let Some(delimiter) = characters.next().filter(char::is_ascii_punctuation) else {
        return false;
    };
    let rest: String = characters.collect();
    if delimiter == '\\' || rest.contains(['\\', '\n', '[']) {
        return false;
    }
    let mut parts = rest.split(delimiter);
    let (pattern, replacement, flags, more) =
        (parts.next(), parts.next(), parts.next(), parts.next());
    pattern.is_some()
        && replacement.is_some()
        && more.is_none()
        && flags.is_some_and(|flags| {
            flags
                .chars()
                .all(|c| c.is_ascii_digit() || "gpiI".contains(c))
        })
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
            ("awk", "awk {print} f"),
        ] {
            assert_eq!(hazards(program, &words(text)), [], "{text}");
        }
    }

    #[test]
    fn sed_and_awk_programs_that_only_print() {
        for script in [
            "1,5p", "$p", "10q", "s/a/b/g", "/x/p", "5d", "1p;3p", "/^#/d",
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
