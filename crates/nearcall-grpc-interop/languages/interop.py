"""The suite of all languages in Python: its client and its server, by generated stubs.

    interop.py client ADDRESS    does what the lines of its input say
    interop.py server ADDRESS    serves until its input ends; prints "ready ADDRESS"

**Invariants:** each line is answered by one line.
**Not here:** what the lines mean (src/languages/cases.rs), asyncio.
"""

import contextlib
import inspect
import itertools
import queue
import sys
import threading
import time

import nearcall
from conformance.v1 import notes_nearcall, notes_pb2
from google.protobuf import empty_pb2
from grpc.testing import empty_pb2 as test_empty_pb2
from grpc.testing import messages_pb2 as pb
from grpc.testing import test_nearcall

PATIENCE = 60.0
ECHO_INITIAL = "x-grpc-test-echo-initial"
ECHO_TRAILING = "x-grpc-test-echo-trailing-bin"
CACHE_CONTROL = "max-age=60, public"


def zeros(size):
    return pb.Payload(body=bytes(int(size)))


# -- The client. A call that fails raises an RpcError, which `run_client` prints. --


def check_zeros(reply):
    """Returns the size of the payload of a reply, which must consist of zeros."""
    body = reply.payload.body
    if any(body):
        raise nearcall.RpcError(nearcall.StatusCode.DATA_LOSS, "a payload is not of zeros")
    return len(body)


def request_of(turn):
    """Returns a request such as 27182:31415: a payload of 27182 bytes for a reply of 31415."""
    request, reply = turn.split(":")
    parameters = pb.ResponseParameters(size=int(reply))
    return pb.StreamingOutputCallRequest(payload=zeros(request), response_parameters=[parameters])


def status_of(code, text):
    return pb.EchoStatus(code=int(code), message=bytes.fromhex(text).decode())


def entries_of(text, data):
    return ((ECHO_INITIAL, text), (ECHO_TRAILING, bytes.fromhex(data)))


def echoes(call):
    initial, trailing = dict(call.initial_metadata()), dict(call.trailing_metadata())
    return [initial.get(ECHO_INITIAL), trailing.get(ECHO_TRAILING, b"").hex()]


class Cancelled(Exception):
    """Gives a call up whose requests raise it."""


@contextlib.contextmanager
def duplex(method, **options):
    """Opens a call; yields its replies, and a function that sends: a request, or None as end."""
    requests = queue.SimpleQueue()
    replies = method(iter(requests.get, None), **options)
    try:
        yield replies, requests.put
    finally:
        requests.put(None)


