"""``headway completion``: the script that teaches a shell the verbs, options and job names."""

import click
from click.shell_completion import get_completion_class

NAMES = ("headway", "hw")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL, for `headway` and for `hw`.

    bash: add `eval "$(headway completion bash)"` to ~/.bashrc, and the same with zsh to
    ~/.zshrc. fish: `headway completion fish > ~/.config/fish/completions/headway.fish`.
    Names of jobs come from the status branch as it was last fetched.
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"this version of click knows no completion for {shell}")
    root = ctx.find_root().command
    for name in NAMES:
        click.echo(kind(root, {}, name, f"_{name.upper()}_COMPLETE").source())
