// A client of the service, with the types that openapi-typescript makes of the document. Nobody runs it: the
// compiler must accept it, and the lines that it must refuse say so.

import type { components, paths } from "../../build/openapi";

type ApiError = components["schemas"]["ApiError"];

type Methods<Path extends keyof paths> = {
  [Method in keyof paths[Path]]: paths[Path][Method] extends { responses: object } ? Method : never;
}[keyof paths[Path]];

type Query<Operation> = Operation extends { parameters: { query?: infer Values } } ? Values : never;

type Body<Operation> = Operation extends { requestBody: { content: infer Contents } }
  ? { [Type in keyof Contents]: { type: Type; fields: Contents[Type] } }[keyof Contents]
  : never;

type Content<Response> = Response extends { content: { "application/json": infer Value } } ? Value : undefined;

type Answer<Operation> = Operation extends { responses: infer Responses }
  ? { [Status in keyof Responses]: Content<Responses[Status]> }[keyof Responses]
  : never;

declare function call<Path extends keyof paths, Method extends Methods<Path>>(
  path: Path,
  method: Method,
  options?: { query?: Query<paths[Path][Method]>; body?: Body<paths[Path][Method]> },
): Promise<Answer<paths[Path][Method]>>;

// The codes that it knows; a newer service may answer others. The compiler refuses one that there is not.
function advice(error: ApiError): string {
  switch (error.code) {
    case "invalid_body":
      return Object.entries(error.details?.fields ?? {})
        .map(([field, messages]) => `${field}: ${messages.join(" ")}`)
        .join("\n");
    case "invalid_parameter":
    case "invalid_form_type":
      return `one of ${(error.allowed_values ?? []).join(", ")}`;
    case "invalid_email":
    case "bad_captcha":
      return error.hint ?? error.message;
    case "not_found":
    case "endpoint_not_found":
      return "wrong address";
    case "unsupported_api_version":
      return `one of ${(error.details?.supported ?? []).join(", ")}`;
    case "method_not_allowed":
      return "wrong method";
    case "api_version_sunset":
      return "a newer client is needed";
    case "rate_limit":
    case "rate_limit_exceeded":
      return `again in ${(error.retry_after_seconds ?? 1).toFixed()} s`;
    case "too_fast":
      return error.details?.reason === "expired" ? "load the form again" : "wait";
    default:
      return error.message;
  }
}

type Calls = { [Path in keyof paths]?: { [Method in Methods<Path>]?: () => Promise<string | undefined> } };

export const calls: Calls = {
  "/api/v1/contact": {
    post: async () => {
      const answer = await call("/api/v1/contact", "post", {
        body: {
          type: "application/json",
          fields: { form_type: "ventas", email: "maria@example.com", nombre: null, ts: Date.now(), tema: "precios" },
        },
      });
      return "error" in answer ? advice(answer.error) : answer.message;
    },
    options: async () => nothing(await call("/api/v1/contact", "options")),
  },
  "/contact.php": {
    post: async () => {
      const answer = await call("/contact.php", "post", {
        body: {
          type: "application/x-www-form-urlencoded",
          fields: { form_type: "demo", email: "maria@example.com", ts: "1795256130000" },
        },
      });
      return "error" in answer ? advice(answer.error) : answer.message;
    },
    options: async () => nothing(await call("/contact.php", "options")),
  },
  "/api": {
    get: async () => {
      const answer = await call("/api", "get", { query: { section: "rate_limit" } });
      return "error" in answer ? advice(answer.error) : answer.data.rate_limit?.window_seconds.toFixed();
    },
  },
  "/api/versioning": {
    get: async () => {
      const answer = await call("/api/versioning", "get", { query: { version: "v1" } });
      if ("error" in answer) return advice(answer.error);
      return answer.data.sunset_on ?? answer.data.status ?? answer.data.supported?.join() ?? "";
    },
  },
  "/api/v1": {
    get: async () => {
      const answer = await call("/api/v1", "get", { query: { method: "POST" } });
      if ("error" in answer) return advice(answer.error);
      return answer.data.endpoints.flatMap((endpoint) => endpoint.parameters.map((parameter) => parameter.name)).join();
    },
  },
  "/api/v1/health": {
    get: async () => {
      const answer = await call("/api/v1/health", "get", { query: { verbose: "true" } });
      return "error" in answer ? advice(answer.error) : answer.data.details?.mail.latency_ms?.toFixed(1);
    },
  },
  "/openapi.json": {
    get: async () => {
      const answer = await call("/openapi.json", "get");
      if (answer === undefined) return "unchanged";
      return "openapi" in answer ? answer.info.title : advice(answer.error);
    },
  },
};

// OPTIONS answers without content, or with an error.
function nothing(answer: components["schemas"]["ErrorResponse"] | undefined): string | undefined {
  return answer && advice(answer.error);
}

export const refused = [
  // @ts-expect-error There is no such section.
  () => call("/api", "get", { query: { section: "prices" } }),
  // @ts-expect-error There is no such version.
  () => call("/api/versioning", "get", { query: { version: "v9" } }),
  // @ts-expect-error POST alone has a body.
  () => call("/api/v1/health", "get", { body: { type: "application/json", fields: {} } }),
  // @ts-expect-error The path does not serve this method.
  () => call("/contact.php", "get"),
  // @ts-expect-error A form needs an address.
  () => call("/contact.php", "post", { body: { type: "application/json", fields: { form_type: "demo" } } }),
  // @ts-expect-error There is no such code.
  (error: ApiError) => error.code === "invalid",
];
