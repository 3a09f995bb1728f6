// A website's script, as its developer would write it: the linters hold contact-form.d.ts to it.
// "typeRoots" of tools/package.json makes the types of a browser count: a package brings those of Node.js.
import { init } from "../../docs/contact-form/contact-form.js";

const form: HTMLFormElement = document.forms[0];
const release: () => void = init(form);
release();
document.addEventListener("contact:sent", ({ detail }) => console.log(detail.reference.length, detail.form_type.length));
form.addEventListener("contact:error", ({ detail }) => console.log(detail.code.length));
