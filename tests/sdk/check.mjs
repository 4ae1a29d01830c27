// The official TypeScript SDK against the fake server of the Responses API: a loop of tools with reasoning, streamed.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [url, packages] = process.argv.slice(2);
const { default: OpenAI } = await import(pathToFileURL(createRequire(`${packages}/`).resolve("openai")));

function expect(condition, what) {
  if (!condition) throw new Error(`not as it should be: ${JSON.stringify(what)}`);
}

const client = new OpenAI({ apiKey: "sdk-key", baseURL: url, maxRetries: 0 });
const parameters = { type: "object", properties: { path: { type: "string" } }, required: ["path"] };
const base = {
  model: "gpt-6-sol",
  store: false,
  include: ["reasoning.encrypted_content"],
  reasoning: { summary: "auto" },
  tools: [{ type: "function", name: "Read", description: "Read a file.", parameters, strict: false }],
};
const input = [{ role: "user", content: 'call Read {"path": "warp.md"}\ncall Read {"path": "weft.md"}' }];

const heard = { reasoning: "", text: "" };
const stream = client.responses.stream({ ...base, input });
stream.on("response.reasoning_summary_text.delta", (event) => (heard.reasoning += event.delta));
stream.on("response.output_text.delta", (event) => (heard.text += event.delta));
const first = await stream.finalResponse();
expect(heard.reasoning === "What was said?" && heard.text === first.output_text, heard);
expect(first.output.map((item) => item.type).join() === "reasoning,message,function_call,function_call", first.output);

const calls = first.output.filter((item) => item.type === "function_call");
const results = calls.map((call) => ({
  type: "function_call_output",
  call_id: call.call_id,
  output: JSON.parse(call.arguments).path,
}));
// The helper adds fields of its own to what it has parsed.
const said = first.output.map(({ parsed_arguments, ...item }) =>
  item.content ? { ...item, content: item.content.map(({ parsed, ...part }) => part) } : item,
);
const last = await client.responses.create({ ...base, input: [...input, ...said, ...results] });
expect(last.output_text === "It came to: warp.md / weft.md", last);

let refused;
await client.responses.create({ ...base, input: [...input, ...said] }).catch((error) => (refused = error));
expect(refused instanceof OpenAI.BadRequestError && refused.message.includes("No tool output found"), refused);
console.log("TypeScript: a loop with reasoning");
