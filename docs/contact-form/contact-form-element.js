/** `<contact-form action="…">`: the form of index.html, from which `make docs` writes the markup below. */

import { init } from "./contact-form.js";

class ContactForm extends HTMLElement {
  static observedAttributes = ["action", "email", "home", "lang", "privacy"];
  #release = () => {};

  connectedCallback() {
    // A page that comes back (Turbo, htmx) has the form as it was left.
    if (!this.querySelector(".contact-form")) this.replaceChildren(document.importNode(template.content, true));
    this.attributeChangedCallback();
  }

  disconnectedCallback() {
    this.#release();
  }

  attributeChangedCallback() {
    const root = /** @type {HTMLElement | null} */ (this.querySelector(".contact-form"));
    const form = root?.querySelector("form");
    if (!root || !form || !this.isConnected) return;
    if (this.lang) root.lang = this.lang;
    form.setAttribute("action", this.getAttribute("action") ?? "");
    const [email, home, privacy] = ["email", "home", "privacy"].map((name) => this.getAttribute(name));
    for (const link of root.querySelectorAll("a")) {
      const { part } = link.dataset;
      if (part === "home" && home) link.href = home;
      if (part === "privacy" && privacy) link.href = privacy;
      if (part === "email" && email) [link.href, link.textContent] = [`mailto:${email}`, email];
      if (part === "email") link.parentElement?.toggleAttribute("hidden", !email); // nobody would read the example's
    }
    this.#release = init(form);
  }
}

