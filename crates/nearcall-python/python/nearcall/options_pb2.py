"""``nearcall/options.proto``, which files with options of nearcall import.

Not as protoc writes it, which would work with one version of protobuf only.
"""

from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf import descriptor_pool as _descriptor_pool
from google.protobuf.internal import builder as _builder

DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile(
    b'\n\x16nearcall/options.proto\x12\x08nearcall\x1a goog'
    b'le/protobuf/descriptor.proto:3\n\x06oneway\x12\x1e'
    b'.google.protobuf.MethodOptions\x18\xb9\x8e\x03 \x01(\x08\x88\x01'
    b'\x01:8\n\x0bdeadline_ms\x12\x1e.google.protobuf.Metho'
    b'dOptions\x18\xba\x8e\x03 \x01(\r\x88\x01\x01b\x06proto3'
)

_builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
_builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, "nearcall.options_pb2", globals())
del _descriptor_pb2
