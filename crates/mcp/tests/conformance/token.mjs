// Loaded into the conformance suite before it starts: sends the token that Haft's endpoint wants,
// which the suite has no option for. Everything else it sends stays as it is.

import http from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const suite = `${process.env.HAFT_MCP_PEERS}/node_modules/@modelcontextprotocol/conformance/package.json`;
const { getGlobalDispatcher, setGlobalDispatcher } = createRequire(pathToFileURL(suite))('undici');
const bearer = `Bearer ${process.env.HAFT_CONFORMANCE_TOKEN}`;

const withToken = (dispatch) => (options, handler) => {
  const headers = Array.isArray(options.headers)
    ? [...options.headers, 'authorization', bearer]
    : { ...options.headers, authorization: bearer };
  return dispatch({ ...options, headers }, handler);
};
setGlobalDispatcher(getGlobalDispatcher().compose(withToken));

// Headers whose exact spelling matters are sent without the client above.
const request = http.request;
http.request = (...details) => {
  const sending = request(...details);
  sending.setHeader('authorization', bearer);
  return sending;
};
