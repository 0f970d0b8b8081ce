"""Watching over servers, and moving connections."""

import asyncio
import os
import signal
import unittest

import nearcall
import nearcall.aio
import streams_nearcall
import streams_pb2 as pb
import thermostat_nearcall
from nearcall import StatusCode
from support import EXAMPLES, LIMIT, TestCase, child_of, new_name, serving
from thermostat_pb2 import Temperature


class Attach(TestCase):
    """Servers that end."""

    def server(self):
        """Runs a server in a process of its own, and returns it with its address."""
        address = f"unix:@{new_name()}"
        child = child_of(self, [EXAMPLES / "thermostat", "serve", address])
        nearcall.hunt(address, LIMIT)
        return child, address

    def test_a_server_that_is_killed(self):
        child, address = self.server()
        with nearcall.attach(address) as attachment:
            self.assertIsNone(attachment.notice())
            self.assertStatus(StatusCode.DEADLINE_EXCEEDED, attachment.wait, 0)
            self.assertStatus(StatusCode.DEADLINE_EXCEEDED, attachment.wait, 0.01)
            os.kill(child.pid, signal.SIGKILL)
            notice = attachment.wait(LIMIT)
            self.assertEqual(notice[:3], ("killed", signal.SIGKILL, child.pid))
            self.assertIn("was killed by signal 9", str(notice))
            self.assertEqual(attachment.wait(0), notice)
            self.assertEqual(attachment.notice(), notice)
        self.assertStatus(StatusCode.FAILED_PRECONDITION, attachment.wait, 0)
        self.assertStatus(StatusCode.UNAVAILABLE, nearcall.attach, address)

    def test_a_server_that_stops(self):
        with serving() as address:
            attachment = nearcall.attach(address, ping=LIMIT)
        self.assertEqual(attachment.wait(LIMIT).cause, "closed")

    def test_asyncio(self):
        child, address = self.server()

        async def watch():
            async with await nearcall.aio.attach(address) as attachment:
                try:
                    await attachment.wait(0.01)
                    self.fail("the server is there")
                except nearcall.RpcError as error:
                    self.assertEqual(error.code(), StatusCode.DEADLINE_EXCEEDED)
                waiting = asyncio.ensure_future(attachment.wait())
                await asyncio.sleep(0)
                os.kill(child.pid, signal.SIGKILL)
                notice = await asyncio.wait_for(waiting, LIMIT)
                self.assertEqual((notice.cause, notice.code), ("killed", signal.SIGKILL))

        asyncio.run(watch())


class Switch(TestCase):
    """Connections that move."""

    def test_threads(self):
        with serving() as address:
            address = address.replace("via=shm", "via=unix-stream")
            channel = nearcall.connect(address, client=nearcall.Client())
            self.assertStatus(StatusCode.FAILED_PRECONDITION, channel.switch, "shm")
            stub = streams_nearcall.StreamsStub(channel)
            replies = stub.Count(pb.Plan(items=1000), timeout=LIMIT)
            first = next(replies).number
            channel.switch("shm")
            rest = [item.number for item in replies]
            self.assertEqual([first, *rest], list(range(1000)))
            self.assertEqual(stub.Say(pb.Item(number=4), timeout=LIMIT).number, 4)
            self.assertStatus(StatusCode.INVALID_ARGUMENT, channel.switch, "pigeon", timeout=1)

    def test_asyncio(self):
        async def move(address):
            client = nearcall.Client()
            async with nearcall.aio.connect(address, client=client) as channel:
                stub = thermostat_nearcall.ThermostatAsyncStub(channel)
                await stub.SetTarget(Temperature(celsius=20), timeout=LIMIT)
                await channel.switch("unix-stream", timeout=LIMIT)
                reply = await stub.SetTarget(Temperature(celsius=21), timeout=LIMIT)
                self.assertEqual(reply.celsius, 20)

        address = f"unix:@{new_name()}"
        child_of(self, [EXAMPLES / "thermostat", "serve", address])
        nearcall.hunt(address, LIMIT)
        asyncio.run(move(address))


if __name__ == "__main__":
    unittest.main()
