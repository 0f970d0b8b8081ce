"""Long fields that are not copied: buffers of numpy, loans, and memory of a trusted peer."""

import asyncio
import gc
import pathlib
import threading

import nearcall
import nearcall.aio
import numpy as np
import streams_nearcall
import streams_pb2 as pb
from nearcall import Buffers, StatusCode
from support import LIMIT, TestCase, new_name

LONG = 1 << 20
#: Has a service reply by a loan of its own.
LENT = 1000


def is_shared(view):
    """Returns whether memory is that of another process as well, by the kernel."""
    address = np.frombuffer(view, np.uint8).ctypes.data
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        span, rights = line.split()[:2]
        first, last = (int(part, 16) for part in span.split("-"))
        if first <= address < last:
            return rights.endswith("s")
    raise AssertionError("it is no memory")


class Echo(streams_nearcall.StreamsServicer):
    """Notes what it gets."""

    def __init__(self):
        self.shared, self.kept = [], []

    @nearcall.borrows
    def Say(self, request, context):
        view = request["data"]
        if request.message.number == LENT:
            loan = context.loan(len(view))
            with loan as into:
                into[:] = view
            return Buffers(pb.Item(number=int(loan.is_shared)), data=loan)
        self.shared.append(len(view) > 0 and is_shared(view))
        if request.message.number == 1:
            self.kept.append(view)
        reply = np.frombuffer(view, np.uint8) + 1 if len(view) else b""
        return Buffers(pb.Item(number=request.message.number + 1), data=reply)

    def Count(self, request, context):
        for number in range(request.items):
            data = np.full(request.bytes, number, np.uint8)
            yield Buffers(pb.Item(number=number), data=data)

    @nearcall.borrows
    def Sum(self, requests, context):
        return pb.Item(number=sum(len(item["data"]) for item in requests))


class AsyncEcho(streams_nearcall.StreamsAsyncServicer):
    """The same in a loop."""

    @nearcall.borrows
    async def Say(self, request, context):
        data = request["data"]
        if request.message.number == LENT:
            loan = await context.loan(len(data))
            with loan as view:
                view[:] = data
            data = loan
        return Buffers(request.message, data=data)

    @nearcall.borrows
    async def Sum(self, requests, context):
        return pb.Item(number=sum([len(item["data"]) async for item in requests]))

    async def Count(self, request, context):
        yield Buffers(pb.Item(number=request.items), data=bytes(request.bytes))

    async def Exchange(self, requests, context):
        async for item in requests:
            yield item


