// The TypeScript SDK 2.x (`@modelcontextprotocol/client`), in either era.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { mode, steps, target } from './steps.mjs';

const headers = { Authorization: `Bearer ${target.token}` };
const transport = target.url
    ? new StreamableHTTPClientTransport(new URL(target.url), { requestInit: { headers } })
    : new StdioClientTransport({ command: target.command[0], args: target.command.slice(1), env: target.env });
const client = new Client({ name: 'sdk-2', version: '2' }, { versionNegotiation: { mode } });
await client.connect(transport);
await steps(client, () => client.getNegotiatedProtocolVersion());
