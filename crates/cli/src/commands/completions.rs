//! `haft completions`: prints a shell completion script.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::App;
use crate::{args::Cli, exit::Exit, stop::Stop};

/// How to install the script in each shell.
const INSTALL: &str = r"Install (then start a new shell):
  bash        mkdir -p ~/.local/share/bash-completion/completions
              haft completions bash > ~/.local/share/bash-completion/completions/haft
  zsh         mkdir -p ~/.zfunc
              haft completions zsh > ~/.zfunc/_haft
              (in ~/.zshrc, before `compinit`: fpath=(~/.zfunc $fpath))
  fish        mkdir -p ~/.config/fish/completions
              haft completions fish > ~/.config/fish/completions/haft.fish
  elvish      echo 'eval (haft completions elvish | slurp)' >> ~/.config/elvish/rc.elv
  powershell  Add-Content $PROFILE 'haft completions powershell | Out-String | Invoke-Expression'

Bash finds the script if the package bash-completion is installed. Otherwise add this to ~/.bashrc:
`source ~/.local/share/bash-completion/completions/haft`. Install again after an upgrade.

`haft docs man DIR` writes the man pages.";

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = INSTALL)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Runs the command.
pub(crate) fn run(args: &CompletionsArgs, app: &App) -> Result<Exit, Stop> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "haft", &mut script);
    app.output.content(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Ok)
}