const MARKUP = String.raw`
<div lang="es" class="contact-form">
<form id="contact-form" class="rows" method="post" accept-charset="utf-8" data-hx-boost="false">
<div data-part="faults" class="notice" role="alert" tabindex="-1" hidden>
<strong>Revise estos datos antes de enviar la solicitud:</strong>
<ul></ul>
</div>
<fieldset data-part="fields" class="rows" aria-label="Datos de la solicitud">
<fieldset class="kinds" role="radiogroup">
<legend>¿En qué podemos ayudarle?</legend>
<label><input type="radio" name="form_type" value="demo" required
data-missing="Elija en qué podemos ayudarle."> Pedir una demostración</label>
<label><input type="radio" name="form_type" value="ventas"> Hablar con ventas</label>
<label><input type="radio" name="form_type" value="onboarding"> Dar de alta mi comercio</label>
<label><input type="radio" name="form_type" value="distribuidor"> Ser distribuidor</label>
</fieldset>
<fieldset data-kind="ventas" aria-label="Sobre su consulta">
<label for="contact-form-tema">Tema <span class="optional">(opcional)</span></label>
<select id="contact-form-tema" name="tema">
<option value="">Elija un tema</option>
<option value="Tarifas y condiciones">Tarifas y condiciones</option>
<option value="Integración técnica">Integración técnica</option>
<option value="Terminales de pago">Terminales de pago</option>
<option value="Otro tema">Otro tema</option>
</select>
</fieldset>
<fieldset data-kind="distribuidor" aria-label="Sobre la colaboración">
<label for="contact-form-tipo_de_partner">Tipo de colaboración <span class="optional">(opcional)</span></label>
<select id="contact-form-tipo_de_partner" name="tipo_de_partner">
<option value="">Elija un tipo de colaboración</option>
<option value="Integrador">Integrador</option>
<option value="Revendedor">Revendedor</option>
<option value="Agente comercial">Agente comercial</option>
<option value="Otro">Otro</option>
</select>
</fieldset>
<div class="pair">
<div>
<label for="contact-form-nombre">Nombre y apellidos</label>
<input id="contact-form-nombre" name="nombre" autocomplete="name" maxlength="200" required pattern="[^]*\S[^]*"
data-missing="Escriba su nombre.">
</div>
<div>
<label for="contact-form-empresa">Empresa <span class="optional">(opcional)</span></label>
<input id="contact-form-empresa" name="empresa" autocomplete="organization" maxlength="200" data-required-by="onboarding"
data-missing="Escriba el nombre de su empresa o comercio.">
</div>
</div>
<fieldset class="pair" data-kind="onboarding" aria-label="Sobre su comercio">
<div>
<label for="contact-form-sector">Sector <span class="optional">(opcional)</span></label>
<select id="contact-form-sector" name="sector">
<option value="">Elija un sector</option>
<option value="Comercio minorista">Comercio minorista</option>
<option value="Comercio electrónico">Comercio electrónico</option>
<option value="Hostelería y restauración">Hostelería y restauración</option>
<option value="Servicios">Servicios</option>
<option value="Otro sector">Otro sector</option>
</select>
</div>
<div>
<label for="contact-form-volumen_mensual">Volumen mensual <span class="optional">(opcional)</span></label>
<select id="contact-form-volumen_mensual" name="volumen_mensual">
<option value="">Elija un volumen</option>
<option value="Menos de 10.000 €">Menos de 10.000 €</option>
<option value="De 10.000 a 50.000 €">De 10.000 a 50.000 €</option>
<option value="De 50.000 a 250.000 €">De 50.000 a 250.000 €</option>
<option value="Más de 250.000 €">Más de 250.000 €</option>
</select>
</div>
</fieldset>
<div class="pair">
<div>
<label for="contact-form-email">Correo electrónico</label>
<input id="contact-form-email" name="email" inputmode="email" autocomplete="email" autocapitalize="none"
autocorrect="off" spellcheck="false" maxlength="254" required aria-describedby="contact-form-correction"
title="Ejemplo: nombre@example.com"
pattern="(?!.*@-|.*@.*(?:\.-|-\.|\.local\s*$))\s*[^\s\p{C}.@,;:<>\(\)\[\]\\&quot;]+(?:\.[^\s\p{C}.@,;:<>\(\)\[\]\\&quot;]+)*@(?:[\p{L}\p{M}\p{N}·\-]+[.。．｡])+[\p{L}\p{M}\p{N}\-]*[\p{L}\p{M}]\s*"
data-missing="Escriba su correo electrónico."
data-invalid="El correo no es válido. Ejemplo: nombre@example.com">
<p class="help" data-part="slip" hidden>¿Quiso escribir esta dirección?
<button type="button" class="quiet" data-part="meant" translate="no"></button></p>
<p class="help" data-part="correction" hidden><span data-part="note" id="contact-form-correction"></span>
<button type="button" class="quiet" data-part="cancel">Cancelar la corrección</button></p>
</div>
<div>
<label for="contact-form-telefono">Teléfono <span class="optional">(opcional)</span></label>
<input id="contact-form-telefono" name="telefono" type="tel" autocomplete="tel" maxlength="40">
</div>
</div>
<div>
<label for="contact-form-mensaje">Mensaje <span class="optional">(opcional)</span></label>
<textarea id="contact-form-mensaje" name="mensaje" rows="5" maxlength="5000" data-required-by="ventas"
aria-describedby="contact-form-mensaje-count" data-missing="Escriba qué quiere consultarnos."></textarea>
<p class="help" id="contact-form-mensaje-count" data-count="mensaje"></p>
</div>

<div class="visually-hidden" inert aria-hidden="true">
<label for="contact-form-_bp_check">Deje este campo vacío</label>
<input id="contact-form-_bp_check" name="_bp_check" tabindex="-1" autocomplete="off" data-1p-ignore data-lpignore="true">
</div>
<fieldset class="check" data-part="captcha" aria-label="Comprobación" disabled>
<label for="contact-form-captcha_input">Código de la imagen</label>
<p class="help" id="contact-form-captcha-help">Escriba los cinco caracteres de la imagen. Puede usar minúsculas.</p>
<div class="captcha">
<canvas data-part="image" translate="no" role="img" aria-label="Imagen con los cinco caracteres del código"></canvas>
<button type="button" class="quiet icon" data-part="renew" title="Otra imagen">
<svg viewBox="0 0 24 24" aria-hidden="true"><path d="M20 12a8 8 0 1 1-2.3-5.7L20 8.5M20 3v5.5h-5.5"/></svg>
<span class="visually-hidden">Otra imagen</span>
</button>
<button type="button" class="quiet icon" data-part="listen" title="Escuchar el código" hidden>
<svg viewBox="0 0 24 24" aria-hidden="true"><path d="M4 9.5v5h3.5L12 18.5v-13L7.5 9.5zM15.5 9a4 4 0 0 1 0 6M18 6a8 8 0 0 1 0 12"/></svg>
<span class="visually-hidden">Escuchar el código</span>
</button>
<input id="contact-form-captcha_input" name="captcha_input" autocomplete="off" autocapitalize="none" autocorrect="off"
spellcheck="false" translate="no" maxlength="5" required aria-describedby="contact-form-captcha-help"
data-missing="Escriba los cinco caracteres de la imagen."
data-invalid="El código no coincide con la imagen. Revíselo o pida otra imagen.">
</div>
<p class="help">Si no puede leer la imagen, escríbanos a <a data-part="email" href="mailto:ventas@example.com">ventas@example.com</a>.</p>
</fieldset>
</fieldset>
<div data-part="outcome" class="rows">
<div data-part="summary" class="notice" role="alert" tabindex="-1" hidden>
<strong></strong>
<p></p>
<small></small>
<small>Si nos consulta por este error, indique este identificador (por teléfono bastan los ocho primeros
caracteres): <code translate="no"></code></small>
</div>
<div class="send" data-part="question" hidden>
<button type="button" data-part="again" aria-describedby="contact-form-progress">Enviar otra vez</button>
<button type="button" class="quiet" data-part="leave">No, dejarlo así</button>
</div>
<div class="send" data-part="send">
<button type="submit" data-part="submit" aria-describedby="contact-form-progress">Enviar solicitud</button>
<button type="button" class="quiet" data-part="give-up" hidden>Dejar de esperar</button>
</div>
<p data-part="progress" id="contact-form-progress"></p>
</div>
<p class="help">Usaremos sus datos solo para responderle. <a data-part="privacy" href="/privacidad">Política de privacidad</a></p>
</form>
<section data-part="end" class="rows" aria-labelledby="contact-form-end-title" hidden>
<h1 data-part="end-title" id="contact-form-end-title" tabindex="-1"></h1>
<p data-part="end-text"></p>
<p class="reference"><strong data-part="reference" translate="no"></strong>
Referencia. Téngala a mano si vuelve a escribirnos.</p>
<p>Le responderemos a <strong data-part="address" translate="no"></strong><span data-part="term"> en un día
hábil</span>. <button type="button" class="link" data-part="correct">Corregir el correo</button></p>
<details>
<summary>Copia de su solicitud</summary>
<pre data-part="copy" translate="no"></pre>
<button type="button" class="quiet" data-part="copy-button">Copiar</button> <span data-part="copied"></span>
</details>
<div class="send">
<a class="button" data-part="home" href="/">Volver a la página principal</a>
<button type="button" class="quiet" data-part="restart">Enviar otra solicitud</button>
</div>
</section>
<p data-part="plain" class="help">Puede enviar el formulario; la confirmación será un texto sin formato.</p>
<p data-part="status" class="visually-hidden" role="status"></p>
<script type="application/json" id="contact-texts">
{
"error_title": "Error: {title}",
"check_field": "Revise este dato.",
"too_long": "{label}: escriba {limit} caracteres como máximo.",
"characters_left": "Caracteres que le quedan: {count}",
"characters_over": "Caracteres que sobran: {count}",
"sending": "Enviando…",
"slow": "Está tardando más de lo habitual.",
"countdown": "Podrá enviarla en {seconds} segundos.",
"countdown_over": "Ya puede enviarla.",
"send_again": "Enviar otra vez",
"left": "No se ha enviado otra vez.",
"copied": "Copiada.",
"not_copied": "No hemos podido copiarlo. Está seleccionado: cópielo con el teclado o el menú.",
"technical": "Detalle técnico: {code}",
"note_correction": "Esta solicitud corrige el correo de la solicitud {reference}.",
"note_again": "Puede estar repetida: se perdió la respuesta al primer envío.",
"sent": ["Hemos recibido su solicitud", "Gracias por escribirnos. Nuestro equipo comercial ya la tiene."],
"kept": ["Hemos guardado su solicitud", "Todavía no ha llegado a nuestro equipo comercial, pero está guardada y nos ocupamos de que llegue. No tiene que enviarla otra vez."],
"titles": {
"wait": "Espere unos segundos para enviar su solicitud",
"not_sent": "Su solicitud no se ha enviado",
"doubt": "No sabemos si su solicitud ha llegado",
"site": "No podemos recibir su solicitud por esta página"
},
"endings": {
"not_sent": "Lo que ha escrito sigue aquí.",
"doubt": "¿Quiere enviarla otra vez? Si llega dos veces, nuestro equipo verá que está repetida.",
"site": "Póngase en contacto con nosotros por otro medio."
},
"errors": {
"bad_captcha": "El código no coincide con la imagen. La hemos cambiado: escriba el código nuevo.",
"rate_limit": "Acabamos de recibir otra solicitud desde su misma conexión a internet.",
"wait": "Llegan muchas peticiones desde su misma conexión a internet.",
"too_fast.too_early": "El reloj de su dispositivo está adelantado. Ya lo hemos tenido en cuenta y no tiene que cambiar nada.",
"too_fast.expired": "El reloj de su dispositivo está atrasado. Ya lo hemos tenido en cuenta y no tiene que cambiar nada.",
"mail_delivery_failed": "No hemos podido entregarla ni guardarla: envíela otra vez.",
"invalid_body.too_large": "Es más larga de lo que podemos recibir: acórtela y envíela otra vez.",
"offline": "No hay conexión a internet: envíela cuando la recupere.",
"lost": "La conexión se ha cortado antes de que llegara nuestra respuesta.",
"timeout": "Hemos esperado la respuesta {seconds} segundos y no ha llegado.",
"given_up": "Hemos dejado de esperar la respuesta.",
"internal_error": "Se ha producido un error en nuestro servicio.",
"doubt": "El servicio no está disponible en este momento o no ha respondido como debía.",
"site": "Es un error nuestro, no de lo que ha escrito."
}
}
</script>
</div>
`;

const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy("contact-form", { createHTML: String });
const template = document.createElement("template");
template.innerHTML = policy?.createHTML(MARKUP) ?? MARKUP;
customElements.define("contact-form", ContactForm);
