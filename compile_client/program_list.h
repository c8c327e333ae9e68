// Iterates over the programs that a server lists. Pages are fetched as they are needed, so that
// memory does not grow with the store.
#pragma once

#include <deque>

#include "compile_client/rpc_client.h"

namespace hpu::client {

class ProgramList {
 public:
  // Lists at most `limit` programs, 0 = all. With `upstream`, the programs of the servers that the
  // server asks follow its own. `client` must live longer.
  ProgramList(RpcClient* client, uint32_t limit, bool upstream)
      : client_(client), left_(limit == 0 ? UINT64_MAX : limit), upstream_(upstream) {}

  // Returns the programs newest first, and nothing at the end. May wait for a page.
  absl::StatusOr<std::optional<Listed>> Next(const Interrupt& interrupt);

 private:
  absl::Status FetchPage(const Interrupt& interrupt);

  RpcClient* const client_;
  uint64_t left_;
  const bool upstream_;
  bool complete_ = false;
  ListQuery query_;
  std::deque<Listed> page_;
};

}  // namespace hpu::client
