/**
 * Sends the contact form in the background and shows the answer where it belongs. Without this module the form still
 * works: the browser then sends it by itself, without a captcha, and shows the service's JSON.
 *
 * The address of the service stands in the form's `action` and nowhere else.
 */

const form = document.querySelector("#contact-form");
const summary = document.querySelector("#contact-summary");
const confirmation = document.querySelector("#contact-confirmation");
const status = document.querySelector("#contact-status");
const countdown = form.querySelector("#countdown");
const button = form.querySelector("[type=submit]");
const buttonText = button.textContent;
const captcha = form.querySelector("#captcha");
const canvas = form.querySelector("#captcha-image");

const TIMEOUT_MS = 30_000;
const CAPTCHA_LENGTH = 5;
/** Without 0 and O, 1, I and L, 2 and Z, 5 and S, 6 and G, 8 and B, U and V: a distorted image confuses them. */
const CAPTCHA_ALPHABET = "ACDEFHJKMNPRTWXY3479";

const UNNAMED_FAULT = "Revise los datos que ha escrito.";
const WAIT = {
  advice: "Lo que ha escrito sigue aquí: podrá enviarlo cuando se active el botón.",
  expected: true,
};
const SITE_FAULT = {
  advice:
    "No se debe a lo que ha escrito, sino a un fallo de esta página. Póngase en contacto con nosotros por otro medio.",
  technical: true,
};

/**
 * Each `error.code` with the field that it concerns, and advice for the visitor in place of the service's hint.
 * `technical` shows the hint all the same, to help the people who look after the website. With an error that is not
 * `expected` the visitor sees the request id, by which they find it in their logs.
 */
const ERRORS = {
  bad_captcha: { field: "captcha_input", advice: "Hemos cambiado la imagen: escriba el código nuevo." },
  invalid_email: { field: "email", advice: "Revísela; por ejemplo: nombre@example.com." },
  invalid_form_type: { field: "form_type", advice: "Elija otra opción." },
  invalid_body: SITE_FAULT, // unless `details.fields` says which fields are at fault
  rate_limit: WAIT,
  rate_limit_exceeded: WAIT,
  too_fast: WAIT,
  mail_delivery_failed: {}, // `details.kept` says which advice is right
  internal_error: {}, // the service's hint suits a visitor
  method_not_allowed: SITE_FAULT,
  invalid_parameter: SITE_FAULT,
  api_version_sunset: SITE_FAULT,
  not_found: SITE_FAULT,
  endpoint_not_found: SITE_FAULT,
  unsupported_api_version: SITE_FAULT,
};

const KEPT = {
  advice:
    "Su mensaje ha quedado guardado para entregarlo más tarde: no es necesario que lo envíe otra vez. Si es urgente" +
    " o no recibe respuesta, póngase en contacto con nosotros por otro medio.",
  expected: true, // it has a reference, so the request id would be one name too many
};
const NOT_KEPT = {
  advice:
    "Su mensaje no ha quedado guardado. Lo que ha escrito sigue aquí: envíelo de nuevo más tarde o póngase en contacto" +
    " con nosotros por otro medio.",
};

const UNREACHABLE = {
  message: "No hemos podido conectar con el servicio.",
  hint: "Compruebe su conexión a internet e inténtelo de nuevo. Lo que ha escrito sigue aquí.",
};
const UNREADABLE = {
  message: "El servicio no está disponible en este momento.",
  hint: "Inténtelo de nuevo dentro de unos minutos. Lo que ha escrito sigue aquí.",
};

/** The time at which the form was rendered, in epoch milliseconds: the service refuses one too young or too old. */
let ts = Date.now();
let code = "";
let timer;

form.noValidate = true; // the browser's own bubbles speak its language, which may not be the page's
captcha.hidden = captcha.disabled = false;
showKind();
renewCaptcha();

form.addEventListener("submit", submit);
form.addEventListener("change", showKind);
form.addEventListener("input", ({ target }) => setFault(target.name, ""));
form.querySelector("#captcha-renew").addEventListener("click", () => {
  renewCaptcha();
  form.elements.captcha_input.focus();
});
confirmation.querySelector("button").addEventListener("click", startAgain);
addEventListener("pageshow", showKind); // a browser that goes back may restore another kind
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCaptcha);
offerToRead();

