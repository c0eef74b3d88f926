"""Enqueues over HTTP with the standard library: python3 enqueue_http.py A-17 ada@example.org"""

import json
import os
import sys
import urllib.error
import urllib.request


def enqueue(kind, payload, idempotency_key, **options):
    """Stores a job and returns its id. The same key within 24 hours stores it once, so a retry is safe."""
    request = urllib.request.Request(
        os.environ.get("NIGHTSHIFT_URL", "http://127.0.0.1:8787") + "/api/v1/jobs",
        data=json.dumps({"kind": kind, "payload": payload, **options}).encode(),
        headers={
            "Authorization": "Bearer " + os.environ["NIGHTSHIFT_TOKEN"],
            "Content-Type": "application/json",
            "Idempotency-Key": idempotency_key,
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response)["id"]
    except urllib.error.HTTPError as error:
        # 4xx: the body names the field at fault. 429 and 5xx: try again later.
        raise SystemExit(f"enqueue failed with {error.code}: {error.read().decode()}")


if __name__ == "__main__":
    order, email = sys.argv[1:]
    print(enqueue("send_receipt", {"orderId": order, "email": email}, f"receipt:{order}", delay="1s"))
