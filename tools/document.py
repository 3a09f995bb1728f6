"""Update the facts in static/openapi.json that come from the code. Its prose stays."""

from __future__ import annotations

import json
import re
import tempfile
from http import HTTPStatus
from typing import get_args

from flask import Flask
from marshmallow.validate import Length

from app import API_POLICY, CONTACT_POLICY, create_app
from app import VERSIONS as BLUEPRINTS
from app.api import body, contact, discovery, endpoints, envelope, health
from app.api.errorhandlers import MAX_RETRY_AFTER
from app.api.paths import CONTACT, HEALTH, contact_paths, is_under_api
from app.contact.antispam import CAPTCHA_LENGTH, MAX_AGE_SECONDS, MIN_AGE_SECONDS
from app.contact.schema import LABELS, MAX_ADDRESS_BYTES, ContactSchema
from app.errors import ApiError, ErrorCode, Where
from app.forms import FORM_TITLES, FORM_TYPES
from app.mail import health as mail_health
from app.ratelimit.window import Policy
from app.release import VERSION
from app.settings import NOTICE_PERIOD_DAYS, Settings
from app.versions import V1, Versions
from tools import Node, put, put_all, resolve
from tools.layout import lay_out

KIB = body.MAX_BODY_BYTES // 1024
BASE = "http://127.0.0.1:8000"
VERSIONS = Versions.from_settings(Settings.from_env({}), BLUEPRINTS)
CONTACT_PATHS = contact_paths(VERSIONS)
V1_INDEX = VERSIONS[V1].base_path
FACTS = {
    r"(?<=`GET )[\w/]+(?=` enumera)": VERSIONS.current.base_path,
    r"(?<=`POST )[\w/]+(?=` envía un formulario)": VERSIONS.current.base_path + CONTACT,
    r"(?<=`GET )[\w/]+(?=` indica si)": VERSIONS.current.base_path + HEALTH,
    r"(?<=más de )\d+(?= KiB)": KIB,
    r"(?<=superar )\d+(?= KiB)": KIB,
    r"\d+(?= niveles de anidamiento)": body.MAX_NESTING,
    r"(?<=haber pasado )entre \d+ y \d+(?= segundos)": f"entre {MIN_AGE_SECONDS} y {MAX_AGE_SECONDS}",
    r"(?<=antigüedad máxima de )\d+": round(mail_health.MAX_AGE),
    r"(?<=exactamente )\d+(?= caracteres)": CAPTCHA_LENGTH,
    r"\d+(?= octetos como máximo)": MAX_ADDRESS_BYTES,
    r"(?<=al menos )\d+(?= días)": NOTICE_PERIOD_DAYS,
}
"""The paths and the numbers in the prose."""
CODES = {str(code): code for code in ErrorCode}
FIELDS = ContactSchema().fields
LENGTHS = {
    name: rule.max
    for name, field in FIELDS.items()
    for rule in field.validators
    if isinstance(rule, Length) and rule.max
}
"""The maximum length of each text field of a form, in characters."""

ANSWERS = {
    "ApiIndex": "/api",
    "ApiIndexSection": "/api?section=rate_limit",
    "VersioningPolicy": "/api/versioning",
    "VersionCurrent": f"/api/versioning?version={V1}",
    "InvalidParameterVersion": "/api/versioning?version=v9",
    "UnsupportedApiVersion": "/api/v9/contact",
    "EndpointList": V1_INDEX,
    "EndpointListGet": f"{V1_INDEX}?method=GET",
}
"""The examples that are responses of the service, each with its request."""


def document(text: str) -> str:
    """The document with the facts that come from the code updated."""
    whole: Node = json.loads(put_all(FACTS, text))
    components: Node = whole["components"]
    whole["info"]["version"] = VERSION
    whole["info"]["description"] = _tables(whole["info"]["description"])
    _choices(components["schemas"])
    _fields(components["schemas"])
    _quotas(components)
    components["examples"]["ContactAccepted"]["value"] = envelope.success(message=contact.ACCEPTED)
    components["schemas"]["SuccessResponse"]["properties"]["message"]["examples"] = [contact.ACCEPTED]
    with tempfile.TemporaryDirectory() as directory:
        app = create_app(Settings.from_env({"MAIL_DIR": directory, "LOG_LEVEL": "error"}))
        for name, target in ANSWERS.items():
            components["examples"][name]["value"] = _answer(app, target)
        _operations(whole, app)
        # A later check of MAIL_DIR would create the folder again.
        app.extensions["background"].stop()
    _errors(whole)
    return lay_out(whole) + "\n"


