// Statuses, results, messages and metadata of nearcall for C++17: a part of nearcall.hpp, which
// includes it.
//
// Invariants: what is taken of the library is released once; a Result has a value or a Status.
// Not here: clients (nearcall.hpp), services (nearcall_server.hpp).

#ifndef NEARCALL_BASE_HPP
#define NEARCALL_BASE_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "nearcall.h"

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
#define NEARCALL_EXCEPTIONS 1
#endif

namespace nearcall {

// -- How functions end. --

// An entry of metadata.
struct Entry {
  std::string_view key;
  std::string_view value;
};

// The codes of gRPC.
enum class Code : std::uint32_t {
  Ok = 0,
  Cancelled = 1,
  Unknown = 2,
  InvalidArgument = 3,
  DeadlineExceeded = 4,
  NotFound = 5,
  AlreadyExists = 6,
  PermissionDenied = 7,
  ResourceExhausted = 8,
  FailedPrecondition = 9,
  Aborted = 10,
  OutOfRange = 11,
  Unimplemented = 12,
  Internal = 13,
  Unavailable = 14,
  DataLoss = 15,
  Unauthenticated = 16,
};

// Returns the name of a code, such as UNAVAILABLE.
inline const char* code_name(Code code) {
  return nearcall_code_name(static_cast<std::uint32_t>(code));
}

namespace detail {

constexpr const char* kDetailsKey = "grpc-status-details-bin";

inline std::string_view text(const nearcall_view& view) {
  if (view.size == 0) return {};
  return {reinterpret_cast<const char*>(view.data), view.size};
}

inline nearcall_view view(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// All entries that `entry_at(number, &key, &value)` gives.
template <class EntryAt>
std::vector<Entry> entries(EntryAt entry_at) {
  std::vector<Entry> found;
  nearcall_view key{};
  nearcall_view value{};
  while (entry_at(found.size(), &key, &value) != 0) found.push_back({text(key), text(value)});
  return found;
}

// A time for the library, for which the largest number is no end.
template <class Rep, class Period>
std::uint64_t nanoseconds(std::chrono::duration<Rep, Period> time) {
  if (!(time > time.zero())) return 0;
  const std::chrono::duration<double> seconds = time;
  if (!(seconds.count() < 9e9)) return UINT64_MAX;
  const auto rounded = std::chrono::duration_cast<std::chrono::nanoseconds>(time);
  return rounded.count() > 0 ? static_cast<std::uint64_t>(rounded.count()) : 1;
}

}  // namespace detail

// Why something has failed; a default one is OK. Copies are cheap.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) {
    if (code == Code::Ok) return;
    data_ = std::make_shared<const Data>(code, std::move(message), std::string(), nullptr);
  }

  // Takes a status of the library; null is OK.
  static Status take(nearcall_status* status) {
    Status taken;
    if (status == nullptr) return taken;
    std::unique_ptr<nearcall_status, void (*)(nearcall_status*)> held(status, nearcall_status_free);
    const auto code = static_cast<Code>(nearcall_status_code(status));
    nearcall_view details{};
    if (nearcall_status_entry(status, detail::kDetailsKey, &details) == 0) details = {};
    auto data = std::make_shared<Data>(code, nearcall_status_message(status),
                                       std::string(detail::text(details)), nullptr);
    data->has_not_begun = nearcall_status_has_not_begun(status) != 0;
    data->held = held.release();
    taken.data_ = std::move(data);
    return taken;
  }

  bool ok() const { return data_ == nullptr; }
  Code code() const { return data_ ? data_->code : Code::Ok; }
  // What happened and what can be done.
  const std::string& message() const { return data_ ? data_->message : empty(); }
  // An encoded google.rpc.Status, or nothing.
  const std::string& details() const { return data_ ? data_->details : empty(); }
  // The same with details, for a service to send.
  Status with_details(std::string details) const {
    Status with;
    if (data_) with.data_ = std::make_shared<const Data>(code(), message(), std::move(details),
                                                         nullptr);
    return with;
  }
  // The method has certainly not begun: the call may be made again whatever it does.
  bool has_not_begun() const { return data_ && data_->has_not_begun; }
  // The first entry with a key that the service has sent beside the error. Valid as long as this
  // status or a copy.
  std::optional<std::string_view> entry(const char* key) const {
    nearcall_view value{};
    if (!data_ || nearcall_status_entry(data_->held, key, &value) == 0) return std::nullopt;
    return detail::text(value);
  }
  // All of them, as long.
  std::vector<Entry> entries() const {
    if (!data_) return {};
    return detail::entries([this](std::size_t number, nearcall_view* key, nearcall_view* value) {
      return nearcall_status_entry_at(data_->held, number, key, value);
    });
  }
  std::string to_string() const {
    return ok() ? "OK" : std::string(code_name(code())) + ": " + message();
  }