class Calls:
    """What the lines name. Each method returns the results of a line."""

    def __init__(self, address):
        self.channel = nearcall.Client(timeout=PATIENCE).connect(address)
        self.service = test_nearcall.TestServiceStub(self.channel)
        self.unimplemented = test_nearcall.UnimplementedServiceStub(self.channel)
        self.notes_of = notes_nearcall.NotesStub(self.channel)
        self.attachment = None

    def empty(self):
        self.service.EmptyCall(test_empty_pb2.Empty())

    def unary(self, request, reply):
        request = pb.SimpleRequest(payload=zeros(request), response_size=int(reply))
        return [check_zeros(self.service.UnaryCall(request))]

    def unary_metadata(self, text, data):
        _, call = self.service.UnaryCall.with_call(
            pb.SimpleRequest(), metadata=entries_of(text, data)
        )
        return echoes(call)

    def unary_status(self, code, text):
        self.service.UnaryCall(pb.SimpleRequest(response_status=status_of(code, text)))

    def cacheable(self, size):
        request = pb.SimpleRequest(payload=zeros(size))
        reply, call = self.service.CacheableUnaryCall.with_call(request)
        return [check_zeros(reply), dict(call.trailing_metadata())["cache-control"].encode().hex()]

    def input(self, *sizes):
        requests = (pb.StreamingInputCallRequest(payload=zeros(size)) for size in sizes)
        return [self.service.StreamingInputCall(requests).aggregated_payload_size]

    def output(self, interval, *sizes):
        parameters = [
            pb.ResponseParameters(size=int(size), interval_us=int(interval)) for size in sizes
        ]
        request = pb.StreamingOutputCallRequest(response_parameters=parameters)
        return map(check_zeros, self.service.StreamingOutputCall(request))

    def ping_pong(self, *turns):
        sizes = []
        with duplex(self.service.FullDuplexCall) as (replies, send):
            for turn in turns:
                send(request_of(turn))
                sizes.append(check_zeros(next(replies)))
            send(None)
            return sizes + list(map(check_zeros, replies))

    def switching(self, *mechanisms):
        sizes = []
        with duplex(self.service.FullDuplexCall) as (replies, send):
            for mechanism in (None, *mechanisms):
                if mechanism is not None:
                    self.switch(mechanism)
                send(request_of("8:9"))
                sizes.append(check_zeros(next(replies)))
            send(None)
            return sizes + list(map(check_zeros, replies))

    def half_duplex(self, *turns):
        return map(check_zeros, self.service.HalfDuplexCall(map(request_of, turns)))

    def duplex_metadata(self, text, data):
        replies = self.service.FullDuplexCall([request_of("1:1")], metadata=entries_of(text, data))
        list(map(check_zeros, replies))
        return echoes(replies)

    def duplex_status(self, code, text):
        request = pb.StreamingOutputCallRequest(response_status=status_of(code, text))
        return map(check_zeros, self.service.FullDuplexCall([request]))

    def duplex_deadline(self, milliseconds):
        timeout = int(milliseconds) / 1e3
        with duplex(self.service.FullDuplexCall, timeout=timeout) as (replies, send):
            send(pb.StreamingOutputCallRequest(payload=zeros(27182)))
            return list(map(check_zeros, replies))

    def unimplemented_method(self):
        self.service.UnimplementedCall(test_empty_pb2.Empty())

    def unimplemented_service(self):
        self.unimplemented.UnimplementedCall(test_empty_pb2.Empty())

    def cancel_after_begin(self):
        def requests():
            raise Cancelled
            yield

        with contextlib.suppress(Cancelled):
            self.service.StreamingInputCall(requests())

    def cancel_after_first(self):
        with duplex(self.service.FullDuplexCall) as (replies, send):
            send(request_of("27182:31415"))
            check_zeros(next(replies))
            replies.cancel()

    def soak(self, calls, request, reply):
        for _ in range(int(calls)):
            self.unary(request, reply)
        return [calls]

    def reconnect_soak(self, calls, request, reply):
        for _ in range(int(calls)):
            Calls(self.channel.address).unary(request, reply)
        return [calls]

    def time(self, calls, size):
        request, call = test_empty_pb2.Empty(), self.service.EmptyCall
        if int(size):
            request = pb.SimpleRequest(payload=zeros(size), response_size=int(size))
            call = self.service.UnaryCall
        start = time.perf_counter_ns()
        for _ in range(int(calls)):
            call(request)
        return [(time.perf_counter_ns() - start) / int(calls)]

    def note(self, text):
        self.notes_of.Leave(notes_pb2.Note(text=text))

    def keep(self, text):
        return [self.notes_of.Keep(notes_pb2.Note(text=text)).notes]

    def notes(self):
        return [self.notes_of.Count(empty_pb2.Empty()).notes]

    def sleep(self, milliseconds, deadline):
        request = notes_pb2.SleepRequest(milliseconds=int(milliseconds))
        self.notes_of.Sleep(request, timeout=int(deadline) / 1e3)

    def hunt(self, milliseconds):
        nearcall.hunt(self.channel.address, int(milliseconds) / 1e3)

    def attach(self):
        self.attachment = nearcall.attach(self.channel.address)

    def notice(self, milliseconds):
        return [self.attachment.wait(int(milliseconds) / 1e3).cause]

    def switch(self, mechanism):
        self.channel.switch(mechanism, timeout=PATIENCE)


