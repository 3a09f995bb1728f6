const input = "openapi.json";
const mutator = { path: "request.ts", name: "request" };
// Each error has a schema as well. Orval 7 would take times of UTC alone, in the form that ends in Z.
const zod = { generateEachHttpStatus: true, dateTimeOptions: { offset: true } };

export default {
  calls: { input, output: { client: "fetch", target: "client/calls.ts", override: { mutator } } },
  schemas: { input, output: { client: "zod", target: "client/schemas.ts", override: { zod } } },
};
