// Holds messages to the official JSON Schema of their revision.
//
//     node schemas.mjs < messages      an array of {revision, message, method}
//
// "method" is that of the request, for a response. Prints an array of what is wrong. The schemas
// are those that the conformance suite brings, as literals in its one file, oldest first; Ajv
// comes with it. Copied to where the suite is installed.

import { readFileSync } from "node:fs";
import addFormats from "ajv-formats";
import { Ajv } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";

const REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
const SUITE = "node_modules/@modelcontextprotocol/conformance/dist/index.js";

function literals(source) {
  const starts = source.matchAll(/=(?=\{\$schema:`[^`]+`,(?:\$defs|definitions):\{)/g);
  return [...starts].map(({ index }) => {
    const text = source.slice(index + 1);
    // Braces within strings do not count.
    const tokens = text.matchAll(/`(?:\\.|[^`\\])*`|"(?:\\.|[^"\\])*"|[{}]/gs);
    let depth = 0;
    for (const { 0: token, index: at } of tokens) {
      depth += token === "{" ? 1 : token === "}" ? -1 : 0;
      if (depth === 0) return new Function(`return ${text.slice(0, at + 1)}`)();
    }
  });
}

function validator(schema) {
  const ajv = new (schema.$schema.includes("2020-12") ? Ajv2020 : Ajv)({ strict: false, allErrors: true });
  addFormats.default(ajv);
  ajv.addFormat("byte", true);
  ajv.addSchema(schema, "mcp");
  const key = "$defs" in schema ? "$defs" : "definitions";
  const methods = new Map();
  for (const [name, definition] of Object.entries(schema[key])) {
    const method = definition.properties?.method?.const;
    if (method !== undefined) methods.set(method, name);
  }
  const problems = (name, value) => {
    const validate = ajv.getSchema(`mcp#/${key}/${name}`);
    return validate(value) ? [] : validate.errors.map((e) => `${name}${e.instancePath}: ${e.message}`);
  };
  return ({ message, method }) => {
    const found = problems("JSONRPCMessage", message);
    if (methods.has(message.method)) found.push(...problems(methods.get(message.method), message));
    const result = methods.get(method)?.replace(/Request$/, "Result");
    if ("result" in message && result in schema[key] && !("inputRequests" in message.result))
      found.push(...problems(result, message.result));
    return found;
  };
}

const schemas = literals(readFileSync(SUITE, "utf8"));
if (schemas.length !== REVISIONS.length) throw new Error(`${schemas.length} schemas in the suite`);
const validators = new Map(REVISIONS.map((revision, n) => [revision, validator(schemas[n])]));
const said = JSON.parse(readFileSync(0, "utf8"));
const wrong = said.flatMap((each) =>
  validators.get(each.revision)(each).map((problem) => `${problem} in ${JSON.stringify(each)}`),
);
console.log(JSON.stringify(wrong));
