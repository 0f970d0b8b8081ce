"""Measures an empty call to a server of Rust, beside one of grpcio over a unix socket, and 1 MiB
from numpy to numpy, in requests and in replies.

Blocks of calls take turns, and the medians of the blocks are printed: other load of the machine
then disturbs all alike. `tests/run.py --release --bench` runs it."""

import asyncio
import multiprocessing
import statistics
import time
from concurrent import futures

import grpc
import grpc.aio
import nearcall
import nearcall.aio
import numpy as np
import streams_nearcall
import streams_pb2
import streams_pb2_grpc
import thermostat_nearcall
from support import Streams, new_name, rust_example
from thermostat_pb2 import Temperature

BLOCKS = 30
CALLS = 400
IMAGE_BYTES = 1 << 20
PICTURE = np.full(IMAGE_BYTES, 7, np.uint8)


class Say(streams_pb2_grpc.StreamsServicer):
    def Say(self, request, context):
        return request


def serve_grpc(address, ready):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    streams_pb2_grpc.add_StreamsServicer_to_server(Say(), server)
    server.add_insecure_port(address)
    server.start()
    ready.set()
    server.wait_for_termination()


def serve_nearcall(address, ready, servicer=Streams, max_workers=4):
    server = nearcall.server(max_workers=max_workers)
    streams_nearcall.add_StreamsServicer_to_server(servicer(), server)
    server.add_address(address)
    server.start()
    ready.set()
    server.wait_for_termination()


class Images(streams_nearcall.StreamsServicer):
    @nearcall.borrows
    def Say(self, request, context):
        if request.message.number:
            return nearcall.Buffers(streams_pb2.Item(), data=PICTURE)
        pixels = np.frombuffer(request["data"], np.uint8)
        return streams_pb2.Item(number=int(pixels[-1]))


def serve_images(address, ready):
    serve_nearcall(address, ready, Images, 1)


def start(serve, address):
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    child = context.Process(target=serve, args=(address, ready), daemon=True)
    child.start()
    ready.wait(20)
    return child


def block(call, argument, calls=CALLS):
    start = time.perf_counter_ns()
    for _ in range(calls):
        call(argument)
    return (time.perf_counter_ns() - start) / calls / 1000


async def aio_block(call, argument, calls=CALLS):
    start = time.perf_counter_ns()
    for _ in range(calls):
        await call(argument)
    return (time.perf_counter_ns() - start) / calls / 1000


async def measure(rust, own, theirs):
    """Returns the times of the blocks, in microseconds for a call."""
    item = streams_pb2.Item()
    room = thermostat_nearcall.ThermostatStub(nearcall.connect(rust))
    aio_room = thermostat_nearcall.ThermostatAsyncStub(nearcall.aio.connect(rust))
    streams = streams_nearcall.StreamsStub(nearcall.connect(own))
    channel = grpc.insecure_channel(theirs)
    grpc_streams = streams_pb2_grpc.StreamsStub(channel)
    aio_channel = grpc.aio.insecure_channel(theirs)
    aio_grpc = streams_pb2_grpc.StreamsStub(aio_channel)
    warm = Temperature(celsius=20)
    room.SetTarget(warm)
    times = {}
    for _ in range(BLOCKS):
        for name, took in [
            ("nearcall, Rust server, shm", block(room.SetTarget, warm)),
            ("nearcall, Python server, shm", block(streams.Say, item)),
            ("grpcio, Python server, unix", block(grpc_streams.Say, item, CALLS // 4)),
            ("nearcall.aio, Rust server, shm", await aio_block(aio_room.SetTarget, warm)),
            ("grpc.aio, Python server, unix", await aio_block(aio_grpc.Say, item, CALLS // 4)),
        ]:
            times.setdefault(name, []).append(took)
    await aio_channel.close()
    channel.close()
    return times


def measure_images(address):
    """Returns the times of the blocks, in microseconds for a call with 1 MiB."""
    say = streams_nearcall.StreamsStub(nearcall.connect(address)).Say
    array = np.full(IMAGE_BYTES, 7, np.uint8)
    loan = say.loan(IMAGE_BYTES)
    with loan as view:
        np.copyto(np.frombuffer(view, np.uint8), array)
    buffers = nearcall.Buffers(streams_pb2.Item(), data=array)
    lent = nearcall.Buffers(streams_pb2.Item(), data=loan)

    def written(_):
        loan = say.loan(IMAGE_BYTES)
        with loan as view:
            np.copyto(np.frombuffer(view, np.uint8), array)
        say(nearcall.Buffers(streams_pb2.Item(), data=loan))

    def received(message):
        with say.borrow(message) as reply:
            return int(np.frombuffer(reply["data"], np.uint8)[-1])

    message = streams_pb2.Item(data=array.tobytes())
    wanted = streams_pb2.Item(number=1)
    assert say(buffers).number == received(wanted) == 7
    times = {}
    for _ in range(BLOCKS):
        for name, took in [
            ("1 MiB of numpy, one copy", block(say, buffers, 50)),
            ("1 MiB of numpy, into a loan", block(written, None, 50)),
            ("1 MiB lent again", block(say, lent, 50)),
            ("1 MiB of numpy in a reply", block(received, wanted, 50)),
            ("1 MiB in a plain message", block(say, message, 50)),
        ]:
            times.setdefault(name, []).append(took)
    return times


def main():
    name = new_name()
    own = start(serve_nearcall, f"unix:@{name}-n")
    theirs = start(serve_grpc, f"unix-abstract:{name}-g")
    images = start(serve_images, f"unix:@{name}-i?trust=same-user")
    try:
        images_times = measure_images(f"unix:@{name}-i?via=shm&trust=yes")
        with rust_example("thermostat", is_quiet=True) as rust:
            times = asyncio.run(
                measure(rust, f"unix:@{name}-n?via=shm", f"unix-abstract:{name}-g")
            )
    finally:
        for child in (own, theirs, images):
            child.terminate()
            child.join(10)
    for name, took in times.items():
        median, least = statistics.median(took), min(took)
        print(f"{name:32} median {median:8.2f} us, least {least:8.2f} us, {len(took)} blocks")
    for name, took in images_times.items():
        median, most = (IMAGE_BYTES / t / 1000 for t in (statistics.median(took), min(took)))
        print(f"{name:32} median {median:8.2f} GB/s, most {most:8.2f} GB/s")


if __name__ == "__main__":
    main()
