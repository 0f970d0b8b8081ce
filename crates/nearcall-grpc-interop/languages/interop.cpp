// The suite of all languages in C++: its client and its server, by generated code.
//
//   interop client ADDRESS    does what the lines of its input say
//   interop server ADDRESS    serves until its input ends; prints "ready ADDRESS"
//
// Invariants: each line is answered by one line.
// Not here: what the lines mean (src/languages/cases.rs).

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "conformance/v1/notes.nearcall.hpp"
#include "grpc/testing/test.nearcall.hpp"

namespace {

using namespace std::chrono_literals;
using namespace grpc::testing;
using nearcall::Call;
using nearcall::CallOptions;
using nearcall::Code;
using nearcall::Result;
using nearcall::Status;
using Nothing = google::protobuf::Empty;

constexpr auto kPatience = 60s;
constexpr const char* kEchoInitial = "x-grpc-test-echo-initial";
constexpr const char* kEchoTrailing = "x-grpc-test-echo-trailing-bin";
constexpr const char* kCacheControl = "max-age=60, public";

// A payload of zeros, in a message that has one.
template <class M>
M with_zeros(int size) {
  M message;
  message.mutable_payload()->set_body(std::string(static_cast<std::size_t>(size), '\0'));
  return message;
}

std::string hex(std::string_view bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += digits[static_cast<unsigned char>(byte) >> 4];
    text += digits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

// -- The client. A call that fails throws an Error, which `run` prints. --

using Words = std::vector<std::string>;
using Duplex = nearcall::BothStreams<StreamingOutputCallRequest, StreamingOutputCallResponse>;

int number(const std::string& word) { return std::stoi(word); }

std::chrono::milliseconds milliseconds(const std::string& word) {
  return std::chrono::milliseconds(number(word));
}

[[noreturn]] void complain(const char* text) {
  throw nearcall::Error(Status(Code::DataLoss, text));
}

// The size of the payload of a reply, which must consist of zeros.
template <class M>
std::string check_zeros(const M& message) {
  const std::string& body = message.payload().body();
  if (std::any_of(body.begin(), body.end(), [](char byte) { return byte != 0; }))
    complain("a payload does not consist of zeros");
  return std::to_string(body.size());
}

template <class T>
std::string check(const Result<T>& result) {
  result.value();
  return {};
}

// The items that are left, as their sizes.
template <class Stream>
std::string read_rest(Stream& replies) {
  std::string sizes;
  for (const auto& reply : replies) sizes += (sizes.empty() ? "" : " ") + check_zeros(reply);
  Result<void>(replies.status()).value();
  return sizes;
}

// A request such as 27182:31415: a payload of 27182 bytes for a reply of 31415.
StreamingOutputCallRequest request_of(const std::string& turn) {
  auto request = with_zeros<StreamingOutputCallRequest>(number(turn));
  request.add_response_parameters()->set_size(number(turn.substr(turn.find(':') + 1)));
  return request;
}

std::string exchange(Duplex& call, const std::string& turn) {
  call.send(request_of(turn)).value();
  const auto reply = call.receive().value();
  if (!reply) complain("the replies have ended");
  return check_zeros(*reply);
}

template <class M>
M with_status(const Words& words) {
  M message;
  message.mutable_response_status()->set_code(number(words[1]));
  message.mutable_response_status()->set_message(bytes_of(words[2]));
  return message;
}

CallOptions echo_options(const Words& words) {
  return CallOptions().metadata(kEchoInitial, words[1]).metadata(kEchoTrailing, bytes_of(words[2]));
}

std::string echoes(const nearcall::Metadata& headers, const nearcall::Metadata& trailers) {
  const auto text = headers.header(kEchoInitial), bytes = trailers.trailer(kEchoTrailing);
  if (!text || !bytes) complain("what was sent has not come back");
  return std::string(*text) + " " + hex(*bytes);
}

std::string name_of(nearcall::Notice::Cause cause) {
  using Cause = nearcall::Notice::Cause;
  switch (cause) {
    case Cause::Exited: return "exited";
    case Cause::Killed: return "killed";
    case Cause::Closed: return "closed";
    case Cause::Replaced: return "replaced";
    case Cause::Unresponsive: return "unresponsive";
    default: return "lost";
  }
}

class Calls {
 public:
  explicit Calls(std::string address)
      : address_(std::move(address)),
        client_(nearcall::Client::create(options()).value()),
        service_(TestServiceCaller::create(client_, address_).value()),
        unimplemented_(UnimplementedServiceCaller::create(client_, address_).value()),
        notes_(conformance::v1::NotesCaller::create(client_, address_).value()) {}

  // Does what a line says, and returns its results.
  std::string execute(const Words& words) {
    const std::string& name = words[0];
    const auto is = [&](const char* wanted, std::size_t arguments) {
      return name == wanted && words.size() == 1 + arguments;
    };
    if (is("empty", 0)) return check(service_.empty_call({}));
    if (is("unary", 2)) return unary(number(words[1]), number(words[2]));
    if (is("unary-metadata", 2)) return unary_metadata(words);
    if (is("unary-status", 2)) return check(service_.unary_call(with_status<SimpleRequest>(words)));
    if (is("cacheable", 1)) return cacheable(words);
    if (name == "input") return input(words);
    if (name == "output" && words.size() > 1) return output(words);
    if (name == "ping-pong") return ping_pong(words);
    if (name == "half-duplex") return half_duplex(words);
    if (is("duplex-metadata", 2)) return duplex_metadata(words);
    if (is("duplex-status", 2))
      return duplex_of(with_status<StreamingOutputCallRequest>(words), {});
    if (is("duplex-deadline", 1))
      return duplex_of(with_zeros<StreamingOutputCallRequest>(27182),
                       CallOptions().deadline(milliseconds(words[1])));
    if (is("unimplemented-method", 0)) return check(service_.unimplemented_call({}));
    if (is("unimplemented-service", 0)) return check(unimplemented_.unimplemented_call({}));
    // A stream that is destroyed before its end cancels its call.
    if (is("cancel-after-begin", 0)) return check(service_.streaming_input_call());
    if (is("cancel-after-first", 0)) return cancel_after_first();
    if (is("soak", 3)) return soak(words);
    if (is("reconnect-soak", 3)) return reconnect_soak(words);
    if (is("time", 2)) return time_calls(number(words[1]), number(words[2]));
    if (is("note", 1)) return leave_note(words);
    if (is("keep", 1)) return keep_note(words);
    if (is("notes", 0)) return std::to_string(notes_.count({})->notes());
    if (is("sleep", 2)) return sleep(words);
    if (is("hunt", 1)) return check(client_.hunt(address_, milliseconds(words[1])));
    if (is("attach", 0)) return attach();
    if (is("notice", 1)) return name_of(attachment_.value().wait(milliseconds(words[1]))->cause);
    if (is("switch", 1)) return check(client_.switch_to(address_, words[1], kPatience));
    if (name == "switching") return switching(words);
    throw std::invalid_argument("there is no such command");
  }

 private:
  static nearcall::ClientOptions options() {
    nearcall::ClientOptions options;
    options.deadline = kPatience;
    return options;
  }

  std::string unary(int request_size, int reply_size) {
    auto request = with_zeros<SimpleRequest>(request_size);
    request.set_response_size(reply_size);
    return check_zeros(*service_.unary_call(request));
  }

  std::string unary_metadata(const Words& words) {
    nearcall::Metadata metadata;
    service_.unary_call(with_zeros<SimpleRequest>(1), echo_options(words), &metadata).value();
    return echoes(metadata, metadata);
  }

  std::string cacheable(const Words& words) {
    nearcall::Metadata metadata;
    const auto request = with_zeros<SimpleRequest>(number(words[1]));
    const auto reply = service_.cacheable_unary_call(request, {}, &metadata).value();
    return check_zeros(reply) + " " + hex(metadata.trailer("cache-control").value_or(""));
  }

  std::string input(const Words& words) {
    auto call = service_.streaming_input_call().value();
    for (std::size_t i = 1; i < words.size(); i++)
      call.send(with_zeros<StreamingInputCallRequest>(number(words[i]))).value();
    return std::to_string(call.finish()->aggregated_payload_size());
  }

  std::string output(const Words& words) {
    StreamingOutputCallRequest request;
    for (std::size_t i = 2; i < words.size(); i++) {
      auto* parameters = request.add_response_parameters();
      parameters->set_size(number(words[i]));
      parameters->set_interval_us(number(words[1]));
    }
    auto replies = service_.streaming_output_call(request).value();
    return read_rest(replies);
  }

  std::string ping_pong(const Words& words) {
    auto call = service_.full_duplex_call().value();
    std::string sizes;
    for (std::size_t i = 1; i < words.size(); i++)
      sizes += (i > 1 ? " " : "") + exchange(call, words[i]);
    call.finish().value();
    read_rest(call);
    return sizes;
  }

  // Moves the connection after each reply, while the call goes on.
  std::string switching(const Words& mechanisms) {
    auto call = service_.full_duplex_call().value();
    std::string sizes = exchange(call, "8:9");
    for (std::size_t i = 1; i < mechanisms.size(); i++) {
      client_.switch_to(address_, mechanisms[i], kPatience).value();
      sizes += " " + exchange(call, "8:9");
    }
    call.finish().value();
    read_rest(call);
    return sizes;
  }

  std::string half_duplex(const Words& words) {
    auto call = service_.half_duplex_call().value();
    for (std::size_t i = 1; i < words.size(); i++) call.send(request_of(words[i])).value();
    call.finish().value();
    return read_rest(call);
  }

  std::string duplex_metadata(const Words& words) {
    auto call = service_.full_duplex_call(echo_options(words)).value();
    call.send(request_of("1:1")).value();
    call.finish().value();
    const auto headers = call.headers().value();
    read_rest(call);
    return echoes(headers, call.trailers().value());
  }

  // Sends one request, and reads the replies to the end of the call.
  std::string duplex_of(const StreamingOutputCallRequest& request, const CallOptions& options) {
    auto call = service_.full_duplex_call(options).value();
    call.send(request).value();
    return read_rest(call);
  }

  std::string cancel_after_first() {
    auto call = service_.full_duplex_call().value();
    exchange(call, "27182:31415");
    return {};
  }

  std::string soak(const Words& words) {
    for (int i = 0; i < number(words[1]); i++) unary(number(words[2]), number(words[3]));
    return words[1];
  }

  std::string reconnect_soak(const Words& words) {
    for (int i = 0; i < number(words[1]); i++)
      Calls(address_).unary(number(words[2]), number(words[3]));
    return words[1];
  }

  std::string time_calls(int calls, int size) {
    auto request = with_zeros<SimpleRequest>(size);
    request.set_response_size(size);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; i++) {
      if (size == 0) (void)service_.empty_call({}).value();
      else (void)service_.unary_call(request).value();
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    return std::to_string(took.count() / calls);
  }

  std::string leave_note(const Words& words) {
    conformance::v1::Note note;
    note.set_text(words[1]);
    return check(notes_.leave(note));
  }

  std::string keep_note(const Words& words) {
    conformance::v1::Note note;
    note.set_text(words[1]);
    return std::to_string(notes_.keep(note)->notes());
  }

  std::string sleep(const Words& words) {
    conformance::v1::SleepRequest request;
    request.set_milliseconds(static_cast<std::uint32_t>(number(words[1])));
    return check(notes_.sleep(request, CallOptions().deadline(milliseconds(words[2]))));
  }

  std::string attach() {
    attachment_ = client_.attach(address_).value();
    return {};
  }

  std::string address_;
  nearcall::Client client_;
  TestServiceCaller service_;
  UnimplementedServiceCaller unimplemented_;
  conformance::v1::NotesCaller notes_;
  std::optional<nearcall::Attachment> attachment_;
};

std::string answer(Calls& calls, const Words& words) {
  try {
    const std::string results = calls.execute(words);
    return results.empty() ? "OK" : "OK " + results;
  } catch (const nearcall::Error& error) {
    const Status& status = error.status();
    return nearcall::code_name(status.code()) + (" " + hex(status.message()));
  } catch (const std::invalid_argument& error) {
    return nearcall::code_name(Code::InvalidArgument) + (" " + hex(error.what()));
  }
}

int run_client(const std::string& address) {
  Calls calls(address);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream from(line);
    Words words;
    for (std::string word; from >> word;) words.push_back(word);
    // An empty line is answered as well.
    if (words.empty()) words.emplace_back();
    std::cout << answer(calls, words) << std::endl;
  }
  return 0;
}

// -- The server. --

// How a call ends whose request asks for an error.
template <class M>
Status status_of(const M& request) {
  const auto& wanted = request.response_status();
  return {static_cast<Code>(wanted.code()), wanted.message()};
}

void echo_metadata(Call& call) {
  if (const auto text = call.metadata(kEchoInitial)) call.add_header(kEchoInitial, *text).value();
  if (const auto bytes = call.metadata(kEchoTrailing))
    call.add_trailer(kEchoTrailing, *bytes).value();
}

using Requests = nearcall::ItemReceiver<StreamingOutputCallRequest>;
using Replies = nearcall::ItemSender<StreamingOutputCallResponse>;

Status send_replies(const StreamingOutputCallRequest& request, Replies replies) {
  for (const auto& parameters : request.response_parameters()) {
    std::this_thread::sleep_for(std::chrono::microseconds(parameters.interval_us()));
    const auto reply = with_zeros<StreamingOutputCallResponse>(parameters.size());
    if (auto sent = replies.send(reply); !sent.ok()) return sent.status();
  }
  return {};
}

// Has a thread serve a call that waits; `serve` returns how it ends.
template <class Serve>
Status in_thread(Call& call, Serve serve) {
  auto later = call.defer();
  if (!later.ok()) return later.status();
  std::thread([later = std::move(*later), serve = std::move(serve)]() mutable {
    const Status status = serve(later);
    // One that the service has answered, or whose caller is gone, has no other end.
    if (!status.ok()) (void)later.fail(status);
  }).detach();
  return nearcall::answered_later();
}

class TestService : public grpc::testing::TestServiceService {
  Result<Empty> empty_call(Call&, const Empty&) override { return Empty(); }

