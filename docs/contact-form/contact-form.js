/** Sends contact forms in the background and shows the answer. Every text stands in the page. */

const [SLOW_MS, GIVE_UP_MS, TIMEOUT_MS] = [2_000, 10_000, 30_000];
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

/** What a form cannot do without. */
const NEEDED = ["[data-part=fields]", "[data-part=summary]", "[data-part=submit]", "[name=form_type]", "[name=email]"];

/** The forms that live, and what ends their lives. @type {WeakMap<HTMLFormElement, () => void>} */
const lives = new WeakMap();

const query = () => new URLSearchParams(location.search);
/** @param {any} table @param {string} key */
const own = (table, key) => (Object.hasOwn(table, key) ? table[key] : undefined);
/** @param {any} values */
const fill = (text = "", values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
/** @param {HTMLInputElement} control */
const isTicked = ({ type }) => /radio|checkbox/.test(type);
/** Counted as in the service. @param {HTMLInputElement} control */
const roomIn = ({ dataset, value }) => Number(dataset.limit ?? Infinity) - [...value].length;

/**
 * Bring a form to life, once; those that the page comes with need no call. What is returned ends its life: nothing
 * outside holds the form any longer, and a request that is under way still arrives. @param {HTMLFormElement} form
 */
export function init(form) {
  const known = lives.get(form);
  if (known) return known;
  const root = /** @type {HTMLElement} */ (form.closest(".contact-form"));
  const json = root?.querySelector("[type$=json]") ?? document.getElementById("contact-texts");
  const missing = NEEDED.filter((selector) => !form.querySelector(selector));
  if (!form.getAttribute("action")) missing.push("action");
  if (!root) missing.push("div.contact-form");
  if (!json) missing.push("#contact-texts");
  if (missing.length) {
    console.error(`contact-form: missing ${missing.join(", ")}`, form);
    return () => {};
  }
  const texts = JSON.parse(json?.textContent ?? "");
  const life = new AbortController();
  lives.set(form, release);
  numberIds(root);

  const controls = () => /** @type {HTMLInputElement[]} */ ([...form.elements]);
  /** @returns {any} */
  const controlOf = (name = "") => controls().find((control) => control.name === name);
  /** What is left out is an element that nobody sees. @returns {HTMLElement} */
  const part = (name = "") => root.querySelector(`[data-part="${name}"]`) ?? document.createElement("p");
  /** @param {EventTarget} target @param {(event: any) => void} listener */
  const on = (target, type = "", listener) => target.addEventListener(type, listener, { signal: life.signal });
  const report = (type = "", detail = {}) =>
    form.dispatchEvent(new CustomEvent(`contact:${type}`, { bubbles: true, detail }));

  const [fields, faultList, summary, question] = ["fields", "faults", "summary", "question"].map(part);
  const [outcome, sendRow, button, giveUp, again] = ["outcome", "send", "submit", "give-up", "again"].map(part);
  const [progress, status, confirmation, heading] = ["progress", "status", "end", "end-title"].map(part);
  const [copied, correction, slip, meant, image] = ["copy", "correction", "slip", "meant", "image"].map(part);
  const [email, captcha = document.createElement("input")] = ["email", "captcha_input"].map(controlOf);
  const kinds = /** @type {RadioNodeList} */ (form.elements.namedItem("form_type"));
  const intro = document.getElementById(root.closest("[data-intro]")?.getAttribute("data-intro") ?? "");
  const isLocked = () => button.hasAttribute("aria-disabled");
  const typedCode = () => captcha.value.normalize("NFKC").replace(/\s/g, "").toUpperCase();
  const buttonText = (button.dataset.text ??= button.textContent ?? "");

  let skew = 0; // how far the visitor's clock is behind the service's
  const now = () => Date.now() + skew;
  let ts = now();
  let code = "";
  let asked = ""; // the address of which a slip was asked about
  let sending = new AbortController();
  let countdown = 0;
  let announcement = 0;
  /** @type {any} */
  let state = history.state?.contactForms?.[form.id] ?? {};

  const typed = new URLSearchParams(state.typed);
  for (const control of controls()) {
    if (control.maxLength > 0) control.dataset.limit = `${control.maxLength}`;
    control.removeAttribute("maxlength"); // the browser would cut what is pasted without a word
    const values = typed.getAll(control.name);
    if (isTicked(control)) control.checked ||= values.includes(control.value);
    else if (control.type !== "file") control.value ||= values[0] ?? "";
  }
  form.noValidate = true; // the browser's bubbles may speak another language
  captcha.disabled = !root.contains(image) || !form.contains(captcha);
  part("captcha").toggleAttribute("disabled", captcha.disabled);
  part("plain").hidden = true;
  // A page that was kept (Turbo, htmx) has the form as it was left.
  faultList.hidden = summary.hidden = question.hidden = true;
  sendRow.hidden = false;
  lock(false);
  show();
  renewCaptcha();
  const voices = window.speechSynthesis;
  const offerToRead = () => (part("listen").hidden = !voices?.getVoices().length);
  offerToRead();
  if (voices instanceof EventTarget) on(voices, "voiceschanged", offerToRead);
  countDown();
  if (state.doubt) showError(state.doubt);
  // Later, because browsers that go back restore nothing in a disabled group.
  if (document.readyState === "complete") prefill();
  else on(window, "pageshow", prefill);

  const clicks = {
    renew() {
      renewCaptcha();
      captcha.focus();
    },
    listen,
    meant() {
      email.value = meant.textContent;
      setFault("email");
      askAboutSlip();
      email.focus();
    },
    "give-up": () => sending.abort("given_up"),
    again() {
      if (!isLocked()) closeQuestion();
      submit();
    },
    leave() {
      closeQuestion();
      say(texts.left);
    },
    correct: () => goOn({ isCorrection: true }),
    cancel() {
      email.value = state.end.address;
      goOn({ isCorrection: false });
    },
    restart,
    "copy-button": copy,
  };
  on(root, "click", (event) => {
    const { part: does, name } = event.target.closest("button, [data-name]")?.dataset ?? {};
    const isSecond = does && event.detail > 1; // the first one may have put another button in its place
    if (name) controlOf(name).focus(); // a link alone would not move the focus into a field
    if (name || isSecond) event.preventDefault();
    else own(clicks, does)?.();
  });
  on(form, "submit", submit);
  on(form, "change", showKind);
  on(form, "change", askAboutSlip);
  on(form, "input", ({ target }) => setFault(target.name));
  on(form, "input", ({ target }) => (slip.hidden ||= target === email)); // later, it would move what is clicked
  on(form, "input", ({ target }) => countCharacters(target));
  on(image, "transitionend", drawCaptcha); // the visitor or the website has changed between light and dark
  const resizes = new ResizeObserver(drawCaptcha);
  resizes.observe(image);
  return release;

  function release() {
    if (life.signal.aborted) return; // the form may have another life by now
    life.abort();
    resizes.disconnect();
    clearInterval(countdown);
    clearTimeout(announcement);
    setTitle();
    if (intro) intro.hidden = false;
    lives.delete(form);
  }

  /** Not its `labels`: an id may be another element's, too, outside of the form. @param {HTMLInputElement} control */
  function labelFor(control) {
    return [...form.querySelectorAll("label")].find(
      (label) => label.contains(control) || label.getAttribute("for") === control.id,
    );
  }

  /** @param {HTMLInputElement} control */
  function labelOf(control) {
    const label = /** @type {Element | undefined} */ (labelFor(control)?.cloneNode(true));
    for (const other of label?.querySelectorAll(".optional, input, select, textarea") ?? []) other.remove();
    return label?.textContent?.replace(/\s+/g, " ").trim() ?? control.name;
  }

  /** @param {Event} [event] */
  async function submit(event) {
    event?.preventDefault();
    if (isLocked()) return say(progress.textContent || texts.sending);
    if (!question.hidden) return summary.focus();
    faultList.hidden = summary.hidden = true;
    setTitle();
    if (showFaults(findFaults())) return; // without a request, which would spend the quota
    if (!slip.hidden && asked !== email.value) {
      asked = email.value;
      return meant.focus();
    }

    const body = new URLSearchParams(/** @type {any} */ (new FormData(form)));
    keep({ typed: `${body}`, doubt: { code: "given_up" } });
    button.focus();
    lock(true);
    const { error, headers } = await send(body);
    if (life.signal.aborted || !form.isConnected) return;
    lock(false);
    button.focus();
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
    fields.toggleAttribute("disabled", isSending);
    mark(button, "aria-disabled", isSending);
    button.textContent = isSending ? texts.sending : buttonText;
    progress.textContent = "";
    status.textContent = isSending ? texts.sending : "";
    giveUp.hidden = true;
  }

  /** For when the page is left or loaded again. */
  function keep(changes = {}) {
    state = { ...state, ...changes };
    try {
      const contactForms = { ...history.state?.contactForms, [form.id]: state };
      history.replaceState({ ...history.state, contactForms }, "");
    } catch {
      // Some frames have no history.
    }
  }

  /** The page's own, without a text. A page that was kept brings along which one that is. */
  function setTitle(text = "{title}") {
    if (document.title !== root.dataset.shownTitle) root.dataset.title = document.title;
    document.title = fill(text, root.dataset);
    root.dataset.shownTitle = document.title;
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
    const { limit, missing = texts.check_field, invalid = texts.check_field } = control.dataset;
    if (control.validity.valueMissing || (control.required && !control.value.trim())) return missing;
    if (control === captcha) return typedCode() === code ? "" : invalid; // it may be typed with spaces
    if (roomIn(control) < 0) return fill(texts.too_long, { label: labelOf(control), limit });
    return control.validity.valid ? "" : invalid;
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
    const typed = domain.toLowerCase();
    const provider = !PROVIDERS.includes(typed) && PROVIDERS.find((known) => isSlip(typed, known));
    const address = provider ? `${name}@${provider}` : "";
    slip.hidden = !address || !slip.contains(meant);
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
    const advice = `${fill(text, { seconds: TIMEOUT_MS / 1000 })} ${texts.endings[kind] ?? ""}`;
    const technical = kind === "site" ? fill(texts.technical, { code: name ?? httpStatus }) : "";
    if (kind === "not_sent") button.textContent = texts.send_again;
    if (kind === "doubt") ask(error);
    summarize(kind, [texts.titles[kind], advice, technical], kind === "wait" ? "" : id);
    return kind;
  }

  function summarize(kind = "", lines = [""], id = "") {
    const [head, advice, technical, identifier = document.createElement("p")] = /** @type {any} */ (summary.children);
    summary.dataset.error = kind;
    [head, advice, technical].forEach((place, index) => place?.replaceChildren(lines[index] ?? ""));
    identifier.hidden = !id;
    identifier.lastElementChild?.replaceChildren(id);
    summary.hidden = false;
    summary.focus();
    reveal(outcome, summary);
  }

  /** @param {any} [error] */
  function ask(error) {
    question.hidden = !error || !question.contains(again);
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
    setTitle(texts.error_title);
    const items = [...faults].map(([name, text]) => {
      setFault(name, text);
      const item = document.createElement("li");
      item.dataset.name = name;
      item.append(Object.assign(document.createElement("a"), { href: `#${form.id}`, textContent: text }));
      return item;
    });
    faultList.lastElementChild?.replaceChildren(...items);
    faultList.hidden = faults.size === 1 || !root.contains(faultList);
    (faultList.hidden ? controlOf([...faults.keys()][0]) : faultList).focus();
    reveal(/** @type {Element} */ (document.activeElement)); // Firefox leaves it where a part of it is seen
    return true;
  }

  function setFault(name = "", text = "") {
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

  function confirm(kind = "", headers = new Headers()) {
    const id = headers.get("X-Request-ID")?.toUpperCase() ?? "";
    const reference = `${id.slice(0, 4)}-${id.slice(4, 8)}`;
    const end = { kind, reference, address: email.value.trim(), copy: whatWasTyped() };
    report("sent", { reference, form_type: kinds.value });
    if (root.contains(confirmation)) return goOn({ end, isCorrection: false, isRepeat: false });
    restart();
    summarize(kind, texts[kind]);
  }

  function show() {
    const { end, isCorrection } = state;
    const isEnd = Boolean(end && !isCorrection);
    if (intro) intro.hidden = isEnd;
    form.hidden = isEnd;
    confirmation.hidden = !isEnd;
    setTitle(isEnd ? texts[end.kind][0] : undefined);
    correction.hidden = !isCorrection;
    part("note").textContent = isCorrection ? fill(texts.note_correction, end) : "";
    if (isCorrection) {
      email.focus();
      email.select();
    }
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

  function goOn(changes = {}) {
    keep(changes);
    ask();
    faultList.hidden = summary.hidden = true;
    show();
    renewCaptcha();
  }

  function restart() {
    form.reset();
    for (const { name } of controls()) setFault(name);
    goOn({ end: undefined, typed: "", isCorrection: false, isRepeat: false });
    prefill();
    controlOf("form_type").focus();
  }

  function whatWasTyped() {
    const told = controls().filter((control) => control.value && labelFor(control) && !control.matches(":disabled"));
    const lines = told.map((control) => {
      if (isTicked(control)) return control.checked && labelOf(control);
      return control !== captcha && `${labelOf(control)}: ${control.value}`;
    });
    return lines.filter(Boolean).join("\n");
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
      const control = name === "tipo" ? kinds : controlOf(name);
      if (control) control.value ||= query().get(name) ?? "";
    }
    controls().forEach(countCharacters);
    askAboutSlip();
    showKind();
  }

  function showKind() {
    const kind = kinds.value;
    for (const group of form.querySelectorAll("fieldset")) {
      if (group.dataset.kind) group.disabled = group.hidden = group.dataset.kind !== kind;
    }
    for (const control of controls()) {
      if (!control.dataset.requiredBy) continue;
      const isRequired = control.dataset.requiredBy === kind;
      if (control.required && !isRequired) setFault(control.name);
      control.required = isRequired;
      labelFor(control)?.querySelector(".optional")?.toggleAttribute("hidden", isRequired);
    }
  }

  function say(text = "") {
    progress.textContent = status.textContent = text;
    reveal(outcome);
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
      if (summary.dataset.error !== "wait") return;
      if (summary.contains(document.activeElement)) button.focus();
      summary.hidden = true;
    };
    const announce = () => (status.textContent = form.hidden ? "" : progress.textContent);
    lockBoth();
    countdown = setInterval(tick, 1000);
    tick();
    announce();
  }

  function renewCaptcha() {
    if (captcha.disabled) return;
    const pick = () => CAPTCHA_ALPHABET[Math.floor(Math.random() * CAPTCHA_ALPHABET.length)];
    code = Array.from({ length: CAPTCHA_LENGTH }, pick).join("");
    captcha.value = "";
    setFault("captcha_input");
    drawCaptcha();
  }

  function drawCaptcha() {
    if (!code) return;
    const canvas = /** @type {HTMLCanvasElement} */ (image);
    canvas.width = canvas.clientWidth * devicePixelRatio;
    canvas.height = canvas.clientHeight * devicePixelRatio;
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const room = canvas.width / (CAPTCHA_LENGTH + 0.5); // a quarter free at each end
    [pen.textAlign, pen.textBaseline] = ["center", "middle"];
    pen.fillStyle = getComputedStyle(canvas).color;
    pen.font = `${Math.min(room * 1.1, canvas.height * 0.6)}px Georgia, serif`;
    [...code].forEach((character, index) => {
      pen.fillText(character, room * (index + 0.75), canvas.height * (0.45 + Math.random() / 6), room * 0.8);
    });
  }

  function listen() {
    const utterance = new SpeechSynthesisUtterance([...code].join(". "));
    utterance.lang = root.closest("[lang]")?.getAttribute("lang") ?? "";
    utterance.rate = 0.7;
    speechSynthesis.cancel();
    speechSynthesis.speak(utterance);
  }
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

/** Number the ids of a form if one is another's already. @param {Element} root */
function numberIds(root) {
  const ids = [...root.querySelectorAll("[id]")].map(({ id }) => id);
  const others = new Set([...document.querySelectorAll("[id]")].map((other) => !root.contains(other) && other.id));
  let suffix = "";
  for (let number = 2; ids.some((id) => others.has(id + suffix)); number += 1) suffix = `-${number}`;
  for (const name of suffix ? ["id", "for", "aria-describedby", "aria-labelledby"] : []) {
    for (const element of root.querySelectorAll(`[${name}]`)) {
      element.setAttribute(name, `${element.getAttribute(name)}`.replace(/\S+/g, `$&${suffix}`));
    }
  }
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

function isSlip(typed = "", meant = "") {
  let at = 0;
  while (typed[at] === meant[at]) at += 1;
  const [rest, other] = [typed.slice(at), meant.slice(at)];
  const swapped = `${rest[1]}${rest[0]}${rest.slice(2)}`;
  return rest.slice(1) === other.slice(1) || rest.slice(1) === other || rest === other.slice(1) || swapped === other;
}

campaign();
const [{ type = "" } = {}] = /** @type {any[]} */ (performance.getEntriesByType("navigation"));
if (type === "navigate" && history.state?.contactForms) {
  // In Chromium, a link to the page that is open keeps the state of what has been left.
  history.replaceState({ ...history.state, contactForms: undefined }, "");
}
for (const form of document.forms) if (form.querySelector("[data-part=fields], [data-part=submit]")) init(form);
