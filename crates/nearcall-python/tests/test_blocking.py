"""Calls and services of threads."""

import gc
import logging
import threading
import time

import nearcall
import streams_nearcall
import streams_pb2 as pb
from nearcall import StatusCode
from support import PLACES, LIMIT, Streams, TestCase, new_name, serving, wait_until


def stub_at(address):
    return streams_nearcall.StreamsStub(nearcall.connect(address))


def items(count):
    return (pb.Item(number=number) for number in range(count))


class Shapes(TestCase):
    """Each shape of a method over each mechanism."""

    def test_every_shape_over_every_mechanism(self):
        for place in PLACES:
            with self.subTest(place), serving(place=place) as address:
                stub = stub_at(address)
                said = stub.Say(pb.Item(number=7, data=b"x"), timeout=LIMIT)
                self.assertEqual(said, pb.Item(number=7, data=b"x"))
                counted = list(stub.Count(pb.Plan(items=100, bytes=3), timeout=LIMIT))
                self.assertEqual([item.number for item in counted], list(range(100)))
                self.assertEqual(counted[0].data, b"\0\0\0")
                self.assertEqual(stub.Sum(items(100), timeout=LIMIT).number, 4950)
                echoed = [it.number for it in stub.Exchange(items(50), timeout=LIMIT)]
                self.assertEqual(echoed, list(range(50)))

    def test_large_messages(self):
        with serving() as address:
            data = bytes(range(256)) * 4096
            reply = stub_at(address).Sum([pb.Item(number=1, data=data)] * 3, timeout=LIMIT)
            self.assertEqual(reply.number, 3)
            big = list(stub_at(address).Count(pb.Plan(items=3, bytes=3 << 20), timeout=LIMIT))
            self.assertEqual([len(item.data) for item in big], [3 << 20] * 3)

    def test_calls_of_many_threads(self):
        with serving() as address:
            stub, wrong = stub_at(address), []

            def call(first):
                for number in range(first, first + 100):
                    if stub.Say(pb.Item(number=number), timeout=LIMIT).number != number:
                        wrong.append(number)

            threads = [threading.Thread(target=call, args=(n * 1000,)) for n in range(6)]
            [thread.start() for thread in threads]
            [thread.join(LIMIT) for thread in threads]
            self.assertEqual(wrong, [])

    def test_a_call_of_its_own_process_knows_its_caller(self):
        import os

        with serving() as address:
            reply = stub_at(address).Say(pb.Item(data=b"peer"), timeout=LIMIT)
            self.assertEqual((reply.number, reply.data), (os.getpid(), b"process:%d" % os.getpid()))


class Metadata(TestCase):
    """What goes beside messages."""

    def test_metadata_goes_and_comes(self):
        with serving() as address:
            sent = (("key", "value"), ("raw-bin", b"\x00\x01"))
            reply, call = stub_at(address).Say.with_call(
                pb.Item(data=b"metadata"), timeout=LIMIT, metadata=sent
            )
            self.assertEqual(reply.data, b"metadata")
            self.assertEqual(call.trailing_metadata(), sent)
            self.assertEqual(call.initial_metadata(), (("early", "1"),))
            self.assertEqual((call.code(), call.details()), (StatusCode.OK, ""))

    def test_an_error_has_metadata(self):
        with serving() as address:
            error = self.assertStatus(
                StatusCode.NOT_FOUND, stub_at(address).Say, pb.Item(data=b"abort"), timeout=LIMIT
            )
            self.assertEqual(error.details(), "no such thing")
            sent = (("why", "test"), ("raw-bin", b"\x00\xff"))
            self.assertEqual(error.trailing_metadata(), sent)
            self.assertEqual(str(error), "NOT_FOUND: no such thing")

    def test_what_is_no_metadata_is_refused(self):
        with serving() as address:
            stub = stub_at(address)
            for wrong, kind, text in [
                ((("key", b"bytes"),), TypeError, "metadata[0]"),
                ((("a", "b"), ("raw-bin", "text")), TypeError, "metadata[1]"),
                ((("Upper", "x"),), ValueError, "metadata[0]"),
                ((("alone",),), TypeError, "metadata[0]"),
            ]:
                with self.assertRaises(kind) as caught:
                    stub.Say(pb.Item(), metadata=wrong)
                self.assertIn(text, str(caught.exception))


