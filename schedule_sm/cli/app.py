"""The command line's root: global options, and errors as one line; the commands are named in ``commands``.

Imports that only some runs need stand where they are needed, so that ``--help`` comes at once. Errors say the next
step on stderr; a traceback is shown with ``--debug`` only.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final, NoReturn

import typer

from schedule_sm.cli.commands import LazyCommands, forget_stdout
from schedule_sm.cli.exit_codes import ExitCode, exit_code_of, table
from schedule_sm.cli.rendering import make_output_forgiving, visible, visible_lines
from schedule_sm.cli.warnings_to_stderr import show_warnings
from schedule_sm.core.errors import ScheduleError

_ClickError: Final[type[Exception]] = typer.BadParameter.__mro__[2]
"""Base of the errors about arguments: click's own, or the copy of click inside newer releases of Typer."""

app = typer.Typer(
    name="schedule-sm",
    cls=LazyCommands,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=f"\b\nExit codes:\n{table()}",
)


def _show_version(value: bool) -> None:  # noqa: FBT001 - Typer's callback
    if value:
        from importlib.metadata import version

        typer.echo(f"schedule-sm {version('schedule-sm')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[  # noqa: FBT002 - a command-line switch
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
    _debug: Annotated[  # noqa: FBT002 - as above
        bool,
        typer.Option("--debug", help="Show an error's traceback, same exit code; stands before the command."),
    ] = False,
) -> None:
    """Durable one-shot reminders for live agents.

    Example: schedule-sm demo
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code."""
    given = sys.argv[1:] if arguments is None else arguments
    make_output_forgiving()
    show_warnings(with_traceback=wants_traceback(given))
    try:
        code = app(args=given or ["--help"], prog_name="schedule-sm", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        forget_stdout()
        sys.exit(ExitCode.PIPE_CLOSED)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(ExitCode.INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - the one line that people see; --debug shows the rest
        line, code = _told(error)
        shown = f"schedule-sm: {visible(' '.join(line.split()))}"
        if wants_traceback(given):
            import traceback

            shown = visible_lines("".join(traceback.format_exception(error)).rstrip())
        typer.echo(shown, err=True)
        sys.exit(code)
    sys.exit(code or 0)


def _told(error: Exception) -> tuple[str, int]:
    """Return the line and the exit code for ``error``."""
    if isinstance(error, ScheduleError):
        return error.message, exit_code_of(error.code)
    if isinstance(error, _ClickError):
        context: Any = getattr(error, "ctx", None)
        path = "schedule-sm" if context is None else context.command_path
        message: str = error.format_message()  # type: ignore[attr-defined]
        return f"{message.rstrip('.')}; see `{path} --help`", ExitCode.USAGE
    if isinstance(
        error, OSError
    ):  # stdout on a full disk; what is read or written by name has its own errors
        from schedule_sm.stores.faults import fault_of

        fault = fault_of(error, str(error.filename or "the output"))
        return fault.message, exit_code_of(fault.code)
    return (
        f"internal error ({type(error).__name__}); put --debug before the command to see where",
        ExitCode.FAILED,
    )


def wants_traceback(arguments: list[str]) -> bool:
    """Whether ``--debug`` stands before the command."""
    for argument in arguments:
        if not argument.startswith("-"):
            return False
        if argument == "--debug":
            return True
    return False
