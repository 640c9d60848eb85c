# SPDX-License-Identifier: Apache-2.0
"""One question about every picture of a folder, by Ray: two workers on this machine, or those of a cluster.

    ray_batch.py FOLDER "What is on the table?" answers.jsonl [--model DIR] [--workers 2] [--url URL] [--nodes 2]

Each worker has an engine of its own (fovea.ray.Ask); with --url all ask one `fovea serve` instead, through Ray's HTTP
processor. --nodes 2 makes a cluster of two nodes on this machine first; without it Ray joins the cluster that
RAY_ADDRESS names, or starts on this machine. There is a JSON line for each picture, in their order, written as soon
as it and all before it are there: the same command again goes on behind them. Needs Ray (pip install "ray[data]");
--url needs aiohttp, too.
"""

import argparse
import base64
import json
import mimetypes
import os
from pathlib import Path
from typing import Any

import ray
import ray.data

import fovea.ray

KINDS = {".jpg", ".jpeg", ".png", ".webp"}


def pictures_of(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*") if path.suffix.lower() in KINDS)


def lines_of(path: Path) -> list[str]:
    """The pictures that have lines; a last line without its end is taken off."""
    if not path.exists():
        return []
    whole = path.read_bytes()
    whole = whole[:whole.rfind(b"\n") + 1]
    os.truncate(path, len(whole))
    return [json.loads(line)["picture"] for line in whole.splitlines()]


def start(workers: int) -> None:
    """Joins a cluster, or starts one here, with room for what goes on beside the workers."""
    if "RAY_ADDRESS" in os.environ:
        ray.init()
    else:
        ray.init(num_cpus=workers + 2)


def start_nodes(count: int) -> Any:
    """A cluster of several nodes on one machine, as Ray's own tests have."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    for _ in range(count - 1):
        cluster.add_node(num_cpus=2)
    ray.init(address=cluster.address)
    return cluster


def by_engines(rows: Any, args: argparse.Namespace) -> Any:
    return rows.map_batches(
        fovea.ray.Ask, batch_size=4, num_cpus=1, compute=ray.data.ActorPoolStrategy(size=args.workers),
        scheduling_strategy="SPREAD",
        fn_constructor_kwargs={"model": args.model, "question": args.question, "threads": args.threads,
                               "budget": args.budget})


def by_server(rows: Any, args: argparse.Namespace) -> Any:
    from ray.data.llm import HttpRequestProcessorConfig, build_processor

    def request(row: dict[str, Any]) -> dict[str, Any]:
        data = base64.b64encode(Path(row["path"]).read_bytes()).decode()
        kind = mimetypes.guess_type(row["path"])[0] or "image/jpeg"
        content = [{"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}},
                   {"type": "text", "text": args.question}]
        return {"path": row["path"], "payload": {"messages": [{"role": "user", "content": content}],
                                                 "temperature": 0, "fovea": {"budget": args.budget}}}

    def answer(row: dict[str, Any]) -> dict[str, Any]:
        said = row["http_response"]
        if said.get("error"):
            return {"path": row["path"], "text": "", "finish": "", "error": said["error"]["message"]}
        choice = said["choices"][0]
        return {"path": row["path"], "text": choice["message"]["content"], "finish": choice["finish_reason"],
                "error": None}

    # A batch's requests follow each other; those of several batches are on their way together.
    config = HttpRequestProcessorConfig(url=args.url + "/v1/chat/completions", batch_size=2, max_retries=3,
                                        concurrency=args.workers)
    return build_processor(config, preprocess=request, postprocess=answer)(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("question")
    parser.add_argument("answers", type=Path)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--budget", type=int, default=96)
    parser.add_argument("--threads", type=int, default=1, help="of each worker's engine; 0: all of its machine")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--url", help="of a fovea serve that is running, e.g. http://127.0.0.1:8000")
    parser.add_argument("--nodes", type=int, default=0, help="make a cluster of so many nodes on this machine")
    args = parser.parse_args()

    pictures = pictures_of(args.folder)
    done = lines_of(args.answers)
    if done != pictures[:len(done)]:
        raise SystemExit(f"{args.answers} has lines of other pictures")
    if len(done) < len(pictures):
        cluster = start_nodes(args.nodes) if args.nodes else start(args.workers)
        ray.data.DataContext.get_current().execution_options.preserve_order = True
        rows = ray.data.from_items([{"path": path} for path in pictures[len(done):]])
        rows = by_server(rows, args) if args.url else by_engines(rows, args)
        with open(args.answers, "a", encoding="utf-8") as out:
            for row in rows.iter_rows():
                line = {"picture": row["path"], **({"error": row["error"]} if row["error"] else
                                                   {"text": row["text"], "finish": row["finish"]})}
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
                out.flush()
        ray.shutdown()
        if cluster:
            cluster.shutdown()
    print(f"{len(pictures)} pictures, {len(pictures) - len(done)} of them now")


if __name__ == "__main__":
    main()
