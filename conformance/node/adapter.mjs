// What the JavaScript adapters share: the protocol, and frames in the shape that the npm libraries want.
import { createInterface } from 'node:readline';

export class Unsupported extends Error {}

// Answers one request a line until the input ends. What the libraries print goes to standard error.
export async function serve(functions) {
  console.log = console.error;
  for await (const asked of createInterface({ input: process.stdin })) {
    const request = JSON.parse(asked);
    let line;
    try {
      if (!functions[request.op]) throw new Unsupported(`it has no function to ${request.op}`);
      line = written({ outcome: 'accepted', ...(await functions[request.op](request)) });
    } catch (error) {
      const outcome = error instanceof Unsupported ? 'unsupported' : 'refused';
      line = written({ outcome, error: `${error?.name}: ${error?.message ?? error}` });
    }
    process.stdout.write(`${line}\n`);
  }
}

// JSON, with a BigInt as the number that it is.
const written = (answer) =>
  JSON.stringify(answer, (_, value) => (typeof value === 'bigint' ? `BigInt ${value}` : value)).replace(/"BigInt (-?\d+)"/g, '$1');

export const decode = (part) => JSON.parse(Buffer.from(part, 'base64url').toString('utf8'));

// {_sd: [names], name: {…}} for the hidden places.
export function disclosureFrame(paths) {
  const frame = {};
  for (const path of paths) {
    let place = frame;
    for (const name of path.slice(0, -1)) place = place[name] ??= {};
    (place._sd ??= []).push(path.at(-1));
  }
  return frame;
}

// {name: true} or {name: {…}} for the places to show.
export function presentationFrame(paths) {
  const frame = {};
  for (const path of paths) {
    let place = frame;
    for (const name of path.slice(0, -1)) place = place[name] = Object(place[name] ?? {}) === place[name] ? place[name] : {};
    place[path.at(-1)] ??= true;
  }
  return frame;
}