 private:
  struct Data {
    Data(Code of, std::string text, std::string beside, nearcall_status* status)
        : code(of), message(std::move(text)), details(std::move(beside)), held(status) {}
    Data(const Data&) = delete;
    Data& operator=(const Data&) = delete;
    ~Data() { nearcall_status_free(held); }
    Code code;
    std::string message;
    std::string details;
    bool has_not_begun = false;
    nearcall_status* held;
  };
  static const std::string& empty() {
    static const std::string none;
    return none;
  }
  std::shared_ptr<const Data> data_;
};

// A status as an exception. Thrown by a service, it is the end of its call.
class Error : public std::exception {
 public:
  explicit Error(Status status)
      : status_(std::move(status)), text_(std::make_shared<std::string>(status_.to_string())) {}
  const Status& status() const noexcept { return status_; }
  const char* what() const noexcept override { return text_->c_str(); }

 private:
  Status status_;
  std::shared_ptr<const std::string> text_;
};

namespace detail {

[[noreturn]] inline void fail(const Status& status) {
#ifdef NEARCALL_EXCEPTIONS
  throw Error(status);
#else
  (void)status;
  std::abort();
#endif
}

}  // namespace detail

// A value, or why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
  // A value made of nothing, to be filled where it lies.
  explicit Result(std::in_place_t) : held_(std::in_place_index<0>) {}
  Result(Status status) : held_(std::in_place_index<1>, std::move(status)) {
    if (std::get<1>(held_).ok()) std::get<1>(held_) = Status(Code::Internal, "OK without a value");
  }

  bool ok() const { return held_.index() == 0; }
  explicit operator bool() const { return ok(); }
  Status status() const { return ok() ? Status() : std::get<1>(held_); }
  // The value; throws an Error if there is none.
  T& value() & { return check(), *std::get_if<0>(&held_); }
  const T& value() const& { return check(), *std::get_if<0>(&held_); }
  T&& value() && { return check(), std::move(*std::get_if<0>(&held_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void check() const {
    if (!ok()) detail::fail(std::get<1>(held_));
  }
  std::variant<T, Status> held_;
};

// Success, or why it is none.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Status status) : status_(std::move(status)) {}

  bool ok() const { return status_.ok(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const { return status_; }
  void value() const {
    if (!ok()) detail::fail(status_);
  }

 private:
  Status status_;
};

// -- Messages. --

// Bytes that the library has given.
class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(nearcall_bytes taken) : held_(taken) {}
  Bytes(Bytes&& other) noexcept : held_(std::exchange(other.held_, nearcall_bytes{})) {}
  Bytes& operator=(Bytes&& other) noexcept {
    Bytes moved(std::move(other));
    std::swap(held_, moved.held_);
    return *this;
  }
  ~Bytes() { nearcall_bytes_free(&held_); }

  const std::uint8_t* data() const { return held_.data; }
  std::size_t size() const { return held_.size; }
  bool empty() const { return held_.size == 0; }
  std::string_view view() const { return detail::text({held_.data, held_.size}); }
  operator std::string_view() const { return view(); }

 private:
  nearcall_bytes held_{};
};

namespace detail {

// Whether a message can be encoded by the sizes that ByteSizeLong has left in it.
template <class M, class = void>
struct KeepsSizes : std::false_type {};
template <class M>
struct KeepsSizes<M, std::void_t<decltype(std::declval<const M&>().SerializeWithCachedSizesToArray(
                         std::declval<std::uint8_t*>()))>> : std::true_type {};

// Whether a message says if its required fields are set.
template <class M, class = void>
struct SaysIfWhole : std::false_type {};
template <class M>
struct SaysIfWhole<M, std::void_t<decltype(std::declval<const M&>().IsInitialized())>>
    : std::true_type {};

// A message on its way to the library: encoded here, or where its owner has it.
class Encoded {
 public:
  template <class M>
  explicit Encoded(const M& message) {
    if constexpr (std::is_convertible_v<const M&, std::string_view>) {
      view_ = view(message);
    } else {
      const std::size_t size = message.ByteSizeLong();
      if (size > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
        status_ = Status(Code::InvalidArgument, "the message is longer than 2 GiB");
        return;
      }
      char* into = small_;
      if (size > sizeof small_) {
        large_.resize(size);
        into = large_.data();
      }
      if constexpr (KeepsSizes<M>::value) {
        if (size == 0) return;
        message.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(into));
      } else if (!message.SerializeToArray(into, static_cast<int>(size))) {
        status_ = Status(Code::InvalidArgument, "the message cannot be encoded");
      }
      view_ = view(std::string_view(into, size));
    }
  }
  Encoded(const Encoded&) = delete;
  Encoded& operator=(const Encoded&) = delete;

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  nearcall_view get() const { return view_; }

 private:
  // Longer ones are encoded on the heap. Most requests of control interfaces are below 100 bytes.
  char small_[512];
  std::string large_;
  nearcall_view view_{};
  Status status_;
};

template <class M>
Result<M> decode(std::string_view encoded, Code code) {
  Result<M> message(std::in_place);
  // Nothing to parse: it is as it was made.
  if constexpr (SaysIfWhole<M>::value)
    if (encoded.empty() && message->IsInitialized()) return message;
  const bool fits = encoded.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max());
  if (!fits || !message->ParseFromArray(encoded.data(), static_cast<int>(encoded.size())))
    message = Status(code, "the message cannot be decoded: is it of another type?");
  return message;
}

template <class M>
Result<M> decode(Bytes bytes, Code code) {
  if constexpr (std::is_same_v<M, Bytes>) {
    (void)code;
    return bytes;
  } else if constexpr (std::is_same_v<M, std::string>) {
    (void)code;
    return std::string(bytes.view());
  } else {
    return decode<M>(bytes.view(), code);
  }
}

// What a handle names, until it is released by `Free`.
template <class H, nearcall_status* (*Free)(H)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(H taken) : held_(taken) {}
  Handle(Handle&& other) noexcept : held_(std::exchange(other.held_, H{})) {}
  Handle& operator=(Handle&& other) noexcept {
    Handle moved(std::move(other));
    std::swap(held_, moved.held_);
    return *this;
  }
  ~Handle() {
    if (held_.id != 0) nearcall_status_free(Free(held_));
  }
  H get() const { return held_; }
  H release() { return std::exchange(held_, H{}); }

 private:
  H held_{};
};

