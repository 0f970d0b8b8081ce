"""Calls and services of asyncio."""

import asyncio
import contextlib
import gc
import logging
import unittest

import nearcall
import nearcall.aio
import house_nearcall
import house_pb2
import streams_nearcall
import streams_pb2 as pb
import thermostat_nearcall
from nearcall import StatusCode
from support import LIMIT, PLACES, Streams, new_name, rust_example, serving
from thermostat_pb2 import Temperature


class AsyncStreams(streams_nearcall.StreamsAsyncServicer):
    """The service of the tests."""

    def __init__(self):
        self.cancelled = asyncio.Event()
        self.closed = asyncio.Event()

    async def Count(self, request, context):
        try:
            for number in range(request.items):
                yield pb.Item(number=number, data=bytes(request.bytes))
            if request.code:
                await context.abort(nearcall.StatusCode(request.code), "as planned")
        finally:
            self.closed.set()

    async def Sum(self, requests, context):
        return pb.Item(number=sum([item.number async for item in requests]))

    async def Exchange(self, requests, context):
        async for item in requests:
            yield item

    async def Say(self, request, context):
        if request.data == b"fail":
            raise RuntimeError("the secret of the service")
        if request.data == b"metadata":
            await context.send_initial_metadata((("early", "1"),))
            context.set_trailing_metadata(context.invocation_metadata())
        if request.data == b"wait":
            try:
                await asyncio.sleep(LIMIT)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        await asyncio.sleep(0)
        return request


class Mixed(AsyncStreams):
    """A method that runs in a thread beside others that do not."""

    def Drain(self, requests, context):
        for _ in requests:
            pass
        from google.protobuf.empty_pb2 import Empty

        return Empty()


@contextlib.asynccontextmanager
async def aio_serving(servicer, place="shm"):
    listens, via = PLACES[place]
    server = nearcall.aio.server()
    streams_nearcall.add_StreamsServicer_to_server(servicer, server)
    server.add_address(listens.format(new_name()))
    async with server:
        yield server.addresses[0] + via


def stub_at(address):
    return streams_nearcall.StreamsAsyncStub(nearcall.aio.connect(address))


def items(count):
    return (pb.Item(number=number) for number in range(count))


async def async_items(count):
    for item in items(count):
        yield item


