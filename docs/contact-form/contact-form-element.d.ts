export {};

declare global {
  interface HTMLElementTagNameMap {
    "contact-form": HTMLElement;
  }
}
