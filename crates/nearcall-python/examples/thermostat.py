"""The first example: a room whose target temperature another process sets.

thermostat.py serve ADDRESS         such as thermostat, or unix:@room
thermostat.py set CELSIUS ADDRESS   works with the server of the example in Rust as well
"""

import signal
import sys

import nearcall
from thermostat_nearcall import ThermostatServicer, ThermostatStub
from thermostat_nearcall import add_ThermostatServicer_to_server
from thermostat_pb2 import Temperature


class Room(ThermostatServicer):
    """A room at 18 degrees."""

    def __init__(self):
        self.celsius = 18.0

    def SetTarget(self, request, context):
        if not 5 <= request.celsius <= 30:
            context.abort(nearcall.StatusCode.OUT_OF_RANGE, "a room has 5 to 30 degrees")
        before, self.celsius = self.celsius, request.celsius
        return Temperature(celsius=before)


def serve(address):
    server = nearcall.server()
    add_ThermostatServicer_to_server(Room(), server)
    server.add_address(address)
    signal.signal(signal.SIGTERM, lambda *_: server.stop(1))
    server.start()
    print(f"serving at {server.addresses[0]}", flush=True)
    server.wait_for_termination()


def set_target(celsius, address):
    with nearcall.connect(address) as channel:
        try:
            target = Temperature(celsius=float(celsius))
            before = ThermostatStub(channel).SetTarget(target, timeout=5)
        except nearcall.RpcError as error:
            sys.exit(str(error))
    print(f"the target was {before.celsius}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"] and len(sys.argv) == 3:
        serve(sys.argv[2])
    elif sys.argv[1:2] == ["set"] and len(sys.argv) == 4:
        set_target(*sys.argv[2:])
    else:
        sys.exit(__doc__)
