"""Interceptors of channels and of servers, of threads and of asyncio."""

import asyncio
import unittest

import house_nearcall
import house_pb2
import nearcall
import nearcall.aio
import streams_nearcall
import streams_pb2 as pb
from google.protobuf.empty_pb2 import Empty
from nearcall import StatusCode
from support import LIMIT, Streams, TestCase, new_name, serving, wait_until


class Signs(nearcall.ClientInterceptor):
    """Adds an entry to each call, and notes it."""

    def __init__(self, seen, name):
        self.seen, self.name = seen, name

    def _pass(self, continuation, details, request):
        self.seen.append((self.name, details.method.rpartition("/")[2]))
        entries = (*(details.metadata or ()), ("signed", self.name))
        return continuation(details._replace(metadata=entries), request)

    intercept_unary_unary = intercept_unary_stream = _pass
    intercept_stream_unary = intercept_stream_stream = _pass


class Answers:
    """Answers calls with one reply itself, and has no method for other shapes."""

    class Reply:
        @staticmethod
        def result():
            return pb.Item(number=77)

    def intercept_unary_unary(self, continuation, details, request):
        return self.Reply if request.number == 7 else continuation(details, request)


class Doubles:
    """Doubles the numbers of a stream of requests and of one of replies."""

    def intercept_stream_stream(self, continuation, details, requests):
        doubled = (pb.Item(number=2 * item.number) for item in requests)
        return (pb.Item(number=2 * item.number) for item in continuation(details, doubled))


class Guard(nearcall.ServerInterceptor):
    """Lets signed calls in, and notes which."""

    def __init__(self):
        self.seen = []

    def intercept_service(self, continuation, details):
        signed = [value for key, value in details.invocation_metadata if key == "signed"]
        self.seen.append((details.method, signed))
        if not signed:
            return lambda request, context: context.abort(StatusCode.UNAUTHENTICATED, "sign it")
        return continuation(details)


class Fails:
    """A defect."""

    def intercept_service(self, continuation, details):
        raise RuntimeError("the secret of the interceptor")


class Adds:
    """Adds one to a reply."""

    def intercept_service(self, continuation, details):
        method = continuation(details)
        if not details.method.endswith("/Say"):
            return method

        def say(request, context):
            return pb.Item(number=method(request, context).number + 1)

        return say


class Interceptors(TestCase):
    def test_all_shapes_pass_through_both_ends(self):
        guard, seen = Guard(), []
        with serving(interceptors=[guard]) as address:
            channel = nearcall.connect(address, client=nearcall.Client(timeout=LIMIT))
            bare = streams_nearcall.StreamsStub(channel)
            signed = nearcall.intercept_channel(channel, Signs(seen, "a"), Signs(seen, "b"))
            stub = streams_nearcall.StreamsStub(signed)
            item = pb.Item(number=3)
            error = self.assertStatus(StatusCode.UNAUTHENTICATED, bare.Say, item)
            self.assertEqual(error.details(), "sign it")
            self.assertStatus(StatusCode.UNAUTHENTICATED, lambda: list(bare.Count(pb.Plan())))
            self.assertStatus(StatusCode.UNAUTHENTICATED, bare.Sum, [item])
            self.assertEqual(stub.Say(item, timeout=LIMIT).number, 3)
            self.assertEqual(stub.Say.future(item).result().number, 3)
            reply, call = stub.Say.with_call(pb.Item(data=b"metadata"))
            self.assertEqual(reply.data, b"metadata")
            self.assertIn(("signed", "b"), call.trailing_metadata())
            self.assertEqual(len(list(stub.Count(pb.Plan(items=2)))), 2)
            self.assertEqual(stub.Sum([item, item]).number, 6)
            self.assertEqual([it.number for it in stub.Exchange([item, item])], [3, 3])
            self.assertStatus(StatusCode.NOT_FOUND, stub.Say, pb.Item(data=b"abort"))
        self.assertEqual(seen[:2], [("a", "Say"), ("b", "Say")])
        self.assertEqual({name for _, name in seen}, {"Say", "Count", "Sum", "Exchange"})
        self.assertEqual(guard.seen[0], ("/streams.v1.Streams/Say", []))
        self.assertEqual(guard.seen[-1], ("/streams.v1.Streams/Say", ["a", "b"]))

    def test_an_interceptor_answers_and_changes_items(self):
        with serving() as address:
            with nearcall.intercept_channel(
                nearcall.connect(address), Answers(), Doubles()
            ) as channel:
                stub = streams_nearcall.StreamsStub(channel)
                self.assertEqual(stub.Say(pb.Item(number=7)).number, 77)
                self.assertEqual(stub.Say(pb.Item(number=8), timeout=LIMIT).number, 8)
                both = stub.Exchange(iter([pb.Item(number=1), pb.Item(number=2)]), timeout=LIMIT)
                self.assertEqual([item.number for item in both], [4, 8])
            with self.assertRaisesRegex(ValueError, "closed"):
                stub.Say(pb.Item())

    def test_one_way_messages_have_their_own(self):
        class Drops(nearcall.ClientInterceptor):
            def intercept_oneway(self, continuation, details, request):
                if request.litres:
                    continuation(details, request)

        class Meter(house_nearcall.MeterServicer):
            heard = []

            def Count(self, request, context):
                self.heard.append(request.litres)

            def Total(self, request, context):
                return house_pb2.Usage(litres=sum(self.heard))

        server = nearcall.server()
        house_nearcall.add_MeterServicer_to_server(Meter(), server)
        server.add_address("unix:@" + new_name())
        with server:
            channel = nearcall.connect(server.addresses[0])
            meter = house_nearcall.MeterStub(nearcall.intercept_channel(channel, Drops()))
            for litres in (0, 1, 2):
                meter.Count(house_pb2.Usage(litres=litres), timeout=LIMIT)
            wait_until(lambda: len(Meter.heard) >= 2)
            self.assertEqual(meter.Total(Empty(), timeout=LIMIT).litres, 3)
            self.assertEqual(Meter.heard, [1, 2])

    def test_interceptors_of_a_server_wrap_and_fail(self):
        with serving(interceptors=[Adds(), Adds()]) as address:
            stub = streams_nearcall.StreamsStub(nearcall.connect(address))
            self.assertEqual(stub.Say(pb.Item(number=1), timeout=LIMIT).number, 3)
            self.assertEqual(stub.Sum([pb.Item(number=1)], timeout=LIMIT).number, 1)
        with serving(interceptors=[Fails()]) as address:
            stub = streams_nearcall.StreamsStub(nearcall.connect(address))
            with self.assertLogs("nearcall.server", "ERROR"):
                error = self.assertStatus(StatusCode.INTERNAL, stub.Say, pb.Item(), timeout=LIMIT)
            self.assertNotIn("secret", error.details())


