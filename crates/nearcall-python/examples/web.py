"""A web server of asyncio that calls a service of another process, such as the one in Rust:
`cargo run --example thermostat -- serve unix:@room`.

web.py SERVICE [PORT]       then: curl -X PUT http://127.0.0.1:8080/target/21.5
"""

import asyncio
import json
import sys

import nearcall
import nearcall.aio
from thermostat_nearcall import ThermostatAsyncStub
from thermostat_pb2 import Temperature

#: Those of HTTP for codes that a caller is to blame for; all others are 502.
STATUSES = {
    nearcall.StatusCode.OUT_OF_RANGE: "422 Unprocessable Content",
    nearcall.StatusCode.DEADLINE_EXCEEDED: "504 Gateway Timeout",
    nearcall.StatusCode.UNAVAILABLE: "503 Service Unavailable",
}


async def answer(stub, method, path):
    """Returns the status and the body of a request."""
    name, _, value = path.lstrip("/").partition("/")
    if name != "target" or method != "PUT":
        return "404 Not Found", {"error": "PUT /target/CELSIUS"}
    try:
        before = await stub.SetTarget(Temperature(celsius=float(value)), timeout=1.0)
    except ValueError:
        return "400 Bad Request", {"error": f"{value} is no temperature"}
    except nearcall.RpcError as error:
        return STATUSES.get(error.code(), "502 Bad Gateway"), {"error": error.details()}
    return "200 OK", {"celsius_before": before.celsius}


async def serve(service, port):
    async with nearcall.aio.connect(service) as channel:
        stub = ThermostatAsyncStub(channel)

        async def handle(reader, writer):
            try:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
                method, path, _ = head.split(b"\r\n")[0].decode("ascii").split(" ")
                status, body = await answer(stub, method, path)
                data = json.dumps(body).encode()
                head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
                head += f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
                writer.write(head.encode() + data)
                await writer.drain()
            except (ValueError, EOFError, OSError, asyncio.TimeoutError, asyncio.LimitOverrunError):
                pass  # What is no request of HTTP has no answer.
            finally:
                writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", port)
        print("serving at", server.sockets[0].getsockname()[1], flush=True)
        async with server:
            await server.serve_forever()


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    try:
        asyncio.run(serve(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8080))
    except KeyboardInterrupt:
        pass