/** Check the fields here, because every request spends the visitor's quota; then send. */
async function submit(event) {
  event.preventDefault();
  if (button.disabled) return;
  summary.hidden = true;
  const faults = findFaults();
  if (showFaults(faults)) return;
  if (Object.keys(faults).length) return showError({ message: UNNAMED_FAULT });

  button.disabled = true;
  button.textContent = status.textContent = "Enviando…";
  countdown.textContent = "";
  const { headers, message, error } = await send();
  button.textContent = buttonText;
  if (error?.code === "too_fast") ts = serviceTime(headers);
  if (error) showError(error, headers);
  else showConfirmation(message, referenceOf(headers));
  // A renewed ts needs less time than the refused one, for which Retry-After was meant.
  startCountdown(error?.code === "too_fast" ? quota(headers).reset : secondsToWait(headers));
}

/** @returns {Promise<{headers: Headers, message?: string, error?: object}>} the confirmation or the error */
async function send() {
  // In the encoding that a form has by itself, for which browsers do not ask the service with a preflight first.
  const body = new URLSearchParams(new FormData(form));
  body.set("ts", ts);
  body.set("captcha_expected", code);
  let response;
  try {
    response = await fetch(form.action, { method: "POST", body, signal: AbortSignal.timeout(TIMEOUT_MS) });
  } catch {
    return { headers: new Headers(), error: UNREACHABLE };
  }
  const answer = await response.json().catch(() => null); // a proxy may answer with a page of its own
  if (response.ok && answer?.ok) return { headers: response.headers, message: answer.message };
  return { headers: response.headers, error: answer?.error?.message ? answer.error : UNREADABLE };
}

/** Fields that the service would refuse, with a text for each. */
function findFaults() {
  const faults = {};
  for (const control of form.elements) {
    if (!control.willValidate || control.validity.valid) continue;
    const missing = control.validity.valueMissing || !control.value.trim();
    faults[control.name] = (missing ? control.dataset.missing : control.dataset.invalid) ?? UNNAMED_FAULT;
  }
  const typed = form.elements.captcha_input;
  if (typed.value && typed.value.toUpperCase() !== code) faults.captcha_input = typed.dataset.invalid;
  return faults;
}

/** Show an error beside the fields that it concerns, else above the button. A message that is kept has a reference. */
function showError(error, headers = new Headers()) {
  const { hint = "" } = error;
  const known = { true: KEPT, false: NOT_KEPT }[error.details?.kept] ?? ERRORS[error.code] ?? {};
  const { field, advice = hint, technical, expected } = known;
  if (error.code === "bad_captcha") renewCaptcha();
  if (showFaults(error.details?.fields ?? (field ? { [field]: `${error.message} ${advice}` } : {}))) return;

  const line = (tag, textContent) => Object.assign(document.createElement(tag), { textContent });
  summary.replaceChildren(line("strong", error.message), line("p", advice));
  if (error.details?.kept) summary.append(line("p", referenceOf(headers)));
  if (technical) summary.append(line("small", `Detalle técnico (${error.code}): ${hint}`));
  const id = headers.get("X-Request-ID"); // no answer, no id
  if (id && !expected) {
    summary.append(line("small", "Si nos consulta por este error, indique este identificador: "));
    summary.lastChild.append(line("code", id));
  }
  summary.hidden = false;
  summary.focus();
}

/**
 * Put each text beside its field and the focus into the first of them.
 * @param {Record<string, string | string[]>} faults
 * @returns {boolean} true when the form has any of these fields
 */
function showFaults(faults) {
  for (const [name, texts] of Object.entries(faults)) setFault(name, [texts].flat().join(" "));
  const first = form.querySelector("[aria-invalid=true]");
  (first?.querySelector("input") ?? first)?.focus();
  return first !== null;
}

/** Mark the element that the field's error text describes, or unmark it when the text is empty. */
function setFault(name, text) {
  const described = form.querySelector(`[aria-describedby~="${name}-error"]`);
  if (!described) return;
  form.querySelector(`#${name}-error`).textContent = text;
  if (text) described.setAttribute("aria-invalid", "true");
  else described.removeAttribute("aria-invalid");
}

function showConfirmation(message, reference) {
  const [first, second] = confirmation.querySelectorAll("p");
  first.textContent = message;
  second.textContent = reference;
  form.hidden = true;
  confirmation.hidden = false;
  confirmation.focus();
}

function startAgain() {
  form.reset();
  ts = Date.now();
  confirmation.hidden = true;
  form.hidden = false;
  showKind();
  renewCaptcha();
  form.querySelector("input").focus();
}

