"""The command line's root: global options, errors as one line, and the commands, each mounted by name.

A command lives in a file of its own. Errors say the next step on stderr; a traceback is shown with ``--debug`` only.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any, Final, NoReturn

import typer

from schedule_sm.cli.chat import chat
from schedule_sm.cli.convert import convert
from schedule_sm.cli.demo import demo
from schedule_sm.cli.diagrams import diagrams
from schedule_sm.cli.exit_codes import ExitCode, exit_code_of, table
from schedule_sm.cli.export_sessions import export
from schedule_sm.cli.import_sessions import import_
from schedule_sm.cli.inspect import inspect
from schedule_sm.cli.rendering import make_output_forgiving, visible
from schedule_sm.cli.verify import verify
from schedule_sm.cli.warnings_to_stderr import show_warnings
from schedule_sm.core.errors import ScheduleError
from schedule_sm.stores.sqlite_file import fault_of

_ClickError: Final[type[Exception]] = typer.BadParameter.__mro__[2]
"""Base of the errors about arguments: click's own, or the copy of click inside newer releases of Typer."""

app = typer.Typer(
    name="schedule-sm",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=f"\b\nExit codes:\n{table()}",
)


def _show_version(value: bool) -> None:  # noqa: FBT001 - Typer's callback
    if value:
        typer.echo(f"schedule-sm {version('schedule-sm')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[  # noqa: FBT002 - a command-line switch
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
    _debug: Annotated[  # noqa: FBT002 - as above
        bool, typer.Option("--debug", help="Show the traceback of an error; stands before the command.")
    ] = False,
) -> None:
    """Durable one-shot reminders for live agents.

    Example: schedule-sm demo
    """


def mount(name: str, command: Callable[..., None]) -> None:
    """Offer ``command`` under ``name``; if the reader of its output goes away, it ends without a word."""

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError as error:
            _forget_stdout()
            raise typer.Exit(ExitCode.PIPE_CLOSED) from error

    app.command(name)(guarded)


mount("demo", demo)
mount("chat", chat)
mount("inspect", inspect)
mount("verify", verify)
mount("export", export)
mount("import", import_)
mount("convert", convert)
mount("diagrams", diagrams)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code."""
    given = sys.argv[1:] if arguments is None else arguments
    make_output_forgiving()
    show_warnings(with_traceback=wants_traceback(given))
    try:
        code = app(args=given or ["--help"], prog_name="schedule-sm", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
        sys.exit(ExitCode.PIPE_CLOSED)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(ExitCode.INTERRUPTED)
    except Exception as error:  # the one line that people see; --debug shows the rest
        if wants_traceback(given):
            raise
        line, code = _told(error)
        typer.echo(f"schedule-sm: {visible(' '.join(line.split()))}", err=True)
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
        fault = fault_of(error, str(error.filename or "the output"))
        return fault.message, exit_code_of(fault.code)
    return (
        f"internal error ({type(error).__name__}); put --debug before the command to see where",
        ExitCode.FAILED,
    )


def _forget_stdout() -> None:
    """The reader of our output has gone; keep the interpreter from complaining when it flushes at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def wants_traceback(arguments: list[str]) -> bool:
    """Whether ``--debug`` stands before the command."""
    for argument in arguments:
        if not argument.startswith("-"):
            return False
        if argument == "--debug":
            return True
    return False
