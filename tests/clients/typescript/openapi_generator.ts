import { type ApiError, makeCalls, type Same } from "./calls";
import {
  Configuration,
  ContactApi,
  DiscoveryApi,
  DocumentApi,
  type ErrorCode,
  type ErrorResponse,
  ErrorResponseFromJSON,
  HealthApi,
  ResponseError,
} from "./client";

export const codesAreTyped: Same<ErrorCode, ApiError["code"]> = true;

// The client throws the response of an error.
async function read<Body>(answer: Promise<Body>): Promise<Body | ErrorResponse> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ResponseError) return ErrorResponseFromJSON(await error.response.json());
    throw error;
  }
}

makeCalls((basePath, headers) => {
  const configuration = new Configuration({ basePath, headers });
  const contact = new ContactApi(configuration);
  const discovery = new DiscoveryApi(configuration);
  return {
    submitContact: (contactRequest) => read(contact.submitContact({ contactRequest })),
    submitContactLegacy: (contactRequest) => read(contact.submitContactLegacy({ contactRequest })),
    getContactOptions: async () => (await contact.getContactOptionsRaw()).raw,
    getContactLegacyOptions: async () => (await contact.getContactLegacyOptionsRaw()).raw,
    getApiIndex: (section) => read(discovery.getApiIndex({ section })),
    getVersioning: (version) => read(discovery.getVersioning({ version })),
    getV1Index: (method) => read(discovery.getV1Index({ method })),
    getHealth: (verbose) => read(new HealthApi(configuration).getHealth({ verbose })),
    getOpenApiDocument: () => read(new DocumentApi(configuration).getOpenApiDocument()),
  };
});
