"""Processes that fork, memory that does not grow, code of another version."""

import asyncio
import gc
import os
import pathlib
import subprocess
import sys
import time
import tracemalloc
import unittest

import nearcall
import nearcall.aio
import streams_nearcall
import streams_pb2 as pb
from nearcall import Buffers, codegen
from support import LIMIT, TestCase, run_program, serving

#: Calls of each kind.
CALLS = int(os.environ.get("NEARCALL_CALLS", "200"))

FORKED = """
import multiprocessing, os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)
import nearcall, streams_nearcall, streams_pb2 as pb, support
ADDRESS = {address!r}
stub = streams_nearcall.StreamsStub(nearcall.connect(ADDRESS))
{rest}
"""


class Fork(TestCase):
    """What a child gets that has not executed another program."""

    def run_forked(self, rest):
        with serving() as address:
            return run_program(FORKED.format(address=address, rest=rest))

    def test_a_client_that_was_used_says_what_to_do(self):
        program = """
stub.Say(pb.Item(), timeout=10)
opened = stub.Count(pb.Plan(items=10**6), timeout=30)
next(opened)
def child(results):
    for name, call in (
        ("call", lambda: stub.Say(pb.Item(), timeout=5)),
        ("future", lambda: stub.Say.future(pb.Item(), timeout=5).result()),
        ("stream", lambda: list(stub.Count(pb.Plan(items=2), timeout=5))),
        ("loan", lambda: stub.Say.loan(9000, timeout=5)),
        ("attach", lambda: nearcall.attach(ADDRESS)),
    ):
        try:
            call()
            results.put((name, "it went"))
        except nearcall.RpcError as error:
            results.put((name, str(error)))
    own = streams_nearcall.StreamsStub(nearcall.Client().connect(ADDRESS))
    results.put(("own", str(own.Say(pb.Item(number=4), timeout=5).number)))
context = multiprocessing.get_context("fork")
results = context.Queue()
process = context.Process(target=child, args=(results,))
process.start()
for _ in range(6):
    print(*results.get(timeout=15), sep=": ")
process.join(15)
print("code", process.exitcode)
print(stub.Say(pb.Item(number=5), timeout=10).number)
"""
        lines = self.run_forked(program).splitlines()
        for line, name in zip(lines, ("call", "future", "stream", "loan")):
            self.assertRegex(line, f"^{name}: FAILED_PRECONDITION: .*fork", lines)
        self.assertEqual(lines[4:], ["attach: it went", "own: 4", "code 0", "5"])

    def test_a_child_connects_anew(self):
        program = """
stub.Say(pb.Item(), timeout=10)
context = multiprocessing.get_context("fork")
def child():
    stub = streams_nearcall.StreamsStub(nearcall.connect(ADDRESS))
    assert stub.Say(pb.Item(number=3), timeout=10).number == 3
process = context.Process(target=child)
process.start()
process.join(15)
print("code", process.exitcode)
"""
        self.assertEqual(self.run_forked(program), "code 0\n")

    def test_a_server_stays_with_its_parent(self):
        program = """
server = nearcall.server()
streams_nearcall.add_StreamsServicer_to_server(support.Streams(), server)
server.add_address("unix:@" + support.new_name())
server.start()
pid = os.fork()
if pid == 0:
    sys.exit(0)
print("child", os.waitpid(pid, 0)[1])
own = streams_nearcall.StreamsStub(nearcall.connect(server.addresses[0]))
print(own.Say(pb.Item(number=6), timeout=10).number)
"""
        self.assertEqual(self.run_forked(program), "child 0\n6\n")


class Exit(TestCase):
    """Threads that call while the interpreter ends."""

    def test_threads_that_go_on_calling(self):
        program = """
def call():
    while True:
        stub.Say(pb.Item())
def stream():
    while True:
        for _ in stub.Exchange(pb.Item() for _ in range(100)):
            pass
for target in (call, call, stream):
    threading.Thread(target=target, daemon=True).start()
import time
time.sleep(0.3)
print("end")
"""
        with serving() as address:
            for _ in range(3):
                printed = run_program(FORKED.format(address=address, rest=program))
                self.assertEqual(printed.splitlines()[0], "end")


