"""OpenAPI Generator, whose clients differ for each language."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.clients.calls import REFUSED
from tests.clients.tool import VENV, Tool, run

HERE = Path(__file__).parent
CLIENT = "client"
"""The folder of the generated code."""

JAVA_GENERATED = """
package javax.annotation;

public @interface Generated {
    String value();
    String date();
    String comments();
}
"""
"""Generated code is marked with it. It has left Java with version 11, and lies in no jar that is at hand."""


def generate(generator: str, folder: Path, *options: str) -> Path:
    """Generate a client from openapi.json in the folder; options such as --library=native are of that generator."""
    # ContactForm is used as a form only, and its class is imported all the same.
    common = ["--input-spec=openapi.json", f"--output={CLIENT}", "--global-property=skipFormModel=false"]
    program = VENV / "bin" / "openapi-generator-cli"
    run([program, "generate", f"--generator-name={generator}", *common, *options], folder)
    return folder / CLIENT


def prepare_python(folder: Path) -> list[str | Path]:
    client = generate("python", folder)
    # This holds the program to the generated types, as the compiler does for Java.
    mypy = ["env", f"MYPYPATH={client}", sys.executable, "-m", "mypy", "--config-file=", "--strict"]
    options = ["--no-warn-unused-ignores", "--follow-imports=silent", "--python-executable"]
    run([*mypy, *options, VENV / "bin" / "python", HERE / "client.py"], folder)
    return ["env", f"PYTHONPATH={client}", VENV / "bin" / "python", HERE / "client.py"]


def prepare_php(folder: Path) -> list[str | Path]:
    client = generate("php", folder)
    return ["php", "-d", "zend.assertions=1", HERE / "client.php", client]


def prepare_java(folder: Path) -> list[str | Path]:
    client = generate("java", folder, "--library=native", "--additional-properties=openApiNullable=false")
    (stub := folder / "Generated.java").write_text(JAVA_GENERATED)
    sources = [HERE / "Client.java", stub, *(client / "src" / "main").rglob("*.java")]
    # It holds Jackson, which the client needs.
    (jar,) = VENV.glob("lib/python*/site-packages/openapi_generator_cli/openapi-generator.jar")
    run(["javac", "-encoding", "UTF-8", "-classpath", jar, "-d", "classes", *sources], folder)
    return ["java", "-classpath", f"classes:{jar}", "Client"]


TOOLS = [
    Tool(
        "OpenAPI Generator for Python",
        prepare_python,
        # Its models and its functions check what they are given.
        differences={"invalid_body": REFUSED, "invalid_parameter": REFUSED},
    ),
    # Its models check what they are given, and its functions do not.
    Tool("OpenAPI Generator for PHP", prepare_php, differences={"invalid_body": REFUSED}),
    # The types of its functions let no other value be sent.
    Tool("OpenAPI Generator for Java", prepare_java, differences={"invalid_parameter": REFUSED}),
]