  Result<SimpleResponse> unary_call(Call& call, const SimpleRequest& request) override {
    echo_metadata(call);
    if (auto status = status_of(request); !status.ok()) return status;
    return with_zeros<SimpleResponse>(request.response_size());
  }

  Result<SimpleResponse> cacheable_unary_call(Call& call, const SimpleRequest& request) override {
    call.add_trailer("cache-control", kCacheControl).value();
    SimpleResponse reply;
    *reply.mutable_payload() = request.payload();
    return reply;
  }

  Result<void> streaming_output_call(Call& call, const StreamingOutputCallRequest& request,
                                     Replies replies) override {
    return in_thread(call, [=](nearcall::DeferredCall& later) {
      const Status status = send_replies(request, replies);
      return status.ok() ? later.finish().status() : status;
    });
  }

  Result<StreamingInputCallResponse> streaming_input_call(
      Call& call, nearcall::ItemReceiver<StreamingInputCallRequest> requests) override {
    return in_thread(call, [=](nearcall::DeferredCall& later) mutable {
      std::size_t sum = 0;
      for (const auto& request : requests) sum += request.payload().body().size();
      if (!requests.status().ok()) return requests.status();
      StreamingInputCallResponse reply;
      reply.set_aggregated_payload_size(static_cast<std::int32_t>(sum));
      return later.reply(reply).status();
    });
  }

