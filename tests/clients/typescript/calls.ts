// The calls of tests/clients/calls.py. Each program adapts its generated client to the interface below, and the
// compiler holds the generated types to it.

export interface ApiError {
  code:
    | "invalid_body"
    | "invalid_parameter"
    | "invalid_form_type"
    | "invalid_email"
    | "bad_captcha"
    | "not_found"
    | "endpoint_not_found"
    | "unsupported_api_version"
    | "method_not_allowed"
    | "api_version_sunset"
    | "rate_limit"
    | "rate_limit_exceeded"
    | "too_fast"
    | "mail_delivery_failed"
    | "internal_error";
  status: number;
  retry_after_seconds?: number;
  allowed_values?: string[];
  details?: {
    reason?: string;
    fields?: Record<string, string[]>;
    kept?: boolean;
    parameter?: string;
    // A list of different items is a set in some languages.
    supported?: Iterable<string>;
  };
}

// True when a generated type is that one: neither any nor a wider or narrower one.
export type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

type Answer<Body> = Promise<Body | { error: ApiError }>;

export type Form = {
  form_type: "demo" | "ventas";
  email: string;
  nombre?: string;
  ts?: number;
  captcha_expected?: string;
  captcha_input?: string;
};

type Index = {
  name?: string;
  current_version?: string;
  rate_limit?: { limit: number };
  contact?: { form_types: string[] };
};

type Versioning = {
  deprecation_process?: { notice_period_days: number };
  version?: string;
  status?: "current" | "deprecated" | "sunset";
  sunset_on?: string | Date | null;
};

type Health = { status: "ok" | "degraded"; details?: { mail: { transport: "smtp" | "maildir" } } };

export interface Client {
  submitContact(form: Form): Answer<{ message?: string }>;
  submitContactLegacy(form: Form): Answer<{ message?: string }>;
  // Not every tool generates the operations of OPTIONS.
  getContactOptions?(): Promise<Preflight | undefined>;
  getContactLegacyOptions?(): Promise<Preflight | undefined>;
  getApiIndex(section?: "contact"): Answer<{ data: Index }>;
  getVersioning(version?: "v1"): Answer<{ data: Versioning }>;
  getV1Index(method?: "POST"): Answer<{ data: { endpoints: { method: "GET" | "POST"; path: string }[] } }>;
  getHealth(verbose?: "true"): Answer<{ data: Health }>;
  getOpenApiDocument(): Answer<{ info: { title: string } }>;
}

type Preflight = Pick<Response, "status" | "headers">;

// What two of the clients return: the one or the other.
export const either = <Body, Failure>(answer: { data?: Body; error?: Failure }): NonNullable<Body | Failure> =>
  (answer.error ?? answer.data)!;

type Outcome = Record<string, unknown>;

const FORM: Form = { form_type: "demo", email: "maria@example.com" };

// What belongs to each code. The compiler refuses the switch when it leaves one out.
function describe({ code, status, retry_after_seconds, allowed_values, details = {} }: ApiError): Outcome {
  const { reason, fields = {}, kept, parameter, supported = [] } = details;
  switch (code) {
    case "invalid_body":
      return { code, status, fields: Object.keys(fields) };
    case "invalid_parameter":
      return { code, status, parameter, allowed_values };
    case "invalid_form_type":
      return { code, status, allowed_values };
    case "unsupported_api_version":
      return { code, status, supported: [...supported] };
    case "rate_limit":
    case "rate_limit_exceeded":
      return { code, status, retry_after_seconds };
    case "too_fast":
      return { code, status, retry_after_seconds, reason };
    case "mail_delivery_failed":
      return { code, status, kept };
    case "invalid_email":
    case "bad_captcha":
    case "not_found":
    case "endpoint_not_found":
    case "method_not_allowed":
    case "api_version_sunset":
    case "internal_error":
      return { code, status };
  }
}

async function read<Body extends object>(answer: Answer<Body>, toOutcome: (body: Body) => Outcome): Promise<Outcome> {
  const body = await answer;
  return "error" in body ? describe(body.error) : toOutcome(body);
}

