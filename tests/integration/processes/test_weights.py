"""The models of a scale are fetched at their revision and checked, and load without a network.

The hub is a server on the loopback that has a model which ships, under another name; the client is huggingface_hub
itself, in a process of its own, and what loads the model is what runs load it with.
"""

import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from groundlab.core.errors import GroundlabError
from groundlab.lab import weights
from groundlab.lab.run_hash import package_folder

COMMIT = "a" * 40
SHIPPED = package_folder() / "assets" / "models" / "quick-t5-s0"
PROGRAM = """
import sys
from groundlab.core.errors import GroundlabError
from groundlab.lab import weights
asked = weights.Weights(sys.argv[1], sys.argv[2] or None)
try:
    folder = weights.fetch(asked, weights.listing(asked), print)
    from groundlab.language import models
    model, tokenizer = models.load(asked.repo, asked.revision)
    print("parameters", sum(each.numel() for each in model.parameters()), len(tokenizer))
except GroundlabError as error:
    sys.exit(f"groundlab: {error}")
"""


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as a download asks for: its list of files with digests, and the files."""

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        repo = "google/tiny"
        path = self.path.partition("?")[0]
        if "/gated/" in path or path.startswith("/gated"):
            return self.answer(b"{}", 403, {"X-Error-Code": "GatedRepo"})
        if path.startswith("/api/models/"):
            if repo not in path or (COMMIT not in path and not path.endswith(("/main", "tiny"))):
                return self.answer(b"{}", 404, {"X-Error-Code": "RevisionNotFound"})
            listed = self.listed(repo)
            return self.answer(json.dumps(self.tree(listed) if "/tree/" in path else listed).encode())
        name = path.rpartition("/")[2]
        if name not in self.server.content:  # type: ignore[attr-defined]
            return self.answer(b"{}", 404)
        content = self.server.content[name]  # type: ignore[attr-defined]
        digest = self.digest(name, self.server.whole[name])  # type: ignore[attr-defined]
        return self.answer(content, 200, {"X-Repo-Commit": COMMIT, "ETag": f'"{digest}"'})

    def digest(self, name: str, content: bytes) -> str:
        if name.endswith(".safetensors"):
            return hashlib.sha256(content).hexdigest()
        return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()

    def listed(self, repo: str):
        files = []
        for name, content in self.server.whole.items():  # type: ignore[attr-defined]
            large = {"lfs": {"sha256": self.digest(name, content), "size": len(content), "pointerSize": 130}}
            about = {"rfilename": name, "size": len(content), "blobId": self.digest(name, content)}
            files.append(about | (large if name.endswith(".safetensors") else {}))
        return {"_id": "1", "id": repo, "modelId": repo, "sha": COMMIT, "siblings": files, "private": False}

    def tree(self, listed):
        """The same files as the client's downloads ask for them."""
        return [
            {"type": "file", "path": each["rfilename"], "size": each["size"], "oid": each["blobId"]}
            | ({"lfs": {**each["lfs"], "oid": each["lfs"]["sha256"]}} if "lfs" in each else {})
            for each in listed["siblings"]
        ]

    def answer(self, body: bytes, status: int = 200, headers: dict[str, str] | None = None):
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.server.served.append(self.path)  # type: ignore[attr-defined]
            self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    files = {file.name: file.read_bytes() for file in SHIPPED.iterdir() if file.is_file()}
    httpd.whole = files | {"tf_model.h5": b"another framework's"}  # type: ignore[attr-defined]
    httpd.content, httpd.served = dict(httpd.whole), []  # type: ignore[attr-defined]
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield httpd
    httpd.shutdown()
    httpd.server_close()


@pytest.fixture
def fetch(server, tmp_path):
    """Fetches and loads a model in a process whose hub is the loopback's and whose cache is empty at first."""

    def run(repo: str, revision: str, **environment: str) -> subprocess.CompletedProcess[str]:
        own = {
            **{name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"},
            "HF_HOME": str(tmp_path / "huggingface"),
            "HF_ENDPOINT": f"http://127.0.0.1:{server.server_address[1]}",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        }
        command = [sys.executable, "-c", PROGRAM, repo, revision]
        return subprocess.run(command, env=own | environment, capture_output=True, text=True, timeout=500)

    return run


def test_a_fetched_model_is_hashed_and_loads_at_its_revision_and_a_damaged_file_is_not_kept(fetch, server, tmp_path):
    weights_file = next(name for name in server.whole if name.endswith(".safetensors"))
    server.content[weights_file] = server.whole[weights_file][:-1] + b"\1"
    damaged = fetch("google/tiny", COMMIT)
    assert "arrived damaged and was deleted; the same command fetches it again" in damaged.stderr, damaged.stderr
    assert damaged.stderr.count("\n") <= 2 and damaged.returncode == 1
    server.content[weights_file] = server.whole[weights_file]
    whole = fetch("google/tiny", COMMIT)
    assert whole.returncode == 0, whole.stderr
    assert f"{hashlib.sha256(server.whole[weights_file]).hexdigest()}  " in whole.stdout
    assert "parameters " in whole.stdout.splitlines()[-1]
    assert not any("tf_model" in path for path in server.served)
    assert (tmp_path / "huggingface" / "hub" / "models--google--tiny" / "snapshots" / COMMIT / weights_file).is_file()


def test_a_model_without_a_pinned_revision_loads_by_its_name(fetch):
    answer = fetch("google/tiny", "")
    assert answer.returncode == 0 and "parameters " in answer.stdout, answer.stderr


@pytest.mark.parametrize(
    ("repo", "revision", "environment", "said"),
    [
        ("gated/tiny", COMMIT, {}, "is gated: accept its licence on http"),
        ("google/tiny", "b" * 40, {}, "at that revision"),
        ("google/tiny", COMMIT, {"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set; unset it to fetch"),
        ("google/tiny", COMMIT, {"HF_ENDPOINT": "http://127.0.0.1:9"}, "is out of reach"),
    ],
)
@pytest.mark.slow
def test_what_keeps_a_model_from_being_fetched_is_one_line_with_its_fix(repo, revision, environment, said, fetch):
    answer = fetch(repo, revision, **environment)
    line = answer.stderr.strip().splitlines()[-1]
    assert line.startswith("groundlab: ") and said in line and len(line) < 500 and "Traceback" not in answer.stderr


def test_a_disk_that_is_too_small_is_told_before_anything_is_fetched(tmp_path, monkeypatch):
    monkeypatch.setattr(weights.constants, "HF_HUB_CACHE", str(tmp_path))
    large = weights.Listing(COMMIT, [weights.File("model.safetensors", 10**18, "0" * 64)])
    with pytest.raises(GroundlabError, match=r"needs 1,000,000,000.0 GB and .* free; set HF_HOME"):
        weights.fetch(weights.Weights("google/tiny", COMMIT), large)


def test_every_model_that_the_papers_train_is_pinned_to_a_commit():
    named = weights.named_at("paper")
    trained = {each.repo: each.revision for each in named if each.revision}
    assert {"google/flan-t5-large", "google/flan-t5-small", "google/flan-t5-xl"} < trained.keys()
    assert len(set(trained.values())) == len(trained) and all(len(revision) == 40 for revision in trained.values())
    assert all(each.revision for each in named), "a setting without one"
    assert weights.named_at("smoke") == [], "what ships is enough"
