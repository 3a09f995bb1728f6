/** Sends contact forms in the background and shows the answer. Every text stands in the page. */

const SLOW_MS = 2_000;
const GIVE_UP_MS = 10_000;
const TIMEOUT_MS = 30_000;
/** The ages between which the service takes a form. */
const MIN_AGE_MS = 2_000;
const MAX_AGE_MS = 3_600_000;
const AGE_MARGIN_MS = 500;
const CAPTCHA_LENGTH = 5;
const CAPTCHA_ALPHABET = "ACDEFHJKMNPRTWXY3479";
const PROVIDERS = ["gmail", "hotmail", "outlook", "yahoo", "icloud", "ymail", "email", "mail"].map(
  (name) => `${name}.com`,
);

const FIELDS = { bad_captcha: "captcha_input", invalid_email: "email", invalid_form_type: "form_type" };
/** Other codes. Any other 4xx is the website's fault (`site`); all else leaves a `doubt`. */
const KINDS = {
  rate_limit: "wait",
  rate_limit_exceeded: "wait",
  too_fast: "wait",
  429: "wait", // a network's own limit
  mail_delivery_failed: "not_sent", // no error with `details.kept`
  "invalid_body.too_large": "not_sent",
  offline: "not_sent",
};

const alive = new WeakSet();
let count = 1;

