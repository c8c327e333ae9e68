"""vLLM's OpenAI server on hpu: completions of several clients at once, streams, chats and models.
It prints its result as JSON in its last line."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from small_models import judge, make_model, make_prompts

_TOKENS = 16
_START_S = 500


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class _Server:
    def __init__(self, model: Path) -> None:
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = [
            *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
            *("--model", str(model), "--served-model-name", "small", "--port", str(self.port)),
            *("--max-model-len", "512", "--max-num-seqs", "8", "--num-gpu-blocks-override", "64"),
            *("--dtype", "bfloat16", "--enforce-eager"),
        ]
        self.process = subprocess.Popen(command, stdout=sys.stderr)

    def wait(self) -> None:
        end = time.monotonic() + _START_S
        while time.monotonic() < end:
            code = self.process.poll()
            assert code is None, f"the server ended with {code} before it was ready"
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=5).close()
                return
            except (urllib.error.URLError, TimeoutError, ConnectionError):
                time.sleep(0.2)
        raise TimeoutError(f"the server is not ready after {_START_S} s")

    def post(self, path: str, **body: Any) -> Any:
        data = json.dumps({"model": "small"} | body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/v1/{path}", data, headers)
        return urllib.request.urlopen(request, timeout=300)

    def answer(self, path: str, **body: Any) -> Any:
        with self.post(path, **body) as response:
            return json.load(response)

    def stream(self, path: str, **body: Any) -> Iterator[Any]:
        with self.post(path, stream=True, **body) as response:
            for line in response:
                text = line.decode().removeprefix("data: ").strip()
                if text and text != "[DONE]":
                    yield json.loads(text)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _greedy(server: _Server, prompt: list[int]) -> list[int]:
    body = {"prompt": prompt, "max_tokens": _TOKENS, "temperature": 0, "ignore_eos": True}
    answer = server.answer("completions", return_token_ids=True, **body)
    return list(answer["choices"][0]["token_ids"])


def main() -> None:
    model = make_model("llama", Path(os.environ["CLIENT_MODELS"]))
    prompts = make_prompts(16, 200)
    begin = time.perf_counter()
    server = _Server(model)
    try:
        server.wait()
        ready = time.perf_counter() - begin
        with urllib.request.urlopen(f"{server.url}/v1/models", timeout=60) as response:
            assert json.load(response)["data"][0]["id"] == "small"
        with ThreadPoolExecutor(8) as clients:
            answers = list(clients.map(lambda prompt: _greedy(server, prompt), prompts))
        chat = {
            "messages": [{"role": "user", "content": "hello"}],
            "max_tokens": 12,
            "temperature": 0,
            "ignore_eos": True,
        }
        whole = server.answer("chat/completions", **chat)["choices"][0]["message"]["content"]
        parts = [p["choices"][0]["delta"] for p in server.stream("chat/completions", **chat)]
        streamed = "".join(part.get("content") or "" for part in parts)
        assert streamed == whole and len(parts) > 3, "a stream gives the same text in parts"
    finally:
        server.stop()
    result = asdict(judge(model, prompts, answers)) | {"ready_s": round(ready, 1)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
