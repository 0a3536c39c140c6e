//! Commands that nobody should allow for good: what runs with more rights than the person has, and
//! what destroys a disk, a home or a running machine. No hint and no *always* offers a rule for a
//! script that contains one. A person can still answer a question about it, or write a rule.
//!
//! This reads words and can be deceived. It decides only what is offered; what a command can do is
//! decided by the sandbox.

use haft_contract::{
    Access, SealedPlan, WorkPath,
    access::{Command, ProcessAct},
};

use crate::shell::{Segment, Word, analyse, name_of};

/// Programs that run others with more rights.
const RAISES_RIGHTS: [&str; 5] = ["sudo", "su", "doas", "pkexec", "runuser"];

/// Programs that make a file system, and so empty a disk: `mkfs`, `mkfs.ext4`.
const MAKES_FILE_SYSTEM: &str = "mkfs";

/// Where `dd` may write although it is a device.
const HARMLESS_DEVICES: [&str; 4] = ["null", "stdout", "stderr", "zero"];

/// What names a whole home, or all of them, as written.
const HOMES: [&str; 6] = ["~", "$HOME", "${HOME}", "/root", "/home", "/Users"];

/// Whether a plan runs such a command.
pub fn is_never_offered(plan: &SealedPlan) -> bool {
    let ruins = |command: &Command, cwd: &WorkPath| {
        let bomb = match command {
            Command::Shell(script) => is_fork_bomb(script),
            Command::Argv(_) => false,
        };
        let read = analyse(command, cwd, plan.workspace());
        bomb || read.is_ok_and(|read| read.segments().iter().any(is_ruinous))
    };
    plan.accesses().iter().any(|access| match access {
        Access::Command(command) => ruins(&command.command, &command.cwd),
        // What is typed may be a command to a shell that runs there.
        Access::Process(process) => match &process.act {
            ProcessAct::Write(text) => ruins(&Command::Shell(text.clone()), &WorkPath::root()),
            ProcessAct::CloseInput
            | ProcessAct::Resize(_)
            | ProcessAct::Signal(_)
            | ProcessAct::Kill => false,
        },
        Access::Path(_)
        | Access::Host { .. }
        | Access::Database { .. }
        | Access::Message { .. }
        | Access::RemoteTool { .. }
        | Access::Custom(_) => false,
    })
}

/// Whether one command is such a command.
fn is_ruinous(segment: &Segment) -> bool {
    let outer = segment.inside().iter().map(|outer| name_of(outer));
    if segment
        .name()
        .into_iter()
        .chain(outer)
        .any(|name| RAISES_RIGHTS.contains(&name) || name.starts_with(MAKES_FILE_SYSTEM))
    {
        return true;
    }
    let words = || segment.words.iter().skip(1);
    match segment.name() {
        Some("dd") => words().any(|word| word.text().is_some_and(writes_device)),
        Some("rm") => words().any(is_recursive) && words().any(names_everything),
        Some(_) | None => false,
    }
}

/// Whether it is `of=` a device that holds something.
fn writes_device(word: &str) -> bool {
    word.strip_prefix("of=/dev/")
        .is_some_and(|device| !HARMLESS_DEVICES.contains(&device))
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
    let place = written.trim_end_matches(['/', '*']);
    let somebodys = place
        .strip_prefix("/home/")
        .or_else(|| place.strip_prefix("/Users/"));
    HOMES.contains(&place)
        || (place.is_empty() && written.starts_with('/'))
        || somebodys.is_some_and(|name| !name.contains('/'))
}

/// Whether a function calls itself twice at once, as `:(){ :|:& };:` does.
fn is_fork_bomb(script: &str) -> bool {
    let script: String = script
        .chars()
        .map(|c| if c == '\n' { ';' } else { c })
        .filter(|c| !c.is_whitespace())
        .collect();
    script.match_indices("(){").any(|(at, opening)| {
        let before = script.get(..at).unwrap_or_default();
        let name = before.rsplit([';', '&', '|', '(', ')', '{', '}']).next();
        let name = name.unwrap_or_default().trim_start_matches("function");
        let body = script.get(at + opening.len()..).unwrap_or_default();
        let body = body.split('}').next().unwrap_or_default();
        !name.is_empty() && body.contains(&format!("{name}|{name}"))
    })
}

#[cfg(test)]
mod tests {
    use haft_contract::WorkPath;

    use super::*;

    fn found(script: &str) -> bool {
        let command = Command::Shell(script.into());
        let read = analyse(&command, &WorkPath::root(), "/w").unwrap();
        is_fork_bomb(script) || read.segments().iter().any(is_ruinous)
    }

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
            "rm -rf /",
            "rm -rf /*",
            "rm -fr ~",
            "rm -r -f ~/",
            "rm --recursive --force \"$HOME\"",
            "rm -Rf ${HOME}/*",
            "rm -rf \"$HOME\"/",
            "rm -rf /home/ada",
            "rm -rf /root/*",
            "rm -rf build ~",
            "echo ok; rm -rf ~/*",
            ":(){ :|:& };:",
            "bomb() { bomb | bomb & }\nbomb",
        ] {
            assert!(found(script), "{script}");
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
            "dd if=a of=b",
            "echo sudo",
            "git commit -m 'sudo rm -rf /'",
            "f() { echo a | cat & }; f",
            "summary --su",
        ] {
            assert!(!found(script), "{script}");
        }
    }
}