def _choices(schemas: Node) -> None:
    """The closed lists of values."""
    schemas["ErrorCode"]["enum"] = list(ErrorCode)
    schemas["ErrorStatus"]["enum"] = sorted({code.status for code in ErrorCode})
    schemas["ErrorReason"]["enum"] = [*get_args(body.Reason), "too_early", "expired"]
    schemas["ContactContentType"]["enum"] = list(body.PARSERS)
    schemas["IndexSection"]["enum"] = list(discovery.SECTION.allowed_values)
    schemas["EndpointMethod"]["enum"] = list(endpoints.METHOD.allowed_values)
    schemas["PublishedVersion"]["enum"] = list(VERSIONS)
    names = [f"`{value}` ({title.full[:1].lower()}{title.full[1:]})" for value, title in FORM_TITLES.items()]
    schemas["FormType"] |= {"description": f"Tipo de formulario: {', '.join(names)}.", "enum": list(FORM_TYPES)}
    schemas["ContactSummary"]["properties"]["form_types"]["examples"] = [list(FORM_TYPES)]
    schemas["NoticePeriodDays"] |= {"minimum": NOTICE_PERIOD_DAYS, "examples": [NOTICE_PERIOD_DAYS]}
    schemas["VerboseFlag"]["enum"] = list(health.VERBOSE.allowed_values)


def _fields(schemas: Node) -> None:
    """The contact fields, as JSON and as a form: a new one is described by its label."""
    for name, type_ in (("ContactRequest", ["string", "null"]), ("ContactForm", "string")):
        written = schemas[name]["properties"]
        schemas[name]["properties"] = {
            field: written.get(field) or {"type": type_, "description": f"{LABELS.get(field, field)}."}
            for field in FIELDS
        }
        schemas[name]["required"] = [field for field, its in FIELDS.items() if its.required]
        for field, length in LENGTHS.items():
            schemas[name]["properties"][field]["maxLength"] = length
        for field in ("captcha_expected", "captcha_input"):
            schemas[name]["properties"][field] |= {
                "pattern": f"^(.{{{CAPTCHA_LENGTH}}})?$",
                "maxLength": CAPTCHA_LENGTH,
            }


def _quotas(components: Node) -> None:
    """The numbers of the two policies in the header fields, which every client generator reads."""
    schemas = {name: header["schema"] for name, header in components["headers"].items()}
    most = max(API_POLICY.quota, CONTACT_POLICY.quota)
    for prefix, policies in (("", [API_POLICY]), ("Contact", [CONTACT_POLICY, API_POLICY])):
        policy, limit = schemas[f"{prefix}RateLimit-Policy"], schemas[f"{prefix}X-RateLimit-Limit"]
        fields = [f'"default";q={each.quota};w={each.window_seconds}' for each in policies]
        policy |= (
            {"enum": fields, "examples": fields[:1]} if len(fields) > 1 else {"const": fields[0], "examples": fields}
        )
        limit |= {"minimum": min(each.quota for each in policies), "maximum": most, "examples": [policies[0].quota]}
    for name, left, seconds in (
        ("", API_POLICY.quota - 1, API_POLICY.window_seconds),
        ("Contact", CONTACT_POLICY.quota, CONTACT_POLICY.window_seconds),
        ("Spent", 0, CONTACT_POLICY.window_seconds),
    ):
        schemas[f"{name}RateLimit"]["examples"] = [f'"default";r={left};t={seconds}']
        schemas[f"{name}X-RateLimit-Remaining"] |= {"maximum": most, "examples": [left]}
    for wait in (schemas["Retry-After"], components["schemas"]["ApiError"]["properties"]["retry_after_seconds"]):
        wait |= {"maximum": MAX_RETRY_AFTER, "examples": [CONTACT_POLICY.window_seconds]}
    rule = components["schemas"]["RateLimitRule"]["properties"]
    rule["limit"] |= {"maximum": most, "examples": [API_POLICY.quota]}
    windows = API_POLICY.window_seconds, CONTACT_POLICY.window_seconds
    rule["window_seconds"] |= {"maximum": max(windows), "examples": [API_POLICY.window_seconds]}