  Result<void> full_duplex_call(Call& call, Requests requests, Replies replies) override {
    echo_metadata(call);
    return in_thread(call, [=](nearcall::DeferredCall& later) mutable {
      for (const auto& request : requests) {
        if (auto status = status_of(request); !status.ok()) return status;
        if (auto status = send_replies(request, replies); !status.ok()) return status;
      }
      return requests.status().ok() ? later.finish().status() : requests.status();
    });
  }

  Result<void> half_duplex_call(Call& call, Requests requests, Replies replies) override {
    return in_thread(call, [=](nearcall::DeferredCall& later) mutable {
      std::vector<StreamingOutputCallRequest> kept;
      for (auto& request : requests) kept.push_back(std::move(request));
      if (!requests.status().ok()) return requests.status();
      for (const auto& request : kept)
        if (auto status = send_replies(request, replies); !status.ok()) return status;
      return later.finish().status();
    });
  }

  Result<Empty> unimplemented_call(Call&, const Empty&) override {
    return Status(Code::Unimplemented, "this method is not implemented");
  }
};

class Notes : public conformance::v1::NotesService {
  void leave(Call&, const conformance::v1::Note&) override { notes_++; }

  Result<conformance::v1::CountReply> keep(Call&, const conformance::v1::Note&) override {
    return reply_with(++notes_);
  }