class Aio(unittest.IsolatedAsyncioTestCase):
    """Both ends in asyncio, or one."""

    async def call_every_shape(self, address):
        stub = stub_at(address)
        self.assertEqual((await stub.Say(pb.Item(number=7), timeout=LIMIT)).number, 7)
        counted = [it.number async for it in stub.Count(pb.Plan(items=100), timeout=LIMIT)]
        self.assertEqual(counted, list(range(100)))
        self.assertEqual((await stub.Sum(items(100), timeout=LIMIT)).number, 4950)
        self.assertEqual((await stub.Sum(async_items(100), timeout=LIMIT)).number, 4950)
        call = stub.Sum(timeout=LIMIT)
        await call.write(pb.Item(number=3))
        await call.write(pb.Item(number=4))
        await call.done_writing()
        self.assertEqual((await call).number, 7)
        self.assertEqual(await call.code(), StatusCode.OK)
        echoed = [it.number async for it in stub.Exchange(async_items(50), timeout=LIMIT)]
        self.assertEqual(echoed, list(range(50)))
        both = stub.Exchange(timeout=LIMIT)
        for number in range(3):
            await both.write(pb.Item(number=number))
            self.assertEqual((await both.read()).number, number)
        await both.done_writing()
        self.assertIs(await both.read(), nearcall.aio.EOF)

    async def test_every_shape_over_every_mechanism(self):
        for place in PLACES:
            with self.subTest(place):
                async with aio_serving(AsyncStreams(), place) as address:
                    await asyncio.wait_for(self.call_every_shape(address), LIMIT)

    async def test_a_server_of_threads(self):
        with serving() as address:
            await asyncio.wait_for(self.call_every_shape(address), LIMIT)

    async def test_a_client_of_threads(self):
        async with aio_serving(Mixed()) as address:
            stub = streams_nearcall.StreamsStub(nearcall.connect(address))
            loop = asyncio.get_running_loop()
            said = loop.run_in_executor(None, lambda: stub.Say(pb.Item(number=3), timeout=LIMIT))
            self.assertEqual((await said).number, 3)
            drained = loop.run_in_executor(None, lambda: stub.Drain(items(9), timeout=LIMIT))
            await drained

    async def test_servers_of_rust(self):
        for place in PLACES:
            with self.subTest(place), rust_example("thermostat", place) as address:
                channel = nearcall.aio.connect(address)
                stub = thermostat_nearcall.ThermostatAsyncStub(channel)
                await stub.SetTarget(Temperature(celsius=21.5), timeout=LIMIT)
                reply = await stub.SetTarget(Temperature(celsius=20), timeout=LIMIT)
                self.assertEqual(reply.celsius, 21.5)
            with self.subTest(place), rust_example("streams", place) as address:
                brewer = house_nearcall.BrewerAsyncStub(nearcall.aio.connect(address))
                brewed = brewer.Brew(house_pb2.BrewRequest(cups=1), timeout=LIMIT)
                self.assertEqual([it.percent async for it in brewed], [25, 50, 75, 100])

    async def test_many_calls_at_once(self):
        async with aio_serving(AsyncStreams()) as address:
            stub = stub_at(address)
            calls = [stub.Say(pb.Item(number=n), timeout=LIMIT) for n in range(300)]
            replies = await asyncio.gather(*calls)
            self.assertEqual([reply.number for reply in replies], list(range(300)))

    async def test_metadata_and_errors(self):
        async with aio_serving(AsyncStreams()) as address:
            stub, sent = stub_at(address), (("key", "value"), ("raw-bin", b"\x00"))
            call = stub.Say(pb.Item(data=b"metadata"), timeout=LIMIT, metadata=sent)
            await call
            self.assertEqual(await call.trailing_metadata(), sent)
            self.assertEqual(await call.initial_metadata(), (("early", "1"),))
            with self.assertLogs("nearcall.server", logging.ERROR) as logs:
                with self.assertRaises(nearcall.RpcError) as caught:
                    await stub.Say(pb.Item(data=b"fail"), timeout=LIMIT)
            self.assertEqual(caught.exception.code(), StatusCode.INTERNAL)
            self.assertNotIn("secret", caught.exception.details())
            self.assertIn("secret", logs.output[0])
            stream = stub.Count(pb.Plan(items=1, code=9), timeout=LIMIT)
            self.assertEqual((await stream.read()).number, 0)
            with self.assertRaises(nearcall.RpcError) as caught:
                await stream.read()
            self.assertEqual(caught.exception.details(), "as planned")
            with self.assertRaises(nearcall.RpcError) as caught:
                await stub.Drain(items(3), timeout=LIMIT)
            self.assertEqual(caught.exception.code(), StatusCode.UNIMPLEMENTED)
            with self.assertRaises(nearcall.RpcError) as caught:
                await stub.Say(pb.Item(data=b"wait"), timeout=0.05)
            self.assertEqual(caught.exception.code(), StatusCode.DEADLINE_EXCEEDED)
            with self.assertRaises(TypeError):
                stub.Say("x")
            with self.assertRaises(TypeError):
                await stub.Sum([3], timeout=LIMIT)
            with self.assertRaises(TypeError):
                async for _ in stub.Exchange([3], timeout=LIMIT):
                    pass

    async def test_an_item_that_is_too_long_fails_its_call(self):
        async with aio_serving(AsyncStreams()) as address:
            stub, sent = stub_at(address), [pb.Item(number=1), pb.Item(data=bytes(5 << 20))]
            with self.assertRaises(nearcall.RpcError) as caught:
                await stub.Sum(sent, timeout=LIMIT)
            self.assertEqual(caught.exception.code(), StatusCode.RESOURCE_EXHAUSTED)
            with self.assertRaises(nearcall.RpcError) as caught:
                async for _ in stub.Exchange(sent, timeout=LIMIT):
                    pass
            self.assertEqual(caught.exception.code(), StatusCode.RESOURCE_EXHAUSTED)

    async def test_a_cancelled_task_cancels_its_call(self):
        servicer = AsyncStreams()
        async with aio_serving(servicer) as address:
            stub = stub_at(address)

            async def wait():
                return await stub.Say(pb.Item(data=b"wait"))

            task = asyncio.get_running_loop().create_task(wait())
            await asyncio.sleep(0.1)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(servicer.cancelled.wait(), LIMIT)

    async def test_a_dropped_stream_cancels_its_call(self):
        servicer = AsyncStreams()
        async with aio_serving(servicer) as address:
            stream = stub_at(address).Count(pb.Plan(items=10**9, bytes=100))
            self.assertEqual((await stream.read()).number, 0)
            del stream
            gc.collect()
            await asyncio.wait_for(servicer.closed.wait(), LIMIT)

    async def test_no_server(self):
        stub = stub_at("unix:@" + new_name())
        with self.assertRaises(nearcall.RpcError) as caught:
            await stub.Say(pb.Item(), timeout=1)
        self.assertEqual(caught.exception.code(), StatusCode.UNAVAILABLE)
        with self.assertRaises(nearcall.RpcError):
            await nearcall.aio.hunt("unix:@" + new_name(), 0.1)

    async def test_grace(self):
        server = nearcall.aio.server()
        streams_nearcall.add_StreamsServicer_to_server(AsyncStreams(), server)
        server.add_address("unix:@" + new_name())
        await server.start()
        call = stub_at(server.addresses[0]).Say(pb.Item(data=b"wait"), timeout=0.3)
        await asyncio.sleep(0.1)
        await server.stop(grace=LIMIT)
        with self.assertRaises(nearcall.RpcError) as caught:
            await call
        self.assertEqual(caught.exception.code(), StatusCode.DEADLINE_EXCEEDED)
        self.assertFalse(await server.wait_for_termination(1))
