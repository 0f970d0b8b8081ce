"""Interrupted waits, and programs that end while calls are open."""

import unittest

from support import Streams, TestCase, run_program, serving

CLIENT = """
import threading, time
import nearcall, streams_nearcall, streams_pb2 as pb
stub = streams_nearcall.StreamsStub(nearcall.connect({address!r}))
{rest}
"""


class Ending(TestCase):
    """Processes of their own, since they end."""

    def run_client(self, rest, **options):
        servicer = Streams()
        with serving(servicer) as address:
            return run_program(CLIENT.format(address=address, rest=rest), **options)

    def test_an_interrupt_ends_a_call(self):
        for wait in (
            "stub.Say(pb.Item(data=b'wait'))",
            "stub.Say.future(pb.Item(data=b'wait')).result()",
            "list(stub.Count(pb.Plan(items=10**12)))",
        ):
            program = f"""
print("ready", flush=True)
try:
    {wait}
except KeyboardInterrupt:
    print("interrupted")
"""
            printed = self.run_client(program, interrupt_after_line=0.2)
            self.assertEqual(printed, "ready\ninterrupted\n")

    def test_an_interrupt_ends_a_stream(self):
        program = """
def requests():
    yield pb.Item()
    threading.Event().wait()
stream = stub.Exchange(requests())
next(stream)
print("ready", flush=True)
try:
    next(stream)
except KeyboardInterrupt:
    print("interrupted")
"""
        printed = self.run_client(program, interrupt_after_line=0.2)
        self.assertEqual(printed, "ready\ninterrupted\n")

    def test_the_end_with_open_calls(self):
        program = """
def wait():
    try:
        stub.Say(pb.Item(data=b"wait"))
    except nearcall.RpcError:
        pass
for _ in range(3):
    threading.Thread(target=wait, daemon=True).start()
call = stub.Say.future(pb.Item(data=b"wait"))
stream = stub.Count(pb.Plan(items=10**9))
next(stream)
time.sleep(0.2)
print("end")
"""
        self.assertEqual(self.run_client(program), "end\n")

    def test_the_end_with_a_server_that_runs(self):
        program = """
import asyncio, support, os
server = nearcall.server()
streams_nearcall.add_StreamsServicer_to_server(support.Streams(), server)
server.add_address("unix:@" + support.new_name())
server.start()
own = streams_nearcall.StreamsStub(nearcall.connect(server.addresses[0]))
own.Say(pb.Item(), timeout=10)
calls = [own.Say.future(pb.Item(data=b"wait")) for _ in range(3)]
time.sleep(0.1)
print("end")
"""
        self.assertEqual(self.run_client(program), "end\n")

    def test_the_end_of_a_loop_with_open_calls(self):
        program = """
import asyncio
import nearcall.aio
async def main():
    stub = streams_nearcall.StreamsAsyncStub(nearcall.aio.connect(ADDRESS))
    global calls
    calls = [stub.Say(pb.Item(data=b"wait")) for _ in range(3)]
    await asyncio.sleep(0.1)
asyncio.run(main())
print("end")
"""
        servicer = Streams()
        with serving(servicer) as address:
            rest = program.replace("ADDRESS", repr(address))
            printed = run_program(CLIENT.format(address=address, rest=rest))
        self.assertEqual(printed, "end\n")

    def test_an_interrupt_ends_a_server(self):
        program = """
import support
server = nearcall.server()
streams_nearcall.add_StreamsServicer_to_server(support.Streams(), server)
server.add_address("unix:@" + support.new_name())
server.start()
print("ready", flush=True)
try:
    server.wait_for_termination()
except KeyboardInterrupt:
    server.stop(1).wait()
    print("stopped")
"""
        printed = self.run_client(program, interrupt_after_line=0.2)
        self.assertEqual(printed, "ready\nstopped\n")


if __name__ == "__main__":
    unittest.main()
