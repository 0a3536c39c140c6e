//! `bash(@ruinous)`: commands that nobody should run for an agent. What runs with more rights than
//! the person has, and what destroys a disk, a home or a running machine.
//!
//! This reads words, in every spelling and inside wrappers, and can be deceived: by a program that is
//! a script, by a name that is put together. What a command can do is decided by the sandbox. Read
//! next: `grant/never_offered.rs`, which never proposes a rule for them.

use haft_contract::{WorkPath, access::Command};

use crate::{
    command_pattern::PatternReach,
    shell::{Class, Segment, UnclearReason, Word, analyse, name_of},
};

/// Programs that run others with more rights.
const RAISES_RIGHTS: [&str; 5] = ["sudo", "su", "doas", "pkexec", "runuser"];

/// Programs that make a file system, and so empty a disk: `mkfs`, `mkfs.ext4`.
const MAKES_FILE_SYSTEM: &str = "mkfs";

/// Where `dd` may write although it is a device.
const HARMLESS_DEVICES: [&str; 5] = ["null", "stdout", "stderr", "zero", "tty"];

/// What is beneath `/dev` and no device: memory that is used like files, and what is open already.
const HARMLESS_DIRECTORIES: [&str; 2] = ["shm/", "fd/"];

/// What names a whole home, or all of them, as written.
const HOMES: [&str; 6] = ["$HOME", "${HOME}", "${HOME:?}", "/root", "/home", "/Users"];

/// Words after which the next one is a command.
const BEFORE_COMMANDS: [&str; 8] = ["do", "then", "else", "while", "until", "if", "!", "time"];

/// Whether this is one of them. Uncertain where a word that matters is known only when it runs.
pub(crate) fn ruins(segment: &Segment) -> PatternReach {
    if is_fork_bomb(segment) {
        return PatternReach::Yes;
    }
    let mut outer = segment.inside().iter().map(|outer| name_of(outer));
    if outer.any(raises_rights) {
        return PatternReach::Yes;
    }
    let certain = words_ruin(&segment.words);
    if certain == PatternReach::Yes || segment.class() != Class::Unknown {
        return certain;
    }
    // An unknown program may run what its words say: `chrt 1 sudo ls`.
    let later = (1..segment.words.len()).filter_map(|place| segment.words.get(place..));
    let inside = later.map(words_ruin).max().unwrap_or(PatternReach::No);
    certain.max(inside.min(PatternReach::Maybe))
}

/// Whether a script contains one, as far as that is certain.
pub(crate) fn script_ruins(script: &str) -> bool {
    let command = Command::Shell(script.to_owned());
    analyse(&command, &WorkPath::root(), "/").is_ok_and(|read| {
        let mut segments = read.segments().iter();
        segments.any(|segment| ruins(segment) == PatternReach::Yes)
    })
}

fn words_ruin(words: &[Word]) -> PatternReach {
    let Some((program, words)) = words.split_first() else {
        return PatternReach::No;
    };
    // A program that is known only when it runs makes the command unclear, which asks by itself.
    let Some(name) = program.text().map(name_of) else {
        return PatternReach::No;
    };
    let known = || words.iter().all(|word| word.text().is_some());
    if raises_rights(name) || name.starts_with(MAKES_FILE_SYSTEM) {
        return PatternReach::Yes;
    }
    let (certain, possible) = match name {
        "dd" => {
            let certain = words
                .iter()
                .any(|word| word.text().is_some_and(writes_device));
            (certain, !known())
        }
        "rm" => {
            let recursive = words.iter().any(is_recursive);
            let certain = recursive && words.iter().any(names_everything);
            (certain, recursive && !known())
        }
        _ => (false, false),
    };
    match (certain, possible) {
        (true, _) => PatternReach::Yes,
        (false, true) => PatternReach::Maybe,
        (false, false) => PatternReach::No,
    }
}

fn raises_rights(name: &str) -> bool {
    RAISES_RIGHTS.contains(&name)
}

/// Whether it is `of=` a device that holds something.
fn writes_device(word: &str) -> bool {
    let Some(place) = word.strip_prefix("of=") else {
        return false;
    };
    let mut place = place.to_owned();
    for noise in ["//", "/./"] {
        while place.contains(noise) {
            place = place.replace(noise, "/");
        }
    }
    place.strip_prefix("/dev/").is_some_and(|device| {
        !HARMLESS_DEVICES.contains(&device)
            && !HARMLESS_DIRECTORIES
                .iter()
                .any(|directory| device.starts_with(directory))
    })
}

/// `-r`, `-fR`, `--recursive` and its abbreviations.
fn is_recursive(word: &Word) -> bool {
    let Some(text) = word.text() else {
        return false;
    };
    match text.strip_prefix("--") {
        Some(name) => name.len() > 2 && "recursive".starts_with(name),
        None => text.starts_with('-') && text.contains(['r', 'R']),
    }
}

/// Whether it is the root or a whole home.
fn names_everything(word: &Word) -> bool {
    let written = word.raw.replace(['"', '\''], "");
    let mut place = written.as_str();
    while let Some(shorter) = ["/", "/*", "/.", "*"]
        .iter()
        .find_map(|end| place.strip_suffix(end))
    {
        place = shorter;
    }
    let somebodys = place
        .strip_prefix("/home/")
        .or_else(|| place.strip_prefix("/Users/"))
        .or_else(|| place.strip_prefix('~'));
    HOMES.contains(&place)
        || (place.is_empty() && written.starts_with('/'))
        || somebodys.is_some_and(|name| !name.contains('/'))
}

