"""An MCP server with many tools: three that do something, and as many more as its argument says."""

import json
import sys

ROOM = "Keeps one of the many records that fill a catalog, with all it says about itself. " * 4


def tool(name, description, parameter, **hints):
    properties = {parameter: {"type": "string", "description": "what it is about"}}
    schema = {"type": "object", "properties": properties}
    return {"name": name, "description": description, "inputSchema": schema, "annotations": hints}


TOOLS = [
    tool("forecast", "Says how it will be", "latitude", readOnlyHint=True),
    tool("put", "Keeps something", "text", readOnlyHint=False, destructiveHint=False),
    tool("drop", "Throws everything away", "text"),
    tool("secret", "Says what nobody may know", "text", readOnlyHint=True),
] + [tool("filler_%03d" % n, ROOM, "record", readOnlyHint=True) for n in range(int(sys.argv[1]))]


def answer(method, parameters):
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "many", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        said = "%s %s" % (parameters["name"], json.dumps(parameters.get("arguments")))
        return {"content": [{"type": "text", "text": said}]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    result = answer(message["method"], message.get("params") or {})
    if result is None:
        reply["error"] = {"code": -32601, "message": "no such method"}
    else:
        reply["result"] = result
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()
