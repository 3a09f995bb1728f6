import { type ApiError, either, makeCalls, type Same } from "./calls";
import * as api from "./client";
import { createClient, urlSearchParamsBodySerializer } from "./client/client";

export const codesAreTyped: Same<api.ErrorCode, ApiError["code"]> = true;

const FORM = { "Content-Type": "application/x-www-form-urlencoded" };

makeCalls((baseUrl, headers) => {
  const client = createClient({ baseUrl, headers });
  return {
    submitContact: async (body) => either(await api.submitContact({ client, body })),
    submitContactLegacy: async (body) =>
      either(await api.submitContactLegacy({ client, body, headers: FORM, ...urlSearchParamsBodySerializer })),
    getContactOptions: async () => (await api.getContactOptions({ client })).response,
    getContactLegacyOptions: async () => (await api.getContactLegacyOptions({ client })).response,
    getApiIndex: async (section) => either(await api.getApiIndex({ client, query: { section } })),
    getVersioning: async (version) => either(await api.getVersioning({ client, query: { version } })),
    getV1Index: async (method) => either(await api.getV1Index({ client, query: { method } })),
    getHealth: async (verbose) => either(await api.getHealth({ client, query: { verbose } })),
    getOpenApiDocument: async () => either(await api.getOpenApiDocument({ client })),
  };
});
