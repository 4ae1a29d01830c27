// The TypeScript SDK 1.x.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { steps, target } from './steps.mjs';

const headers = { Authorization: `Bearer ${target.token}` };
const transport = target.url
    ? new StreamableHTTPClientTransport(new URL(target.url), { requestInit: { headers } })
    : new StdioClientTransport({ command: target.command[0], args: target.command.slice(1), env: target.env });
let version;
// The version that was agreed on is told to the transport alone.
const tell = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (agreed) => {
    version = agreed;
    tell?.(agreed);
};
const client = new Client({ name: 'sdk-1', version: '1' });
await client.connect(transport);
await steps(client, () => version);
