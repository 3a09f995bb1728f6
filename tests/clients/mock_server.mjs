// Starts Scalar's mock of the document whose file is named, and prints where it listens.

import { readFileSync } from "node:fs";

import { serve } from "@hono/node-server";
import { createMockServer } from "@scalar/mock-server";

const { fetch } = await createMockServer({ document: readFileSync(process.argv[2], "utf8") });
serve({ fetch, hostname: "127.0.0.1", port: 0 }, ({ port }) => console.log(`listening on http://127.0.0.1:${port}`));
