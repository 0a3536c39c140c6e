//! The shell's own commands. They run in the shell that reads the rest of the script, so each is
//! either known to be harmless or assumed to change how the rest is read or run.

use super::options::has;

/// The builtins and keywords of the shells that may run a script. Each can change how the rest is
/// read or run, unless it is in [`HARMLESS_BUILTINS`] or the table, or is a wrapper.
const BUILTINS: &str = "source . alias unalias enable shopt mapfile readarray read declare typeset \
     local export readonly unset hash bind complete compgen compopt coproc fc history pushd popd dirs \
     umask ulimit let getopts exec set eval trap return select function break continue shift logout \
     suspend disown bg fg jobs caller printf times wait cd autoload zmodload setopt unsetopt emulate \
     bindkey nocorrect noglob sched zle";

/// Builtins that only print, or only move through the script.
const HARMLESS_BUILTINS: &str = "break continue times dirs caller";

/// Whether a program without an entry is a builtin that changes the shell which runs the rest.
pub(super) fn changes_shell(name: &str) -> bool {
    has(BUILTINS, name) && !has(HARMLESS_BUILTINS, name)
}
