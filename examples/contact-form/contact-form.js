/**
 * Sends the contact form in the background and shows the answer where it belongs. Without this module the browser
 * sends the form by itself, without a captcha. Every text and the service's address stand in the page: here is none.
 */

const part = (name) => document.getElementById(`contact-${name}`);
const [form, fields, faultList, summary, question] = ["form", "fields", "faults", "summary", "question"].map(part);
const [sendRow, giveUp, again, progress] = ["send", "give-up", "again", "progress"].map(part);
const [confirmation, status] = ["end", "status"].map(part);
const texts = JSON.parse(part("texts").textContent);
const { title } = document;
const button = form.querySelector("[type=submit]");
const buttonText = button.textContent;
const canvas = form.querySelector("#captcha-image");

const SLOW_MS = 2_000;
const GIVE_UP_MS = 10_000;
const TIMEOUT_MS = 30_000;
/** The ages between which the service takes a form; the margin is for clocks that differ a little. */
const MIN_AGE_MS = 2_000;
const MAX_AGE_MS = 3_600_000;
const AGE_MARGIN_MS = 500;
const CAPTCHA_LENGTH = 5;
/** Without 0 and O, 1, I and L, 2 and Z, 5 and S, 6 and G, 8 and B, U and V: a distorted image confuses them. */
const CAPTCHA_ALPHABET = "ACDEFHJKMNPRTWXY3479";

/** The errors that concern a field. */
const FIELDS = { bad_captcha: "captcha_input", invalid_email: "email", invalid_form_type: "form_type" };
/**
 * What other errors mean: `wait`, it can be sent in a moment; `not_sent`, it has to be sent again. Another 4xx is the
 * website's fault (`site`), and all else leaves it in `doubt` whether the message has arrived.
 */
const KINDS = {
  rate_limit: "wait",
  rate_limit_exceeded: "wait",
  too_fast: "wait",
  429: "wait", // a network's own limit
  mail_delivery_failed: "not_sent", // with `details.kept` it is no error to the visitor
  "invalid_body.too_large": "not_sent",
  offline: "not_sent",
};

/** How far the visitor's clock is behind the service's, if that is known, in milliseconds. */
let skew = 0;
const now = () => Date.now() + skew;
/** The time at which the form was rendered, in epoch milliseconds. */
let ts = now();
let code = "";
const notes = new Set(); // for the sales team, when this message corrects or may repeat another
let sending = new AbortController();
let countdown;
let announcement;

const unanswered = new URLSearchParams(history.state?.unanswered);
const limits = new Map();
for (const control of form.elements) {
  if (control.maxLength > 0) limits.set(control, control.maxLength);
  control.removeAttribute("maxlength"); // the browser would cut what is pasted without a word
  const values = unanswered.getAll(control.name);
  if (/radio|checkbox/.test(control.type)) control.checked ||= values.includes(control.value);
  else if (values.length && control.type !== "file") control.value = values[0];
}
form.noValidate = true; // the browser's bubbles may speak another language
form.querySelector("#captcha").disabled = false;
part("plain").hidden = true;
part("copy-button").hidden = !navigator.clipboard; // on a page without TLS
renewCaptcha();
offerToRead();
if (unanswered.size) showError({ code: "given_up" }); // the page was left or loaded again meanwhile

form.addEventListener("submit", submit);
form.addEventListener("change", showKind);
form.addEventListener("input", ({ target }) => {
  setFault(target.name, "");
  countCharacters(target);
});
form.querySelector("#captcha-renew").addEventListener("click", () => {
  renewCaptcha();
  form.elements.captcha_input.focus();
});
giveUp.addEventListener("click", () => sending.abort("given_up"));
again.addEventListener("click", () => {
  if (!button.ariaDisabled) closeQuestion();
  submit();
});
part("leave").addEventListener("click", () => {
  closeQuestion();
  say(texts.left);
});
part("correct").addEventListener("click", correctAddress);
part("restart").addEventListener("click", startAgain);
part("copy-button").addEventListener("click", async () => {
  await navigator.clipboard.writeText(part("copy").textContent);
  part("copied").textContent = status.textContent = texts.copied;
});
addEventListener("pageshow", () => {
  if (history.state?.isEnd && !form.hidden) {
    form.reset(); // a browser that goes back restores what has arrived, ready to be sent again
    mark({ isEnd: false });
  }
  chooseKind(); // not before: a browser that goes back restores nothing in a group that is disabled
});
document.addEventListener("click", ignoreSecondClick, true);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCaptcha);