class AsyncSigns(nearcall.ClientInterceptor):
    """The same in a loop, with an answer of its own."""

    async def _pass(self, continuation, details, request):
        if getattr(request, "number", 0) == 7:
            return pb.Item(number=77)
        return await continuation(details._replace(metadata=(("signed", "a"),)), request)

    intercept_unary_unary = intercept_unary_stream = _pass
    intercept_stream_unary = intercept_stream_stream = _pass


class AsyncGuard(nearcall.ServerInterceptor):
    async def intercept_service(self, continuation, details):
        if ("signed", "a") in details.invocation_metadata:
            return await continuation(details)

        async def refuse(request, context):
            await context.abort(StatusCode.UNAUTHENTICATED, f"sign {details.method}")

        return refuse


class AsyncStreams(streams_nearcall.StreamsAsyncServicer):
    async def Say(self, request, context):
        if request.data == b"wait":
            await asyncio.sleep(LIMIT)
        context.set_trailing_metadata((("end", "1"),))
        return request

    async def Count(self, request, context):
        for number in range(request.items):
            yield pb.Item(number=number)

    async def CountQuickly(self, request, context):
        yield pb.Item()

    async def Sum(self, requests, context):
        return pb.Item(number=sum([item.number async for item in requests]))

    async def Drain(self, requests, context):
        await context.abort(StatusCode.ABORTED, "not one")

    async def Exchange(self, requests, context):
        async for item in requests:
            yield item


class AsyncInterceptors(TestCase):
    def test_all_shapes_pass_through_both_ends(self):
        asyncio.run(self.all_shapes())

    async def all_shapes(self):
        server = nearcall.aio.server(interceptors=[AsyncGuard()])
        with self.assertRaisesRegex(TypeError, "async def"):
            streams_nearcall.add_StreamsServicer_to_server(Streams(), server)
        streams_nearcall.add_StreamsServicer_to_server(AsyncStreams(), server)
        server.add_address("unix:@" + new_name())
        async with server:
            address, client = server.addresses[0], nearcall.Client(timeout=LIMIT)
            bare = streams_nearcall.StreamsAsyncStub(nearcall.aio.connect(address, client=client))
            for refused in (bare.Say(pb.Item()), bare.Sum([]), bare.Exchange([]).read()):
                with self.assertRaisesRegex(nearcall.RpcError, "sign /streams.v1.Streams/"):
                    await refused
            async with nearcall.aio.connect(
                address, client=client, interceptors=[nearcall.ClientInterceptor(), AsyncSigns()]
            ) as channel:
                stub, item = streams_nearcall.StreamsAsyncStub(channel), pb.Item(number=3)
                call = stub.Say(item, timeout=LIMIT)
                self.assertEqual((await call).number, 3)
                self.assertEqual(await call.code(), StatusCode.OK)
                self.assertEqual(await call.trailing_metadata(), (("end", "1"),))
                self.assertEqual((await stub.Say(pb.Item(number=7))).number, 77)
                self.assertEqual(len([it async for it in stub.Count(pb.Plan(items=2))]), 2)
                self.assertEqual((await stub.Sum([item, item])).number, 6)
                both = stub.Exchange([item, item])
                self.assertEqual([it.number async for it in both], [3, 3])
                waits = stub.Say(pb.Item(data=b"wait"))
                await asyncio.sleep(0.01)
                waits.cancel()
                self.assertEqual(await waits.code(), StatusCode.CANCELLED)


if __name__ == "__main__":
    unittest.main()
