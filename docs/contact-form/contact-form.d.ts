export function init(form: HTMLFormElement): () => void;

declare global {
  interface GlobalEventHandlersEventMap {
    "contact:sent": CustomEvent<{ reference: string; form_type: string }>;
    "contact:error": CustomEvent<{ code: string }>;
  }
}
