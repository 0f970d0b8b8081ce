"""Request and response of iceoryx2, and a client that measures it. Both ends poll, since
its requests wake nobody; the server rests after 2 ms without one, so that it does not disturb what
is measured next.

`iceoryx2_calls.py server|client NAME`: as of grpc_calls.cpp. Messages are slices of bytes."""

import ctypes
import sys
import threading
import time

import iceoryx2 as iox2

BYTES_MAX = 1 << 16
IDLE_NS = 2_000_000


def service(name):
    """Opens the service, and returns its node, which has to stay, and it."""
    iox2.set_log_level(iox2.LogLevel.Error)
    node = iox2.NodeBuilder.new().create(iox2.ServiceType.Ipc)
    builder = node.service_builder(iox2.ServiceName.new(name))
    kind = iox2.Slice[ctypes.c_uint8]
    return node, builder.request_response(kind, kind).open_or_create()


def send(loaned, data):
    """Sends bytes in memory that was lent."""
    ctypes.memmove(loaned.payload().as_ptr(), data, len(data))
    return loaned.assume_init().send()


def serve(name):
    node, opened = service(name)
    server = opened.server_builder().initial_max_slice_len(BYTES_MAX).create()
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    print("ready", name, flush=True)
    last = time.perf_counter_ns()
    while not ended.is_set():
        request = server.receive()
        if request is None:
            if time.perf_counter_ns() - last > IDLE_NS:
                time.sleep(0.0005)
            continue
        last = time.perf_counter_ns()
        length = request.payload().len()
        data = ctypes.string_at(request.payload().as_ptr(), length)
        send(request.loan_slice_uninit(length), data)


def measure(name):
    node, opened = service(name)
    client = opened.client_builder().initial_max_slice_len(BYTES_MAX).create()
    for line in sys.stdin:
        _, calls, size = line.split()
        data = bytes(max(int(size), 1))
        start = time.perf_counter_ns()
        for _ in range(int(calls)):
            pending = send(client.loan_slice_uninit(len(data)), data)
            while (reply := pending.receive()) is None:
                pass
            ctypes.string_at(reply.payload().as_ptr(), len(data))
        print("OK", (time.perf_counter_ns() - start) / int(calls), flush=True)


if __name__ == "__main__":
    {"server": serve, "client": measure}[sys.argv[1]](sys.argv[2])
