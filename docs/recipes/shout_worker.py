"""A worker of a pool: one line of JSON in, one line of JSON out.

Nothing else may be written to standard output: print for people goes to standard error.
"""

import json
import sys


def answer(request):
    payload = request["payload"]
    if "text" not in payload:
        # Trying again would be the same again.
        return {"status": "dead", "message": "there is no text to shout"}
    if payload.get("busy"):
        # The attempt is given back.
        return {"status": "throttled", "retry_after_secs": 30}
    return {"status": "ok", "result": {"shouted": payload["text"].upper()}}


def main():
    # Whatever takes long (a model, a connection) comes before this line. No job is given to us until we said it.
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = answer(request)
        except Exception as error:  # the job is tried again, and this process lives on
            reply = {"status": "error", "message": f"{type(error).__name__}: {error}"}
        print(json.dumps({"id": request["id"], **reply}), flush=True)


if __name__ == "__main__":
    main()
