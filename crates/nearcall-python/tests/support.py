"""What the tests share: servers, addresses, programs of Rust."""

import contextlib
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest

import nearcall
import streams_nearcall
import streams_pb2 as pb

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLES = pathlib.Path(os.environ["NEARCALL_EXAMPLES"])
#: The longest that a test waits for something that has to come.
LIMIT = 20.0
#: How a client reaches a server, and where the server then listens.
PLACES = {
    "shm": ("unix:@{}", "?via=shm"),
    "unix-stream": ("unix:@{}", "?via=unix-stream"),
    "tcp": ("tcp://127.0.0.1:0", ""),
}
_numbers = itertools.count()


def new_name():
    """Returns a name that no other test has."""
    return f"nearcall-py-{os.getpid()}-{next(_numbers)}"


class TestCase(unittest.TestCase):
    """A test with a deadline, after which the process ends."""

    SECONDS = 60

    def setUp(self):
        timer = threading.Timer(self.SECONDS, _too_long, (self.id(), self.SECONDS))
        timer.daemon = True
        timer.start()
        self.addCleanup(timer.cancel)

    def assertStatus(self, code, call, *arguments, **options):
        """Checks that a call fails with a code, and returns the error."""
        with self.assertRaises(nearcall.RpcError) as caught:
            call(*arguments, **options)
        self.assertEqual(caught.exception.code(), code, caught.exception)
        return caught.exception


def _too_long(name, seconds):
    print(f"{name} has not ended in {seconds} s", file=sys.stderr, flush=True)
    os._exit(3)


def wait_until(condition):
    """Waits until something holds."""
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it has not come")
        time.sleep(0.005)


class Streams(streams_nearcall.StreamsServicer):
    """The service of the tests, with methods that behave badly on request."""

    def __init__(self):
        self.closed = threading.Event()
        self.seen = {}

    def Count(self, request, context):
        try:
            for number in range(request.items):
                yield pb.Item(number=number, data=bytes(request.bytes))
            if request.code:
                context.abort(nearcall.StatusCode(request.code), "as planned")
        finally:
            self.closed.set()

    def CountQuickly(self, request, context):
        while context.is_active():
            time.sleep(0.005)
        yield pb.Item()

    def Sum(self, requests, context):
        return pb.Item(number=sum(item.number for item in requests))

    def Drain(self, requests, context):
        context.abort(nearcall.StatusCode.ABORTED, "not one")

    def Exchange(self, requests, context):
        for item in requests:
            yield item

    def Say(self, request, context):
        text = request.data.decode()
        if text == "fail":
            raise RuntimeError("the secret of the service")
        if text == "wrong":
            return "a str"
        if text == "abort":
            context.set_trailing_metadata((("why", "test"), ("raw-bin", b"\x00\xff")))
            context.abort(nearcall.StatusCode.NOT_FOUND, "no such thing")
        if text == "code":
            context.set_code(nearcall.StatusCode.OUT_OF_RANGE)
            context.set_details("set")
        if text == "metadata":
            context.send_initial_metadata((("early", "1"),))
            context.set_trailing_metadata(context.invocation_metadata())
        if text == "wait":
            self.seen["remaining"] = context.time_remaining()
            while context.is_active():
                time.sleep(0.005)
            self.seen["inactive"] = True
        if text == "peer":
            return pb.Item(number=context.peer_ids()[0] or 0, data=context.peer().encode())
        return request


@contextlib.contextmanager
def serving(servicer=None, place="shm", **options):
    """Runs a server of threads, and yields the address for clients."""
    listens, via = PLACES[place]
    server = nearcall.server(**options)
    streams_nearcall.add_StreamsServicer_to_server(servicer or Streams(), server)
    server.add_address(listens.format(new_name()))
    with server:
        yield server.addresses[0] + via


@contextlib.contextmanager
def rust_example(name, place="shm", is_quiet=False):
    """Runs a server of Rust, and yields the address for clients. One that is quiet prints nothing
    that fills a pipe, and has an address with a name."""
    listens, via = PLACES[place]
    address = listens.format(new_name())
    output = subprocess.DEVNULL if is_quiet else subprocess.PIPE
    command = [str(EXAMPLES / name), "serve", address]
    child = subprocess.Popen(command, stdout=output, text=True)
    try:
        if is_quiet:
            nearcall.hunt(address, LIMIT)
        else:
            address = child.stdout.readline().split()[-1]
        yield address + via
    finally:
        child.send_signal(signal.SIGTERM)
        if child.stdout is not None:
            child.stdout.close()
        try:
            child.wait(LIMIT)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def child_of(case, command):
    """Runs a program, at the longest until the end of a test."""
    child = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
    case.addCleanup(child.wait, LIMIT)
    case.addCleanup(child.kill)
    return child


def run_program(text, *, expect=0, interrupt_after_line=None):
    """Runs a program of Python in a process of its own, and returns what it has printed."""
    # A shell has those that it starts in the background ignore it.
    text = f"import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n{text}"
    child = subprocess.Popen(
        [sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=pathlib.Path(__file__).parent,
    )
    first = ""
    try:
        if interrupt_after_line is not None:
            first = child.stdout.readline()
            time.sleep(interrupt_after_line)
            child.send_signal(signal.SIGINT)
        rest, _ = child.communicate(timeout=LIMIT)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
    if child.returncode != expect:
        raise AssertionError(f"it ended with {child.returncode}: {first}{rest}")
    return first + rest
