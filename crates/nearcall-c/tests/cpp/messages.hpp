// The messages of streams.v1.Streams with the functions of classes that protoc makes.
//
// Not here: real ones, which `cargo xtask languages` compiles where there is protoc.

#ifndef NEARCALL_TEST_MESSAGES_HPP
#define NEARCALL_TEST_MESSAGES_HPP

#include <cstdint>
#include <cstring>
#include <string>

namespace streams {

// Encodes fields that are numbers, and one of bytes.
class Writer {
 public:
  void number(unsigned field, std::uint64_t value) {
    if (value == 0) return;
    varint(field << 3);
    varint(value);
  }
  void bytes(unsigned field, const std::string& value) {
    if (value.empty()) return;
    varint(field << 3 | 2);
    varint(value.size());
    text_ += value;
  }
  const std::string& text() const { return text_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  std::string text_;
};

class Reader {
 public:
  Reader(const void* data, int size)
      : at_(static_cast<const unsigned char*>(data)), left_(static_cast<std::size_t>(size)) {}
  // Reads a field: its number, and its value or, for bytes, their length. False: the end or bad.
  bool next(unsigned& field, std::uint64_t& value, std::string& bytes) {
    std::uint64_t key = 0;
    if (left_ == 0 || !varint(key) || !varint(value)) return false;
    field = static_cast<unsigned>(key >> 3);
    if ((key & 7) == 0) return true;
    if ((key & 7) != 2 || value > left_) return bad();
    bytes.assign(reinterpret_cast<const char*>(at_), value);
    at_ += value;
    left_ -= value;
    return true;
  }
  bool is_good() const { return is_good_; }

 private:
  bool varint(std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (left_ == 0) return bad();
      --left_;
      const unsigned char byte = *at_++;
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return true;
    }
    return bad();
  }
  bool bad() { return is_good_ = false; }
  const unsigned char* at_;
  std::size_t left_;
  bool is_good_ = true;
};

template <class Self>
class Message {
 public:
  std::size_t ByteSizeLong() const { return self().encode().size(); }
  bool SerializeToArray(void* into, int size) const {
    const std::string text = self().encode();
    if (text.size() > static_cast<std::size_t>(size)) return false;
    std::memcpy(into, text.data(), text.size());
    return true;
  }
  bool ParseFromArray(const void* data, int size) {
    Reader reader(data, size);
    unsigned field = 0;
    std::uint64_t value = 0;
    std::string bytes;
    while (reader.next(field, value, bytes)) static_cast<Self*>(this)->set(field, value, bytes);
    return reader.is_good();
  }

 private:
  const Self& self() const { return *static_cast<const Self*>(this); }
};

struct Item : Message<Item> {
  Item() = default;
  explicit Item(std::uint64_t of) : number(of) {}
  std::string encode() const {
    Writer writer;
    writer.number(1, number);
    writer.bytes(2, data);
    return writer.text();
  }
  void set(unsigned field, std::uint64_t value, const std::string& bytes) {
    if (field == 1) number = value;
    if (field == 2) data = bytes;
  }
  std::uint64_t number = 0;
  std::string data;
};

struct Plan : Message<Plan> {
  std::string encode() const {
    Writer writer;
    writer.number(1, items);
    writer.number(3, code);
    return writer.text();
  }
  void set(unsigned field, std::uint64_t value, const std::string&) {
    if (field == 1) items = value;
    if (field == 3) code = value;
  }
  std::uint64_t items = 0;
  std::uint64_t code = 0;
};

struct Empty : Message<Empty> {
  std::string encode() const { return {}; }
  void set(unsigned, std::uint64_t, const std::string&) {}
};

}  // namespace streams

#endif  // NEARCALL_TEST_MESSAGES_HPP
