// The ways in which mail clients change a message, each an operation on the page that shows it.
({
  /** Takes elements away with all that they hold. */
  remove: (selector) => document.querySelectorAll(selector).forEach((element) => element.remove()),

  /** Takes the tags of elements away and leaves what they hold. */
  unwrap: (selector) => document.querySelectorAll(selector).forEach((element) => element.replaceWith(...element.childNodes)),

  /** The message is shown in a <div> of the client's own page: it has no <head> and no <body>. */
  embed() {
    const { body, documentElement: html } = document;
    const message = document.createElement("div");
    message.append(...body.childNodes);
    for (const { name, value } of [...body.attributes]) {
      message.setAttribute(name, value);
      body.removeAttribute(name);
    }
    body.append(message);
    html.removeAttribute("style");
    document.querySelectorAll("meta").forEach((meta) => meta.remove());
  },

  /** Takes the rules away that stand under a media query with this text in it. */
  ignoreMedia(text) {
    for (const sheet of document.styleSheets) {
      for (let n = sheet.cssRules.length; n--; ) {
        if (sheet.cssRules[n].media?.mediaText.includes(text)) sheet.deleteRule(n);
      }
    }
  },

  /** Writes the rules of the style sheets into the elements, as Word does, so that `ignore` can look at each element. */
  inline() {
    for (const { style, selectorText } of [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])) {
      if (!selectorText) continue;
      for (const element of document.querySelectorAll(selectorText)) {
        element.style.cssText = `${style.cssText} ${element.style.cssText}`;
      }
    }
    document.querySelectorAll("style").forEach((element) => element.remove());
  },

  /** Takes properties away from all elements that the selector matches, and from the style sheets. */
  ignore(properties, selector = "*") {
    const rules = (list) => [...list].flatMap((rule) => [rule, ...rules(rule.cssRules ?? [])]);
    const styled = [...document.styleSheets].flatMap((sheet) => rules(sheet.cssRules)).filter((rule) => rule.style);
    for (const { style } of [...styled, ...document.querySelectorAll(`:is(${selector})[style]`)]) {
      for (const property of properties) style.removeProperty(property);
    }
  },

  /** Takes a value away wherever a style attribute gives it to one of the properties. */
  ignoreValue(value, properties) {
    for (const { style } of document.querySelectorAll("[style]")) {
      for (const property of properties) if (style[property] === value) style.removeProperty(property);
    }
  },

  /** Gives elements a property. */
  set: (property, value, selector) =>
    document.querySelectorAll(selector).forEach((element) => element.style.setProperty(property, value)),

  /** Shows a text in Times when the first font that it asks for is not on the machine. */
  onlyFonts(known) {
    for (const { style } of document.querySelectorAll("[style]")) {
      const first = style.fontFamily.split(",")[0].replaceAll('"', "");
      if (first && !known.includes(first)) style.fontFamily = "Times New Roman";
    }
  },
});
