"""Calls to and from programs of Rust."""

import subprocess

import house_nearcall
import house_pb2
import nearcall
import thermostat_nearcall
from nearcall import StatusCode
from support import EXAMPLES, LIMIT, PLACES, TestCase, new_name, rust_example
from thermostat_pb2 import Temperature


class Room(thermostat_nearcall.ThermostatServicer):
    """A room at 18 degrees."""

    def __init__(self):
        self.celsius = 18.0

    def SetTarget(self, request, context):
        before, self.celsius = self.celsius, request.celsius
        return Temperature(celsius=before)


class Rust(TestCase):
    """The examples of the repository at the other end."""

    def test_a_server_of_rust(self):
        for place in PLACES:
            with self.subTest(place), rust_example("thermostat", place) as address:
                stub = thermostat_nearcall.ThermostatStub(nearcall.connect(address))
                stub.SetTarget(Temperature(celsius=21.5), timeout=LIMIT)
                reply = stub.SetTarget(Temperature(celsius=20.0), timeout=LIMIT)
                self.assertEqual(reply.celsius, 21.5)
                request = Temperature(celsius=99.0)
                error = self.assertStatus(StatusCode.OUT_OF_RANGE, stub.SetTarget, request)
                self.assertEqual(error.details(), "a room has 5 to 30 degrees")

    def test_streams_of_rust(self):
        for place in PLACES:
            with self.subTest(place), rust_example("streams", place) as address:
                channel = nearcall.connect(address)
                brewer = house_nearcall.BrewerStub(channel)
                brewed = brewer.Brew(house_pb2.BrewRequest(cups=2), timeout=LIMIT)
                self.assertEqual([step.percent for step in brewed], [25, 50, 75, 100])
                none = brewer.Brew(house_pb2.BrewRequest(), timeout=LIMIT)
                self.assertStatus(StatusCode.INVALID_ARGUMENT, list, none)
                parts = [house_pb2.Part(bytes=bytes(1 << 16))] * 64
                stored = house_nearcall.ArchiveStub(channel).Store(parts, timeout=LIMIT)
                self.assertEqual((stored.parts, stored.bytes), (64, 64 << 16))

    def test_a_client_of_rust(self):
        server = nearcall.server()
        room = Room()
        thermostat_nearcall.add_ThermostatServicer_to_server(room, server)
        server.add_address("unix:@" + new_name())
        with server:
            for via in ("?via=shm", "?via=unix-stream"):
                command = [EXAMPLES / "thermostat", "set", "21.5", server.addresses[0] + via]
                ended = subprocess.run(command, timeout=LIMIT, capture_output=True, text=True)
                self.assertEqual(ended.returncode, 0, ended.stderr)
                self.assertEqual(room.celsius, 21.5)
                room.celsius = 18.0
