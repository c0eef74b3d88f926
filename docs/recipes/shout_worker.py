"""A worker of a pool: reads one line of JSON per job, writes one line of JSON per result.

Write nothing else to standard output; log to standard error.
"""

import json
import sys


def answer(request):
    payload = request["payload"]
    if "text" not in payload:
        # A retry would fail the same way.
        return {"status": "dead", "message": "there is no text to shout"}
    if payload.get("busy"):
        # The job's attempt is restored.
        return {"status": "throttled", "retry_after_secs": 30}
    return {"status": "ok", "result": {"shouted": payload["text"].upper()}}


def main():
    # Load models and open connections before this line: the pool sends no job until it has read it.
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = answer(request)
        except Exception as error:  # the job is retried, and this process continues
            reply = {"status": "error", "message": f"{type(error).__name__}: {error}"}
        print(json.dumps({"id": request["id"], **reply}), flush=True)


if __name__ == "__main__":
    main()
