"""Enqueues in your own transaction with psycopg 3: pip install 'psycopg[binary]'"""

import json
import os
import sys

ENQUEUE = "select nightshift.enqueue('send_receipt', %s::jsonb, dedupe_key => %s)"


def place_order(connection, order, email):
    """Writes the order and its job. Both exist when the transaction commits, or neither."""
    with connection.transaction():
        connection.execute("insert into orders (id) values (%s)", (order,))
        payload = json.dumps({"orderId": order, "email": email})
        return connection.execute(ENQUEUE, (payload, f"receipt:{order}")).fetchone()[0]


if __name__ == "__main__":
    import psycopg

    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        print(place_order(connection, *sys.argv[1:]))
