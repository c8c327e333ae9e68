// One client of a compile server: calls about programs of the fake compiler, and the result of each
// call.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "compile_client/rpc_client.h"

namespace hpu::cluster {

struct Outcome {
  std::string origin;  // compiled, coalesced, store, miss or error
  bool right = false;  // the program is the one that the fake compiler makes from this graph
  std::string error;
  double milliseconds = 0;
};

class Caller {
 public:
  virtual ~Caller() = default;
  virtual Outcome Get(uint64_t number) = 0;
  virtual Outcome Compile(uint64_t number) = 0;
};

struct CallerOptions {
  client::ServerSet::Options servers;
  std::string keyring;   // file of public keys; empty with a unix socket: "<socket>.pub"
  std::string build_id;  // of the compiler that is wanted
  std::string says;      // text for the compiler; the graph of number N says this and " #N"
  bool check = true;     // compare every program with what the compiler makes
  bool raw = false;  // take the received bytes as they are, without checking signature and digest
  std::chrono::milliseconds timeout{60'000};
};

std::unique_ptr<Caller> MakeCaller(const CallerOptions& options);

}  // namespace hpu::cluster