/// Whether it defines a function that calls itself twice at once, as `:(){ :|:& };:` does.
fn is_fork_bomb(segment: &Segment) -> bool {
    segment.unclear().contains(&UnclearReason::Function) && multiplies(segment.text())
}

/// Whether a function, as written, pipes itself into itself, or calls itself more than once and one of
/// the calls in the background.
fn multiplies(function: &str) -> bool {
    let tokens = tokens(function);
    let mut tokens = tokens.iter().map(String::as_str).peekable();
    tokens.next_if_eq(&"function");
    let Some(name) = tokens.next() else {
        return false;
    };
    let (mut calls, mut backgrounded, mut piped) = (0, false, false);
    let (mut is_start, mut in_call, mut after_pipe) = (true, false, false);
    for token in tokens {
        let is_operator = token.chars().all(is_operator);
        if is_operator {
            backgrounded |= in_call && token == "&";
            after_pipe = in_call && (token == "|" || token == "|&");
            (is_start, in_call) = (true, false);
        } else if is_start && token == name {
            calls += 1;
            piped |= after_pipe;
            (is_start, in_call, after_pipe) = (false, true, false);
        } else {
            is_start &= BEFORE_COMMANDS.contains(&token);
        }
    }
    piped || (calls > 1 && backgrounded)
}

fn is_operator(character: char) -> bool {
    ";&|(){}<>\n`".contains(character)
}

/// Words and operators. Braces and parentheses stand alone, `&&`, `||` and `|&` together.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut is_open = false;
    for character in text.chars() {
        let joins = "&|".contains(character)
            && is_open
            && tokens
                .last()
                .is_some_and(|last| last.len() == 1 && last.chars().all(|c| "&|".contains(c)));
        if character.is_whitespace() && character != '\n' {
            is_open = false;
        } else if is_operator(character) && !joins {
            tokens.push(character.to_string());
            is_open = "&|".contains(character);
        } else if let (true, Some(last)) = (is_open, tokens.last_mut())
            && (joins || !last.chars().all(is_operator))
        {
            last.push(character);
        } else {
            tokens.push(character.to_string());
            is_open = true;
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ruins_a_machine_is_found_wherever_it_stands() {
        for script in [
            "sudo ls",
            "/usr/bin/sudo -u root ls",
            "cd x && sudo make install",
            "su",
            "su - root -c ls",
            "doas ls",
            "timeout 5 sudo ls",
            "bash -c 'sudo ls'",
            "mkfs.ext4 /dev/sda1",
            "mkfs -t ext4 disk.img",
            "dd if=x of=/dev/sda bs=1M",
            "dd of=//dev/./sda <x",
            "rm -rf /",
            "rm -rf -- /",
            "rm -rf /*",
            "rm -rf //.",
            "rm -fr ~",
            "rm -r -f ~/",
            "rm -rf ~ada",
            "rm --recursive --force \"$HOME\"",
            "rm -Rf ${HOME}/*",
            "rm -rf \"${HOME:?}\"/*",
            "rm -rf \"$HOME\"/",
            "cd x; rm -rf $HOME",
            "rm -rf /home/ada",
            "rm -rf /root/*",
            "rm -rf build ~",
            "echo ok; rm -rf ~/*",
            ":(){ :|:& };:",
            "echo; :(){ :|:& };:",
            "bash -c ':(){ :|:& };:'",
            "bomb() { bomb | bomb & }\nbomb",
            "function b { b | b & }; b",
            "function b() { b|b& }; b",
            "b() {\n  b & b &\n}\nb",
            "b() { while true; do b & done; b; }; b",
        ] {
            assert!(script_ruins(script), "{script}");
        }
    }

    #[test]
    fn ordinary_commands_are_not() {
        for script in [
            "ls",
            "rm -rf build",
            "rm -rf ./*",
            "rm -rf *",
            "rm -rf ~/project/target",
            "rm -rf $HOME/.cache/x",
            "rm -rf /home/ada/project/target",
            "rm ~",
            "dd if=/dev/zero of=/dev/null count=1",
            "dd if=a of=/dev/shm/x",
            "dd if=a of=b",
            "echo sudo",
            "git commit -m 'sudo rm -rf /'",
            "git commit -m 'about :(){ :|:& };:'",
            "f() { echo a | cat & }; f",
            "f() { echo f | f2 & }; f",
            "walk() { for x in \"$1\"/*; do walk \"$x\"; done; }; walk .",
            "fib() { (( $1 < 2 )) && echo 1 || echo $(( $(fib $(($1-1))) + $(fib $(($1-2))) )); }",
            "serve() { run & wait; }; serve | cat; serve &",
            "summary --su",
        ] {
            assert!(!script_ruins(script), "{script}");
        }
    }

    #[test]
    fn what_is_known_only_when_it_runs_is_uncertain() {
        let reach = |script: &str| {
            let command = Command::Shell(script.to_owned());
            let read = analyse(&command, &WorkPath::root(), "/w").unwrap();
            read.segments().iter().map(ruins).max().unwrap()
        };
        for script in [
            "rm -rf \"$DIRECTORY\"",
            "dd if=a of=$TARGET",
            "unknown-launcher 1 sudo ls",
        ] {
            assert_eq!(reach(script), PatternReach::Maybe, "{script}");
        }
        for script in ["rm \"$FILE\"", "cp $A $B", "echo sudo"] {
            assert_eq!(reach(script), PatternReach::No, "{script}");
        }
    }
}
