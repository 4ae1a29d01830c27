// What both TypeScript clients do, and print as one JSON.
import { readFileSync } from 'node:fs';

// Where the server is: `command` and `env`, or `url` and `token`.
export const target = JSON.parse(process.argv[2]);
export const mode = process.argv[3] ?? 'auto';

export async function steps(client, version) {
    const { tools } = await client.listTools();
    const answers = {};
    for (const [name, [tool, args]] of Object.entries(JSON.parse(readFileSync(0, 'utf8')))) {
        const result = await client.callTool({ name: tool, arguments: args });
        const text = result.content.filter((block) => block.type === 'text').map((block) => block.text).join('\n');
        answers[name] = { is_error: Boolean(result.isError), text, structured: result.structuredContent ?? null };
    }
    console.log(JSON.stringify({ version: version(), tools: tools.map((tool) => tool.name), answers }));
    await client.close();
}