/** Bring a form to life, once. Those that the page comes with need no call. @param {HTMLFormElement} form */
export function init(form) {
  if (alive.has(form)) return;
  alive.add(form);
  const root = /** @type {HTMLElement} */ (form.closest(".contact-form"));
  numberIds(root, form.id);

  const [fields, faultList, summary, question] = ["fields", "faults", "summary", "question"].map(part);
  const [outcome, sendRow, button, giveUp, again] = ["outcome", "send", "submit", "give-up", "again"].map(part);
  const [progress, status, confirmation, heading] = ["progress", "status", "end", "end-title"].map(part);
  const [copied, correction, slip, meant] = ["copy", "correction", "slip", "meant"].map(part);
  const [email, captcha] = ["email", "captcha_input"].map(controlOf);
  const texts = JSON.parse(document.getElementById("contact-texts")?.textContent ?? "");
  const { title } = document;
  const buttonText = button.textContent;

  let skew = 0; // how far the visitor's clock is behind the service's
  const now = () => Date.now() + skew;
  let ts = now();
  let code = "";
  let asked = ""; // the address of which a slip was asked about
  let sending = new AbortController();
  let countdown = 0;
  let announcement = 0;
  /** @type {any} */
  let state = history.state?.[form.id] ?? {};

  const typed = new URLSearchParams(state.typed);
  for (const control of controls()) {
    if (control.maxLength > 0) control.dataset.limit = `${control.maxLength}`;
    control.removeAttribute("maxlength"); // the browser would cut what is pasted without a word
    const values = typed.getAll(control.name);
    if (isTicked(control)) control.checked ||= values.includes(control.value);
    else if (control.type !== "file") control.value ||= values[0] ?? "";
  }
  form.noValidate = true; // the browser's bubbles may speak another language
  part("captcha").removeAttribute("disabled");
  part("plain").hidden = true;
  if (state.end) show();
  renewCaptcha();
  offerToRead();
  countDown();
  if (state.isCorrection) email.focus();
  if (state.doubt) showError(state.doubt);
  // Later, because browsers that go back restore nothing in a disabled group.
  if (document.readyState === "complete") prefill();
  else addEventListener("pageshow", prefill, { once: true });

  form.addEventListener("submit", submit);
  form.addEventListener("change", () => {
    showKind();
    askAboutSlip();
  });
  form.addEventListener("input", (/** @type {any} */ { target }) => {
    setFault(target.name);
    countCharacters(target);
  });
  onClick("renew", () => {
    renewCaptcha();
    captcha.focus();
  });
  onClick("meant", () => {
    email.value = meant.textContent;
    setFault("email");
    askAboutSlip();
    email.focus();
  });
  onClick("give-up", () => sending.abort("given_up"));
  onClick("again", () => {
    if (!isLocked()) closeQuestion();
    submit();
  });
  onClick("leave", () => {
    closeQuestion();
    say(texts.left);
  });
  onClick("correct", () => {
    goOn({ isCorrection: true });
    email.focus();
    email.select();
  });
  onClick("cancel", () => {
    email.value = state.end.address;
    goOn({ isCorrection: false });
  });
  onClick("restart", () => {
    form.reset();
    for (const { name } of controls()) setFault(name);
    goOn({ end: undefined, typed: "", isRepeat: false });
    prefill();
    controlOf("form_type").focus();
  });
  onClick("copy-button", copy);
  root.addEventListener("click", ignoreSecondClick, true);
  new ResizeObserver(drawCaptcha).observe(part("image"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCaptcha);

  /** @param {string} name */
  function part(name) {
    const found = root.querySelector(`[data-part="${name}"]`);
    if (!found) throw new Error(`contact-form: data-part="${name}" is missing`);
    return /** @type {HTMLElement} */ (found);
  }

  /** @param {string} name @param {() => void} listener */
  function onClick(name, listener) {
    part(name).addEventListener("click", listener);
  }

  function controls() {
    return /** @type {HTMLInputElement[]} */ ([...form.elements]);
  }

  /** @param {string} name @returns {any} */
  function controlOf(name) {
    return controls().find((control) => control.name === name);
  }

  /** @param {Event} [event] */
  async function submit(event) {
    event?.preventDefault();
    if (isLocked()) return say(progress.textContent || texts.sending);
    if (!question.hidden) return summary.focus();
    faultList.hidden = summary.hidden = true;
    document.title = title;
    if (showFaults(findFaults())) return; // without a request, which would spend the quota
    if (!slip.hidden && asked !== email.value) {
      asked = email.value;
      return meant.focus();
    }

    const body = new URLSearchParams(/** @type {any} */ (new FormData(form)));
    keep({ typed: `${body}`, doubt: { code: "given_up" } });
    lock(true);
    const { error, headers } = await send(body);
    if (!form.isConnected) return;
    lock(false);
    keep({ doubt: undefined });
    const [remaining = 1, reset = 0] = headers.get("RateLimit")?.match(/\d+/g)?.map(Number) ?? [];
    if (error?.code === "too_fast") {
      skew = (Number(headers.get("X-RateLimit-Reset")) - reset) * 1000 - Date.now();
      ts = now();
    }
    const isKept = error?.details?.kept;
    const kind = error && !isKept ? showError(error) : confirm(isKept ? "kept" : "sent", headers);
    if (kind !== "site" && !remaining) keep({ until: Date.now() + reset * 1000 });
    countDown();
    if (!summary.hidden) reveal(outcome, summary);
  }

  /** Let nobody edit what is under way. Disabled, the button would lose the focus. */
  function lock(isSending = true) {
    clearTimeout(announcement);
    button.focus();
    fields.toggleAttribute("disabled", isSending);
    mark(button, "aria-disabled", isSending);
    button.textContent = isSending ? texts.sending : buttonText;
    progress.textContent = "";
    status.textContent = isSending ? texts.sending : "";
    giveUp.hidden = true;
  }

  function isLocked() {
    return button.hasAttribute("aria-disabled");
  }

  /** For when the page is left or loaded again. @param {object} changes */
  function keep(changes) {
    state = { ...state, ...changes };
    history.replaceState({ ...history.state, [form.id]: state }, "");
  }

  /** Post as plain forms do, which needs no preflight. @param {URLSearchParams} body */
  async function send(body) {
    await reachAge();
    sending = new AbortController();
    const { signal } = sending;
    const offline = !navigator.onLine;
    const timers = [
      setTimeout(() => say(texts.slow), SLOW_MS),
      setTimeout(() => {
        giveUp.hidden = false;
        reveal(outcome);
      }, GIVE_UP_MS),
      setTimeout(() => sending.abort("timeout"), TIMEOUT_MS),
    ];
    let error;
    let headers = new Headers();
    try {
      const pagina = location.origin + location.pathname;
      const added = { ts, captcha_expected: code, captcha_input: typedCode(), aviso: notice(), pagina };
      for (const [name, value] of [...Object.entries(added), ...campaign()]) if (value) body.set(name, `${value}`);
      const action = form.getAttribute("action") ?? "";
      const response = await fetch(action, { method: "POST", body, signal, credentials: "omit" });
      headers = response.headers;
      const answer = await response.json().catch(() => null); // a proxy's page
      const id = headers.get("X-Request-ID"); // no answer, no id
      if (!response.ok || !answer?.ok) error = { ...answer?.error, status: response.status, id };
    } catch {
      error = { code: signal.aborted ? signal.reason : offline ? "offline" : "lost" };
    }
    timers.forEach(clearTimeout);
    return { headers, error };
  }

  async function reachAge() {
    const age = now() - ts;
    if (age > MAX_AGE_MS - TIMEOUT_MS || age < 0) ts = now();
    const wait = ts + MIN_AGE_MS + AGE_MARGIN_MS - now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
  }

  function notice() {
    const notes = [state.isCorrection && fill(texts.note_correction, state.end), state.isRepeat && texts.note_again];
    return notes.filter(Boolean).join(" ");
  }

  function findFaults() {
    const faults = new Map();
    for (const control of controls()) {
      const text = control.name && control.willValidate && faultOf(control);
      if (text && !faults.has(control.name)) faults.set(control.name, text);
    }
    return faults;
  }

  /** @param {HTMLInputElement} control */
  function faultOf(control) {
    const { value, required, validity, dataset } = control;
    if (validity.valueMissing || (required && !value.trim())) return dataset.missing ?? texts.check_field;
    const isCaptcha = control === captcha; // its code may be typed with spaces
    if (!isCaptcha && roomIn(control) < 0) {
      return fill(texts.too_long, { label: labelOf(control), limit: dataset.limit });
    }
    const isValid = isCaptcha ? typedCode() === code : validity.valid;
    return isValid ? "" : (dataset.invalid ?? texts.check_field);
  }

  /** @param {HTMLInputElement} control */
  function countCharacters(control) {
    const place = root.querySelector(`[data-count="${control.name}"]`);
    if (!place) return;
    const room = roomIn(control);
    const text = room < 0 ? texts.characters_over : texts.characters_left;
    place.textContent = room < Number(control.dataset.limit) / 10 ? fill(text, { count: Math.abs(room) }) : "";
    place.classList.toggle("over", room < 0);
    clearTimeout(announcement);
    // Screen readers are told when the visitor pauses.
    if (place.textContent) announcement = setTimeout(() => (status.textContent = place.textContent), 1000);
  }

  function askAboutSlip() {
    const [name, domain = ""] = email.value.trim().split("@");
    const isKnown = PROVIDERS.includes(domain.toLowerCase());
    const provider = !isKnown && PROVIDERS.find((known) => isSlip(domain.toLowerCase(), known));
    const address = provider ? `${name}@${provider}` : "";
    slip.hidden = !address;
    if (address === meant.textContent) return;
    meant.textContent = address;
    status.textContent = address && slip.textContent;
  }

  /** @param {any} error */
  function showError(error) {
    const { code: name, status: httpStatus, details, id } = error;
    report("error", { code: `${name ?? httpStatus}` });
    if (name === "bad_captcha") renewCaptcha();
    const concerned = own(FIELDS, name);
    const ownText = concerned && own(texts.errors, name);
    const named = Object.keys(details?.fields ?? { [concerned]: "" }).map(controlOf).filter(Boolean);
    const faults = named.map(({ name, dataset }) => [name, ownText ?? dataset.invalid ?? texts.check_field]);
    if (showFaults(new Map(/** @type {any} */ (faults)))) return "field";

    const keys = [`${name}.${details?.reason}`, name, httpStatus];
    const kind = keys.map((key) => own(KINDS, key)).find(Boolean) ?? (/^4/.test(httpStatus) ? "site" : "doubt");
    const text = [...keys, kind].map((key) => own(texts.errors, key)).find(Boolean);
    const [head, advice, technical, identifier] = /** @type {any} */ (summary.children);
    summary.dataset.error = kind;
    head.textContent = texts.titles[kind];
    advice.textContent = `${fill(text, { seconds: TIMEOUT_MS / 1000 })} ${texts.endings[kind]}`;
    technical.textContent = kind === "site" ? fill(texts.technical, { code: name ?? httpStatus }) : "";
    identifier.hidden = !id || kind === "wait";
    identifier.lastElementChild.textContent = id;
    if (kind === "not_sent") button.textContent = texts.send_again;
    if (kind === "doubt") ask(error);
    summary.hidden = false;
    summary.focus();
    reveal(outcome, summary);
    return kind;
  }

  /** @param {any} [error] */
  function ask(error) {
    question.hidden = !error;
    sendRow.hidden = !question.hidden;
    keep({ doubt: error, isRepeat: state.isRepeat || Boolean(error) });
  }

  function closeQuestion() {
    ask();
    summary.hidden = true;
    button.textContent = texts.send_again;
    button.focus();
  }

  /** @param {Map<string, string>} faults */
  function showFaults(faults) {
    if (!faults.size) return false;
    document.title = fill(texts.error_title, { title });
    const items = [...faults].map(([name, text]) => {
      setFault(name, text);
      const [item, link] = [document.createElement("li"), document.createElement("a")];
      item.dataset.name = name;
      link.href = `#${form.id}`;
      link.textContent = text;
      link.addEventListener("click", (event) => {
        event.preventDefault(); // a link alone would not move the focus into a field
        controlOf(name).focus();
      });
      item.append(link);
      return item;
    });
    faultList.lastElementChild?.replaceChildren(...items);
    faultList.hidden = faults.size === 1;
    if (faultList.hidden) controlOf([...faults.keys()][0]).focus();
    else faultList.focus();
    return true;
  }

  /** @param {string} name */
  function setFault(name, text = "") {
    const control = controlOf(name);
    const group = control?.closest("[role=radiogroup]");
    const described = group ?? control;
    const id = `${form.id}-${name}-error`;
    let place = document.getElementById(id);
    if (!place) {
      if (!text) return;
      place = document.createElement("p");
      [place.className, place.id] = ["error", id];
      (group?.firstElementChild ?? control.closest("label") ?? control).after(place);
      described.setAttribute("aria-describedby", `${id} ${described.getAttribute("aria-describedby") ?? ""}`);
    }
    place.textContent = text;
    mark(described, "aria-invalid", Boolean(text));
    if (text) return;
    faultList.querySelector(`[data-name="${name}"]`)?.remove();
    faultList.hidden ||= !faultList.querySelector("li");
  }

  /** @param {string} kind @param {Headers} headers */
  function confirm(kind, headers) {
    const id = headers.get("X-Request-ID")?.toUpperCase() ?? "";
    const reference = `${id.slice(0, 4)}-${id.slice(4, 8)}`;
    const end = { kind, reference, address: email.value.trim(), copy: whatWasTyped() };
    goOn({ end, isCorrection: false, isRepeat: false });
    report("sent", { reference, form_type: kinds().value });
  }

  function show() {
    const { end, isCorrection } = state;
    const isEnd = Boolean(end && !isCorrection);
    const intro = document.getElementById(root.dataset.intro ?? "");
    if (intro) intro.hidden = isEnd;
    form.hidden = isEnd;
    confirmation.hidden = !isEnd;
    document.title = isEnd ? texts[end.kind][0] : title;
    correction.hidden = !isCorrection;
    correction.children[0].textContent = isCorrection ? fill(texts.note_correction, end) : "";
    if (!isEnd) return;
    [heading.textContent, part("end-text").textContent] = texts[end.kind];
    part("reference").textContent = end.reference;
    part("address").textContent = end.address;
    copied.textContent = end.copy;
    part("term").hidden = end.kind === "kept";
    part("copied").textContent = "";
    confirmation.querySelector("details")?.toggleAttribute("open", end.kind === "kept");
    reveal(confirmation, heading);
    heading.focus();
  }

  /** @param {object} changes */
  function goOn(changes) {
    keep(changes);
    ask();
    faultList.hidden = summary.hidden = true;
    show();
    renewCaptcha();
  }

  function whatWasTyped() {
    const lines = [];
    for (const control of controls()) {
      if (!control.labels?.length || !control.value || control.matches(":disabled") || control === captcha) continue;
      if (!isTicked(control)) lines.push(`${labelOf(control)}: ${control.value}`);
      else if (control.checked) lines.push(labelOf(control));
    }
    return lines.join("\n");
  }

  async function copy() {
    let text = texts.copied;
    try {
      await navigator.clipboard.writeText(copied.textContent ?? "");
    } catch {
      getSelection()?.selectAllChildren(copied);
      text = texts.not_copied;
    }
    part("copied").textContent = status.textContent = text;
  }

  function prefill() {
    for (const name of ["tipo", "email", "nombre", "empresa", "mensaje"]) {
      const control = name === "tipo" ? kinds() : controlOf(name);
      if (control) control.value ||= query().get(name) ?? "";
    }
    controls().forEach(countCharacters);
    askAboutSlip();
    showKind();
  }

  function kinds() {
    return /** @type {RadioNodeList} */ (form.elements.namedItem("form_type"));
  }

  function showKind() {
    const kind = kinds().value;
    for (const group of form.querySelectorAll("fieldset")) {
      if (group.dataset.kind) group.disabled = group.hidden = group.dataset.kind !== kind;
    }
    for (const control of controls()) {
      if (!control.dataset.requiredBy) continue;
      const isRequired = control.dataset.requiredBy === kind;
      if (control.required && !isRequired) setFault(control.name);
      control.required = isRequired;
      control.labels?.[0]?.querySelector(".optional")?.toggleAttribute("hidden", isRequired);
    }
  }

  /** @param {string} text */
  function say(text) {
    progress.textContent = status.textContent = text;
    reveal(outcome);
  }

  function report(type = "", detail = {}) {
    form.dispatchEvent(new CustomEvent(`contact:${type}`, { bubbles: true, detail }));
  }

  /** Screen readers hear the start and the end, not each second. */
  function countDown() {
    clearInterval(countdown);
    const { until = 0 } = state;
    if (until < Date.now()) return;
    const lockBoth = (isLocked = true) => [button, again].forEach((each) => mark(each, "aria-disabled", isLocked));
    const tick = () => {
      const left = Math.ceil((until - Date.now()) / 1000);
      // Never "1 segundos".
      progress.textContent = fill(texts.countdown, { seconds: Math.max(left, 2) });
      if (left > 0) return;
      progress.textContent = form.hidden ? "" : texts.countdown_over;
      clearInterval(countdown);
      lockBoth(false);
      announce();
      if (summary.dataset.error === "wait") summary.hidden = true;
    };
    const announce = () => (status.textContent = form.hidden ? "" : progress.textContent);
    lockBoth();
    countdown = setInterval(tick, 1000);
    tick();
    announce();
  }

  function typedCode() {
    return captcha.value.replace(/\s/g, "").toUpperCase();
  }

  function renewCaptcha() {
    const pick = () => CAPTCHA_ALPHABET[Math.floor(Math.random() * CAPTCHA_ALPHABET.length)];
    code = Array.from({ length: CAPTCHA_LENGTH }, pick).join("");
    captcha.value = "";
    setFault("captcha_input");
    drawCaptcha();
  }

  function drawCaptcha() {
    const canvas = /** @type {HTMLCanvasElement} */ (part("image"));
    canvas.width = canvas.clientWidth * devicePixelRatio;
    canvas.height = canvas.clientHeight * devicePixelRatio;
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const room = canvas.width / (CAPTCHA_LENGTH + 0.5); // a quarter free at each end
    pen.textAlign = "center";
    pen.fillStyle = getComputedStyle(canvas).color;
    pen.font = `${room}px Georgia, serif`;
    [...code].forEach((character, index) => {
      pen.fillText(character, room * (index + 0.75), canvas.height * (0.6 + Math.random() / 5), room * 0.8);
    });
  }

  function offerToRead() {
    const listen = part("listen");
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
}

function query() {
  return new URLSearchParams(location.search);
}

/** The first campaign that led to the website in this tab. */
function campaign() {
  const found = new URLSearchParams([...query()].filter(([name, value]) => value && /^utm_|^gclid$/.test(name)));
  try {
    const first = sessionStorage.contactCampaign || `${found}`;
    if (first) sessionStorage.contactCampaign = first;
    return new URLSearchParams(first);
  } catch {
    return found; // nothing may be stored
  }
}

/** Number the ids of a form that are another's already. @param {Element} root */
function numberIds(root, id = "") {
  if (document.querySelectorAll(`[id="${id}"]`).length < 2) return;
  count += 1;
  for (const name of ["id", "for", "aria-describedby", "aria-labelledby"]) {
    for (const element of root.querySelectorAll(`[${name}]`)) {
      element.setAttribute(name, `${element.getAttribute(name)}`.replace(/\S+/g, `$&-${count}`));
    }
  }
}

/** The first click may have put another button in its place. @param {any} event */
function ignoreSecondClick(event) {
  if (event.detail < 2 || !event.target.closest("button")) return;
  event.preventDefault();
  event.stopPropagation();
}

/** Where not all fits, the last one wins. @param {Element[]} elements */
function reveal(...elements) {
  for (const element of elements) element.scrollIntoView({ block: "nearest" });
}

/** @param {Element} element */
function mark(element, attribute = "", isSet = true) {
  if (isSet) element.setAttribute(attribute, "true");
  else element.removeAttribute(attribute);
}

/** @param {any} table @param {string} key */
function own(table, key) {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

/** @param {string} text @param {any} values */
function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

/** @param {HTMLInputElement} control */
function isTicked(control) {
  return /radio|checkbox/.test(control.type);
}

/** @param {HTMLInputElement} control */
function labelOf(control) {
  const label = /** @type {Element} */ (control.labels?.[0].cloneNode(true));
  for (const other of label.querySelectorAll(".optional, input, select, textarea")) other.remove();
  return label.textContent?.replace(/\s+/g, " ").trim();
}

/** Counted as in the service. @param {HTMLInputElement} control */
function roomIn({ dataset, value }) {
  return Number(dataset.limit ?? Infinity) - [...value].length;
}

function isSlip(typed = "", meant = "") {
  let at = 0;
  while (typed[at] === meant[at]) at += 1;
  const [rest, other] = [typed.slice(at), meant.slice(at)];
  const swapped = `${rest[1]}${rest[0]}${rest.slice(2)}`;
  return rest.slice(1) === other.slice(1) || rest.slice(1) === other || rest === other.slice(1) || swapped === other;
}

campaign();
for (const form of document.querySelectorAll(".contact-form form")) init(/** @type {HTMLFormElement} */ (form));