// What is read one by one, as a range. `Self::receive` gives the next one.
template <class Self, class T>
class Items {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = T*;
    using reference = T&;
    Iterator() = default;
    explicit Iterator(Items* of) : of_(of) { ++*this; }
    T& operator*() const { return *of_->current_; }
    T* operator->() const { return &*of_->current_; }
    Iterator& operator++() {
      if (!of_->advance()) of_ = nullptr;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const { return of_ == other.of_; }
    bool operator!=(const Iterator& other) const { return of_ != other.of_; }

   private:
    Items* of_ = nullptr;
  };

  // Waits for the first item. What is iterated over is not moved meanwhile.
  Iterator begin() { return Iterator(this); }
  Iterator end() { return Iterator(); }
  // How the range has ended: OK, if all items were there.
  const Status& status() const { return status_; }

 private:
  bool advance() {
    auto next = static_cast<Self*>(this)->receive();
    status_ = next.status();
    current_ = next.ok() ? std::move(*next) : std::nullopt;
    return current_.has_value();
  }
  std::optional<T> current_;
  Status status_;
};

template <class M>
Result<std::optional<M>> decode_item(nearcall_status* status, nearcall_bytes item,
                                     std::uint32_t has_item, Code code) {
  if (status != nullptr) return Status::take(status);
  Bytes bytes(item);
  if (has_item == 0) return std::optional<M>();
  auto decoded = decode<M>(std::move(bytes), code);
  if (!decoded.ok()) return decoded.status();
  return std::optional<M>(std::move(*decoded));
}

}  // namespace detail

// What a service has sent beside its reply.
class Metadata {
 public:
  // The first entry with a key among what came before the reply. Valid as long as this.
  std::optional<std::string_view> header(const char* key) const {
    nearcall_view value{};
    if (nearcall_metadata_header(held_.get(), key, &value) == 0) return std::nullopt;
    return detail::text(value);
  }
  // The same among what came with the end of the call.
  std::optional<std::string_view> trailer(const char* key) const {
    nearcall_view value{};
    if (nearcall_metadata_trailer(held_.get(), key, &value) == 0) return std::nullopt;
    return detail::text(value);
  }
  // All that came before the reply. Valid as long as this.
  std::vector<Entry> headers() const { return all(nearcall_metadata_header_at); }
  // All that came with the end of the call.
  std::vector<Entry> trailers() const { return all(nearcall_metadata_trailer_at); }
  // For a function of nearcall.h, which sets it.
  nearcall_metadata** out() {
    held_.reset();
    return &raw_;
  }
  void filled() { held_.reset(std::exchange(raw_, nullptr)); }

 private:
  struct Free {
    void operator()(nearcall_metadata* metadata) const { nearcall_metadata_free(metadata); }
  };
  using EntryAt = std::uint32_t(const nearcall_metadata*, std::size_t, nearcall_view*,
                                nearcall_view*);
  std::vector<Entry> all(EntryAt* entry_at) const {
    return detail::entries([&](std::size_t number, nearcall_view* key, nearcall_view* value) {
      return entry_at(held_.get(), number, key, value);
    });
  }
  std::unique_ptr<nearcall_metadata, Free> held_;
  nearcall_metadata* raw_ = nullptr;
};

namespace detail {

template <class M>
Result<M> decode_reply(nearcall_status* status, nearcall_bytes reply, Metadata* metadata) {
  if (metadata != nullptr) metadata->filled();
  if (status != nullptr) return Status::take(status);
  return decode<M>(Bytes(reply), Code::Internal);
}

}  // namespace detail

}  // namespace nearcall

#endif  // NEARCALL_BASE_HPP