/** Let the second of a double click not hit the button that the first has put in its place. */
function ignoreSecondClick(event) {
  if (event.detail < 2 || !event.target.closest("button")) return;
  event.preventDefault();
  event.stopPropagation();
}

/** Check the fields here, because every request spends the visitor's quota; then send. */
async function submit(event) {
  event?.preventDefault();
  if (button.ariaDisabled) return say(progress.textContent || texts.sending);
  if (!question.hidden) return summary.focus();
  faultList.hidden = summary.hidden = true;
  document.title = title;
  if (showFaults(findFaults())) return;

  const body = filledIn();
  mark({ unanswered: `${body}` });
  lock(true);
  const { error, headers } = await send(body);
  lock(false);
  mark({ unanswered: "" });
  const { remaining, reset } = quota(headers);
  const tooFast = error?.code === "too_fast";
  if (tooFast) {
    skew = (headers.get("X-RateLimit-Reset") - reset) * 1000 - Date.now();
    ts = now();
  }
  const isKept = error?.details?.kept;
  const kind = error && !isKept ? showError(error, headers) : showEnd(isKept ? "kept" : "sent", headers);
  // A renewed ts needs less time than the refused one, for which Retry-After was meant.
  const retryAfter = tooFast ? 0 : Number(headers.get("Retry-After")) || 0;
  if (kind !== "site") startCountdown(Math.max(retryAfter, remaining ? 0 : reset));
}

/** Let nobody edit what is under way. The button keeps the focus, which one that is disabled would lose. */
function lock(locked) {
  clearTimeout(announcement);
  button.focus();
  fields.disabled = locked;
  button.ariaDisabled = locked || null;
  button.textContent = locked ? texts.sending : buttonText;
  progress.textContent = "";
  status.textContent = locked ? texts.sending : "";
  giveUp.hidden = true;
}

function filledIn() {
  return new URLSearchParams(new FormData(form));
}

/** Keep it, should the page be left or loaded again. */
function mark(state) {
  history.replaceState({ ...history.state, ...state }, "");
}

/** Post the body as plain forms do, for which browsers need no preflight. The `error` is the envelope's or our own. */
async function send(body) {
  await reachAge();
  sending = new AbortController();
  const { signal } = sending;
  const offline = !navigator.onLine;
  const timers = [
    setTimeout(() => say(texts.slow), SLOW_MS),
    setTimeout(() => (giveUp.hidden = false), GIVE_UP_MS),
    setTimeout(() => sending.abort("timeout"), TIMEOUT_MS),
  ];
  try {
    const added = { ts, captcha_expected: code, captcha_input: typedCode(), aviso: [...notes].join(" ") };
    for (const [name, value] of Object.entries(added)) if (value) body.set(name, value);
    const response = await fetch(form.getAttribute("action"), { method: "POST", body, signal });
    const answer = await response.json().catch(() => null); // a proxy may answer with a page of its own
    const error = response.ok && answer?.ok ? undefined : { ...answer?.error, status: response.status };
    return { headers: response.headers, error };
  } catch {
    const reason = signal.aborted ? signal.reason : offline ? "offline" : "lost";
    return { headers: new Headers(), error: { code: reason } };
  } finally {
    timers.forEach(clearTimeout);
  }
}

/** Render the form anew when it has become too old, and wait until it is old enough. */
async function reachAge() {
  const age = now() - ts;
  if (age > MAX_AGE_MS - TIMEOUT_MS || age < 0) ts = now();
  const wait = ts + MIN_AGE_MS + AGE_MARGIN_MS - now();
  if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
}

/** The fields that the service would refuse, each with a text. */
function findFaults() {
  const faults = {};
  for (const control of form.elements) {
    const text = control.name && control.willValidate && faultOf(control);
    if (text) faults[control.name] ??= text;
  }
  return faults;
}

function faultOf(control) {
  const { value, required, validity, dataset } = control;
  if (validity.valueMissing || (required && !value.trim())) return dataset.missing ?? texts.check_field;
  if (control.name === "captcha_input") return typedCode() === code ? "" : dataset.invalid;
  if (roomIn(control) < 0) return fill(texts.too_long, { label: labelOf(control), limit: limits.get(control) });
  return validity.valid ? "" : (dataset.invalid ?? texts.check_field);
}

/** The room that is left. A character of any encoding counts once, and so does a line break, as in the service. */
function roomIn(control) {
  return limits.get(control) - [...control.value].length;
}