class Errors(TestCase):
    """Calls that fail."""

    def test_an_exception_stays_in_the_service(self):
        with serving() as address, self.assertLogs("nearcall.server", logging.ERROR) as logs:
            stub = stub_at(address)
            for text in (b"fail", b"wrong"):
                error = self.assertStatus(
                    StatusCode.INTERNAL, stub.Say, pb.Item(data=text), timeout=LIMIT
                )
                self.assertNotIn("secret", error.details())
        self.assertIn("the secret of the service", logs.output[0])
        self.assertIn("`reply` of streams.v1.Streams/Say is a str", logs.output[1])

    def test_a_code_may_be_set(self):
        with serving() as address:
            said = stub_at(address).Say
            error = self.assertStatus(
                StatusCode.OUT_OF_RANGE, said, pb.Item(data=b"code"), timeout=LIMIT
            )
            self.assertEqual(error.details(), "set")

    def test_a_deadline(self):
        servicer = Streams()
        with serving(servicer) as address:
            stub, start = stub_at(address), time.monotonic()
            request = pb.Item(data=b"wait")
            self.assertStatus(StatusCode.DEADLINE_EXCEEDED, stub.Say, request, timeout=0.1)
            self.assertLess(time.monotonic() - start, 5)
            self.assertTrue(0 < servicer.seen["remaining"] <= 0.1)
            wait_until(lambda: servicer.seen.get("inactive"))
            # The default of the method, 20 ms.
            quick = stub.CountQuickly(pb.Plan())
            self.assertStatus(StatusCode.DEADLINE_EXCEEDED, next, quick)

    def test_a_stream_ends_with_its_status(self):
        with serving() as address:
            stream = stub_at(address).Count(pb.Plan(items=2, code=9), timeout=LIMIT)
            self.assertEqual([next(stream).number, next(stream).number], [0, 1])
            error = self.assertStatus(StatusCode.FAILED_PRECONDITION, next, stream)
            self.assertEqual(error.details(), "as planned")
            self.assertEqual(stream.code(), StatusCode.FAILED_PRECONDITION)

    def test_a_service_that_ends_a_stream_of_requests_early(self):
        with serving() as address:
            stub = stub_at(address)
            self.assertStatus(StatusCode.ABORTED, stub.Drain, items(100_000), timeout=LIMIT)

    def test_an_item_that_is_too_long_fails_its_call(self):
        with serving() as address:
            stub, sent = stub_at(address), [pb.Item(number=1), pb.Item(data=bytes(5 << 20))]
            for call in (stub.Sum, lambda *of, **by: list(stub.Exchange(*of, **by))):
                error = self.assertStatus(
                    StatusCode.RESOURCE_EXHAUSTED, call, sent, timeout=LIMIT
                )
                self.assertIn("message limit", error.details())

    def test_wrong_types_name_their_field(self):
        with serving() as address:
            stub = stub_at(address)
            for call, text in [
                (lambda: stub.Say("x"), "`request` of streams.v1.Streams/Say is a str; it has to"),
                (lambda: stub.Say(pb.Plan()), "is a streams.v1.Plan; it has to be a streams.v1."),
                (lambda: stub.Sum([pb.Item(), 3], timeout=LIMIT), "`requests[1]`"),
                (lambda: list(stub.Exchange([None], timeout=LIMIT)), "`requests[0]`"),
            ]:
                with self.assertRaises(TypeError) as caught:
                    call()
                self.assertIn(text, str(caught.exception))

    def test_no_server(self):
        stub = stub_at("unix:@" + new_name())
        self.assertStatus(StatusCode.UNAVAILABLE, stub.Say, pb.Item(), timeout=1)
        start = time.monotonic()
        self.assertStatus(
            StatusCode.DEADLINE_EXCEEDED, stub.Say, pb.Item(), timeout=0.2, wait_for_ready=True
        )
        self.assertGreater(time.monotonic() - start, 0.15)
        missing = "unix:@" + new_name()
        self.assertStatus(StatusCode.UNAVAILABLE, nearcall.hunt, missing, 0.1)
        with self.assertRaises(nearcall.RpcError):
            stub_at("tcp:/what")

    def test_a_missing_method_and_object(self):
        class Half(streams_nearcall.StreamsServicer):
            pass

        with serving(Half()) as address:
            stub = stub_at(address)
            self.assertStatus(StatusCode.UNIMPLEMENTED, stub.Say, pb.Item(), timeout=LIMIT)
            self.assertStatus(
                StatusCode.UNIMPLEMENTED, list, stub.Count(pb.Plan(), timeout=LIMIT)
            )


