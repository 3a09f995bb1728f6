import { type ApiError, type Client, type Same } from "./calls";
import * as api from "./client/calls";
import * as generated from "./client/schemas";

export const codesAreTyped: Same<api.ErrorCode, ApiError["code"]> = true;

// Orval 7 begins the names of the schemas with a small letter, and Orval 8 with a capital one.
type Schemas = { [Name in keyof typeof generated as Capitalize<Name>]: (typeof generated)[Name] };
const schemas = Object.fromEntries(
  Object.entries(generated).map(([name, schema]) => [name[0].toUpperCase() + name.slice(1), schema]),
) as Schemas;

export function connect(base: string, headers: Record<string, string>): Client {
  const options = { base, headers };
  return {
    submitContact: async (form) => {
      const { status, data } = await api.submitContact(form, options);
      return schemas[`SubmitContact${status}Response`].parse(data);
    },
    submitContactLegacy: async (form) => {
      const { status, data } = await api.submitContactLegacy(form, options);
      return schemas[`SubmitContactLegacy${status}Response`].parse(data);
    },
    getApiIndex: async (section) => {
      const { status, data } = await api.getApiIndex({ section }, options);
      return schemas[`GetApiIndex${status}Response`].parse(data);
    },
    getVersioning: async (version) => {
      const { status, data } = await api.getVersioning({ version }, options);
      return schemas[`GetVersioning${status}Response`].parse(data);
    },
    getV1Index: async (method) => {
      const { status, data } = await api.getV1Index({ method }, options);
      return schemas[`GetV1Index${status}Response`].parse(data);
    },
    getHealth: async (verbose) => {
      const { status, data } = await api.getHealth({ verbose }, options);
      return schemas[`GetHealth${status}Response`].parse(data);
    },
    getOpenApiDocument: async () => {
      const { status, data } = await api.getOpenApiDocument(options);
      if (status === 304) throw new Error("The answer is not modified, and nobody asked for that.");
      return schemas[`GetOpenApiDocument${status}Response`].parse(data);
    },
  };
}