/** Say how much room is left when it is less than a tenth. */
function countCharacters(control) {
  const place = document.getElementById(`${control.name}-count`);
  if (!place) return;
  const room = roomIn(control);
  const text = room < 0 ? texts.characters_over : texts.characters_left;
  place.textContent = room < limits.get(control) / 10 ? fill(text, { count: Math.abs(room) }) : "";
  place.classList.toggle("over", room < 0);
  clearTimeout(announcement);
  // Screen readers are told when the visitor pauses.
  if (place.textContent) announcement = setTimeout(() => (status.textContent = place.textContent), 1000);
}

/** Show an error beside the fields that it concerns, else above the button; returns its kind. */
function showError({ code: name, status: httpStatus, details }, headers = new Headers()) {
  if (name === "bad_captcha") renewCaptcha();
  const named = Object.keys(details?.fields ?? { [FIELDS[name]]: "" }).filter((field) => form.elements[field]);
  const ownText = FIELDS[name] && texts.errors[name];
  const textOf = (field) => ownText ?? controlOf(field).dataset.invalid ?? texts.check_field;
  if (showFaults(Object.fromEntries(named.map((field) => [field, textOf(field)])))) return "field";

  const keys = [`${name}.${details?.reason}`, name, httpStatus];
  const kind = keys.map((key) => KINDS[key]).find(Boolean) ?? (/^4/.test(httpStatus) ? "site" : "doubt");
  const text = [...keys, kind].map((key) => texts.errors[key]).find(Boolean);
  summary.dataset.error = kind;
  const id = headers.get("X-Request-ID"); // no answer, no id
  const [heading, advice, technical, identifier] = summary.children;
  heading.textContent = texts.titles[kind];
  advice.textContent = `${fill(text, { seconds: TIMEOUT_MS / 1000 })} ${texts.endings[kind]}`;
  technical.textContent = kind === "site" ? fill(texts.technical, { code: name ?? httpStatus }) : "";
  identifier.hidden = !id || kind === "wait";
  identifier.lastElementChild.textContent = id;
  if (kind === "not_sent") button.textContent = texts.send_again;
  if (kind === "doubt") {
    notes.add(texts.note_again);
    ask(true);
  }
  summary.hidden = false;
  summary.focus();
  return kind;
}

/** Ask whether a form is sent again whose answer was lost. The sales team is told if it is. */
function ask(isOpen) {
  question.hidden = !isOpen;
  sendRow.hidden = isOpen;
  mark({ unanswered: isOpen ? `${filledIn()}` : "" });
}

function closeQuestion() {
  ask(false);
  summary.hidden = true;
  button.textContent = texts.send_again;
  button.focus();
}

/**
 * Put each text beside its field. The focus goes into the field; when they are several, onto a list with links to them.
 * @returns {boolean} true when there are any
 */
function showFaults(faults) {
  const names = Object.keys(faults);
  if (!names.length) return false;
  const isPlaced = names.map((name) => setFault(name, faults[name])).every(Boolean);
  document.title = fill(texts.error_title, { title });
  if (names.length === 1 && isPlaced) {
    controlOf(names[0]).focus();
    return true;
  }
  const items = names.map((name) => {
    const [item, link] = ["li", "a"].map((tag) => document.createElement(tag));
    link.href = `#${controlOf(name).id}`;
    link.textContent = faults[name];
    link.addEventListener("click", (event) => {
      event.preventDefault(); // a link alone would not move the focus into a field
      controlOf(name).focus();
    });
    item.append(link);
    return item;
  });
  faultList.lastElementChild.replaceChildren(...items);
  faultList.hidden = false;
  faultList.focus();
  return true;
}

/** Of several controls with one name the first. */
function controlOf(name) {
  const named = form.elements[name];
  return named instanceof RadioNodeList ? named[0] : named;
}

/** Mark the element that the text describes, or unmark it when there is no text; false when the page has no place. */
function setFault(name, text) {
  const described = form.querySelector(`[aria-describedby~="${name}-error"]`);
  if (!described) return false;
  document.getElementById(`${name}-error`).textContent = text;
  if (text) described.setAttribute("aria-invalid", "true");
  else described.removeAttribute("aria-invalid");
  return true;
}

/** Show that the message is `sent`, or `kept` by the service, which delivers it later. */
function showEnd(kind, headers) {
  const reference = referenceOf(headers);
  [part("end-title").textContent, part("end-text").textContent] = texts[kind];
  part("reference").textContent = reference;
  part("reference").parentElement.hidden = !reference;
  part("address").textContent = form.elements.email.value.trim();
  part("term").hidden = kind === "kept";
  part("copy").textContent = whatWasTyped();
  part("copied").textContent = "";
  confirmation.querySelector("details").open = kind === "kept";
  notes.clear();
  show(true, texts[kind][0]);
  confirmation.focus();
}

