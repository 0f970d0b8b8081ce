"""streams.v1.Streams.Say by grpcio over a Unix socket, and a client that measures it.

`grpcio_calls.py server|client ADDRESS`: as of grpc_calls.cpp. Of another interface, since modules
of `grpc.testing` cannot be imported beside grpcio."""

import sys
import time
from concurrent import futures

import grpc
import streams_pb2
import streams_pb2_grpc


class Service(streams_pb2_grpc.StreamsServicer):
    def Say(self, request, context):
        return request


def serve(address):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    streams_pb2_grpc.add_StreamsServicer_to_server(Service(), server)
    server.add_insecure_port(address)
    server.start()
    print("ready", address, flush=True)
    sys.stdin.read()
    server.stop(None)


def measure(address):
    say = streams_pb2_grpc.StreamsStub(grpc.insecure_channel(address)).Say
    for line in sys.stdin:
        _, calls, size = line.split()
        request = streams_pb2.Item(data=bytes(int(size)))
        start = time.perf_counter_ns()
        for _ in range(int(calls)):
            say(request)
        print("OK", (time.perf_counter_ns() - start) / int(calls), flush=True)


if __name__ == "__main__":
    {"server": serve, "client": measure}[sys.argv[1]](sys.argv[2])
