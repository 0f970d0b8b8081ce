"""A client of nearcall in plain Python, written from docs/book/src/reference/protocol.md alone.

plain_client.py ADDRESS set CELSIUS       calls `cargo run --example thermostat -- serve ADDRESS`
plain_client.py ADDRESS brew CUPS         calls `cargo run --example streams -- serve ADDRESS`
plain_client.py ADDRESS store PART...     calls the same; an error ends each with exit code 1
"""
import os, re, socket, struct, sys, time

CALL, REPLY, ERROR, CANCEL, PING, PONG, GOAWAY, ITEM, END, CREDIT = 1, 3, 4, 5, 6, 7, 8, 9, 10, 11
UNARY, CALLER_STREAMS, CALLEE_STREAMS = 0, 2, 4  # Flags of a call.
HEADER, GREETING = struct.Struct("<BBHHHIIQQQ"), struct.Struct("<8sHHIHHI16s")
TERMS = struct.pack("<HHII", 1, 0, 4 << 20, 256 << 10)  # Version, longest message, room.
WINDOW = 96  # Bytes of items that may be unread: so few that a short stream needs credit.
cost = lambda message_bytes, window: min(message_bytes, window - window // 4)

class Failed(Exception): pass  # A call has failed: a code of gRPC, a text.

def fnv1a(name, bits):
    number, prime = (0x811C9DC5, 0x1000193) if bits == 32 else (0xCBF29CE484222325, 0x100000001B3)
    for byte in name.encode():
        number = (number ^ byte) * prime % (1 << bits)
    return number

def socket_of(address):
    if address.startswith("unix:"):
        return "\0" + address[6:] if address[5] == "@" else address[5:]
    own, xdg, user = os.getenv("NEARCALL_RUNTIME_DIR"), os.getenv("XDG_RUNTIME_DIR"), os.getuid()
    usual = f"{xdg}/nearcall" if xdg else f"/tmp/nearcall-{user}" if user else "/run/nearcall"
    found = os.lstat(own or usual)
    if (found.st_uid, found.st_mode) != (user, 0o040700):
        raise OSError(f"{own or usual} is no directory of this user with the mode 0700")
    return f"{own or usual}/{address}"

class Connection:
    def __init__(self, address):
        self.buffer, self.parts, self.generation = b"", b"", 0
        (self.open_tcp if address.startswith("tcp://") else self.open_unix)(address)
        limits = (4 << 20, 8 << 10, 0, WINDOW)
        self.send_message(GREETING.pack(b"nearcall", 1, 1, *limits, os.urandom(16)))
        magic, least, *_, self.peer_window, _ = GREETING.unpack_from(self.receive_message(5))
        if magic != b"nearcall" or least > 1:
            raise OSError("the server speaks another protocol or version")

    def open_unix(self, address):
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(5)
        self.control.connect(socket_of(address))
        self.control.send(b"NEARCALL\1" + TERMS + b"unix-stream")
        offer, descriptors, _, _ = socket.recv_fds(self.control, 1024, 1)
        if offer[:1] == b"\2":
            self.control.send(b"\3")
            self.stream, offer = socket.socket(fileno=descriptors[0]), self.control.recv(1024)
        if offer != b"\4":
            raise OSError(f"the server refuses: {offer[2:].decode()}")

    def open_tcp(self, address):
        host, port = address[6:].rsplit(":", 1)
        self.stream = socket.create_connection((host.strip("[]"), port), 5)
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream.sendall(b"NEARCALC" + TERMS + bytes(4))
        answer = self.stream.recv(24, socket.MSG_WAITALL)
        if answer[:10] != b"NEARCALS\1\0" or answer[20:] != bytes(4):
            raise OSError(f"the server refuses: {answer}")

    def send_message(self, message):
        self.stream.settimeout(None)
        self.stream.sendall(struct.pack("<II", len(message), len(message) | 1 << 31) + message)

    def receive_message(self, timeout):
        self.stream.settimeout(timeout)
        while True:
            word = int.from_bytes(self.buffer[4:8], "little")
            end = 8 + (word & (1 << 27) - 1)
            if len(self.buffer) < end:  # Whole fragments only, so that a timeout loses nothing.
                self.buffer += (more := self.stream.recv(65536))
                if not more:
                    raise Failed(14, "the server has closed the connection")
                continue
            self.parts += self.buffer[8:end]
            self.buffer = self.buffer[end:]
            if word >> 30:  # LAST or ABORT
                message, self.parts = self.parts, b""
                if word >> 31:
                    return message

    def send(self, kind, id=0, flags=0, object=0, method=0, timeout=0, metadata=b"", body=b""):
        fields = (len(metadata), 0, len(body), method, id, object, timeout)
        self.send_message(HEADER.pack(1, kind, flags, *fields) + metadata + body)

    def call(self, interface, method, shape, request=b"", items=(), metadata=(), timeout=5):
        """Makes a call; yields the items of its stream, and at last the body of its reply."""
        self.generation += 1
        id, until, items = self.generation << 16, time.monotonic() + timeout, list(items)
        entry = lambda key, value: bytes([len(key)]) + key + struct.pack("<H", len(value)) + value
        entries = b"".join(entry(key, value) for key, value in metadata)
        object, number = fnv1a(interface, 64), fnv1a(f"{interface}/{method}", 32)
        self.send(CALL, id, shape, object, number, int(timeout * 1e9), entries, request)
        credit, streams = self.peer_window, shape & CALLER_STREAMS
        while True:
            while items and (price := cost(40 + len(items[0]), self.peer_window)) <= credit:
                credit -= price
                self.send(ITEM, id, body=items.pop(0))
            if streams and not items:
                self.send(END, id)
                streams = False
            try:
                message = self.receive_message(max(until - time.monotonic(), 1e-6))
            except socket.timeout:
                self.send(CANCEL, id)
                raise Failed(4, "no reply in time") from None
            _, kind, _, skip, status, _, _, of, amount, _ = HEADER.unpack_from(message)
            body = message[40 + skip:]
            if kind in (PING, GOAWAY):
                self.send(PONG if kind == PING else GOAWAY, of)
            elif kind == CREDIT and of == id:
                credit += amount
            elif kind == ERROR and of == id:
                raise Failed(status, body.decode())
            elif kind in (ITEM, REPLY) and of == id:
                yield body
                if kind == REPLY:
                    return
                self.send(CREDIT, id, object=cost(len(message), WINDOW))

def numbers(message):
    """Returns the fields of a protobuf message that has nothing but numbers."""
    found = re.findall(rb"(.)([\x80-\xff]*[\x00-\x7f])", message, re.DOTALL)
    value = lambda digits: sum((digit & 127) << 7 * at for at, digit in enumerate(digits))
    return {key[0] >> 3: value(digits) for key, digits in found}

def main(address, command, *words):
    connection, metadata = Connection(address), [(b"from", b"python")]
    if command == "set":
        wanted = b"\x09" + struct.pack("<d", float(words[0]))
        reply, = connection.call("home.v1.Thermostat", "SetTarget", UNARY, wanted, (), metadata)
        print("it was", struct.unpack("<d", reply[1:] or bytes(8))[0])
    elif command == "brew":
        request = bytes([8, int(words[0])])
        *items, _ = connection.call("home.v1.Brewer", "Brew", CALLEE_STREAMS, request)
        print("brewing:", *(numbers(item)[1] for item in items))
    elif command == "store":
        parts = [bytes([10, len(word)]) + word.encode() for word in words]  # of up to 127 bytes
        reply, = connection.call("home.v1.Archive", "Store", CALLER_STREAMS, b"", parts)
        print(f"stored {numbers(reply).get(1, 0)} parts, {numbers(reply).get(2, 0)} bytes")

try:
    main(*sys.argv[1:])
except Failed as failed:
    sys.exit("error %d: %s" % failed.args)