/** Show the end in place of the form, or the form again. */
function show(isEnd, pageTitle) {
  part("intro").hidden = form.hidden = isEnd;
  confirmation.hidden = !isEnd;
  document.title = pageTitle;
  mark({ isEnd });
}

/** What is sent of what the visitor sees, under the labels of the page. */
function whatWasTyped() {
  const lines = [];
  for (const control of form.elements) {
    if (!control.labels?.length || !control.value || control.matches(":disabled, #captcha_input")) continue;
    if (!control.matches("[type=radio], [type=checkbox]")) lines.push(`${labelOf(control)}: ${control.value}`);
    else if (control.checked) lines.push(labelOf(control));
  }
  return lines.join("\n");
}

function labelOf(control) {
  return [...control.labels[0].childNodes].map((node) => node.nodeValue?.trim()).find(Boolean);
}

/** Go back to the form as it was sent. What is sent then names the one that it corrects. */
function correctAddress() {
  const reference = part("reference").textContent;
  if (reference) notes.add(fill(texts.note_correction, { reference }));
  returnToForm();
  form.elements.email.select();
}

function startAgain() {
  form.reset();
  for (const control of limits.keys()) countCharacters(control);
  chooseKind();
  returnToForm();
  controlOf("form_type").focus();
}

function returnToForm() {
  part("term").hidden = false;
  show(false, title);
  renewCaptcha();
}

/** Choose the kind that the address of the page asks for, as in `?tipo=ventas`, unless one is chosen. */
function chooseKind() {
  form.elements.form_type.value ||= new URLSearchParams(location.search).get("tipo");
  showKind();
}

/** Show and require the fields of the chosen kind; those of the others are disabled and so are not sent. */
function showKind() {
  const kind = form.elements.form_type.value;
  for (const group of form.querySelectorAll("[data-kind]")) group.disabled = group.dataset.kind !== kind;
  for (const control of form.querySelectorAll("[data-required-by]")) {
    const isRequired = control.dataset.requiredBy === kind;
    if (control.required && !isRequired) setFault(control.name, "");
    control.required = control.labels[0].querySelector(".optional").hidden = isRequired;
  }
}

/** Tell it beside the button and, without a move of the focus, to screen readers. */
function say(text) {
  progress.textContent = status.textContent = text;
}

/** The contact quota after this answer: the requests that remain, and the seconds until it is reset. */
function quota(headers) {
  const [, remaining = 1, reset = 0] = /r=(\d+);t=(\d+)/.exec(headers.get("RateLimit")) ?? [];
  return { remaining: Number(remaining), reset: Number(reset) };
}

/** The name of the submission in the sales team's message, such as `3F0C-9A1B`; empty without an id. */
function referenceOf(headers) {
  const id = headers.get("X-Request-ID")?.toUpperCase();
  return id ? `${id.slice(0, 4)}-${id.slice(4, 8)}` : "";
}

/** Let nothing be sent for these seconds. Screen readers hear the start and the end, not each second. */
function startCountdown(seconds) {
  clearInterval(countdown);
  if (!seconds) return;
  const end = performance.now() + seconds * 1000;
  button.ariaDisabled = again.ariaDisabled = true;
  const tick = () => {
    const left = Math.ceil((end - performance.now()) / 1000);
    const text = left > 0 ? fill(texts.countdown, { seconds: left }) : texts.countdown_over;
    progress.textContent = form.hidden && left <= 0 ? "" : text;
    if (left === seconds || left <= 0) status.textContent = form.hidden ? "" : text;
    if (left > 0) return;
    clearInterval(countdown);
    button.ariaDisabled = again.ariaDisabled = null;
    if (summary.dataset.error === "wait") summary.hidden = true;
  };
  countdown = setInterval(tick, 1000);
  tick();
}

function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

function typedCode() {
  return form.elements.captcha_input.value.replace(/\s/g, "").toUpperCase();
}

function renewCaptcha() {
  const pick = () => CAPTCHA_ALPHABET[Math.floor(Math.random() * CAPTCHA_ALPHABET.length)];
  code = Array.from({ length: CAPTCHA_LENGTH }, pick).join("");
  form.elements.captcha_input.value = "";
  setFault("captcha_input", "");
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
    pen.font = `${(between(0.93, 1.1) * width) / (CAPTCHA_LENGTH + 0.5)}px Georgia, "Times New Roman", serif`;
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
    utterance.lang = document.documentElement.lang;
    utterance.rate = 0.7;
    voices.cancel();
    voices.speak(utterance);
  });
}