class Growth(TestCase):
    """Objects and memory after many calls of each kind."""

    SECONDS = 60 + CALLS
    #: What caches may take, in bytes.
    CACHED_MAX = 16384

    def setUp(self):
        super().setUp()
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)

    def grows(self, call):
        """Returns how many objects, blocks and bytes are left of the calls."""

        def counts():
            # The other end sees the end of the last calls a little later.
            time.sleep(0.2)
            gc.collect()
            traced = tracemalloc.get_traced_memory()[0]
            return len(gc.get_objects()), sys.getallocatedblocks(), traced

        for _ in range(50):
            call()
        before = counts()
        for _ in range(CALLS):
            call()
        return [late - early for early, late in zip(before, counts())]

    def check(self, kinds):
        for name, call in kinds.items():
            with self.subTest(name):
                objects, blocks, traced = self.grows(call)
                if "NEARCALL_CALLS" in os.environ:
                    left = f"{objects} objects, {blocks} blocks, {traced} bytes"
                    print(f"{name}: {CALLS} calls left {left}", flush=True)
                self.assertLess(objects, 100)
                self.assertLess(blocks, CALLS)
                self.assertLess(traced, self.CACHED_MAX + CALLS)

    def test_threads(self):
        with serving() as address:
            channel = nearcall.connect(address, client=nearcall.Client(timeout=LIMIT))
            stub = streams_nearcall.StreamsStub(channel)
            item, long = pb.Item(number=1), bytes(8192)

            def failed():
                try:
                    stub.Say(pb.Item(data=b"abort"))
                except nearcall.RpcError as error:
                    error.trailing_metadata()

            def dropped():
                next(stub.Count(pb.Plan(items=1000)))

            self.check({
                "call": lambda: stub.Say(item),
                "metadata": lambda: stub.Say.with_call(item, metadata=(("a", "b"),)),
                "future": lambda: stub.Say.future(item).result(),
                "failed": failed,
                "replies": lambda: list(stub.Count(pb.Plan(items=3))),
                "dropped": dropped,
                "requests": lambda: stub.Sum([item, item]),
                "both": lambda: list(stub.Exchange([item, item])),
                "buffers": lambda: stub.Say.borrow(Buffers(item, data=long))["data"],
                "stub": lambda: streams_nearcall.StreamsStub(channel).Say(item),
            })

    def test_asyncio(self):
        loop = asyncio.new_event_loop()
        self.addCleanup(loop.close)
        with serving() as address:
            client = nearcall.Client(timeout=LIMIT)

            async def kinds():
                stub = streams_nearcall.StreamsAsyncStub(
                    nearcall.aio.connect(address, client=client)
                )
                item = pb.Item(number=1)

                async def replies():
                    async for _ in stub.Count(pb.Plan(items=3)):
                        pass

                async def both():
                    async for _ in stub.Exchange([item, item]):
                        pass

                async def call():
                    await stub.Say(item)

                async def requests():
                    await stub.Sum([item, item])

                async def cancelled():
                    stub.Say(pb.Item(data=b"wait")).cancel()

                return call, requests, replies, both, cancelled

            found = loop.run_until_complete(kinds())
            self.check({
                kind.__name__: lambda kind=kind: loop.run_until_complete(kind())
                for kind in found
            })


class Program(unittest.TestCase):
    """`python -m nearcall`."""

    def run_with(self, beside, path):
        """Runs it where the programs of this Python are in a directory. The wheel may have it."""
        code = f"import runpy, sysconfig; sysconfig.get_path = lambda _: {beside!r}; "
        code += "runpy.run_module('nearcall', run_name='__main__', alter_sys=True)"
        command = [sys.executable, "-c", code, "--version"]
        environment = {**os.environ, "PATH": path}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=LIMIT
        )

    def test_it_runs_the_program(self):
        directory = str(pathlib.Path(os.environ["NEARCALL_PROGRAM"]).parent)
        for beside, path in ((directory, "/nowhere"), ("/nowhere", directory)):
            ended = self.run_with(beside, path)
            self.assertEqual((ended.returncode, ended.stdout.split()[0]), (0, "nearcall"))

    def test_it_says_that_there_is_none(self):
        ended = self.run_with("/nowhere", "/nowhere")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("cargo install nearcall-cli", ended.stderr)


class Version(unittest.TestCase):
    """Generated code of another interface."""

    def test_it_says_what_to_do(self):
        with self.assertRaisesRegex(ImportError, "room was generated by .*generate it again"):
            codegen.check(codegen.API - 1, "0.0.9", "room")
        with self.assertRaisesRegex(ImportError, r"pip install 'nearcall>=9.9.9'"):
            codegen.check(codegen.API + 1, "9.9.9", "room")


if __name__ == "__main__":
    unittest.main()