def _errors(whole: Node) -> None:
    """Each error example with the catalogue's texts, and each code at the operations that can answer it."""
    examples: Node = whole["components"]["examples"]
    names: dict[str, str] = {}
    for name, example in examples.items():
        if error := example["value"].get("error"):
            names.setdefault(error["code"], name)
            if error["code"] == ErrorCode.INVALID_FORM_TYPE:
                error["allowed_values"] = list(FORM_TYPES)
            example["value"] = failure(CODES[error["code"]], error)
    for code in ErrorCode:
        if code not in names:
            names[code] = _camel(code)
            examples[names[code]] = {"summary": code.message, "value": failure(code, {})}
        able = [operation for path, operation in _requests(whole) if can_answer(code, path, operation)]
        for operation in able:
            if code not in codes_of(operation, whole):
                response = _refusal(whole, operation, code, able)
                shown = response["content"]["application/json"]["examples"]
                if names[code] not in shown:
                    shown |= _shown([names[code]])
                    words = f"{code.message.removesuffix('.')} (`{code}`)."
                    response["description"] = f"{response['description']} {words}".lstrip()


def _camel(words: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"\W|_", words))


def _requests(whole: Node) -> list[tuple[str, Node]]:
    """Each path with each of its operations but OPTIONS, which is refused only if it is malformed."""
    return [
        (path, operation)
        for path, item in whole["paths"].items()
        for method, operation in item.items()
        if method != "options"
    ]


def can_answer(code: ErrorCode, path: str, operation: Node) -> bool:
    """True if an operation at this path can answer an error of this code."""
    is_form, is_of_api = path in CONTACT_PATHS, is_under_api(path)
    able: dict[str, bool] = {
        Where.EVERYWHERE: True,
        Where.API: is_of_api,
        Where.VERSIONS: VERSIONS.at(path) is not None,
        Where.FORMS: is_form,
        Where.PARAMETERS: is_of_api and "parameters" in operation,
        Where.UNKNOWN_PATHS: is_of_api and not is_form,  # what a client with a wrong base address gets
    }
    return able.get(code.where, path in {version.base_path + code.where for version in VERSIONS.values()})


def codes_of(operation: Node, whole: Node) -> set[str]:
    """The codes of the errors that the document shows at an operation."""
    return {
        resolve(example, whole)["value"]["error"]["code"]
        for status, response in operation["responses"].items()
        if status >= "400"
        for example in resolve(response, whole)["content"]["application/json"]["examples"].values()
    }


def _refusal(whole: Node, operation: Node, code: ErrorCode, able: list[Node]) -> Node:
    """The response of an operation with this code's status, shared only with operations that are able to answer it.

    A new one begins as the one for internal errors.
    """
    answers, responses = operation["responses"], whole["components"]["responses"]
    status = str(code.status)
    usual = answers.get(status, answers["500"])
    users = [its for _, its in _requests(whole) if usual in its["responses"].values()]
    if status not in answers or not all(its in able for its in users):
        like, name = resolve(usual, whole), usual["$ref"].rpartition("/")[2] + _camel(code)
        content = like["content"]["application/json"]
        shown, words = (content["examples"], like["description"]) if status in answers else ({}, "")
        copy = {"application/json": content | {"examples": {**shown}}}
        responses.setdefault(name, like | {"description": words, "content": copy})
        answers[status] = {"$ref": f"#/components/responses/{name}"}
        operation["responses"] = dict(sorted(answers.items()))
    return resolve(answers[status], whole)


def failure(code: ErrorCode, written: Node, docs: str = f"{BASE}/openapi.json") -> Node:
    """The envelope of a code, with the details and allowed values of the existing error."""
    wait = CONTACT_POLICY.window_seconds if code.status == HTTPStatus.TOO_MANY_REQUESTS else None
    error = ApiError(code, details=written.get("details"), allowed_values=written.get("allowed_values"))
    return envelope.failure(error, retry_after=wait, docs=docs)


