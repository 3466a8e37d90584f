// A server of the official TypeScript SDK 1.x; copied to where the SDK is installed.

import { McpServer, ResourceTemplate } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import * as z from "zod";
import { declare } from "./body.mjs";

const server = new McpServer({ name: "real", version: "1.0.0" }, { instructions: "Ask it." });
const template = new ResourceTemplate("note://by/{name}", { list: undefined });
declare(server, z, (shape) => shape, template, (extra) => extra.signal);
await server.connect(new StdioServerTransport());
