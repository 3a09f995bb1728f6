"""Letters that visitors wrote, as changes to the usual body of a request, and the pages that the sales team sees."""

from __future__ import annotations

import email
from email.message import EmailMessage
from typing import Any, cast

from tests.message.letters import compose
from tests.messages import READER

LINES = [
    "Buenos días:",
    "",
    f"Somos una cadena de tiendas en {', '.join(['Montevideo', 'Salto', 'Colonia'] * 5)}, y cobramos el abono.",
    "Querríamos saber:",
    "  - cuánto cuesta cada operación",
    "      - también con tarjetas extranjeras",
    "Plan     básico",
    "Cuota anual",
    "La documentación: https://docs.example.com/pagos-recurrentes/suscripciones?version=9731",
    "",
    "",
    "Quedo a la espera. ¡Gracias! 👩‍👩‍👧 👍🏽",
    "-- ",
    "María Ñúñez",
]
"""A message whose lines begin and end with words that stand nowhere else in it."""

LONG_WORD = "Wolkenkratzerfahrstuhlführerprüfung" * 8
ARABIC = "شركة الأمل للتجارة (2024)"
HEBREW = "דוד כהן"

ORDINARY: dict[str, dict[str, Any]] = {
    "demo": {},
    "ventas": {"form_type": "ventas", "tema": "Integración técnica"},
    "onboarding": {
        "form_type": "onboarding",
        "empresa": None,
        "sector": "Hostelería y turismo",
        "volumen_mensual": "Entre 10.000 € y 50.000 €",
        "mensaje": "Quisiéramos darnos de alta cuanto antes.",
    },
    "distribuidor": {"form_type": "distribuidor", "tipo_de_partner": "Revendedor", "telefono": None},
}
"""One letter of each kind, as most of them are."""

RICH: dict[str, Any] = {
    "form_type": "ventas",
    "nombre": HEBREW,
    "empresa": ARABIC,
    "email": "maria.nunez+compras@comercio-ejemplo.example.com",
    "telefono": "+598 2 900 00 00",
    "mensaje": "\n".join(LINES),
    "tema": "Integración técnica",
    "tipo_de_partner": "Revendedor",
    "volumenMensual": 12500.5,
    "acepta_condiciones": True,
    "recibe_boletin": False,
    "vacio": "",
    "lista_vacia": [],
    "productos": ["TPV virtual", "Enlaces de pago", "<b>Bizum</b> & similares"],
    "direccion": {"calle": "18 de Julio 1234", "ciudad": "Salto", "contacto": {"nombre": "Luis", "horario": [9, 17]}},
    "tiendas": [{"ciudad": "Salto", "cajas": 4}, {"ciudad": "Colonia", "cajas": 2}, "y un quiosco"],
    "": "un valor",
    "correo electrónico": "impostora@example.org",
    "<i>campo</i>": "<script>alert(1)</script>",
}
"""A letter with everything."""

LONG_WORDS: dict[str, Any] = {
    "nombre": LONG_WORD[:200],
    "empresa": LONG_WORD[:200],
    "email": f"{'nombrelargo' * 5}@{'dominio-largo-' * 4}x.{'subdominio' * 5}.example.com",
    "telefono": "6" * 40,
    "mensaje": LONG_WORD,
    "tema": LONG_WORD,
    LONG_WORD: {LONG_WORD: [LONG_WORD, {"a": LONG_WORD}]},
}
"""A letter that no line can hold."""

HOSTILE_TEXTS = [
    "<script>alert(1)</script>",
    "</td></tr></table><h1>x</h1>",
    "\"'><img src=http://127.0.0.1:9/x onerror=alert(1)>",
    "<style>@import url(http://127.0.0.1:9/x)</style><link rel=stylesheet href=http://127.0.0.1:9/x>",
    "&lt;b&gt; &amp;amp; &#60; &#0; &#xD800; &notit; &",
    "<!-- x --> <![CDATA[ x ]]> <!doctype x> <?xml?>",
    "<!--[if mso]><b><![endif]-->",
    "{{ 7 * 7 }} {% raw %} {# x #}",
    "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029])),
    "\ufffe\uffff\ufdd0\U0001fffe\U0010ffff\ufeff\ufffd",
    "\u202egro.elpmaxe\u202c \u2066a\u2069 \u200b\u200d\u2060\u00ad",
    "a" + "\u0301" * 200,
]

HOSTILE: dict[str, dict[str, Any]] = {
    ascii(text)[:40]: {
        "nombre": text[:200],
        "empresa": text[:200],
        "telefono": text[:40],
        "mensaje": text,
        "tema": text,
        text: [text, {text: text}],
    }
    for text in HOSTILE_TEXTS
}
"""Letters that try to be something else than text."""

PAGES = {**ORDINARY, "rich": RICH, "long words": LONG_WORDS, **HOSTILE}


def html_of(changes: dict[str, Any]) -> str:
    """The HTML part of the message that the service makes of a letter."""
    message = email.message_from_bytes(compose(changes).content, policy=READER)
    part = message.get_body(("html",))
    assert isinstance(part, EmailMessage)
    return cast("str", part.get_content()).replace("\r\n", "\n")