def _tables(description: str) -> str:
    """The description with a row for each error and each quota. The written meanings of errors stay."""
    meanings = dict(re.findall(r"^\| `(\w+)` \| \d+ \| (.*) \|$", description, re.MULTILINE))
    codes = sorted(ErrorCode, key=lambda code: code.status)
    rows = "".join(f"| `{code}` | {code.status} | {meanings.get(code, code.message)} |\n" for code in codes)
    description = put(description, r"(?m)(?:^\| `\w+` \| \d+ \| .* \|\n)+", rows)
    for where, policy in ((r"`/api/\*`", API_POLICY), ("Formularios de contacto", CONTACT_POLICY)):
        description = put(description, rf"(\| {where}.* \| )\d+ petici\w+ cada \d+ segundos", _in_words(policy))
    return description


def _in_words(policy: Policy) -> str:
    return f"{policy.quota} {'petición' if policy.quota == 1 else 'peticiones'} cada {policy.window_seconds} segundos"


def _answer(app: Flask, target: str) -> Node:
    answer: Node = app.test_client().get(target, base_url=BASE).get_json()
    return answer


def _operations(whole: Node, app: Flask) -> None:
    """Add what the indexes of the versions list and the document lacks.

    A path that the version before has too begins as a copy of it, and the answer of another GET as any object. Both are
    then edited by hand.
    """
    paths: Node = whole["paths"]
    versions = list(VERSIONS.values())
    for before, version in zip(versions[:1] + versions, versions, strict=False):
        for endpoint in _answer(app, version.base_path)["data"]["endpoints"]:
            path: str = endpoint["path"]
            below = path.removeprefix(version.base_path)
            if path in paths:
                continue
            if before.base_path + below in paths:
                paths[path] = _of_another_version(paths[before.base_path + below], before.name, version.name)
            elif endpoint["method"] == "GET":
                paths[path] = {"get": _new_operation(whole, app, endpoint, f"Get{_camel(below)}")}
    tags = [tag["name"] for tag in whole["tags"]]
    by_tag = sorted(paths.items(), key=lambda item: min(tags.index(it["tags"][0]) for it in item[1].values()))
    whole["paths"] = dict(by_tag)


def _of_another_version(item: Node, before: str, name: str) -> Node:
    """The operations of a path with another version's name in their texts and identifiers."""
    copy: Node = json.loads(re.sub(rf"\b{before}\b", name, json.dumps(item)))
    for operation in copy.values():
        operation["operationId"] = operation["operationId"].replace(before.upper(), "") + name.upper()
    return copy


def _new_operation(whole: Node, app: Flask, endpoint: Node, name: str) -> Node:
    components: Node = whole["components"]
    examples, responses = components["examples"], components["responses"]
    path, words = endpoint["path"], endpoint["description"]
    examples[name] = {"summary": words, "value": _answer(app, path)}
    refused, parameters = ["Malformed"], []
    for parameter in endpoint["parameters"]:
        query, values = parameter["name"], parameter["allowed_values"]
        schema = {"type": "string", "enum": values}
        parameters.append({"name": query, "in": "query", "description": f"Valor de {query}.", "schema": schema})
        refused.append(f"{name}InvalidParameter{_camel(query)}")
        examples[refused[-1]] = {"summary": f"Valor no admitido en {query}", "value": _answer(app, f"{path}?{query}=")}
    success = {"$ref": "#/components/schemas/SuccessResponse", "required": ["data"]}
    answer = {"schema": success, "examples": _shown([name])}
    responses[name] = responses["VersionIndex"] | {"description": words, "content": {"application/json": answer}}
    if parameters:
        bad_request = responses["VersionIndexBadRequest"]
        content = bad_request["content"]["application/json"] | {"examples": _shown(refused)}
        responses[f"{name}BadRequest"] = bad_request | {"content": {"application/json": content}}
    return {
        "tags": ["discovery"],
        "operationId": name[:1].lower() + name[1:],
        "summary": words.removesuffix("."),
        "description": words,
        **({"parameters": parameters} if parameters else {}),
        "responses": whole["paths"][V1_INDEX]["get"]["responses"]
        | {
            "200": {"$ref": f"#/components/responses/{name}"},
            "400": {"$ref": f"#/components/responses/{name if parameters else ''}BadRequest"},
        },
    }


def _shown(names: list[str]) -> Node:
    return {name: {"$ref": f"#/components/examples/{name}"} for name in names}
