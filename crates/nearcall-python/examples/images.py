"""Pictures of numpy that go to another process and back, written where the other one reads them.

images.py serve ADDRESS     such as darkroom, or unix:@darkroom
images.py call ADDRESS      makes a picture in memory of the channel, and checks the negative
"""

import signal
import sys

import nearcall
import numpy as np
from images_nearcall import DarkroomServicer, DarkroomStub, add_DarkroomServicer_to_server
from images_pb2 import Picture
from nearcall import Buffers


class Darkroom(DarkroomServicer):
    """Inverts what it gets."""

    @nearcall.borrows
    def Invert(self, request, context):
        size = request.message
        pixels = np.frombuffer(request["pixels"], np.uint8)
        if pixels.size != size.width * size.height:
            context.abort(nearcall.StatusCode.INVALID_ARGUMENT, "the pixels are no such picture")
        return Buffers(size, pixels=255 - pixels)


def serve(address):
    server = nearcall.server()
    add_DarkroomServicer_to_server(Darkroom(), server)
    # Processes of this user may hand over memory that is read where it lies.
    server.add_address(f"{address}?trust=same-user")
    signal.signal(signal.SIGTERM, lambda *_: server.stop(1))
    server.start()
    print(f"serving at {address}", flush=True)
    server.wait_for_termination()


def call(address):
    with nearcall.connect(f"{address}?via=shm&trust=yes") as channel:
        stub = DarkroomStub(channel)
        width, height = 1024, 768
        loan = stub.Invert.loan(width * height)
        with loan as view:
            # No name outlives the `with`: a loan that may still be written is not sent.
            draw(np.frombuffer(view, np.uint8).reshape(height, width))
        picture = Buffers(Picture(width=width, height=height), pixels=loan)
        with stub.Invert.borrow(picture, timeout=10) as negative:
            first = negative["pixels"][:4].tolist()
            print(f"{width} x {height}, lent: {loan.is_shared}, it begins with {first}")


def draw(picture):
    """Draws a slope from black to white."""
    picture[:] = np.linspace(0, 255, picture.shape[1], dtype=np.uint8)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("serve", "call"):
        sys.exit(__doc__)
    {"serve": serve, "call": call}[sys.argv[1]](sys.argv[2])
