// What test_real_servers asks every server for, declared to a McpServer of either TypeScript SDK.

const text = (said) => ({ content: [{ type: "text", text: String(said) }] });
let cancelled = 0;

// The SDKs differ in what they call a schema, and in how a handler learns that it is cancelled.
export function declare(server, z, object, template, signalOf) {
  server.registerTool(
    "add",
    {
      description: "Add two numbers.",
      inputSchema: object({ a: z.number(), b: z.number() }),
      outputSchema: object({ result: z.number() }),
    },
    async ({ a, b }) => ({ ...text(a + b), structuredContent: { result: a + b } }),
  );
  server.registerTool("refuse", { description: "Fail.", inputSchema: object({}) }, async () => {
    throw new Error("not today");
  });
  server.registerTool(
    "sleep",
    { description: "Take a minute, unless cancelled.", inputSchema: object({}) },
    (_, context) =>
      new Promise((resolve) => {
        const timer = setTimeout(() => resolve(text("slept")), 60_000);
        signalOf(context).addEventListener("abort", () => {
          cancelled += 1;
          clearTimeout(timer);
          resolve(text("cancelled"));
        });
      }),
  );
  server.registerTool(
    "count_cancelled",
    { description: "How many sleeps were cancelled.", inputSchema: object({}) },
    async () => text(cancelled),
  );
  server.registerResource("static", "note://static", {}, async (uri) => ({
    contents: [{ uri: uri.href, text: "a note" }],
  }));
  server.registerResource("by", template, {}, async (uri, { name }) => ({
    contents: [{ uri: uri.href, text: `a note by ${name}` }],
  }));
  server.registerPrompt("greet", { argsSchema: object({ name: z.string() }) }, ({ name }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Greet ${name}.` } }],
  }));
  return server;
}