/** Show the fields of the chosen kind; those of the others are disabled and so are not sent. */
function showKind() {
  const kind = form.elements.form_type.value;
  for (const part of form.querySelectorAll("[data-kind]")) part.hidden = part.disabled = part.dataset.kind !== kind;
}

/** @returns {{remaining: number, reset: number}} the contact quota after this answer; `reset` is in seconds */
function quota(headers) {
  const [, remaining = 1, reset = 0] = /r=(\d+);t=(\d+)/.exec(headers.get("RateLimit")) ?? [];
  return { remaining: Number(remaining), reset: Number(reset) };
}

/** The line that names the submission as the sales team's message does, such as `Referencia: 3F0C-9A1B`. */
function referenceOf(headers) {
  const [, first, second] = /^(....)(....)/.exec(headers.get("X-Request-ID")?.toUpperCase()) ?? [];
  return first ? `Referencia: ${first}-${second}` : "";
}

function secondsToWait(headers) {
  const { remaining, reset } = quota(headers);
  return Math.max(Number(headers.get("Retry-After")) || 0, remaining ? 0 : reset);
}

/** The service's clock in epoch milliseconds, good to a second: the visitor's own may be hours off. */
function serviceTime(headers) {
  return (Number(headers.get("X-RateLimit-Reset")) - quota(headers).reset) * 1000;
}

/** Keep the button disabled for these seconds. Screen readers hear the start and the end, not each second. */
function startCountdown(seconds) {
  const end = Date.now() + seconds * 1000;
  status.textContent = seconds && !form.hidden ? `Podrá enviar el formulario dentro de ${seconds} segundos.` : "";
  clearInterval(timer);
  const tick = () => {
    const left = Math.ceil((end - Date.now()) / 1000);
    countdown.textContent = left > 0 ? `Podrá enviarlo dentro de ${left} s` : "";
    if (left > 0) return;
    clearInterval(timer);
    button.disabled = false;
    if (!seconds || form.hidden) return;
    countdown.textContent = "Ya puede enviarlo.";
    status.textContent = "Ya puede enviar el formulario.";
  };
  timer = setInterval(tick, 1000);
  tick();
}

function renewCaptcha() {
  const pick = () => CAPTCHA_ALPHABET[Math.floor(Math.random() * CAPTCHA_ALPHABET.length)];
  code = Array.from({ length: CAPTCHA_LENGTH }, pick).join("");
  form.elements.captcha_input.value = "";
  drawCaptcha();
}

/** Draw the code in the colour that the style sheet gives the canvas, as sharp as the screen is. */
function drawCaptcha() {
  const between = (low, high) => low + Math.random() * (high - low);
  const { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = width * devicePixelRatio;
  canvas.height = height * devicePixelRatio;
  const pen = canvas.getContext("2d");
  pen.scale(devicePixelRatio, devicePixelRatio);
  pen.fillStyle = pen.strokeStyle = getComputedStyle(canvas).color;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  for (const [index, character] of [...code].entries()) {
    pen.save();
    pen.font = `${between(34, 40)}px Georgia, "Times New Roman", serif`;
    pen.translate((width * (index + 0.75)) / (CAPTCHA_LENGTH + 0.5), height / 2 + between(-5, 5));
    pen.transform(1, between(-0.25, 0.25), between(-0.3, 0.3), 1, 0, 0);
    pen.fillText(character, 0, 0);
    pen.restore();
  }
  for (let line = 0; line < 3; line += 1) {
    const [start, bend, end] = Array.from({ length: 3 }, () => between(0.1, 0.9) * height);
    pen.beginPath();
    pen.moveTo(0, start);
    pen.quadraticCurveTo(width / 2, bend, width, end);
    pen.stroke();
  }
}

/** Let the browser read the code to those who cannot see it, if it has a voice. */
function offerToRead() {
  const listen = form.querySelector("#captcha-listen");
  const voices = window.speechSynthesis;
  if (!voices) return;
  const offer = () => (listen.hidden = !voices.getVoices().length);
  offer();
  voices.addEventListener?.("voiceschanged", offer);
  listen.addEventListener("click", () => {
    const utterance = new SpeechSynthesisUtterance([...code].join(". "));
    utterance.lang = "es-ES";
    utterance.rate = 0.7;
    voices.cancel();
    voices.speak(utterance);
  });
}