class Trusted(TestCase):
    """A server that trusts its user, in another thread of this process."""

    def start(self, options="?trust=same-user", via="?via=shm"):
        servicer = Echo()
        server = nearcall.server()
        streams_nearcall.add_StreamsServicer_to_server(servicer, server)
        server.add_address(f"unix:@{new_name()}{options}")
        server.start()
        self.addCleanup(lambda: server.stop().wait())
        address = server.addresses[0].split("?")[0] + via
        channel = nearcall.connect(address, client=nearcall.Client(timeout=LIMIT))
        return servicer, streams_nearcall.StreamsStub(channel)

    def test_numpy_to_numpy(self):
        servicer, stub = self.start()
        sent = np.arange(LONG, dtype=np.uint8)
        with stub.Say.borrow(Buffers(pb.Item(number=3), data=sent)) as reply:
            self.assertEqual((reply.message.number, reply.message.data), (4, b""))
            got = np.frombuffer(reply["data"], np.uint8)
            self.assertFalse(got.flags.writeable)
            np.testing.assert_array_equal(got, sent + 1)
        self.assertEqual(len(reply["data"]), 0)
        # The array keeps the memory.
        np.testing.assert_array_equal(got, sent + 1)
        self.assertEqual(servicer.shared, [True])

    def test_a_loan(self):
        servicer, stub = self.start()
        loan = stub.Say.loan(LONG)
        self.assertTrue(loan.is_shared)
        self.assertRaises(ValueError, stub.Say, Buffers(pb.Item(), data=loan))
        with loan as view:
            np.copyto(np.frombuffer(view, np.float32), np.float32(2.5))
        self.assertEqual(len(loan), LONG)
        expected = np.full(LONG // 4, 2.5, np.float32).view(np.uint8) + 1
        for _ in range(100):
            reply = stub.Say(Buffers(pb.Item(), data=loan))
            self.assertEqual(len(reply.data), LONG)
        self.assertEqual(reply.data, expected.tobytes())
        self.assertTrue(all(servicer.shared))

    def test_a_loan_is_not_sent_while_it_may_be_written(self):
        _, stub = self.start()
        for refer in (lambda view: view[8:], lambda view: np.frombuffer(view, np.uint8)):
            loan = stub.Say.loan(LONG)
            with self.assertRaises(BufferError):
                with loan as view:
                    kept = refer(view)
            self.assertRaises(ValueError, stub.Say, Buffers(pb.Item(), data=loan))
            del kept, view
            loan.freeze()
            self.assertEqual(stub.Say(Buffers(pb.Item(), data=loan)).data, b"\x01" * LONG)
        kept = stub.Say.loan(LONG)
        view = kept.__enter__()
        del kept
        view[0] = 1

    def test_memory_goes_back(self):
        """More loans than there are at a time, and kept ones live on."""
        servicer, stub = self.start()
        for number in range(300):
            data = np.full(LONG, number % 250, np.uint8)
            stub.Say(Buffers(pb.Item(number=int(number < 10)), data=data))
        for number, view in enumerate(servicer.kept):
            self.assertEqual((view[0], view[LONG - 1]), (number, number))
        self.assertGreater(sum(servicer.shared), 290)
        servicer.kept.clear()

    def test_replies_of_a_trusted_server_are_read_where_it_has_written_them(self):
        _, stub = self.start(via="?via=shm&trust=yes")
        sent = np.arange(LONG, dtype=np.uint8)
        loan = Buffers(pb.Item(number=LENT), data=sent)
        array = Buffers(pb.Item(number=2), data=sent)
        kept = []
        for _ in range(20):
            with stub.Say.borrow(loan) as reply:
                self.assertEqual(reply.message.number, 1)
                self.assertTrue(is_shared(reply["data"]))
                np.testing.assert_array_equal(np.frombuffer(reply["data"], np.uint8), sent)
            with stub.Say.borrow(array) as reply:
                self.assertTrue(is_shared(reply["data"]))
                kept = [np.frombuffer(reply["data"], np.uint8)]
            np.testing.assert_array_equal(kept[0], sent + 1)

    def test_what_a_caller_keeps_is_lent_no_more(self):
        _, stub = self.start(via="?via=shm&trust=yes")
        kept, shared = [], []
        for number in range(80):
            reply = stub.Say.borrow(Buffers(pb.Item(number=2), data=bytes(LONG >> 3)))
            shared.append(is_shared(reply["data"]))
            kept.append(reply)
        self.assertEqual((shared[0], shared[-1]), (True, False))
        self.assertTrue(all(bytes(reply["data"]) == b"\x01" * (LONG >> 3) for reply in kept))
        with self.assertLogs("nearcall.server"), self.assertRaises(nearcall.RpcError):
            stub.Say(Buffers(pb.Item(number=LENT), data=bytes(LONG >> 3)))
        kept.clear()
        gc.collect()
        # What it gives back goes with its next messages.
        again = Buffers(pb.Item(number=2), data=bytes(LONG))
        self.assertTrue(any(is_shared(stub.Say.borrow(again)["data"]) for _ in range(9)))

    def test_a_client_that_does_not_trust_copies_a_reply_once(self):
        _, stub = self.start()
        with stub.Say.borrow(Buffers(pb.Item(number=LENT), data=bytes(LONG))) as reply:
            self.assertEqual((reply.message.number, bytes(reply["data"])), (1, bytes(LONG)))
            self.assertFalse(is_shared(reply["data"]))

    def test_a_peer_that_is_not_trusted_is_copied_once(self):
        servicer, stub = self.start(options="")
        self.assertEqual(stub.Say(Buffers(pb.Item(), data=bytes(LONG))).data, b"\x01" * LONG)
        self.assertEqual(servicer.shared, [False])

    def test_every_place_and_length(self):
        for via in ("?via=shm", "?via=unix-stream", ""):
            _, stub = self.start(via=via)
            for length in (0, 1, 4095, 4096, 4097, 100_000):
                with self.subTest(via, length=length):
                    sent = np.arange(length, dtype=np.uint8)
                    request = Buffers(pb.Item(number=1), data=sent)
                    reply = stub.Say.borrow(request)
                    self.assertEqual(bytes(reply["data"]), (sent + 1).tobytes())
                    self.assertEqual(stub.Say(request).data, (sent + 1).tobytes())
                    plain = pb.Item(data=sent.tobytes())
                    self.assertEqual(stub.Say(plain).data, (sent + 1).tobytes())

    def test_streams(self):
        _, stub = self.start()
        total = 0
        for number, item in enumerate(stub.Count.borrow(pb.Plan(items=20, bytes=LONG))):
            self.assertEqual((item.message.number, item["data"][5]), (number, number))
            total += len(item["data"])
        self.assertEqual(total, 20 * LONG)
        items = (Buffers(pb.Item(), data=np.zeros(LONG // 8)) for _ in range(20))
        self.assertEqual(stub.Sum(items).number, 20 * LONG)

    def test_a_started_call_and_threads(self):
        _, stub = self.start()
        calls = [stub.Say.future(Buffers(pb.Item(), data=bytes(LONG))) for _ in range(8)]
        for call in calls:
            self.assertEqual(len(call.result(LIMIT).data), LONG)

        def call():
            for _ in range(20):
                stub.Say(Buffers(pb.Item(), data=bytearray(LONG)))

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
            self.assertFalse(thread.is_alive())

    def test_misuse_names_the_field(self):
        _, stub = self.start()
        with self.assertRaisesRegex(TypeError, "`pixels` is no field of Item that can be"):
            Buffers(pb.Item(), pixels=b"")
        with self.assertRaisesRegex(TypeError, "`number` is no field of Item that can be"):
            Buffers(pb.Item(), number=b"")
        with self.assertRaisesRegex(TypeError, "`data` of Item is no contiguous buffer"):
            stub.Say(Buffers(pb.Item(), data=np.zeros((100, 100))[:, ::2]))
        with self.assertRaisesRegex(TypeError, "`data` of Item is no contiguous buffer"):
            stub.Say(Buffers(pb.Item(), data="text"))
        with self.assertRaisesRegex(TypeError, "`request.message` of .* is a streams.v1.Plan"):
            stub.Say(Buffers(pb.Plan()))
        self.assertRaises(KeyError, Buffers(pb.Item()).__getitem__, "number")
        too_large = stub.Say.loan
        self.assertStatus(StatusCode.RESOURCE_EXHAUSTED, too_large, 1 << 40)

    def test_memory_outlives_the_server(self):
        servicer, stub = self.start()
        stub.Say(Buffers(pb.Item(number=1), data=np.full(LONG, 7, np.uint8)))
        loan = stub.Say.loan(LONG)
        self.doCleanups()
        del stub
        gc.collect()
        self.assertEqual(servicer.kept[0][LONG - 1], 7)
        with loan as view:
            view[:4] = b"late"


class Asyncio(TestCase):
    """The same in a loop."""

    def test_calls(self):
        async def run():
            server = nearcall.aio.server()
            streams_nearcall.add_StreamsServicer_to_server(AsyncEcho(), server)
            server.add_address(f"unix:@{new_name()}?trust=same-user")
            async with server:
                address = server.addresses[0].split("?")[0] + "?via=shm"
                client = nearcall.Client(timeout=LIMIT)
                channel = nearcall.aio.connect(address, client=client)
                stub = streams_nearcall.StreamsAsyncStub(channel)
                loan = await stub.Say.loan(LONG)
                with loan as view:
                    view[:3] = b"abc"
                reply = await stub.Say.borrow(Buffers(pb.Item(number=2), data=loan))
                self.assertEqual((reply.message.number, bytes(reply["data"][:4])), (2, b"abc\0"))
                self.assertEqual(len(reply["data"]), LONG)
                trusting = address + "&trust=yes"
                lends = streams_nearcall.StreamsAsyncStub(nearcall.aio.connect(trusting))
                data = bytes(range(256)) * 256
                reply = await lends.Say.borrow(Buffers(pb.Item(number=LENT), data=data))
                self.assertTrue(is_shared(reply["data"]))
                self.assertEqual(bytes(reply["data"]), data)
                items = [Buffers(pb.Item(), data=bytes(LONG)) for _ in range(4)]
                self.assertEqual((await stub.Sum(items)).number, 4 * LONG)
                async for item in stub.Count.borrow(pb.Plan(items=3, bytes=LONG)):
                    self.assertEqual((item.message.number, len(item["data"])), (3, LONG))

        asyncio.run(run())