def answer(calls, name="", *words):
    """Does what a line says, and returns the answer."""
    method = getattr(Calls, name.replace("-", "_"), None)
    try:
        inspect.signature(method).bind(calls, *words)
    except TypeError:
        return f"INVALID_ARGUMENT {b'there is no such command'.hex()}"
    try:
        results = method(calls, *words)
        return " ".join(map(str, itertools.chain(["OK"], results or ())))
    except nearcall.RpcError as error:
        return f"{error.code().name} {error.details().encode().hex()}"


def run_client(address):
    calls = Calls(address)
    for line in sys.stdin:
        print(answer(calls, *line.split()), flush=True)


# -- The server. --


def check_status(request, context):
    """Ends a call whose request asks for an error."""
    wanted = request.response_status
    if wanted.code:
        context.abort(nearcall.StatusCode(wanted.code), wanted.message)


def echo_metadata(context):
    sent = dict(context.invocation_metadata())
    if ECHO_INITIAL in sent:
        context.send_initial_metadata(((ECHO_INITIAL, sent[ECHO_INITIAL]),))
    if ECHO_TRAILING in sent:
        context.set_trailing_metadata(((ECHO_TRAILING, sent[ECHO_TRAILING]),))


def replies_to(request):
    """The replies that a request asks for."""
    for parameters in request.response_parameters:
        time.sleep(parameters.interval_us / 1e6)
        yield pb.StreamingOutputCallResponse(payload=zeros(parameters.size))


class TestService(test_nearcall.TestServiceServicer):
    def EmptyCall(self, request, context):
        return test_empty_pb2.Empty()

    def UnaryCall(self, request, context):
        echo_metadata(context)
        check_status(request, context)
        return pb.SimpleResponse(payload=zeros(request.response_size))

    def CacheableUnaryCall(self, request, context):
        context.set_trailing_metadata((("cache-control", CACHE_CONTROL),))
        return pb.SimpleResponse(payload=request.payload)

    def StreamingOutputCall(self, request, context):
        return replies_to(request)

    def StreamingInputCall(self, requests, context):
        total = sum(len(request.payload.body) for request in requests)
        return pb.StreamingInputCallResponse(aggregated_payload_size=total)

    def FullDuplexCall(self, requests, context):
        echo_metadata(context)
        for request in requests:
            check_status(request, context)
            yield from replies_to(request)

    def HalfDuplexCall(self, requests, context):
        for request in list(requests):
            yield from replies_to(request)

    def UnimplementedCall(self, request, context):
        context.abort(nearcall.StatusCode.UNIMPLEMENTED, "this method is not implemented")


class Notes(notes_nearcall.NotesServicer):
    def __init__(self):
        self.lock, self.kept = threading.Lock(), 0

    def Leave(self, request, context):
        with self.lock:
            self.kept += 1

    def Keep(self, request, context):
        with self.lock:
            self.kept += 1
            return notes_pb2.CountReply(notes=self.kept)

    def Count(self, request, context):
        with self.lock:
            return notes_pb2.CountReply(notes=self.kept)

    def Sleep(self, request, context):
        end = time.monotonic() + request.milliseconds / 1e3
        while time.monotonic() < end and context.is_active():
            time.sleep(0.001)
        return empty_pb2.Empty()


def run_server(address):
    server = nearcall.server()
    test_nearcall.add_TestServiceServicer_to_server(TestService(), server)
    notes_nearcall.add_NotesServicer_to_server(Notes(), server)
    server.add_address(address)
    server.start()
    print("ready", server.addresses[0], flush=True)
    sys.stdin.read()
    server.stop(PATIENCE).wait()


if __name__ == "__main__":
    {"client": run_client, "server": run_server}[sys.argv[1]](sys.argv[2])
