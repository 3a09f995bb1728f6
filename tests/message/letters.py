"""The letters that other programs read: each kind, and texts that are hard to carry."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from app.contact.composer import Composer
from app.contact.submission import KINDS
from app.mail.message import Message
from app.mailbox import Mailbox
from tests.contact.reading import checked
from tests.factories import REQUEST_ID

SENDER = Mailbox("web@example.com", "Formulario de España")
RECIPIENTS = [Mailbox("ventas@example.com", "Ventas, Uruguay"), Mailbox("equipo@example.com")]
COMPOSER = Composer(SENDER, lambda _: RECIPIENTS, ZoneInfo("America/Montevideo"))

EXTRAS: dict[str, Any] = {
    "tema": "Precios",
    "tipo_de_partner": "Integrador",
    "volumenMensual": 40_000,
    "acepta": True,
    "productos": ["Cobros", "Enlaces de pago"],
    "tienda": {"ciudad": "Cádiz", "cajas": 4},
    "correo electrónico": "jefa@banco.example",
    "": "sin nombre",
}
"""Fields of any type that a form may have besides its own."""

_NAMES = {
    "an ASCII name": "Maria Lopez",
    "an apostrophe": "Siobhán O'Hara",
    "dots": "María J. Ñúñez S.L.",
    "parentheses in ASCII": "Maria (Comercio) Lopez",
    "half a comment": "Maria (Comercio",
    "brackets in ASCII": "[Comercio] Maria",
    "the end of an encoded word": "María ?= Ñúñez",
    "equals signs and question marks": "¿María? = ¡Sí!",
    "underscores": "maría_ñúñez",
    "a percent sign": "100 % María",
    "Arabic": "محمد عبد الله",
    "Hebrew": "דוד כהן",
    "Chinese": "支付服务 有限公司",
    "joined emoji": "Familia 👩‍👩‍👧 🏳️‍🌈",
    "combining marks": "Mari\u0301a N\u0303u\u0301n\u0303ez",
    "long": "Ñandú " * 30,
    "long in ASCII": "Comercio " * 20,
    "long and in one piece": "ñ" * 180,
    "hyphens": "--=_",
}
"""Names of persons, and of companies, which the subject names."""

UNFIT_NAMES = {
    "a comma": "María J. Ñúñez, Jr.",
    "parentheses": "María (Comercio) Ñúñez",
    "brackets": "[Comercio] María",
    "an address": "jefa@banco.example",
    "an address in angle brackets": "x <jefa@banco.example>, y",
    "a group": "Ventas: jefa@banco.example;",
    "quotes": 'María "la jefa" Ñúñez',
    "a backslash": "María\\Ñúñez",
    "an encoded word": "=?utf-8?q?jefa=40banco.example?=",
    "an encoded CRLF": "=?utf-8?q?a=0D=0ABcc:_x=40example.com?=",
    "half an encoded word": "María =?utf-8?q?",
}
"""Names that are not in Reply-To, because Python 3.11 would write another address when it writes the field again."""

_ADDRESSES = {
    "a tag and signs": "o'hara+tag!#$%&*/=?^_`{|}~@example.com",
    "an internationalised domain": "maria@españa.es",
    "an internationalised address": "ñandú@correo.es",
    "an encoded word in the address": "=?utf-8?q?a=0D=0ABcc=3A_victim=40example.org?=@example.com",
    "a long address": f"{'m' * 60}@{'comercio.' * 15}example.com",
}

MESSAGES = {
    "Spanish": "¿Cuánto cuesta? ¡Mañana! — «señal» €",
    "spaces at the end of lines": "a \nb\t\nc \t \nd\ne ",
    "spaces at the beginning of lines": "  a\n\tb\n   c",
    "dots": "a\n.\n..\n.b\n.",
    "lines like an mbox separator": "a\nFrom b\n>From c\n\nFrom d@example.com Tue Jan  1 00:00:00 2030",
    "equals signs": "a=b==c=3D=\t=\n=\n=20",
    "empty lines": "\n\na\n\n\nb\n\n\n",
    "no line break": "a",
    "long lines": "palabra " * 300 + "\n" + "ñ" * 500 + "\n" + "x" * 1_200,
    "wide characters": "支付服务😀👩‍👩‍👧 " * 60,
    "tabs": "a\tb\t\tc",
    "boundaries": "a\n--\n-- \n--=_\n--=_0--\nb",
    "markup": "<b>&amp; \"'</b>\n<!-- x -->",
    "links": "https://example.com/?a=1&b=2 www.example.com maria@example.com",
    "headers": "Subject: x\nContent-Type: text/html\n\n<b>x</b>",
}
"""Messages of which each character arrives."""

_INJECTIONS = {
    "CRLF": "a\r\nBcc: x@example.com",
    "CRLF and a body": "a\r\n\r\nBcc: x@example.com\r\n\r\n",
    "CRLF and a continuation": "a\r\n Bcc: x@example.com\r\nBcc: y@example.com",
    "CR": "a\rBcc: x@example.com",
    "NUL": "a\0Bcc: x@example.com",
    "NEL": "a\x85Bcc: x@example.com",
    "line separator": "a\u2028Bcc: x@example.com",
    "MIME boundary": "--=_\r\nContent-Type: text/html\r\n\r\n<b>x</b>\r\n--=_--",
    "lone dot": ".\r\n.\r\nBcc: x@example.com",
}

LETTERS: dict[str, dict[str, Any]] = {
    **{kind: {"form_type": kind} for kind in KINDS},
    **{f"{kind} with all fields": {"form_type": kind} | EXTRAS for kind in KINDS},
    "only the address": dict.fromkeys(["nombre", "empresa", "telefono", "mensaje"]),
    **{f"name: {what}": {"nombre": name, "empresa": None} for what, name in (_NAMES | UNFIT_NAMES).items()},
    **{f"company: {what}": {"nombre": None, "empresa": name} for what, name in (_NAMES | UNFIT_NAMES).items()},
    **{f"e-mail: {what}": {"email": email} for what, email in _ADDRESSES.items()},
    **{f"message: {what}": {"mensaje": text} for what, text in MESSAGES.items()},
    "message: right to left": {"mensaje": "مرحبا بالعالم (hola)"},
    **{
        f"injection: {what}": {"nombre": text, "empresa": text, "telefono": text[:40], "mensaje": text, text: text}
        for what, text in _INJECTIONS.items()
    },
}
"""The forms that the visitors send, as changes to the usual body of a request."""


def compose(changes: dict[str, Any]) -> Message:
    return COMPOSER.compose(checked(**changes), REQUEST_ID)
