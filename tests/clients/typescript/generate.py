"""The generators of TypeScript. What they generate is compiled together with a program of this folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.clients.openapi_generator.generate import CLIENT
from tests.clients.openapi_generator.generate import generate as run_openapi_generator
from tests.clients.tool import NODE_MODULES, VENV, Tool, run

HERE = Path(__file__).parent
NODE = VENV / "bin" / "node"
BIN = NODE_MODULES / ".bin"
COMPILER_OPTIONS = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "node", "--outDir", "compiled"]


def generate_by_openapi_generator(folder: Path) -> None:
    # The fields keep the names of the specification.
    run_openapi_generator("typescript-fetch", folder, "--additional-properties=modelPropertyNaming=original")


def generate_by_openapi_typescript(folder: Path) -> None:
    run([BIN / "openapi-typescript", "openapi.json", f"--output={CLIENT}/paths.ts"], folder)


def generate_by_orval(folder: Path, *, program: str) -> None:
    run([NODE, NODE_MODULES / program, "--config=orval.config.mjs"], folder)


def generate_by_hey_api(folder: Path) -> None:
    run([BIN / "openapi-ts", "--input=openapi.json", f"--output={CLIENT}", "--no-log-file"], folder)


def prepare(folder: Path, *, generate: Callable[[Path], None], program: str) -> list[str | Path]:
    (folder / "node_modules").symlink_to(NODE_MODULES)
    for file in (*HERE.glob("*.ts"), HERE / "orval.config.mjs"):
        shutil.copy(file, folder)
    generate(folder)
    run([BIN / "tsc", *COMPILER_OPTIONS, f"{program}.ts"], folder)
    return [NODE, f"compiled/{program}.js"]


TOOLS = [
    Tool(
        "OpenAPI Generator for TypeScript",
        partial(prepare, generate=generate_by_openapi_generator, program="openapi_generator"),
    ),
    Tool(
        "openapi-typescript and openapi-fetch",
        partial(prepare, generate=generate_by_openapi_typescript, program="openapi_fetch"),
    ),
    Tool(
        "Orval 7 with zod",
        partial(prepare, generate=partial(generate_by_orval, program="orval7/dist/bin/orval.js"), program="orval7"),
        # It generates no operations of OPTIONS.
        differences=dict.fromkeys(("options", "legacy options"), "no such operation"),
    ),
    Tool(
        "Orval 8 with zod",
        partial(prepare, generate=partial(generate_by_orval, program="orval/dist/bin/orval.mjs"), program="orval8"),
    ),
    Tool("Hey API", partial(prepare, generate=generate_by_hey_api, program="hey_api")),
]