  Result<conformance::v1::CountReply> count(Call&, const Nothing&) override {
    return reply_with(notes_);
  }

  static conformance::v1::CountReply reply_with(std::uint32_t notes) {
    conformance::v1::CountReply reply;
    reply.set_notes(notes);
    return reply;
  }

  Result<Nothing> sleep(Call& call, const conformance::v1::SleepRequest& request) override {
    return in_thread(call, [=](nearcall::DeferredCall& later) {
      const auto end = std::chrono::steady_clock::now() +
                       std::chrono::milliseconds(request.milliseconds());
      while (std::chrono::steady_clock::now() < end && !later.is_cancelled())
        std::this_thread::sleep_for(1ms);
      return later.reply(Nothing()).status();
    });
  }

  std::atomic<std::uint32_t> notes_{0};
};

int run_server(const std::string& address) {
  auto server = nearcall::Server::builder()
                    .register_service(std::make_shared<TestService>())
                    .register_service(std::make_shared<Notes>())
                    .listen(address)
                    .start()
                    .value();
  std::cout << "ready " << server.address().value() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {}
  server.drain(kPatience).value();
  return 0;
}

}  // namespace

int main(int count, char** arguments) try {
  const std::string mode = count > 2 ? arguments[1] : "";
  if (mode == "client") return run_client(arguments[2]);
  if (mode == "server") return run_server(arguments[2]);
  std::cerr << "usage: interop client ADDRESS | interop server ADDRESS\n";
  return 2;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
