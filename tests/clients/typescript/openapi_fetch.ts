import createClient from "openapi-fetch";

import { type ApiError, either, makeCalls, type Same } from "./calls";
import type { components, paths } from "./client/paths";

export const codesAreTyped: Same<components["schemas"]["ErrorCode"], ApiError["code"]> = true;

const FORM = { "Content-Type": "application/x-www-form-urlencoded" };

makeCalls((baseUrl, headers) => {
  const client = createClient<paths>({ baseUrl, headers });
  return {
    submitContact: async (body) => either(await client.POST("/api/v1/contact", { body })),
    submitContactLegacy: async (body) => either(await client.POST("/contact.php", { body, headers: FORM })),
    getContactOptions: async () => (await client.OPTIONS("/api/v1/contact")).response,
    getContactLegacyOptions: async () => (await client.OPTIONS("/contact.php")).response,
    getApiIndex: async (section) => either(await client.GET("/api", { params: { query: { section } } })),
    getVersioning: async (version) => either(await client.GET("/api/versioning", { params: { query: { version } } })),
    getV1Index: async (method) => either(await client.GET("/api/v1", { params: { query: { method } } })),
    getHealth: async (verbose) => either(await client.GET("/api/v1/health", { params: { query: { verbose } } })),
    getOpenApiDocument: async () => either(await client.GET("/openapi.json")),
  };
});