class Cancelling(TestCase):
    """Calls that are given up."""

    def test_a_started_call(self):
        servicer = Streams()
        with serving(servicer) as address:
            stub = stub_at(address)
            first = stub.Say.future(pb.Item(number=1), timeout=LIMIT)
            second = stub.Say.future(pb.Item(number=2), timeout=LIMIT)
            self.assertEqual(second.result(LIMIT).number, 2)
            self.assertEqual(first.result(LIMIT).number, 1)
            self.assertFalse(first.cancel())
            call = stub.Say.future(pb.Item(data=b"wait"))
            wait_until(lambda: "remaining" in servicer.seen)
            with self.assertRaises(TimeoutError):
                call.result(0.05)
            self.assertFalse(call.done())
            ended = threading.Event()
            call.add_done_callback(lambda _: ended.set())
            self.assertTrue(call.cancel())
            self.assertTrue(call.cancelled())
            self.assertTrue(ended.wait(LIMIT))
            self.assertStatus(StatusCode.CANCELLED, call.result)
            wait_until(lambda: servicer.seen.get("inactive"))

    def test_a_dropped_generator(self):
        servicer = Streams()
        with serving(servicer) as address:
            stream = stub_at(address).Count(pb.Plan(items=10**9, bytes=100))
            self.assertEqual(next(stream).number, 0)
            self.assertFalse(servicer.closed.is_set())
            del stream
            gc.collect()
            self.assertTrue(servicer.closed.wait(LIMIT))

    def test_cancelled_by_another_thread(self):
        with serving() as address:
            stub, asks = stub_at(address), threading.Event()

            def never():
                yield pb.Item()
                asks.set()
                threading.Event().wait(LIMIT)

            stream = stub.Exchange(never())
            next(stream)
            asks.wait(LIMIT)
            threading.Timer(0.05, stream.cancel).start()
            self.assertStatus(StatusCode.CANCELLED, next, stream)

    def test_an_iterator_that_fails(self):
        with serving() as address:
            stub = stub_at(address)

            def failing():
                yield pb.Item()
                raise KeyError("the program's own")

            with self.assertRaises(KeyError):
                stub.Sum(failing(), timeout=LIMIT)
            with self.assertRaises(KeyError):
                list(stub.Exchange(failing(), timeout=LIMIT))


class Servers(TestCase):
    """How servers begin and end."""

    def test_hunt_and_grace(self):
        name = "unix:@" + new_name()
        server = nearcall.server(max_workers=2)
        streams_nearcall.add_StreamsServicer_to_server(Streams(), server)
        server.add_address(name)
        threading.Timer(0.1, server.start).start()
        nearcall.hunt(name, LIMIT)
        call = stub_at(name).Say.future(pb.Item(data=b"wait"), timeout=0.5)
        time.sleep(0.1)
        ended = server.stop(grace=LIMIT)
        self.assertStatus(StatusCode.DEADLINE_EXCEEDED, call.result, LIMIT)
        self.assertTrue(ended.wait(LIMIT))
        self.assertFalse(server.wait_for_termination(0))

    def test_objects_by_name(self):
        server = nearcall.server()
        for name in ("one", "other"):
            streams_nearcall.add_StreamsServicer_to_server(Streams(), server, name=name)
        server.add_address("unix:@" + new_name())
        with server:
            stub = stub_at(server.addresses[0] + "#other")
            self.assertEqual(stub.Say(pb.Item(number=1), timeout=LIMIT).number, 1)

    def test_misuse(self):
        server = nearcall.server()
        with self.assertRaises(TypeError) as caught:
            streams_nearcall.add_StreamsServicer_to_server(
                streams_nearcall.StreamsAsyncServicer(), server
            )
        self.assertIn("nearcall.aio.server()", str(caught.exception))
        with self.assertRaises(TypeError):
            streams_nearcall.add_StreamsServicer_to_server(object(), server)
        streams_nearcall.add_StreamsServicer_to_server(Streams(), server)
        server.add_address("unix:@" + new_name())
        server.start()
        with self.assertRaises(RuntimeError):
            server.start()
        taken = nearcall.server()
        taken.add_address(server.addresses[0])
        with self.assertRaises(OSError):
            taken.start()
        server.stop()
        server.stop()

    def test_too_many_calls(self):
        servicer = Streams()
        with serving(servicer, maximum_concurrent_rpcs=1) as address:
            stub = stub_at(address)
            call = stub.Say.future(pb.Item(data=b"wait"))
            wait_until(lambda: "remaining" in servicer.seen)
            self.assertStatus(StatusCode.RESOURCE_EXHAUSTED, stub.Say, pb.Item(), timeout=LIMIT)
            call.cancel()

    def test_a_closed_channel(self):
        with serving() as address:
            with nearcall.connect(address) as channel:
                stub = streams_nearcall.StreamsStub(channel)
                stub.Say(pb.Item(), timeout=LIMIT)
            with self.assertRaises(ValueError):
                stub.Say(pb.Item())
