@0xb3f1c6f2a4d98e17;
# What the row of Cap'n Proto calls: the same as proto/rival.proto.

interface Rival {
  # Nothing in, nothing out.
  nothing @0 ();
  # Reads the argument.
  take @1 (data :Data);
  # Reads the argument and gives it back.
  echo @2 (data :Data) -> (data :Data);
  # Reads the argument, and answers nobody: the flow control of streams holds the sender back.
  note @3 (data :Data) -> stream;
  # How many messages have come.
  received @4 () -> (messages :UInt64);
}
