// A server of the official TypeScript SDK 2.x; copied to where the SDK is installed.

import { McpServer, ResourceTemplate } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import * as z from "zod";
import { declare } from "./body.mjs";

serveStdio(() => {
  const server = new McpServer({ name: "real", version: "1.0.0" }, { instructions: "Ask it." });
  const template = new ResourceTemplate("note://by/{name}", { list: undefined });
  return declare(server, z, z.object, template, (context) => context.mcpReq.signal);
});
