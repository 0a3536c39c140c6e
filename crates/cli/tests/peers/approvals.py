"""Calls one tool through the PyPI `mcp` client and prints what became of it, as JSON.

usage: approvals.py HAFT ERA WAY ANSWER ARGUMENTS
  HAFT: the program, or an address whose token is in HAFT_TOKEN.
  ERA: legacy or 2026-07-28. WAY: elicit, tasks, both or none. ANSWER: allow, deny or dismiss.
"""

import asyncio
import json
import os
import sys
from typing import Any, Literal

import httpx2
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.extension import ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client

HAFT, ERA, WAY, ANSWER, ARGUMENTS = sys.argv[1:]
asked: list[str] = []
polled: list[str] = []


def person(message: str) -> types.ElicitResult:
    asked.append(message)
    if ANSWER == "dismiss":
        return types.ElicitResult(action="cancel")
    if ANSWER == "deny":
        return types.ElicitResult(action="decline")
    return types.ElicitResult(action="accept", content={})


async def elicit(_context: Any, params: Any) -> types.ElicitResult:
    return person(params.message)


class CreatedTask(types.Result):
    result_type: Literal["task"] = "task"
    task_id: str
    status: str


class Raw(types.Result):
    model_config = {"extra": "allow"}


class GetTask(types.Request[dict[str, Any], str]):
    method: str
    params: dict[str, Any]


async def follow(task: CreatedTask, context: Any) -> types.CallToolResult:
    async def send(method: str, **params: Any) -> dict[str, Any]:
        request = GetTask(method=method, params={"taskId": task.task_id, **params})
        answer = await context.session.send_request(request, Raw)
        return answer.model_dump(by_alias=True, mode="json")

    while True:
        state = await send("tasks/get")
        if not polled or polled[-1] != state["status"]:
            polled.append(state["status"])
        if state["status"] == "input_required":
            answers = {
                key: person(asks["params"]["message"]).model_dump(
                    by_alias=True, mode="json", exclude_none=True
                )
                for key, asks in state["inputRequests"].items()
            }
            await send("tasks/update", inputResponses=answers)
        if state["status"] == "completed":
            return types.CallToolResult.model_validate(state["result"])
        await asyncio.sleep(0.05)


class Tasks(ClientExtension):
    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Any:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=follow)]


def server() -> Any:
    if not HAFT.startswith("http:"):
        return StdioServerParameters(command=HAFT, args=["mcp"])
    headers = {"Authorization": f"Bearer {os.environ['HAFT_TOKEN']}"}
    return streamable_http_client(HAFT, http_client=httpx2.AsyncClient(headers=headers, timeout=50))


async def main() -> None:
    extensions = [Tasks()] if WAY in ("tasks", "both") else None
    callback = elicit if WAY in ("elicit", "both") else None
    info = types.Implementation(name="py-peer", version="1")
    client = Client(
        server(),
        mode=ERA,
        client_info=info,
        elicitation_callback=callback,
        extensions=extensions,
    )
    async with client:
        result = await client.call_tool("write", json.loads(ARGUMENTS))
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        told = {"error": result.is_error, "text": text, "asked": asked, "polled": polled, "replayed": []}
        print(json.dumps(told), flush=True)


asyncio.run(main())