const readMessage = ({ message }: { message?: string }): Outcome => ({ message });

const readOptions = (response?: Preflight): Outcome | undefined =>
  response && { status: response.status, allow: response.headers.get("Allow") };

const readIndex = ({ data }: { data: Index }): Outcome => ({
  name: data.name,
  current_version: data.current_version,
  limit: data.rate_limit?.limit,
});

const readSection = ({ data }: { data: Index }): Outcome => ({ form_types: data.contact?.form_types });

const readPolicy = ({ data }: { data: Versioning }): Outcome => ({
  notice_period_days: data.deprecation_process?.notice_period_days,
});

const readState = ({ data: { version, status, sunset_on } }: { data: Versioning }): Outcome => ({
  version,
  status,
  sunset_on: sunset_on instanceof Date ? sunset_on.toISOString().slice(0, 10) : sunset_on,
});

const readEndpoints = ({ data }: { data: { endpoints: { method: string; path: string }[] } }): Outcome => ({
  endpoints: data.endpoints.map(({ method, path }) => `${method} ${path}`),
});

const readHealth = ({ data }: { data: Health }): Outcome => ({
  status: data.status,
  transport: data.details?.mail.transport,
});

export async function makeCalls(connect: (address: string, headers: Record<string, string>) => Client): Promise<void> {
  const [live, retired, mailless, network] = process.argv.slice(2);
  let number = 0;
  // Each client has an address of its own.
  const client = (address = live): Client => connect(address, { "X-Forwarded-For": `${network}.${++number}` });

  async function repeat(times: number, call: () => Promise<Outcome>): Promise<Outcome> {
    for (let done = 1; done < times; done++) await call();
    return call();
  }

  const [hasty, busy] = [client(), client()];
  const calls: Record<string, () => Promise<Outcome | undefined>> = {
    form: () => read(client().submitContact({ ...FORM, nombre: "Ñandú" }), readMessage),
    "legacy form": () => read(client().submitContactLegacy({ ...FORM, form_type: "ventas" }), readMessage),
    options: async () => readOptions(await client().getContactOptions?.()),
    "legacy options": async () => readOptions(await client().getContactLegacyOptions?.()),
    index: () => read(client().getApiIndex(), readIndex),
    section: () => read(client().getApiIndex("contact"), readSection),
    policy: () => read(client().getVersioning(), readPolicy),
    version: () => read(client().getVersioning("v1"), readState),
    "retired version": () => read(client(retired).getVersioning("v1"), readState),
    endpoints: () => read(client().getV1Index("POST"), readEndpoints),
    health: () => read(client().getHealth("true"), readHealth),
    document: () => read(client().getOpenApiDocument(), ({ info }) => ({ title: info.title })),
    invalid_email: () => read(client().submitContact({ ...FORM, email: "maria" }), readMessage),
    bad_captcha: () =>
      read(client().submitContactLegacy({ ...FORM, captcha_expected: "aB3dE", captcha_input: "xxxxx" }), readMessage),
    too_fast: () => read(client().submitContact({ ...FORM, ts: 1 }), readMessage),
    invalid_body: () => read(client().submitContact({ ...FORM, nombre: "a".repeat(201) }), readMessage),
    invalid_parameter: () => read(client().getApiIndex("newer" as "contact"), readIndex),
    endpoint_not_found: () => read(client(`${live}/api/nowhere`).getHealth(), readHealth),
    unsupported_api_version: () => read(client(`${live}/api/v9`).getApiIndex(), readIndex),
    rate_limit: () => repeat(2, () => read(hasty.submitContact(FORM), readMessage)),
    rate_limit_exceeded: () => repeat(61, () => read(busy.getVersioning(), readPolicy)),
    api_version_sunset: () => read(client(retired).getV1Index(), readEndpoints),
    mail_delivery_failed: () => read(client(mailless).submitContact(FORM), readMessage),
  };
  const outcomes: Outcome = {};
  for (const [name, call] of Object.entries(calls)) outcomes[name] = (await call()) ?? "no such operation";
  console.log(JSON.stringify(outcomes));
}
