// grpc.testing.TestService by grpc++ over a Unix socket, and a client that measures it.
//
// grpc_calls server ADDRESS DESCRIPTORS   serves until its input ends; prints "ready ADDRESS"
// grpc_calls client ADDRESS                for each line "time CALLS BYTES": nanoseconds of a call
//
// Not here: the same by nearcall (../interop.cpp), how is measured (src/languages/bench.rs).

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

#include "grpc/testing/test.grpc.pb.h"

namespace {

using grpc::ServerContext;
using grpc::Status;
using grpc::testing::Empty;
using grpc::testing::SimpleRequest;
using grpc::testing::SimpleResponse;
using grpc::testing::TestService;

class Service final : public TestService::Service {
  Status EmptyCall(ServerContext*, const Empty*, Empty*) override { return Status::OK; }
  Status UnaryCall(ServerContext*, const SimpleRequest* request, SimpleResponse* reply) override {
    const auto size = static_cast<std::size_t>(request->response_size());
    reply->mutable_payload()->set_body(std::string(size, '\0'));
    return Status::OK;
  }
};

int serve(const std::string& address) {
  Service service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::cout << "ready " << address << std::endl;
  for (std::string line; std::getline(std::cin, line);) {}
  server->Shutdown();
  return 0;
}

Status call(TestService::Stub& stub, int bytes) {
  grpc::ClientContext context;
  if (bytes == 0) {
    Empty reply;
    return stub.EmptyCall(&context, Empty(), &reply);
  }
  SimpleRequest request;
  request.set_response_size(bytes);
  request.mutable_payload()->set_body(std::string(static_cast<std::size_t>(bytes), '\0'));
  SimpleResponse reply;
  return stub.UnaryCall(&context, request, &reply);
}

int measure(const std::string& address) {
  const auto stub =
      TestService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  std::string word;
  for (int calls = 0, bytes = 0; std::cin >> word >> calls >> bytes;) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; i++) {
      const Status status = call(*stub, bytes);
      if (!status.ok()) return std::cerr << status.error_message() << '\n', 1;
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    std::cout << "OK " << took.count() / calls << std::endl;
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string verb = count > 2 ? arguments[1] : "";
  if (verb == "server") return serve(arguments[2]);
  if (verb == "client") return measure(arguments[2]);
  return std::cerr << "usage: grpc_calls server|client ADDRESS\n", 2;
}
